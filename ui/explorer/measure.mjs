// The measurement: sizes, the button, and every figure with its word and its conditions.

import { problem, progress } from "./chooser.mjs";
import { code, h } from "./dom.mjs";
import { bars, table } from "./figures.mjs";
import { bytes, date, duration, known, number, percent, scientific, t, times } from "./text.mjs";

const RUNS = ["reference", "op_by_op", "fused"];
const BUILT = ["op_by_op", "fused"];
const WORDS = ["floor", "touched", "simulated", "measured"];

/** The symbols that can be bound, with default and largest size. */
export function symbols(state) {
  const { trace, model } = state.result;
  const sample = state.samples.find((s) => s.name === model);
  return trace.symbols.map((symbol) => ({
    name: symbol.name,
    size: sample?.sizes[symbol.name] ?? Math.max(4, symbol.low),
    maximum: Math.min(sample?.maximum[symbol.name] ?? 2 ** 31, symbol.high),
    low: symbol.low,
  }));
}

/** {sizes} from the fields, or {wrong} with the first that is no size. */
export function readSizes(state) {
  const sizes = {};
  for (const { name, size, low, maximum } of symbols(state)) {
    const text = (state.sizes[name] ?? String(size)).trim();
    const value = /^\d{1,10}$/.test(text) ? Number(text) : NaN;
    if (!(value >= low && value <= maximum)) return { wrong: { name, value: text || '""', low, high: maximum } };
    sizes[name] = value;
  }
  return { sizes };
}

export function measure(state, act) {
  const busy = state.job !== null;
  const running = busy && state.job.kind === "measure";
  return h("div", { class: "measure" },
    h("p", null, t("measure.about")),
    h("div", { class: "fields" }, symbols(state).map((symbol) => sizeField(state, act, symbol))),
    h("div", { class: "actions" },
      h("button", { class: "primary", id: "measure", type: "button", disabled: busy, onclick: act.measure },
        t("measure.start")),
      running ? progress(state, act) : null,
      state.error?.of === "measure" ? problem(state.error) : null),
    state.report ? report(state.report) : h("p", { class: "hint" }, t("measure.none")));
}

function sizeField(state, act, { name, size, maximum }) {
  const id = `size-${name}`;
  return h("div", { class: "field" },
    h("label", { for: id }, t("measure.size", { name })),
    h("input", { type: "text", inputmode: "numeric", id, autocomplete: "off", value: state.sizes[name] ?? String(size),
      "aria-describedby": `${id}-hint`,
      oninput: (event) => act.size(name, event.target.value),
      onkeydown: (event) => { if (event.key === "Enter") act.measure(); } }),
    h("p", { class: "hint", id: `${id}-hint` }, t("measure.size.hint", { size, maximum })));
}

// ---- the report ----------------------------------------------------------------------------------

function report(r) {
  const conditions = card(r.conditions);
  return h("div", { class: "report" },
    headline(r),
    conditions,
    latency(r), traffic(r), launches(r), accuracy(r), coldStart(r), memory(r), steps(r));
}

function headline(r) {
  const ratio = r.latency.op_by_op.p50 / r.latency.fused.p50;
  const key = ratio >= 1 ? "measure.headline" : "measure.headline.slower";
  return h("p", { class: "headline" }, t(key, {
    times: times(ratio >= 1 ? ratio : 1 / ratio),
    before: bytes(r.bytes.op_by_op.floor), after: bytes(r.bytes.fused.floor),
    launchesBefore: r.launches.op_by_op, launchesAfter: r.launches.fused,
  }));
}

function behind(...content) {
  return h("details", { class: "behind" }, h("summary", null, t("measure.table")), content);
}

function part(id, title, ...content) {
  return h("section", { class: "part", "aria-labelledby": id }, h("h4", { id }, title), content);
}

function latency(r) {
  const rows = RUNS.filter((k) => r.latency[k]);
  return part("part-latency", t("measure.latency"),
    h("p", { class: "hint" }, t("measure.latency.hint")),
    bars(t("measure.latency"), rows.map((k) => ({
      name: t(`run.${k}`), kind: k, value: r.latency[k].p50, text: duration(r.latency[k].p50) }))),
    table(t("measure.latency"), [t("measure.run"), "p50", "p95", "p99", t("measure.repetitions")],
      rows.map((k) => {
        const l = r.latency[k];
        return [t(`run.${k}`), ...[l.p50, l.p95, l.p99].map((p) => p === null ? t("figure.few") : duration(p)), number(l.repetitions)];
      })));
}

function traffic(r) {
  const there = WORDS.filter((w) => BUILT.some((k) => r.bytes[k][w] !== null && r.bytes[k][w] !== undefined));
  return part("part-bytes", t("measure.bytes"),
    h("p", { class: "hint" }, t("measure.bytes.hint")),
    there.map((w) => bars(t(`word.${w}`), BUILT.map((k) => ({
      name: `${t(`word.${w}`)}, ${t(`run.${k}`)}`, kind: k, value: r.bytes[k][w], text: bytes(r.bytes[k][w]) })))),
    table(t("measure.bytes"), [t("measure.run"), ...WORDS.map((w) => t(`word.${w}`)), t("measure.bandwidth")],
      BUILT.map((k) => [t(`run.${k}`), ...WORDS.map((w) => exact(r.bytes[k][w])), percent(r.bandwidth[k])])),
    h("p", { class: "hint" }, t("measure.bandwidth.hint")),
    h("dl", { class: "words" }, WORDS.map((w) => [h("dt", null, t(`word.${w}`)), h("dd", null, t(`word.${w}.means`))])),
    r.bandwidth.copies ? h("p", null, t("measure.copies"), Object.entries(r.bandwidth.copies).map(([name, rate], i) =>
      [i ? " · " : " ", t(`copies.${name.replaceAll(" ", "-")}`), " ", t("figure.rate", { n: number(rate / 1e9) })])) : null,
    r.floor_formula ? h("p", null, t("measure.formula"), BUILT.map((k, i) => [i ? " · " : " ", t(`run.${k}`), " ", code(r.floor_formula[k])])) : null);
}

function exact(value) {
  if (value === null || value === undefined) return t("figure.none");
  return t("figure.exact", { short: bytes(value), n: value });
}

function launches(r) {
  return part("part-launches", t("measure.launches"),
    bars(t("measure.launches"), BUILT.map((k) => ({
      name: t(`run.${k}`), kind: k, value: r.launches[k], text: number(r.launches[k]) }))),
    table(t("measure.launches"), [t("measure.run"), t("measure.launches"), t("measure.kernels")],
      BUILT.map((k) => [t(`run.${k}`), number(r.launches[k]), number(r.kernels[k])])));
}

function accuracy(r) {
  return part("part-error", t("measure.error"),
    h("p", { class: "hint" }, t("measure.error.hint")),
    table(t("measure.error"), [t("measure.run"), ...["max_abs", "max_rel", "norm_rel", "share_above", "allclose"].map((k) => t(`accuracy.${k}`))],
      BUILT.filter((k) => r.error[k] !== null).map((k) => {
        const e = r.error[k];
        return [t(`run.${k}`), scientific(e.max_abs), scientific(e.max_rel), scientific(e.norm_rel), percent(e.share_above),
          t(e.allclose ? "answer.yes" : "answer.no")];
      })));
}

const PHASES = ["import", "load", "passes", "emit", "compile", "link", "first_run", "total"];

function phaseRows(times) {
  return PHASES.filter((k) => typeof times?.[k] === "number").map((k) => [t(`phase.${k}`), duration(times[k])]);
}

function coldStart(r) {
  const times = r.cold_start;
  const found = PHASES.filter((k) => typeof times[k] === "number" && k !== "total");
  if (found.length === 0) return part("part-cold", t("measure.cold"), h("p", null, t("measure.cold.none")), times.failed ? code(times.failed) : null);
  const head = [t("measure.phase"), t("measure.time")];
  return part("part-cold", t("measure.cold"),
    h("p", { class: "hint" }, t("measure.cold.hint")),
    bars(t("measure.cold"), found.map((k) => ({
      name: t(`phase.${k}`), kind: "fused", value: times[k], text: duration(times[k]) }))),
    behind(table(t("measure.cold"), head, phaseRows(times)),
      times.load ? table(t("measure.cold.load"), head, phaseRows(times.load)) : null));
}

function memory(r) {
  const keys = ["naive", "peak", "lower_bound"];
  return part("part-memory", t("measure.memory"),
    h("p", { class: "hint" }, t("measure.memory.hint")),
    bars(t("measure.memory"), keys.map((k) => ({ name: t(`memory.${k}`), kind: "fused", value: r.memory[k], text: bytes(r.memory[k]) }))),
    behind(table(t("measure.memory"), [t("measure.what"), t("measure.size.column")],
      keys.map((k) => [t(`memory.${k}`), exact(r.memory[k])]))));
}

function steps(r) {
  if (!r.per_kernel) return null;
  const rows = BUILT.flatMap((k) => (r.per_kernel[k] ?? []).map((step) => [
    code(step.name), t(`run.${k}`), code(step.kind), duration(step.p50), bytes(step.floor), bytes(step.touched), bytes(step.simulated), code((step.origins ?? []).join(" "))]));
  return part("part-steps", t("measure.steps"),
    h("p", { class: "hint" }, t("measure.steps.hint")),
    behind(table(t("measure.steps"),
      [t("measure.step"), t("measure.run"), t("measure.kind"), t("measure.step.time"), t("word.floor"), t("word.touched"), t("word.simulated"), t("measure.origins")], rows)));
}

// ---- conditions ----------------------------------------------------------------------------------

const CONDITIONS = [
  "device", "cpu", "cores", "threads", "target", "dtype", "numerics", "sizes", "inputs", "warmups", "repetitions",
  "cache", "concurrency", "reference", "bytes", "cache_model", "versions", "date", "fallback",
];

function card(c) {
  const found = [...CONDITIONS, ...Object.keys(c).filter((k) => !CONDITIONS.includes(k))];
  return h("aside", { class: "conditions", "aria-labelledby": "conditions-title" },
    h("h4", { id: "conditions-title" }, t("conditions.title")),
    h("dl", null, found.filter((k) => c[k] !== undefined && c[k] !== null && c[k] !== "").map((k) => [
      h("div", null, h("dt", null, known(`conditions.${k}`) ? t(`conditions.${k}`) : code(k)), h("dd", null, condition(k, c[k])))])));
}

function condition(key, value) {
  if (key === "date") return date(value);
  if (typeof value === "number") return number(value);
  if (typeof value === "boolean") return t(value ? "answer.yes" : "answer.no");
  if (Array.isArray(value)) return value.length ? value.map((v, i) => [i ? " · " : null, code(v)]) : t("figure.none");
  if (typeof value === "object") {
    return Object.entries(value).map(([k, v], i) => [i ? " · " : null, code(`${k} ${typeof v === "number" ? number(v) : v}`)]);
  }
  const seed = /^made, seed (\d+)$/.exec(value);
  if (seed) return t("conditions.value.made", { seed: seed[1] });
  const word = `conditions.value.${String(value).replaceAll(" ", "-")}`;
  return known(word) ? t(word) : code(value);
}
