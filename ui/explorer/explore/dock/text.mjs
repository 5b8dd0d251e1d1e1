// The IR before and after as text, by value name, then by words.

import { h } from "../../dom.mjs";
import { t } from "../../text.mjs";
import { compare } from "../../diff.mjs";
import { createListing } from "../listing.mjs";
import { ofLine, relates } from "../selection.mjs";

export function create({ act }) {
  const listings = [0, 1].map(() => createListing((line) => act.select(ofLine(line))));
  const element = h("div", { class: "texts" }, listings.map((l) => l.element));
  let last = null;

  function draw(state) {
    const [before, after] = state.compile.states(state.at, state.event);
    const marks = compare(before.lines, after.lines);
    const moved = last === null || last[0] !== before || last[1] !== after;
    [before, after].forEach((side, k) => {
      listings[k].show(side.lines.map((line, j) => ({
        ...line, mark: marks[k][j],
        picked: state.selection && line.key && line.key === state.selection.key ? "picked"
          : relates(state.selection, line.origins) ? "related" : "",
      })), t(k === 0 ? "pane.before.text" : "pane.after.text"), !moved);
      if (moved) {
        const first = marks[k].findIndex((mark) => mark !== "same");
        listings[k].reveal(Math.max(0, first));
      }
    });
    last = [before, after];
  }

  return { element, keys: ["compile", "at", "event", "selection"], draw };
}
