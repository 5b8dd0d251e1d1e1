// Progress: events that are only ever added, and the state that they fold to.
//
//   {id, kind: "lock" | "skip" | "attempt" | "run", value, conditions, time}
//
// What two tabs know, or a file that was imported, is their union. The first lock of an id wins, the
// last measurement of a run.

const KEY = "explorer.lessons.1";
const KINDS = ["lock", "skip", "attempt", "run"];

/** An import adds no more than up to so many events in all. */
export const MOST = 5000;

const same = (event) => JSON.stringify([event.id, event.kind, event.time, event.value]);

/** Whether something read from outside is an event. */
export function isEvent(event) {
  return typeof event === "object" && event !== null && typeof event.id === "string" && event.id.length < 200
    && KINDS.includes(event.kind) && typeof event.time === "string" && !Number.isNaN(Date.parse(event.time))
    && (event.kind !== "lock" || Number.isFinite(event.value))
    && (event.kind !== "run" || isReport(event.value));
}

const isObject = (value) => typeof value === "object" && value !== null;

/** Whether a value has what a page shows of a measurement. */
const isReport = (value) => isObject(value) && ["latency", "bytes", "launches", "conditions"].every((key) => isObject(value[key]));

/** All events of both, each once, by time. */
export function union(a, b) {
  const found = new Map([...a, ...b].map((event) => [same(event), event]));
  return [...found.values()].sort((x, y) => Date.parse(x.time) - Date.parse(y.time) || (same(x) < same(y) ? -1 : 1));
}

/**
 * `{locks, skips, attempts, runs}`: id -> first lock; id -> first skip that no lock came before;
 * id -> attempts in order; id -> last measurement.
 */
export function fold(events) {
  const state = { locks: new Map(), skips: new Map(), attempts: new Map(), runs: new Map() };
  for (const event of union(events, [])) {
    if (event.kind === "attempt") state.attempts.set(event.id, [...(state.attempts.get(event.id) ?? []), event]);
    else if (event.kind === "run") state.runs.set(event.id, event);
    else if (!state.locks.has(event.id) && !state.skips.has(event.id)) {
      state[event.kind === "lock" ? "locks" : "skips"].set(event.id, event);
    }
  }
  return state;
}

/** Events in a text; what is none counts for nothing. Null where the text holds no list of them. */
export function readEvents(text) {
  let value;
  try { value = JSON.parse(text); } catch { return null; }
  const list = Array.isArray(value) ? value : value?.events;
  return Array.isArray(list) ? list.filter(isEvent) : null;
}

export const writeEvents = (events) => `${JSON.stringify({ schema: 1, events }, null, 1)}\n`;

/**
 * The progress of this browser; `changed` is called when another tab or an import added to it. Where
 * the browser keeps nothing, events last as long as the page, and `lasting()` is false.
 */
export function openProgress(storage, changed = () => {}) {
  let events = stored(), lasting = true;

  function stored() {
    try { return readEvents(storage.getItem(KEY) ?? "[]") ?? []; } catch { return []; }
  }

  function written(all) {
    try { storage.setItem(KEY, writeEvents(all)); } catch { return false; }
    return true;
  }

  /** What this page and, meanwhile, another tab know. */
  const known = () => union(stored(), events);

  return {
    state: () => fold(events),
    events: () => [...events],
    lasting: () => lasting,
    add(event) {
      events = union(known(), [{ conditions: null, time: new Date().toISOString(), ...event }]);
      lasting = written(events);
    },
    /** `{added, left, full}`: how many are kept now and how many not; all or none where the browser is full. */
    import(more) {
      const now = known();
      const have = new Set(now.map(same));
      const fresh = union(more, []).filter((event) => !have.has(same(event)));
      const taken = fresh.slice(0, Math.max(0, MOST - now.length));
      const next = union(now, taken);
      if (!written(next)) return { added: 0, left: fresh.length, full: true };
      events = next;
      lasting = true;
      changed();
      return { added: taken.length, left: fresh.length - taken.length, full: false };
    },
    /** To be called when the storage was written elsewhere. */
    hear(key) { if (key === null || key === KEY) { events = union(events, stored()); changed(); } },
  };
}
