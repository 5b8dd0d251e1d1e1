// The life of one op: every event of every pass that made it, changed it, took it or refused it.
//
// Pure over the history (history.mjs): an event touches an op where the lines of the op in what it takes
// away differ from those in what it puts there. A line belongs to the op by its name, and by the nodes
// of the model that it came from.

/**
 * `[{at, event, how, exact}]` of a selection, in order: `how` is "made", "changed", "grouped" (taken
 * into a fused op), "gone" or "refused"; `exact`: by its own name, else by what it came from.
 */
export function biography({ chunks, passes, first }, records, selection) {
  const found = [];
  let state = first.slice();
  passes.forEach((pass, at) => {
    pass.steps.forEach((step, event) => {
      const [gone, come] = [[], []];
      if (step.length > 0) {
        state = state.slice();
        for (const [place, removed, added] of step) {
          gone.push(...state.splice(place, removed, ...added));
          come.push(...added);
        }
      }
      const [before, after] = [gone, come].map((numbers) => numbers.map((number) => chunks[number]));
      const told = touch(before, after, selection) ?? refusal(records[at].events[event], selection);
      if (told) found.push({ at, event, ...told });
    });
  });
  return found;
}

function touch(before, after, { key, origins }) {
  const own = (line) => key !== "" && line.key === key;
  const kin = (line) => (line.origins ?? []).some((origin) => origins.includes(origin));
  for (const [mine, exact] of [[own, true], [kin, false]]) {
    const [old, made] = [before, after].map((list) =>
      list.flatMap((chunk) => chunk.lines).filter(mine).map((line) => line.text.trim()).sort());
    if (old.join("\n") !== made.join("\n")) {
      return { how: old.length === 0 ? "made" : made.length === 0 ? "gone" : "changed", exact };
    }
    const [from, to] = [before, after].map((list) =>
      list.flatMap((chunk) => chunk.nodes ?? []).find((node) => node.key === key)?.group);
    if (exact && from !== to) return { how: "grouped", exact };
  }
  return null;
}

function refusal(event, { key }) {
  return event.edits === 0 && key !== "" && event.where === key ? { how: "refused", exact: true } : null;
}
