// Progress: events that are only ever added, and the state that they fold to.
//
//   {id, kind: "lock" | "skip" | "attempt", value, conditions, time}
//
// What two tabs know, or a file that was imported, is their union. The first lock of an id wins.

const KEY = "explorer.lessons.1";
const KINDS = ["lock", "skip", "attempt"];
const MOST = 5000;

const same = (event) => JSON.stringify([event.id, event.kind, event.time, event.value]);

/** Whether something read from outside is an event. */
export function isEvent(event) {
  return typeof event === "object" && event !== null && typeof event.id === "string" && event.id.length < 200
    && KINDS.includes(event.kind) && typeof event.time === "string" && !Number.isNaN(Date.parse(event.time))
    && (event.kind !== "lock" || Number.isFinite(event.value));
}

/** All events of both, each once, by time. */
export function union(a, b) {
  const found = new Map([...a, ...b].map((event) => [same(event), event]));
  return [...found.values()].sort((x, y) => Date.parse(x.time) - Date.parse(y.time) || (same(x) < same(y) ? -1 : 1));
}

/** `{locks, skips, attempts}`: id -> first lock; id -> first skip that no lock came before; id -> attempts in order. */
export function fold(events) {
  const state = { locks: new Map(), skips: new Map(), attempts: new Map() };
  for (const event of union(events, [])) {
    if (event.kind === "attempt") state.attempts.set(event.id, [...(state.attempts.get(event.id) ?? []), event]);
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
  return Array.isArray(list) ? list.filter(isEvent).slice(0, MOST) : null;
}

export const writeEvents = (events) => `${JSON.stringify({ schema: 1, events }, null, 1)}\n`;

/** The progress of this browser; `changed` is called when another tab or an import added to it. */
export function openProgress(storage, changed = () => {}) {
  let events = stored();

  function stored() {
    try { return readEvents(storage.getItem(KEY) ?? "[]") ?? []; } catch { return []; }
  }

  /** Taken together with what another tab wrote meanwhile. */
  function keep(more) {
    events = union(union(stored(), events), more);
    try { storage.setItem(KEY, writeEvents(events)); } catch { /* it lasts as long as this page */ }
  }

  return {
    state: () => fold(events),
    events: () => [...events],
    add(event) { keep([{ conditions: null, time: new Date().toISOString(), ...event }]); },
    import(more) { keep(more); changed(); },
    /** To be called when the storage was written elsewhere. */
    hear(key) { if (key === null || key === KEY) { events = union(events, stored()); changed(); } },
  };
}
