// Keys of the explorer. They act with the focus inside it and not in a text field.
//
//     ↑ ↓ pass    ← → rewrite    N P changed pass    / search    ? help    Esc leave, clear
//     Shift ↑ ↓ ← → what the graphs show    + − its size    F all of it
//
// The application's root stops every key from reaching the host page, whether it is handled or not.

const PAN = 80;   // pixels
const OWN_ARROWS = "[role=tablist], [role=radiogroup], [role=menu], [role=slider], [type=range]";
const LINES = "[role=listbox]:not(.passes)";
const TYPING = "input:not([type=range]):not([type=checkbox]):not([type=radio]), textarea, select, [contenteditable]";

/** What the help sheet lists: the keys as they are printed, the message that says what they do. */
export const KEYS = [
  [["↑", "↓"], "keys.pass"], [["←", "→"], "keys.rewrite"], [["N", "P"], "keys.changed"],
  [["Home", "End"], "keys.ends"], [["/", "Ctrl F"], "keys.search"], [["F"], "keys.fit"],
  [["Shift ↑ ↓ ← →"], "keys.pan"], [["+", "−"], "keys.zoom"],
  [["?"], "keys.help"], [["Esc"], "keys.leave"],
];

export function keydown(event, { store, act }) {
  const target = event.composedPath()[0];
  const state = store.get();
  if (event.isComposing || event.defaultPrevented) return;
  if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "f") {
    event.preventDefault();
    search(event.currentTarget);
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") {
    if (state.help) act.help(false);
    else if (state.selection !== null && !target.matches?.(TYPING)) act.clear();
    else event.currentTarget.focus({ preventScroll: true });
    return;
  }
  if (state.help || target.matches?.(TYPING) || state.compile === null) return;
  if (event.shiftKey && event.key.length > 1) { pan(event, act); return; }
  const own = target.closest?.(OWN_ARROWS);
  if (own && /^(Arrow|Home|End|Page)/.test(event.key)) return;
  const lines = target.closest?.(LINES);
  if (lines && /^(Arrow(Up|Down)|Home|End|Page)/.test(event.key)) return;
  const doing = {
    ArrowUp: () => act.goto(state.at - 1), ArrowDown: () => act.goto(state.at + 1),
    ArrowLeft: () => act.step(-1), ArrowRight: () => act.step(1),
    Home: () => act.goto(0), End: () => act.goto(state.compile.passes.length - 1),
    n: () => act.changed(1), p: () => act.changed(-1),
    f: () => act.fit?.(), "+": () => act.zoom?.(1), "=": () => act.zoom?.(1), "-": () => act.zoom?.(-1),
    "/": () => search(event.currentTarget), "?": () => act.help(true),
  }[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (doing === undefined) return;
  event.preventDefault();
  doing();
}

/** Shift and an arrow look further in that direction; the graphs move the other way. */
function pan(event, act) {
  const way = { ArrowUp: [0, PAN], ArrowDown: [0, -PAN], ArrowLeft: [PAN, 0], ArrowRight: [-PAN, 0] }[event.key];
  if (way === undefined || event.composedPath()[0].closest?.(`${OWN_ARROWS}, ${LINES}`)) return;
  event.preventDefault();
  act.pan?.(...way);
}

function search(element) {
  const field = element.querySelector("#search");
  field?.focus();
  field?.select();
}
