// The pipeline of a model as it is compiled first.

/** With the graph breaks that a sample asks for; "default" for all others. */
export function usual(shell, model) {
  const sample = shell.samples.find((s) => s.name === model);
  return sample?.force.length ? `default,partition-fallback{force=[${sample.force.join(",")}]}` : "default";
}
