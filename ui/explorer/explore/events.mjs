// What an event of a pass is: a rewrite, a refusal, or a remark that nothing had to be done.
//
// An event without edits is a rule that looked and let it be. Some of these refuse nothing that
// anybody wanted, and say so of every model: they are notes, not refusals.

export const NOTES = new Set(["dce.output", "fuse.option.forbid", "gpu.target", "order.inplace"]);

/** "edit", "refused" or "note". */
export const kindOf = (event) => (event.edits > 0 ? "edit" : NOTES.has(event.message) ? "note" : "refused");

/** How many rules of a pass refused something. */
export const refusals = (pass) => pass.events.filter((event) => kindOf(event) === "refused").length;
