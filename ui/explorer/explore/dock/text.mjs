// The IR on both sides as text: by value name, then by words; the listings scroll as one.

import { h } from "../../dom.mjs";
import { t } from "../../text.mjs";
import { align, onlyChanges, words } from "../align.mjs";
import { createListing } from "../listing.mjs";
import { isLit, ofLine, relates } from "../selection.mjs";
import { sides, titlesOf } from "../sides.mjs";

export function create({ store, act }) {
  const listings = [0, 1].map((k) => createListing(
    (line) => act.select(ofLine(line)), (line) => act.hover(line?.origins), (top) => listings[1 - k].scroll(top)));
  const only = h("input", { type: "checkbox", id: "text-only", onchange: () => draw(store.get()) });
  const label = h("label", { for: "text-only" });
  const said = h("span", { class: "hint" });
  const titles = [0, 1].map(() => h("h3", null));
  const element = h("div", { class: "texts-tab" },
    h("div", { class: "row" }, only, label, said),
    h("div", { class: "texts" }, listings.map((l, k) => h("div", { class: "text-side" }, titles[k], l.element))));
  let held = null, picked = null;

  /** Rows of the two states, with the words of changed lines; made once for a place. */
  function rows(before, after, few) {
    if (held?.before === before && held.after === after && held.few === few) return held;
    const all = align(before.lines, after.lines);
    const changes = { added: 0, removed: 0, changed: 0 };
    for (const { left, right } of all) {
      if (right === "added" || right === "changed") changes[right] += 1;
      if (left === "removed") changes.removed += 1;
    }
    const found = (few ? onlyChanges(all) : all).map((row) => {
      if (row.skipped) return { skipped: row.skipped };
      if (row.left !== "changed" || row.right !== "changed") return row;
      return { ...row, words: words(before.lines[row.before].text, after.lines[row.after].text) };
    });
    held = { before, after, few, rows: found, changes };
    return held;
  }

  function draw(state, changed = new Set()) {
    if (state.compile === null) return;
    for (const listing of listings) listing.light((line) => isLit(state.hover, line.origins));
    if (changed.size === 1 && changed.has("hover")) return;
    const both = sides(state);
    const old = held;
    const { rows: found, changes } = rows(both[0].state, both[1].state, only.checked);
    label.textContent = t("pane.only");
    said.textContent = t("text.changes", changes);
    const names = titlesOf(state);
    const spoken = state.left === null ? ["pane.before.text", "pane.after.text"] : names;
    const related = (line) => (state.selection?.key && line.key === state.selection.key ? "picked"
      : relates(state.selection, line.origins) ? "related" : "");
    const chosen = () => found.findIndex((row) => !row.skipped
      && [row.before, row.after].some((j, k) => j >= 0 && related(both[k].state.lines[j]) === "picked"));
    both.forEach(({ state: side }, k) => {
      titles[k].textContent = t(names[k]);
      listings[k].show(found.map((row) => {
        if (row.skipped) return { filler: `  ⋯ ${t("pane.skipped", { n: row.skipped })}` };
        const j = k === 0 ? row.before : row.after;
        if (j < 0) return { filler: "" };
        const line = side.lines[j];
        return { ...line, mark: k === 0 ? row.left : row.right, words: row.words?.[k], picked: related(line) };
      }), t(spoken[k]), old === held);
    });
    if (old !== held) {
      const first = found.findIndex((row) => !row.skipped && (row.left !== "same" || row.right !== "same"));
      for (const listing of listings) listing.reveal(Math.max(0, first >= 0 ? first : chosen()));
    } else if (state.selection !== null && state.selection !== picked) {
      const first = chosen();
      if (first >= 0 && !element.contains(element.getRootNode().activeElement)) for (const listing of listings) listing.reveal(first);
    }
    picked = state.selection;
  }

  return { element, keys: ["compile", "left", "at", "event", "selection", "hover"], draw };
}
