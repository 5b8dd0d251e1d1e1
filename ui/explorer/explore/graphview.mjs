// Two graphs under one camera: before and after, two compiles, or one merged difference.
//
// One layout per level, over the union of all its states: every state draws its part at those places, so
// nothing jumps when a reader steps. The first picture of a layout is whole where that can be read. A camera
// that a reader moved keeps, from layout to layout, the place of what the selection came from, else of what
// was in sight, by origins. Two panes with different layouts share one zoom and meet at shared origins.

import { layout } from "../blobs.mjs";
import { h, replace } from "../dom.mjs";
import { byFormula, t } from "../text.mjs";
import { createCamera, createPane } from "./canvas.mjs";
import { groupsOf } from "./groups.mjs";
import { compareStates, label } from "./history.mjs";
import { mergeStates } from "./merged.mjs";
import { createMinimap } from "./minimap.mjs";
import { overlay } from "./overlay.mjs";
import { around, EMPTY, meeting, mostBytes, sceneOf } from "./scene.mjs";
import { NOTHING, ofGroup, ofNode } from "./selection.mjs";
import { titlesOf } from "./sides.mjs";
import { COARSE, READABLE, readable, resized, START, startOf, wholeOf } from "./sight.mjs";

/**
 * Frames drawn since the page was opened, one however many panes it shows; of the last one how many boxes each pane has,
 * and from where and how large it is seen: `{x, y, k, size, box}` in pixels. For measurements and tests.
 */
export const counted = { frames: 0, boxes: [0, 0], sight: [] };

/** `{element, draw(both, state, hits, more), fit, centreOn(key), pictures(), groups()}`; `again()`: places came, draw again. */
export function graphView({ act, embedded }, again) {
  let frame = 0;
  const camera = createCamera(() => { if (!frame) frame = requestAnimationFrame(paint); });
  const panes = [0, 1].map((k) => createPane(camera, {
    pick: (hit) => pick(hit), open: (hit) => open(hit),
    over: (hit, x, y) => tell(k, hit, x, y), out: () => { tip.hidden = true; },
  }, { wheel: (event) => !embedded || event.ctrlKey || panes[k].canvas.dataset.awake === "true" }));
  for (const pane of panes) {
    pane.canvas.addEventListener("pointerdown", () => { pane.canvas.dataset.awake = "true"; });
    pane.canvas.addEventListener("pointerleave", () => { pane.canvas.dataset.awake = "false"; });
  }
  const minimap = createMinimap((x, y) => {
    const [w, tall] = panes[1].size();
    const { k } = camera.get();
    camera.set({ x: w / 2 - (x + panes[1].shift.x) * k, y: tall / 2 - (y + panes[1].shift.y) * k, k, moved: true });
  });
  const titles = [h("h2", null), h("h2", null)];
  const notes = [h("p", { class: "hint pane-note" }), h("p", { class: "hint pane-note" })];
  const tip = h("div", { class: "pane-tip", "aria-hidden": "true", translate: "no", hidden: true });
  const zooms = h("div", { class: "zooms" });
  const columns = ["before", "after"].map((side, k) => h("div", { class: `pane ${side}` },
    h("div", { class: "pane-head" }, titles[k], notes[k]), h("div", { class: "pane-room" }, panes[k].canvas)));
  columns[1].lastChild.append(minimap.element, zooms);
  const element = h("div", { class: "columns graphs" }, columns, tip);

  let places = [null, null];   // {key, boxes, routes, groups} that each pane draws at
  let last = null;             // the scene and view that were drawn last, to meet at when places change
  let fitted = false;
  let seen = { place: "", compile: null, left: false, merged: false };   // of the last draw, to know what is new
  let room = [0, 0];           // the size of a pane when the camera was last set to it
  let asked = null;            // {both, state, hits} of the last draw
  const answers = new Map();   // layout answers by key, made ready
  const failed = new Map();

  new ResizeObserver(() => {
    const size = panes[1].size();
    if (size[0] === 0) return;
    if (last === null) paint();
    else if (fitted) resize(size);
    else first(panes.map((pane) => pane.scene()), asked.state);
  }).observe(element);

  function paint() {
    if (frame) cancelAnimationFrame(frame);
    frame = 0;
    counted.frames += 1;
    counted.boxes = panes.map((pane) => pane.scene().nodes.length);
    counted.sight = panes.map(sightOf);
    if (!columns[0].hidden) panes[0].draw();
    panes[1].draw();
    minimap.draw(panes[1]);
  }

  function sightOf(pane) {
    const { x, y, k } = pane.view();
    const box = pane.scene().box;
    return { x, y, k, size: pane.size(), box: box && [box.x * k + x, box.y * k + y, (box.x + box.w) * k + x, (box.y + box.h) * k + y] };
  }

  // ---- layouts ---------------------------------------------------------------------------------

  /** The answer for the level of pass `at`, or null until it is there; then everything is drawn again. */
  function answer(compile, at, inside) {
    const [first] = compile.history.stretch(at);
    const key = `${compile.digest}/${first}/${inside}`;
    if (answers.has(key)) return answers.get(key);
    if (failed.has(key)) return null;
    answers.set(key, null);
    layout(compile.digest, first, inside).then((found) => answers.set(key, ready(key, found)), (failure) => {
      answers.delete(key);
      failed.set(key, failure.error ?? { message: "layout.large", parameters: {} });
    }).then(() => { if (asked !== null) { again(); prefetch(compile); } });
    if (answers.size > 40) for (const old of answers.keys()) { if (old !== key) { answers.delete(old); break; } }
    return null;
  }

  const ready = (key, found) => ({
    key, ...found,
    routes: new Map(found.routes.map(([a, b, p]) => [`${a}\u0000${b}`, p])),
    alone: new Map(Object.entries(found.alone ?? {}).map(([name, part]) => [name, { ...ready(`${key}/${name}`, part), small: true }])),
  });

  /** The other levels of a compile, one after the other, so that stepping there asks for nothing. */
  function prefetch(compile) {
    if (!compile.whole || asked === null || (asked.state.compile !== compile && asked.state.left !== compile)) return;
    for (let at = 0; at < compile.passes.length; at = compile.history.stretch(at)[1] + 1) {
      const [first] = compile.history.stretch(at);
      const key = `${compile.digest}/${first}/`;
      if (answers.get(key) === null) return;
      if (!answers.has(key) && !failed.has(key)) { answer(compile, at, ""); return; }
    }
  }

  /** Where the state of one side is drawn: alone where it fills little of the whole level. */
  function placesOf(side, k, state) {
    const found = answer(side.compile, side.at, side.compile === state.compile ? state.inside : "");
    if (found === null) return null;
    const name = `${side.at}.${k === 0 && state.left === null ? "before" : "after"}`;
    return state.event === null && !state.merged && found.alone.get(name) || found;
  }

  // ---- drawing ---------------------------------------------------------------------------------

  /** Draw the sides `{compile, at, state}`; `hits` are keys that a search found, `more` a plan and a report. */
  function draw(both, state, hits, more) {
    const { sizes, plan } = more;
    const merged = state.merged && state.left === null;
    const single = merged || both[0].state.nodes.length === 0;   // before the import there is nothing to show
    columns[0].hidden = single;
    element.classList.toggle("merged", single);
    const names = merged ? ["", "pane.merged"] : titlesOf(state);
    titles.forEach((title, k) => { title.textContent = names[k] ? t(names[k]) : ""; });

    const found = both.map((side, k) => placesOf(side, k, state));
    const marks = state.left === null ? compareStates(both[0].state, both[1].state) : [new Map(), new Map()];
    const most = Math.max(...both.map((side, k) => mostBytes(side.state, found[k], state.closed, sizes[k])));
    const union = merged ? mergeStates(both[0].state, both[1].state) : null;
    const heats = both.map((side, k) => overlay(state.overlay, union ? union.state : side.state, {
      sizes: sizes[k], plan: plan[k], report: state.times?.report, variant: variantOf(state, k), pass: side.compile.passes[side.at],
    }));
    const hottest = Math.max(...heats.map((heat) => heat.most));
    heats.forEach((heat, k) => { heats[k] = { ...heat, most: hottest }; });
    asked = { both, state, hits, more, heats };
    const scenes = both.map((side, k) => {
      if (found[k] === null || (merged && k === 0)) return EMPTY;
      const view = {
        marks: marks[k], edgeMarks: null, sizes: sizes[k], most, selection: state.selection, hover: state.hover,
        hits, closed: state.closed, heat: heats[k],
      };
      return union ? sceneOf(union.state, found[k], { ...view, marks: union.marks, edgeMarks: union.edges })
        : sceneOf(side.state, found[k], view);
    });
    meet(found, scenes, state);
    panes.forEach((pane, k) => pane.show(scenes[k]));
    places = found;
    both.forEach((side, k) => note(k, side, found[k], state));
    if (scenes[1].box !== null) {
      reveal(scenes, state);
      last = { scene: scenes[1], places: found[1], model: both[1].compile.options.model, inside: state.inside };
    }
    paint();
    const drawn = merged ? [scenes[1]] : scenes;
    return {
      scale: most, heat: heats[1], boxed: drawn.some((s) => s.groups.length > 0), ghosts: drawn.some((s) => s.edges.some((e) => e.ghost)),
      marks: new Set(drawn.flatMap((s) => [...s.nodes, ...s.edges].map((n) => n.mark))),
    };
  }

  /** Which steps of a measurement a side shows: those of a pipeline that was not measured are not known. */
  const variantOf = ({ leftAsked, left }, k) => (k === 1 || left === null ? "fused" : leftAsked === "op_by_op" ? "op_by_op" : "");

  /** Move camera and panes so that what is known stays where it is. */
  function meet(found, scenes, state) {
    const [left, right] = panes.map((pane) => pane.shift);
    const before = { ...right };
    Object.assign(right, { x: 0, y: 0 });
    Object.assign(left, { x: 0, y: 0 });
    if (found[0] !== found[1] && scenes[0].box !== null && scenes[1].box !== null) {
      const pair = meeting(scenes[1], scenes[0], state.selection);
      const [a, b] = pair ?? [middle(scenes[1].box), middle(scenes[0].box)];
      Object.assign(left, { x: a.x - b.x, y: a.y - b.y });
    }
    if (scenes[1].box === null || last === null || last.places === found[1]) return;
    const { x, y, k, moved } = camera.get();
    const elsewhere = last.model !== asked.both[1].compile.options.model || last.inside !== state.inside;
    const pair = moved && !elsewhere ? meeting(last.scene, scenes[1], state.selection, inSight(before)) : null;
    if (pair === null) { fitted = false; return; }
    const at = { x: pair[0].x * k + x + before.x * k, y: pair[0].y * k + y + before.y * k };
    Object.assign(camera.get(), { x: at.x - pair[1].x * k, y: at.y - pair[1].y * k });
  }

  const middle = (box) => ({ x: box.x + box.w / 2, y: box.y + box.h / 2 });
  const inSight = (shift) => {
    const { x, y, k } = camera.get();
    const [w, tall] = panes[1].size();
    return (n) => (n.x + shift.x + n.w) * k + x > 0 && (n.x + shift.x) * k + x < w
      && (n.y + shift.y + n.h) * k + y > 0 && (n.y + shift.y) * k + y < tall;
  };

  function whole(scenes = panes.map((pane) => pane.scene())) {
    return around(scenes.flatMap((scene, k) => (scene.box === null ? []
      : [{ ...scene.box, x: scene.box.x + panes[k].shift.x, y: scene.box.y + panes[k].shift.y }])));
  }

  /** The first picture of a layout is whole, or its start where the whole cannot be read; later, what changed is in sight. */
  function reveal(scenes, state) {
    const place = `${state.at}.${state.event}`;
    const moved = seen.place !== place || seen.compile !== state.compile;
    const left = state.left !== null && scenes[0].box !== null;
    const compared = (seen.left !== left || seen.merged !== state.merged) && !camera.get().moved;
    seen = { place, compile: state.compile, left, merged: state.merged };
    if (!fitted || compared) { first(scenes, state); return; }
    if (!moved) return;
    const changed = changedOutOfSight(scenes);
    if (changed !== null) centreBox(...changed);
  }

  /** `[node, pane]` of a change where none is in sight; else null. */
  function changedOutOfSight(scenes) {
    const changed = scenes.flatMap((scene, k) => scene.nodes.filter((n) => n.mark !== "same").map((n) => [n, k]));
    return changed.some(([n, k]) => inSight(panes[k].shift)(n)) ? null : changed[0] ?? null;
  }

  /** Everything that the layouts of both panes have, so that a later state of them is in sight as well. */
  const laidOut = () => around([whole(), ...panes.flatMap(({ shift, scene }, k) => (scene().box === null ? []
    : [{ x: shift.x, y: shift.y, w: places[k].width, h: places[k].height }]))]);

  function first(scenes, state) {
    const size = panes[1].size();
    if (whole() === null || size[0] === 0) return;
    fitted = true;
    room = size;
    const all = readableIn(size);
    if (all) camera.set(all);
    else start(scenes, state, size);
  }

  const readableIn = (size) => readable(laidOut(), whole(), size, places[1]?.overview ? COARSE : READABLE);

  /** A part of what can't be read whole, at scale `k`: what is asked for, else the top, else the first change. */
  function start(scenes, state, size, k) {
    const scene = scenes[1];
    if (scene.nodes.length === 0) { fitted = false; return; } // the layout of the right pane is on its way
    const see = (n, side, top) => {
      const { shift } = panes[side];
      camera.set(startOf(whole(), { ...n, x: n.x + shift.x, y: n.y + shift.y }, size, top, k));
    };
    const asks = scene.nodes.find((n) => n.picked === "picked") ?? (state.event === null ? undefined : scene.nodes.find((n) => n.mark !== "same"));
    const ends = scene.nodes.filter((n) => n.of?.kind === "input");
    const top = (ends.length ? ends : scene.nodes).reduce((a, b) => (b.y < a.y ? b : a));
    const reader = scene.nodes.find((n) => n.key === scene.edges.find((edge) => edge.from === top.key)?.to);
    see(asks ?? around(reader ? [top, reader] : [top]), 1, !asks);
    const changed = asks ? null : changedOutOfSight(scenes);
    if (changed !== null) see(...changed, false);
  }

  /**
   * Another size of the panes: what a reader moved keeps its middle; else all of it is shown while it can be read,
   * and then a part of it, no smaller than it was.
   */
  function resize(size) {
    const { moved, k } = camera.get();
    if (whole() === null && !moved) { fitted = false; return; }
    const all = moved ? null : readableIn(size);
    if (moved) camera.set({ ...resized(camera.get(), room, size), moved });
    else if (all) camera.set(all);
    else start(panes.map((pane) => pane.scene()), asked.state, size, k);
    room = size;
  }

  /** Show the whole of both scenes. */
  function fit() {
    if (whole() !== null) { room = panes[1].size(); camera.set(wholeOf(whole(), room)); }
  }

  /** Larger by so many steps, or smaller. */
  function zoom(steps) {
    const [w, tall] = panes[1].size();
    camera.zoom(w / 2, tall / 2, 1.3 ** steps);
  }

  function centreBox(n, side) {
    const [w, tall] = panes[side].size();
    const { k } = camera.get();
    camera.set({ k, moved: true, x: w / 2 - (n.x + n.w / 2 + panes[side].shift.x) * k, y: tall / 2 - (n.y + n.h / 2 + panes[side].shift.y) * k });
  }

  /** Bring a node or group into the middle, at a scale at which it reads. */
  function centreOn(key) {
    for (const side of [1, 0]) {
      const scene = panes[side].scene();
      const box = scene.nodes.find((n) => n.key === key || n.of?.key === key || n.group?.members.includes(key)) ?? scene.groups.find((g) => g.group.id === key);
      if (!box) continue;
      if (camera.get().k < READABLE) Object.assign(camera.get(), { k: START });
      centreBox(box, side);
      return true;
    }
    return false;
  }

  // ---- pointer ----------------------------------------------------------------------------------

  function pick({ node, frame: framed }) {
    if (node?.group && node.of === null) act.select({ kind: "origin", key: node.group.label, origins: node.origins });
    else if (node) act.select(node.group ? ofGroup(node.of) : ofNode(node.of));
    else act.select(framed ? ofGroup(framed.of) : NOTHING);
  }

  /** A double click opens what is closed and closes what is open. */
  function open({ node, frame: framed }) {
    const group = node?.group ?? framed?.group;
    if (!group) return;
    if (places[1]?.overview) act.inside(group.key);
    else act.toggle(group);
  }

  function tell(k, { node, frame: framed }, x, y) {
    const found = node ?? framed;
    tip.hidden = !found;
    if (!found) return;
    const side = asked.both[k];
    const lines = !node ? [framed.label] : node.group ? node.lines
      : [node.of.key, label(node.of, side.state.constants)[0], node.of.type ?? ""].filter((line, at, all) => line && all.indexOf(line) === at);
    const { reads, writes } = found.moved;
    const of = framed || node.group ? `group ${found.group.key}` : found.key;
    const heat = asked.heats[k].values.get(of), within = asked.heats[k].within.get(of);
    replace(tip, h("strong", null, lines[0]), lines.slice(1).map((line) => h("div", null, line)),
      reads + writes > 0 ? h("div", null, t("pane.moved", { reads: byFormula(reads), writes: byFormula(writes) })) : null,
      heat === undefined ? null : h("div", null, within ? t("overlay.time.within", { kernel: within, time: asked.heats[k].said(heat) })
        : [t(`overlay.${asked.state.overlay}`), " ", asked.heats[k].said(heat)]));
    const room = element.getBoundingClientRect(), box = panes[k].canvas.getBoundingClientRect();
    const left = box.left - room.left + x, top = box.top - room.top + y;
    tip.style.left = `${Math.min(left + 14, room.width - tip.offsetWidth - 4)}px`;
    tip.style.top = `${top + 18 + tip.offsetHeight > room.height ? top - tip.offsetHeight - 8 : top + 18}px`;
  }

  /** Under what conditions the figures of the overlay were measured. */
  const noted = () => (asked.heats[1].conditions ? t("overlay.conditions", { conditions: asked.heats[1].conditions }) : "");

  function note(k, side, where, state) {
    const texts = [];
    const [firstPass] = side.compile.history.stretch(side.at);
    const error = failed.get(`${side.compile.digest}/${firstPass}/${side.compile === state.compile ? state.inside : ""}`);
    if (error) texts.push(t(error.message, error.parameters));
    else if (where === null) texts.push(t("pane.placing"));
    else if (where.overview && panes[k].scene().box !== null) texts.push(t("pane.overview"));
    else if (where.small) texts.push(t("pane.alone"));
    if (state.left !== null && k === 0) texts.push(t("pane.aligned"));
    notes[k].textContent = texts.join(" ");
  }

  return {
    element, draw, fit, centreOn,
    zoom, pan: camera.pan,
    repaint() { for (const pane of panes) pane.repaint(); controls(); },
    /** What can be exported: `[{side, scene, title, palette, note}]`. */
    pictures: () => panes.map((pane, k) => ({ side: k, scene: pane.scene(), title: titles[k].textContent, palette: pane.palette(), note: noted() }))
      .filter((picture) => picture.scene.box !== null),
    /** Groups of the right state, or of the left one where that has none. */
    groups() {
      if (asked === null) return [];
      for (const k of [1, 0]) {
        const found = places[k] ? groupsOf(asked.both[k].state, places[k]) : [];
        if (found.length) return found;
      }
      return [];
    },
    overview: () => Boolean(places[1]?.overview),
  };

  function controls() {
    replace(zooms,
      h("button", { type: "button", id: "zoom-out", title: t("pane.zoom.out"), "aria-label": t("pane.zoom.out"), onclick: () => zoom(-1) }, "−"),
      h("button", { type: "button", id: "zoom-in", title: t("pane.zoom.in"), "aria-label": t("pane.zoom.in"), onclick: () => zoom(1) }, "+"),
      h("button", { type: "button", id: "zoom-fit", title: t("pane.fit"), "aria-label": t("pane.fit"), onclick: fit }, "⤢"));
  }
}
