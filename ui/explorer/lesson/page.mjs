// The Lessons page: the course with what of it is done, and a lesson.
//
// Progress is kept in the browser (progress.mjs); a course and its lessons never change under the
// address of their version.

import { h, replace } from "../dom.mjs";
import { download } from "../files.mjs";
import { language, t } from "../text.mjs";
import { problem } from "./blocks.mjs";
import { lessonView } from "./lesson.mjs";
import { MOST, openProgress, readEvents, writeEvents } from "./progress.mjs";

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
  let course = null, open = null, wanted = "", gone = false, said = "", seen = false;

  window.addEventListener("storage", (event) => progress.hear(event.key));

  const ready = fetched("lessons/course.json").then((rows) => { course = rows; }, () => { gone = true; });

  function draw() {
    element.setAttribute("aria-label", t("nav.lessons"));
    const back = h("button", { type: "button", onclick: () => shell.go("lessons", { lesson: "" }) }, t("course.back"));
    if (gone) replace(element, h("div", { class: "course" }, problem({ message: "lesson.gone" }), back));
    else if (open !== null) { if (element.firstChild !== open.element) replace(element, open.element); }
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
        progress.lasting() ? null : h("p", { class: "said wrong" }, t("course.unkept")),
        h("div", { class: "actions" },
          h("button", { type: "button", id: "progress-export", onclick: () => download("progress.json", "application/json", writeEvents(progress.events())) }, t("course.export")),
          h("label", { class: "file" }, t("course.import"),
            h("input", { type: "file", class: "unseen", id: "progress-import", accept: ".json,application/json", onchange: take }))),
        h("p", { class: "said" }, said)));
  }

  async function take(event) {
    const [file] = event.target.files;
    event.target.value = ""; // so that the same file can be chosen again
    if (!file) return;
    const events = readEvents(await file.text());
    said = events === null ? t("course.import.wrong") : outcome(progress.import(events));
    draw();
    shell.announce(said);
  }

  /** What was kept of an import, and what was not. */
  function outcome({ added, left, full }) {
    if (full) return t("course.import.full", { n: left });
    return left ? t("course.imported.part", { n: added, left, most: MOST }) : t("course.imported", { n: added });
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

  /** The state of a lesson, which keeps the place in it. */
  async function stateOf(slug) {
    if (!states.has(slug)) states.set(slug, { lesson: await fetched(`lessons/${slug}.json`), live: {}, place: 0 });
    return states.get(slug);
  }

  const active = () => element.getRootNode().activeElement;

  return {
    element,
    /** `lesson` "" is the course. Without it: the lesson that was open last, else the course. */
    async show(params = {}) {
      const slug = params.lesson ?? open?.slug ?? "";
      const [from, first] = [open?.slug, !seen];
      seen = true;
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
      open?.back();
      // Who went here from within keeps a place of the keyboard: the title, or the lesson they left.
      if (!first && active() === null) (open ? open.here() : element.querySelector(`#lesson-${CSS.escape(from ?? "")}`))?.focus({ preventScroll: true });
    },
    hide() {
      shell.address.set({ lesson: "" });
      open?.leave();
    },
    refresh,
  };
}
