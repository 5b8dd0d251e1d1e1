// One selection over graphs, text, loop trees, sources, decisions: n:m by origins.
//
// A selection is `{kind, key, origins}`: the thing that was picked and the ONNX nodes it came from.
// Whatever shares an origin with it is related, at every level.

export const NOTHING = null;

export const ofNode = (node) => ({ kind: "node", key: node.key, origins: node.origins ?? [] });
export const ofGroup = (group) => ({ kind: "group", key: group.key, origins: group.origins ?? [] });
export const ofKernel = (name, origins) => ({ kind: "kernel", key: name, origins: origins ?? [] });
export const ofLine = (line) => ({ kind: "line", key: line.key ?? "", origins: line.origins ?? [] });

export function sameSelection(a, b) {
  return a === b || (a !== null && b !== null && a.kind === b.kind && a.key === b.key && a.origins.join() === b.origins.join());
}

/** Whether something with these origins is related to the selection. */
export function relates(selection, origins) {
  return selection !== null && (origins ?? []).some((origin) => selection.origins.includes(origin));
}

/** Whether something with these origins is lit: `hover` of the state is a list of origins or null. */
export function isLit(hover, origins) {
  return hover !== null && (origins ?? []).some((origin) => hover.includes(origin));
}

/** key -> "picked" or "related" for the nodes of a state. */
export function marked(selection, state) {
  const found = new Map();
  if (selection === null) return found;
  for (const node of state.nodes) {
    const picked = (selection.kind === "node" && node.key === selection.key)
      || (selection.kind === "line" && node.key === selection.key)
      || (selection.kind === "group" && node.group === selection.key)
      || (selection.kind === "kernel" && node.kernel === selection.key);
    if (picked) found.set(node.key, "picked");
    else if (relates(selection, node.origins)) found.set(node.key, "related");
  }
  return found;
}
