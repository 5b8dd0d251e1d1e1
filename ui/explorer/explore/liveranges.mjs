// Memory: buffers as bars from the step that first writes them to the step that last reads them, at
// their place in the arena. Before there is a plan, every value has a place of its own.

import { evaluate } from "../dims.mjs";
import { h, replace, rove, s } from "../dom.mjs";
import { bytes, number, t } from "../text.mjs";
import { offsets } from "./offsets.mjs";
import { relates } from "./selection.mjs";
import { titlesOf } from "./sides.mjs";

const STEPS = /^(launch|call\.|copy$)/;
const VIEWS = /^(reshape)$/;

/** Buffers of the plan's arena, `[{name, members, size, start, stop, origins}]`, and its number of steps. */
export function rangesOfPlan(plan, drawn, sizes) {
  const made = new Map();
  for (const step of plan.steps) for (const value of step.values) made.set(value, step.origins);
  const buffers = plan.buffers.filter((b) => b.kind === "arena").map((b) => ({
    name: b.name, members: b.members, size: evaluate(b.size, sizes) ?? 0, start: b.start, stop: b.stop,
    origins: [...new Set(b.members.flatMap((value) => made.get(value) ?? []))],
  }));
  return { buffers, steps: plan.steps.length };
}

/** The same from a graph of launches and calls that has no plan: a view shares its operand's memory. */
export function rangesOfGraph(drawn, sizes) {
  const outside = new Set();
  const root = new Map();
  const find = (value) => (root.has(value) ? find(root.get(value)) : value);
  let steps = 0;
  const buffers = new Map();
  for (const node of drawn.nodes) {
    if (node.kind === "input" || node.kind === "param") for (const out of node.outs ?? []) outside.add(out.name);
    if (VIEWS.test(node.kind) && node.ins?.length) { root.set(node.outs[0].name, node.ins[0]); continue; }
    const runs = STEPS.test(node.kind);
    for (const value of (node.kind === "output" ? [] : node.ins ?? []).map(find)) {
      if (buffers.has(value)) buffers.get(value).stop = Math.max(buffers.get(value).stop, runs ? steps : 0);
    }
    if (!runs) continue;
    for (const [result, operand] of inPlace(node, drawn)) {
      const whole = find(operand);
      root.set(result, whole);
      if (buffers.has(whole)) buffers.get(whole).members.push(result);
    }
    for (const out of node.outs ?? []) {
      if (root.has(out.name)) continue;
      buffers.set(out.name, { name: out.name, members: [out.name], size: evaluate(out.bytes, sizes) ?? 0, start: steps, stop: steps, origins: node.origins ?? [] });
    }
    steps += 1;
  }
  const results = new Set(drawn.nodes.filter((node) => node.kind === "output").flatMap((node) => node.ins ?? []).map(find));
  return { buffers: [...buffers.values()].filter((b) => !outside.has(b.name) && !results.has(b.name)), steps };
}

/** `[result, operand]` of a launch whose kernel writes over an operand: its last operands, its first results. */
function inPlace(node, drawn) {
  if (node.kernel === undefined) return [];
  const head = drawn.lines.find((line) => line.section === "kernel" && line.key === node.kernel && line.text.includes("kernel @"));
  const n = (head?.text.match(/: inout /g) ?? []).length;
  return (node.ins ?? []).slice((node.ins ?? []).length - n).map((operand, k) => [node.outs[k].name, operand]).slice(0, n);
}

/** `{buffers with at, height, naive, lowerBound, steps, packed}`: packed by the allocator, or one above the other. */
export function placed({ buffers, steps }, packed) {
  const found = offsets(buffers);
  let at = 0;
  const put = buffers.map((buffer) => {
    const mine = packed ? found.offsets.get(buffer.name) : at;
    at += Math.ceil(buffer.size / 64) * 64;
    return { ...buffer, at: mine };
  });
  return { buffers: put, steps, packed, height: packed ? found.peak : found.naive, naive: found.naive, lowerBound: found.lowerBound };
}

/** The memory of a state: of its plan where it has one. */
export function memoryOf(side, plan, sizes) {
  const planned = side.state.lines.some((line) => line.section === "plan");
  return planned && plan ? placed(rangesOfPlan(plan, side.state, sizes), true) : placed(rangesOfGraph(side.state, sizes), false);
}

const LEFT = 68, TOP = 6, BOTTOM = 20, RIGHT = 8;
const SIGN = 7.9, GAP = 4, LINE = 14;   // of the names: the width of a sign, what is free around a name, its height

/**
 * Where the names of bars stand, `[{text, x, y, beside} | null]`: within a bar, where it is too small
 * beside it, where another bar or name stands there shortened within it; null: there is no place for
 * it. `bars`: `[{name, left, top, wide, tall}]`, names may reach from `from` to `to`.
 */
export function placeNames(bars, from, to) {
  const taken = bars.map(({ left, top, wide, tall }) => [left, top, left + wide, top + tall]);
  const inside = ({ left, top, tall }, text) => ({ text, x: left + GAP, y: top + Math.min(tall / 2 + GAP, LINE), beside: false });
  return bars.map((bar, k) => {
    const { name, left, top, wide, tall } = bar;
    const long = name.length * SIGN;
    if (tall >= LINE - 1 && long <= wide - 2 * GAP) return inside(bar, name);
    const y = Math.max(top + tall / 2, LINE / 2);
    const box = (x) => [x, y - LINE / 2, x + long, y + LINE / 2];
    const free = ([x0, y0, x1, y1]) => x0 >= from && x1 <= to
      && taken.every(([a0, b0, a1, b1], j) => j === k || x1 <= a0 || a1 <= x0 || y1 <= b0 || b1 <= y0);
    const x = [left + wide + GAP, left - GAP - long].find((at) => free(box(at)));
    if (x !== undefined) {
      taken.push(box(x));
      return { text: name, x, y: y + GAP, beside: true };
    }
    const room = Math.floor((wide - 2 * GAP) / SIGN) - 1;
    return tall >= LINE - 1 && room >= 2 ? inside(bar, `${name.slice(0, room)}…`) : null;
  });
}

/** `{element, draw(memories, state)}`: the memory left and right, to one scale. */
export function memoryView({ act }) {
  const titles = [h("h2", null), h("h2", null)];
  const notes = [h("p", { class: "hint pane-note" }), h("p", { class: "hint pane-note" })];
  const rooms = [0, 1].map(() => h("div", { class: "pane-room ranges" }));
  const tips = [0, 1].map(() => h("div", { class: "pane-tip", "aria-hidden": "true", hidden: true }));
  const element = h("div", { class: "columns memory" }, rooms.map((room, k) =>
    h("div", { class: "pane" }, h("div", { class: "pane-head" }, titles[k], notes[k]), room)));
  let asked = null;
  const watcher = new ResizeObserver(() => { if (asked !== null) draw(...asked); });
  watcher.observe(element);

  function draw(memories, state) {
    asked = [memories, state];
    const most = Math.max(...memories.map((m) => m.height), 1);
    const names = titlesOf(state);
    memories.forEach((memory, k) => {
      titles[k].textContent = t(names[k]);
      notes[k].textContent = memory.buffers.length === 0 ? t("ranges.none")
        : t(memory.packed ? "ranges.packed" : "ranges.apart", { peak: bytes(memory.height), naive: bytes(memory.naive), bound: bytes(memory.lowerBound) });
      replace(rooms[k], memory.buffers.length === 0 ? [] : [chart(memory, most, rooms[k], state, titles[k].textContent, k), tips[k]]);
    });
  }

  /** All of a buffer in words, over or under its bar; the bar has the same as its name. */
  function tell(side, said, { left, top, tall }) {
    const tip = tips[side], room = rooms[side];
    tip.textContent = said;
    tip.hidden = false;
    const under = top + tall + GAP;
    tip.style.left = `${Math.max(0, Math.min(left, room.clientWidth - tip.offsetWidth))}px`;
    tip.style.top = `${Math.max(0, under + tip.offsetHeight <= room.clientHeight ? under : top - GAP - tip.offsetHeight)}px`;
  }

  function chart(memory, most, room, state, title, side) {
    const W = room.clientWidth || 400, H = room.clientHeight || 260;
    const x = (step) => LEFT + (W - LEFT - RIGHT) * step / Math.max(1, memory.steps);
    const y = (at) => TOP + (H - TOP - BOTTOM) * at / most;
    tips[side].hidden = true;
    const buffers = memory.buffers.filter((b) => b.size > 0);
    const bars = buffers.map((b) => ({
      name: b.name, left: x(b.start), top: y(b.at), wide: x(b.stop + 1) - x(b.start), tall: Math.max(1.5, y(b.at + b.size) - y(b.at)),
    }));
    const places = placeNames(bars, LEFT, W - RIGHT);
    const items = buffers.map((b, k) => {
      const picked = state.selection && (state.selection.key === b.name || b.members.includes(state.selection.key)) ? "picked"
        : relates(state.selection, b.origins) || (state.hover && relates({ origins: state.hover }, b.origins)) ? "related" : "";
      const { left, top, wide, tall } = bars[k];
      const hide = () => { tips[side].hidden = true; };
      const place = places[k];
      const said = t("ranges.buffer", { name: b.name, size: bytes(b.size), at: bytes(b.at), start: b.start + 1, stop: b.stop + 1, values: b.members.join(", ") });
      const choose = () => act.select({ kind: "buffer", key: b.name, origins: b.origins });
      return s("g", {
        role: "option", id: `range-${side}-${b.name}`, class: `range ${picked}`, tabindex: -1, "aria-selected": String(picked === "picked"),
        "aria-label": said, onclick: choose,
        onpointerenter: () => tell(side, said, bars[k]), onpointerleave: hide, onblur: hide,
        onfocus: (event) => { if (event.currentTarget.matches(":focus-visible")) tell(side, said, bars[k]); },
        onkeydown: (event) => {
          if (event.key === "Enter" || event.key === " ") { event.preventDefault(); event.stopPropagation(); choose(); }
          else if (!rove(event, items, false, focused)) rove(event, items, true, focused);
        },
      }, s("rect", { x: left, y: top, width: wide, height: tall }),
      place === null ? null : s("text", { x: place.x, y: place.y, class: place.beside ? "beside" : null, translate: "no" }, place.text));
    });
    const focused = (k) => { for (const item of items) item.setAttribute("tabindex", item === items[k] ? 0 : -1); };
    (items.find((item) => item.classList.contains("picked")) ?? items[0])?.setAttribute("tabindex", "0");
    const every = Math.max(1, Math.ceil(memory.steps / Math.max(2, Math.floor((W - LEFT) / 44))));
    const ticks = Array.from({ length: Math.floor(memory.steps / every) + (memory.steps ? 1 : 0) }, (_, k) => k * every).filter((step) => step < memory.steps);
    return s("svg", { width: W, height: H, role: "group", "aria-label": t("ranges.chart", { side: title }) },
      s("g", { class: "axis", "aria-hidden": "true" },
        [0, 0.25, 0.5, 0.75, 1].map((share) => [
          s("line", { x1: LEFT, x2: W - RIGHT, y1: y(most * share), y2: y(most * share) }),
          s("text", { x: LEFT - 5, y: y(most * share) + (share === 0 ? 9 : share === 1 ? 0 : 4), "text-anchor": "end" }, bytes(Math.round(most * share))),
        ]),
        ticks.map((step) => s("text", { x: x(step + 0.5), y: H - 6, "text-anchor": "middle" }, number(step + 1)))),
      s("g", { role: "listbox", "aria-label": t("ranges.list", { side: title }) }, items));
  }

  return { element, draw, destroy() { watcher.disconnect(); } };
}
