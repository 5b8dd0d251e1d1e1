// States of a compile from its history: pure functions over chunks and splices.
//
//     state(p, k) = fold(splice, state before pass p, first k events of p)
//
// `document` is the blob that compiler/history.py writes. A state is a list of chunk numbers;
// `expand` makes of it the lines, nodes and edges that are drawn.

/** The list with `[at, removed, [added…]]` applied one after the other. */
export function splice(state, splices) {
  if (splices.length === 0) return state;
  const next = state.slice();
  for (const [at, removed, added] of splices) next.splice(at, removed, ...added);
  return next;
}

/** States of a history by pass and event, kept while they are near. */
export class History {
  constructor(document) {
    this.chunks = document.chunks;
    this.passes = document.passes;
    this.starts = [document.first];
    this.within = { pass: -1, states: [] };
    this.expanded = new Map();
  }

  /** Chunk numbers before pass `p`. */
  start(p) {
    for (let k = this.starts.length; k <= p; k += 1) {
      this.starts.push(this.passes[k - 1].steps.reduce(splice, this.starts[k - 1]));
    }
    return this.starts[p];
  }

  /** Chunk numbers after the first `k` events of pass `p`. */
  at(p, k) {
    if (k === 0) return this.start(p);
    if (k === this.passes[p].steps.length) return this.start(p + 1);
    if (this.within.pass !== p) this.within = { pass: p, states: [this.start(p)] };
    const { states } = this.within;
    for (let j = states.length; j <= k; j += 1) states.push(splice(states[j - 1], this.passes[p].steps[j - 1]));
    return states[k];
  }

  /** What is drawn of the state after the first `k` events of pass `p`. */
  drawn(p, k) {
    const state = this.at(p, k);
    let made = this.expanded.get(state);
    if (made === undefined) {
      made = expand(this.chunks, state);
      this.expanded.set(state, made);
      if (this.expanded.size > 12) this.expanded.delete(this.expanded.keys().next().value);
    }
    return made;
  }

  /** [first, last] pass of the run of passes on the same level that holds pass `p`. */
  stretch(p) {
    const { level } = this.passes[p];
    let first = p, last = p;
    while (first > 0 && this.passes[first - 1].level === level) first -= 1;
    while (last + 1 < this.passes.length && this.passes[last + 1].level === level) last += 1;
    return [first, last];
  }
}

/**
 * `{chunks, lines, nodes, byKey, groups, edges, producer, constants}` of a list of chunk numbers.
 * An edge is `{from, to, value, bytes}`: from the node that makes a value to each that reads it.
 */
export function expand(chunks, state) {
  const lines = [], nodes = [], groups = [];
  const constants = new Map(), producer = new Map(), byKey = new Map();
  const ends = [];
  for (const number of state) {
    const chunk = chunks[number];
    for (const line of chunk.lines) lines.push({ ...line, section: chunk.section, chunk: number });
    for (const node of chunk.nodes ?? []) (node.kind === "output" ? ends : nodes).push(node);
    for (const group of chunk.groups ?? []) groups.push(group);
    for (const [value, text] of Object.entries(chunk.constants ?? {})) constants.set(value, text);
  }
  nodes.push(...ends);
  for (const node of nodes) {
    byKey.set(node.key, node);
    for (const out of node.outs ?? []) producer.set(out.name, { node: node.key, ...out });
  }
  const edges = [];
  for (const node of nodes) {
    for (const value of node.ins ?? []) {
      const made = producer.get(value);
      if (made !== undefined) edges.push({ from: made.node, to: node.key, value, bytes: made.bytes });
    }
  }
  return { chunks: state, lines, nodes, byKey, groups, edges, producer, constants };
}

/** The lines of a node's box: its kind with the constants it reads; its name and its type, on one line where it holds both. */
export function label(node, constants) {
  const kind = node.kernel !== undefined ? `${node.kind} @${node.kernel}`
    : node.kind === "output" ? `output ${node.label}` : node.kind.replace(/^onnx\./, "");
  const read = (node.ins ?? []).filter((value) => constants.has(value)).map((value) => constants.get(value));
  const both = [node.kind === "output" ? "" : node.key, node.type ?? ""].filter((text) => text);
  const joined = both.join(": ");
  return [...new Set([[kind, ...read].join(" "), ...(joined.length <= SHOWN ? [joined] : both)])].filter((text) => text).map((text) => shorten(text));
}

const SHOWN = 30;

/** At most so many characters, the middle left out. */
export function shorten(text, shown = SHOWN) {
  if (text.length <= shown) return text;
  const half = Math.floor((shown - 1) / 2);
  return `${text.slice(0, half)}…${text.slice(-half)}`;
}

/** key -> "same", "removed", "changed" (left) and "same", "added", "changed", "fused" (right). */
export function compareStates(before, after) {
  const left = new Map(), right = new Map();
  const text = (node, state) => [...label(node, state.constants), node.attrs ?? "", (node.ins ?? []).map((value) => state.constants.get(value) ?? value).join()].join("\n");
  for (const node of before.nodes) {
    const other = after.byKey.get(node.key);
    const same = other === node || (other && text(node, before) === text(other, after));
    left.set(node.key, !other ? "removed" : same ? "same" : "changed");
  }
  for (const node of after.nodes) {
    const other = before.byKey.get(node.key);
    const same = other === node || (other && text(other, before) === text(node, after));
    right.set(node.key, !other ? "added"
      : !same ? "changed" : node.group && other.group !== node.group ? "fused" : "same");
  }
  return [left, right];
}
