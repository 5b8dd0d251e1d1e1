// One kernel in all its forms: loop tree, Numba source, LLVM, assembly, PTX; lines light their ops.

import { code, h, replace, rove } from "../../dom.mjs";
import { t } from "../../text.mjs";
import { createListing } from "../listing.mjs";
import { isLit, ofKernel, ofLine, relates } from "../selection.mjs";
import { kernelOf } from "../sides.mjs";
import { atSizes, copyButton, dataTable, moved, moves, saveButton } from "../tables.mjs";

const VIEWS = ["both", "tree", "source", "llvm", "assembly", "ptx"];
const ENDS = { tree: "txt", source: "py", llvm: "ll", assembly: "s", ptx: "ptx" };
const WIDE = 760;

export function create({ shell, store, act, sample }) {
  const head = h("div", { class: "kernel-head" });
  const listings = [0, 1].map(() => createListing((line) => { if (line.origins?.length) act.select(ofLine(line)); }, (line) => act.hover(line?.origins)));
  const frames = listings.map((listing) => h("div", { class: "text-side" }, listing.element));
  const body = h("div", { class: "texts", id: "kernel-listing", hidden: true }, frames);
  const element = h("div", { class: "kernels" }, head, body);
  let view = "both", drawn = "", followed = null;
  const held = { compile: null, name: null, kernel: null, plan: null };
  new ResizeObserver(() => { if (held.kernel) show(store.get(), true); }).observe(element);

  /** Fetch what is missing; draw when it is there. */
  function draw(state, changed = new Set()) {
    if (state.compile === null) return;
    if (changed.size === 1 && changed.has("hover")) { light(state); return; }
    const { compile } = state;
    const name = compile.kernelNames.includes(state.kernel) ? state.kernel : compile.kernelNames[0];
    if (name === undefined) {
      replace(head, h("p", null, t(compile.whole ? "kernels.none" : "dock.unfinished")));
      body.hidden = true;
      return;
    }
    if (held.compile !== compile || held.name !== name) {
      Object.assign(held, { compile, name, kernel: null });
      Promise.all([compile.kernel(name), compile.plan()]).then(([kernel, plan]) => {
        if (held.compile !== compile || held.name !== name) return;
        Object.assign(held, { kernel, plan });
        draw(store.get());
      }, (error) => act.fail(error.error ?? { message: "blob.gone", parameters: {} }));
    }
    body.hidden = held.kernel === null;
    if (held.kernel === null) {
      replace(head, h("p", { class: "hint" }, t("pane.loading")));
      return;
    }
    if (state.selection !== followed) {
      followed = state.selection;
      const found = kernelOf(held.plan, compile, state.selection);
      if (found !== null && found !== name) { act.kernel(found); return; }
    }
    show(state);
  }

  function light(state) {
    for (const listing of listings) listing.light((line) => isLit(state.hover, line.origins));
  }

  function show(state, resized = false) {
    const { kernel, compile } = held;
    const wide = element.clientWidth >= WIDE;
    const there = VIEWS.filter((name) => (name === "both" ? wide && kernel.source.length > 0 : kernel[name]?.length > 0));
    const now = there.includes(view) ? view : there.find((name) => name === "source") ?? there[0];
    if (resized && drawn === `${kernel.name} ${now}`) return;
    top(state, there, now);
    const forms = now === "both" ? ["tree", "source"] : [now];
    body.classList.toggle("single", forms.length === 1);
    frames[1].hidden = forms.length === 1;
    forms.forEach((form, k) => {
      const lines = lined(kernel, form).map((line, j) => ({
        ...line, text: line.text.replaceAll("\t", "  "), number: j + 1,
        picked: state.selection?.kind === "kernel" ? "" : relates(state.selection, line.origins) ? "related" : "",
      }));
      const label = `${kernel.name}, ${t(`listing.${form}`)}`;
      listings[k].show(lines, label, drawn === `${kernel.name} ${now}`);
      const first = lines.findIndex((line) => line.picked);
      if (first >= 0 && !listings[k].element.contains(element.getRootNode().activeElement)) listings[k].reveal(first);
    });
    light(state);
    drawn = `${kernel.name} ${now}`;
  }

  function top(state, there, now) {
    const { kernel, plan, compile } = held;
    const sizes = compile.sizes(state.bound, sample());
    const steps = plan.steps.filter((step) => step.kind === "kernel" && step.name === kernel.name);
    const buttons = there.map((name) => h("button", {
      type: "button", role: "tab", id: `listing-${name}`, "aria-selected": String(name === now), "aria-controls": "kernel-listing",
      tabindex: name === now ? 0 : -1, onclick: () => turn(name),
      onkeydown: (event) => rove(event, [...event.currentTarget.parentElement.children], true, (k) => turn(there[k])),
    }, t(`listing.${name}`)));
    const form = now === "both" ? "source" : now;
    const text = () => `${lined(kernel, form).map((line) => line.text).join("\n")}\n`;
    const file = `${kernel.name.replace(/[^\w.-]+/g, "_")}.${ENDS[form]}`;
    replace(head,
      h("div", { class: "row" },
        h("label", { for: "kernel-choice" }, t("kernels.choose")),
        h("select", { id: "kernel-choice", translate: "no", onchange: (event) => choose(event.target.value) },
          compile.kernelNames.map((name) => h("option", { value: name, selected: name === kernel.name }, name))),
        h("button", { type: "button", id: "kernel-select", "aria-pressed": String(state.selection?.kind === "kernel" && state.selection.key === kernel.name),
          onclick: () => act.select(ofKernel(kernel.name, kernel.origins)) }, t("kernels.select")),
        h("div", { role: "tablist", class: "forms", "aria-label": t("kernels.listings") }, buttons),
        h("span", { class: "spring" }),
        copyButton(shell, "kernel-copy", text, t("copy.copy"), t("copy.of", { name: `${kernel.name}, ${t(`listing.${form}`)}` })),
        saveButton("kernel-save", file, text, t("copy.save"), t("copy.save.of", { name: file }))),
      figures(steps, sizes),
      compile.trace.kernels?.fused < compile.kernelNames.length
        ? h("p", { class: "hint" }, t("kernels.distinct", { n: compile.kernelNames.length, distinct: compile.trace.kernels.fused })) : null,
      h("div", { class: "row notes" }, atSizes(sizes), bounded(steps) ? h("p", { class: "hint" }, t("kernels.most.hint")) : null,
        now === "tree" || now === "both" ? h("p", { class: "hint" }, t("kernels.tree.hint"))
          : now === "ptx" && kernel.ptx.some((line) => line.origins.length) ? h("p", { class: "hint" }, t("kernels.ptx.hint")) : null));
  }

  function turn(name) {
    view = name;
    show(store.get());
    head.querySelector(`#listing-${name}`)?.focus();
  }

  function choose(name) {
    held.compile.kernel(name).then((kernel) => act.select(ofKernel(name, kernel.origins)));
  }

  /** What each launch must read and write; one launch in a line, several in a table. */
  function figures(steps, sizes) {
    if (steps.length === 0) return null;
    if (steps.length === 1) {
      const [step] = steps;
      return h("p", { class: "figures" }, moved(step, "reads"), " ", moves(step, "reads", sizes), " · ",
        moved(step, "writes"), " ", moves(step, "writes", sizes));
    }
    return h("details", { id: "kernel-steps" }, h("summary", null, t("kernels.steps", { n: steps.length })),
      dataTable({ id: "steps-table", caption: t("kernels.steps", { n: steps.length }), rows: steps, columns: [
        { key: "values", label: t("kernels.values"), cell: (step) => step.values.map((v) => [code(v), " "]) },
        ...["reads", "writes"].map((key) => ({ key, label: moved(steps[0], key), cell: (step) => moves(step, key, sizes) })),
      ] }));
  }

  return { element, keys: ["compile", "kernel", "selection", "hover", "bound"], draw };
}

/** Whether the bytes of the launches are bounds: known, but not proved to be the number itself. */
const bounded = (steps) => steps.some((step) => step.floor !== null && !step.exact);

/** The lines of a form, with origins where it has any. */
function lined(kernel, form) {
  const found = kernel[form];
  return Array.isArray(found) ? found : found.replace(/\n$/, "").split("\n").map((text) => ({ text }));
}
