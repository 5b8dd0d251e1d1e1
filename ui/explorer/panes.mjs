// Before and after, side by side: the graph and the IR text of two snapshots.

import { blob, layout } from "./blobs.mjs";
import { compare, compareNodes } from "./diff.mjs";
import { h, replace, unseen } from "./dom.mjs";
import { draw } from "./graph.mjs";
import { t } from "./text.mjs";

const MARKS = { added: "+", removed: "−", changed: "~", same: "" };
const MOST = 3000;

/** Two columns; fills itself when the blobs have come. */
export function panes(state, act) {
  const { trace, snapshots } = state.result;
  const pass = trace.passes[state.view.at];
  const digests = [snapshots[pass.snapshot_before], snapshots[pass.snapshot_after]];
  const sides = ["before", "after"];
  const graphs = sides.map((side) => h("div", { class: "graph", tabindex: 0, role: "group",
    "aria-label": t(`pane.${side}.graph`) }, h("p", { class: "hint" }, t("pane.loading"))));
  const texts = sides.map((side) => h("div", { class: "ir", tabindex: 0, role: "group",
    "aria-label": t(`pane.${side}.text`), "data-side": side }));
  const legend = h("p", { class: "legend" },
    ["added", "removed", "changed"].map((mark) => h("span", { class: mark },
      h("span", { "aria-hidden": "true" }, `${MARKS[mark]} `), t(`mark.${mark}`))),
    h("span", { class: "fused" }, t("mark.fused")));
  const only = h("label", { class: "check" },
    h("input", { type: "checkbox", id: "only-changes", checked: state.onlyChanges,
      onchange: (event) => { state.onlyChanges = event.target.checked; fillTexts(); } }),
    t("pane.only"));
  let snapshotsNow = null;

  function fillTexts() {
    if (snapshotsNow === null) return;
    const marks = compare(snapshotsNow[0].lines, snapshotsNow[1].lines);
    texts.forEach((host, side) => replace(host, lines(snapshotsNow[side].lines, marks[side], state.onlyChanges)));
    const firsts = texts.map((host) => host.querySelector(".line.added, .line.removed, .line.changed"));
    texts.forEach((host, side) => {
      const first = firsts[side] ?? counterpart(firsts[1 - side], host);
      host.scrollTop = first ? Math.max(0, first.offsetTop - 40) : 0;
    });
  }

  Promise.all(digests.map(blob)).then((found) => {
    snapshotsNow = found;
    fillTexts();
    const marks = compareNodes(found[0].nodes, found[1].nodes);
    digests.forEach((digest, side) => {
      if (found[side].nodes.length === 0) {
        replace(graphs[side], h("p", { class: "hint" }, t("pane.empty")));
        return;
      }
      layout(digest).then(
        (placed) => {
          replace(graphs[side], draw(found[side], placed, marks[side], t(`pane.${sides[side]}`)));
          showFirst(graphs[side], placed.nodes, marks[side]);
        },
        (failure) => replace(graphs[side], h("p", { class: "hint" }, t(failure.error?.message ?? "layout.large"))));
    });
  }, (failure) => act.fail(failure.error ?? { message: "blob.gone", parameters: {} }));

  return h("section", { class: "panes", "aria-label": t("panes.title") },
    h("div", { class: "pane-bar" }, legend, only),
    h("div", { class: "columns" }, sides.map((side, k) => h("div", { class: "pane" },
      h("h3", null, t(`pane.${side}`)), graphs[k], texts[k]))));
}

/** The line of `host` of the same name as `line`, else as the nearest line above it that has one. */
function counterpart(line, host) {
  const found = new Map([...host.children].reverse().map((own) => [own.dataset.key, own]));
  for (let above = line; above; above = above.previousElementSibling) {
    if (found.has(above.dataset.key)) return found.get(above.dataset.key);
  }
  return null;
}

/** Scroll a graph to the topmost node that the pass touched. */
function showFirst(host, nodes, marks) {
  const touched = nodes.filter((node) => marks.get(node.key) !== "same");
  if (touched.length === 0) return;
  const first = touched.reduce((a, b) => (b.y < a.y ? b : a));
  host.scrollTop = Math.max(0, first.y - 60);
  host.scrollLeft = Math.max(0, first.x + first.width + 60 - host.clientWidth);
}

function lines(all, marks, onlyChanges) {
  const shown = [];
  let skipped = 0;
  const flush = () => {
    if (skipped) shown.push(h("div", { class: "line skipped" }, t("pane.skipped", { n: skipped })));
    skipped = 0;
  };
  for (let k = 0; k < all.length && shown.length < MOST; k += 1) {
    if (onlyChanges && marks[k] === "same") { skipped += 1; continue; }
    flush();
    shown.push(h("div", { class: `line ${marks[k]}`, "data-key": all[k].key },
      h("span", { class: "mark", "aria-hidden": "true" }, MARKS[marks[k]]),
      marks[k] === "same" ? null : unseen(`${t(`mark.${marks[k]}`)}: `),
      h("span", { class: "ir-text", translate: "no" }, all[k].text)));
  }
  flush();
  if (!onlyChanges && all.length > MOST) {
    shown.push(h("div", { class: "line skipped" }, t("pane.more", { n: all.length - MOST })));
  }
  return shown;
}
