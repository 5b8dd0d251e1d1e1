// Overlays: a figure for each node and group, told by the depth of its colour and by a legend.

import { evaluate } from "../dims.mjs";
import { bytes, duration, scientific, t } from "../text.mjs";
import { groupTraffic, traffic } from "./compile.mjs";

const NONE = { values: new Map(), most: 0, said: () => "", legend: "", missing: "" };

/**
 * `{values, most, said, legend, missing}`: figures by the key of a node or by `group KEY`, the largest
 * of them, how one is said, what the colour means, and what to do where there is no figure.
 * `plan`: the steps of the plan, `report`: a measurement's, both or null.
 */
export function overlay(kind, drawn, { sizes, plan, report, pass }) {
  if (kind === "bytes") return moved(drawn, sizes, plan);
  if (kind === "time") return spent(drawn, report);
  if (kind === "drift") return drifted(drawn, pass);
  return NONE;
}

/** The floor of the plan's step that makes a value; before there are steps, reads and writes. */
function moved(drawn, sizes, plan) {
  const floors = new Map();
  for (const step of plan?.steps ?? []) {
    const size = evaluate(step.floor ?? null, sizes);
    if (size !== null) for (const value of step.values) floors.set(value, size);
  }
  const launched = drawn.nodes.some((node) => node.kernel !== undefined);
  const values = new Map();
  for (const node of drawn.nodes) {
    if (node.group) continue;
    const step = launched ? (node.outs ?? []).map((out) => floors.get(out.name)).find((size) => size !== undefined) : undefined;
    const { reads, writes } = traffic(node, drawn, sizes);
    const size = step ?? reads + writes;
    if (size > 0) values.set(node.key, size);
  }
  for (const group of drawn.groups) {
    const { reads, writes } = groupTraffic(group, drawn, sizes);
    values.set(`group ${group.key}`, reads + writes);
  }
  return made(values, bytes, t("overlay.bytes.legend"), "");
}

/** The median time of the step that an op ends in: the one that shares most origins with it. */
function spent(drawn, report) {
  const steps = report?.per_kernel?.fused ?? [];
  const timed = steps.filter((step) => typeof step.p50 === "number");
  if (timed.length === 0) return { ...NONE, missing: t("overlay.time.missing") };
  const of = (thing) => {
    const named = timed.find((step) => step.name === thing.kernel);
    if (named) return named.p50;
    let best = null, most = 0;
    for (const step of timed) {
      const shared = (thing.origins ?? []).filter((origin) => step.origins.includes(origin)).length;
      if (shared > most) { most = shared; best = step.p50; }
    }
    return best;
  };
  const values = new Map();
  for (const node of drawn.nodes) if (!node.group) { const time = of(node); if (time !== null) values.set(node.key, time); }
  for (const group of drawn.groups) { const time = of(group); if (time !== null) values.set(`group ${group.key}`, time); }
  return made(values, duration, t("overlay.time.legend"), "");
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
    ...made(values, () => "", t("overlay.drift.legend", { value: drift.first, drift: scientific(drift.norm_rel) }), ""),
    plain: true,
  };
}

function made(values, said, legend, missing) {
  return { values, most: Math.max(0, ...values.values()), said, legend, missing };
}
