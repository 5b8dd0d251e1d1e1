// The dock below the panes: what happened in words, as text, as decisions, kernels, memory.
//
// A tab is a module `dock/<name>.mjs` with `create(context) -> {element, keys, draw(state, changed)}`,
// made when it is first opened.

import { h, replace, rove } from "../dom.mjs";
import { t } from "../text.mjs";

const TABS = ["rewrite", "text", "decisions", "kernels", "memory", "drift", "biography", "pipeline", "breaks"];

export function dock(context) {
  const { store, act } = context;
  const list = h("div", { role: "tablist", class: "tabs" });
  const panel = h("div", { role: "tabpanel", class: "panel", tabindex: -1 });
  const element = h("section", { class: "region dock" }, list, panel);
  const tabs = new Map();
  const missing = new Set();

  function open(name) {
    if (tabs.has(name)) return tabs.get(name);
    tabs.set(name, null);
    import(new URL(`dock/${name}.mjs`, import.meta.url).href).then((module) => {
      tabs.set(name, module.create(context));
      draw(store.get(), new Set(["tab"]));
    }, () => { missing.add(name); draw(store.get(), new Set(["tab"])); });
    return null;
  }

  function draw(state, changed) {
    element.setAttribute("aria-label", t("dock.title"));
    list.setAttribute("aria-label", t("dock.title"));
    if (list.childElementCount === 0 || changed.has("tab") || changed.has("refreshed")) {
      const there = TABS.filter((name) => !missing.has(name));
      const buttons = there.map((name) => h("button", {
        role: "tab", id: `tab-${name}`, type: "button", "aria-selected": String(name === state.tab),
        "aria-controls": "dock-panel", tabindex: name === state.tab ? 0 : -1,
        onclick: () => act.tab(name),
        onkeydown: (event) => rove(event, buttons, true, (k) => act.tab(there[k])),
      }, t(`tab.${name}`)));
      replace(list, buttons);
    }
    panel.id = "dock-panel";
    panel.setAttribute("aria-labelledby", `tab-${state.tab}`);
    const tab = open(state.tab);
    if (tab === null) return;
    if (panel.firstChild !== tab.element) {
      panel.replaceChildren(tab.element);
      tab.draw(state, new Set(tab.keys));
    } else if (changed.has("refreshed") || tab.keys.some((key) => changed.has(key))) tab.draw(state, changed);
  }

  return {
    element, draw,
    keys: ["tab", "compile", "left", "at", "event", "selection", "kernel", "bound", "times", "asked", "job"],
  };
}
