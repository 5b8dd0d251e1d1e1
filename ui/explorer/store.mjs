// State with listeners: changes count at once, drawing waits for the next frame.
//
// Keys pressed faster than a frame all count; what is drawn is the last state.

export function createStore(initial) {
  let state = { ...initial };
  const listeners = new Set();
  const pending = new Set();
  let frame = 0;

  function flush() {
    frame = 0;
    const changed = new Set(pending);
    pending.clear();
    for (const { keys, draw } of listeners) {
      if (keys === null || keys.some((key) => changed.has(key))) draw(state, changed);
    }
  }

  return {
    get: () => state,
    /** Change some keys; what equals its old value changes nothing. */
    set(patch) {
      for (const [key, value] of Object.entries(patch)) {
        if (Object.is(state[key], value)) continue;
        state = { ...state, [key]: value };
        pending.add(key);
      }
      if (pending.size && !frame) frame = requestAnimationFrame(flush);
    },
    /** Call `draw(state, changed)` in the frame after one of `keys` (null: any) changed. */
    on(keys, draw) {
      const entry = { keys, draw };
      listeners.add(entry);
      return () => listeners.delete(entry);
    },
    /** Draw now what is pending: for tests and before a measurement of the layout. */
    flush() {
      if (frame) cancelAnimationFrame(frame);
      flush();
    },
  };
}
