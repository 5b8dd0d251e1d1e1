// The selected kernel: its loop tree before and after, or its loop tree beside its source.
//
// Lines are those of the states, so they follow single rewrites. A kernel that does not exist yet is
// shown as the ops that it is made of.

import { compare } from "../diff.mjs";
import { h } from "../dom.mjs";
import { t } from "../text.mjs";
import { createListing } from "./listing.mjs";
import { ofKernel, ofLine, relates } from "./selection.mjs";
import { titlesOf } from "./sides.mjs";

/** kernel name -> its lines in a state, `section` "kernel" (loop trees) or "source". */
export function kernelsOf(history, drawn, section = "kernel") {
  const found = new Map();
  for (const line of drawn.lines) {
    if (line.section !== section) continue;
    const { key } = history.chunks[line.chunk];
    if (!found.has(key)) found.set(key, []);
    found.get(key).push(line);
  }
  return found;
}

const originsOf = (lines) => lines?.[0]?.origins ?? [];

/** The name in `kernels` that stands for `name`: itself, else the one that shares most origins. */
export function sameKernel(kernels, name, origins) {
  if (kernels.has(name)) return name;
  let best = "", most = 0;
  for (const [other, lines] of kernels) {
    const mine = originsOf(lines);
    const shared = mine.filter((origin) => origins.includes(origin)).length;
    if (shared > most && shared * 2 > mine.length) { most = shared; best = other; }
  }
  return best;
}

/** The lines of all kernels of another compile whose work one with these origins does. */
const partsOf = (kernels, origins) => [...kernels.values()]
  .filter((lines) => originsOf(lines).length > 0 && originsOf(lines).every((origin) => origins.includes(origin))).flat();

/** What a kernel is made of, where it does not exist yet: the lines of the op that becomes its launch. */
function before(history, drawn, other, name) {
  const launch = other.nodes.find((node) => node.kernel === name);
  if (!launch) return [];
  return drawn.lines.filter((line) => line.section === "graph" && history.chunks[line.chunk].key === launch.key);
}

/** Source lines without the margin of the IR: `    | code`. */
function bare(lines) {
  const found = lines.filter((line) => /^\s*\|/.test(line.text)).map((line) => ({ ...line, text: line.text.replace(/^\s*\| ?/, "") }));
  while (found.length && found.at(-1).text === "") found.pop();
  return found;
}
const outdented = (lines) => lines.map((line) => ({ ...line, text: line.text.replace(/^ {2}/, "") }));

/**
 * `{left, right, names, kernel, made}` of two sides `{compile, state}`: lines to show, names to choose from,
 * the one shown, and whether the left lines are the ops that it is made of. `source`: tree beside source.
 */
export function kernelLines(both, chosen, source) {
  const trees = both.map((side) => kernelsOf(side.compile.history, side.state));
  const names = [...trees[1].keys()];
  for (const name of trees[0].keys()) if (!trees[1].has(name) && both[0].compile === both[1].compile) names.push(name);
  const kernel = names.includes(chosen) ? chosen : names.find((name) => name.split(".")[0] === chosen.split(".")[0]) ?? names[0] ?? "";
  const right = trees[1].get(kernel) ?? [];
  if (source) {
    const text = kernelsOf(both[1].compile.history, both[1].state, "source").get(kernel) ?? [];
    return { left: outdented(right), right: bare(text), names, kernel, made: false };
  }
  const there = sameKernel(trees[0], kernel, originsOf(right));
  const parts = both[0].compile === both[1].compile ? [] : partsOf(trees[0], originsOf(right));
  if (parts.length) return { left: outdented(parts), right: outdented(right), names, kernel, made: false };
  const left = trees[0].get(there) ?? before(both[0].compile.history, both[0].state, both[1].state, kernel);
  return { left: outdented(left), right: outdented(right), names, kernel, made: !there && left.length > 0 };
}

/** The names of the kernels that differ between two states. */
export function changedKernels(both) {
  const [before, after] = both.map((side) => kernelsOf(side.compile.history, side.state));
  const text = (lines) => (lines ?? []).map((line) => line.text).join("\n");
  return new Set([...after.keys()].filter((name) => text(before.get(name)) !== text(after.get(name))));
}

/** `{element, draw(lines, state, source)}`; `lines` are those of `kernelLines`. */
export function loopView({ act }) {
  const titles = [h("h2", null), h("h2", null)];
  const notes = [h("p", { class: "hint pane-note" }), h("p", { class: "hint pane-note" })];
  const listings = [0, 1].map(() => createListing((line) => act.select(ofLine(line)), (line) => act.hover?.(line?.origins)));
  const element = h("div", { class: "columns loops" }, listings.map((listing, k) =>
    h("div", { class: "pane" }, h("div", { class: "pane-head" }, titles[k], notes[k]), h("div", { class: "pane-room" }, listing.element))));
  let last = "";

  return {
    element,
    draw({ left, right, kernel, made }, state, source) {
      const names = source ? ["pane.tree", "pane.source"] : titlesOf(state);
      titles.forEach((title, k) => { title.textContent = t(names[k]); });
      notes[0].textContent = made ? t("pane.made", { kernel }) : left.length === 0 ? t("pane.nokernel") : "";
      notes[1].textContent = right.length > 0 ? "" : t(source ? "pane.nosource" : "pane.nokernel");
      const marks = source || state.left !== null || made ? [[], []] : compare(left, right);
      const place = `${kernel} ${state.at} ${state.event} ${source}`;
      [left, right].forEach((lines, k) => {
        listings[k].show(lines.map((line, j) => ({
          ...line, key: line.key ?? kernel, mark: marks[k][j] ?? "same",
          ...(source && k === 1 ? { number: j + 1 } : {}),
          picked: pickedOf(state.selection, line, kernel),
        })), t(source ? (k === 0 ? "pane.tree.of" : "pane.source.of") : k === 0 ? "pane.tree.before" : "pane.tree.after", { kernel }), place === last);
        if (place !== last) {
          const first = (marks[k] ?? []).findIndex((mark) => mark !== "same");
          if (first > 0) listings[k].reveal(first);
        }
      });
      last = place;
    },
    destroy() { for (const listing of listings) listing.destroy(); },
  };
}

function pickedOf(selection, line, kernel) {
  if (selection === null) return "";
  const same = selection.kind === "line" && (line.origins ?? []).join() === selection.origins.join() && selection.key === (line.key ?? kernel);
  return same ? "picked" : relates(selection, line.origins) ? "related" : "";
}

/** The kernel that a selection means: itself, a launch, or the one that shares most origins with it. */
export function kernelFor(selection, { compile, state }) {
  if (selection === null) return "";
  const last = compile.passes.length - 1;
  const here = [state, compile.history.drawn(last, compile.history.passes[last].steps.length)]
    .find((drawn) => drawn.lines.some((line) => line.section === "kernel"));
  if (here === undefined) return "";
  const trees = kernelsOf(compile.history, here);
  if (trees.has(selection.key)) return selection.key;
  const launch = here.byKey.get(selection.key);
  if (launch?.kernel !== undefined) return launch.kernel;
  let best = "", most = 0;
  for (const [name, lines] of trees) {
    const shared = originsOf(lines).filter((origin) => selection.origins.includes(origin)).length;
    if (shared > most) { most = shared; best = name; }
  }
  return best;
}

export const kernelSelection = (name, both) => {
  const lines = kernelsOf(both[1].compile.history, both[1].state).get(name);
  return ofKernel(name, originsOf(lines));
};
