// Lines of text as a listbox that holds only what is in sight: IR, loop trees, sources, assembly.
//
// A line is `{text, mark?, words?, number?, picked?, note?}`: `words` are marked runs in place of the
// text, `picked` is "picked" or "related". Marks are told in words too. A line `{filler: text}` only
// keeps the place beside another listing. Arrow keys move the active line, Enter or a click picks it.
// One row has one height, so that a place is a division. What the pointer lights is changed in
// place: a row that is replaced under a pointer loses its click.

import { h, replace, unseen } from "../dom.mjs";
import { t } from "../text.mjs";
import { MARKS } from "./canvas.mjs";

const ROW = 20;
const AROUND = 30;

/** `{element, show(lines, label, keep), reveal(k), light(test), scroll(top), destroy}`; `onPick(line, k)`, `onHover(line | null, k)`. */
export function createListing(onPick = () => {}, onHover = () => {}, onScroll = () => {}) {
  const space = h("div", { class: "listing-space", role: "presentation" });
  const element = h("div", { class: "listing", role: "listbox", tabindex: 0, translate: "no" }, space);
  let lines = [], active = 0, drawn = "", start = 0;
  let lit = () => false;

  function render() {
    const height = element.clientHeight || 300;
    const first = Math.max(0, Math.floor(element.scrollTop / ROW) - AROUND);
    const last = Math.min(lines.length, Math.ceil((element.scrollTop + height) / ROW) + AROUND);
    const range = `${first}:${last}`;
    if (range === drawn) return;
    drawn = range;
    start = first;
    space.style.height = `${lines.length * ROW}px`;
    replace(space, lines.slice(first, last).map((line, j) => row(line, first + j)));
    if (active >= first && active < last) element.setAttribute("aria-activedescendant", rowId(active));
    else element.removeAttribute("aria-activedescendant");
  }

  const uid = Math.random().toString(36).slice(2, 8);
  const rowId = (k) => `line-${uid}-${k}`;

  function row(line, k) {
    const style = `top:${k * ROW}px`;
    if (line.filler !== undefined) return h("div", { class: "line filler", role: "presentation", style }, line.filler);
    const kind = `line ${line.mark ?? "same"} ${line.picked ?? ""} ${lit(line) ? "lit" : ""} ${k === active ? "active" : ""}`;
    return h("div", {
      role: "option", id: rowId(k), class: kind, style, "aria-selected": String(Boolean(line.picked)),
      "aria-posinset": k + 1, "aria-setsize": lines.length,
      onclick: () => { activate(k, 1); onPick(line, k); },
      onmouseenter: () => onHover(line, k), onmouseleave: () => onHover(null, k),
    },
      h("span", { class: "mark", "aria-hidden": "true" }, MARKS[line.mark] ?? ""),
      line.mark && line.mark !== "same" ? unseen(`${t(`mark.${line.mark}`)}: `) : null,
      line.number !== undefined ? h("span", { class: "number", "aria-hidden": "true" }, line.number) : null,
      h("span", { class: "line-text" }, line.words ? line.words.map(run) : line.text),
      line.note ? h("span", { class: "line-note" }, line.note) : null);
  }

  /** A run of words; what was added or removed is said before it. */
  function run({ text, mark }) {
    if (mark === "same" || text.trim() === "") return text;
    return h("span", { class: `word ${mark}` }, unseen(`[${t(`mark.${mark}`)}: `), text, unseen("]"));
  }

  /** Make line `k` the active one; a filler is stepped over in the direction of `by`. */
  function activate(k, by) {
    let to = Math.max(0, Math.min(lines.length - 1, k));
    while (lines[to]?.filler !== undefined && lines[to + by] !== undefined) to += by;
    if (lines[to]?.filler !== undefined) return;
    active = to;
    drawn = "";
    reveal(active);
  }

  function reveal(k) {
    const top = k * ROW;
    if (top < element.scrollTop) element.scrollTop = Math.max(0, top - ROW);
    else if (top + 2 * ROW > element.scrollTop + element.clientHeight) element.scrollTop = top + 2 * ROW - element.clientHeight;
    render();
  }

  element.addEventListener("scroll", () => { render(); onScroll(element.scrollTop); });
  element.addEventListener("keydown", (event) => {
    const page = Math.max(1, Math.floor(element.clientHeight / ROW) - 1);
    const to = { ArrowUp: active - 1, ArrowDown: active + 1, PageUp: active - page, PageDown: active + page,
      Home: 0, End: lines.length - 1 }[event.key];
    if (to !== undefined) {
      event.preventDefault();
      event.stopPropagation();
      activate(to, event.key === "End" || to < active && event.key !== "Home" ? -1 : 1);
    } else if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      if (lines[active]) onPick(lines[active], active);
    }
  });
  const watcher = new ResizeObserver(() => { drawn = ""; render(); });
  watcher.observe(element);

  return {
    element,
    /** Show other lines; with `keep` the place stays. */
    show(next, name, keep = false) {
      lines = next;
      drawn = "";
      element.setAttribute("aria-label", name);
      if (!keep) {
        active = Math.max(0, lines.findIndex((line) => line.filler === undefined));
        element.scrollTop = 0;
      }
      active = Math.max(0, Math.min(active, lines.length - 1));
      render();
    },
    reveal,
    /** Light the lines that a test tells; others are not lit. */
    light(test) {
      lit = test;
      [...space.children].forEach((child, j) => child.classList.toggle("lit", Boolean(lines[start + j]) && lit(lines[start + j])));
    },
    /** Go where another listing went. */
    scroll(top) { if (Math.abs(element.scrollTop - top) > 1) element.scrollTop = top; },
    destroy() { watcher.disconnect(); },
  };
}
