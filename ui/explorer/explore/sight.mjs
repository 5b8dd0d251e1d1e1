// Where a camera stands: arithmetic over rectangles, without elements.
//
// A camera is `{x, y, k}`, a place p is seen at p * k + x. `room` is the size of a pane, a box `{x, y, w, h}`.

/** Letters of a label: their height and width, and from line to line, in a scene; ui/layout.py counts with them. */
export const FONT = 13, CHARACTER = 7.8, LINE = 14;
/** The least height of a label that reads on a projector too, in pixels of the screen. */
export const LEGIBLE = 11;
/** Scales from which labels and the boxes of an overview can be read, and the largest of what is not shown whole. */
export const READABLE = LEGIBLE / FONT, COARSE = 0.4, START = 1;
export const LEAST = 0.001;
const MOST = 1.2, MARGIN = 10;

/** All of a box, in the middle of the room. */
export function wholeOf(box, [w, h]) {
  const k = Math.min(MOST, Math.max(LEAST, Math.min((w - 2 * MARGIN) / box.w, (h - 2 * MARGIN) / box.h)));
  return { k, x: (w - box.w * k) / 2 - box.x * k, y: (h - box.h * k) / 2 - box.y * k };
}

/** The first picture of a box: all of it where that can be read, `tight` (what of it is drawn now) otherwise; else null. */
export function readable(box, tight, room, least = READABLE) {
  return [box, tight].map((each) => wholeOf(each, room)).find(({ k }) => k >= least) ?? null;
}

/** A box too large for that, at a scale at which it reads, or at `k`: `held` in the middle, or at the top where `top`. */
export function startOf(box, held, room, top, k = Math.min(START, Math.max(READABLE, (room[0] - 2 * MARGIN) / box.w))) {
  const along = (from, size, at, extent, seen, first) => {
    if (extent * k + 2 * MARGIN <= seen) return first ? MARGIN - from * k : (seen - extent * k) / 2 - from * k;
    const wanted = first ? MARGIN - at * k : seen / 2 - (at + size / 2) * k;
    return Math.min(MARGIN - from * k, Math.max(seen - MARGIN - (from + extent) * k, wanted));
  };
  return { k, x: along(box.x, held.w, held.x, box.w, room[0], false), y: along(box.y, held.h, held.y, box.h, room[1], top) };
}

/** The camera after the room was resized: what was in the middle stays there. */
export const resized = ({ x, y, k }, from, to) => ({ k, x: x + (to[0] - from[0]) / 2, y: y + (to[1] - from[1]) / 2 });
