// The dock below the panes: what happened in words, as text, as decisions, kernels, memory.
//
// A tab is a module `dock/<name>.mjs` with `create(context) -> {element, keys, draw(state, changed)}`,
// made when it is first opened. The edge above the dock sets its height.

import { h, replace, rove } from "../dom.mjs";
import { number, t } from "../text.mjs";

const TABS = ["rewrite", "text", "decisions", "kernels", "memory", "drift", "biography", "pipeline", "breaks"];
const HEIGHT = "explorer.dock";
const LEAST = 90, PANES = 260, SMALL = 220, STEP = 24;   // the least height of the dock, of the panes above, and what a small window leaves it: there all scrolls
/** Share of the explorer's height that the dock has until a reader sets it, and its bounds; code and tables need more than sentences. */
const SHARE = 0.28, CODE = 0.42, USUAL = [150, 420];
const TALL = ["text", "decisions", "kernels", "memory"];
/** Of a low window sentences leave this height to what is above them: a small graph is then shown whole. */
const PICTURE = 580;

export function dock(context) {
  const { store, act, embedded } = context;
  const edge = h("div", {
    role: "separator", class: "dock-edge", id: "dock-edge", tabindex: 0, "aria-orientation": "horizontal",
    "aria-controls": "dock-panel",
  });
  const list = h("div", { role: "tablist", class: "tabs" });
  const panel = h("div", { role: "tabpanel", class: "panel", id: "dock-panel", tabindex: 0 });
  const element = h("section", { class: "region dock" }, edge, list, panel);
  const tabs = new Map();
  let height = embedded ? null : readHeight();   // null until a reader set it

  function open(name) {
    if (tabs.has(name)) return tabs.get(name);
    tabs.set(name, null);
    import(new URL(`dock/${name}.mjs`, import.meta.url).href).then((module) => {
      tabs.set(name, module.create(context));
      draw(store.get(), new Set(["tab"]));
    });
    return null;
  }

  function draw(state, changed) {
    if (state.compile === null) return;
    const now = TABS.includes(state.tab) ? state.tab : TABS[0];
    element.setAttribute("aria-label", t("dock.title"));
    list.setAttribute("aria-label", t("dock.tabs"));
    edge.setAttribute("aria-label", t("dock.resize"));
    if (element.parentElement) watcher.observe(element.parentElement);
    resize(height);
    if (list.childElementCount === 0 || ["tab", "compile", "refreshed"].some((key) => changed.has(key))) {
      const buttons = TABS.map((name) => h("button", {
        role: "tab", id: `tab-${name}`, type: "button", "aria-selected": String(name === now),
        "aria-controls": "dock-panel", tabindex: name === now ? 0 : -1,
        onclick: () => act.tab(name),
        onkeydown: (event) => rove(event, [...list.children], true, (k) => act.tab(TABS[k])),
      }, t(`tab.${name}`), count(state, name)));
      replace(list, buttons);
    }
    panel.setAttribute("aria-labelledby", `tab-${now}`);
    const tab = open(now);
    if (tab === null) return;
    if (panel.firstChild !== tab.element) {
      panel.replaceChildren(tab.element);
      panel.scrollTop = 0;
      tab.draw(state, new Set(tab.keys));
    } else if (changed.has("refreshed") || tab.keys.some((key) => changed.has(key))) tab.draw(state, changed);
  }

  // ---- the height ------------------------------------------------------------------------------

  const usual = () => {
    const all = element.parentElement?.clientHeight || 800;
    const wanted = TALL.includes(store.get().tab) ? CODE * all : Math.min(SHARE * all, all - PICTURE);
    return Math.min(USUAL[1], Math.max(USUAL[0], wanted));
  };
  const most = () => {
    const { clientHeight: all = 800, firstElementChild: toolbar } = element.parentElement ?? {};
    return Math.max(SMALL, (all || 800) - (toolbar?.offsetHeight ?? 0) - PANES);
  };

  function resize(to, keep = false) {
    const bound = Math.round(Math.max(LEAST, Math.min(most(), to ?? usual())));
    if (keep) {
      height = bound;
      if (!embedded) try { localStorage.setItem(HEIGHT, String(bound)); } catch { /* for this visit */ }
    }
    element.parentElement?.style.setProperty("--dock", `${bound}px`);
    for (const [name, value] of [["now", bound], ["min", LEAST], ["max", most()]]) edge.setAttribute(`aria-value${name}`, value);
  }

  edge.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    edge.setPointerCapture(event.pointerId);
    edge.focus({ preventScroll: true });
    const from = event.clientY + element.clientHeight;
    const move = (e) => resize(from - e.clientY, true);
    edge.addEventListener("pointermove", move);
    edge.addEventListener("lostpointercapture", () => edge.removeEventListener("pointermove", move), { once: true });
  });
  edge.addEventListener("dblclick", () => resize(usual(), true));
  const now = () => height ?? usual();
  edge.addEventListener("keydown", (event) => {
    const to = { ArrowUp: now() + STEP, ArrowDown: now() - STEP, Home: LEAST, End: most(), Enter: usual() }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    resize(to, true);
  });
  const watcher = new ResizeObserver(() => resize(height));

  return {
    element, draw,
    destroy() { watcher.disconnect(); },
    keys: ["tab", "compile", "left", "at", "event", "selection", "hover", "kernel", "why", "bound", "times", "asked", "job", "error"],
  };
}

/** How many a tab shows; of kernels also how many pieces of code they are, which the toolbar counts. */
function count({ compile }, name) {
  const n = { decisions: compile.trace.decisions.length, kernels: compile.kernelNames.length, breaks: compile.trace.breaks.length }[name];
  if (n === undefined || (n === 0 && !compile.whole)) return null;
  const distinct = name === "kernels" ? compile.trace.kernels?.fused ?? n : n;
  return distinct < n ? ` (${t("tab.distinct", { n, distinct })})` : ` (${number(n)})`;
}

function readHeight() {
  try {
    const value = Number(localStorage.getItem(HEIGHT));
    return Number.isFinite(value) && value > 0 ? value : null;
  } catch { return null; }
}
