// The pass strip: every pass in order, grouped by level; what it did in shape, words and colour.

import { code, h, replace, unseen } from "../dom.mjs";
import { t } from "../text.mjs";
import { refusals } from "./events.mjs";

const SHAPES = { changed: "●", nothing: "○", refused: "◆" };

/** "refused" wins over "nothing" only: a pass that changed something changed something. */
export function stateOf(pass) {
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

export function strip({ store, act }) {
  const list = h("div", { role: "listbox", class: "passes" });
  const title = h("h2", null);
  const element = h("nav", { class: "region strip" }, title, list);
  let shown = null;

  function draw(state, changed) {
    if (shown !== state.compile || changed.has("refreshed")) {
      shown = state.compile;
      title.textContent = t("strip.title");
      list.setAttribute("aria-label", t("strip.title"));
      replace(list, groups(state.compile.passes));
    }
    for (const item of list.querySelectorAll("[role=option]")) {
      const now = Number(item.dataset.at) === state.at;
      item.setAttribute("aria-selected", String(now));
      item.tabIndex = now ? 0 : -1;
      if (now) {
        item.scrollIntoView({ block: "nearest" });
        if (list.contains(list.getRootNode().activeElement)) item.focus({ preventScroll: true });
      }
    }
  }

  function groups(passes) {
    const found = [];
    passes.forEach((pass, k) => {
      if (found.at(-1)?.level !== pass.level) found.push({ level: pass.level, items: [] });
      found.at(-1).items.push(item(pass, k));
    });
    return found.map(({ level, items }, k) => h("div", { role: "group", "aria-labelledby": `level-${k}` },
      h("h3", { id: `level-${k}`, class: "level" }, t(`level.${level}`)), items));
  }

  function item(pass, k) {
    const now = stateOf(pass);
    const refused = refusals(pass);
    return h("div", {
      role: "option", id: `pass-${k}`, class: `pass ${now}`, "data-at": k, "aria-selected": "false", tabindex: -1,
      onclick: (event) => { act.goto(k); event.currentTarget.focus({ preventScroll: true }); },
    },
      h("span", { class: "pass-shape", "aria-hidden": "true" }, SHAPES[now]),
      h("span", { class: "pass-name" }, code(pass.name),
        pass.required ? [h("span", { class: "lock", "aria-hidden": "true", title: t("pass.required") }, " 🔒︎"), unseen(` ${t("pass.required")}`)] : null),
      h("span", { class: "pass-state" }, unseen(", "), t(`state.${now}`),
        refused && now === "changed" ? `, ${t("state.refusals", { n: refused })}` : null),
      delta(pass) ? h("span", { class: "pass-delta" }, unseen(", "), delta(pass)) : null);
  }

  return { element, keys: ["compile", "at"], draw };
}
