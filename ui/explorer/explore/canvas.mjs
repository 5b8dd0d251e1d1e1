// One pane: a canvas that draws a scene under a pan and zoom that both panes share.
//
// A scene is `{nodes, edges, groups}` of rectangles and curves with what to say of them; the pane
// knows nothing of compilers. Drawn per frame: one path a colour for edges and boxes; below scale
// DETAIL straight edges and no text (two panes of 3,000 nodes fitted whole then stay within a frame).

const DETAIL = 0.35;
const LINE = 15;
export const MARKS = { added: "+", removed: "−", changed: "~", fused: "", same: "" };

/** Colours by their CSS variable, read again when the theme changed. */
export function colours(element) {
  const style = getComputedStyle(element);
  const read = (name) => style.getPropertyValue(`--${name}`).trim() || "#888";
  const found = {};
  for (const name of ["ink", "ground", "quiet", "line", "soft", "added", "removed", "changed", "fused", "primary", "read", "write"]) found[name] = read(name);
  found.font = style.getPropertyValue("--code").trim() || "monospace";
  return found;
}

/** The transform of both panes: x' = x * k + tx. */
export function createCamera(changed) {
  const camera = { x: 0, y: 0, k: 1 };
  return {
    get: () => camera,
    set(next) { Object.assign(camera, next); changed(); },
    pan(dx, dy) { camera.x += dx; camera.y += dy; changed(); },
    zoom(px, py, factor) {
      const k = Math.min(4, Math.max(0.02, camera.k * factor));
      const real = k / camera.k;
      Object.assign(camera, { x: px - (px - camera.x) * real, y: py - (py - camera.y) * real, k });
      changed();
    },
  };
}

/** A pane over `camera`; `onPick(hit)` is told `{node}`, `{group}` or `{}` of a click. */
export function createPane(camera, onPick, { wheel = () => true } = {}) {
  const canvas = document.createElement("canvas");
  canvas.setAttribute("aria-hidden", "true");
  canvas.className = "pane-canvas";
  let scene = { nodes: [], edges: [], groups: [] };
  let grid = new Map();
  let palette = null;
  const CELL = 240;

  function index() {
    grid = new Map();
    scene.nodes.forEach((node, k) => {
      for (let a = Math.floor(node.x / CELL); a <= Math.floor((node.x + node.w) / CELL); a += 1)
        for (let b = Math.floor(node.y / CELL); b <= Math.floor((node.y + node.h) / CELL); b += 1) {
          const cell = `${a},${b}`;
          if (!grid.has(cell)) grid.set(cell, []);
          grid.get(cell).push(k);
        }
    });
  }

  function hit(px, py) {
    const { x, y, k } = camera.get();
    const at = [(px - x) / k, (py - y) / k];
    const inside = (box) => at[0] >= box.x && at[0] <= box.x + box.w && at[1] >= box.y && at[1] <= box.y + box.h;
    for (const n of grid.get(`${Math.floor(at[0] / CELL)},${Math.floor(at[1] / CELL)}`) ?? [])
      if (inside(scene.nodes[n])) return { node: scene.nodes[n] };
    const group = scene.groups.find(inside);
    return group ? { group } : {};
  }

  let drag = null;
  canvas.addEventListener("pointerdown", (event) => {
    drag = { x: event.clientX, y: event.clientY, moved: 0 };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (drag === null) return;
    const dx = event.clientX - drag.x, dy = event.clientY - drag.y;
    drag = { x: event.clientX, y: event.clientY, moved: drag.moved + Math.abs(dx) + Math.abs(dy) };
    camera.pan(dx, dy);
  });
  canvas.addEventListener("pointerup", (event) => {
    if (drag !== null && drag.moved < 4) {
      const box = canvas.getBoundingClientRect();
      onPick(hit(event.clientX - box.left, event.clientY - box.top));
    }
    drag = null;
  });
  canvas.addEventListener("pointercancel", () => { drag = null; });
  canvas.addEventListener("wheel", (event) => {
    if (!wheel(event)) return;
    event.preventDefault();
    const box = canvas.getBoundingClientRect();
    camera.zoom(event.clientX - box.left, event.clientY - box.top, Math.exp(-event.deltaY * 0.0015));
  }, { passive: false });

  return {
    canvas,
    hit,
    scene: () => scene,
    show(next) { scene = next; index(); },
    repaint() { palette = null; },
    size: () => [canvas.clientWidth, canvas.clientHeight],
    draw() {
      palette ??= colours(canvas);
      const ratio = window.devicePixelRatio || 1;
      const [w, h] = [canvas.clientWidth, canvas.clientHeight];
      if (canvas.width !== Math.round(w * ratio) || canvas.height !== Math.round(h * ratio)) {
        canvas.width = Math.round(w * ratio);
        canvas.height = Math.round(h * ratio);
      }
      const context = canvas.getContext("2d");
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      context.fillStyle = palette.ground;
      context.fillRect(0, 0, w, h);
      const { x, y, k } = camera.get();
      context.translate(x, y);
      context.scale(k, k);
      const seen = { x0: -x / k, y0: -y / k, x1: (w - x) / k, y1: (h - y) / k };
      paintScene(context, scene, palette, k, seen);
    },
  };
}

const visible = (box, seen) => box.x < seen.x1 && box.x + box.w > seen.x0 && box.y < seen.y1 && box.y + box.h > seen.y0;

/** Draw a scene; also used for pictures that are exported. `seen`: what of it is in sight. */
export function paintScene(context, scene, palette, k, seen) {
  const detail = k > DETAIL;
  for (const group of scene.groups) if (visible(group, seen)) paintGroup(context, group, palette, detail);
  paintEdges(context, scene.edges, palette, detail, seen);
  const byStyle = new Map();
  for (const node of scene.nodes) {
    if (!visible(node, seen)) continue;
    const style = `${node.mark}|${node.picked ?? ""}|${node.ghost ? 1 : 0}`;
    if (!byStyle.has(style)) byStyle.set(style, []);
    byStyle.get(style).push(node);
  }
  for (const nodes of byStyle.values()) paintBoxes(context, nodes, palette, k, detail);
  if (detail) for (const nodes of byStyle.values()) for (const node of nodes) paintText(context, node, palette);
}

function paintGroup(context, group, palette, detail) {
  context.lineWidth = group.picked ? 4 : 2;
  context.strokeStyle = palette.fused;
  context.globalAlpha = 0.08;
  context.fillStyle = palette.fused;
  context.fillRect(group.x, group.y, group.w, group.h);
  context.globalAlpha = 1;
  context.strokeRect(group.x, group.y, group.w, group.h);
  if (detail) {
    context.fillStyle = palette.fused;
    context.font = `600 12px ${palette.font}`;
    context.textAlign = "left";
    context.fillText(group.label, group.x + 6, group.y + 14);
  }
}

function paintEdges(context, edges, palette, detail, seen) {
  for (const ghost of [false, true]) {
    context.beginPath();
    for (const edge of edges) {
      if (Boolean(edge.ghost) !== ghost) continue;
      const { points: p } = edge;
      if (edge.box.x1 < seen.x0 || edge.box.x0 > seen.x1 || edge.box.y1 < seen.y0 || edge.box.y0 > seen.y1) continue;
      context.moveTo(p[0], p[1]);
      if (!detail || p.length < 8) context.lineTo(p[p.length - 2], p[p.length - 1]);
      else {
        let j = 2;
        for (; j + 5 < p.length; j += 6) context.bezierCurveTo(p[j], p[j + 1], p[j + 2], p[j + 3], p[j + 4], p[j + 5]);
        if (j < p.length) context.lineTo(p[p.length - 2], p[p.length - 1]);
      }
    }
    context.setLineDash(ghost ? [5, 4] : []);
    context.strokeStyle = ghost ? palette.fused : palette.quiet;
    context.lineWidth = 1.2;
    context.stroke();
    context.setLineDash([]);
  }
  if (!detail) return;
  context.fillStyle = palette.quiet;
  for (const edge of edges) {
    if (edge.ghost && edge.text) {
      context.fillStyle = palette.fused;
      context.font = `11px ${palette.font}`;
      context.textAlign = "left";
      context.fillText(edge.text, (edge.box.x0 + edge.box.x1) / 2 + 4, (edge.box.y0 + edge.box.y1) / 2);
      context.fillStyle = palette.quiet;
    }
    tip(context, edge.points);
  }
}

function tip(context, p) {
  const [x, y] = p.slice(-2);
  const [fx, fy] = p.length > 4 ? p.slice(-6, -4) : p.slice(0, 2);
  const angle = Math.atan2(y - fy, x - fx);
  context.beginPath();
  context.moveTo(x, y);
  context.lineTo(x - 7 * Math.cos(angle + 0.4), y - 7 * Math.sin(angle + 0.4));
  context.lineTo(x - 7 * Math.cos(angle - 0.4), y - 7 * Math.sin(angle - 0.4));
  context.fill();
}

const DASH = { removed: [6, 3], added: [], changed: [], fused: [], same: [] };

function paintBoxes(context, nodes, palette, k, detail) {
  const { mark, picked, ghost } = nodes[0];
  const colour = palette[mark] ?? palette.quiet;
  context.beginPath();
  for (const n of nodes) {
    if (detail) context.roundRect(n.x, n.y, n.w, n.h, 5);
    else context.rect(n.x, n.y, n.w, n.h);
  }
  context.globalAlpha = ghost ? 0.45 : 1;
  context.fillStyle = palette.soft;
  context.fill();
  for (const n of nodes) {
    if (n.heat === undefined) continue;
    context.globalAlpha = 0.15 + 0.6 * n.heat;
    context.fillStyle = palette.changed;
    context.fillRect(n.x, n.y, n.w, n.h);
    context.globalAlpha = 1;
  }
  context.setLineDash(DASH[mark] ?? []);
  context.strokeStyle = colour;
  context.lineWidth = mark === "same" ? Math.max(1, 0.6 / k) : Math.max(2.5, 1.4 / k);
  context.stroke();
  context.setLineDash([]);
  if (mark === "changed" && detail) {
    context.beginPath();
    for (const n of nodes) context.roundRect(n.x + 4, n.y + 4, n.w - 8, n.h - 8, 3);
    context.lineWidth = 1;
    context.stroke();
  }
  if (picked) {
    const out = picked === "picked" ? 4 : 3;
    context.beginPath();
    for (const n of nodes) context.rect(n.x - out, n.y - out, n.w + 2 * out, n.h + 2 * out);
    context.strokeStyle = palette.primary;
    context.lineWidth = Math.max(picked === "picked" ? 4 : 2, 1.6 / k);
    context.stroke();
  }
  context.globalAlpha = 1;
}

function paintText(context, node, palette) {
  context.textAlign = "center";
  node.lines.forEach((line, k) => {
    context.font = k === 0 ? `600 12px ${palette.font}` : `12px ${palette.font}`;
    context.fillStyle = k === 0 ? palette.ink : palette.quiet;
    context.fillText(line, node.x + node.w / 2, node.y + 17 + k * LINE, node.w - 8);
  });
  if (MARKS[node.mark]) {
    context.font = `700 13px ${palette.font}`;
    context.textAlign = "left";
    context.fillStyle = palette[node.mark];
    context.fillText(MARKS[node.mark], node.x + 5, node.y + 15);
  }
  if (node.bars) {
    const wide = (node.w - 8) * 1;
    const y = node.y + node.h - 5;
    context.fillStyle = palette.read;
    context.fillRect(node.x + 4, y - 3, wide * node.bars[0], 3);
    context.fillStyle = palette.write;
    context.fillRect(node.x + 4, y + 1, wide * node.bars[1], 3);
  }
}
