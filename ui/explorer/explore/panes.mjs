// Two panes that follow what the pass changed: graphs, loop trees, memory, source. A reader may choose.
//
// State that belongs to the panes: `view` ("" follows the pass), `closed` (ids of closed groups) and
// `inside` (the box of an overview that is open).

import { h } from "../dom.mjs";
import { t } from "../text.mjs";
import { toggled } from "./groups.mjs";
import { graphView } from "./graphview.mjs";
import { memoryOf, memoryView } from "./liveranges.mjs";
import { changedKernels, kernelFor, kernelLines, kernelSelection, loopView } from "./looptree.mjs";
import { paneBar } from "./panebar.mjs";
import { find } from "./search.mjs";
import { ofLine, ofNode } from "./selection.mjs";
import { sides } from "./sides.mjs";

/** What a pass changed, and so what the panes show: the unit of its count tells. */
export function followed({ unit, level }) {
  if (unit === "sources" || level === "source") return "source";
  if (unit === "steps") return "memory";
  if (level === "loops") return unit === "kernels" ? "kernels" : "memory";
  return "graph";
}

export function panes(context) {
  const { store, act, shell, sample } = context;
  store.set({ view: "", closed: new Set(), inside: "" });
  const graph = graphView(context, () => draw(store.get(), new Set()));
  const loops = loopView(context);
  const memory = memoryView(context);
  const bar = paneBar(context, { step, groups: graph.groups, pictures: graph.pictures, overview: graph.overview });
  const room = h("div", { class: "pane-views" });
  const element = h("section", { class: "region panes" }, bar.element, room, bar.legend);
  let found = [], place = 0, hits = new Set(), looked = null, inside = null;
  const plans = new WeakMap();

  act.view = (view) => store.set({ view });
  act.fit = () => graph.fit();
  act.pan = (dx, dy) => graph.pan(dx, dy);
  act.zoom = (steps) => graph.zoom(steps);
  act.inside = (key) => {
    const group = graph.groups().find((g) => g.key === key);
    store.set({ inside: key });
    if (group) shell.announce(t("pane.inside", { name: group.label }));
  };
  act.toggle = (group) => {
    const closed = toggled(store.get().closed, group.id);
    store.set({ closed });
    shell.announce(t(closed.has(group.id) ? "group.closed" : "group.opened", { name: group.label, n: group.members.length }));
  };
  act.closeGroups = (groups) => {
    store.set({ closed: new Set(groups.map((group) => group.id)) });
    shell.announce(groups.length ? t("groups.closed", { n: groups.length }) : t("groups.opened"));
  };
  act.chooseKernel = (name) => {
    const both = sides(store.get());
    act.select(kernelSelection(name, both));
    act.kernel(name);
  };

  /** The plan of a compile, or null until it is there; then everything is drawn again. */
  function planOf(compile) {
    if (!compile.whole) return null;
    if (!plans.has(compile)) {
      plans.set(compile, null);
      compile.plan().then((plan) => { plans.set(compile, plan); draw(store.get(), new Set()); }, () => {});
    }
    return plans.get(compile);
  }

  // ---- search ----------------------------------------------------------------------------------

  function look(state, both) {
    if (looked?.search === state.search && looked.before === both[0].state && looked.after === both[1].state) return;
    const fresh = looked?.search !== state.search;
    looked = { search: state.search, before: both[0].state, after: both[1].state };
    found = find(state.search, both[0].state, both[1].state);
    hits = new Set(found.filter((hit) => hit.node !== null).map((hit) => hit.node.key));
    place = 0;
    if (fresh && state.search.trim() !== "") shell.announce(t("search.count", { n: found.length }));
  }

  /** To the next hit, or back: it is selected and brought into the middle. */
  function step(by) {
    store.flush();   // Enter may follow the last letter within a frame
    if (found.length === 0) return;
    place = place === 0 ? (by > 0 ? 1 : found.length) : (place - 1 + by + found.length) % found.length + 1;
    const hit = found[place - 1];
    act.select(hit.node ? ofNode(hit.node) : ofLine(hit.line));
    store.flush();
    if (hit.node) graph.centreOn(hit.node.key);
    draw(store.get(), new Set());
    shell.announce(t("search.at", { n: place, of: found.length, text: hit.text }));
  }

  // ---- drawing ---------------------------------------------------------------------------------

  function draw(state, changed) {
    if (state.compile === null) return;
    element.setAttribute("aria-label", t("panes.title"));
    if (changed.has("refreshed") || !room.childElementCount) graph.repaint();
    const both = sides(state);
    look(state, both);
    const [stretch] = both[1].compile.history.stretch(state.at);
    if (state.inside !== "" && inside !== null && inside !== `${both[1].compile.digest}/${stretch}`) store.set({ inside: "" });
    inside = `${both[1].compile.digest}/${stretch}`;
    const follows = followed(both[1].compile.passes[state.at] ?? {});
    const view = state.view || follows;
    const part = { graph, kernels: loops, source: loops, memory }[view];
    if (room.firstChild !== part.element) room.replaceChildren(part.element);
    const sizes = both.map((side) => side.compile.sizes(state.bound, sample()));
    const plan = both.map((side) => planOf(side.compile));
    const shown = { view, follows, kernels: [], changed: new Set(), kernel: "", hits: found.length, place, groups: 0, marks: new Set() };
    if (view === "graph") {
      Object.assign(shown, graph.draw(both, state, hits, { sizes, plan }));
      shown.groups = graph.groups().length;
    } else if (view === "memory") {
      memory.draw(both.map((side, k) => memoryOf(side, plan[k], sizes[k])), state);
    } else {
      shown.changed = changedKernels(both);
      const lines = kernelLines(both, chosen(state, shown.changed), view === "source");
      shown.kernels = lines.names;
      shown.kernel = lines.kernel;
      loops.draw(lines, state, view === "source");
    }
    bar.draw(state, shown);
    if (changed.has("selection")) {
      const kernel = kernelFor(state.selection, both[1]);
      if (kernel && kernel !== state.kernel) act.kernel(kernel);
    }
  }

  /** The reader's kernel, or while stepping through rewrites the one that changes. */
  function chosen(state, changed) {
    return state.event !== null && changed.size > 0 && !changed.has(state.kernel) ? [...changed][0] : state.kernel;
  }

  return {
    element, draw,
    destroy() { loops.destroy(); memory.destroy(); },
    keys: ["compile", "left", "at", "event", "selection", "hover", "kernel", "bound", "overlay", "merged", "search", "times", "view", "closed", "inside"],
  };
}
