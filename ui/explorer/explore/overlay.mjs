// Overlays: a figure for each node and group, told by the depth of its colour and by a legend.

import { own, stepBytes } from "../dims.mjs";
import { rows } from "../measure/conditions.mjs";
import { bytes, duration, scientific, t } from "../text.mjs";
import { groupTraffic, traffic } from "./compile.mjs";

const NONE = { values: new Map(), within: new Map(), most: 0, said: () => "", legend: "", conditions: "", missing: "" };
const ENDS = ["input", "output", "param"];
/** Conditions that a legend states, by themselves or with their name; all of them are on the card of the measurement. */
const PLAIN = ["dtype", "sizes", "date", "fallback"], NAMED = ["threads", "repetitions", "cache"];

/**
 * `{values, within, most, said, legend, conditions, missing}`: figures by the key of a node or by `group KEY`; of
 * those that share the figure of one step, its name; the largest figure, how one is said, what the colour means,
 * under what conditions that was measured, and what to do where there is no figure.
 * `plan`: the plan of the compile, `report`: a measurement's, both or null; `variant` of its steps.
 */
export function overlay(kind, drawn, { sizes, plan, report, variant = "fused", pass }) {
  if (kind === "bytes") return moved(drawn, sizes, plan);
  if (kind === "time") return spent(drawn, sizes, plan, report, variant);
  if (kind === "drift") return drifted(drawn, pass);
  return NONE;
}

/** The floor of the plan's step that makes a value; before there are steps, reads and writes. */
function moved(drawn, sizes, plan) {
  const floors = new Map();
  for (const step of plan?.steps ?? []) {
    const size = stepBytes(step, "floor", sizes);
    if (size !== null) for (const value of step.values) floors.set(value, size);
  }
  const launched = drawn.nodes.some((node) => node.kernel !== undefined);
  const values = new Map();
  for (const node of drawn.nodes) {
    if (node.group) continue;
    const step = launched ? (node.outs ?? []).map((out) => floors.get(out.name)).find((size) => size !== undefined) : undefined;
    const { reads, writes } = traffic(node, drawn, sizes);
    const size = step ?? (reads === null || writes === null ? 0 : reads + writes);
    if (size > 0) values.set(node.key, size);
  }
  for (const group of drawn.groups) {
    const { reads, writes } = groupTraffic(group, drawn, sizes);
    if (reads !== null && writes !== null) values.set(`group ${group.key}`, reads + writes);
  }
  const bound = launched && (plan?.steps ?? []).some((step) => step.floor && !step.exact);
  return figures(values, bytes, t(bound ? "overlay.bytes.most" : "overlay.bytes.legend"));
}

/** The median time of the step that an op ends in: the one that makes its value, else that shares most origins with it. */
function spent(drawn, sizes, plan, report, variant) {
  const steps = report?.per_kernel?.[variant] ?? [];
  if (!steps.some((step) => typeof step.p50 === "number")) return { ...NONE, missing: t("overlay.time.missing") };
  const made = (plan?.steps ?? []).filter((step) => step.kind !== "bind");
  const parallel = made.length === steps.length && made.every((step, k) => step.name === steps[k].name);
  const byValue = new Map(parallel ? made.flatMap((step, k) => step.values.map((value) => [value, steps[k]])) : []);
  const of = (thing) => {
    for (const out of thing.outs ?? []) if (byValue.has(out.name)) return byValue.get(out.name);
    let best = null, most = 0;
    for (const step of steps) {
      const shared = (thing.origins ?? []).filter((origin) => step.origins.includes(origin)).length;
      if (shared > most || (shared === most && shared > 0 && step.origins.length < best.origins.length)) { most = shared; best = step; }
    }
    return best;
  };
  const found = [...drawn.nodes.filter((node) => !node.group && !ENDS.includes(node.kind)).map((node) => [node.key, of(node)]),
    ...drawn.groups.map((group) => [`group ${group.key}`, of(group)])].filter(([, step]) => typeof step?.p50 === "number");
  const times = new Map();
  for (const [, step] of found) times.set(step, (times.get(step) ?? 0) + 1);
  const conditions = stated(report.conditions ?? {});
  const other = Object.entries(report.conditions?.sizes ?? {}).some(([name, size]) => ![undefined, size].includes(own(sizes, name)));
  return {
    ...figures(new Map(found.map(([key, step]) => [key, step.p50])), duration, t("overlay.time.legend")),
    within: new Map(found.filter(([, step]) => times.get(step) > 1).map(([key, step]) => [key, step.name])),
    conditions: other ? `${conditions}. ${t("overlay.time.sizes")}` : conditions,
  };
}

/** The conditions of a measurement in one short line. */
function stated(conditions) {
  const said = (key) => rows({ [key]: conditions[key] }).map(([name, value]) => {
    const text = typeof value === "string" ? value : value.textContent;
    return NAMED.includes(key) ? `${name} ${text}` : text;
  });
  return [conditions.device === "cpu" ? "cpu" : "device", ...NAMED, ...PLAIN].flatMap(said).join(", ");
}

/** Drift is a figure of the pass: its first differing value is dark, what shares its origins pale. */
function drifted(drawn, pass) {
  const { drift } = pass;
  if (!drift) return { ...NONE, missing: t("overlay.drift.missing") };
  if (!drift.first) return { ...NONE, missing: t("overlay.drift.none") };
  const values = new Map();
  for (const node of drawn.nodes) {
    if ((node.outs ?? []).some((out) => out.name === drift.first)) values.set(node.key, 1);
    else if ((node.origins ?? []).some((origin) => drift.where.includes(origin))) values.set(node.key, 0.4);
  }
  return {
    ...figures(values, () => "", t("overlay.drift.legend", { value: drift.first, drift: scientific(drift.norm_rel) })),
    plain: true,
  };
}

function figures(values, said, legend) {
  return { ...NONE, values, most: Math.max(0, ...values.values()), said, legend };
}
