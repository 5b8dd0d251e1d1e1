// The Lessons page: the course with what of it is done, and a lesson.
//
// Progress is kept in the browser (progress.mjs); a course and its lessons never change under the
// address of their version.

import { h, replace } from "../dom.mjs";
import { download } from "../files.mjs";
import { language, t } from "../text.mjs";
import { problem } from "./blocks.mjs";
import { lessonView } from "./lesson.mjs";
import { openProgress, readEvents, writeEvents } from "./progress.mjs";

const BASE = new URL("../../", import.meta.url);

async function fetched(path) {
  const answer = await fetch(new URL(path, BASE));
  if (!answer.ok) throw new Error(String(answer.status));
  return answer.json();
}

export function create(shell) {
  const element = h("main", { class: "lessons-page" });
  const progress = openProgress(localStorage, () => refresh());
  const states = new Map();
  let course = null, open = null, wanted = "", gone = false, said = "", hidden = false;

  window.addEventListener("storage", (event) => progress.hear(event.key));

  const ready = fetched("lessons/course.json").then((rows) => { course = rows; }, () => { gone = true; });

  function draw() {
    element.setAttribute("aria-label", t("nav.lessons"));
    const back = h("button", { type: "button", onclick: () => shell.go("lessons", { lesson: "" }) }, t("course.back"));
    if (gone) replace(element, h("div", { class: "course" }, problem({ message: "lesson.gone" }), back));
    else if (open !== null) replace(element, open.element);
    else if (course === null || wanted) replace(element, h("p", { class: "hint course", role: "status" }, t("course.loading")));
    else replace(element, courseView());
  }

  // ---- the course --------------------------------------------------------------------------------

  function courseView() {
    const { locks, skips, attempts } = progress.state();
    const passed = (at) => (attempts.get(at) ?? []).some((event) => event.value?.passed === true);
    const row = ({ id, number, title, minutes, predictions, exercises }) => {
      if (minutes === null) return h("li", { value: number, class: "later" }, title[language()], " ", h("span", { class: "hint" }, "· ", t("course.later")));
      const answered = predictions.filter((name) => locks.has(`${id}/${name}`) || skips.has(`${id}/${name}`));
      const parts = [t("course.minutes", { n: minutes }), t("course.predictions", { done: answered.length, of: predictions.length })];
      if (exercises.length) parts.push(t("course.exercises", { done: exercises.filter((name) => passed(`${id}/${name}`)).length, of: exercises.length }));
      return h("li", { value: number },
        h("button", { type: "button", class: "plain lesson-open", id: `lesson-${id}`, onclick: () => shell.go("lessons", { lesson: id }) }, title[language()]),
        " ", h("span", { class: "hint" }, parts.join(" · ")));
    };
    return h("div", { class: "course" },
      h("h2", null, t("course.title")), h("p", null, t("course.about")),
      h("ol", null, course.map(row)),
      h("section", { class: "keep", "aria-labelledby": "keep-title" },
        h("h3", { id: "keep-title" }, t("course.progress")),
        h("p", { class: "hint" }, t("course.progress.about", { n: progress.events().length })),
        h("div", { class: "actions" },
          h("button", { type: "button", id: "progress-export", onclick: () => download("progress.json", "application/json", writeEvents(progress.events())) }, t("course.export")),
          h("label", { class: "file" }, t("course.import"),
            h("input", { type: "file", class: "unseen", id: "progress-import", accept: ".json,application/json", onchange: take }))),
        h("p", { class: "said", role: "status" }, said)));
  }

  async function take(event) {
    const [file] = event.target.files;
    event.target.value = ""; // so that the same file can be chosen again
    if (!file) return;
    const before = progress.events().length;
    const events = readEvents(await file.text());
    if (events !== null) progress.import(events);
    said = events === null ? t("course.import.wrong") : t("course.imported", { n: progress.events().length - before });
    draw();
  }

  // ---- the page ----------------------------------------------------------------------------------

  function close() {
    open?.close();
    open = null;
  }

  function refresh() {
    open?.refresh();
    draw();
  }

  /** The state of a lesson, which keeps the measurements of this visit. */
  async function stateOf(slug) {
    if (!states.has(slug)) states.set(slug, { lesson: await fetched(`lessons/${slug}.json`), live: {} });
    return states.get(slug);
  }

  return {
    element,
    /** `lesson` "" is the course. Without it: the lesson that another page took the place of, else the course. */
    async show(params = {}) {
      const slug = params.lesson ?? (hidden ? open?.slug : null) ?? "";
      hidden = false;
      shell.address.set({ lesson: slug });
      if (open?.slug === slug && !gone) {
        draw();
        open.back();
        return;
      }
      close();
      wanted = slug;
      gone = false;
      said = "";
      draw();
      await ready;
      if (course === null || (slug && !course.some((each) => each.id === slug && each.minutes !== null))) gone = true;
      else if (slug) {
        try {
          const state = await stateOf(slug);
          if (wanted !== slug) return;
          open = lessonView({ shell, state, course, progress });
        } catch (error) {
          if (wanted !== slug) return;
          if (states.has(slug)) throw error;
          gone = true;
        }
      }
      draw();
    },
    hide() {
      shell.address.set({ lesson: "" });
      hidden = true;
      open?.leave();
    },
    refresh,
  };
}
