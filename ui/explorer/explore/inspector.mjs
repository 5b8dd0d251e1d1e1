// The inspector: everything known of what is selected, at every level, with ways to go on from it.

import { code, h, replace, s } from "../dom.mjs";
import { spoken } from "../figures.mjs";
import { aloud, byFormula, known, number, percent, t } from "../text.mjs";
import { sum } from "../dims.mjs";
import { groupTraffic, kept, traffic } from "./compile.mjs";
import { ofGroup, ofKernel } from "./selection.mjs";
import { findNode, kernelOf } from "./sides.mjs";
import { amount, atSizes, moved, moves } from "./tables.mjs";

const MANY = 12;

export function inspector({ store, act, sample }) {
  const title = h("h2", null);
  const content = h("div", { class: "inspector-content" });
  const element = h("aside", { class: "region inspector" }, title, content);
  let held = { compile: null };

  /** Plan and weights, fetched once a compile. */
  function fetched(compile) {
    if (held.compile === compile) return held;
    const mine = { compile, plan: { steps: [], buffers: [] }, params: [], kernels: new Map() };
    held = mine;
    Promise.all([compile.plan(), compile.params()]).then(([plan, params]) => {
      Object.assign(mine, { plan, params });
      if (held === mine) draw(store.get());
    }, () => {});
    return mine;
  }

  function draw(state) {
    if (state.compile === null) return;
    element.setAttribute("aria-label", t("inspector.title"));
    title.textContent = t("inspector.title");
    const { compile, selection } = state;
    if (selection === null) {
      replace(content, h("p", { class: "hint" }, t("inspector.none")));
      return;
    }
    const more = fetched(compile);
    const sizes = compile.sizes(state.bound, sample());
    const about = selection.kind === "group" ? group(state, sizes)
      : selection.kind === "kernel" ? kernel(selection.key, more, sizes)
        : selection.key ? node(state, more, sizes) : [];
    replace(content,
      h("dl", null,
        selection.key ? fact("name", code(named(compile, selection))) : null,
        about, belongs(state, more), origins(compile, selection)),
      compile.trace.decisions.length || compile.whole ? h("div", { class: "row" },
        compile.trace.decisions.length ? h("button", { type: "button", id: "inspector-why", onclick: () => { act.why(true); act.tab("decisions"); } }, t("inspector.why")) : null,
        h("button", { type: "button", id: "inspector-life", onclick: () => act.tab("biography") }, t("inspector.life"))) : null,
      atSizes(sizes));
  }

  /** An op, an input, a weight: as the state at hand has it, else as another state has it. */
  function node(state, { params }, sizes) {
    const found = findNode(state.compile, state.at, state.event, state.selection.key);
    if (found === null) return null;
    const { node: it, state: where } = found;
    const weight = it.param !== undefined ? params.find((p) => p.name === it.param) : undefined;
    const flow = where === null ? null : traffic(it, where, sizes);
    const readers = where === null ? [] : [...new Set(where.edges.filter((e) => e.from === it.key).map((e) => e.to))];
    return [
      where === null ? h("dd", { class: "hint" }, t("inspector.elsewhere")) : null,
      fact("kind", kindOf(it.kind)),
      it.attrs ? fact("attributes", code(it.attrs)) : null,
      it.type ? fact("type", code(it.type)) : null,
      where !== null && it.ins?.length ? fact("inputs", names(it.ins, "in", where)) : null,
      readers.length ? fact("readers", names(readers, "out", where)) : null,
      it.outs?.length ? fact("bytes", it.outs.map((out) => h("div", null, it.outs.length > 1 ? [code(out.name), " "] : null, amount(out.bytes, sizes)))) : null,
      flow && flow.reads + flow.writes > 0 ? fact("traffic", said(flow)) : null,
      weight ? statistics(weight) : null,
    ];
  }

  /** Values by name, each a button that selects it; a constant shows what it is. */
  function names(list, side, where) {
    return [list.slice(0, MANY).map((name, k) => (where.constants.has(name)
      ? h("span", null, code(name), " = ", code(where.constants.get(name)), " ")
      : [h("button", { type: "button", class: "plain link", id: `inspector-${side}-${k}`, onclick: () => act.pick(where.producer.get(name)?.node ?? name) }, code(name)), " "])),
    list.length > MANY ? t("inspector.more", { n: list.length - MANY }) : null];
  }

  function group({ compile, at, event, selection }, sizes) {
    const where = compile.states(at, event).reverse().find((state) => state.groups.some((g) => g.key === selection.key));
    if (where === undefined) return h("dd", { class: "hint" }, t("inspector.elsewhere"));
    const found = where.groups.find((g) => g.key === selection.key);
    const inside = where.nodes.filter((n) => n.group === found.key);
    const saved = kept(found, where);
    const total = sum(saved.map((out) => out.bytes), sizes);
    return [
      fact("kind", kindOf("fused")),
      fact("ops", [`${number(inside.length)}: `, names(inside.map((n) => n.key), "op", where)]),
      fact("inputs", names(found.ins, "in", where)),
      fact("outputs", found.outs.map((out) => h("div", null, code(out.name), " ", amount(out.bytes, sizes)))),
      fact("traffic", said(groupTraffic(found, where, sizes))),
      fact("saved", [t("inspector.saved.sum", { n: saved.length, sum: byFormula(total) }),
        h("ul", null, saved.slice(0, MANY).map((out) => h("li", null, code(out.name), " ", amount(out.bytes, sizes)))),
        saved.length > MANY ? t("inspector.more", { n: saved.length - MANY }) : null,
        saved.length ? h("p", { class: "hint" }, t("inspector.saved.hint")) : null]),
    ];
  }

  function kernel(name, { plan }, sizes) {
    const steps = plan.steps.filter((step) => step.kind === "kernel" && step.name === name);
    return [
      fact("kind", kindOf("kernel")),
      fact("steps", steps.slice(0, MANY).map((step) => h("div", null, step.values.map((v) => [code(v), " "]),
        ["reads", "writes"].map((key) => h("div", null, moved(step, key), " ", moves(step, key, sizes)))))),
      steps.length > MANY ? h("dd", null, t("inspector.more", { n: steps.length - MANY })) : null,
    ];
  }

  /** The group and the kernel that hold what is selected. */
  function belongs(state, { plan }) {
    const { compile, selection } = state;
    const found = selection.key ? findNode(compile, state.at, state.event, selection.key) : null;
    const group = selection.kind === "group" ? undefined : found?.node.group;
    const around = group === undefined ? undefined : found.state?.groups.find((g) => g.key === group);
    const name = selection.kind === "kernel" || ["input", "output", "param"].includes(found?.node.kind) ? null : kernelOf(plan, compile, selection);
    return [
      around ? fact("group", h("button", { type: "button", class: "plain link", id: "inspector-group", onclick: () => act.select(ofGroup(around)) }, code(`fused ${group}`))) : null,
      name ? fact("kernel", h("button", { type: "button", class: "plain link", id: "inspector-kernel", onclick: async () => {
        act.select(ofKernel(name, (await compile.kernel(name)).origins));
        act.tab("kernels");
      } }, code(name))) : null,
    ];
  }

  return { element, keys: ["compile", "at", "event", "selection", "bound"], draw };
}

const said = ({ reads, writes }) => t("inspector.moves", { reads: byFormula(reads), writes: byFormula(writes) });

/** What the page has a word for is called so; an op as the IR has it. */
const kindOf = (kind) => (known(`node.${kind}`) ? t(`node.${kind}`) : code(kind));

/** What a selection is called: a node of the model by its name, where it has one. */
function named({ trace }, { kind, key }) {
  const node = kind === "origin" ? trace.nodes.find((n) => n.position === key) : undefined;
  return node ? node.name || `${node.op} ${key}` : key;
}

function fact(name, value) {
  return [h("dt", null, t(`inspector.${name}`)), h("dd", { "data-fact": name }, value)];
}

/** The nodes of the model that something came from, by name. */
function origins(compile, selection) {
  if (selection.origins.length === 0) return null;
  const of = new Map(compile.trace.nodes.map((n) => [n.position, n]));
  const shown = selection.origins.slice(0, MANY);
  return fact("origins", [h("ul", { class: "origins" }, shown.map((position) => {
    const found = of.get(position);
    return h("li", null, code(position), found ? [" ", found.op, " ", code(found.name)] : null);
  })), selection.origins.length > MANY ? t("inspector.more", { n: selection.origins.length - MANY }) : null]);
}

/** Least, greatest, mean, zeros of a weight, and how its elements are spread. */
function statistics(weight) {
  if (weight.elements === undefined) return null;
  const { elements, zeros, min, max, mean, histogram } = weight;
  return fact("weight", [
    h("div", null, t("weight.elements", { n: elements }), ", ", t("weight.zeros", { share: percent(elements ? zeros / elements : 0) })),
    min === undefined ? h("div", null, t("weight.none"))
      : [h("div", null, spoken(t("weight.range", { min, max, mean }))), spread(histogram, min, max)],
  ]);
}

/** A histogram with the table behind it. */
function spread(histogram, min, max) {
  const most = Math.max(...histogram, 1), n = histogram.length;
  const edge = (k) => min + ((max - min) * k) / n;
  const peak = histogram.indexOf(Math.max(...histogram));
  return [
    s("svg", { class: "histogram", viewBox: `0 0 ${n * 8} 48`, role: "img", "aria-label": aloud(t("weight.histogram", { from: edge(peak), to: edge(peak + 1), n: histogram[peak] })) },
      histogram.map((count, k) => s("rect", { x: k * 8, width: 7, y: 48 - (46 * count) / most, height: (46 * count) / most + 1 },
        s("title", null, t("weight.bar", { from: edge(k), to: edge(k + 1), n: count }))))),
    h("details", { id: "histogram-table" }, h("summary", null, t("weight.table")),
      h("table", null, h("thead", null, h("tr", null, [t("weight.from"), t("weight.to"), t("weight.count")].map((text) => h("th", { scope: "col" }, text)))),
        h("tbody", null, histogram.map((count, k) => h("tr", null, [edge(k), edge(k + 1), count].map((value) => h("td", null, spoken(number(value))))))))),
  ];
}
