// How far each pass moved the results, at small sizes; computed when asked for.

import { code, h, replace } from "../../dom.mjs";
import { number, scientific, t } from "../../text.mjs";
import { spoken } from "../../figures.mjs";
import { dataTable } from "../tables.mjs";

export function create({ store, act }) {
  const element = h("div", { class: "drift" });
  let sort = null;

  function draw({ compile, job, at }) {
    const rows = compile.passes.map((pass, k) => ({ pass, k, ...pass.drift, there: pass.drift !== null && pass.drift !== undefined }));
    const found = rows.filter((row) => row.there);
    const sizes = found[0]?.sizes;
    const button = h("button", { type: "button", id: "drift-start", class: found.length ? null : "primary", disabled: job !== null,
      onclick: () => act.again({ drift: true }) }, t("drift.start"));
    const figure = (key, show) => ({
      key, label: t(`drift.${key}`), down: true, value: (row) => (row.there ? row[key] : null),
      cell: (row) => (row.there ? spoken(show(row[key])) : h("span", { class: "hint" }, t("drift.none"))),
    });
    replace(element, h("p", null, t("drift.about")),
      found.length === 0 ? h("p", null, button) : [
        h("p", { class: "hint" }, t("drift.sizes"), " ", code(Object.entries(sizes).map(([n, v]) => `${n}=${v}`).join(", ") || "–"), ". ", t("drift.null")),
        dataTable({
          id: "drift-table", caption: t("tab.drift"), rows, sort, onSort: (next) => { sort = next; draw(store.get()); },
          picked: (row) => (row.k === at ? "picked" : ""),
          columns: [
            { key: "pass", label: t("drift.pass"), value: (row) => row.k,
              cell: (row) => h("button", { type: "button", class: "plain pick", id: `drift-${row.k}`, onclick: () => act.goto(row.k) }, `${row.k + 1} `, code(row.pass.name)) },
            figure("max_abs", scientific), figure("norm_rel", scientific), figure("max_ulp", number),
            { key: "first", label: t("drift.first"), value: (row) => row.first || null, cell: (row) => (row.first ? h("button", {
              type: "button", class: "plain", id: `drift-first-${row.k}`,
              onclick: () => { act.goto(row.k); act.select({ kind: "node", key: row.first, origins: row.where }); },
            }, code(row.first)) : null) },
          ],
        }), h("p", { class: "hint" }, t("drift.ulp"))]);
  }

  return { element, keys: ["compile", "job", "at"], draw };
}
