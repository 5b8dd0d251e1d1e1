// The effect of each pass: what the model loses without it.

import { code, h } from "../dom.mjs";
import { table } from "../figures.mjs";
import { bytes, duration, number, scientific, t, times } from "../text.mjs";
import { behind, legend, ratios, swatch } from "./charts.mjs";
import { conditionCard } from "./conditions.mjs";

/** The rows as text: `{id, title, head, rows}`, all passes first. */
export function effectsTable(found) {
  const cells = (row) => (row.latency
    ? [row.pass || t("effects.whole"), duration(row.latency.p50), times(row.ratio), number(row.launches), bytes(row.floor),
      row.pass ? scientific(row.moved?.norm_rel) : ""]
    : [row.pass, t("effects.needed"), "", "", "", ""]);
  return {
    id: "effects", title: t("effects.title"),
    head: [t("effects.pass"), t("effects.without"), t("effects.ratio"), t("measure.launches"), t("word.floor"), t("effects.moved")],
    rows: found.rows.map(cells),
  };
}

/** Passes that were left out and measured. */
export const measured = (found) => found.rows.filter((row) => row.pass !== "" && row.latency);

/** The section; `exports` stand below its table. */
export function effectsView(found, exports) {
  const { title, head, rows } = effectsTable(found);
  const timed = measured(found);
  return h("section", { class: "part", "aria-labelledby": "part-effects" },
    h("h3", { id: "part-effects", tabindex: -1 }, title),
    h("p", { class: "hint" }, t("effects.hint")),
    h("p", { class: "hint" }, t("effects.chosen")),
    timed.length
      ? [ratios(title, timed.map((row) => ({ name: row.pass, ratio: row.ratio, text: t("effects.times", { n: times(row.ratio) }) }))),
        legend([[swatch("line"), t("effects.legend.one")], [swatch("box", "fused"), t("effects.legend.slower")], [swatch("box", "op_by_op"), t("effects.legend.faster")]])]
      : h("p", null, t("effects.none")),
    behind(true, title, table(title, head, rows.map(([name, ...rest], k) => [found.rows[k].pass ? code(name) : name, ...rest]))),
    exports,
    conditionCard(found.conditions, "effects-conditions", title));
}
