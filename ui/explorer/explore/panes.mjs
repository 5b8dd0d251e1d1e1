// Two panes, before and after, under one pan and zoom; they follow what the pass changed.
//
// One layout per level, over the union of all its states: every state draws its part at those places,
// so nothing jumps when a reader steps.

import { layout } from "../blobs.mjs";
import { h, replace } from "../dom.mjs";
import { bytes, t } from "../text.mjs";
import { createCamera, createPane } from "./canvas.mjs";
import { groupTraffic, kept, traffic } from "./compile.mjs";
import { compareStates, label } from "./history.mjs";
import { marked, NOTHING, ofGroup, ofNode } from "./selection.mjs";
import { evaluate } from "../dims.mjs";

const SIDES = ["before", "after"];
const ROOM = 22;

export function panes(context) {
  const { store, act, shell, sample } = context;
  let frame = 0;
  const camera = createCamera(() => { if (!frame) frame = requestAnimationFrame(paint); });
  const sides = SIDES.map((name) => createPane(camera, (hit) => pick(name, hit)));
  const titles = SIDES.map(() => h("h2", null));
  const notes = SIDES.map(() => h("p", { class: "hint pane-note" }));
  const bar = h("div", { class: "pane-bar" });
  const element = h("section", { class: "region panes" }, bar,
    h("div", { class: "columns" }, SIDES.map((name, k) =>
      h("div", { class: `pane ${name}` }, titles[k], notes[k], sides[k].canvas))));
  let placed = [null, null];
  let wanted = ["", ""];
  let fitted = "";

  new ResizeObserver(() => camera.pan(0, 0)).observe(element);

  function paint() {
    frame = 0;
    for (const pane of sides) pane.draw();
  }

  function pick(side, { node, group }) {
    act.select(node ? ofNode(node.of) : group ? ofGroup(group.of) : NOTHING);
  }

  /** The two compiles and places that a state shows. */
  function shown({ compile, left, at, event }) {
    if (left === null) return compile.states(at, event).map((state) => ({ compile, at, state }));
    const name = compile.passes[at].name;
    const there = left.passes.findIndex((pass) => pass.name === name);
    const other = there >= 0 ? there : left.passes.findLastIndex((pass) => pass.level === compile.passes[at].level);
    const place = Math.max(0, other);
    return [{ compile: left, at: place, state: left.states(place, null)[1] },
      { compile, at, state: compile.states(at, event)[1] }];
  }

  function draw(state, changed) {
    if (changed.has("refreshed")) for (const pane of sides) pane.repaint();
    element.setAttribute("aria-label", t("panes.title"));
    const both = shown(state);
    const names = state.left === null ? ["pane.before", "pane.after"] : ["pane.op_by_op", "pane.fused"];
    titles.forEach((title, k) => { title.textContent = t(names[k]); });
    const marks = state.left === null ? compareStates(both[0].state, both[1].state) : [new Map(), new Map()];
    both.forEach((side, k) => place(side, k, marks[k], state));
    camera.pan(0, 0);
  }

  function place(side, k, marks, state) {
    const [first] = side.compile.history.stretch(side.at);
    const key = `${side.compile.digest}/${first}`;
    const found = placed[k]?.key === key ? placed[k] : null;
    if (found === null && wanted[k] !== key) {
      wanted[k] = key;
      layout(side.compile.digest, first).then((answer) => {
        if (wanted[k] !== key) return;
        placed[k] = { key, ...answer, routes: new Map(answer.routes.map(([a, b, p]) => [`${a}\u0000${b}`, p])) };
        draw(store.get(), new Set());
        if (fitted !== key) { fitted = key; fit(); }
      }, (failure) => {
        if (wanted[k] === key) replace(notes[k], t(failure.error?.message ?? "layout.large"));
      });
    }
    sides[k].show(found === null ? { nodes: [], edges: [], groups: [] } : scene(side, found, marks, state));
    notes[k].textContent = "";
  }

  /** What is drawn of a state at its places. */
  function scene({ compile, state: drawn }, where, marks, state) {
    const sizes = compile.sizes(state.bound, sample());
    const selected = marked(state.selection, drawn);
    const boxOf = (key) => where.boxes[key];
    const nodes = [];
    let most = 0;
    const moved = new Map();
    for (const node of drawn.nodes) {
      const { reads, writes } = traffic(node, drawn, sizes);
      moved.set(node.key, [reads, writes]);
      if (!node.group) most = Math.max(most, reads, writes);
    }
    for (const group of drawn.groups) {
      const { reads, writes } = groupTraffic(group, drawn, sizes);
      most = Math.max(most, reads, writes);
    }
    for (const node of drawn.nodes) {
      const box = boxOf(node.key);
      if (!box) continue;
      const [reads, writes] = moved.get(node.key);
      nodes.push({
        of: node, x: box[0], y: box[1], w: box[2], h: box[3], lines: label(node, drawn.constants),
        mark: marks.get(node.key) ?? "same", picked: selected.get(node.key),
        bars: most > 0 && !node.group && reads + writes > 0 ? [reads / most, writes / most] : null,
      });
    }
    const inner = new Map();
    for (const group of drawn.groups) for (const { name, bytes: size } of kept(group, drawn)) inner.set(name, size);
    const edges = [];
    for (const edge of drawn.edges) {
      const points = where.routes.get(`${edge.from}\u0000${edge.to}`) ?? straight(boxOf(edge.from), boxOf(edge.to));
      if (!points) continue;
      const ghost = inner.has(edge.value);
      const size = ghost ? evaluate(inner.get(edge.value), sizes) : null;
      edges.push({ points, box: bounds(points), ghost, text: size ? bytes(size) : "" });
    }
    const groups = drawn.groups.flatMap((group) => {
      const boxes = drawn.nodes.filter((n) => n.group === group.key).map((n) => boxOf(n.key)).filter(Boolean);
      if (boxes.length === 0) return [];
      const x = Math.min(...boxes.map((b) => b[0])) - 10, y = Math.min(...boxes.map((b) => b[1])) - ROOM;
      return [{
        of: group, x, y, label: `fused ${group.key}`,
        w: Math.max(...boxes.map((b) => b[0] + b[2])) + 10 - x, h: Math.max(...boxes.map((b) => b[1] + b[3])) + 10 - y,
        picked: state.selection?.kind === "group" && state.selection.key === group.key,
      }];
    });
    return { nodes, edges, groups };
  }

  /** Show the whole of the larger scene. */
  function fit() {
    const all = sides.flatMap((pane) => [...pane.scene().nodes, ...pane.scene().groups]);
    if (all.length === 0) return;
    const x0 = Math.min(...all.map((n) => n.x)), x1 = Math.max(...all.map((n) => n.x + n.w));
    const y0 = Math.min(...all.map((n) => n.y)), y1 = Math.max(...all.map((n) => n.y + n.h));
    const [w, h2] = sides[0].size();
    const k = Math.min(1, (w - 24) / (x1 - x0), (h2 - 24) / (y1 - y0));
    camera.set({ k, x: (w - (x1 - x0) * k) / 2 - x0 * k, y: (h2 - (y1 - y0) * k) / 2 - y0 * k });
  }
  act.fit = fit;

  return {
    element, draw,
    keys: ["compile", "left", "at", "event", "selection", "bound", "overlay", "merged", "search"],
  };
}

const straight = (a, b) => (a && b ? [a[0] + a[2] / 2, a[1] + a[3], b[0] + b[2] / 2, b[1]] : null);

function bounds(points) {
  let x0 = Infinity, y0 = Infinity, x1 = -Infinity, y1 = -Infinity;
  for (let k = 0; k < points.length; k += 2) {
    x0 = Math.min(x0, points[k]); x1 = Math.max(x1, points[k]);
    y0 = Math.min(y0, points[k + 1]); y1 = Math.max(y1, points[k + 1]);
  }
  return { x0, y0, x1, y1 };
}
