// The Measure page: reference, op by op and fused in one run; the effect of each pass; exports.

import { code, h, replace } from "../dom.mjs";
import { table } from "../figures.mjs";
import { download, fileName } from "../files.mjs";
import { bytes, duration, language, number, scientific, t, times } from "../text.mjs";
import { openCompile } from "../explore/compile.mjs";
import { phrase, usual } from "../explore/explorer.mjs";
import { problem, progress } from "../explore/notices.mjs";
import { readSizes } from "../explore/page.mjs";
import { conditionCard } from "./conditions.mjs";
import { behind, ratios } from "./charts.mjs";
import { csv, html, json, markdown } from "./exports.mjs";
import { reportView } from "./report.mjs";

export function create(shell) {
  const element = h("main", { class: "measure-page" });
  const bar = h("div", { class: "measure-bar" });
  const status = h("div", { class: "measure-status" });
  const left = h("div", { class: "measure-main" });
  const side = h("div", { class: "measure-side" });
  element.append(h("div", { class: "measure-column" }, bar, status, left), side);
  const state = { asked: null, sizes: {}, job: null, error: null, report: null, effects: null };
  let job = null;

  const sample = () => shell.samples.find((s) => s.name === state.asked?.model);

  // ---- what is measured ------------------------------------------------------------------------

  function take(params) {
    const model = params.model || state.asked?.model || shell.samples[0].name;
    const asked = {
      model, name: params.name ?? "", target: params.target === "cuda" ? "cuda" : "cpu",
      numerics: params.numerics || "default", pin: params.pin || "", pipeline: params.passes || usual(shell, model),
    };
    const same = state.asked !== null && Object.keys(asked).every((k) => asked[k] === state.asked[k]);
    if (!same) Object.assign(state, { asked, sizes: {}, report: null, effects: null, error: null });
    Object.assign(state.sizes, Object.fromEntries(Object.entries(readSizes(params.bind)).map(([k, v]) => [k, String(v)])));
  }

  function sizes() {
    const found = {};
    for (const [name, value] of Object.entries(state.sizes)) {
      if (value.trim() === "") continue;
      const most = sample()?.maximum[name] ?? 2 ** 31;
      if (!/^\d{1,10}$/.test(value.trim()) || Number(value) > most) {
        return { wrong: { message: "request.size.range", parameters: { name, value, low: 0, high: most } } };
      }
      found[name] = Number(value);
    }
    return { sizes: { ...sample()?.sizes, ...found } };
  }

  async function ask(kind) {
    const { sizes: wanted, wrong } = sizes();
    state.error = wrong ?? null;
    if (wrong || state.job !== null) { drawStatus(); return; }
    state.job = { kind, text: t("job.asked"), done: 0, of: 0, cancel: () => job.cancel() };
    draw();
    job = shell.run({ kind, ...state.asked, sizes: wanted, ...(kind === "effects" ? { background: true } : {}) }, (event) => {
      const [text, done = 0, of = 0] = phrase(event);
      state.job = { ...state.job, text, done, of };
      drawStatus();
    });
    try {
      const event = await job.done;
      if (kind === "measure") {
        state.report = event.report;
        shell.report = { asked: state.asked, report: event.report };
      } else state.effects = event.effects;
      shell.announce(t("measure.done"));
    } catch (error) {
      state.error = error.message ? error : { message: "job.gone", parameters: {} };
    }
    state.job = null;
    draw();
    element.querySelector(`#ask-${kind}`)?.focus({ preventScroll: true });
  }

  // ---- drawing ---------------------------------------------------------------------------------

  function draw() {
    element.setAttribute("aria-label", t("nav.measure"));
    drawBar();
    drawStatus();
    replace(left, state.report ? reportView(state.report) : h("p", { class: "hint" }, t("measure.none")),
      state.effects ? effectsView(state.effects) : null);
    replace(side, state.report ? conditionCard(state.report.conditions) : null, state.report ? exports() : null);
  }

  function drawStatus() {
    replace(status, state.job ? progress(state.job) : null, state.error ? problem(state.error) : null);
  }

  function drawBar() {
    const { model, pipeline, numerics, target, name } = state.asked;
    const options = [...shell.samples.map((s) => [s.name, s.title[language()]]),
      ...(sample() ? [] : [[model, name || model.slice(0, 20)]])];
    const busy = state.job !== null;
    replace(bar,
      h("h2", null, t("measure.title")),
      h("p", { class: "hint" }, t("measure.about")),
      h("div", { class: "fields" },
        h("div", { class: "field" }, h("label", { for: "measure-model" }, t("choose.model")),
          h("select", { id: "measure-model", onchange: (event) => {
            shell.address.set({ model: event.target.value, passes: "", pin: "", bind: "" });
            take({ model: event.target.value });
            draw();
          } }, options.map(([value, text]) => h("option", { value, selected: value === model }, text)))),
        Object.entries(sample()?.sizes ?? {}).map(([key, usually]) => h("div", { class: "field" },
          h("label", { for: `size-${key}` }, t("measure.size", { name: key })),
          h("input", { type: "text", inputmode: "numeric", id: `size-${key}`, value: state.sizes[key] ?? String(usually), autocomplete: "off",
            "aria-describedby": `size-${key}-hint`,
            oninput: (event) => { state.sizes[key] = event.target.value; },
            onkeydown: (event) => { if (event.key === "Enter") ask("measure"); } }),
          h("p", { class: "hint", id: `size-${key}-hint` }, t("measure.size.hint", { size: usually, maximum: sample().maximum[key] ?? 2 ** 31 }))))),
      h("p", { class: "hint" }, t("measure.how", { pipeline, numerics: t(`options.numerics.${numerics}`), target })),
      h("div", { class: "actions" },
        h("button", { class: "primary", id: "ask-measure", type: "button", disabled: busy, onclick: () => ask("measure") }, t("measure.start")),
        h("button", { id: "ask-effects", type: "button", disabled: busy || target !== "cpu", onclick: () => ask("effects") }, t("effects.start"))));
  }

  function exports() {
    const name = fileName(state.report.model);
    const button = (id, text, act) => h("button", { type: "button", id: `export-${id}`, onclick: act }, text);
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

  function effectsView(found) {
    const whole = found.rows.find((row) => row.pass === "");
    const rows = found.rows.filter((row) => row.pass !== "");
    const timed = rows.filter((row) => row.latency);
    const cells = rows.map((row) => (row.latency
      ? [code(row.pass), duration(row.latency.p50), times(row.ratio), number(row.launches), bytes(row.floor), scientific(row.moved?.norm_rel)]
      : [code(row.pass), t("effects.needed"), "", "", "", ""]));
    return h("section", { class: "part", "aria-labelledby": "part-effects" },
      h("h3", { id: "part-effects" }, t("effects.title")),
      h("p", { class: "hint" }, t("effects.hint")),
      timed.length ? ratios(t("effects.title"), timed.map((row) => ({ name: row.pass, ratio: row.ratio, text: t("effects.times", { n: times(row.ratio) }) })))
        : h("p", null, t("effects.none")),
      behind(true, table(t("effects.title"),
        [t("effects.pass"), t("effects.without"), t("effects.ratio"), t("measure.launches"), t("word.floor"), t("effects.moved")],
        [[t("effects.whole"), duration(whole.latency.p50), times(1), number(whole.launches), bytes(whole.floor), ""], ...cells])),
      conditionCard(found.conditions, "effects-conditions"));
  }

  return {
    element,
    show(params) {
      take({ ...shell.address.get(), ...params });
      shell.address.set({ model: state.asked.model });
      draw();
    },
    hide() {},
    refresh() { if (state.asked !== null) draw(); },
  };
}
