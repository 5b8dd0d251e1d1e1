// Every attempt to merge two groups, with its reason; the reader may force or forbid a pair.
//
// Buttons above the table show all attempts, the merged, or the refused alone, each with its number.

import { code, h, keepFocus, replace } from "../../dom.mjs";
import { duration, known, number, t } from "../../text.mjs";
import { evaluate } from "../../dims.mjs";
import { about, letBe, overrule, overruled } from "../decide.mjs";
import { print } from "../pipeline_text.mjs";
import { amount, dataTable, pick, sizesText } from "../tables.mjs";

const VERDICTS = ["", "merged", "refused"];

export function create({ shell, store, act, sample }) {
  const content = h("div", { class: "decisions" });
  const other = pairForm((word, pair) => {
    const { asked, compile } = store.get();
    again(overrule(asked.pipeline, compile.trace.pipeline, word, pair));
  });
  const element = h("div", { class: "decisions" }, content, other.element);
  let sort = null, verdict = "";   // what the reader sees; "" is every verdict

  const again = (pipeline) => act.again({ pipeline: print(pipeline), drift: false });

  function draw(state) {
    const { compile, asked, selection } = state;
    const { trace } = compile;
    const sizes = compile.sizes(state.bound, sample());
    const busy = state.job !== null;
    const now = overruled(asked.pipeline);
    const fuse = compile.passes.findIndex((pass) => pass.name === "fuse");
    const before = fuse >= 0 ? compile.states(fuse, null)[0] : null;
    const originsOf = (name) => before?.byKey.get(name)?.origins ?? [];
    const members = selection && ["group", "kernel"].includes(selection.kind) ? inside(compile, fuse, selection) : [];
    const kind = (row) => about(row, selection, members, originsOf);
    const filter = state.why && selection !== null;
    const concerned = trace.decisions.map((d, k) => ({ ...d, k })).filter((d) => !filter || kind(d));
    const of = (which) => (which === "" ? concerned : concerned.filter((d) => d.verdict === which));
    const rows = of(verdict);
    const saved = (d) => {
      const [before, after] = [d.bytes_before, d.bytes_after].map((text) => evaluate(text, sizes));
      return before === null || after === null ? null : before - after;
    };
    const columns = [
      { key: "pair", label: t("decisions.groups"), value: (d) => `${d.a} ${d.b}`,
        cell: (d) => [pick(`decision-${d.k}-a`, d.a, act), " ", pick(`decision-${d.k}-b`, d.b, act)] },
      { key: "verdict", label: t("decisions.verdict"), value: (d) => d.verdict, cell: (d) => [told(d), " ", controls(d, now, busy, state)] },
      { key: "rule", label: t("decisions.rule"), value: (d) => d.rule, cell: (d) => [rule(d.rule), " ", h("span", { class: "tier hint" }, t(`tier.${d.tier}`))] },
      { key: "why", label: t("decisions.why"), cell: (d) => t(d.message, d.parameters) },
      { key: "saved", label: t("decisions.bytes"), value: saved, down: true,
        cell: (d) => [d.bytes_before, d.bytes_after].map((text, k) => [k ? " → " : null, amount(text, sizes, kind(d) !== "")]) },
      { key: "gain", label: t("decisions.gain"), value: (d) => d.gain, down: true, cell: (d) => duration(d.gain * 1e3) },
    ];
    other.draw(before, selection, busy);
    keepFocus(content, () => content.querySelector(".overrides button") ?? content.closest("[role=tabpanel]"), () => replace(content,
      overrides(now, busy, state),
      h("div", { class: "row" },
        h("div", { class: "segments", role: "group", "aria-label": t("decisions.filter") }, VERDICTS.map((which) => h("button", {
          type: "button", id: `decisions-${which || "all"}`, "aria-pressed": String(which === verdict), onclick: () => only(which, of(which).length),
        }, which ? sign(which) : null, t(`decisions.${which || "all"}`), ` (${number(of(which).length)})`))),
        h("input", { type: "checkbox", id: "decisions-why", checked: state.why, disabled: selection === null, onchange: (event) => act.why(event.target.checked) }),
        h("label", { for: "decisions-why" }, t("decisions.only"), selection?.key ? [" ", code(selection.key)] : null),
        sort ? h("button", { type: "button", class: "plain", id: "decisions-order", onclick: () => { sort = null; draw(store.get()); } }, t("decisions.order")) : null),
      h("p", { class: "hint" }, t("decisions.hint"), " ", at(sizesText(sizes), sizesText(trace.assumed)), " ", t("decisions.formulas")),
      trace.decisions.length === 0 ? h("p", null, t(compile.whole ? "decisions.none" : "dock.unfinished"))
        : rows.length === 0 ? h("p", null, t(concerned.length ? "decisions.no" : "decisions.nothing"))
          : dataTable({ id: "decisions-table", caption: t("tab.decisions"), columns, rows, sort,
            onSort: (next) => { sort = next; draw(store.get()); }, picked: kind })));
  }

  function only(which, n) {
    verdict = which;
    draw(store.get());
    shell.announce(t("decisions.count", { n, of: store.get().compile.trace.decisions.length }));
  }

  function controls(d, now, busy, { asked, compile }) {
    const pair = `${d.a}+${d.b}`;
    const button = (word) => h("button", {
      type: "button", id: `${word}-${pair}`, "aria-disabled": String(busy || now[word].includes(pair)),   // it keeps the focus
      "aria-label": t(`decisions.${word}.of`, { a: d.a, b: d.b }),
      onclick: () => { if (!busy && !now[word].includes(pair)) again(overrule(asked.pipeline, compile.trace.pipeline, word, pair)); },
    }, t(`decisions.${word}`));
    const forced = d.rule === "forbid" ? "forbid" : ["force", "forbid"].find((word) => now[word].includes(pair));
    return h("span", { class: "controls" },
      d.verdict === "merged" ? button("forbid") : d.rule === "forbid" ? null : button("force"),
      forced ? h("span", { class: "hint" }, t(`decisions.${forced}.now`)) : null);
  }

  /** The rule that refuses a forced pair all the same: no wish overrules it. */
  function still(pair) {
    const refused = store.get().compile.trace.decisions.find((d) => [`${d.a}+${d.b}`, `${d.b}+${d.a}`].includes(pair) && d.verdict !== "merged");
    return refused ? h("span", { class: "hint" }, t("decisions.force.still", { rule: refused.rule }), " ") : null;
  }

  function overrides(now, busy, { asked, compile }) {
    const items = ["force", "forbid"].flatMap((word) => now[word].map((pair) => h("li", null,
      t(`decisions.${word}.now`), " ", code(pair), " ", word === "force" ? still(pair) : null,
      h("button", {
        type: "button", id: `let-${word}-${pair}`, "aria-disabled": String(busy), "aria-label": t("decisions.remove.of", { pair }),
        onclick: () => { if (!busy) again(letBe(asked.pipeline, compile.trace.pipeline, word, pair)); },
      }, t("decisions.remove")))));
    if (items.length === 0) return null;
    return h("div", { class: "overrides" }, h("h3", { id: "overrides-title" }, t("decisions.overruled")),
      h("ul", { "aria-labelledby": "overrides-title" }, items),
      h("p", { class: "hint" }, t("decisions.rules")));
  }

  return { element, keys: ["compile", "asked", "selection", "why", "bound", "job", "at", "event"], draw };
}

/** Any two values of the graph, to force or forbid: not every pair is tried by itself. */
function pairForm(go) {
  const known = h("datalist", { id: "pair-names" });
  const fields = ["a", "b"].map((name) => h("input", { type: "text", id: `pair-${name}`, list: "pair-names", size: 14, spellcheck: "false", autocomplete: "off", oninput: ready }));
  const labels = ["a", "b"].map((name) => h("label", { for: `pair-${name}` }));
  const buttons = ["force", "forbid"].map((word) => h("button", {
    type: "button", id: `pair-${word}`, onclick: () => go(word, fields.map((field) => field.value.trim()).join("+")),
  }));
  const summary = h("summary", null);
  const hint = h("p", { class: "hint" });
  const element = h("details", { class: "pair", id: "pair" }, summary, hint,
    h("div", { class: "row" }, labels[0], fields[0], labels[1], fields[1], buttons, known));
  let names = new Set(), off = false, last = null;

  function ready() {
    const [a, b] = fields.map((field) => field.value.trim());
    for (const button of buttons) button.disabled = off || a === b || !names.has(a) || !names.has(b);
  }

  function draw(before, selection, busy) {
    const nodes = before?.nodes.filter((node) => !["input", "output", "param"].includes(node.kind)) ?? [];
    names = new Set(nodes.map((node) => node.key));
    off = busy;
    summary.textContent = t("decisions.pair");
    hint.textContent = t("decisions.pair.hint");
    ["a", "b"].forEach((name, k) => { labels[k].textContent = t(`decisions.${name}`); });
    ["force", "forbid"].forEach((word, k) => { buttons[k].textContent = t(`decisions.${word}`); });
    if (known.childElementCount !== names.size) replace(known, [...names].map((value) => h("option", { value })));
    if (selection !== last && names.has(selection?.key)) fields[0].value = selection.key;
    last = selection;
    ready();
  }

  return { element, draw };
}

const sign = (verdict) => h("span", { class: `verdict ${verdict}`, "aria-hidden": "true" }, verdict === "merged" ? "✓ " : "◆ ");

const told = (d) => h("span", { class: `verdict ${d.verdict}` }, sign(d.verdict), t(`verdict.${d.verdict}`));

/** Sizes that bytes and gains hold for: bytes those at hand, gains those that the cost model assumed. */
function at(sizes, assumed) {
  if (sizes === assumed) return sizes ? [t("decisions.at"), " ", code(sizes), "."] : t("decisions.estimate");
  return [sizes ? [t("decisions.bytes.at"), " ", code(sizes), ". "] : null,
    assumed ? [t("decisions.gain.at"), " ", code(assumed), "."] : t("decisions.estimate")];
}

/** R1 to R8 are called so everywhere; the others say what decided. */
const rule = (name) => (known(`rule.${name}`) ? t(`rule.${name}`) : code(name));

/** Names of the ops in a selected group, or in the group that became a kernel. */
function inside(compile, fuse, selection) {
  if (fuse < 0) return [];
  const after = compile.states(fuse, null)[1];
  const key = selection.kind === "group" ? selection.key : null;
  return after.nodes.filter((node) => (key !== null ? node.group === key
    : node.group && node.origins.length > 0 && node.origins.every((o) => selection.origins.includes(o)))).map((node) => node.key);
}
