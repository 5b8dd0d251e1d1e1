// One graph of two states: what stayed, what went, what came, what changed.

import { compareStates } from "./history.mjs";

const endsOf = (edge) => `${edge.from}\u0000${edge.to}\u0000${edge.value}`;

/**
 * `{state, marks, edges}` of the union: `state` as `expand` makes one, `marks` by node key, `edges` by
 * "from\0to\0value". A changed node stands once, as it is afterwards.
 */
export function mergeStates(before, after) {
  const [left, right] = compareStates(before, after);
  const marks = new Map(right);
  const gone = before.nodes.filter((node) => left.get(node.key) === "removed");
  for (const node of gone) marks.set(node.key, "removed");
  const edges = new Map();
  const old = new Set(before.edges.map(endsOf)), now = new Set(after.edges.map(endsOf));
  for (const id of now) edges.set(id, old.has(id) ? "same" : "added");
  for (const id of old) if (!now.has(id)) edges.set(id, "removed");
  const nodes = [...after.nodes, ...gone];
  const state = {
    chunks: after.chunks, lines: after.lines, nodes,
    byKey: new Map(nodes.map((node) => [node.key, node])),
    groups: after.groups,
    edges: [...after.edges, ...before.edges.filter((edge) => !now.has(endsOf(edge)))],
    producer: new Map([...before.producer, ...after.producer]),
    constants: new Map([...before.constants, ...after.constants]),
  };
  // A node that went leaves its group with it: the boxes are those of afterwards.
  for (const [k, node] of nodes.entries()) {
    if (marks.get(node.key) === "removed" && node.group && !after.groups.some((group) => group.key === node.group)) {
      nodes[k] = { ...node, group: undefined };
      state.byKey.set(node.key, nodes[k]);
    }
  }
  return { state, marks, edges };
}

export const edgeMark = (edges, edge) => edges.get(endsOf(edge)) ?? "same";
