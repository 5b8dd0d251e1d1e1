// The Measure page: reference, op by op and fused in one run; the effect of each pass; exports.

import { own } from "../dims.mjs";
import { h, keepFocus, replace, unseen } from "../dom.mjs";
import { download, fileName } from "../files.mjs";
import { language, t } from "../text.mjs";
import { openCompile } from "../explore/compile.mjs";
import { settled, usual } from "../explore/usual.mjs";
import { phrase } from "../job.mjs";
import { notice, problem, progress } from "../explore/notices.mjs";
import { readSizes } from "../explore/page.mjs";
import { conditionCard } from "./conditions.mjs";
import { effectsTable, effectsView, measured } from "./effects.mjs";
import { csv, html, json, markdown } from "./exports.mjs";
import { headline, reportView } from "./report.mjs";
import { news } from "./spoken.mjs";
import { LARGEST, chosenSizes, printSizes, readSubject, symbolsOfSample } from "./subject.mjs";

export function create(shell) {
  const element = h("main", { class: "measure-page" });
  const bar = h("div", { class: "measure-bar" });
  const status = h("div", { class: "measure-status" });
  const left = h("div", { class: "measure-main" });
  const side = h("div", { class: "measure-side" });
  element.append(h("div", { class: "measure-column" }, bar, status, left), side);
  // `sizes` are texts by symbol as the reader gave them; `subject` is `{name, symbols}`, null until known
  const state = { asked: null, subject: null, sizes: {}, job: null, error: null, report: null, effects: null };
  let job = null;

  const sample = () => shell.samples.find((s) => s.name === state.asked?.model);

  // ---- what is measured ------------------------------------------------------------------------

  function take(params) {
    const model = params.model || state.asked?.model || shell.samples[0].name;
    const asked = {
      model, name: params.name ?? "", target: params.target === "cuda" ? "cuda" : "cpu",
      numerics: params.numerics || "default", pin: params.pin || "", pipeline: params.passes || usual(shell, model),
    };
    asked.pipeline = settled(shell, asked);
    const same = state.asked !== null && Object.keys(asked).every((k) => asked[k] === state.asked[k]);
    if (!same) {
      job?.cancel();
      Object.assign(state, { asked, subject: null, report: null, effects: null, error: null });
    }
    state.sizes = Object.fromEntries(Object.entries(readSizes(params.bind)).map(([k, v]) => [k, String(v)]));
    if (state.subject === null) know();
  }

  /** A sample says its name and sizes itself; those of a file are asked for. */
  async function know() {
    const { asked } = state;
    if (sample()) { state.subject = { name: "", symbols: symbolsOfSample(sample(), asked.pin) }; return; }
    const patch = await readSubject(shell, asked).then((subject) => ({ subject }), (error) => ({ error }));
    if (state.asked !== asked) return;
    Object.assign(state, patch);
    draw();
  }

  async function ask(kind) {
    if (state.job !== null) return;
    const { sizes: wanted, wrong } = chosenSizes(state.subject?.symbols ?? [], state.sizes);
    state.error = wrong ?? null;
    if (wrong) { drawStatus(); return; }
    const { asked } = state;
    const isNews = news();
    state.job = { kind, text: t("job.asked"), done: 0, of: 0, cancel: stop };
    shell.announce(t(kind === "measure" ? "measure.started" : "effects.started"));
    draw();
    const mine = shell.run({ kind, ...asked, sizes: wanted, ...(kind === "effects" ? { background: true } : {}) }, (event) => {
      if (job !== mine) return;
      const [text, done = 0, of = 0] = phrase(event);
      state.job = { ...state.job, text, done, of };
      if (isNews(event)) shell.announce(text);
      drawStatus();
    });
    job = mine;
    const result = await mine.done.catch((error) => ({ error: error.message ? error : { message: "job.gone", parameters: {} } }));
    if (job !== mine) return;
    job = null;
    state.job = null;
    if (state.asked !== asked) { draw(); return; }
    if (result.error) {
      state.error = { ...result.error, kind };
      if (result.error.cancelled) shell.announce(stopped(kind));
    } else if (kind === "measure") {
      state.report = result.report;
      shell.report = { asked, report: result.report };
      shell.announce(`${t("measure.done")} ${headline(result.report)}`);
    } else {
      state.effects = result.effects;
      shell.announce(t("effects.done", { n: measured(result.effects).length }));
    }
    const waited = held() === null || held().id === "ask-effects" || status.contains(held());
    draw();
    if (kind === "effects" && !result.error && waited) toEffects();
  }

  const stopped = (kind) => t(kind === "measure" ? "measure.stopped" : "effects.stopped");

  /** Stopping takes a moment: it is said at once that the job is about to. */
  function stop() {
    state.job = { ...state.job, stopping: true };
    shell.announce(t("job.stopping"));
    drawStatus();
    job.cancel();
  }

  /** What has the focus; null where nothing has it. */
  const held = () => element.getRootNode().activeElement ?? null;

  /** The effects stand below all else: who waited for them is brought there. */
  function toEffects() {
    const heading = left.querySelector("#part-effects");
    heading?.focus({ preventScroll: true });
    heading?.scrollIntoView({ block: "start" });
  }

  // ---- drawing ---------------------------------------------------------------------------------

  function draw() {
    element.setAttribute("aria-label", t("nav.measure"));
    drawBar();
    drawStatus();
    drawResults();
    replace(side, state.report ? conditionCard(state.report.conditions) : null, state.report ? exports() : null);
  }

  /** What is shown stays while its figures do, with what the reader opened and where the focus is. */
  let drawn = [];
  function drawResults() {
    const now = [state.report, state.effects, language()];
    if (drawn.length && now.every((value, k) => value === drawn[k])) return;
    drawn = now;
    keepFocus(left, () => left.querySelector("h3"), () => replace(left,
      state.report ? reportView(state.report) : h("p", { class: "hint" }, t("measure.none")),
      state.effects ? effectsView(state.effects, effectsExports()) : null));
  }

  function drawStatus() {
    keepFocus(status, () => bar.querySelector("#ask-measure"), () => replace(status,
      state.job ? progress(state.job) : null,
      state.error === null ? null
        : state.error.cancelled ? notice(stopped(state.error.kind), { dismiss: () => { state.error = null; drawStatus(); } })
          : problem(state.error)));
  }

  /** What was compiled for is there to read only: the CPU is measured in its place, and that is said. */
  const instead = () => (shell.address.get().target === "cuda:ptx" ? t("measure.ptx") : "");

  function drawBar() {
    const { model, pipeline, numerics, target } = state.asked;
    const options = [...shell.samples.map((s) => [s.name, s.title[language()]]), ...(sample() ? [] : [[model, fileTitle()]])];
    const busy = String(state.job !== null);
    replace(bar,
      h("h2", null, t("measure.title")),
      h("p", { class: "hint" }, t("measure.about")),
      h("div", { class: "fields" },
        h("div", { class: "field" }, h("label", { for: "measure-model" }, t("choose.model")),
          h("select", { id: "measure-model", onchange: (event) => {
            shell.address.set({ model: event.target.value, passes: "", pin: "", bind: "", at: "", sel: "" });
            take({ model: event.target.value });
            draw();
          } }, options.map(([value, text]) => h("option", { value, selected: value === model }, text)))),
        (state.subject?.symbols ?? []).map(({ name, usual: size, most }) => h("div", { class: "field" },
          h("label", { for: `measure-size-${name}` }, t("measure.size", { name })),
          h("input", { type: "text", inputmode: "numeric", id: `measure-size-${name}`, value: own(state.sizes, name) ?? String(size), autocomplete: "off",
            "aria-describedby": `measure-size-${name}-hint`,
            oninput: (event) => {
              state.sizes = { ...state.sizes, [name]: event.target.value };
              shell.address.set({ bind: printSizes(state.sizes) });
            },
            onkeydown: (event) => { if (event.key === "Enter") ask("measure"); } }),
          h("p", { class: "hint", id: `measure-size-${name}-hint` }, t(most < LARGEST ? "measure.size.hint" : "measure.size.usual", { size, maximum: most })))),
        state.subject === null && !state.error ? h("p", { class: "hint" }, t("measure.reading")) : null),
      instead() ? h("p", { class: "instead", role: "note" }, h("span", { "aria-hidden": "true" }, "◆ "), instead()) : null,
      h("p", { class: "hint" }, t("measure.how", { pipeline, numerics: t(`options.numerics.${numerics}`), target: t(`options.target.${target}`) })),
      h("div", { class: "actions" },
        h("button", { class: "primary", id: "ask-measure", type: "button", "aria-disabled": busy, onclick: () => ask("measure") }, t("measure.start")),
        h("button", { id: "ask-effects", type: "button", "aria-disabled": busy, disabled: target !== "cpu", onclick: () => ask("effects") }, t("effects.start"))));
  }

  /** What the file was called, where the server still knows; else its digest. */
  function fileTitle() {
    const { model, name } = state.asked;
    return state.subject?.name || name || t("measure.file", { digest: model.replace("sha256:", "").slice(0, 12) });
  }

  const button = (id, text, act, of = "") => h("button", { type: "button", id: `export-${id}`, onclick: act }, text, of ? unseen(` (${of})`) : null);

  function effectsExports() {
    const name = `${fileName(state.effects.model)}.effects`;
    const shown = () => markdown(state.effects, t("effects.hint"), [effectsTable(state.effects)]);
    return h("div", { class: "actions", role: "group", "aria-label": t("effects.export") },
      h("span", { "aria-hidden": "true" }, t("effects.export")),
      button("effects-markdown", "Markdown", () => download(`${name}.md`, "text/markdown", shown()), t("effects.title")),
      button("effects-csv", "CSV", () => download(`${name}.csv`, "text/csv", csv(state.effects)), t("effects.title")),
      button("effects-json", "JSON", () => download(`${name}.json`, "application/json", json(state.effects)), t("effects.title")));
  }

  function exports() {
    const name = fileName(state.report.model);
    return h("section", { class: "exports", "aria-labelledby": "exports-title" },
      h("h3", { id: "exports-title" }, t("export.title")),
      h("div", { class: "actions" },
        button("markdown", "Markdown", () => download(`${name}.md`, "text/markdown", markdown(state.report))),
        button("csv", "CSV", () => download(`${name}.csv`, "text/csv", csv(state.report))),
        button("json", "JSON", () => download(`${name}.json`, "application/json", json(state.report))),
        button("html", t("export.html"), saveHtml)),
      h("p", { class: "hint" }, t("export.html.hint")));
  }

  /** The compile behind the report, asked for again where this page does not hold it. */
  async function saveHtml() {
    try {
      const event = await shell.run({ kind: "compile", ...state.asked }).done;
      const compile = await openCompile(event, state.asked);
      download(`${fileName(state.report.model)}.html`, "text/html", await html(compile, state.report));
    } catch (error) {
      state.error = error.error ?? error;
      drawStatus();
    }
  }

  return {
    element,
    show(params) {
      take({ ...shell.address.get(), ...params });
      shell.address.set({ model: state.asked.model, bind: printSizes(state.sizes) });
      draw();
      if (instead()) shell.announce(instead());
    },
    hide() {},
    refresh() { if (state.asked !== null) draw(); },
  };
}
