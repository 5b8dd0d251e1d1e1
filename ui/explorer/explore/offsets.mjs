// Where intervals lie in one arena: the compiler's allocator (compiler/ir/plan.py), for sizes that a
// reader bound. Best fit by decreasing size.

const ALIGNMENT = 64;

/**
 * `{offsets, peak, naive, lowerBound, live}` of `[{name, size, start, stop}]`, in bytes; steps are
 * inclusive. `offsets` maps names to places, `naive` is the sum of all sizes, `lowerBound` the largest
 * sum that is live at one step (`live[step]`), and lowerBound <= peak <= naive.
 */
export function offsets(intervals) {
  const sized = intervals.map((item) => ({ ...item, size: Math.ceil(item.size / ALIGNMENT) * ALIGNMENT }));
  const order = sized.toSorted((a, b) =>
    b.size - a.size || a.start - b.start || (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
  const found = new Map(), placed = [];
  for (const item of order) {
    const busy = placed.filter((other) => other.start <= item.stop && item.start <= other.stop)
      .sort((a, b) => a.at - b.at || a.end - b.end);
    let best = null, cursor = 0;
    for (const { at, end } of busy) {
      if (at - cursor >= item.size && (best === null || at - cursor < best.room)) best = { room: at - cursor, at: cursor };
      cursor = Math.max(cursor, end);
    }
    const at = best === null ? cursor : best.at;
    found.set(item.name, at);
    if (item.size > 0) placed.push({ at, end: at + item.size, start: item.start, stop: item.stop });
  }
  const live = [];
  for (const { size, start, stop } of sized) {
    for (let step = start; step <= stop; step += 1) live[step] = (live[step] ?? 0) + size;
  }
  return {
    offsets: found,
    peak: placed.reduce((most, { end }) => Math.max(most, end), 0),
    naive: sized.reduce((sum, { size }) => sum + size, 0),
    lowerBound: live.reduce((most, size) => Math.max(most, size ?? 0), 0),
    live: Array.from(live, (size) => size ?? 0),
  };
}
