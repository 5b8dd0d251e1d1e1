// One lesson on the page: a column of blocks that ends at the first prediction that is still open,
// and the explorer beside it.

import { h, replace } from "../dom.mjs";
import { termLink } from "../glossary.mjs";
import { language, t } from "../text.mjs";
import { besideText } from "./beside.mjs";
import { cardOf, MAKE } from "./blocks.mjs";
import { draw as drawNode } from "./prose.mjs";
import { liveOf } from "./values.mjs";

let cards = 0;

/**
 * `state` is `{lesson, live, place}` and outlives the view, `course` its list, `progress` that of the
 * browser. `{slug, element, here(), leave(), back(), refresh(), close()}`.
 */
export function lessonView({ shell, state, course, progress }) {
  const { lesson } = state;
  const entry = course.find((each) => each.id === lesson.id);
  const nav = h("nav", { class: "lesson-nav" });
  const body = h("div", { class: "lesson-body" });
  const goals = h("div", { class: "lesson-goals" });
  const column = h("div", { class: "lesson-text" }, nav, body);
  const element = h("div", { class: "lesson" }, column);
  const blocks = [];
  const count = lesson.texts[language()].length;
  const ordinals = new Map();
  let folded = progress.state();
  let beside = null, focused = null, drawnIn = language();
  state.live = liveOf(lesson, folded.runs);

  const context = {
    shell, state,
    beside: () => beside,
    progress: () => folded,
    events: () => progress.events(),
    done: (name) => folded.locks.has(`${lesson.id}/${name}`) || folded.skips.has(`${lesson.id}/${name}`),
    next: () => { cards += 1; return cards; },
    /** The how many-th block of this kind in the lesson this is. */
    nth(kind) { ordinals.set(kind, (ordinals.get(kind) ?? 0) + 1); return ordinals.get(kind); },
    /** Whether this opened a part of the lesson; who adds says so. */
    add(event) { progress.add(event); return advance(); },
    lesson: lessonLink,
    term: (id, text) => termLink(shell, id, text),
  };

  function redraw(what) { for (const each of blocks) each.draw(what); }

  /** Read progress again, draw what it changes, and make the blocks that it opens: whether there are. */
  function advance() {
    folded = progress.state();
    const live = liveOf(lesson, folded.runs);
    const measured = Object.keys(lesson.runs).some((name) => live[name]?.conditions.date !== state.live[name]?.conditions.date);
    state.live = live;
    redraw("progress");
    if (measured) redraw("figures");
    drawNav();
    const before = blocks.length;
    make();
    return blocks.length > before;
  }

  /** Make blocks up to and with the first prediction that is open. */
  function make() {
    while (blocks.length < count && !blocks.at(-1)?.open?.()) {
      const k = blocks.length;
      const block = lesson.texts[language()][k];
      const made = block.ids !== undefined ? MAKE[block.kind](block, context, k) : prose(k);
      blocks.push(made);
      body.append(made.element);
      if (k === 0) body.append(goals);
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
      if (k === 0) host.firstElementChild.setAttribute("tabindex", "-1");
    }
    draw("all");
    return { element: host, draw };
  }

  function lessonLink(slug) {
    const { title, minutes } = course.find((each) => each.id === slug);
    if (minutes === null) return h("span", null, h("em", null, title[language()]), ` (${t("course.later")})`);
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
      h("span", { class: "hint" }, t("course.number", { n: entry.number }), " · ", t("course.minutes", { n: entry.minutes })),
      progress.lasting() ? null : h("p", { class: "said wrong" }, t("course.unkept")));
  }

  /** What the reader will be able to do, and what they should know before. */
  function drawGoals() {
    const aims = lesson.goals[language()];
    replace(goals,
      aims.length ? [h("p", { class: "goals-title" }, t("lesson.goals")), h("ul", null, aims.map((aim) => h("li", null, aim)))] : null,
      lesson.needs.length ? h("p", null, t("lesson.needs"), " ", lesson.needs.flatMap((slug, k) => [k ? ", " : "", lessonLink(slug)])) : null);
  }

  /** The block at the top of what is seen of the column. */
  function topmost() {
    const top = nav.getBoundingClientRect().bottom;
    return blocks.find((each) => each.element.getBoundingClientRect().bottom > top)?.element;
  }

  /** Draw everything; the block at the top of the column stays there, however high the others become. */
  function redrawInPlace() {
    const top = nav.getBoundingClientRect().bottom;
    const first = topmost();
    const box = first?.getBoundingClientRect();
    const share = box?.height ? (top - box.top) / box.height : 0;
    drawNav();
    drawGoals();
    redraw("all");
    if (!first || !column.isConnected || column.scrollTop === 0) return;
    const now = first.getBoundingClientRect();
    column.scrollTop += now.top + share * now.height - top;
  }

  drawNav();
  drawGoals();
  column.addEventListener("scroll", () => { if (column.isConnected) state.place = column.scrollTop; }, { passive: true });
  if (typeof shell.embed === "function" && Object.keys(lesson.views).length) {
    const host = h("div", { class: "lesson-beside" });
    element.classList.add("with-beside");
    element.append(host);
    const title = () => shell.samples.find((sample) => sample.name === lesson.model)?.title[language()] ?? lesson.model;
    beside = besideText({
      column, host, blocks, embed: shell.embed,
      config: (name) => lesson.views[name].keys, waiting: () => t("lesson.beside.later", { model: title() }),
    });
  }
  make();

  const active = () => element.getRootNode().activeElement;
  return {
    slug: lesson.id, element,
    /** Where the keyboard goes when the lesson opens: its title, or the block where the reader was. */
    here() {
      if (column.scrollTop === 0) return body.querySelector("h2");
      const block = topmost();
      block?.setAttribute("tabindex", "-1");
      return block;
    },
    /** Another page comes in its place. */
    leave() { focused = element.contains(active()) ? active() : null; },
    /** The reader comes back to where they were. */
    back() {
      column.scrollTop = state.place ?? 0;
      if (active() === null) focused?.focus({ preventScroll: true });
    },
    refresh() {
      if (advance()) shell.announce(t("lesson.opened"));
      beside?.refresh();
      if (drawnIn === language()) return;
      drawnIn = language();
      redrawInPlace();
    },
    close() { beside?.stop(); },
  };
}
