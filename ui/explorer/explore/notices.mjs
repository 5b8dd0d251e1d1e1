// Progress of a running job, and problems with the way out.

import { code, h } from "../dom.mjs";
import { alone, known, t } from "../text.mjs";

/** Progress with the way to stop it. */
export function progress({ text, done, of, cancel }) {
  return h("div", { class: "progress" },
    h("progress", { max: of > 0 ? of : 1, "aria-label": text, ...(of > 0 ? { value: done } : {}) }),
    h("span", { class: "progress-text" }, text),
    h("button", { type: "button", id: "cancel", onclick: cancel }, t("job.cancel")));
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
