// One compile as the page holds it: its records, its history, its listings, what was asked for.

import { blob } from "../blobs.mjs";
import { own, sum } from "../dims.mjs";
import { History } from "./history.mjs";

/** The compile of a worker's result; kernels, plan and weights are fetched when first asked for. */
export async function openCompile(event, options) {
  const [trace, history] = await Promise.all([blob(event.trace), blob(event.history)]);
  return new Compile(options, trace, new History(history), event.history, event);
}

/** The imported graph alone, before anything is built: the same as a progress event names it. */
export async function openImported({ trace, history }, options) {
  const [told, document] = await Promise.all([blob(trace), blob(history)]);
  return new Compile(options, told, new History(document), history, null);
}

/** What a compile left that failed: the passes before, and the one at fault, which changed nothing. */
export async function openPartial({ trace, history, pass, level }, options) {
  const [told, document] = await Promise.all([blob(trace), blob(history)]);
  if (!pass) return new Compile(options, told, new History(document), history, null);
  const failed = { name: pass, text: pass, level, required: true, changed: false, unit: "ops", before: 0, after: 0,
    milliseconds: null, drift: null, events: [], failed: true };
  const film = new History({ ...document, passes: [...document.passes, { name: pass, level, steps: [] }] });
  return new Compile(options, { ...told, passes: [...told.passes, failed] }, film, history, null);
}

export class Compile {
  constructor(options, trace, history, digest, event) {
    Object.assign(this, { options, trace, history, digest, event });
    this.passes = trace.passes;
    this.kernelBlobs = new Map((event?.kernels ?? []).map((k) => [k.name, k.blob]));
  }

  get whole() { return this.event !== null; }
  get kernelNames() { return [...this.kernelBlobs.keys()]; }

  /** `{name, symbol, origins, tree, source, llvm, assembly, ptx}` of one kernel. */
  kernel(name) { return blob(this.kernelBlobs.get(name)); }
  plan() { return this.event ? blob(this.event.plan) : Promise.resolve({ steps: [], buffers: [] }); }
  async params() { return this.event ? (await blob(this.event.params)).params : []; }

  /** The drawn states left and right of a view: around a whole pass, or around one event. */
  states(at, event) {
    const steps = this.passes[at] ? this.history.passes[at].steps.length : 0;
    if (event === null) return [this.history.drawn(at, 0), this.history.drawn(at, steps)];
    return [this.history.drawn(at, event), this.history.drawn(at, event + 1)];
  }

  /** Sizes for every symbol: what the reader bound, else the sample's, else the smallest sensible. */
  sizes(bound, sample) {
    const found = this.trace.symbols.map(({ name, low }) => [name, own(bound, name) ?? own(sample?.sizes, name) ?? Math.max(4, low)]);
    const names = new Set(found.map(([name]) => name));
    return Object.fromEntries([...found, ...Object.entries(bound).filter(([name]) => !names.has(name))]);
  }
}

/** Bytes that a node reads and writes when it runs by itself, each operand and result once; null: not known. */
export function traffic(node, state, sizes) {
  if (["input", "output", "param"].includes(node.kind)) return { reads: 0, writes: 0 };
  const known = (node.ins ?? []).map((value) => state.producer.get(value)?.bytes).filter((text) => text !== undefined);
  return { reads: sum(known, sizes), writes: sum((node.outs ?? []).map((out) => out.bytes), sizes) };
}

/** The same for a fused group: what enters it, what leaves it. */
export function groupTraffic(group, state, sizes) {
  return traffic({ kind: "fused", ins: group.ins, outs: group.outs }, state, sizes);
}

/** Values made inside a group that no longer reach memory: `[{value, bytes}]`. */
export function kept(group, state) {
  const outs = new Set(group.outs.map((out) => out.name));
  return state.nodes.filter((n) => n.group === group.key)
    .flatMap((n) => n.outs ?? []).filter((out) => !outs.has(out.name));
}
