// What a pane draws of a state: boxes, curves and frames at the places of the layout.
//
// A scene is `{nodes, edges, groups, box}`; the canvas, the minimap and exported pictures draw the same one.
// A node is `{key, of, x, y, w, h, lines, mark, picked, hit, bars, heat, figure, group}`; `group` is the closed
// group that it stands for, `bars` the bytes read and written as shares of the largest of both panes, `heat` a
// share of the overlay's largest figure and `figure` that figure in words, where it is the node's own.

import { evaluate, own } from "../dims.mjs";
import { bytes, t } from "../text.mjs";
import { groupTraffic, kept, traffic } from "./compile.mjs";
import { boundaries, groupsOf, hiddenBy } from "./groups.mjs";
import { label, shorten } from "./history.mjs";
import { edgeMark } from "./merged.mjs";
import { marked, relates } from "./selection.mjs";
import { CHARACTER, LINE } from "./sight.mjs";

const HEAD = 22, EDGE = 10, FOOT = 13;
const TITLE = 20;

export const EMPTY = { nodes: [], edges: [], groups: [], box: null };

/** The most bytes that one op, kernel or closed group of a state reads or writes: the scale of the bars. */
export function mostBytes(drawn, places, closed, sizes) {
  let most = 0;
  const count = ({ reads, writes }) => { most = Math.max(most, reads, writes); };
  for (const node of drawn.nodes) if (!node.group) count(traffic(node, drawn, sizes));
  for (const group of drawn.groups) count(groupTraffic(group, drawn, sizes));
  for (const ends of boundaries(standIns(groupsOf(drawn, places), places, closed), drawn).values()) count(groupTraffic(ends, drawn, sizes));
  return most;
}

/** node key -> the group that is drawn in its place; in an overview every node has one. */
const standIns = (groups, places, closed) =>
  hiddenBy(groups, places?.overview ? new Set(groups.map((group) => group.id)) : closed);

/**
 * The scene of a state. `places`: `{boxes, routes, groups}` of the layout, `view`: `{marks, edgeMarks, sizes,
 * most, selection, hover, hits, closed, heat}`; `heat` is an overlay.
 */
export function sceneOf(drawn, places, view) {
  const { marks, sizes, most } = view;
  const selected = marked(view.selection, drawn);
  const whole = Boolean(places.overview);
  const groups = groupsOf(drawn, places).map((group) => ({ ...group, frame: whole ? boxed(own(places.boxes, group.key)) : frame(group.members, places.boxes) }))
    .filter((group) => group.frame !== null);
  const hidden = standIns(groups, places, view.closed);
  const share = ({ reads, writes }) => (most > 0 && reads + writes > 0 ? [reads / most, writes / most] : null);
  const { values, within: parts, most: hottest, said } = view.heat;
  const heated = (key) => (hottest > 0 && values.has(key)
    ? { heat: values.get(key) / hottest, figure: parts.has(key) ? "" : said(values.get(key)) } : {});

  const nodes = [];
  for (const node of drawn.nodes) {
    const box = own(places.boxes, node.key);
    if (!box || hidden.has(node.key)) continue;
    const moved = traffic(node, drawn, sizes);
    nodes.push({
      key: node.key, of: node, group: null, x: box[0], y: box[1], w: box[2], h: box[3],
      lines: label(node, drawn.constants), mark: marks.get(node.key) ?? "same",
      picked: selected.get(node.key) ?? (view.hover && relates({ origins: view.hover }, node.origins) ? "related" : undefined),
      hit: view.hits.has(node.key), bars: share(moved), moved, ...heated(node.key),
    });
  }
  for (const [group, ends] of boundaries(hidden, drawn)) {
    const moved = groupTraffic(ends, drawn, sizes);
    const single = group.members.length === 1 ? drawn.byKey.get(group.members[0]) : null;   // in an overview
    const lines = single ? label(single, drawn.constants).map((line) => shorten(line, TITLE))
      : [...(whole ? titleOf(group.label) : [shorten(group.label)]), counted(group, drawn)];
    const inside = group.members.map((key) => selected.get(key));
    nodes.push({
      key: group.id, of: single ?? group.of, group: single ? null : group, lines, ...(whole ? group.frame : within(group.frame, lines)),
      mark: closedMark(group.members.map((key) => marks.get(key) ?? "same")),
      picked: inside.includes("picked") ? "picked" : inside.includes("related") ? "related" : undefined,
      origins: single || group.of ? undefined : [...new Set(group.members.flatMap((key) => drawn.byKey.get(key).origins ?? []))],
      hit: group.members.some((key) => view.hits.has(key)), bars: share(moved), moved, ...heated(`group ${group.key}`),
    });
  }
  const at = new Map(nodes.map((node) => [node.key, node]));
  const frames = groups.filter((group) => group.fused && !group.members.some((key) => hidden.has(key))).map((group) => {
    const moved = groupTraffic(group.of, drawn, sizes);
    return {
      ...group.frame, of: group.of, group, label: group.label, bars: share(moved), moved, ...heated(`group ${group.key}`),
      picked: view.selection?.kind === "group" && view.selection.key === group.key,
    };
  });
  return {
    nodes, groups: frames, edges: edgesOf(drawn, places, { hidden, at, selected, sizes, edgeMarks: view.edgeMarks }),
    box: around([...nodes, ...frames]),
  };
}

/** The name of a group in an overview, then its number, each a line. */
export const titleOf = (label) => label.replaceAll(" #", "\n#").split("\n").map((line) => shorten(line, TITLE));

/** How many ops a closed group has, and weights. */
function counted({ members }, drawn) {
  const weights = members.filter((key) => drawn.byKey.get(key).kind === "param").length;
  return weights ? t("group.count.weights", { n: members.length - weights, weights }) : t("group.count", { n: members.length });
}

function edgesOf(drawn, places, { hidden, at, selected, sizes, edgeMarks }) {
  const inner = new Map();
  for (const group of drawn.groups) for (const { name, bytes: size } of kept(group, drawn)) inner.set(name, size);
  const edges = [], seen = new Set();
  for (const edge of drawn.edges) {
    const from = hidden.get(edge.from)?.id ?? edge.from, to = hidden.get(edge.to)?.id ?? edge.to;
    if (from === to || !at.has(from) || !at.has(to)) continue;
    if (places.overview && drawn.byKey.get(edge.from).kind === "param") continue;   // counted in its box
    const moved = from !== edge.from || to !== edge.to;
    const id = `${from}\u0000${to}\u0000${moved ? "" : edge.value}`;
    if (seen.has(id)) continue;
    seen.add(id);
    const ends = [hidden.get(edge.from)?.key ?? edge.from, hidden.get(edge.to)?.key ?? edge.to];
    const points = (moved && !places.overview ? undefined : places.routes.get(ends.join("\u0000"))) ?? straight(at.get(from), at.get(to));
    const ghost = inner.has(edge.value);
    const weight = places.engine === "layered" && drawn.byKey.get(edge.from).kind === "param";   // pale where there are thousands
    const size = ghost ? evaluate(inner.get(edge.value), sizes) : null;
    edges.push({
      from, to, value: edge.value, points, box: bounds(points), ghost, weight, text: size ? bytes(size) : "",
      mark: edgeMarks ? edgeMark(edgeMarks, edge) : "same",
      near: (selected.get(edge.from) === "picked") !== (selected.get(edge.to) === "picked"),
    });
  }
  return edges;
}

/** A closed group is as changed as what is in it. */
function closedMark(marks) {
  const kinds = new Set(marks);
  if (kinds.size === 1) return marks[0] === "same" ? "same" : marks[0];
  return kinds.has("added") || kinds.has("removed") || kinds.has("changed") ? "changed" : "fused";
}

function frame(members, boxes) {
  const found = members.map((key) => own(boxes, key)).filter(Boolean);
  if (found.length === 0) return null;
  const x = Math.min(...found.map((b) => b[0])) - EDGE, y = Math.min(...found.map((b) => b[1])) - HEAD;
  return {
    x, y, w: Math.max(...found.map((b) => b[0] + b[2])) + EDGE - x, h: Math.max(...found.map((b) => b[1] + b[3])) + FOOT - y,
  };
}

const boxed = (box) => (box ? { x: box[0], y: box[1], w: box[2], h: box[3] } : null);

/** The box of a closed group, in the middle of what it takes up when open. */
function within({ x, y, w: wide, h: tall }, lines) {
  const w = Math.max(...lines.map((line) => line.length)) * CHARACTER + 44, h = lines.length * LINE + 14;
  return { x: x + (wide - w) / 2, y: y + (tall - h) / 2, w, h };
}

/** The rectangle around rectangles, `{x, y, w, h}`; null around none. */
export function around(boxes) {
  let x0 = Infinity, y0 = Infinity, x1 = -Infinity, y1 = -Infinity;
  for (const b of boxes) {
    x0 = Math.min(x0, b.x); y0 = Math.min(y0, b.y);
    x1 = Math.max(x1, b.x + b.w); y1 = Math.max(y1, b.y + b.h);
  }
  return x0 === Infinity ? null : { x: x0, y: y0, w: x1 - x0, h: y1 - y0 };
}

const straight = (a, b) => [a.x + a.w / 2, a.y + a.h, b.x + b.w / 2, b.y];

function bounds(points) {
  let x0 = Infinity, y0 = Infinity, x1 = -Infinity, y1 = -Infinity;
  for (let k = 0; k < points.length; k += 2) {
    x0 = Math.min(x0, points[k]); x1 = Math.max(x1, points[k]);
    y0 = Math.min(y0, points[k + 1]); y1 = Math.max(y1, points[k + 1]);
  }
  return { x0, y0, x1, y1 };
}

// ---- places that meet by origins ---------------------------------------------------------------------

/** The centre of the nodes of a scene whose origins are in `origins`; null where there is none. */
export function centre(scene, origins) {
  let x = 0, y = 0, n = 0;
  for (const node of scene.nodes) {
    if (!(originsOf(node)).some((origin) => origins.has(origin))) continue;
    x += node.x + node.w / 2; y += node.y + node.h / 2; n += 1;
  }
  return n === 0 ? null : { x: x / n, y: y / n };
}

export const originsOf = (node) => node.origins ?? node.of?.origins ?? [];

/** Origins of the nodes that pass `test`. */
export function originsIn(scene, test = () => true) {
  return new Set(scene.nodes.filter(test).flatMap(originsOf));
}

/**
 * The places of the same thing in two scenes, `[{x, y}, {x, y}]`: the centres of what the selection came
 * from, else of all origins that both share and that `seen(node)` of the first. Null where nothing is shared.
 */
export function meeting(first, second, selection, seen = () => true) {
  const there = originsIn(second);
  const asked = [selection ? new Set(selection.origins) : new Set(), originsIn(first, seen), originsIn(first)];
  for (const origins of asked) {
    const shared = new Set([...origins].filter((origin) => there.has(origin)));
    const [a, b] = [centre(first, shared), centre(second, shared)];
    if (a !== null && b !== null) return [a, b];
  }
  return null;
}
