// The two states that a place shows: around a pass or an event, or those of two compiles.

/** `[{compile, at, state}, …]` left and right; with a second compile, its pass of the same name. */
export function sides({ compile, left, at, event }) {
  if (left === null) return compile.states(at, event).map((state) => ({ compile, at, state }));
  const { name, level } = compile.passes[at];
  const there = left.passes.findIndex((pass) => pass.name === name);
  const place = Math.max(0, there >= 0 ? there : left.passes.findLastIndex((pass) => pass.level === level));
  return [{ compile: left, at: place, state: left.states(place, null)[1] },
    { compile, at, state: compile.states(at, event)[1] }];
}

/** What the panes are called: two states of one compile, or two compiles. */
export function titlesOf({ left, leftAsked }) {
  if (left === null) return ["pane.before", "pane.after"];
  return leftAsked === "op_by_op" ? ["pane.op_by_op", "pane.fused"] : ["pane.left", "pane.right"];
}

const named = new WeakMap();

/** The node of this name: in the state at hand, else as some other state of the compile has it. */
export function findNode(compile, at, event, name) {
  for (const state of compile.states(at, event).reverse()) {
    if (state.byKey.has(name)) return { node: state.byKey.get(name), state };
  }
  if (!named.has(compile.history)) {
    const all = new Map();
    for (const chunk of compile.history.chunks) for (const node of chunk.nodes ?? []) all.set(node.key, node);
    named.set(compile.history, all);
  }
  const node = named.get(compile.history).get(name);
  return node === undefined ? null : { node, state: null };
}

/**
 * The kernel of what is selected, or null: by name, by the values that its launches make, or the first
 * launch whose origins hold all of the selection's.
 */
export function kernelOf(plan, compile, selection) {
  if (selection === null) return null;
  const { key, origins } = selection;
  if (compile.kernelNames.includes(key)) return key;
  const launches = plan.steps.filter((step) => step.kind === "kernel" && compile.kernelNames.includes(step.name));
  const found = launches.find((step) => step.values.includes(key))
    ?? (origins.length ? launches.find((step) => origins.every((o) => step.origins.includes(o))) : undefined);
  return found?.name ?? null;
}
