// The explorer beside a text: it stands as the view says that the reader came to last, and goes back
// to the one before when that is left.

const SCROLL_MS = 150;

/**
 * `column` scrolls the text, `blocks` are its blocks so far (those with a `view` count), `embed`
 * makes the explorer in `host`, `config(name)` is what a view asks for, "" what stands there without.
 */
export function besideText({ column, host, blocks, embed, config }) {
  let explorer = null, shown = "", timer = 0, held = null;

  /**
   * Show a view; `asked` by a person: again, even if it is the one that stands there, and until they
   * scroll on.
   */
  function show(name, asked = false) {
    held = asked ? column.scrollTop : null;
    if (shown === name && !asked) return;
    shown = name;
    explorer?.update(config(name));
    for (const each of blocks) if (each.view) each.draw("all");
  }

  /** The last view that the reader has come to: above the lower third of the column. */
  function look() {
    if (column.scrollTop === held || (!column.isConnected && explorer !== null)) return;
    const line = column.getBoundingClientRect().top + column.clientHeight * 0.66;
    show(blocks.findLast((each) => each.view && each.element.getBoundingClientRect().top < line)?.view ?? "");
  }

  const scrolled = () => { clearTimeout(timer); timer = setTimeout(look, SCROLL_MS); };
  column.addEventListener("scroll", scrolled, { passive: true });
  return {
    show, look,
    shown: () => shown,
    start() { explorer = embed(host, config(shown)); },
    refresh() { explorer?.refresh?.(); },
    stop() { clearTimeout(timer); column.removeEventListener("scroll", scrolled); explorer?.destroy(); },
  };
}
