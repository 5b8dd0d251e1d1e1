// A measurement's report: each figure with its word and its conditions, a table behind every chart.
//
// `parts(report)` is data: the page draws it, and the exports write it.

import { code, h } from "../dom.mjs";
import { bars, table } from "../figures.mjs";
import { byFormula, bytes, duration, known, number, percent, scientific, short, t, times } from "../text.mjs";
import { behind, distribution, legend, roofline, swatch } from "./charts.mjs";

const RUNS = ["reference", "op_by_op", "fused"];
export const BUILT = ["op_by_op", "fused"];
export const WORDS = ["floor", "touched", "simulated", "measured"];
const PHASES = ["import", "load", "passes", "emit", "compile", "link", "first_run", "total"];

/** How much faster in words, with the bytes and launches that explain it. */
export function headline(r) {
  const ratio = r.latency.op_by_op.p50 / r.latency.fused.p50;
  return t(ratio >= 1 ? "measure.headline" : "measure.headline.slower", {
    times: times(ratio >= 1 ? ratio : 1 / ratio),
    before: byFormula(r.bytes.op_by_op.floor, exactly(r, "op_by_op")), after: byFormula(r.bytes.fused.floor, exactly(r, "fused")),
    launchesBefore: r.launches.op_by_op, launchesAfter: r.launches.fused,
  });
}

/** Whether the floor of a variant is the number itself, not a bound of it. */
const exactly = (r, kind) => (r.per_kernel[kind] ?? []).every((step) => step.exact || !step.floor);
const exact = (value) => (value === null || value === undefined ? t("figure.none") : t("figure.exact", { short: bytes(value), n: value }));
const floor = (value, proved) => (value === null ? t("bytes.unknown") : proved ? exact(value) : t("bytes.most", { bytes: exact(value) }));
const percentile = (value) => (value === null ? t("figure.few") : duration(value));

/** The tables of a report: `[{id, title, hint, head, rows}]`, cells as text. */
export function tables(r) {
  const found = [];
  const add = (id, hint, head, rows) => { if (rows.length) found.push({ id, title: t(`measure.${id}`), hint: hint ? t(hint) : "", head, rows }); };
  add("latency", "measure.latency.hint", [t("measure.run"), "p50", "p95", "p99", t("measure.repetitions")],
    RUNS.filter((k) => r.latency[k]).map((k) => {
      const l = r.latency[k];
      return [t(`run.${k}`), percentile(l.p50), percentile(l.p95), percentile(l.p99), number(l.repetitions)];
    }));
  add("bytes", "measure.bytes.hint", [t("measure.run"), ...WORDS.map((w) => t(`word.${w}`)), t("measure.bandwidth")],
    BUILT.map((k) => [t(`run.${k}`), ...WORDS.map((w) => (w === "floor" ? floor(r.bytes[k][w], exactly(r, k)) : exact(r.bytes[k][w]))), percent(r.bandwidth[k])]));
  add("launches", "", [t("measure.run"), t("measure.launches"), t("measure.kernels"), t("measure.formula")],
    BUILT.map((k) => [t(`run.${k}`), number(r.launches[k]), number(r.kernels[k]), r.floor_formula[k] ?? t("bytes.unknown")]));
  add("error", "measure.error.hint", [t("measure.run"), ...["max_abs", "max_rel", "norm_rel", "share_above", "allclose"].map((k) => t(`accuracy.${k}`))],
    BUILT.filter((k) => r.error[k]).map((k) => {
      const e = r.error[k];
      return [t(`run.${k}`), scientific(e.max_abs), scientific(e.max_rel), scientific(e.norm_rel), percent(e.share_above), t(e.allclose ? "answer.yes" : "answer.no")];
    }));
  add("roofline", "measure.roofline.hint", [t("measure.step"), t("measure.run"), t("measure.intensity"), t("measure.rate"), t("measure.operations")],
    points(r).map((p) => [p.step, t(`run.${p.kind}`), short(p.intensity), t("figure.gops", { n: short(p.rate / 1e9) }), number(p.operations)]));
  add("cold", "measure.cold.hint", [t("measure.phase"), t("measure.time")], phaseRows(r.cold_start));
  add("cold-load", "", [t("measure.phase"), t("measure.time")], phaseRows(r.cold_start.load));
  add("memory", "measure.memory.hint", [t("measure.what"), t("measure.size.column")],
    ["naive", "peak", "lower_bound"].map((k) => [t(`memory.${k}`), exact(r.memory[k])]));
  add("steps", "measure.steps.hint",
    [t("measure.step"), t("measure.run"), t("measure.kind"), t("measure.step.time"), ...["floor", "touched", "simulated"].map((w) => t(`word.${w}`)), t("measure.origins")],
    BUILT.flatMap((k) => (r.per_kernel[k] ?? []).map((step) => [
      step.name, t(`run.${k}`), t(`step.${step.kind}`), duration(step.p50), byFormula(step.floor, step.exact), bytes(step.touched), bytes(step.simulated), (step.origins ?? []).join(" ")])));
  return found;
}

const phaseRows = (found) => PHASES.filter((k) => typeof found?.[k] === "number").map((k) => [t(`phase.${k}`), duration(found[k])]);

/** The medians of a run's steps together; null where one is not timed. */
function sumOf(r, kind) {
  const times = (r.per_kernel[kind] ?? []).map((step) => step.p50);
  return times.length === 0 || times.some((time) => typeof time !== "number") ? null : times.reduce((a, b) => a + b);
}

/** Steps whose operations, bytes and time are all known. */
export function points(r) {
  return BUILT.flatMap((kind) => (r.per_kernel[kind] ?? [])
    .filter((s) => s.operations > 0 && s.floor > 0 && s.p50 > 0)
    .map((s) => ({
      step: s.name, name: t("measure.step.of", { name: s.name, run: t(`run.${kind}`) }), kind, operations: s.operations,
      intensity: s.operations / s.floor, rate: s.operations / (s.p50 / 1e3),
    })));
}

const both = (shapes) => legend(BUILT.map((k) => [swatch(shapes[k] ?? shapes, k), t(`run.${k}`)]));

const CHARTS = {
  latency: (r) => [
    distribution(t("measure.latency"), RUNS.filter((k) => r.latency[k])
      .map((k) => ({ name: t(`run.${k}`), kind: k, quantiles: r.latency[k].quantiles }))),
    legend([[swatch("line"), t("chart.distribution.median")], [swatch("box", "reference"), t("chart.distribution.box")],
      [swatch("thin"), t("chart.distribution.thin")], [swatch("beyond"), t("chart.distribution.beyond")]])],
  bytes: (r) => WORDS.filter((w) => BUILT.some((k) => typeof r.bytes[k][w] === "number")).map((w) => bars(t(`word.${w}`),
    BUILT.map((k) => ({ name: `${t(`word.${w}`)}, ${t(`run.${k}`)}`, kind: k, value: r.bytes[k][w], text: bytes(r.bytes[k][w]) })))),
  launches: (r) => bars(t("measure.launches"), BUILT.map((k) => ({ name: t(`run.${k}`), kind: k, value: r.launches[k], text: number(r.launches[k]) }))),
  roofline: (r) => (points(r).length && r.roofline
    ? [roofline(t("measure.roofline"), points(r), r.roofline.bandwidth, r.roofline.peak), both({ op_by_op: "square", fused: "circle" })] : null),
  cold: (r) => {
    const found = PHASES.filter((k) => typeof r.cold_start[k] === "number" && k !== "total");
    return found.length === 0 ? h("p", null, t("measure.cold.none"), r.cold_start.failed ? [" ", code(r.cold_start.failed)] : null)
      : bars(t("measure.cold"), found.map((k) => ({ name: t(`phase.${k}`), kind: "fused", value: r.cold_start[k], text: duration(r.cold_start[k]) })));
  },
  memory: (r) => bars(t("measure.memory"), ["naive", "peak", "lower_bound"].map((k) => ({ name: t(`memory.${k}`), kind: "fused", value: r.memory[k], text: bytes(r.memory[k]) }))),
  steps: (r) => [
    h("ul", { class: "sums" }, BUILT.filter((k) => sumOf(r, k) !== null).map((k) => h("li", null,
      t("measure.steps.sum", { run: t(`run.${k}`), sum: duration(sumOf(r, k)), whole: duration(r.latency[k].p50) })))),
    bars(t("measure.steps"), BUILT.flatMap((k) => (r.per_kernel[k] ?? []).slice(0, SHOWN).map((s) => ({
      name: t("measure.step.of", { name: s.name, run: t(`run.${k}`) }), kind: k, value: s.p50, text: duration(s.p50) })))),
    both("box"),
    BUILT.some((k) => r.per_kernel[k]?.length > SHOWN) ? h("p", { class: "hint" }, t("measure.steps.first", { n: SHOWN })) : null],
};

const SHOWN = 40;
const OPEN = new Set(["latency", "bytes", "error"]);

/** The report as sections: a chart where there is one, and the table behind it. */
export function reportView(r) {
  return h("div", { class: "report" },
    h("p", { class: "headline" }, headline(r)),
    tables(r).map(({ id, title, hint, head, rows }) => {
      const shown = table(title, head, rows);
      return h("section", { class: "part", "aria-labelledby": `part-${id}` },
        h("h3", { id: `part-${id}`, tabindex: -1 }, title),
        hint ? h("p", { class: "hint" }, hint) : null,
        CHARTS[id]?.(r) ?? null,
        CHARTS[id] ? behind(OPEN.has(id), title, shown) : shown,
        id === "bytes" ? words(r) : null);
    }));
}

function words(r) {
  return [
    h("p", { class: "hint" }, t("measure.bandwidth.hint")),
    h("dl", { class: "words" }, WORDS.map((w) => [h("dt", null, t(`word.${w}`)), h("dd", null, t(`word.${w}.means`))])),
    h("p", { class: "hint" }, t("measure.copies"), Object.entries(r.bandwidth.copies ?? {}).map(([name, rate], k) => {
      const word = `copies.${name.replaceAll(" ", "-")}`;
      return [k ? " · " : " ", known(word) ? t(word) : name, " ", t("figure.rate", { n: number(rate / 1e9) })];
    })),
  ];
}
