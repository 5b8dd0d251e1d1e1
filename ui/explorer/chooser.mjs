// Choose a sample or upload a model, set options, compile.

import { code, h } from "./dom.mjs";
import { alone, bytes, known, language, t } from "./text.mjs";

/** The part of the page above the result. */
export function chooser(state, act) {
  return h("section", { class: "chooser", "aria-labelledby": "choose-title" },
    h("h2", { id: "choose-title" }, t("choose.title")),
    h("div", { class: "cards", role: "radiogroup", "aria-labelledby": "choose-title" },
      state.samples.map((sample) => card(state, act, sample)),
      state.upload ? uploaded(state, act) : null),
    dropZone(state, act),
    options(state, act),
    actions(state, act));
}

function radio(state, act, model, title, text) {
  const id = `model-${model}`;
  return h("label", { class: "card", for: id },
    h("input", {
      type: "radio", name: "model", id, value: model, checked: state.view.model === model,
      "aria-describedby": `${id}-text`,
      onchange: () => act.choose(model),
    }),
    h("span", { class: "card-title" }, title),
    h("span", { class: "card-text", id: `${id}-text` }, text));
}

function card(state, act, sample) {
  return radio(state, act, sample.name, sample.title[language()], sample.teaches[language()]);
}

function uploaded(state, act) {
  const { name, size, digest } = state.upload;
  const title = h("span", { translate: "no" }, name || `${digest.slice(0, 12)}…`);
  return radio(state, act, `sha256:${digest}`, title,
    size ? t("upload.size", { size: bytes(size) }) : t("upload.kept"));
}

function dropZone(state, act) {
  const input = h("input", {
    type: "file", accept: ".onnx", id: "upload-file", class: "unseen",
    onchange: (event) => { act.upload(event.target.files[0]); event.target.value = ""; },
  });
  const zone = h("label", { class: "drop", for: "upload-file" },
    input,
    h("span", { class: "drop-title" }, t("upload.title")),
    h("span", null, t("upload.hint", { size: bytes(state.uploadLimit) })));
  zone.addEventListener("dragover", (event) => { event.preventDefault(); zone.classList.add("over"); });
  zone.addEventListener("dragleave", () => zone.classList.remove("over"));
  zone.addEventListener("drop", (event) => {
    event.preventDefault();
    zone.classList.remove("over");
    act.upload(event.dataTransfer.files[0]);
  });
  return h("div", null, zone,
    state.uploading ? h("p", { role: "status" }, t("upload.running", { name: state.uploading })) : null);
}

function options(state, act) {
  const sample = state.samples.find((s) => s.name === state.view.model);
  const names = sample ? Object.keys(sample.sizes) : [];
  const field = (id, label, hint, control) => h("div", { class: "field" },
    h("label", { for: id }, label), control, h("p", { class: "hint", id: `${id}-hint` }, hint));
  const text = (id, key, hint) => h("input", {
    type: "text", id, value: state.view[key], spellcheck: "false", autocomplete: "off",
    translate: "no", "aria-describedby": `${id}-hint`,
    oninput: (event) => act.option(key, event.target.value),
    onkeydown: (event) => { if (event.key === "Enter") act.compile(); },
  });
  const example = names.length ? names.map((n) => `${n}=${sample.sizes[n]}`).join(", ") : "batch=32";
  return h("details", { class: "options", open: state.optionsOpen, ontoggle: (e) => { state.optionsOpen = e.target.open; } },
    h("summary", null, t("options.title")),
    h("div", { class: "fields" },
      field("option-pipeline", t("options.pipeline"), t("options.pipeline.hint", { example: "default,-cse,fuse{max_ops=4}" }),
        text("option-pipeline", "pipeline")),
      field("option-numerics", t("options.numerics"), t(`options.numerics.${state.view.numerics}.hint`),
        h("select", { id: "option-numerics", "aria-describedby": "option-numerics-hint",
          onchange: (event) => act.option("numerics", event.target.value, true) },
          ["default", "strict"].map((value) => h("option",
            { value, selected: state.view.numerics === value }, t(`options.numerics.${value}`))))),
      field("option-pin", t("options.pin"), t("options.pin.hint", { example }), text("option-pin", "pin"))));
}

function actions(state, act) {
  const busy = state.job !== null;
  const compiling = busy && state.job.kind === "compile";
  return h("div", { class: "actions" },
    h("button", { class: "primary", id: "compile", type: "button",
      disabled: busy || !state.view.model, onclick: act.compile }, t("compile.start")),
    compiling ? progress(state, act) : null,
    state.error && state.error.of !== "measure" ? problem(state.error) : null);
}

/** Progress of the running job, with the way to stop it. */
export function progress(state, act) {
  const { phase } = state.job;
  const known = phase.of > 0;
  return h("div", { class: "progress" },
    h("progress", { max: known ? phase.of : 1, "aria-label": phase.text,
      ...(known ? { value: phase.done } : {}) }),
    h("span", { class: "progress-text", id: "progress-text" }, phase.text),
    h("button", { type: "button", id: "cancel", onclick: act.cancel }, t("job.cancel")));
}

/** A problem: what is wrong, where, and the way out, all from the catalogue where it knows it. */
export function problem(error) {
  const { message, parameters = {}, text, file, node, remedy } = error;
  const way = `${message}.remedy`;
  return h("div", { class: "problem", role: "alert" },
    h("p", { class: "problem-title" }, h("span", { "aria-hidden": "true" }, "✕ "), t("problem.title")),
    file || node ? h("p", null,
      file ? [t("problem.file"), " ", code(file)] : null,
      file && node ? " · " : null,
      node ? [t("problem.node"), " ", code(node)] : null) : null,
    h("p", null, known(message) ? alone(message, parameters) : text ?? message),
    h("p", { class: "problem-remedy" }, h("strong", null, t("problem.remedy"), " "),
      known(way) ? alone(way, parameters) : remedy ?? t("problem.remedy.unknown")));
}

