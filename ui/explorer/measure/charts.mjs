// Charts of a measurement as SVG; each says in words what it shows, and a table stands behind it.

import { h, s, unseen } from "../dom.mjs";
import { duration, durations, number, short, t } from "../text.mjs";

const WIDTH = 620, LEFT = 130, RIGHT = 90;

/** Round steps for an axis from 0 to `most`. */
export function ticks(most, wanted = 5) {
  if (!(most > 0)) return [0];
  const rough = most / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((m) => m >= rough);
  return Array.from({ length: Math.floor(most / step + 1e-9) + 1 }, (_, k) => k * step);
}

/** A sign of a legend: "box", "line", "thin", "beyond", "square" or "circle", in the colour of a run. */
export function swatch(shape, kind = "") {
  const drawn = {
    box: () => s("rect", { class: `bar ${kind}`, x: 1, y: 3, width: 22, height: 10 }),
    line: () => s("line", { class: "median", x1: 12, x2: 12, y1: 1, y2: 15 }),
    thin: () => s("line", { class: "whisker", x1: 1, x2: 23, y1: 8, y2: 8 }),
    beyond: () => beyond(18, 8),
    square: () => s("g", { class: `point ${kind}` }, s("rect", { x: 7, y: 3, width: 10, height: 10 })),
    circle: () => s("g", { class: `point ${kind}` }, s("circle", { cx: 12, cy: 8, r: 6 })),
  };
  return s("svg", { class: "chart swatch", viewBox: "0 0 24 16", "aria-hidden": "true" }, drawn[shape]());
}

/** What the signs of a chart mean: `[[swatch, text], …]`. */
export function legend(items) {
  return h("ul", { class: "legend" }, items.map(([sign, text]) => h("li", null, sign, h("span", null, text))));
}

/** The head of a line that goes on where the chart ends. */
const beyond = (x, y) => s("path", { class: "beyond", d: `M${x} ${y - 5}l6 5l-6 5z` });

/**
 * Where the times of each run lie: a thin line from the fastest to the slowest, a box around
 * the middle half, a mark at the median: few runs suffice to tell these. `rows` are `{name, kind,
 * quantiles}` in milliseconds. The axis ends a little above the 95th percentile; a line that goes on
 * has a head.
 */
export function distribution(label, rows) {
  const band = (q, share) => q[Math.round(share * (q.length - 1))];
  const most = Math.max(...rows.map((row) => band(row.quantiles, 0.95))) * 1.1;
  const x = (value) => LEFT + (WIDTH - LEFT - RIGHT) * Math.min(1, value / most);
  const height = 34 * rows.length + 34, tick = durations(most);
  const words = rows.map((row) => t("chart.distribution.row", {
    name: row.name, low: duration(band(row.quantiles, 0.25)), mid: duration(band(row.quantiles, 0.5)), high: duration(band(row.quantiles, 0.75)) }));
  return s("svg", { class: "chart", role: "img", viewBox: `0 0 ${WIDTH} ${height}`, "aria-label": `${label}: ${words.join("; ")}` },
    ticks(most).filter((v) => v <= most).map((v) => s("g", null,
      s("line", { class: "grid", x1: x(v), x2: x(v), y1: 4, y2: height - 26 }),
      s("text", { class: "tick", x: x(v), y: height - 10, "text-anchor": "middle" }, tick(v)))),
    rows.map((row, k) => {
      const y = 20 + 34 * k, q = row.quantiles;
      return s("g", null,
        s("text", { class: "name", x: LEFT - 8, y: y + 4, "text-anchor": "end" }, row.name),
        s("line", { class: `whisker ${row.kind}`, x1: x(q[0]), x2: x(q.at(-1)), y1: y, y2: y }),
        q.at(-1) > most ? beyond(x(most), y) : null,
        s("rect", { class: `bar ${row.kind}`, x: x(band(q, 0.25)), y: y - 8, height: 16, width: Math.max(2, x(band(q, 0.75)) - x(band(q, 0.25))) }),
        s("line", { class: "median", x1: x(band(q, 0.5)), x2: x(band(q, 0.5)), y1: y - 11, y2: y + 11 }),
        s("text", { class: "value", x: WIDTH - RIGHT + 14, y: y + 4 }, duration(band(q, 0.5))));
    }));
}

/**
 * The roofline: operations a second over operations a byte, both axes logarithmic. `points` are
 * `{name, kind, intensity, rate}`; `bandwidth` in bytes a second, `peak` in operations a second.
 */
export function roofline(label, points, bandwidth, peak) {
  const xs = [...points.map((p) => p.intensity), peak ? peak / bandwidth : 1];
  const ys = [...points.map((p) => p.rate), ...(peak ? [peak] : [])];
  const low = (values) => Math.floor(Math.log10(Math.min(...values)) - 0.2);
  const high = (values) => Math.ceil(Math.log10(Math.max(...values)) + 0.2);
  const [x0, x1, y0, y1] = [low(xs), high(xs), low(ys), high(ys)];
  const height = 316, bottom = 34, top = 24;
  const x = (v) => 60 + ((Math.log10(v) - x0) / (x1 - x0)) * (WIDTH - 80);
  const y = (v) => top + (1 - (Math.log10(v) - y0) / (y1 - y0)) * (height - bottom - top);
  const knee = peak ? peak / bandwidth : 10 ** x1;
  const start = Math.max(10 ** x0, 10 ** y0 / bandwidth);
  const end = Math.min(knee, 10 ** x1, (10 ** y1) / bandwidth);
  const decades = (a, b) => Array.from({ length: b - a + 1 }, (_, k) => a + k);
  return s("svg", { class: "chart", role: "img", viewBox: `0 0 ${WIDTH} ${height}`,
    "aria-label": `${label}: ${points.map((p) => t("chart.roofline.point", { name: p.name, intensity: short(p.intensity), rate: short(p.rate / 1e9) })).join("; ")}` },
    decades(x0, x1).map((d) => s("g", null,
      s("line", { class: "grid", x1: x(10 ** d), x2: x(10 ** d), y1: top, y2: height - bottom }),
      s("text", { class: "tick", x: x(10 ** d), y: height - 18, "text-anchor": "middle" }, number(10 ** d)))),
    decades(y0, y1).map((d) => s("g", null,
      s("line", { class: "grid", x1: 60, x2: WIDTH - 20, y1: y(10 ** d), y2: y(10 ** d) }),
      s("text", { class: "tick", x: 54, y: y(10 ** d) + 4, "text-anchor": "end" }, number(10 ** d / 1e9)))),
    s("text", { class: "tick", x: WIDTH - 20, y: height - 3, "text-anchor": "end" }, t("chart.roofline.x")),
    s("text", { class: "tick", x: 20, y: 12 }, t("chart.roofline.y")),
    s("polyline", { class: "roof", points: [[start, start * bandwidth], [end, end * bandwidth],
      ...(peak ? [[10 ** x1, peak]] : [])].map(([a, b]) => `${x(a)},${y(b)}`).join(" ") }),
    points.map((p) => s("g", { class: `point ${p.kind}` },
      s("title", null, p.name),
      p.kind === "fused"
        ? s("circle", { cx: x(p.intensity), cy: y(p.rate), r: 6 })
        : s("rect", { x: x(p.intensity) - 5, y: y(p.rate) - 5, width: 10, height: 10 }))));
}

/** Ratios around 1: what is lost (above) or won (below) without a pass. */
export function ratios(label, rows) {
  const reach = Math.max(0.1, ...rows.map((row) => Math.abs(Math.log2(row.ratio)))) * 1.1;
  const middle = LEFT + (WIDTH - LEFT - RIGHT) / 2, half = (WIDTH - LEFT - RIGHT) / 2;
  const height = 26 * rows.length + 12;
  return s("svg", { class: "chart", role: "img", viewBox: `0 0 ${WIDTH} ${height}`,
    "aria-label": `${label}: ${rows.map((row) => `${row.name} ${row.text}`).join("; ")}` },
    s("line", { class: "median", x1: middle, x2: middle, y1: 2, y2: height - 4 }),
    rows.map((row, k) => {
      const y = 18 + 26 * k, to = middle + (half * Math.log2(row.ratio)) / reach;
      return s("g", null,
        s("text", { class: "name", x: LEFT - 8, y: y + 4, "text-anchor": "end" }, row.name),
        s("rect", { class: `bar ${row.ratio >= 1 ? "fused" : "op_by_op"}`, x: Math.min(middle, to), y: y - 8, height: 16, width: Math.max(1.5, Math.abs(to - middle)) }),
        s("text", { class: "value", x: WIDTH - RIGHT + 8, y: y + 4 }, row.text));
    }));
}

/** What a chart shows, as a table that opens. */
export function behind(open, title, ...content) {
  return h("details", { class: "behind", open }, h("summary", null, t("measure.table"), unseen(`: ${title}`)), content);
}
