// The explorer: one component, kept alive by this module over remounts.
//
// State changes in actions; after each, the regions that depend on it are drawn again. Python hears
// requests only (compile, measure, language) and answers with the token of a job.

import { blob, Failure } from "./blobs.mjs";
import { chooser } from "./chooser.mjs";
import { dock } from "./dock.mjs";
import { code, h, replace } from "./dom.mjs";
import { cancel, follow } from "./job.mjs";
import { readSizes } from "./measure.mjs";
import { panes } from "./panes.mjs";
import { announce, strip, story } from "./strip.mjs";
import { known, language, speak, t } from "./text.mjs";

const BASE = new URL("../", import.meta.url);

const state = {
  view: { model: "", numerics: "default", pipeline: "", pin: "", at: 0, tab: "kernels" },
  samples: [], upload: null, uploading: "", uploadLimit: 0,
  job: null, result: null, report: null, error: null,
  sizes: {}, kernel: 0, listing: "source", onlyChanges: false, optionsOpen: false,
};

const live = h("p", { class: "unseen", role: "status", "aria-live": "polite" });
const regions = Object.fromEntries(["head", "choose", "title", "strip", "panes", "story", "dock"].map((name) =>
  [name, h("div", { class: `region-${name}` })]));
const result = h("main", { class: "result", hidden: true }, regions.title,
  h("div", { class: "steps" }, regions.strip, h("div", { class: "stage" }, regions.story, regions.panes)),
  regions.dock);
const root = h("div", { class: "explorer" }, regions.head, regions.choose, live, result);
root.addEventListener("keydown", keydown);

let send = () => {};
let shownLanguage = "";
let answered = "";
let stopListening = () => {};
let started = null;

/** Streamlit calls this at the first mount, at each remount, and when data or theme changed. */
export function mount({ data, parentElement, setTriggerValue }) {
  send = (request) => setTriggerValue("request", request);
  parentElement.querySelector(".explorer-host").append(root);
  theme(parentElement.querySelector(".explorer-host"));
  state.uploadLimit = data.uploadLimit;
  started ??= begin(data);
  started.then(async () => {
    if (data.language !== shownLanguage) {
      await speak(data.language, BASE);
      shownLanguage = data.language;
      document.documentElement.lang = data.language;
      drawAll();
      writeAddress();
    }
    hearAnswer(data.answer);
  });
  return () => {};
}

/** The first time: catalogue, samples, and what the address asks for. */
async function begin(data) {
  const [samples] = await Promise.all([
    fetch(new URL("samples.json", BASE)).then((answer) => answer.json()),
    speak(data.language, BASE),
  ]);
  state.samples = samples;
  Object.assign(state.view, data.view);
  readBinding(data.view.bind);
  const { model, pipeline } = state.view;
  if (model.startsWith("sha256:")) state.upload = { digest: model.slice(7), name: "", size: 0 };
  if (model && !pipeline) state.view.pipeline = defaultPipeline(model);
  if (!model && new URL(window.location.href).searchParams.get("model")) state.error = { message: "request.model" };
  if (model) queueMicrotask(() => started.then(() => ask({ kind: "compile" })));
}

/** Light or dark by the background, so that our own colours follow the theme. */
function theme(host) {
  const probe = h("span", { style: "color: var(--st-background-color, #fff)" });
  host.append(probe);
  const [r, g, b] = getComputedStyle(probe).color.match(/[\d.]+/g).map(Number);
  probe.remove();
  root.dataset.theme = 0.299 * r + 0.587 * g + 0.114 * b < 128 ? "dark" : "light";
}

function defaultPipeline(model) {
  const sample = state.samples.find((s) => s.name === model);
  return sample?.force.length ? `default,partition-fallback{force=[${sample.force.join(",")}]}` : "default";
}

// ---- drawing -------------------------------------------------------------------------------------

function drawAll() {
  draw("head", "choose");
  drawResult();
}

function drawResult() {
  result.hidden = state.result === null;
  if (state.result !== null) draw("title", "strip", "story", "panes", "dock");
}

const DRAWN = {
  head: () => header(),
  choose: () => chooser(state, act),
  title: () => title(),
  strip: () => strip(state, act),
  story: () => story(state),
  panes: () => panes(state, act),
  dock: () => dock(state, act),
};

function draw(...names) {
  for (const name of names) replace(regions[name], DRAWN[name]());
}

function header() {
  const choice = (value, text) => h("button", {
    type: "button", id: `language-${value}`, lang: value, "aria-pressed": String(language() === value),
    onclick: () => send({ kind: "language", language: value, nonce: nonce() }),
  }, text);
  return h("header", { class: "head" },
    h("div", null, h("h1", null, t("page.title")), h("p", { class: "hint" }, t("page.about"))),
    h("div", { class: "languages", role: "group", "aria-label": t("page.language") },
      choice("vi", "Tiếng Việt"), choice("en", "English")));
}

/** Scroll the strip, not the page, to the pass at hand. */
function showPass() {
  const item = root.querySelector(`#pass-${state.view.at}`);
  const list = item?.parentElement;
  if (!item) return;
  if (item.offsetTop < list.scrollTop) list.scrollTop = item.offsetTop;
  const low = item.offsetTop + item.offsetHeight;
  if (low > list.scrollTop + list.clientHeight) list.scrollTop = low - list.clientHeight;
}

/** What the result below is of: the choice above may have moved on. */
function title() {
  const { model, name, numerics, pipeline, pin } = state.result.options;
  const sample = state.samples.find((s) => s.name === model);
  return h("div", null,
    h("h2", { id: "result-title", tabindex: -1 }, t("result.title"), " ",
      sample ? sample.title[language()] : code(name || model)),
    h("p", { class: "hint" }, t("result.how", {
      pipeline: pipeline || "default", numerics: t(`options.numerics.${numerics}`), pin: pin || t("result.how.free") })));
}

// ---- what a person does --------------------------------------------------------------------------

const nonce = () => `${Date.now()}-${Math.random()}`;

const act = {
  choose(model) {
    state.view.model = model;
    state.view.pipeline = defaultPipeline(model);
    state.view.pin = "";
    state.error = null;
    draw("choose");
    writeAddress();
  },

  option(key, value, redraw) {
    state.view[key] = value;
    if (redraw) draw("choose");
    writeAddress();
  },

  async upload(file) {
    if (!file) return;
    const fail = (message, parameters) => { state.error = { message, parameters }; };
    state.error = null;
    if (!file.name.toLowerCase().endsWith(".onnx")) fail("upload.kind", { name: file.name });
    else if (file.size > state.uploadLimit) fail("upload.large", { name: file.name, limit_bytes: state.uploadLimit });
    else {
      state.uploading = file.name;
      draw("choose");
      try {
        const at = new URL(`upload?name=${encodeURIComponent(file.name)}`, document.baseURI);
        const answer = await fetch(at, { method: "POST", body: file });
        const body = await answer.json();
        if (!answer.ok) throw new Failure(body.error);
        state.upload = { digest: body.digest, name: body.name, size: body.bytes };
        act.choose(`sha256:${body.digest}`);
      } catch (error) {
        state.error = error.error ?? { message: "upload.failed", parameters: { name: file.name } };
      }
      state.uploading = "";
    }
    draw("choose");
  },

  compile() {
    if (state.job !== null || !state.view.model) return;
    state.error = null;
    ask({ kind: "compile" }, true);
  },

  measure() {
    if (state.job !== null || state.result === null) return;
    const { sizes, wrong } = readSizes(state);
    state.error = wrong ? { of: "measure", message: "request.size.range", parameters: wrong } : null;
    if (wrong) draw("dock");
    else ask({ kind: "measure", ...state.result.options, sizes }, true);
  },

  cancel() {
    if (state.job?.token) cancel(state.job.token);
  },

  size(name, value) {
    state.sizes[name] = value;
    writeAddress();
  },

  goto(at, focus) {
    const { passes } = state.result.trace;
    state.view.at = Math.max(0, Math.min(passes.length - 1, at));
    draw("strip", "story", "panes");
    live.textContent = announce(state);
    showPass();
    if (focus) root.querySelector(`#pass-${state.view.at}`).focus({ preventScroll: true });
    writeAddress();
  },

  tab(tab) {
    state.view.tab = tab;
    draw("dock");
    writeAddress();
  },

  fail(error) {
    state.error = error;
    draw("choose");
  },
};

/** Ask Python for a job. What is compiled is taken down, so that a measurement is of the same.
 * When a person pressed the button, `pressed`, the focus goes on to what the job brings. */
function ask(request, pressed = false) {
  const { model, numerics, pipeline, pin } = state.view;
  const options = { model, numerics, pipeline, pin, name: state.upload && model.startsWith("sha256:") ? state.upload.name : "" };
  const full = { ...options, ...request, nonce: nonce() };
  state.job = { token: "", kind: request.kind, pressed, nonce: full.nonce, options, phase: { text: t("job.asked"), done: 0, of: 0 } };
  send(full);
  progressed();
}

/** Python's answer to a request: the token of a job, or why there is none. */
function hearAnswer(answer) {
  if (!answer || answer.nonce === answered || answer.nonce !== state.job?.nonce) return;
  answered = answer.nonce;
  if (answer.error) {
    finished({ ...answer.error, of: state.job.kind });
    return;
  }
  state.job.token = answer.token;
  stopListening();
  stopListening = follow(answer.token, hear);
}

function hear(event) {
  const job = state.job;
  if (job === null) return;
  if (event.event === "queued") job.phase = { text: t("job.queued", { n: event.position }), done: 0, of: 0 };
  else if (event.event === "started") job.phase = { text: t("job.started"), done: 0, of: 0 };
  else if (event.event === "progress") job.phase = phase(event);
  else if (event.event === "result") { finish(job, event); return; }
  else if (event.event === "cancelled") { finished({ message: "job.cancelled", parameters: {}, of: job.kind }); return; }
  else if (event.event === "error") { finished({ ...event.error, of: job.kind }); return; }
  progressed();
}

function phase({ phase: name, name: what, done, of, changed, before, after }) {
  const message = `progress.${name}`;
  const outcome = name !== "pass" ? "" : t(changed ? "state.changed" : "state.nothing");
  return {
    done, of,
    text: t(known(message) ? message : "progress.other", {
      name: what ?? name, done, of, outcome, before: before ?? 0, after: after ?? 0 }),
  };
}

/** Progress comes often: only its bar and its words change, so that the focus stays. */
function progressed() {
  const region = state.job.kind === "compile" ? regions.choose : regions.dock;
  const bar = region.querySelector("progress");
  if (!bar) {
    draw("choose");
    if (state.result !== null) draw("dock");
  } else {
    const { done, of, text } = state.job.phase;
    if (of > 0) { bar.max = of; bar.value = done; } else bar.removeAttribute("value");
    bar.setAttribute("aria-label", text);
    region.querySelector("#progress-text").textContent = text;
  }
  live.textContent = state.job.phase.text;
}

async function finish(job, event) {
  try {
    if (job.kind === "measure") {
      state.report = event.report;
      live.textContent = t("measure.done");
    } else {
      const trace = await blob(event.trace);
      if (state.result && state.result.model !== job.options.model) state.sizes = {};
      state.result = { model: job.options.model, options: job.options, trace, snapshots: event.snapshots, kernels: event.kernels };
      state.report = null;
      state.kernel = 0;
      state.view.at = Math.min(state.view.at, trace.passes.length - 1);
    }
    finished(null);
  } catch (error) {
    finished({ ...(error.error ?? { message: "blob.gone", parameters: {} }), of: job.kind });
  }
  if (job.kind === "compile" && state.error === null) live.textContent = announce(state);
}

function finished(error) {
  const { kind, pressed } = state.job;
  state.job = null;
  state.error = error;
  draw("choose");
  if (kind === "measure") draw("dock");
  else {
    drawResult();
    showPass();
  }
  if (error) live.textContent = "";
  if (pressed) moveOn(kind, error);
  writeAddress();
}

/** The pressed button was disabled and lost the focus: to the new result, else back to the button. */
function moveOn(kind, error) {
  if (root.getRootNode().activeElement) return;
  const to = root.querySelector(kind === "compile" && !error ? "#result-title" : `#${kind}`);
  to?.focus({ preventScroll: true });
  if (to?.id === "result-title") to.scrollIntoView({ block: "start" });
}

// ---- keys ----------------------------------------------------------------------------------------

/** Keys act only inside the component, and none of them reaches Streamlit's own shortcuts. */
function keydown(event) {
  event.stopPropagation();
  const target = event.composedPath()[0];
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") { target.blur?.(); return; }
  if (state.result === null || target.matches?.("input, select, textarea")) return;
  if (target.closest?.("[role=tablist], [role=radiogroup]") && event.key.startsWith("Arrow")) return;
  const { passes } = state.result.trace;
  const { at } = state.view;
  let to = -1;
  if (event.key === "ArrowUp") to = at - 1;
  else if (event.key === "ArrowDown") to = at + 1;
  else if (event.key === "Home" && target.closest("[role=listbox]")) to = 0;
  else if (event.key === "End" && target.closest("[role=listbox]")) to = passes.length - 1;
  else if (event.key === "n" || event.key === "N") to = passes.findIndex((p, k) => k > at && p.changed);
  else if (event.key === "p" || event.key === "P") to = passes.findLastIndex((p, k) => k < at && p.changed);
  else return;
  event.preventDefault();
  if (to >= 0 && to < passes.length) act.goto(to, target.closest("[role=listbox]") !== null);
}

// ---- address -------------------------------------------------------------------------------------

let timer = 0;

/** Write what a link needs, keep what others wrote. */
function writeAddress() {
  clearTimeout(timer);
  timer = setTimeout(() => {
    const at = new URL(window.location.href);
    const set = (key, value, usual) => {
      if (value === usual || value === "" || value === undefined) at.searchParams.delete(key);
      else at.searchParams.set(key, value);
    };
    const { view } = state;
    set("lang", language(), "vi");
    set("model", view.model, "");
    set("numerics", view.numerics, "default");
    set("passes", view.pipeline, view.model ? defaultPipeline(view.model) : "default");
    set("pin", view.pin, "");
    set("at", state.result ? String(view.at) : "", "0");
    set("tab", view.tab, "kernels");
    set("bind", Object.entries(state.sizes).map(([k, v]) => `${k}=${v}`).join(","), "");
    if (at.href !== window.location.href) window.history.replaceState(window.history.state, "", at);
  }, 250);
}

/** Sizes to measure with, as an address has them: rows=8,cols=4. */
function readBinding(text) {
  for (const item of (text ?? "").split(",")) {
    const match = /^\s*([^\s=,]+)\s*=\s*(\d{1,10})\s*$/.exec(item);
    if (match) state.sizes[match[1]] = match[2];
  }
}
