// Lines of text as a listbox that holds only what is in sight: IR, loop trees, sources, assembly.
//
// A line is `{text, mark?, number?, picked?, note?}`; marks are told in words too. Arrow keys move the
// active line, Enter or a click picks it. One row has one height, so that a place is a division.

import { h, replace, unseen } from "../dom.mjs";
import { t } from "../text.mjs";
import { MARKS } from "./canvas.mjs";

const ROW = 20;
const AROUND = 30;

/** `{element, show(lines, label), reveal(k), destroy}`; `onPick(line, k)`, `onHover(line | null, k)`. */
export function createListing(onPick = () => {}, onHover = () => {}) {
  const space = h("div", { class: "listing-space", role: "presentation" });
  const element = h("div", { class: "listing", role: "listbox", tabindex: 0, translate: "no" }, space);
  let lines = [], active = 0, drawn = "";

  function render() {
    const height = element.clientHeight || 300;
    const first = Math.max(0, Math.floor(element.scrollTop / ROW) - AROUND);
    const last = Math.min(lines.length, Math.ceil((element.scrollTop + height) / ROW) + AROUND);
    const range = `${first}:${last}`;
    if (range === drawn) return;
    drawn = range;
    space.style.height = `${lines.length * ROW}px`;
    replace(space, lines.slice(first, last).map((line, j) => row(line, first + j)));
    element.setAttribute("aria-activedescendant", lines.length ? rowId(active) : "");
  }

  const uid = Math.random().toString(36).slice(2, 8);
  const rowId = (k) => `line-${uid}-${k}`;

  function row(line, k) {
    return h("div", {
      role: "option", id: rowId(k), class: `line ${line.mark ?? "same"} ${line.picked ?? ""} ${k === active ? "active" : ""}`,
      style: `top:${k * ROW}px`, "aria-selected": String(Boolean(line.picked)),
      "aria-posinset": k + 1, "aria-setsize": lines.length,
      onclick: () => { activate(k); onPick(line, k); },
      onmouseenter: () => onHover(line, k), onmouseleave: () => onHover(null, k),
    },
      h("span", { class: "mark", "aria-hidden": "true" }, MARKS[line.mark] ?? ""),
      line.mark && line.mark !== "same" ? unseen(`${t(`mark.${line.mark}`)}: `) : null,
      line.number !== undefined ? h("span", { class: "number", "aria-hidden": "true" }, line.number) : null,
      h("span", { class: "line-text" }, line.words ?? line.text),
      line.note ? h("span", { class: "line-note" }, line.note) : null);
  }

  function activate(k) {
    active = Math.max(0, Math.min(lines.length - 1, k));
    drawn = "";
    reveal(active);
  }

  function reveal(k) {
    const top = k * ROW;
    if (top < element.scrollTop) element.scrollTop = Math.max(0, top - ROW);
    else if (top + 2 * ROW > element.scrollTop + element.clientHeight) element.scrollTop = top + 2 * ROW - element.clientHeight;
    render();
  }

  element.addEventListener("scroll", render);
  element.addEventListener("keydown", (event) => {
    const page = Math.max(1, Math.floor(element.clientHeight / ROW) - 1);
    const to = { ArrowUp: active - 1, ArrowDown: active + 1, PageUp: active - page, PageDown: active + page,
      Home: 0, End: lines.length - 1 }[event.key];
    if (to !== undefined) {
      event.preventDefault();
      event.stopPropagation();
      activate(to);
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
      if (!keep) { active = 0; element.scrollTop = 0; }
      active = Math.max(0, Math.min(active, lines.length - 1));
      render();
    },
    reveal,
    destroy() { watcher.disconnect(); },
  };
}
