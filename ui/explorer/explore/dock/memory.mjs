// The memory plan at the sizes at hand: what each buffer takes, when it lives, where it lies.

import { code, h, replace, s } from "../../dom.mjs";
import { bars } from "../../figures.mjs";
import { bytes, number, t } from "../../text.mjs";
import { evaluate } from "../../dims.mjs";
import { offsets } from "../offsets.mjs";
import { amount, atSizes, dataTable, pick } from "../tables.mjs";

const WIDTH = 420, HEIGHT = 170;
/** What planning decides about comes first. */
const KINDS = ["arena", "object", "output", "input", "param"];

export function create({ store, act, sample }) {
  const element = h("div", { class: "memory" });
  let sort = { key: "bytes", down: true }, held = null;

  function draw(state) {
    if (state.compile === null) return;
    const { compile } = state;
    if (held?.compile !== compile) {
      held = { compile, plan: null };
      compile.plan().then((plan) => {
        if (held.compile === compile) { held.plan = plan; draw(store.get()); }
      }, (error) => act.fail(error.error ?? { message: "blob.gone", parameters: {} }));
    }
    if (held.plan === null) replace(element, h("p", { class: "hint" }, t("pane.loading")));
    else show(state, held.plan);
  }

  function show({ compile, bound, selection }, { buffers, steps }) {
    if (buffers.length === 0) {
      replace(element, h("p", null, t(compile.whole ? "memory.none" : "dock.unfinished")));
      return;
    }
    const sizes = compile.sizes(bound, sample());
    const rows = buffers.map((b) => ({ ...b, bytes: evaluate(b.size, sizes) }));
    const arena = rows.filter((b) => b.kind === "arena");
    const known = arena.every((b) => b.bytes !== null);
    const layout = known ? offsets(arena.map((b) => ({ ...b, size: b.bytes }))) : null;
    const chosen = (b) => (selection === null ? "" : b.members.includes(selection.key) || b.name === selection.key ? "picked" : "");
    const sorting = { onSort: (next) => { sort = next; draw(store.get()); }, sort };
    replace(element,
      layout === null ? h("p", null, t("memory.unbound")) : h("div", { class: "memory-figures" }, h("div", { class: "memory-bars" },
        bars(t("memory.title"), [["naive", layout.naive], ["peak", layout.peak], ["lower_bound", layout.lowerBound]].map(([name, value]) => (
          { name: t(`memory.${name}`), value, text: bytes(value), kind: name === "peak" ? "fused" : "reference" }))),
        h("p", { class: "hint" }, t("memory.about")), atSizes(sizes)),
        layout.peak > 0 ? chart(arena, layout, steps.length, chosen) : h("p", null, t("memory.empty"))),
      dataTable({
        id: "memory-table", caption: t("memory.table"), rows, ...sorting, picked: chosen,
        groups: KINDS.map((kind) => ({ title: t(`memory.group.${kind}`), holds: (b) => b.kind === kind })),
        columns: [
          { key: "name", label: t("memory.buffer"), value: (b) => b.name, cell: (b, k) => [pick(`buffer-${k}`, b.name, act), b.source && b.source !== b.name ? [" ", h("span", { class: "hint" }, code(b.source))] : null] },
          { key: "members", label: t("memory.members"), cell: (b) => b.members.map((m) => [code(m), " "]) },
          { key: "bytes", label: t("memory.bytes"), value: (b) => b.bytes, down: true, cell: (b) => amount(b.size, sizes) },
          { key: "live", label: t("memory.live"), value: (b) => b.start, cell: (b) => t("memory.range", { from: b.start + 1, to: b.stop + 1 }) },
          { key: "at", label: t("memory.offset"), value: (b) => layout?.offsets.get(b.name) ?? null,
            cell: (b) => (layout?.offsets.has(b.name) ? number(layout.offsets.get(b.name)) : "–") },
        ],
      }));
  }

  /** Live ranges over steps and offsets; the table behind it says the same. */
  function chart(arena, layout, steps, chosen) {
    const x = (step) => (step / Math.max(1, steps)) * WIDTH, y = (at) => (at / layout.peak) * HEIGHT;   // as the panes have it
    const boxes = arena.filter((b) => b.bytes > 0).map((b) => {
      const at = layout.offsets.get(b.name), size = Math.ceil(b.bytes / 64) * 64;
      const [w, height] = [x(b.stop + 1) - x(b.start) - 1, Math.max(1, y(at + size) - y(at) - 1)];
      const part = s("g", { class: `buffer ${chosen(b)}` },
        s("title", null, `${b.name}: ${bytes(b.bytes)}`),
        s("rect", { x: x(b.start), y: y(at), width: Math.max(1, w), height, rx: 2 }),
        height > 12 && w > b.name.length * 7.3 + 8 ? s("text", { x: x(b.start) + 4, y: y(at) + Math.min(height - 3, 12) }, b.name) : null);
      part.addEventListener("click", () => act.pick(b.name));
      return part;
    });
    return h("figure", { class: "memory-chart" },
      s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": t("memory.chart", { n: boxes.length, of: steps }) }, boxes),
      h("figcaption", { class: "hint" }, t("memory.axes")));
  }

  return { element, keys: ["compile", "bound", "selection"], draw };
}
