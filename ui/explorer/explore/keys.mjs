// Keys of the explorer. They act with the focus inside it and not in a text field.
//
//     ↑ ↓ pass    ← → rewrite    N P changed pass    / search    F fit    ? help    Esc leave

const TYPING = "input:not([type=range]):not([type=checkbox]):not([type=radio]), textarea, select";

export function keydown(event, { store, act }) {
  const target = event.composedPath()[0];
  const state = store.get();
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "f") {
    event.preventDefault();
    search(event.currentTarget);
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") {
    if (state.help) act.help(false);
    else target.blur?.();
    return;
  }
  if (target.matches?.(TYPING) || state.compile === null) return;
  const own = target.closest?.("[role=tablist], [role=radiogroup], [role=menu], [type=range]");
  if (own && /^(Arrow|Home|End)/.test(event.key)) return;
  const lines = target.closest?.("[role=listbox]:not(.passes)");
  if (lines && /^(Arrow(Up|Down)|Home|End|Page)/.test(event.key)) return;
  const doing = {
    ArrowUp: () => act.goto(state.at - 1), ArrowDown: () => act.goto(state.at + 1),
    ArrowLeft: () => act.step(-1), ArrowRight: () => act.step(1),
    Home: () => act.goto(0), End: () => act.goto(state.compile.passes.length - 1),
    n: () => act.changed(1), p: () => act.changed(-1),
    f: () => act.fit?.(), "/": () => search(event.currentTarget), "?": () => act.help(!state.help),
  }[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (doing === undefined) return;
  event.preventDefault();
  doing();
}

function search(element) {
  const field = element.querySelector("#search");
  field?.focus();
  field?.select();
}
