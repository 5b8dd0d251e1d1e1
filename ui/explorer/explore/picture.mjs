// A shown graph as a file: SVG with names as text, or PNG. Nothing leaves the page: the file is made here.

import { s } from "../dom.mjs";
import { edgeStyle, MARKS, paintScene, tipOf } from "./canvas.mjs";
import { around } from "./scene.mjs";
import { CHARACTER, FONT, LINE } from "./sight.mjs";

const MARGIN = 16, HEAD = 34, GAP = 32, MOST = 8192, NOTE = 16;

/**
 * Pictures beside each other: `[{scene, title, dx, dy}]` with their places, the whole size, and the lines below them:
 * a note (under what conditions its figures were measured) goes with a picture wherever it goes.
 */
function arranged(pictures) {
  let x = MARGIN, tall = 0;
  const found = pictures.map(({ scene, title, palette }) => {
    const box = around([...scene.nodes, ...scene.groups]);
    const at = { scene, title, palette, x, dx: x - box.x, dy: MARGIN + HEAD - box.y };
    x += box.w + GAP;
    tall = Math.max(tall, box.h);
    return at;
  });
  const w = Math.max(x - GAP + MARGIN, pictures[0].note ? 420 : 0), below = tall + HEAD + 2 * MARGIN;
  const lines = broken(pictures[0].note ?? "", Math.floor((w - 2 * MARGIN) / CHARACTER));
  return { found, w, h: below + NOTE * lines.length, notes: lines.map((text, k) => ({ text, y: below + NOTE * k })) };
}

/** A text in lines of at most so many characters, cut between words. */
function broken(text, most) {
  const lines = [];
  for (const word of text.split(" ").filter(Boolean)) {
    if (lines.length && lines.at(-1).length + word.length < most) lines[lines.length - 1] += ` ${word}`;
    else lines.push(word);
  }
  return lines;
}

/** The SVG of pictures `{scene, title, palette, note}` beside each other, as text. */
export function svgOf(pictures) {
  const { found, w, h, notes } = arranged(pictures);
  const { palette } = pictures[0];
  const svg = s("svg", { xmlns: "http://www.w3.org/2000/svg", width: Math.ceil(w), height: Math.ceil(h), viewBox: `0 0 ${Math.ceil(w)} ${Math.ceil(h)}`, "font-family": "monospace", "font-size": FONT },
    s("rect", { width: "100%", height: "100%", fill: palette.ground }),
    found.map(({ scene, title, x, dx, dy }) => [
      s("text", { x, y: MARGIN + 12, "font-size": 15, "font-weight": 600, fill: palette.ink }, plain(title)),
      s("g", { transform: `translate(${dx} ${dy})` }, scene.groups.map((g) => frameOf(g, palette)),
        scene.edges.map((e) => edgeOf(e, palette)), scene.groups.map((g) => titleOf(g, palette)), scene.nodes.map((n) => nodeOf(n, palette))),
    ]),
    notes.map(({ text, y }) => s("text", { x: MARGIN, y, fill: palette.quiet }, plain(text))));
  return new XMLSerializer().serializeToString(svg);
}

/** The figure of an overlay at the upper right corner of its box. */
function figure({ x, y, w, figure: text }, palette) {
  if (!text) return null;
  const wide = text.length * CHARACTER + 8;
  return [s("rect", { x: x + w - wide + 6, y: y - 13, width: wide, height: 15, rx: 4, fill: palette.ground, stroke: palette.changed }),
    s("text", { x: x + w + 2, y: y - 1.5, "text-anchor": "end", "font-size": 11, "font-weight": 600, fill: palette.ink }, plain(text))];
}

/** Characters that XML forbids, replaced. */
// eslint-disable-next-line no-control-regex
const plain = (text) => String(text).replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd");

function bars(x, y, wide, shares, palette) {
  return shares && [s("rect", { x, y, width: wide, height: 7, fill: palette.line }),
    s("rect", { x, y, width: wide * shares[0], height: 3, fill: palette.read }),
    s("rect", { x, y: y + 4, width: wide * shares[1], height: 3, fill: palette.write })];
}

const strength = (heat) => 0.06 + 0.36 * heat;

function frameOf(g, palette) {
  return s("g", null,
    s("rect", { x: g.x, y: g.y, width: g.w, height: g.h, fill: g.heat === undefined ? palette.fused : palette.changed, "fill-opacity": g.heat === undefined ? 0.08 : strength(g.heat), stroke: palette.fused, "stroke-width": 2 }),
    bars(g.x + 6, g.y + g.h - 9, g.w - 12, g.bars, palette), figure(g, palette));
}

/** The name of a frame, over the edges that enter there. */
function titleOf(g, palette) {
  return s("text", { x: g.x + 6, y: g.y + 15, fill: palette.fused, stroke: palette.ground, "stroke-width": 4, "stroke-linejoin": "round", "paint-order": "stroke", "font-weight": 600 }, plain(g.label));
}

const STYLES = { weight: ["quiet", 1, "", 0.3], same: ["quiet", 1.2, ""], added: ["added", 2.4, ""], removed: ["removed", 2, "6 3"], ghost: ["fused", 1.2, "5 4"], near: ["primary", 3, ""] };

function edgeOf(edge, palette) {
  const [colour, width, dash, opacity] = STYLES[edgeStyle(edge)];
  const p = edge.points;
  let d = `M${p[0]} ${p[1]}`, j = 2;
  for (; j + 5 < p.length; j += 6) d += `C${p.slice(j, j + 6).join(" ")}`;
  if (j < p.length) d += `L${p[p.length - 2]} ${p[p.length - 1]}`;
  return s("g", null,
    s("path", { d, fill: "none", stroke: palette[colour], "stroke-width": width, "stroke-dasharray": dash || null, "stroke-opacity": opacity }),
    s("polygon", { points: tipOf(p).map((v) => v.toFixed(1)).join(" "), fill: palette[colour] }),
    edge.text ? s("text", { x: (edge.box.x0 + edge.box.x1) / 2 + 6, y: (edge.box.y0 + edge.box.y1) / 2 + 3, fill: palette.fused, "font-size": 11 }, plain(edge.text)) : null);
}

function nodeOf(n, palette) {
  const stroke = n.group && n.mark === "same" ? palette.fused : palette[n.mark] ?? palette.quiet;
  const box = (by) => ({ x: n.x + by, y: n.y + by, width: n.w - 2 * by, height: n.h - 2 * by, rx: 5 });
  return s("g", null,
    n.picked ? s("rect", { ...box(-5), fill: "none", stroke: palette.primary, "stroke-width": n.picked === "picked" ? 4 : 2 }) : null,
    s("rect", { ...box(0), fill: palette.soft }),
    n.heat === undefined ? null : s("rect", { ...box(0), fill: palette.changed, "fill-opacity": strength(n.heat) }),
    s("rect", { ...box(0), fill: "none", stroke, "stroke-width": n.mark === "same" ? 1 : 2.5, "stroke-dasharray": n.mark === "removed" ? "6 3" : null }),
    n.mark === "changed" || n.group ? s("rect", { ...box(4), fill: "none", stroke }) : null,
    n.lines.map((line, k) => s("text", { x: n.x + n.w / 2, y: n.y + FONT + LINE * k, "text-anchor": "middle", "font-weight": k === 0 ? 600 : null, fill: k === 0 || n.heat !== undefined ? palette.ink : palette.quiet }, plain(line))),
    MARKS[n.mark] ? s("text", { x: n.x + 5, y: n.y + 14, "font-weight": 700, fill: palette[n.mark] }, MARKS[n.mark]) : null,
    bars(n.x + 5, n.y + n.h - 8.5, n.w - 10, n.bars, palette), figure(n, palette));
}

/** The PNG of pictures, a promise of a Blob; twice the size on the screen as far as a picture may be. */
export function pngOf(pictures) {
  const { found, w, h, notes } = arranged(pictures);
  const { palette } = pictures[0];
  const scale = Math.min(2, MOST / w, MOST / h);
  const canvas = document.createElement("canvas");
  canvas.width = Math.ceil(w * scale);
  canvas.height = Math.ceil(h * scale);
  const context = canvas.getContext("2d", { alpha: false });
  context.fillStyle = palette.ground;
  context.fillRect(0, 0, canvas.width, canvas.height);
  for (const { scene, title, x, dx, dy } of found) {
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.fillStyle = palette.ink;
    context.textAlign = "left";
    context.font = `600 15px ${palette.font}`;
    context.fillText(title, x, MARGIN + 12);
    context.translate(dx, dy);
    paintScene(context, scene, palette, Math.max(1, scale), { x0: -Infinity, y0: -Infinity, x1: Infinity, y1: Infinity });
  }
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.fillStyle = palette.quiet;
  context.font = `12px ${palette.font}`;
  for (const { text, y } of notes) context.fillText(text, MARGIN, y);
  return new Promise((resolve) => { canvas.toBlob(resolve, "image/png"); });
}
