// How a model is compiled: target, numerics, fixed sizes, pipeline. A panel that opens below its
// button; Escape closes it and gives the focus back.

import { code, h, replace } from "../dom.mjs";
import { t } from "../text.mjs";
import { usual } from "./usual.mjs";

const NUMERICS = ["default", "strict"];
const KEYS = ["target", "numerics", "pin", "pipeline"];

/** What this machine can compile for, asked once: `[{name, available, reason, message}]`. */
let known = null;
function targets(shell) {
  known ??= shell.run({ kind: "targets" }).done.then((event) => event.targets);
  known.catch(() => { known = null; });
  return known;
}

export function options({ shell, store, act, sample }) {
  const button = h("button", { type: "button", id: "options", "aria-expanded": "false", "aria-controls": "options-panel", onclick: () => toggle() });
  const panel = h("form", { id: "options-panel", class: "options-panel", hidden: true, onsubmit: (event) => { event.preventDefault(); compile(); } });
  const element = h("div", { class: "options" }, button, panel);
  let draft = {}, rows = null, arrived = null;

  panel.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    event.preventDefault();
    event.stopPropagation();
    toggle(false);
    button.focus();
  });
  const away = (event) => { if (!panel.hidden && !event.composedPath().includes(element)) toggle(false); };
  document.addEventListener("pointerdown", away);

  function toggle(open = panel.hidden) {
    panel.hidden = !open;
    button.setAttribute("aria-expanded", String(open));
    if (!open) return;
    fill();
    panel.querySelector("select, input")?.focus();
    if (rows === null) targets(shell).then((found) => { rows = found; if (!panel.hidden) fill(); }, () => {});
  }

  function compile() {
    toggle(false);
    button.focus();
    act.again(draft);
  }

  const value = (key) => draft[key] ?? store.get().asked?.[key] ?? "";
  const set = (key, text) => { draft = { ...draft, [key]: text }; };

  function fill() {
    const names = Object.entries(sample()?.sizes ?? {}).map(([name, size]) => `${name}=${size}`).join(",") || "batch=32";
    const field = (id, label, hint, control) => h("div", { class: "field" },
      h("label", { for: id }, label), control, h("p", { class: "hint", id: `${id}-hint` }, hint));
    const text = (id, key) => h("input", {
      type: "text", id, value: value(key), spellcheck: "false", autocomplete: "off", translate: "no",
      "aria-describedby": `${id}-hint`, oninput: (event) => set(key, event.target.value),
    });
    const area = h("textarea", {
      id: "option-pipeline", rows: 3, spellcheck: "false", translate: "no", "aria-describedby": "option-pipeline-hint",
      oninput: (event) => set("pipeline", event.target.value),
      onkeydown: (event) => { if (event.key === "Enter") { event.preventDefault(); compile(); } },
    });
    area.value = value("pipeline");
    const choice = rows ?? [{ name: "cpu", available: true, reason: "" }];
    const here = choice.some((row) => row.name === value("target")) ? choice : [...choice, { name: value("target"), available: true, reason: "" }];
    const missing = here.filter((row) => !row.available);
    replace(panel,
      field("option-target", t("options.target"),
        [rows === null ? t("options.target.asking")
          : missing.length ? missing.map((row) => [t("options.target.missing", { name: t(`options.target.${row.name.replace(":", "-")}`) }), " ", row.message ? t(`options.target.${row.message}`) : code(row.reason), " "])
            : t("options.target.all"),
        value("target") === "cuda:ptx" ? ` ${t("options.target.ptx")}` : null],
        h("select", { id: "option-target", "aria-describedby": "option-target-hint",
          onchange: (event) => { set("target", event.target.value); fill(); } },
          here.map(({ name, available }) => h("option", { value: name, selected: value("target") === name, disabled: !available },
            t(`options.target.${name.replace(":", "-")}`))))),
      field("option-numerics", t("options.numerics"), t(`options.numerics.${value("numerics") || "default"}.hint`),
        h("select", { id: "option-numerics", "aria-describedby": "option-numerics-hint",
          onchange: (event) => { set("numerics", event.target.value); fill(); } },
          NUMERICS.map((name) => h("option", { value: name, selected: value("numerics") === name }, t(`options.numerics.${name}`))))),
      field("option-pin", t("options.pin"), t("options.pin.hint", { example: names }), text("option-pin", "pin")),
      field("option-pipeline", t("options.pipeline"), t("options.pipeline.hint", { example: "default,-cse,fuse{max_ops=4}" }), area),
      h("div", { class: "field-buttons" },
        h("button", { type: "submit", class: "primary", id: "options-compile", disabled: store.get().job !== null }, t("options.compile")),
        h("button", { type: "button", onclick: () => {
          draft = { target: "cpu", numerics: "default", pin: "", pipeline: usual(shell, store.get().asked.model) };
          fill();
        } }, t("options.reset"))));
  }

  function draw(state, changed) {
    if (changed.size && !["asked", "job", "compile", "refreshed"].some((key) => changed.has(key))) return;
    if (state.compile?.whole && arrived !== state.compile) {
      arrived = state.compile;
      draft = {};  // kept until a compile succeeds, so that what it stumbled over can be put right
    }
    element.hidden = state.asked === null;
    const other = state.asked === null ? [] : KEYS.filter((key) => state.asked[key] !== { target: "cpu", numerics: "default", pin: "", pipeline: usual(shell, state.asked.model) }[key]);
    button.textContent = other.length ? t("options.title.changed", { n: other.length }) : t("options.title");
    panel.setAttribute("aria-label", t("options.title"));
    if (!panel.hidden) fill();
  }

  return { element, draw, destroy: () => document.removeEventListener("pointerdown", away) };
}
