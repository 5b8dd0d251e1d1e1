// Graph breaks: nodes that a library computes, each with its reason.

import { code, h, replace } from "../../dom.mjs";
import { t } from "../../text.mjs";
import { dataTable, pick } from "../tables.mjs";

export function create({ act }) {
  const element = h("div", { class: "breaks" });

  function draw({ compile, selection }) {
    const found = compile.trace.breaks;
    const position = (name) => compile.trace.nodes.find((n) => n.name === name)?.position;
    const columns = [
      { key: "node", label: t("breaks.node"), cell: (b, k) => pick(`break-${k}`, b.node, act) },
      { key: "op", label: t("breaks.op"), cell: (b) => code(b.op) },
      { key: "reason", label: t("breaks.reason"), cell: (b) => t(b.reason, b.parameters) },
    ];
    replace(element, found.length === 0 ? h("p", null, t(compile.whole ? "breaks.none" : "dock.unfinished")) : [
      h("p", { class: "hint" }, t("breaks.hint")),
      dataTable({ id: "breaks-table", caption: t("tab.breaks"), columns, rows: found,
        picked: (b) => (selection?.origins.includes(position(b.node)) ? "picked" : "") }),
    ]);
  }

  return { element, keys: ["compile", "selection"], draw };
}
