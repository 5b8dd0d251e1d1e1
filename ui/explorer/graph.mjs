// A static drawing of a snapshot's graph at the places that Graphviz found.

import { s } from "./dom.mjs";
import { t } from "./text.mjs";

const MARKS = { added: "+", removed: "−", changed: "~" };
const LINE = 15;

/** An SVG of `placed`; `marks` says what happened to each node. */
export function draw(snapshot, placed, marks, side) {
  const kinds = new Map(snapshot.nodes.map((n) => [n.key, n.kind]));
  const margin = 8;
  const width = placed.width + 2 * margin, height = placed.height + 2 * margin;
  return s("svg", {
    class: "drawing", role: "img", width, height,
    viewBox: `${-margin} ${-margin} ${width} ${height}`,
    "aria-label": t("graph.label", { side, nodes: placed.nodes.length, groups: placed.groups.length }),
  },
    placed.groups.map((box) => s("g", { class: "group" },
      s("rect", { x: box.x, y: box.y, width: box.width, height: box.height, rx: 8 }),
      s("text", { x: box.x + 8, y: box.y + 13 }, `fused ${box.lines[0]}`))),
    placed.edges.map(edge),
    placed.nodes.map((box) => node(box, kinds.get(box.key) ?? "", marks.get(box.key) ?? "same")));
}

function edge({ points, value }) {
  let d = `M${points[0]} ${points[1]}`;
  for (let k = 2; k + 5 < points.length; k += 6) d += `C${points.slice(k, k + 6).join(" ")}`;
  const [x, y] = points.slice(-2);
  const rest = (points.length / 2 - 1) % 3;
  const from = rest === 1 ? points.slice(-4, -2) : points.slice(-8, -6);
  const angle = Math.atan2(y - from[1], x - from[0]);
  const wing = (turn) => `${x - 7 * Math.cos(angle + turn)} ${y - 7 * Math.sin(angle + turn)}`;
  return s("g", { class: "edge" },
    s("title", null, value),
    s("path", { class: "edge-line", d }),
    s("path", { class: "edge-tip", d: `M${x} ${y}L${wing(0.4)}L${wing(-0.4)}Z` }));
}

function node(box, kind, mark) {
  const family = kind.split(".")[0];
  const lines = box.lines.map((line, k) => s("text", {
    x: box.x + box.width / 2, y: box.y + 16 + k * LINE, class: k === 0 ? "node-kind" : "node-name",
  }, line));
  return s("g", { class: `node ${mark} family-${/^[a-z]+$/.test(family) ? family : "other"}` },
    s("title", null, box.key),
    s("rect", { x: box.x, y: box.y, width: box.width, height: box.height, rx: 5 }),
    mark === "changed" ? s("rect", { class: "inner", x: box.x + 3, y: box.y + 3, width: box.width - 6, height: box.height - 6, rx: 3 }) : null,
    MARKS[mark] ? s("text", { class: "node-mark", x: box.x + 7, y: box.y + 14 }, MARKS[mark]) : null,
    lines);
}
