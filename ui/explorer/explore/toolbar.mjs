// The toolbar: what is compiled, how, at which sizes; what that costs; progress and problems.
//
// Parts of it are drawn apart, so that a slider that is being dragged is never made anew.

import { totalFloor } from "../dims.mjs";
import { h, keepFocus, replace } from "../dom.mjs";
import { byFormula, language, number, t } from "../text.mjs";
import { notice, problem, progress } from "./notices.mjs";
import { options } from "./options.mjs";
import { sizes } from "./sizes.mjs";

const HINT = "explorer.hint";

export function toolbar(context) {
  const { shell, store, act, embedded, sample } = context;
  const back = h("button", { type: "button", id: "models", onclick: () => act.leave?.() });
  const title = h("h2", { id: "model-title", tabindex: -1, translate: "no" });
  const totals = h("dl", { class: "totals" });
  const left = leftPane(context);
  const panel = options(context);
  const row = sizes(context);
  const help = h("button", { type: "button", id: "help", onclick: () => act.help(true) });
  const running = h("div", { class: "toolbar-running" });
  const said = h("div", { class: "toolbar-said" });
  const hint = h("div", { class: "toolbar-hint" });
  const element = h("div", { class: "region toolbar", role: "group" },
    embedded ? null : back, title, row.element, embedded ? null : totals, h("span", { class: "spring" }), running,
    h("div", { class: "toolbar-end" }, left.element, embedded ? null : [panel.element, help]), said, hint);

  const draw = (state, changed) => keepFocus(element, () => title, () => show(state, changed));

  function show(state, changed) {
    const all = changed.size === 0 || changed.has("refreshed");
    const any = (...keys) => all || keys.some((key) => changed.has(key));
    if (any("asked")) {
      element.setAttribute("aria-label", t("toolbar.title"));
      back.textContent = t("toolbar.models");
      help.textContent = "?";
      help.setAttribute("aria-label", t("toolbar.help"));
      const found = sample();
      title.textContent = state.asked === null ? "" : found ? found.title[language()] : state.asked.name || shortly(state.asked.model);
      title.translate = Boolean(found);
    }
    if (any("job")) replace(running, state.job ? progress({ ...state.job, cancel: stop }) : null);
    if (changed.has("error") && state.error?.cancelled) shell.announce(t("compile.stopped"));
    if (any("error")) {
      replace(said, state.error === null ? null
        : state.error.cancelled ? notice(t("compile.stopped"), { dismiss: () => act.fail(null), more: again() })
          : problem(state.error, { dismiss: () => act.fail(null), more: further(state.error) }));
    }
    if (any("compile", "bound", "asked")) showTotals(state);
    if (any("compile", "at")) showHint(state);
    left.draw(state, changed);
    panel.draw(state, changed);
    row.draw(state, changed);
  }

  /** Stopping takes a moment: it is said at once that the job is about to. */
  function stop() {
    const { job } = store.get();
    store.set({ job: { ...job, stopping: true } });
    shell.announce(t("job.stopping"));
    job.cancel();
  }

  /** A compile that failed on the way while an earlier result is shown: the way to see how far. */
  function further(error) {
    if (error.partial && store.get().compile?.whole && act.showPartial) {
      return h("button", { type: "button", onclick: () => act.showPartial(error) }, t("problem.partial"));
    }
    return error.message?.startsWith("job.") ? again() : null;   // the worker is at fault, not what was asked
  }

  const again = () => h("button", { type: "button", id: "compile", onclick: () => act.again({}) }, t("compile.again"));

  // ---- what it costs ---------------------------------------------------------------------------

  function showTotals({ compile, bound }) {
    const { launches, kernels, floors } = compile?.trace ?? {};
    if (!compile?.whole || !launches) { replace(totals); return; }
    const at = compile.sizes(bound, sample());
    const pair = (message, of, show) => h("div", null,
      h("dt", null, t(message)), h("dd", null, show(of.op_by_op, of.fused)));
    const both = (show) => (before, after) => t("totals.pair", { before: show(before), after: show(after) });
    const found = [floors.op_by_op, floors.fused].map((steps) => totalFloor(steps, at));
    const unknown = found.every((floor) => floor.bytes === null);
    replace(totals,
      pair("totals.launches", launches, both(number)),
      pair("totals.kernels", kernels, both(number)),
      pair("totals.floor", { op_by_op: found[0], fused: found[1] },
        unknown ? () => t("totals.unknown") : both((floor) => byFormula(floor.bytes, floor.exact))));
    const most = !unknown && found.some((floor) => !floor.exact);
    totals.title = [t("totals.hint"), unknown ? t("totals.unknown.hint") : most ? t("totals.most") : null].filter(Boolean).join(" ");
  }

  // ---- where a newcomer stands -----------------------------------------------------------------

  function showHint({ compile, at }) {
    if (embedded || !compile?.whole || readHint()) { replace(hint); return; }
    const pass = compile.passes[at];
    replace(hint,
      h("p", null,
        pass.name === "fuse" && pass.changed && compile.trace.launches?.fused < compile.trace.launches?.op_by_op
          ? [t("hint.fuse", { before: pass.before, after: pass.after }), " "] : null,
        t("hint.keys")),
      h("button", { type: "button", id: "hint-close", onclick: () => {
        try { localStorage.setItem(HINT, "seen"); } catch { /* shown again next time */ }
        hint.dataset.seen = "yes";
        replace(hint);
        title.focus({ preventScroll: true });
      } }, t("hint.close")));
  }

  function readHint() {
    if (hint.dataset.seen) return true;
    try { return localStorage.getItem(HINT) === "seen"; } catch { return false; }
  }

  return {
    element, draw, always: true,
    keys: ["asked", "job", "error", "compile", "left", "leftAsked", "bound", "at"],
    destroy: () => panel.destroy(),
  };
}

/** The digest of an upload, short. */
const shortly = (model) => (model.length > 40 ? `${model.slice(0, 19)}…` : model);

/** What stands in the left pane: the state before the pass, or another compile. */
function leftPane({ store, act }) {
  const choose = h("select", { id: "left-pane", onchange: () => {
    const other = choose.value === "other";
    form.hidden = !other;
    if (other) field.focus();
    else {
      act.fail(null);   // of the pipeline that stood there
      act.left(choose.value);
    }
  } });
  const field = h("input", { type: "text", id: "left-pipeline", spellcheck: "false", autocomplete: "off", translate: "no" });
  const go = h("button", { type: "submit" });
  const form = h("form", { class: "left-form", hidden: true, onsubmit: (event) => {
    event.preventDefault();
    if (field.value.trim()) act.left(field.value.trim());
  } }, field, go);
  const element = h("div", { class: "left-pane" }, choose, form);
  const CHOICES = ["", "op_by_op", "other"];

  function draw(state, changed) {
    if (changed.size && !["asked", "leftAsked", "left", "job", "compile", "refreshed"].some((key) => changed.has(key))) return;
    element.hidden = state.asked === null;
    choose.setAttribute("aria-label", t("left.title"));
    go.textContent = t("left.compile");
    field.setAttribute("aria-label", t("left.pipeline"));
    field.placeholder = "default,-cse";
    const now = CHOICES.slice(0, 2).includes(state.leftAsked) ? state.leftAsked : "other";
    const open = !form.hidden && choose.value === "other" && now === "";
    replace(choose, CHOICES.map((value) => h("option", { value, selected: value === (open ? "other" : now) },
      t(`left.${value || "before"}`))));
    choose.disabled = go.disabled = !state.compile?.whole;
    if (!open) form.hidden = now !== "other";
    if (now === "other" && field.value === "") field.value = state.leftAsked;
  }

  return { element, draw };
}
