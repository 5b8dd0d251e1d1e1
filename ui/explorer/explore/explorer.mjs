// The explorer: pass strip, two panes, inspector and dock over one state. It is a page of its own and
// stands beside the text of a lesson.
//
// A region is `region(context) -> {element, keys, draw(state, changed)}`: it is made once and drawn
// again in the frame after one of its keys changed. Actions (`act`) are the only ones that change
// the state; see `initial` for what it holds.

import { h } from "../dom.mjs";
import { createStore } from "../store.mjs";
import { totalFloor } from "../dims.mjs";
import { phrase } from "../job.mjs";
import { byFormula, t } from "../text.mjs";
import { openCompile, openImported, openPartial } from "./compile.mjs";
import { dock } from "./dock.mjs";
import { inspector } from "./inspector.mjs";
import { help } from "./help.mjs";
import { keydown } from "./keys.mjs";
import { VIEWS } from "./panebar.mjs";
import { panes } from "./panes.mjs";
import { announcement, strip } from "./strip.mjs";
import { toolbar } from "./toolbar.mjs";
import { settled, usual } from "./usual.mjs";

export { usual };

export const TABS = ["text", "rewrite", "decisions", "kernels", "memory", "drift", "biography", "pipeline", "breaks"];
export const OVERLAYS = ["none", "bytes", "time", "drift"];

const initial = {
  asked: null,      // {model, name, target, numerics, pipeline, pin}: the last compile asked for
  compile: null,    // Compile (compile.mjs) that is shown
  left: null,       // a second Compile for the left pane, or null: before and after of one compile
  leftAsked: "",    // "" or "op_by_op" or the text of another pipeline
  job: null,        // {kind, text, done, of, cancel} while something runs
  error: null,      // {message, parameters, …}
  at: 0,            // the pass
  event: null,      // null: around the whole pass; else the event, 0-based
  selection: null,  // selection.mjs
  hover: null,      // origins of the line under the pointer, or null: a preview of a selection
  tab: "rewrite",
  kernel: "",       // the kernel whose loop tree and source are shown
  why: false,       // the table of decisions shows those of the selection only
  bound: {},        // sizes by symbol that the reader bound
  overlay: "none",
  merged: false,    // one pane with the merged difference
  search: "",
  times: null,      // per-step figures of a measurement: {report}
  help: false,
  refreshed: 0,     // grows when language or theme changed: everything is drawn again
};

/** `{element, store, act, open(config), refresh(), destroy()}`. */
export function createExplorer(shell, { embedded = false } = {}) {
  const store = createStore(initial);
  let running = null, turns = 0;

  const sample = () => shell.samples.find((s) => s.name === store.get().asked?.model);

  /** Run a compile; the graph shows as soon as it is imported. `left`: for the left pane. */
  function compile(wanted, left = "") {
    const asked = { ...wanted, pipeline: settled(shell, wanted) };
    running?.cancel();
    const phase = (text, done = 0, of = 0) => store.set({ job: { kind: left ? "left" : "compile", text, done, of, cancel: () => job.cancel() } });
    const request = { kind: "compile", ...asked };
    if (left === "op_by_op") request.op_by_op = true;
    else if (left) request.pipeline = left;
    const job = shell.run(request, (event) => {
      if (running !== job) return;
      phase(...phrase(event));
      if (event.history && !left) showImported(event, asked, job);
    });
    running = job;
    store.set({ error: null, ...(left ? { leftAsked: left } : { asked, left: null, leftAsked: "" }) });
    phase(t("job.asked"));
    const done = job.done.then((event) => {
      shell.orders[asked.target] = event.default;
      return openCompile(event, { ...asked, pipeline: settled(shell, asked) });
    }).then((made) => {
      if (running !== job) return;
      running = null;
      if (left) store.set({ left: made, job: null });
      else arrive(made);
    }, (error) => {
      if (running !== job) return;
      running = null;
      fail(error.error ?? (error.message ? { ...error, message: error.message, parameters: error.parameters ?? {} } : { message: "job.gone", parameters: {} }), asked, left);
    });
    return done;
  }

  /**
   * A compile came to nothing: the last good result stays, and what is asked for is again what is
   * shown. Where there is none, what the compile left on its way is shown.
   */
  function fail(error, asked, left) {
    const { compile: shown } = store.get();
    const kept = shown?.whole ? { asked: shown.options } : {};
    store.set({ job: null, error: error.partial ? { ...error, asked } : error, pending: null, ...(left ? { leftAsked: "" } : kept) });
    if (!left && !shown?.whole && error.partial) act.showPartial({ ...error, asked });
  }

  async function showImported(event, asked, job) {
    const { compile: now } = store.get();
    if (now !== null && now.options.model === asked.model) return;
    const made = await openImported(event, asked).catch(() => null);
    if (made !== null && running === job) store.set({ compile: made, at: 0, event: null, selection: null });
  }

  /** Show a compile; the place in it is kept by the name of the pass. */
  function arrive(made) {
    const { compile: old, at, event, pending, selection } = store.get();
    const kept = old?.options.model === made.options.model ? selection : null;
    const asked = made.passes.findIndex((pass) => pass.name === pending?.pass);
    const found = asked >= 0 || !old?.whole ? asked : samePlace(old, at, made);
    const place = pending?.at ?? (found >= 0 ? found : firstChange(made));
    store.set({
      compile: made, asked: made.options, job: null, times: null, pending: null,
      at: Math.min(place, made.passes.length - 1),
      event: pending ? clampEvent(made, Math.min(place, made.passes.length - 1), pending.event) : found >= 0 && old?.options.model === made.options.model ? clampEvent(made, found, event) : null,
      selection: null,
      kernel: made.kernelNames.includes(store.get().kernel) ? store.get().kernel : made.kernelNames[0] ?? "",
    });
    const select = pending?.select ?? nameOf(kept);
    if (select) act.pick(select);
    if (!pending?.quiet) shell.announce(announcement(store.get()));
  }

  const act = {
    compile,
    cancel() { store.get().job?.cancel(); },

    /** To a pass, and there around the whole pass or around one event. */
    goto(at, event = null) {
      const { compile: made } = store.get();
      if (made === null) return;
      const place = Math.max(0, Math.min(made.passes.length - 1, at));
      store.set({ at: place, event: clampEvent(made, place, event) });
      shell.announce(announcement(store.get()));
    },
    step(by) {
      const { compile: made, at, event } = store.get();
      if (made === null) return;
      const last = made.passes[at].events.length - 1;
      if (by > 0) act.goto(at, event === null ? (last >= 0 ? 0 : null) : Math.min(last, event + 1));
      else act.goto(at, event === null || event === 0 ? null : event - 1);
    },
    changed(by) {
      const { compile: made, at } = store.get();
      const to = by > 0 ? made.passes.findIndex((p, k) => k > at && p.changed)
        : made.passes.findLastIndex((p, k) => k < at && p.changed);
      if (to >= 0) act.goto(to);
    },

    select(selection) {
      store.set({ selection });
      if (selection?.kind === "kernel") store.set({ kernel: selection.key });
    },
    /** Nothing is selected any more; what had the focus and goes with it gives it to the explorer. */
    clear() {
      const root = element.getRootNode();
      const held = element.contains(root.activeElement);
      act.select(null);
      requestAnimationFrame(() => {   // drawn by then
        if (held && !element.contains(root.activeElement)) element.focus({ preventScroll: true });
      });
      shell.announce(t("selection.cleared"));
    },
    /** Select by the name of a value, kernel or node of the model. */
    pick(name) {
      const { compile: made, at, event } = store.get();
      if (made === null) return;
      const [, kind, key] = /^(kernel|group):(.*)$/s.exec(name) ?? [];
      for (const state of kind === "group" ? made.states(at, event).reverse() : []) {
        const group = state.groups.find((g) => g.key === key);
        if (group) { act.select({ kind, key, origins: group.origins ?? [] }); return; }
      }
      if (kind === "kernel" && made.kernelNames.includes(key)) {
        made.kernel(key).then((k) => act.select({ kind, key, origins: k.origins ?? [] }), () => {});
        return;
      }
      for (const state of made.states(at, event).reverse()) {
        const node = state.byKey.get(name);
        if (node) { act.select({ kind: "node", key: name, origins: node.origins ?? [] }); return; }
      }
      const node = made.trace.nodes.find((n) => n.name === name || n.position === name);
      if (node) act.select({ kind: "origin", key: node.position, origins: [node.position] });
    },

    hover(origins) {
      const { hover } = store.get();
      if ((origins ?? []).join() !== (hover ?? []).join()) store.set({ hover: origins?.length ? origins : null });
    },
    why(why) { store.set({ why }); },
    tab(tab) { store.set({ tab }); },
    kernel(name) { store.set({ kernel: name }); },
    bind(name, size) { store.set({ bound: { ...store.get().bound, [name]: size } }); },
    overlay(overlay) { store.set({ overlay }); },
    merged(merged) { store.set({ merged }); },
    search(search) { store.set({ search }); },
    help(help) { store.set({ help }); },

    /** The left pane: "" is the state before the pass, "op_by_op" another compile. */
    left(which) {
      const { asked } = store.get();
      if (which === "") {
        if (store.get().job?.kind === "left") {
          running?.cancel();
          running = null;
          store.set({ job: null });
        }
        store.set({ left: null, leftAsked: "" });
      } else if (asked !== null) compile(asked, which);
    },
    /** Compile again with some of what was asked changed; `to`: the pass to open then, `{at}` or `{pass}`. */
    again(patch, to = null) {
      const { asked } = store.get();
      if (asked === null) return;
      store.set({ pending: to });
      compile({ ...asked, ...patch });
    },
    fail(error) { store.set({ error }); },
    /** Show how far a compile got that failed: its passes, the last good state, the pass at fault. */
    async showPartial(error) {
      const made = await openPartial(error.partial, error.asked).catch(() => null);
      if (made === null || store.get().error?.partial !== error.partial) return;
      store.set({ compile: made, asked: error.asked, at: made.passes.length - 1, event: null, selection: null });
    },
    /** The live region says what the sizes that were bound come to. */
    sizesTold() {
      if (embedded) return; // beside a text that asks for them
      const { compile: made, bound } = store.get();
      const floors = made?.trace.floors;
      if (!floors) return;
      const sizes = made.sizes(bound, sample());
      const [before, after] = [floors.op_by_op, floors.fused].map((steps) => totalFloor(steps, sizes))
        .map((floor) => byFormula(floor.bytes, floor.exact));
      shell.announce(t("totals.announce", { sizes: Object.entries(sizes).map(([name, size]) => `${name} = ${size}`).join(", "), before, after }));
    },
  };

  const context = { shell, store, act, embedded, sample };
  const regions = [toolbar(context), strip(context), panes(context), inspector(context), dock(context), help(context)];
  for (const region of regions) {
    const draw = (state, changed) => { if (state.compile !== null || region.always) region.draw(state, changed); };
    store.on([...region.keys, "refreshed"], draw);
    if (region.always) region.draw(store.get(), new Set());
  }
  const element = h("section", { class: embedded ? "explore embedded" : "explore", tabindex: "-1", "aria-label": t("explore.title") },
    regions.map((region) => region.element));
  element.addEventListener("keydown", (event) => keydown(event, context));
  if (embedded) store.on(["tab", "compile", "refreshed"], () => {   // its tabs scroll sideways
    const tabs = element.querySelector(".tabs"), now = tabs?.querySelector("[aria-selected=true]");
    if (!now) return;
    const { offsetLeft: left, offsetWidth: wide } = now;
    tabs.scrollLeft = Math.max(left + wide + 8 - tabs.clientWidth, Math.min(tabs.scrollLeft, left - 8));
  });
  // Until the first state of another model is there, nothing of the last one is seen.
  const waiting = (state) => element.classList.toggle("waiting", state.compile === null);
  store.on(["compile"], waiting);
  waiting(store.get());

  return {
    element, store, act,
    /**
     * Show what a view asks for: `{model, name, target, numerics, pipeline, pin, sizes, pass | at, event,
     * select, before, dock, overlay, view, merged}`. `before`: what the left pane shows, as `act.left`
     * takes it. It compiles only when it has to.
     */
    open(config) {
      const asked = {
        model: config.model, name: config.name ?? "", target: config.target ?? "cpu",
        numerics: config.numerics ?? "default", pin: config.pin ?? "",
        pipeline: config.pipeline || usual(shell, config.model),
      };
      asked.pipeline = settled(shell, asked);
      const { compile: now, asked: old } = store.get();
      // Beside a text, nothing stays of what an earlier view or the reader made of it.
      const patch = embedded ? { tab: initial.tab, overlay: "none", view: "", merged: false, search: "", selection: null, inside: "" } : {};
      if (config.sizes || config.model !== old?.model) patch.bound = { ...config.sizes };
      if (config.dock) patch.tab = config.dock;
      if (config.overlay) patch.overlay = OVERLAYS.includes(config.overlay) ? config.overlay : "none";
      if (config.view) patch.view = VIEWS.includes(config.view) ? config.view : "";
      if (config.merged) patch.merged = true;
      const same = old !== null && now?.whole && Object.keys(asked).every((key) => asked[key] === old[key]);
      if (same) {
        const at = config.pass ? now.passes.findIndex((p) => p.name === config.pass) : config.at ?? (embedded ? firstChange(now) : -1);
        store.set({ ...patch, ...(at >= 0 ? { at, event: config.event ?? null } : {}) });
        if (config.select) act.pick(config.select);
      } else {
        const pending = { pass: config.pass, at: config.pass ? undefined : config.at, event: config.event, select: config.select, quiet: embedded };
        store.set({ ...patch, pending, compile: null, left: null, leftAsked: "" });
      }
      const both = config.before ?? "";
      const ready = same ? Promise.resolve() : compile(asked);
      const turn = turns += 1;
      return ready.then(() => {
        if (turn !== turns) return undefined; // another view came meanwhile, and this compile was cancelled
        if (both && store.get().leftAsked !== both && store.get().compile?.whole) return compile(asked, both);
        if (!both && store.get().leftAsked && (embedded || config.before !== undefined)) act.left("");
        return undefined;
      });
    },
    refresh() {
      element.setAttribute("aria-label", t("explore.title"));
      store.set({ refreshed: store.get().refreshed + 1 });
      for (const region of regions) if (region.always) region.draw(store.get(), new Set(["refreshed"]));
    },
    destroy() { running?.cancel(); for (const region of regions) region.destroy?.(); },
  };
}

/** What `pick` takes for a selection: its key, before it `group:` or `kernel:`; "" for none. */
export function nameOf(selection) {
  if (!selection?.key) return "";
  return ["group", "kernel"].includes(selection.kind) ? `${selection.kind}:${selection.key}` : selection.key;
}

/** Where a pass stands in another compile: the same name, as often before it; -1 where it is gone. */
function samePlace(old, at, made) {
  const { name } = old.passes[at] ?? {};
  const nth = old.passes.slice(0, at).filter((pass) => pass.name === name).length;
  const places = made.passes.flatMap((pass, k) => (pass.name === name ? [k] : []));
  return places[Math.min(nth, places.length - 1)] ?? -1;
}

function firstChange(made) {
  const fuse = made.passes.findIndex((pass) => pass.name === "fuse");
  return fuse >= 0 && made.passes[fuse].changed ? fuse : Math.max(0, made.passes.findIndex((pass) => pass.changed));
}

function clampEvent(made, at, event) {
  const last = made.passes[at].events.length - 1;
  return event === null || event === undefined || last < 0 ? null : Math.max(0, Math.min(last, event));
}
