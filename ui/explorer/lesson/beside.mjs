// The explorer beside a text: it stands as the view says that the reader came to last, and goes back
// to the one before when that is left. It holds the answers of the questions at the start, so nothing
// of it is made before the text has a view.

import { h, replace } from "../dom.mjs";

const SCROLL_MS = 150;

/**
 * `column` scrolls the text, `blocks` are its blocks so far (those with a `view` count), `embed`
 * makes the explorer in `host`, `config(name)` is what a view asks for, `waiting()` says what will
 * stand there. Where the window has no room for `host`, nothing is made either.
 */
export function besideText({ column, host, blocks, embed, config, waiting }) {
  let explorer = null, shown = "", timer = 0, held = null;
  const later = h("p", { class: "beside-later hint" }, waiting());
  replace(host, later);

  /**
   * Show a view; `asked` by a person: again, even if it is the one that stands there, and until they
   * scroll on.
   */
  function show(name, asked = false) {
    held = asked ? column.scrollTop : null;
    if (shown === name && !asked) return;
    shown = name;
    if (explorer !== null) explorer.update(config(name));
    else {
      later.remove();
      explorer = embed(host, config(name));
    }
    for (const each of blocks) if (each.view) each.draw("all");
  }

  /** The last view that the reader has come to, above the lower third of the column; else the first. */
  function look() {
    const views = blocks.filter((each) => each.view);
    if (!views.length || host.clientWidth === 0 || column.scrollTop === held) return;
    const line = column.getBoundingClientRect().top + column.clientHeight * 0.66;
    const passed = views.findLast((each) => each.element.getBoundingClientRect().top < line);
    show((passed ?? views[0]).view);
  }

  const scrolled = () => { clearTimeout(timer); timer = setTimeout(look, SCROLL_MS); };
  column.addEventListener("scroll", scrolled, { passive: true });
  const resized = new ResizeObserver(look); // also when it comes onto the page
  resized.observe(host);
  return {
    show, look,
    shown: () => shown,
    refresh() {
      later.textContent = waiting();
      explorer?.refresh?.();
    },
    stop() {
      clearTimeout(timer);
      resized.disconnect();
      column.removeEventListener("scroll", scrolled);
      explorer?.destroy();
    },
  };
}
