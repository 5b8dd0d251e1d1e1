// Decisions of the fuse pass, and the pipeline that overrules them: pure.

import { listOf, read, withEntry } from "./pipeline_text.mjs";

const OTHER = { force: "forbid", forbid: "force" };

/** The pipeline to edit: what was asked, or what ran where that has no `fuse` to set options of. */
function editable(asked, ran) {
  const pipeline = read(asked);
  return pipeline.base || pipeline.items.some((item) => item.name === "fuse") ? pipeline : read(ran);
}

/** `{force: [pair…], forbid: [pair…]}` of a pipeline's text; empty where it can't be read. */
export function overruled(text) {
  try {
    const pipeline = read(text);
    return { force: listOf(pipeline, "fuse", "force"), forbid: listOf(pipeline, "fuse", "forbid") };
  } catch { return { force: [], forbid: [] }; }
}

/** The pipeline with a pair forced or forbidden, never both. */
export function overrule(asked, ran, word, pair) {
  return withEntry(withEntry(editable(asked, ran), "fuse", OTHER[word], pair, false), "fuse", word, pair);
}

/** The pipeline without a pair that was forced or forbidden. */
export const letBe = (asked, ran, word, pair) => withEntry(editable(asked, ran), "fuse", word, pair, false);

/**
 * Whether a decision is about what is selected: "picked" by name, "related" by origin, or "".
 * `members` are the names in the selected group or kernel, `originsOf(name)` the origins of a value.
 */
export function about({ a, b }, selection, members, originsOf) {
  if (selection === null) return "";
  const names = new Set([selection.key, ...members]);
  if (names.has(a) || names.has(b)) return "picked";
  return [a, b].some((name) => originsOf(name).some((o) => selection.origins.includes(o))) ? "related" : "";
}
