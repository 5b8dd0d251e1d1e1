// Figures of a lesson: paths into measurements, arithmetic over them, what kind each is, how it is
// written. Nothing here touches the document.

import { evaluate, names, parse, valueOf } from "./arith.mjs";
import { bytes, duration, number, percent, scientific, t, times } from "../text.mjs";

export const VARIANTS = ["op_by_op", "fused"];
const SUFFIXES = [...VARIANTS, "ratio"];

/** What a run asks for, as its event says it: a lesson may come to ask for something else. */
export const askedOf = ({ measure, sizes, pipeline, numerics }) => ({ measure, sizes, pipeline, numerics });

const LEFT_OUT = ["per_kernel", "cold_start", "memory", "quantiles"];

/** A measurement without what no lesson shows. */
export function slim(report) {
  if (typeof report !== "object" || report === null || Array.isArray(report)) return report;
  return Object.fromEntries(Object.entries(report).filter(([key]) => !LEFT_OUT.includes(key)).map(([key, value]) => [key, slim(value)]));
}

/** Run -> its last measurement in this browser, of `runs` as progress.mjs folds them. */
export function liveOf(lesson, runs) {
  const found = {};
  for (const [name, wanted] of Object.entries(lesson.runs)) {
    const event = runs.get(`${lesson.id}/${name}`);
    if (event && JSON.stringify(event.conditions) === JSON.stringify(askedOf(wanted))) found[name] = event.value;
  }
  return found;
}

/** The measurement of a run: the one of this browser, else the recorded one; null without any. */
export function reportOf(state, run) {
  const live = state.live[run];
  if (live) return { report: live, recorded: false };
  const kept = state.lesson.recorded.runs[run];
  return kept ? { report: kept, recorded: true } : null;
}

/** What stands at `run.key.key…`, or null. */
export function lookUp(state, path) {
  const [run, ...words] = path.split(".");
  let value = reportOf(state, run)?.report ?? null;
  for (const word of words) value = value !== null && typeof value === "object" && Object.hasOwn(value, word) ? value[word] : null;
  return value;
}

/** `{value, kind, recorded, runs}` of an expression over paths; value null is "not measured". */
export function figure(state, expression) {
  const tree = parse(expression);
  const paths = names(tree);
  const runs = [...new Set(paths.map((path) => path.split(".")[0]))];
  const value = evaluate(tree, (path) => {
    const found = lookUp(state, path);
    return typeof found === "number" ? found : null;
  });
  return { value, kind: kindOf(paths), recorded: runs.some((run) => reportOf(state, run)?.recorded), runs };
}

/** computed, simulated or measured: the least certain of what the paths name. */
export function kindOf(paths) {
  const kinds = paths.map((path) => {
    if (/(^|\.)simulated$/.test(path)) return "simulated";
    return /(^|\.)(floor|touched|sizes)$/.test(path) || /(^|\.)(launches|kernels)(\.|$)/.test(path) ? "computed" : "measured";
  });
  return ["measured", "simulated", "computed"].find((kind) => kinds.includes(kind)) ?? "computed";
}

const FILTERS = {
  MiB: (value) => `${number(round(value))} MiB`,
  ms: (value) => `${number(round(value))} ms`,
  us: (value) => `${number(round(value))} µs`,
  GBs: (value) => `${number(round(value))} GB/s`,
  lan: (value) => t("lesson.times", { n: times(value) }),
  so: (value) => number(round(value)),
};

/** Three digits that count, and all those before the decimal sign. */
const round = (value) => (Math.abs(value) >= 100 ? Math.round(value) : Number(value.toPrecision(3)));

/** A number by a filter of the text. */
export const filtered = (value, filter) => (value === null ? t("figure.none") : FILTERS[filter](value));

/** A number with the unit of a prediction: "MiB" or "x". */
export const withUnit = (value, unit) => filtered(value, unit === "MiB" ? "MiB" : "lan");

// ---- tables of runs ------------------------------------------------------------------------------

/** A column as `{metric, which}`: `latency.p50.ratio` is p50 of latency, op by op / fused. */
export function columnOf(column) {
  const at = column.lastIndexOf(".");
  const last = column.slice(at + 1);
  return SUFFIXES.includes(last) ? { metric: column.slice(0, at), which: last } : { metric: column, which: "" };
}

export function variantPath(metric, variant) {
  const [group, ...rest] = metric.split(".");
  return [group, variant, ...rest].join(".");
}

/** A cell of a run's row, as text. */
export function cell(state, run, column, variant = "") {
  if (column === "conditions.sizes") {
    const sizes = lookUp(state, `${run}.${column}`);
    return sizes === null ? t("figure.none") : sizesText(sizes);
  }
  const { metric, which } = columnOf(column);
  const at = (name) => lookUp(state, `${run}.${variantPath(metric, name)}`);
  if (which === "ratio") {
    const [a, b] = VARIANTS.map(at);
    return typeof a === "number" && typeof b === "number" && b !== 0 ? times(a / b) : t("figure.none");
  }
  return written(metric, at(which || variant));
}

export const sizesText = (sizes) => Object.entries(sizes).map(([name, size]) => `${name}\u00a0=\u00a0${number(size)}`).join(", ");

/** A metric's value with its unit. */
export function written(metric, value) {
  if (value === null || value === undefined) return t("figure.none");
  if (typeof value === "boolean") return t(value ? "answer.yes" : "answer.no");
  if (metric.startsWith("bytes.")) return bytes(value);
  if (metric.startsWith("latency.")) return duration(value);
  if (metric === "bandwidth" || metric === "error.share_above") return percent(value);
  if (metric.startsWith("error.")) return scientific(value);
  return number(value);
}

// ---- predictions ---------------------------------------------------------------------------------

const NEAR = 0.02;

/** Whether a guess is right: within the tolerance of the answer, or in the interval that counts. */
export function isRight(prediction, value, answer) {
  if (prediction.accept) return prediction.accept[0] <= value && value <= prediction.accept[1];
  return answer !== null && Math.abs(value - answer) <= prediction.tolerance * Math.abs(answer);
}

/** Whether no answer can be so: neither bytes nor a ratio of times are zero or less. */
export const isImpossible = (value) => value <= 0;

/** The answer of a prediction as a figure. */
export function answerOf(state, prediction) {
  if (prediction.run) return figure(state, prediction.run);
  return { value: valueOf(prediction.expr, state.lesson.sizes), kind: "computed", recorded: false, runs: [] };
}

/** The hint of the one known mistake that gives this value; null where none does. */
export function hintOf(prediction, value, sizes) {
  const near = prediction.near.find((each) => {
    const wrong = valueOf(each.value, sizes);
    return Math.abs(value - wrong) <= (prediction.tolerance || NEAR) * Math.abs(wrong);
  });
  return near?.hint ?? null;
}
