// Tables, and bars that say in words what they show.

import { h, unseen } from "./dom.mjs";
import { aloud } from "./text.mjs";

/** A figure that is seen as it is written and heard in words. */
export function spoken(text) {
  const words = typeof text === "string" ? aloud(text) : text;
  return words === text ? text : [h("span", { "aria-hidden": "true" }, text), unseen(words)];
}

/** A table that scrolls by itself; the first cell of a row is its header. */
export function table(caption, head, rows) {
  return h("div", { class: "table", tabindex: 0, role: "group", "aria-label": caption },
    h("table", null,
      h("caption", null, caption),
      h("thead", null, h("tr", null, head.map((text) => h("th", { scope: "col" }, text)))),
      h("tbody", null, rows.map((cells) => h("tr", null, cells.map((cell, k) =>
        k === 0 ? h("th", { scope: "row" }, cell) : h("td", null, spoken(cell))))))));
}

/** Bars with their value in words; the table behind them says the same. */
export function bars(label, rows) {
  const most = Math.max(...rows.map((row) => row.value ?? 0), 1e-12);
  return h("div", { class: "bars", role: "img", "aria-label":
    `${label}: ${rows.map((row) => `${row.name} ${row.text}`).join("; ")}` },
    rows.map((row) => h("div", { class: "bar-row" },
      h("span", { class: "bar-name" }, row.name),
      h("span", { class: "bar-track" },
        row.value === null ? null : h("span", { class: `bar ${row.kind}`, style: `width:${(100 * row.value / most).toFixed(2)}%` })),
      h("span", { class: "bar-text" }, row.text))));
}
