// Nodes of a text as elements. A node is a string or `{kind, children, …}`; the kinds are those of
// lessons/prose.py, and nothing else is made.

import { code, h } from "../dom.mjs";
import { t } from "../text.mjs";
import { valueOf } from "./arith.mjs";
import { figure, filtered, sizesText } from "./values.mjs";

const PLAIN = {
  paragraph: "p", item: "li", quote: "blockquote", row: "tr", head: "thead", body: "tbody", emphasis: "em", strong: "strong",
};

/**
 * The elements of a node. `context` has the lesson's `state`, makes links (`lesson(slug)`,
 * `term(id, text)`), and opens the card of a figure (`toggle(button, items)`).
 */
export function draw(node, context) {
  if (typeof node === "string") return node;
  const inside = () => (node.children ?? []).map((child) => draw(child, context));
  switch (node.kind) {
    case "heading": return h(`h${Math.min(6, node.level + 1)}`, null, inside());
    case "list": return h(node.ordered ? "ol" : "ul", node.ordered && node.start !== 1 ? { start: node.start } : null, inside());
    case "table": return tableOf(h("table", null, inside()));
    case "header": return h("th", { scope: "col", class: node.align ? `to-${node.align}` : null }, inside());
    case "cell": return h("td", { class: node.align ? `to-${node.align}` : null }, inside());
    case "code": return h("pre", { tabindex: 0 }, (node.children ?? []).map((child) => (typeof child === "string" ? child : bare(child, context))));
    case "literal": return code(node.children.join(""));
    case "term": return context.term(node.id, node.children[0]);
    case "break": return h("br");
    case "rule": return h("hr");
    case "link": return h("a", { href: node.address, rel: "noreferrer", target: "_blank" }, inside());
    case "lesson": return context.lesson(node.slug);
    case "hole": return hole(node, context);
    default: return h(PLAIN[node.kind] ?? "span", null, inside());
  }
}

/** A table that scrolls, called after its columns: a lesson has several. */
function tableOf(table) {
  const heads = [...table.querySelectorAll("th")].map((head) => head.textContent.trim()).filter(Boolean).join(", ");
  return h("div", { class: "table", tabindex: 0, role: "group", "aria-label": t("lesson.table", { heads }) }, table);
}

function found(node, { state }) {
  if (node.of === "sizes") return { value: valueOf(node.expression, state.lesson.sizes), kind: "computed", recorded: false, runs: [] };
  return figure(state, node.expression);
}

const bare = (node, context) => filtered(found(node, context).value, node.filter);

/** A figure with the label of its kind; it opens a card that says where it comes from. */
function hole(node, context) {
  const { state } = context;
  const { value, kind, recorded, runs } = found(node, context);
  const text = filtered(value, node.filter);
  if (value === null) return h("span", { class: "figure" }, text);
  return h("button", {
    type: "button", class: "figure", "aria-expanded": "false",
    onclick: (event) => context.toggle(event.currentTarget, node.of === "sizes"
      ? [{ formula: node.expression, of: sizesText(state.lesson.sizes), value: text }]
      : [{ formula: node.expression, value: text }, ...runs.map((run) => ({ run }))]),
  }, text, " ", kindTag(kind, recorded));
}

/** The word of a figure's kind, and whether it is replayed. */
export function kindTag(kind, recorded) {
  return h("span", { class: `kind ${kind}` }, t(`kind.${kind}`), recorded ? ` · ${t("kind.recorded")}` : "");
}
