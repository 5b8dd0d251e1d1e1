// The bar over the panes: what they show and how, search, groups, export; below them the legend.

import { download, fileName } from "../files.mjs";
import { h, replace } from "../dom.mjs";
import { bytes, t } from "../text.mjs";
import { pngOf, svgOf } from "./picture.mjs";

export const VIEWS = ["graph", "kernels", "memory", "source"];
const OVERLAYS = ["none", "bytes", "time", "drift"];

/** A button beside keys that have one row: it opens the others, where there are more than fit. */
function folded(keys) {
  const open = (is) => {
    button.setAttribute("aria-expanded", String(is));
    keys.classList.toggle("open", is);
  };
  const button = h("button", {
    type: "button", id: "legend-all", class: "plain", "aria-controls": "legend-keys", hidden: true,
    onclick: () => open(button.getAttribute("aria-expanded") !== "true"),
    onkeydown: (event) => {
      if (event.key !== "Escape" || button.getAttribute("aria-expanded") !== "true") return;
      event.stopPropagation();
      open(false);
    },
  });
  open(false);
  const fits = () => {
    if (keys.classList.contains("open")) return;
    button.hidden = [...keys.children].every((key) => key.offsetTop < keys.clientHeight && key.scrollWidth <= key.clientWidth);
  };
  new ResizeObserver(fits).observe(keys);
  new MutationObserver(fits).observe(keys, { childList: true });
  return button;
}

/** `{element, legend, draw(state, shown)}`; `ask` is what the bar asks of the panes. */
export function paneBar({ store, act, shell, embedded }, ask) {
  const view = h("select", { id: "pane-view", onchange: () => act.view(view.value) });
  const kernel = h("select", { id: "pane-kernel", onchange: () => act.chooseKernel(kernel.value) });
  const shade = h("select", { id: "pane-overlay", onchange: () => act.overlay(shade.value) });
  const merged = h("button", { type: "button", id: "pane-merged", onclick: () => act.merged(!store.get().merged) });
  const back = h("button", { type: "button", id: "pane-outside", onclick: () => act.inside(store.get().inside.replace(/^[^.]*$|\.[^.]*$/, "")) });
  const field = h("input", {
    type: "search", id: "search", autocomplete: "off", spellcheck: "false",
    oninput: () => act.search(field.value),
    onkeydown: (event) => {
      if (event.key === "Enter") { event.preventDefault(); ask.step(event.shiftKey ? -1 : 1); }
      if (event.key === "Escape" && field.value !== "") { event.stopPropagation(); field.value = ""; act.search(""); }
    },
  });
  const count = h("span", { class: "hint search-count", id: "search-count" });
  const groups = menu("pane-groups", (panel) => drawGroups(panel));
  const files = menu("pane-export", (panel) => drawExports(panel));
  const element = h("div", { class: "pane-bar", role: "toolbar" },
    view, kernel, merged, shade, back,
    groups.element, files.element, h("span", { class: "spring" }), h("span", { class: "search" }, field, count));
  const keys = h("div", { class: "legend-keys", id: "legend-keys" });
  const fold = embedded ? folded(keys) : null;
  const legend = h("div", { class: "pane-legend hint" }, keys, fold);

  /** A button that opens a panel; Escape and a click elsewhere close it. */
  function menu(id, fill) {
    const panel = h("div", { class: "pane-menu", id: `${id}-panel`, hidden: true });
    const button = h("button", {
      type: "button", id, "aria-expanded": "false", "aria-controls": `${id}-panel`,
      onclick: () => { if (panel.hidden) open(); else close(); },
    });
    const outside = (event) => { if (!event.composedPath().includes(whole)) close(); };
    const whole = h("div", { class: "pane-menus", onkeydown: (event) => {
      if (event.key !== "Escape" || panel.hidden) return;
      event.stopPropagation();
      close();
      button.focus();
    } }, button, panel);
    function open() {
      panel.hidden = false;
      button.setAttribute("aria-expanded", "true");
      fill(panel);
      document.addEventListener("pointerdown", outside);
    }
    function close() {
      panel.hidden = true;
      button.setAttribute("aria-expanded", "false");
      document.removeEventListener("pointerdown", outside);
    }
    return { element: whole, button, close, refill() { if (!panel.hidden) fill(panel); } };
  }

  function drawGroups(panel) {
    const found = ask.groups();
    const { closed } = store.get();
    if (ask.overview()) {
      replace(panel, h("p", { class: "hint" }, t("pane.overview")),
        h("ul", { class: "group-list" }, found.map((group, k) => h("li", null, h("button", {
          type: "button", id: `group-${k}`, onclick: () => { groups.close(); act.inside(group.key); },
        }, h("span", { "aria-hidden": "true" }, "⊞ "), h("span", { translate: "no" }, group.label), " ", t("group.count", { n: group.members.length }))))));
      return;
    }
    replace(panel,
      h("p", { class: "hint" }, t("groups.about")),
      h("p", { class: "row" },
        h("button", { type: "button", id: "groups-close", onclick: () => act.closeGroups(found) }, t("groups.close.all")),
        h("button", { type: "button", id: "groups-open", onclick: () => act.closeGroups([]) }, t("groups.open.all"))),
      h("ul", { class: "group-list" }, found.map((group, k) => h("li", null, h("button", {
        type: "button", id: `group-${k}`, "aria-expanded": String(!closed.has(group.id)), onclick: () => act.toggle(group),
      }, h("span", { "aria-hidden": "true" }, closed.has(group.id) ? "⊞ " : "⊟ "),
      h("span", { translate: "no" }, group.label), " ", t("group.count", { n: group.members.length }))))));
  }

  function drawExports(panel) {
    const pictures = ask.pictures();
    const { asked, compile, at } = store.get();
    const name = fileName(`${asked?.name || asked?.model || "graph"}-${at + 1}-${compile.passes[at].name}`);
    const save = (kind, chosen, part) => async () => {
      if (kind === "svg") download(`${name}${part}.svg`, "image/svg+xml", svgOf(chosen));
      else download(`${name}${part}.png`, "image/png", await pngOf(chosen));
      shell.announce(t("picture.done", { name: `${name}${part}.${kind}` }));
      files.close();
      files.button.focus();
    };
    const parts = [...(pictures.length > 1 ? [[pictures, "", t("picture.both")]] : []),
      ...pictures.map((p) => [[p], p.side === 0 ? "-left" : pictures.length > 1 ? "-right" : "", p.title])];
    replace(panel, h("ul", { class: "group-list" }, parts.flatMap(([chosen, part, said]) => ["svg", "png"].map((kind) =>
      h("li", null, h("button", { type: "button", id: `export-${kind}${part}`, onclick: save(kind, chosen, part) },
        t("picture.as", { what: said, kind: kind.toUpperCase() })))))));
  }

  function options(select, values, chosen) {
    const made = values.map(([value, text]) => h("option", { value }, text));
    if (select.childElementCount !== made.length || made.some((o, k) => o.textContent !== select.children[k].textContent || o.value !== select.children[k].value)) select.replaceChildren(...made);
    if (select.value !== chosen) select.value = chosen;
  }

  return {
    element, legend,
    /** `shown`: `{view, kernel, kernels, changedKernels, scale, heat, hits, place}`. */
    draw(state, shown) {
      element.setAttribute("aria-label", t("pane.bar"));
      view.setAttribute("aria-label", t("pane.view"));
      kernel.setAttribute("aria-label", t("pane.kernel"));
      shade.setAttribute("aria-label", t("pane.overlay"));
      const graph = shown.view === "graph";
      options(view, [["", t("pane.view.follow", { view: t(`pane.view.${shown.follows}`) })], ...VIEWS.map((name) => [name, t(`pane.view.${name}`)])], state.view);
      kernel.hidden = !["kernels", "source"].includes(shown.view) || shown.kernels.length === 0;
      options(kernel, shown.kernels.map((name) => [name, shown.changed.has(name) ? t("pane.kernel.changed", { kernel: name }) : name]), shown.kernel);
      shade.hidden = !graph;
      options(shade, OVERLAYS.map((name) => [name, t("overlay.choice", { what: t(`overlay.${name}`) })]), state.overlay);
      merged.hidden = !graph || state.left !== null;
      merged.textContent = t("pane.merge");
      merged.setAttribute("aria-pressed", String(state.merged));
      back.hidden = !graph || state.inside === "";
      back.textContent = t("pane.outside");
      groups.element.hidden = !graph || shown.groups === 0;
      groups.button.textContent = t("groups.title", { n: shown.groups });
      groups.refill();
      files.element.hidden = !graph;
      files.button.textContent = t("picture.title");
      field.setAttribute("aria-label", t("search.title"));
      field.placeholder = t("search.hint");
      if (field.value !== state.search) field.value = state.search;
      count.textContent = state.search.trim() === "" ? "" : shown.place ? t("search.place", { n: shown.place, of: shown.hits }) : t("search.count", { n: shown.hits });
      legend.hidden = !graph;
      if (graph) drawLegend(state, shown);
    },
  };

  function drawLegend(state, { scale, heat, marks, ghosts, boxed }) {
    const mark = (name, sign) => h("span", { class: `key ${name}` }, h("span", { class: "swatch", "aria-hidden": "true" }, sign), t(`mark.${name}`));
    if (fold !== null) fold.textContent = t("legend.all");
    replace(keys,
      marks.has("added") ? mark("added", "+") : null, marks.has("removed") ? mark("removed", "−") : null, marks.has("changed") ? mark("changed", "~") : null,
      boxed ? mark("fused", "") : null,
      ghosts ? h("span", { class: "key ghost" }, h("span", { class: "swatch", "aria-hidden": "true" }), t("legend.ghost")) : null,
      scale > 0 ? h("span", { class: "key bars-key" },
        h("span", { class: "bar-pair", "aria-hidden": "true" }, h("i", { class: "read" }), h("i", { class: "write" })), t("legend.bars", { most: bytes(scale) })) : null,
      state.overlay === "none" ? null : h("span", { class: "key heat", id: "overlay-legend" },
        heat.missing ? heat.missing : [h("span", { class: "ramp", "aria-hidden": "true" }), heat.legend, heat.plain ? null : ` 0 … ${heat.said(heat.most)}`]),
      heat.conditions ? h("span", { class: "key", id: "overlay-conditions" }, t("overlay.conditions", { conditions: heat.conditions })) : null);
  }
}
