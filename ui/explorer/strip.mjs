// The pass strip: every pass in order, what it did in shape, words and colour.

import { code, h, unseen } from "./dom.mjs";
import { known, t } from "./text.mjs";

/** "refused" wins over "nothing" only: a pass that changed something changed something. */
export function stateOf(pass) {
  if (pass.changed) return "changed";
  return pass.events.some((e) => e.edits === 0) ? "refused" : "nothing";
}

const SHAPES = { changed: "●", nothing: "○", refused: "◆" };

/** "ops 6 → 1", in the unit of the pass; empty where the count stayed. */
export function delta(pass) {
  const unit = t(`unit.${pass.unit}`);
  if (!pass.changed) return "";
  return pass.before === pass.after
    ? t("delta.same", { unit, n: pass.after })
    : t("delta.changed", { unit, before: pass.before, after: pass.after });
}

/** What the live region says of a pass. */
export function announce(state) {
  const { passes } = state.result.trace;
  const pass = passes[state.view.at];
  return t("pass.announce", {
    number: state.view.at + 1, of: passes.length, name: pass.name,
    state: t(`state.${stateOf(pass)}`), delta: delta(pass),
  }).replace(/[\s,]+$/, "");
}

export function strip(state, act) {
  const { passes } = state.result.trace;
  return h("nav", { class: "strip", "aria-label": t("strip.title") },
    h("h3", null, t("strip.title")),
    h("p", { class: "hint" }, t("strip.hint")),
    h("ol", { role: "listbox", "aria-label": t("strip.title"), class: "passes" },
      passes.map((pass, k) => item(state, act, pass, k))));
}

function item(state, act, pass, k) {
  const now = stateOf(pass);
  const selected = k === state.view.at;
  const refusals = pass.events.filter((e) => e.edits === 0).length;
  return h("li", {
    role: "option", id: `pass-${k}`, class: `pass ${now}`,
    "aria-selected": String(selected), tabindex: selected ? 0 : -1,
    onclick: () => act.goto(k, true),
  },
    h("span", { class: "pass-shape", "aria-hidden": "true" }, SHAPES[now]),
    h("span", { class: "pass-name" }, `${k + 1} `, code(pass.name),
      pass.required ? [h("span", { "aria-hidden": "true", title: t("pass.required") }, " 🔒︎"),
        unseen(` ${t("pass.required")}`)] : null),
    h("span", { class: "pass-state" }, unseen(", "), t(`state.${now}`),
      refusals && now === "changed" ? `, ${t("state.refusals", { n: refusals })}` : null),
    delta(pass) ? h("span", { class: "pass-delta" }, unseen(", "), delta(pass)) : null);
}

/** What the pass is for, and the sentences of its events. */
export function story(state) {
  const { passes } = state.result.trace;
  const pass = passes[state.view.at];
  const about = `pass.${pass.name}`;
  const shown = pass.events.slice(0, 200);
  return h("section", { class: "story", "aria-labelledby": "story-title" },
    h("h3", { id: "story-title" }, t("story.title", { number: state.view.at + 1, of: passes.length }), " ",
      code(pass.text)),
    known(about) ? h("p", null, t(about)) : null,
    h("p", { class: "hint" }, t(`level.${pass.level}`), " · ", t("story.time", { took_ms: pass.milliseconds })),
    h("h4", null, t("events.title", { n: pass.events.length })),
    shown.length === 0 ? h("p", null, t("events.none"))
      : h("ol", { class: "events", tabindex: 0, "aria-label": t("events.label") }, shown.map(sentence)),
    pass.events.length > shown.length ? h("p", { class: "hint" }, t("events.more", { n: pass.events.length - shown.length })) : null);
}

function sentence(event) {
  const refused = event.edits === 0;
  return h("li", { class: refused ? "event refused" : "event" },
    refused ? h("span", { class: "tag" }, h("span", { "aria-hidden": "true" }, "◆ "), t("event.refused")) : null,
    event.where ? [code(event.where), " "] : null,
    t(event.message, event.parameters));
}
