// The pipeline of a model as it is compiled first.

import { inFull, print, read } from "./pipeline_text.mjs";

/** With the graph breaks that a sample asks for; "default" for all others. */
export function usual(shell, model) {
  const sample = shell.samples.find((s) => s.name === model);
  return sample?.force.length ? `default,partition-fallback{force=[${sample.force.join(",")}]}` : "default";
}

/**
 * The pipeline that is asked for; the usual one, though it be written in full, by its short text.
 * `shell.orders`: the default order in full by target, as results of compiles tell it.
 */
export function settled(shell, { model, target, pipeline }) {
  const short = usual(shell, model);
  const order = shell.orders[target];
  try {
    const same = order !== undefined && print(read(pipeline)) === print(inFull(read(short), read(order)));
    return same ? short : pipeline;
  } catch { return pipeline; }   // no pipeline: the compiler says why
}
