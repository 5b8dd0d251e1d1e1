// Below the panes: kernels, decisions, graph breaks and the measurement, behind tabs.

import { blob } from "./blobs.mjs";
import { code, h, replace, rove } from "./dom.mjs";
import { table } from "./figures.mjs";
import { measure } from "./measure.mjs";
import { duration, t } from "./text.mjs";

const TABS = ["kernels", "decisions", "breaks", "measure"];
const PANELS = { kernels, decisions, breaks, measure };

export function dock(state, act) {
  const now = state.view.tab;
  const buttons = TABS.map((tab) => h("button", {
    role: "tab", id: `tab-${tab}`, type: "button", "aria-selected": String(tab === now),
    "aria-controls": "dock-panel", tabindex: tab === now ? 0 : -1,
    onclick: () => act.tab(tab),
    onkeydown: (event) => rove(event, buttons, true, (k) => act.tab(TABS[k])),
  }, t(`tab.${tab}`), count(state, tab)));
  return h("section", { class: "dock", "aria-label": t("dock.title") },
    h("div", { role: "tablist", "aria-label": t("dock.title") }, buttons),
    h("div", { role: "tabpanel", id: "dock-panel", "aria-labelledby": `tab-${now}`, class: "panel" },
      PANELS[now](state, act)));
}

function count(state, tab) {
  const { trace, kernels: digests } = state.result;
  const n = { kernels: digests.length, decisions: trace.decisions.length, breaks: trace.breaks.length }[tab];
  return n === undefined ? null : ` (${n})`;
}

// ---- kernels -------------------------------------------------------------------------------------

const VIEWS = ["tree", "source", "llvm", "assembly"];

function kernels(state, act) {
  const digests = state.result.kernels;
  if (digests.length === 0) return h("p", null, t("kernels.none"));
  const host = h("div", { class: "kernels" }, h("p", { class: "hint" }, t("pane.loading")));
  Promise.all(digests.map(blob)).then(
    (found) => replace(host, kernelView(state, found)),
    (failure) => act.fail(failure.error ?? { message: "blob.gone", parameters: {} }));
  return host;
}

function kernelView(state, found) {
  const at = Math.min(state.kernel, found.length - 1);
  const host = h("div", { class: "kernel" });
  const show = () => replace(host, listing(found[Math.min(state.kernel, found.length - 1)], state, show));
  const choice = h("div", { class: "field row" },
    h("label", { for: "kernel-choice" }, t("kernels.choose")),
    h("select", { id: "kernel-choice", onchange: (event) => { state.kernel = Number(event.target.value); show(); } },
      found.map((k, i) => h("option", { value: i, selected: i === at, translate: "no" },
        [k.name, ...(k.origins ?? [])].join(" ")))));
  show();
  return [choice, host];
}

function listing(kernel, state, show) {
  const now = kernel[state.listing] ? state.listing : VIEWS.find((v) => kernel[v]) ?? "tree";
  const there = VIEWS.filter((v) => kernel[v]);
  const buttons = there.map((view) => h("button", {
    role: "tab", id: `listing-${view}`, type: "button", "aria-selected": String(view === now),
    "aria-controls": "listing-panel", tabindex: view === now ? 0 : -1,
    onclick: () => { state.listing = view; show(); },
    onkeydown: (event) => rove(event, buttons, true, (k) => { state.listing = there[k]; show(); }),
  }, t(`listing.${view}`)));
  return [
    h("p", { class: "hint" }, t("kernels.origins"), " ", (kernel.origins ?? []).map((o) => [code(o), " "])),
    h("div", { role: "tablist", "aria-label": t("kernels.listings") }, buttons),
    h("div", { role: "tabpanel", id: "listing-panel", "aria-labelledby": `listing-${now}` },
      now === "tree" ? h("p", { class: "hint" }, t("kernels.tree.hint")) : null,
      h("pre", { class: "listing", translate: "no", tabindex: 0, "aria-label": `${kernel.name}, ${t(`listing.${now}`)}` },
        numbered(kernel[now]))),
  ];
}

function numbered(text) {
  return text.replace(/\n$/, "").split("\n").map((line, k) => h("span", { class: "listing-line" },
    h("span", { class: "number", "aria-hidden": "true" }, k + 1), line, "\n"));
}

// ---- decisions and breaks ------------------------------------------------------------------------

function decisions(state) {
  const found = state.result.trace.decisions;
  if (found.length === 0) return h("p", null, t("decisions.none"));
  const head = ["a", "b", "verdict", "rule", "why", "before", "after", "gain"].map((k) => t(`decisions.${k}`));
  return [
    h("p", { class: "hint" }, t("decisions.hint")),
    table(t("tab.decisions"), head, found.map((d) => [
      code(d.a), code(d.b),
      h("span", { class: `verdict ${d.verdict}` },
        h("span", { "aria-hidden": "true" }, d.verdict === "merged" ? "✓ " : "◆ "), t(`verdict.${d.verdict}`)),
      code(d.rule), t(d.message, d.parameters), code(d.bytes_before), code(d.bytes_after),
      duration(d.gain * 1e3),
    ])),
  ];
}

function breaks(state) {
  const found = state.result.trace.breaks;
  if (found.length === 0) return h("p", null, t("breaks.none"));
  const head = ["node", "op", "reason"].map((k) => t(`breaks.${k}`));
  return [
    h("p", { class: "hint" }, t("breaks.hint")),
    table(t("tab.breaks"), head, found.map((b) => [code(b.node), code(b.op), t(b.reason, b.parameters)])),
  ];
}
