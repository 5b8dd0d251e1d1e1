// One lesson on the page: a column of blocks that ends at the first prediction that is still open,
// and the explorer beside it.

import { h, replace } from "../dom.mjs";
import { termLink } from "../glossary.mjs";
import { language, t } from "../text.mjs";
import { besideText } from "./beside.mjs";
import { cardOf, MAKE } from "./blocks.mjs";
import { draw as drawNode } from "./prose.mjs";

let cards = 0;

/**
 * `state` is `{lesson, live}`, `course` its list, `progress` that of the browser.
 * `{slug, element, leave(), back(), refresh(), close()}`.
 */
export function lessonView({ shell, state, course, progress }) {
  const { lesson } = state;
  const entry = course.find((each) => each.id === lesson.id);
  const nav = h("nav", { class: "lesson-nav" });
  const body = h("div", { class: "lesson-body" });
  const column = h("div", { class: "lesson-text" }, nav, body);
  const element = h("div", { class: "lesson" }, column);
  const blocks = [];
  const count = lesson.texts[language()].length;
  let folded = progress.state();
  let beside = null, place = 0;

  const context = {
    shell, state,
    beside: () => beside,
    progress: () => folded,
    events: () => progress.events(),
    done: (name) => folded.locks.has(`${lesson.id}/${name}`) || folded.skips.has(`${lesson.id}/${name}`),
    next: () => { cards += 1; return cards; },
    redraw,
    add(event) { progress.add(event); advance(); },
    lesson: lessonLink,
    term: (id, text) => termLink(shell, id, text),
  };

  function redraw(what) { for (const each of blocks) each.draw(what); }

  /** Read progress again, draw what it changes, and make the blocks that it opens. */
  function advance() {
    folded = progress.state();
    redraw("progress");
    const before = blocks.length;
    make();
    if (blocks.length > before) shell.announce(t("lesson.opened"));
  }

  /** Make blocks up to and with the first prediction that is open. */
  function make() {
    while (blocks.length < count && !blocks.at(-1)?.open?.()) {
      const k = blocks.length;
      const block = lesson.texts[language()][k];
      const made = block.ids !== undefined ? MAKE[block.kind](block, context, k) : prose(k);
      blocks.push(made);
      body.append(made.element);
    }
    beside?.look();
  }

  /** Text; the cards of its figures open below it. */
  function prose(k) {
    const host = h("div", { class: "block prose" });
    const opened = new Map();
    function toggle(button, items) {
      button.setAttribute("aria-expanded", String(!opened.has(button)));
      if (opened.has(button)) {
        opened.get(button).remove();
        opened.delete(button);
        return;
      }
      const card = h("div", { class: "figure-card", role: "group", "aria-label": t("lesson.where") }, items.map((item) => (item.run
        ? cardOf(context, item.run, true)
        : h("p", null, h("code", { translate: "no" }, item.formula), item.of ? ` (${item.of})` : "", ` = ${item.value}`))));
      opened.set(button, card);
      host.append(card);
    }
    function draw(what) {
      const node = lesson.texts[language()][k];
      if (what === "progress" || (what === "figures" && !JSON.stringify(node).includes('"of":"runs"'))) return;
      opened.clear();
      replace(host, drawNode(node, { ...context, toggle }));
    }
    draw("all");
    return { element: host, draw };
  }

  function lessonLink(slug) {
    const { title, minutes } = course.find((each) => each.id === slug);
    if (minutes === null) return h("em", null, title[language()]);
    const there = `?page=lessons&lesson=${encodeURIComponent(slug)}${language() === "vi" ? "" : `&lang=${language()}`}`;
    return h("a", { href: there, onclick: (event) => {
      if (event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
      event.preventDefault();
      shell.go("lessons", { lesson: slug });
    } }, title[language()]);
  }

  function drawNav() {
    nav.setAttribute("aria-label", t("course.title"));
    replace(nav,
      h("button", { type: "button", class: "plain", id: "back", onclick: () => shell.go("lessons", { lesson: "" }) }, t("course.back")),
      h("span", { class: "hint" }, t("course.number", { n: entry.number }), " · ", t("course.minutes", { n: entry.minutes })));
  }

  drawNav();
  if (typeof shell.embed === "function" && Object.keys(lesson.views).length) {
    const host = h("div", { class: "lesson-beside" });
    element.classList.add("with-beside");
    element.append(host);
    const plain = { model: lesson.model, sizes: lesson.sizes };
    beside = besideText({ column, host, blocks, embed: shell.embed, config: (name) => (name ? lesson.views[name] : plain) });
  }
  make();
  beside?.start();

  return {
    slug: lesson.id, element,
    /** Another page comes in its place, and the reader comes back to where they were. */
    leave() { place = column.scrollTop; },
    back() { column.scrollTop = place; },
    refresh() {
      drawNav();
      advance();
      redraw("all");
      beside?.refresh();
    },
    close() { beside?.stop(); },
  };
}
