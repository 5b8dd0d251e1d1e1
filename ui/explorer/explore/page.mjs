// The Explore page: choose a model, then walk it down.

import { h, replace } from "../dom.mjs";
import { language, t } from "../text.mjs";
import { createExplorer, usual } from "./explorer.mjs";

export function create(shell) {
  const explorer = createExplorer(shell);
  const landing = h("main", { class: "landing" });
  const element = h("div", { class: "explore-page" });
  let chosen = "";

  function draw() {
    if (chosen) {
      replace(element, explorer.element);
      return;
    }
    replace(landing, h("p", { class: "lead" }, t("page.about")),
      h("h2", null, t("choose.title")),
      h("div", { class: "cards" }, shell.samples.map((s) => h("button", {
        type: "button", class: "card", id: `model-${s.name}`, onclick: () => open(s.name),
      }, h("span", { class: "card-title" }, s.title[language()]), h("span", { class: "card-text" }, s.teaches[language()])))));
    replace(element, landing);
  }

  function open(model, config = {}) {
    chosen = model;
    draw();
    explorer.open({ model, ...config });
  }

  explorer.store.on(["asked", "at", "event", "tab", "bound", "selection"], (state) => {
    if (state.asked === null || !chosen) return;
    const { model, target, numerics, pin, pipeline } = state.asked;
    shell.address.set({
      model, pin, target: target === "cpu" ? "" : target, numerics: numerics === "default" ? "" : numerics,
      passes: pipeline === usual(shell, model) ? "" : pipeline,
      at: state.compile ? `${state.at}${state.event === null ? "" : `.${state.event}`}` : "",
      tab: state.tab === "rewrite" ? "" : state.tab,
      sel: state.selection?.key ?? "",
      bind: Object.entries(state.bound).map(([k, v]) => `${k}=${v}`).join(","),
    });
  });

  return {
    element, explorer,
    show(params) {
      if (params.model && params.model !== chosen) {
        const [at, event] = String(params.at || "").split(".");
        open(params.model, {
          target: params.target || "cpu", numerics: params.numerics || "default", pin: params.pin || "",
          pipeline: params.passes || "", sizes: readSizes(params.bind),
          ...(at !== "" ? { at: Number(at), event: event === undefined ? null : Number(event) } : {}),
          ...(params.tab ? { dock: params.tab } : {}), ...(params.sel ? { select: params.sel } : {}),
        });
      } else draw();
    },
    hide() {},
    refresh() { draw(); explorer.refresh(); },
  };
}

/** Sizes as an address has them: `rows=8,cols=4`. */
export function readSizes(text) {
  const found = {};
  for (const item of (text ?? "").split(",")) {
    const match = /^\s*([^\s=,]+)\s*=\s*(\d{1,10})\s*$/.exec(item);
    if (match) found[match[1]] = Number(match[2]);
  }
  return found;
}
