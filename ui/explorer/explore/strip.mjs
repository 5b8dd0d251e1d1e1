// The pass strip: every pass in order, grouped by level; what it did in shape, words and colour.
//
// Above it a filter, below it what can be done with the pass that is open: an optional pass can be
// switched off, moved, repeated. That edits the pipeline's text and compiles again; a pipeline that
// the compiler refuses leaves the last result in place.

import { code, h, keepFocus, replace, unseen } from "../dom.mjs";
import { t } from "../text.mjs";
import { refusals } from "./events.mjs";
import * as pipelines from "./pipeline_text.mjs";
import { usual } from "./usual.mjs";

const SHAPES = { changed: "●", nothing: "○", refused: "◆", failed: "✕" };
const FILTERS = ["all", "changed", "refused"];

/** "refused" wins over "nothing" only: a pass that changed something changed something. */
export function stateOf(pass) {
  if (pass.failed) return "failed";
  if (pass.changed) return "changed";
  return refusals(pass) > 0 ? "refused" : "nothing";
}

/** "ops 6 → 1", in the unit of the pass; empty where nothing changed. */
export function delta(pass) {
  if (!pass.changed) return "";
  const unit = t(`unit.${pass.unit}`);
  return pass.before === pass.after
    ? t("delta.same", { unit, n: pass.after })
    : t("delta.changed", { unit, before: pass.before, after: pass.after });
}

/** What the live region says of the place at hand: "pass 7/23, fuse, changed, ops 6 → 1". */
export function announcement({ compile, at, event }) {
  const pass = compile.passes[at];
  const said = t("pass.announce", {
    number: at + 1, of: compile.passes.length, name: pass.name, state: t(`state.${stateOf(pass)}`), delta: delta(pass),
  }).replace(/[\s,]+$/, "");
  return event === null ? said : `${said}, ${t("event.announce", { number: event + 1, of: pass.events.length })}`;
}

/** Whether a pass is listed: by what it did and by a part of its name. */
export function listed(pass, filter, name) {
  const fits = filter === "all" || stateOf(pass) === "failed"
    || (filter === "changed" ? pass.changed : refusals(pass) > 0);
  return fits && pass.name.includes(name.trim().toLowerCase());
}

export function strip({ shell, store, act }) {
  const id = Math.random().toString(36).slice(2, 8);
  const title = h("h2", null);
  const choose = h("select", { onchange: () => { filter = choose.value; fill(); } });
  const find = h("input", { type: "text", spellcheck: "false", autocomplete: "off", translate: "no",
    oninput: () => { name = find.value; fill(); } });
  const list = h("div", { role: "listbox", class: "passes" });
  const none = h("p", { class: "hint strip-none", role: "status" });
  const tools = h("div", { class: "pass-tools", role: "group" });
  const element = h("section", { class: "region strip" }, title,
    h("div", { class: "strip-filter" }, choose, find), list, none, tools);
  let shown = null, filter = "all", name = "", drawn = "";
  let successor = "";   // the switch that takes back what the one that was pressed did

  function draw(state, changed) {
    if (shown !== state.compile || changed.has("refreshed")) {
      shown = state.compile;
      drawn = "";
      title.textContent = t("strip.title");
      element.setAttribute("aria-label", t("strip.title"));
      list.setAttribute("aria-label", t("strip.title"));
      choose.setAttribute("aria-label", t("strip.filter"));
      find.setAttribute("aria-label", t("strip.find"));
      find.placeholder = t("strip.find");
      replace(choose, FILTERS.map((value) => h("option", { value, selected: value === filter }, t(`strip.filter.${value}`))));
      fill();
    }
    mark(state);
    edit(state);
  }

  /** The passes that the filter lets through; what is open is always among them. */
  function fill() {
    const { passes } = shown;
    const at = store.get().at;
    const levels = [];
    let hidden = 0;
    passes.forEach((pass, k) => {
      if (!listed(pass, filter, name) && k !== at) { hidden += 1; return; }
      if (levels.at(-1)?.level !== pass.level) levels.push({ level: pass.level, items: [] });
      levels.at(-1).items.push(item(pass, k));
    });
    replace(list, levels.map(({ level, items }, k) => h("div", { role: "group", "aria-labelledby": `level-${id}-${k}` },
      h("div", { class: "level", id: `level-${id}-${k}`, role: "presentation" }, t(`level.${level}`)), items)));
    none.textContent = hidden ? t("strip.hidden", { n: hidden }) : "";
    mark(store.get());
  }

  function mark(state) {
    const focused = list.contains(list.getRootNode().activeElement);
    let found = false;
    for (const option of list.querySelectorAll("[role=option]")) {
      const now = Number(option.dataset.at) === state.at;
      found ||= now;
      option.setAttribute("aria-selected", String(now));
      option.tabIndex = now ? 0 : -1;
      if (!now) continue;
      const top = option.offsetTop - list.clientHeight / 3;
      if (option.offsetTop < list.scrollTop || option.offsetTop + option.offsetHeight > list.scrollTop + list.clientHeight) list.scrollTop = top;
      if (focused) option.focus({ preventScroll: true });
    }
    if (!found && state.at < shown.passes.length) fill();
  }

  function item(pass, k) {
    const now = stateOf(pass);
    const refused = refusals(pass);
    return h("div", {
      role: "option", id: `pass-${id}-${k}`, class: `pass ${now}`, "data-at": k, "aria-selected": "false", tabindex: -1,
      onclick: (event) => { event.currentTarget.focus({ preventScroll: true }); act.goto(k); },
    },
      h("span", { class: "pass-shape", "aria-hidden": "true" }, SHAPES[now]),
      h("span", { class: "pass-name" }, code(pass.name),
        pass.required ? [h("span", { class: "lock", "aria-hidden": "true", title: t("pass.required") }, " 🔒︎"), unseen(` ${t("pass.required")}`)] : null),
      h("span", { class: "pass-state" }, unseen(", "), t(`state.${now}`),
        refused && now === "changed" ? `, ${t("state.refusals", { n: refused })}` : null),
      delta(pass) ? h("span", { class: "pass-delta" }, unseen(", "), delta(pass)) : null,
      pass.name === "fuse" && fuseIsOff() ? h("span", { class: "pass-off" }, unseen(", "), t("passes.fuse.off")) : null);
  }

  function fuseIsOff() {
    const asked = readOr(shown.options.pipeline || "default");
    return asked !== null && pipelines.isOff(asked, "fuse");
  }

  // ---- what can be done with the pass that is open ---------------------------------------------

  function edit(state) {
    const { compile, at, job } = state;
    const pass = compile.passes[at];
    const now = `${at} ${job !== null} ${compile.options.pipeline} ${compile.digest}`;
    if (now === drawn) return;
    drawn = now;
    tools.setAttribute("aria-label", t("passes.tools", { name: pass.name }));
    const root = tools.getRootNode();
    const held = tools.contains(root.activeElement);
    keepFocus(tools, () => list.querySelector("[aria-selected=true]"), () => {
      replace(tools, compile.whole || compile.passes.at(-1).failed ? actions(pass, at, compile, job !== null) : null);
    });
    if (job !== null || !successor) return;
    if (held) root.getElementById?.(successor)?.focus({ preventScroll: true });
    successor = "";
  }

  /**
   * Items of the pipeline in full stand beside the passes of the trace. What is shown is what can be
   * changed: while a compile runs the same controls stay, held, so that the focus stays too.
   */
  function actions(pass, at, compile, busy) {
    const { model, pipeline: text } = compile.options;
    const short = readOr(text);
    const full = readOr(compile.trace.pipeline);
    if (short === null || full === null) return null;
    const again = (pipeline, to = null) => act.again({ pipeline: pipelines.print(pipeline) }, to);
    const turn = (name, on) => {
      const fuse = name === "fuse";
      successor = on ? "passes-off" : fuse ? "passes-on" : `on-${name}`;
      // A pass that goes leaves its place to the next one; one that comes is opened.
      const before = compile.passes.slice(0, at).filter((p) => p.name === name).length;
      again(on ? pipelines.switchOn(short, name) : pipelines.switchOff(short, name),
        on ? { pass: name } : fuse ? null : { at: at - before });
    };
    // Not `disabled`, which would lose the focus to the page while a compile runs.
    const held = (able, doing) => ({ "aria-disabled": busy || !able ? "true" : null, onclick: () => { if (!busy && able) doing(); } });
    const button = (message, doing, able = true) => h("button", {
      type: "button", id: `${message.replace(".", "-")}`, ...held(able, doing),
    }, t(message));
    const count = compile.passes.length;
    const many = compile.passes.filter((p) => p.name === pass.name).length > 1;
    const off = dropped(short);
    const fuseOff = pass.name === "fuse" && pipelines.isOff(short, "fuse");
    const optional = !pass.required || pass.name === "fuse";
    return [
      h("p", { class: "pass-tools-name" }, code(pass.name), pass.required ? [" ", h("span", { class: "hint" }, t("passes.locked"))] : null),
      optional ? h("div", { class: "pass-buttons" },
        fuseOff ? button("passes.on", () => turn("fuse", true))
          : button("passes.off", () => turn(pass.name, false)),
        many ? button("passes.one", () => again(pipelines.removeAt(full, at))) : null,
        button("passes.up", () => again(pipelines.moveTo(full, at, at - 1), { at: at - 1 }), at > 0),
        button("passes.down", () => again(pipelines.moveTo(full, at, at + 1), { at: at + 1 }), at < count - 1),
        button("passes.repeat", () => again(pipelines.repeatAt(full, at), { at: at + 1 }))) : null,
      off.length ? h("div", { class: "pass-buttons" }, h("span", { class: "hint" }, t("passes.dropped")),
        off.map((name) => h("button", {
          type: "button", id: `on-${name}`, "aria-label": t("passes.on.name", { name }),
          ...held(true, () => turn(name, true)),
        }, code(name), " ", h("span", { "aria-hidden": "true" }, "↺")))) : null,
      text !== usual(shell, model) ? button("passes.usual", () => act.again({ pipeline: usual(shell, model) })) : null,
    ];
  }

  return { element, keys: ["compile", "at", "job"], draw };
}

/** Names that a text switches off behind its base. */
function dropped({ items }) {
  return [...new Set(items.filter((item) => item.dropped).map((item) => item.name))];
}

function readOr(text) {
  try { return pipelines.read(text); } catch { return null; }
}
