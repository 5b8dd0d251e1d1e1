// Progress of a running job, problems with the way out, notices that ask for nothing.

import { code, h } from "../dom.mjs";
import { alone, known, t } from "../text.mjs";

/** Progress with the way to stop it; of a job that was told to stop (`stopping`), that it is about to. */
export function progress({ text, done, of, cancel, stopping = false }) {
  const said = stopping ? t("job.stopping") : text;
  return h("div", { class: "progress" },
    h("progress", { max: of > 0 ? of : 1, "aria-label": said, ...(of > 0 && !stopping ? { value: done } : {}) }),
    h("span", { class: "progress-text" }, said),
    h("button", { type: "button", id: "cancel", "aria-disabled": String(stopping), onclick: () => { if (!stopping) cancel(); } }, t("job.cancel")));
}

/** A problem: what is wrong, where, and the way out, all from the catalogue where it knows it. */
export function problem(error, { dismiss = null, more = null } = {}) {
  const { message, parameters = {}, text, file, node, remedy, partial } = error;
  const way = `${message}.remedy`;
  return h("div", { class: "problem", role: "alert" },
    h("p", { class: "problem-title" }, h("span", { "aria-hidden": "true" }, "✕ "), t("problem.title")),
    file || node ? h("p", null,
      file ? [t("problem.file"), " ", code(file)] : null,
      file && node ? " · " : null,
      node ? [t("problem.node"), " ", code(node)] : null) : null,
    partial?.pass ? h("p", null, t("problem.pass"), " ", code(partial.pass)) : null,
    h("p", null, known(message) ? alone(message, parameters) : text ?? message),
    h("p", { class: "problem-remedy" }, h("strong", null, t("problem.remedy"), " "),
      known(way) ? alone(way, parameters) : remedy ?? t("problem.remedy.unknown")),
    more || dismiss ? h("div", { class: "problem-buttons" }, more,
      dismiss ? h("button", { type: "button", id: "problem-close", onclick: dismiss }, t("problem.close")) : null) : null);
}

/** Something that is no problem; whoever shows it lets the live region say it, once. */
export function notice(text, { dismiss, more = null }) {
  return h("div", { class: "notice" }, h("p", null, text), more,
    h("button", { type: "button", id: "notice-close", onclick: dismiss }, t("problem.close")));
}
