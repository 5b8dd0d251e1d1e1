// One pane: a canvas that draws a scene under a pan and zoom that both panes share.
//
// A scene (scene.mjs) is rectangles and curves with what to say of them; the pane knows nothing of
// compilers. One path a colour; below scale DETAIL edges are straight and there is no text. While
// panning, what was drawn is shifted by whole pixels and only the strips that come into sight are
// painted, so that a frame costs little however large the graph is.

import { FONT, LEAST, LINE } from "./sight.mjs";

const DETAIL = 0.35;
const CELL = 240;
export const MARKS = { added: "+", removed: "−", changed: "~", fused: "", same: "" };

/** Colours by their CSS variable, read again when the theme changed. */
export function colours(element) {
  const style = getComputedStyle(element);
  const found = {};
  for (const name of ["ink", "ground", "quiet", "line", "soft", "added", "removed", "changed", "fused", "primary", "read", "write"])
    found[name] = style.getPropertyValue(`--${name}`).trim() || "#888";
  found.font = style.getPropertyValue("--code").trim() || "monospace";
  return found;
}

/** The transform of both panes: x' = x * k + tx. `moved` is whether a reader changed it since it was set. */
export function createCamera(changed) {
  const camera = { x: 0, y: 0, k: 1, moved: false };
  return {
    get: () => camera,
    set(next) { Object.assign(camera, { moved: false }, next); changed(); },
    pan(dx, dy) { camera.x += dx; camera.y += dy; camera.moved = true; changed(); },
    zoom(px, py, factor) {
      const k = Math.min(4, Math.max(LEAST, camera.k * factor));
      const real = k / camera.k;
      Object.assign(camera, { x: px - (px - camera.x) * real, y: py - (py - camera.y) * real, k, moved: true });
      changed();
    },
  };
}

/**
 * A pane over `camera`. `on` is told of the pointer: `pick(hit)` and `open(hit)` of a click and a double
 * click, `over(hit, x, y)` of a move, `out()`; a hit is `{node}`, `{frame}` or `{}`.
 * `wheel(event)` says whether the wheel zooms.
 */
export function createPane(camera, on, { wheel = () => true } = {}) {
  const canvas = document.createElement("canvas");
  canvas.setAttribute("aria-hidden", "true");
  canvas.className = "pane-canvas";
  let scene = { nodes: [], edges: [], groups: [], box: null };
  let grid = new Map();
  let palette = null, theme = "";
  let drawn = null;
  const shift = { x: 0, y: 0 };

  function index() {
    grid = new Map();
    for (const node of scene.nodes) {
      for (let a = Math.floor(node.x / CELL); a <= Math.floor((node.x + node.w) / CELL); a += 1)
        for (let b = Math.floor(node.y / CELL); b <= Math.floor((node.y + node.h) / CELL); b += 1) {
          const cell = `${a},${b}`;
          if (!grid.has(cell)) grid.set(cell, []);
          grid.get(cell).push(node);
        }
    }
  }

  function hit(px, py) {
    const { x, y, k } = view();
    const at = [(px - x) / k, (py - y) / k];
    const inside = (box) => at[0] >= box.x && at[0] <= box.x + box.w && at[1] >= box.y && at[1] <= box.y + box.h;
    const node = (grid.get(`${Math.floor(at[0] / CELL)},${Math.floor(at[1] / CELL)}`) ?? []).find(inside);
    if (node) return { node };
    const frame = scene.groups.find(inside);
    return frame ? { frame } : {};
  }

  /** The camera, moved by what sets this pane's places apart from the other's, to whole pixels. */
  function view() {
    const { x, y, k } = camera.get();
    const ratio = window.devicePixelRatio || 1;
    return { x: Math.round((x + shift.x * k) * ratio) / ratio, y: Math.round((y + shift.y * k) * ratio) / ratio, k };
  }

  let drag = null;
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  canvas.addEventListener("pointerdown", (event) => {
    drag = { x: event.clientX, y: event.clientY, moved: 0 };
    canvas.setPointerCapture(event.pointerId);
    on.out();
  });
  canvas.addEventListener("pointermove", (event) => {
    if (drag === null) {
      const found = hit(...at(event));
      canvas.style.cursor = found.node || found.frame ? "pointer" : "";
      on.over(found, ...at(event));
      return;
    }
    const dx = event.clientX - drag.x, dy = event.clientY - drag.y;
    drag = { x: event.clientX, y: event.clientY, moved: drag.moved + Math.abs(dx) + Math.abs(dy) };
    canvas.style.cursor = "grabbing";
    camera.pan(dx, dy);
  });
  canvas.addEventListener("pointerup", (event) => {
    if (drag !== null && drag.moved < 4) on.pick(hit(...at(event)));
    drag = null;
    canvas.style.cursor = "";
  });
  canvas.addEventListener("dblclick", (event) => on.open(hit(...at(event))));
  canvas.addEventListener("pointercancel", () => { drag = null; });
  canvas.addEventListener("pointerleave", () => on.out());
  canvas.addEventListener("wheel", (event) => {
    if (!wheel(event)) return;
    event.preventDefault();
    on.out();
    camera.zoom(...at(event), Math.exp(-event.deltaY * 0.0015));
  }, { passive: false });

  function paint(context, x, y, k, px, py, pw, ph) {
    context.fillStyle = palette.ground;
    context.fillRect(px, py, pw, ph);
    context.translate(x, y);
    context.scale(k, k);
    paintScene(context, scene, palette, k, { x0: (px - x) / k, y0: (py - y) / k, x1: (px + pw - x) / k, y1: (py + ph - y) / k });
  }

  return {
    canvas, hit, view, shift,
    scene: () => scene,
    palette: () => (palette ??= colours(canvas)),
    show(next) { if (next !== scene) { scene = next; drawn = null; index(); } },
    repaint() { palette = null; drawn = null; },
    size: () => [canvas.clientWidth, canvas.clientHeight],
    draw() {
      const now = canvas.closest("[data-theme]")?.dataset.theme ?? "";
      if (now !== theme) { theme = now; palette = null; drawn = null; }
      palette ??= colours(canvas);
      const ratio = window.devicePixelRatio || 1;
      const [w, h] = [canvas.clientWidth, canvas.clientHeight];
      if (w === 0 || h === 0) return;
      if (canvas.width !== Math.round(w * ratio) || canvas.height !== Math.round(h * ratio)) {
        canvas.width = Math.round(w * ratio);
        canvas.height = Math.round(h * ratio);
        drawn = null;
      }
      const context = canvas.getContext("2d", { alpha: false });
      const { x, y, k } = view();
      const dx = drawn === null ? Infinity : x - drawn.x, dy = drawn === null ? Infinity : y - drawn.y;
      if (drawn?.k === k && dx === 0 && dy === 0) return;
      if (drawn?.k === k && Math.abs(dx) < w && Math.abs(dy) < h) {
        context.setTransform(1, 0, 0, 1, 0, 0);
        context.globalCompositeOperation = "copy";
        context.drawImage(canvas, Math.round(dx * ratio), Math.round(dy * ratio));
        context.globalCompositeOperation = "source-over";
        for (const strip of strips(dx, dy, w, h)) {
          context.save();
          context.setTransform(ratio, 0, 0, ratio, 0, 0);
          context.beginPath();
          context.rect(...strip);
          context.clip();
          paint(context, x, y, k, ...strip);
          context.restore();
        }
      } else {
        context.setTransform(ratio, 0, 0, ratio, 0, 0);
        paint(context, x, y, k, 0, 0, w, h);
      }
      drawn = { x, y, k };
    },
  };
}

/** What a shift by (dx, dy) leaves empty of a w x h picture. */
function strips(dx, dy, w, h) {
  const found = [];
  if (dx > 0) found.push([0, 0, dx, h]);
  if (dx < 0) found.push([w + dx, 0, -dx, h]);
  if (dy > 0) found.push([0, 0, w, dy]);
  if (dy < 0) found.push([0, h + dy, w, -dy]);
  return found;
}

const AROUND = 8;
const visible = (box, seen) => box.x < seen.x1 + AROUND && box.x + box.w > seen.x0 - AROUND
  && box.y < seen.y1 + AROUND && box.y + box.h > seen.y0 - AROUND;
const inSight = ({ box }, seen) => box.x1 >= seen.x0 - AROUND && box.x0 <= seen.x1 + AROUND + 80
  && box.y1 >= seen.y0 - AROUND && box.y0 <= seen.y1 + AROUND;

/** Draw a scene; also used for pictures that are exported. `seen`: what of it is in sight. */
export function paintScene(context, scene, palette, k, seen) {
  const detail = k > DETAIL;
  for (const group of scene.groups) if (visible(group, seen)) paintFrame(context, group, palette, k, detail);
  paintEdges(context, scene.edges.filter((edge) => inSight(edge, seen)), palette, k, detail);
  if (detail) for (const group of scene.groups) if (visible(group, seen)) paintTitle(context, group, palette);
  const byStyle = new Map();
  for (const node of scene.nodes) {
    if (!visible(node, seen)) continue;
    const style = `${node.mark}|${node.picked ?? ""}|${node.hit ? 1 : 0}|${node.group ? 1 : 0}`;
    if (!byStyle.has(style)) byStyle.set(style, []);
    byStyle.get(style).push(node);
  }
  for (const nodes of byStyle.values()) paintBoxes(context, nodes, palette, k, detail);
  if (!detail) return;
  for (const nodes of byStyle.values()) for (const node of nodes) paintText(context, node, palette);
  for (const box of [...scene.groups, ...scene.nodes]) if (box.figure && visible(box, seen)) paintFigure(context, box, palette);
}

/** The figure of an overlay on the upper right corner of its box, clear of the title in it. */
function paintFigure(context, { x, y, w, figure }, palette) {
  context.font = `600 11px ${palette.font}`;
  const wide = context.measureText(figure).width + 8;
  context.beginPath();
  context.roundRect(x + w - wide + 6, y - 13, wide, 15, 4);
  context.fillStyle = palette.ground;
  context.fill();
  context.lineWidth = 1;
  context.strokeStyle = palette.changed;
  context.stroke();
  context.fillStyle = palette.ink;
  context.textAlign = "center";
  context.fillText(figure, x + w - wide / 2 + 6, y - 1.5);
}

/** How strongly a figure colours its box: text on the darkest stays readable. */
const strength = (heat) => 0.06 + 0.36 * heat;

function paintFrame(context, frame, palette, k, detail) {
  context.globalAlpha = frame.heat === undefined ? 0.08 : strength(frame.heat);
  context.fillStyle = frame.heat === undefined ? palette.fused : palette.changed;
  context.fillRect(frame.x, frame.y, frame.w, frame.h);
  context.globalAlpha = 1;
  context.lineWidth = Math.max(frame.picked ? 4 : 2, (frame.picked ? 2 : 1) / k);
  context.strokeStyle = palette.fused;
  context.strokeRect(frame.x, frame.y, frame.w, frame.h);
  if (frame.picked) {
    context.strokeStyle = palette.primary;
    context.strokeRect(frame.x - 5, frame.y - 5, frame.w + 10, frame.h + 10);
  }
  if (detail && frame.bars) paintBars(context, frame.x + 6, frame.y + frame.h - 9, frame.w - 12, frame.bars, palette);
}

/** The name of a frame, over the edges that enter there. */
function paintTitle(context, frame, palette) {
  const place = [`⊟ ${frame.label}`, frame.x + 6, frame.y + 15, frame.w - 12];
  context.font = `600 ${FONT}px ${palette.font}`;
  context.textAlign = "left";
  context.lineWidth = 4;
  context.lineJoin = "round";
  context.strokeStyle = palette.ground;
  context.strokeText(...place);
  context.fillStyle = palette.fused;
  context.fillText(...place);
}

/** Read above, write below: lengths to one scale over both panes. */
function paintBars(context, x, y, wide, bars, palette) {
  context.fillStyle = palette.line;
  context.fillRect(x, y, wide, 7);
  context.fillStyle = palette.read;
  context.fillRect(x, y, wide * bars[0], 3);
  context.fillStyle = palette.write;
  context.fillRect(x, y + 4, wide * bars[1], 3);
}

const EDGE = {
  weight: { colour: "quiet", width: 1, dash: [], alpha: 0.3 },
  same: { colour: "quiet", width: 1.2, dash: [] },
  added: { colour: "added", width: 2.4, dash: [] },
  removed: { colour: "removed", width: 2, dash: [6, 3] },
  ghost: { colour: "fused", width: 1.2, dash: [5, 4] },
  near: { colour: "primary", width: 3, dash: [] },
};

export const edgeStyle = (edge) => (edge.near ? "near" : edge.mark !== "same" ? edge.mark : edge.ghost ? "ghost" : edge.weight ? "weight" : "same");

function paintEdges(context, edges, palette, k, detail) {
  const byStyle = new Map(Object.keys(EDGE).map((style) => [style, []]));
  for (const edge of edges) byStyle.get(edgeStyle(edge)).push(edge);
  for (const [style, found] of byStyle) {
    if (found.length === 0) continue;
    const { colour, width, dash, alpha } = EDGE[style];
    context.globalAlpha = alpha ?? 1;
    context.beginPath();
    for (const { points: p } of found) {
      context.moveTo(p[0], p[1]);
      let j = 2;
      if (detail) for (; j + 5 < p.length; j += 6) context.bezierCurveTo(p[j], p[j + 1], p[j + 2], p[j + 3], p[j + 4], p[j + 5]);
      if (j < p.length || !detail) context.lineTo(p[p.length - 2], p[p.length - 1]);
    }
    context.setLineDash(detail ? dash : []);
    context.strokeStyle = palette[colour];
    context.lineWidth = detail ? width : Math.max(width, 0.5 / k);
    context.stroke();
    context.setLineDash([]);
    context.globalAlpha = 1;
    if (!detail) continue;
    context.fillStyle = palette[colour];
    context.beginPath();
    for (const edge of found) tip(context, edge.points);
    context.fill();
    context.font = `11px ${palette.font}`;
    context.textAlign = "left";
    for (const edge of found) {
      if (!edge.text) continue;
      context.fillStyle = palette.fused;
      context.fillText(edge.text, (edge.box.x0 + edge.box.x1) / 2 + 6, (edge.box.y0 + edge.box.y1) / 2 + 3);
    }
  }
}

/** The three corners of an arrow's tip, [x, y, x, y, x, y]. */
export function tipOf(p) {
  const [x, y] = p.slice(-2);
  const [fx, fy] = p.slice(-4, -2);
  const angle = Math.atan2(y - fy, x - fx);
  return [x, y, x - 7 * Math.cos(angle + 0.4), y - 7 * Math.sin(angle + 0.4),
    x - 7 * Math.cos(angle - 0.4), y - 7 * Math.sin(angle - 0.4)];
}

function tip(context, points) {
  const [x, y, ax, ay, bx, by] = tipOf(points);
  context.moveTo(x, y);
  context.lineTo(ax, ay);
  context.lineTo(bx, by);
  context.closePath();
}

function paintBoxes(context, nodes, palette, k, detail) {
  const { mark, picked, hit, group } = nodes[0];
  context.beginPath();
  for (const n of nodes) {
    if (detail) context.roundRect(n.x, n.y, n.w, n.h, 5);
    else context.rect(n.x, n.y, n.w, n.h);
  }
  context.fillStyle = palette.soft;
  context.fill();
  context.fillStyle = palette.changed;
  for (const n of nodes) {
    if (n.heat === undefined) continue;
    context.globalAlpha = strength(n.heat);
    context.fillRect(n.x, n.y, n.w, n.h);
  }
  context.globalAlpha = 1;
  context.setLineDash(mark === "removed" ? [6, 3] : []);
  context.strokeStyle = group && mark === "same" ? palette.fused : palette[mark] ?? palette.quiet;
  context.lineWidth = mark === "same" ? Math.max(group ? 2 : 1, 0.6 / k) : Math.max(2.5, 1.4 / k);
  context.stroke();
  context.setLineDash([]);
  if ((mark === "changed" || group) && detail) {
    context.beginPath();
    for (const n of nodes) context.roundRect(n.x + 4, n.y + 4, n.w - 8, n.h - 8, 3);
    context.lineWidth = 1;
    context.stroke();
  }
  if (!picked && !hit) return;
  const out = picked === "picked" ? 5 : 4;
  context.beginPath();
  for (const n of nodes) context.rect(n.x - out, n.y - out, n.w + 2 * out, n.h + 2 * out);
  context.strokeStyle = palette.primary;
  context.setLineDash(picked ? [] : [3, 3]);
  context.lineWidth = Math.max(picked === "picked" ? 4 : 2, (picked === "picked" ? 2.4 : 1.6) / k);
  context.stroke();
  context.setLineDash([]);
}

function paintText(context, node, palette) {
  context.textAlign = "center";
  const lines = node.group ? [`⊞ ${node.lines[0]}`, ...node.lines.slice(1)] : node.lines;
  lines.forEach((line, k) => {
    context.font = k === 0 ? `600 ${FONT}px ${palette.font}` : `${FONT}px ${palette.font}`;
    context.fillStyle = k === 0 || node.heat !== undefined ? palette.ink : palette.quiet;
    context.fillText(line, node.x + node.w / 2, node.y + FONT + k * LINE, node.w - (MARKS[node.mark] ? 28 : 8));
  });
  if (MARKS[node.mark]) {
    context.font = `700 13px ${palette.font}`;
    context.textAlign = "left";
    context.fillStyle = palette[node.mark];
    context.fillText(MARKS[node.mark], node.x + 5, node.y + 14);
  }
  if (node.bars) paintBars(context, node.x + 5, node.y + node.h - 8.5, node.w - 10, node.bars, palette);
}
