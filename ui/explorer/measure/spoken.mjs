// What the live region says of a job while it runs.

/**
 * A function that says whether an event is news worth hearing: a place in the queue, the start of a
 * phase, and each further quarter of the phases that take long.
 */
export function news() {
  const told = new Set();
  return ({ event, position, phase, done = 0, of = 0 }) => {
    const quarter = ["measure", "effect"].includes(phase) && of > 1 ? Math.floor((4 * done) / of) : 0;
    const key = [event, position ?? "", phase ?? "", quarter].join(":");
    if (event === "started" || told.has(key)) return false;
    told.add(key);
    return true;
  };
}
