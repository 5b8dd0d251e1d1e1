// Tables of the dock and the inspector: sorted by their headers, stepped by arrow keys, cut with a note.

import { code, h } from "../dom.mjs";
import { byFormula, number, t } from "../text.mjs";
import { evaluate, stepBytes } from "../dims.mjs";
import { download } from "../files.mjs";

export const MOST = 400;

/**
 * A table. `columns` are `{key, label, cell(row, k), value?(row)}`: with `value` a header sorts by it;
 * `sort` is `{key, down}` or null, `onSort(sort)` hears of a new one. `picked(row)`: "picked", "related"
 * or "". Up and down move between the buttons of class `pick` of the table. `groups`, `[{title, holds(row)}]`, put
 * the rows below headings, sorted within each.
 */
export function dataTable({ id, caption, columns, rows, sort = null, onSort = () => {}, picked = () => "", groups = null }) {
  const by = columns.find((column) => column.key === sort?.key && column.value);
  const sorted = by ? rows.toSorted((a, b) => order(by.value(a), by.value(b), sort.down)) : rows;
  const head = columns.map((column) => {
    if (!column.value) return h("th", { scope: "col", class: `column-${column.key}` }, column.label);
    const now = sort?.key === column.key ? (sort.down ? "descending" : "ascending") : "none";
    const next = now === "none" ? { key: column.key, down: Boolean(column.down) } : { key: column.key, down: !sort.down };
    return h("th", { scope: "col", class: `column-${column.key}`, "aria-sort": now },
      h("button", { type: "button", class: "plain sort", id: `${id}-sort-${column.key}`, onclick: () => onSort(next) },
        column.label, h("span", { "aria-hidden": "true" }, { none: "", ascending: " ▲", descending: " ▼" }[now])));
  });
  const line = (row, k) => h("tr", { class: picked(row) || null },
    columns.map((column, j) => h(j === 0 ? "th" : "td", { scope: j === 0 ? "row" : null, class: `column-${column.key}` },
      column.cell(row, k))));
  let left = MOST;
  const bodies = (groups ?? [{ title: "", holds: () => true }]).map(({ title, holds }) => {
    const all = sorted.filter(holds), shown = all.slice(0, left), first = MOST - left;
    left -= shown.length;
    return shown.length === 0 ? null : h("tbody", null,
      title ? h("tr", { class: "group" }, h("th", { scope: "rowgroup", colspan: columns.length }, title, ` (${number(all.length)})`)) : null,
      shown.map((row, k) => line(row, first + k)));
  });
  return h("div", { class: "data-table", id, onkeydown: step },
    h("div", { class: "table", tabindex: 0, role: "group", "aria-label": caption },
      h("table", null, h("caption", { class: "unseen" }, caption), h("thead", null, h("tr", null, head)), bodies)),
    rows.length > MOST ? h("p", { class: "hint" }, t("table.cut", { n: MOST, of: rows.length })) : null);
}

/** What is not known comes last, up or down. */
function order(a, b, down) {
  if (a === b) return 0;
  if (a === null || a === undefined) return 1;
  if (b === null || b === undefined) return -1;
  return (a < b) === down ? 1 : -1;
}

function step(event) {
  const by = { ArrowUp: -1, ArrowDown: 1 }[event.key];
  const from = event.composedPath()[0];
  if (by === undefined || !from.classList?.contains("pick")) return;
  event.preventDefault();
  event.stopPropagation();
  const buttons = [...event.currentTarget.querySelectorAll("button.pick")];
  buttons[buttons.indexOf(from) + by]?.focus();
}

/** A name as a button that selects it. */
export function pick(id, name, act, onclick = () => act.pick(name)) {
  return h("button", { type: "button", class: "plain pick", id, onclick }, code(name));
}

/** Bytes at the sizes at hand, with the polynomial that says them at every size unless `formula` is false. */
export function amount(text, sizes, formula = true) {
  const value = evaluate(text, sizes);
  return said(formula ? text : "0", value, value);
}

/** The same of a step of the plan: its `reads` or `writes`; where its loops are empty, no polynomial. */
export const moves = (step, key, sizes) => said(step[key], stepBytes(step, key, sizes), evaluate(step[key], sizes));

/** What a step's bytes are called: what it must read or write, or a bound of it. */
export const moved = (step, key) => (step.exact ? t(`kernels.${key}`) : t(`kernels.${key}.most`));

function said(text, value, formula) {
  if (value === null) return h("span", null, byFormula(value));
  return h("span", { class: "amount", title: `${number(value)} B` }, byFormula(value),
    /^\d+$/.test(text) || value !== formula ? null : [" ", code(text, { class: "polynomial" })]);
}

export const sizesText = (sizes) => Object.entries(sizes).map(([name, size]) => `${name}=${size}`).join(", ");

/** The sizes that figures hold for: `r=256, c=64`; empty for a model without symbols. */
export function atSizes(sizes) {
  return Object.keys(sizes).length ? h("p", { class: "hint" }, t("bytes.at"), " ", code(sizesText(sizes))) : null;
}

/** A button that copies text, and says so; `name` says what it copies. */
export function copyButton(shell, id, text, label, name) {
  return h("button", { type: "button", id, "aria-label": name, onclick: async () => {
    shell.announce(t((await copy(text())) ? "copy.done" : "copy.failed"));
  } }, label);
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch { return false; }
}

/** A button that saves text as a file. */
export function saveButton(id, file, text, label, name) {
  return h("button", { type: "button", id, "aria-label": name, onclick: () => download(file, "text/plain", text()) }, label);
}
