// The blocks of a lesson that run: views, runs, listings, predictions, exercises, the closing table.
// Each is `{element, draw(what)}`; `what` is "figures", "progress" or "all".

import { code, h, keepFocus, replace } from "../dom.mjs";
import { spoken } from "../figures.mjs";
import { download } from "../files.mjs";
import { conditionCard } from "../measure/conditions.mjs";
import { phrase } from "../job.mjs";
import { alone, date, known, language, number, t } from "../text.mjs";
import { readNumber } from "./decimal.mjs";
import { compared, evidence, FORMATS } from "./evidence.mjs";
import { kindTag } from "./prose.mjs";
import { answerOf, askedOf, cell, columnOf, hintOf, isImpossible, isRight, kindOf, reportOf, sizesText, slim, VARIANTS, withUnit } from "./values.mjs";

export const MAKE = { view, run, listing, predict, exercise, closing };

/** A number and its unit in a cell: never on two lines. */
const tight = (text) => text.replaceAll(" ", "\u00a0");

/** A name that comes again in a lesson, with its number. */
const numbered = (text, nth) => (nth > 1 ? `${text} (${number(nth)})` : text);

const id = (context, name) => `${context.state.lesson.id}/${name}`;

/** A problem as the page says all of them. `way` stands in the place of its usual way out. */
export function problem(error, way = null) {
  const { message = "error.internal", parameters = {}, text = "" } = error ?? {};
  const usual = `${message}.remedy`;
  return h("div", { class: "problem", role: "alert" },
    h("p", { class: "problem-title" }, known(message) ? alone(message, parameters) : text || message),
    way !== null ? way : known(usual) ? h("p", null, alone(usual, parameters)) : null);
}

/** What the machine is doing, with a button of this id to stop it. */
function progress(job, id) {
  const text = job.stopping ? t("job.stopping") : job.text;
  return h("div", { class: "progress" }, h("span", null, text),
    job.of && !job.stopping ? h("progress", { value: job.done, max: job.of, "aria-label": text }) : null,
    h("button", { type: "button", id, "aria-disabled": String(Boolean(job.stopping)), onclick: () => { if (!job.stopping) job.cancel(); } }, t("job.cancel")));
}

/** An element of a block by its id. */
const within = (element, name) => element.querySelector(`#${CSS.escape(name)}`);

/** How a text is read that can be read in two ways, or means what can't be; "" where nothing is to be asked. */
function doubt(read, text) {
  if (read.ambiguous) return t(/[.,]/.test(read.digits) ? "lesson.reading.decimal" : "lesson.reading.whole", { text, digits: read.digits });
  return isImpossible(read.value) ? t("lesson.reading.impossible", { text }) : "";
}

/** Run a job of a block and draw the block while it runs; the result, or null. */
async function work(block, context, request, text, { said = t("lesson.started", { what: text }), hear = () => {} } = {}) {
  const job = context.shell.run(request, (event) => {
    hear(event);
    if (event.phase !== "check") {
      const [said, done = 0, of = 0] = phrase(event);
      Object.assign(block.job, { text: `${text}: ${said}`, done, of });
    }
    block.draw("job");
  });
  block.job = { text, done: 0, of: 0, cancel() {
    block.job.stopping = true;
    context.shell.announce(t("job.stopping"));
    block.draw("job");
    job.cancel();
  } };
  block.error = null;
  block.draw("job");
  context.shell.announce(said);
  try {
    return await job.done;
  } catch (error) {
    block.error = error.error ?? error;
    context.shell.announce(t(block.error.cancelled ? "job.cancelled" : "lesson.failed"));
    return null;
  } finally {
    block.job = null;
  }
}

function ask(data, wanted) {
  return {
    kind: "measure", model: wanted.measure, numerics: wanted.numerics ?? "default",
    pipeline: wanted.pipeline ?? "", pin: "", target: "cpu", sizes: wanted.sizes, brief: true,
  };
}

/** Where a figure was taken, in a line, and the card behind it. */
export function cardOf(context, name, open = false) {
  const { state } = context;
  const got = reportOf(state, name);
  if (got === null) return null;
  const { conditions } = got.report;
  const label = state.lesson.runs[name].label[language()];
  const line = got.recorded ? "lesson.card.recorded" : "lesson.card.live";
  return h("details", { class: "card-behind", open },
    h("summary", null, t(line, { name: label, machine: conditions.cpu, date: date(conditions.date) })),
    conditionCard(conditions, `card-${context.next()}`));
}

// ---- views ---------------------------------------------------------------------------------------

function view(block, context) {
  const [name] = block.ids;
  const element = h("div", { class: "block block-view" });
  const made = { element, view: name, draw };
  const { keys, label } = context.state.lesson.views[name];
  function draw() {
    const beside = context.beside();
    const text = label[language()];
    replace(element,
      beside === null ? null : h("button", {
        type: "button", class: "view-beside", id: `view-${name}`, "aria-pressed": String(beside.shown() === name),
        onclick: () => beside.show(name, true),
      }, t("lesson.view", { label: text })),
      h("a", { class: "view-explore", href: address(keys), "aria-label": `${t("lesson.view.explore")}: ${text}`, onclick: (event) => {
        if (event.button !== 0 || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
        event.preventDefault();
        context.shell.go("explore", { config: keys });
      } }, t("lesson.view.explore")));
  }
  draw();
  return made;
}

/** What of a view an address can say: a link that is opened in another tab shows the model so. */
function address({ model, pipeline, sizes, dock, before, overlay }) {
  const query = new URLSearchParams({ model });
  if (pipeline) query.set("passes", pipeline);
  if (sizes) query.set("bind", Object.entries(sizes).map(([key, value]) => `${key}=${value}`).join(","));
  if (dock) query.set("tab", dock);
  if (before) query.set("left", before);
  if (overlay) query.set("colour", overlay);
  if (language() !== "vi") query.set("lang", language());
  return `?${query}`;
}

// ---- runs ----------------------------------------------------------------------------------------

function run(block, context, k) {
  const { state } = context;
  const element = h("section", { class: "block block-run" });
  const made = { element, job: null, error: null, draw };
  const several = block.ids.length > 1;
  const [figures, actions, cards] = [h("div"), h("div"), h("div")];
  const nth = context.nth(`run ${block.ids}`);
  element.append(figures, actions, cards);
  let tried = block.ids[0];
  const hidden = (column) => block.hide.includes(column) && !context.done(block.until);

  function head(column) {
    const { metric, which } = columnOf(column);
    const name = t(`lesson.column.${metric.replaceAll(".", "-")}`);
    const said = which ? t("lesson.column.which", { name, which: t(`lesson.which.${which}`) }) : name;
    const recorded = !several && reportOf(state, block.ids[0])?.recorded;
    return [said, " ", kindTag(kindOf([metric]), recorded && column !== "conditions.sizes")];
  }

  /** The head of a row of several runs: some may be of this visit, others recorded. */
  const rowOf = (name) => [state.lesson.runs[name].label[language()],
    reportOf(state, name)?.recorded ? [" ", h("span", { class: "kind" }, t("kind.recorded"))] : null];

  const shown = (name, column, variant) => (hidden(column)
    ? [h("span", { "aria-hidden": "true" }, "?"), h("span", { class: "unseen" }, t("lesson.hidden"))]
    : tight(cell(state, name, column, variant)));

  function rows() {
    if (several) return block.ids.map((name) => [rowOf(name), ...block.table.map((c) => shown(name, c, ""))]);
    const variants = block.rows.length ? block.rows : VARIANTS;
    return variants.map((variant) => [t(`run.${variant}`), ...block.table.map((c) => shown(block.ids[0], c, variant))]);
  }

  function draw(what = "all") {
    const names = block.ids.map((name) => state.lesson.runs[name].label[language()]).join("; ");
    const label = numbered(t("lesson.run", { names }), nth);
    element.setAttribute("aria-label", label);
    keepFocus(element, () => within(element, made.job ? `cancel-run-${k}` : `run-${k}`), () => {
      replace(actions,
        h("div", { class: "actions" }, made.job ? progress(made.job, `cancel-run-${k}`)
          : h("button", { type: "button", id: `run-${k}`, "aria-label": `${t("lesson.run.start")}: ${names}`, onclick: start }, t("lesson.run.start"))),
        made.error?.cancelled ? h("p", { class: "hint" }, t("job.cancelled")) : made.error ? problem(made.error, fallback()) : null);
    });
    if (what === "job" || (what === "progress" && !block.hide.length)) return;
    const [first] = block.ids;
    const caption = several ? names : [code(state.lesson.runs[first].measure), `, ${names}, ${sizesText(state.lesson.runs[first].sizes)}`];
    replace(figures,
      h("div", { class: "table", tabindex: 0, role: "group", "aria-label": label }, h("table", null,
        h("caption", null, caption),
        h("thead", null, h("tr", null, [t(several ? "lesson.run.what" : "lesson.run.variant"), ...block.table.map(head)]
          .map((text) => h("th", { scope: "col" }, text)))),
        h("tbody", null, rows().map((cells) => h("tr", null, cells.map((each, k) =>
          (k === 0 ? h("th", { scope: "row" }, each) : h("td", null, spoken(each))))))))),
      block.hide.some(hidden) ? h("p", { class: "hint" }, t("lesson.hidden.why")) : null);
    replace(cards, block.ids.map((name) => cardOf(context, name)));
  }

  /** What stands in the table of a run that came to nothing: the learner can't choose another size. */
  function fallback() {
    const name = state.lesson.runs[tried].label[language()];
    const got = reportOf(state, tried);
    const kept = got === null ? "lesson.run.none" : got.recorded ? "lesson.run.recorded" : "lesson.run.kept";
    return [h("p", null, t("lesson.run.failed", { name })), h("p", null, t(kept))];
  }

  async function start() {
    for (const name of block.ids) {
      tried = name;
      const wanted = state.lesson.runs[name];
      const event = await work(made, context, ask(state, wanted), wanted.label[language()]);
      if (event === null) break;
      context.add({ id: id(context, name), kind: "run", value: slim(event.report), conditions: askedOf(wanted) });
    }
    draw();
    if (!made.error) context.shell.announce(t("lesson.run.done"));
  }

  draw();
  return made;
}

// ---- listings ------------------------------------------------------------------------------------

function listing(block, context) {
  const [name] = block.ids;
  const element = h("figure", { class: "block block-listing" });
  function draw() {
    const wanted = context.state.lesson.listings[name];
    const caption = t(`lesson.listing.${wanted.side}`, { pass: wanted.at, model: wanted.model });
    replace(element, h("figcaption", null, caption),
      h("pre", { class: "listing", tabindex: 0, role: "region", "aria-label": caption },
        code(context.state.lesson.recorded.listings[name] ?? t("figure.none"))));
  }
  draw();
  return { element, draw };
}

// ---- predictions ---------------------------------------------------------------------------------

/** Nothing behind this block is shown until each of its questions is locked or skipped. */
function predict(block, context, k) {
  const { state } = context;
  const element = h("section", { class: "block block-predict" });
  const title = h("p", { class: "block-title" });
  const end = h("div");
  const nth = context.nth("predict");
  const left = () => block.ids.filter((name) => !context.done(name));
  const questions = new Map(block.ids.map((name) => [name, question(name)]));
  element.append(title, ...[...questions.values()].map((each) => each.element), end);

  function draw(what = "all") {
    const some = left().length;
    if (what === "figures" && some) return;
    title.textContent = numbered(t("lesson.predict"), nth);
    element.setAttribute("aria-label", title.textContent);
    for (const each of questions.values()) each.draw();
    replace(end, some ? h("div", { class: "actions" },
      h("button", { type: "button", id: `skip-${k}`, onclick: skip }, t("lesson.skip", { n: some })),
      h("span", { class: "hint" }, t("lesson.gate"))) : null);
  }

  /**
   * One question. Its field is made once and never drawn again: the caret stays where it is. What is
   * doubtful is asked first (`asked`, the value as it was read) and locked when it is sent again.
   */
  function question(name) {
    const { ask: asks, unit } = state.lesson.predictions[name];
    const at = `guess-${name}`;
    const host = h("div");
    const label = h("label", { for: at });
    const field = h("input", { type: "text", inputmode: "decimal", autocomplete: "off", id: at, "aria-describedby": `${at}-said`, oninput: forget });
    const after = h("span", { class: "unit" });
    const button = h("button", { type: "submit", class: "primary" });
    const said = h("p", { id: `${at}-said`, class: "said" });
    const form = h("form", { class: "question", onsubmit: (event) => { event.preventDefault(); lock(); } },
      label, h("div", { class: "answer" }, field, after, button), said);
    let asked = null, wrong = false;

    function forget() {
      if (asked === null && !wrong) return;
      asked = null;
      wrong = false;
      show();
    }

    function show() {
      label.textContent = asks[language()];
      after.textContent = unit === "x" ? t("lesson.unit.x") : unit;
      const text = t(asked === null ? "lesson.lock" : asked.ambiguous ? "lesson.lock.again" : "lesson.lock.still");
      button.textContent = text;
      button.setAttribute("aria-label", `${text}: ${asks[language()]}`);
      said.textContent = wrong ? t("lesson.predict.wrong") : asked === null ? "" : doubt(asked, field.value.trim());
      said.className = wrong ? "said wrong" : "said";
      if (wrong) field.setAttribute("aria-invalid", "true");
      else field.removeAttribute("aria-invalid");
    }

    function drawQuestion() {
      if (context.done(name)) replace(host, locked(name));
      else {
        show();
        if (host.firstChild !== form) replace(host, form);
      }
    }

    function lock() {
      const read = readNumber(field.value, language(), unit === "x" ? "" : unit);
      wrong = read === null;
      if (wrong || (doubt(read, "") && asked?.value !== read.value)) {
        asked = read;
        show();
        context.shell.announce(said.textContent);
        if (wrong) field.focus();
        return;
      }
      const opened = context.add({ id: id(context, name), kind: "lock", value: read.value, conditions: { sizes: state.lesson.sizes, language: language() } });
      finish([name], opened);
    }

    return { element: host, field, draw: drawQuestion };
  }

  function locked(name) {
    const prediction = state.lesson.predictions[name];
    const event = context.progress().locks.get(id(context, name));
    const { value: answer, kind, recorded } = answerOf(state, prediction);
    const truth = [t("lesson.answer"), " ", h("strong", null, answer === null ? t("figure.none") : withUnit(answer, prediction.unit)), " ", kindTag(kind, recorded)];
    const asked = h("p", null, prediction.ask[language()]);
    const result = (...children) => h("div", { class: "question done", id: `result-${name}`, tabindex: -1 }, asked, children);
    if (!event) return result(h("p", null, t("lesson.skipped"), " ", truth));
    const right = prediction.graded ? isRight(prediction, event.value, answer) : null;
    const hint = right === false ? hintOf(prediction, event.value, state.lesson.sizes) : null;
    return result(
      h("p", null, t("lesson.locked"), " ", h("strong", null, withUnit(event.value, prediction.unit)), ". ",
        right === null ? null : h("span", { class: right ? "verdict right" : "verdict off" }, t(right ? "lesson.right" : "lesson.off")), right === null ? null : " ",
        truth),
      hint ? h("p", { class: "hint-near" }, t("lesson.hint"), " ", hint[language()]) : null);
  }

  /** Questions came to an end: to the next one, or where none is left to what came of the first. */
  function finish(names, opened) {
    const results = names.map((name) => within(element, `result-${name}`));
    const [next] = left();
    (next ? questions.get(next).field : results[0])?.focus();
    const texts = results.map((result) => [...result.children].map((each) => each.textContent).join(" "));
    context.shell.announce([...texts, ...(opened ? [t("lesson.opened")] : [])].join(" "));
  }

  function skip() {
    const names = left();
    const opened = names.map((name) => context.add({ id: id(context, name), kind: "skip", value: null })).at(-1);
    finish(names, opened);
  }

  draw();
  return { element, draw, open: () => left().length > 0 };
}

// ---- exercises -----------------------------------------------------------------------------------

const STATES = ["off", "on"];
const MIB = 2 ** 20;

const plain = (value) => String(Number(value.toPrecision(9))).replace(".", language() === "vi" ? "," : ".");

/** Switch a pass off and on, run, and keep a ledger; graded by compiling and running. */
function exercise(block, context) {
  const { state } = context;
  const [name] = block.ids;
  const wanted = state.lesson.exercises[name];
  const sizes = Object.keys(state.lesson.sizes);
  const needed = wanted.checks.find((each) => each.check === "floor")?.sizes ?? 3;
  const element = h("section", { class: "block block-exercise" });
  const made = { element, job: null, error: null, draw };
  const nth = context.nth("exercise");
  const [head, book, form, working, graded] = Array.from({ length: 5 }, () => h("div"));
  element.append(head, book, form, working, graded);
  const pipelines = { off: `default,${wanted.pass}{by=origin}`, on: "default" };
  const ran = {};
  let on = true, checks = [], wrong = null, echoes = [], confirmed = "", after = `try-${name}`;
  const cells = Array.from({ length: needed }, () => ({}));
  restore();

  /** The last attempt comes back, so that a closed tab costs nothing. */
  function restore() {
    const last = context.progress().attempts.get(id(context, name))?.at(-1);
    if (!last?.value?.submission) return;
    const { submission } = last.value;
    checks = last.value.checks ?? [];
    for (const which of STATES) if (submission[which]) ran[which] ??= { pipeline: submission[which] };
    (submission.shapes ?? []).slice(0, needed).forEach((shape, k) => {
      for (const size of sizes) cells[k][size] = String(shape.sizes?.[size] ?? "");
      for (const which of STATES) cells[k][which] = shape[which] === null ? "" : plain(shape[which] / MIB);
    });
  }

  // Made once: what is typed, and the caret, stay while a job reports.
  const inputs = cells.map((row, k) => Object.fromEntries([...sizes, ...STATES].map((key) => [key, h("input", {
    type: "text", inputmode: "decimal", autocomplete: "off", size: 9, id: `cell-${name}-${k}-${key}`, value: row[key] ?? "", oninput: (event) => {
      row[key] = event.target.value;
      confirmed = "";
      if (wrong === null && !echoes.length) return;
      wrong = null;
      echoes = [];
      say();
    },
  })])));
  const said = h("p", { class: "said" });
  const send = h("button", { type: "submit", class: "primary", id: `submit-${name}` });

  function draw(what = "all") {
    if (what === "figures" || what === "progress") return;
    const title = numbered(t("lesson.exercise"), nth);
    element.setAttribute("aria-label", title);
    const busy = made.job !== null;
    keepFocus(element, () => within(element, busy ? `cancel-${name}` : after) ?? within(element, `try-${name}`), () => {
      replace(head, h("p", { class: "block-title" }, title),
        h("div", { class: "actions" },
          h("button", { type: "button", role: "switch", id: `switch-${name}`, "aria-checked": String(on), disabled: busy, onclick: () => { on = !on; draw(); } },
            t(on ? "lesson.switch.on" : "lesson.switch.off", { pass: wanted.pass })),
          h("button", { type: "button", id: `try-${name}`, disabled: busy, onclick: attempt }, t("lesson.exercise.run"))));
      if (busy && element.getRootNode().activeElement === send) send.blur(); // it would lose the focus unheard
      send.disabled = busy;
      if (what !== "job") {
        replace(book, ledger());
        replace(form, fields());
        say();
      }
      replace(working, busy ? progress(made.job, `cancel-${name}`) : null,
        made.error?.cancelled ? h("p", { class: "hint" }, t("job.cancelled")) : made.error ? problem(made.error, h("p", null, t("lesson.failed.remedy"))) : null);
      replace(graded, checks.length ? results() : null);
    });
  }

  function ledger() {
    const row = (which) => [t(`lesson.state.${which}`, { pass: wanted.pass }),
      ran[which]?.report ? number(ran[which].report.launches.fused) : t(ran[which] ? "lesson.ran.before" : "lesson.ran.not"),
      ran[which]?.report ? cell({ live: { x: ran[which].report }, lesson: state.lesson }, "x", "latency.p50", "fused") : ""];
    return h("div", { class: "table", tabindex: 0, role: "group", "aria-label": t("lesson.ledger") }, h("table", null,
      h("caption", null, t("lesson.ledger")),
      h("thead", null, h("tr", null,
        h("th", { scope: "col" }, t("lesson.run.variant")),
        h("th", { scope: "col" }, t("lesson.column.launches"), " ", kindTag("computed", false)),
        h("th", { scope: "col" }, t("lesson.column.latency-p50"), " ", kindTag("measured", false)))),
      h("tbody", null, STATES.map((which) => h("tr", null, row(which).map((text, k) => h(k ? "td" : "th", k ? null : { scope: "row" }, text)))))));
  }

  function fields() {
    const field = (k, key, text) => {
      inputs[k][key].setAttribute("aria-label", text);
      return h("td", null, inputs[k][key]);
    };
    return h("form", { onsubmit: (event) => { event.preventDefault(); submit(); } },
      h("div", { class: "table", tabindex: 0, role: "group", "aria-label": t("lesson.ledger.computed") }, h("table", null,
        h("caption", null, t("lesson.ledger.computed")),
        h("thead", null, h("tr", null, h("th", { scope: "col" }, t("lesson.row")), sizes.map((size) => h("th", { scope: "col" }, code(size))),
          STATES.map((which) => h("th", { scope: "col" }, t(`lesson.state.${which}`, { pass: wanted.pass }), ", MiB ", kindTag("computed", false))))),
        h("tbody", null, cells.map((_, k) => h("tr", null, h("th", { scope: "row" }, number(k + 1)),
          sizes.map((size) => field(k, size, t("lesson.cell.size", { row: k + 1, size }))),
          STATES.map((which) => field(k, which, t(`lesson.cell.${which}`, { row: k + 1 })))))))),
      said, h("div", { class: "actions" }, send));
  }

  /** What is to be said of the fields, without touching them. */
  function say() {
    said.textContent = wrong ? t(wrong.message, wrong.parameters) : echoes.join(" ");
    said.className = wrong ? "said wrong" : "said";
    send.textContent = t(echoes.length && !wrong ? "lesson.submit.again" : "lesson.submit");
    for (const [k, row] of inputs.entries()) {
      for (const [key, input] of Object.entries(row)) {
        if (wrong && wrong.k === k && wrong.key === key) input.setAttribute("aria-invalid", "true");
        else input.removeAttribute("aria-invalid");
      }
    }
  }

  function results() {
    const passed = checks.length === wanted.checks.length && checks.every((each) => each.passed);
    return h("div", { class: "results", id: `results-${name}`, tabindex: -1 }, h("p", { class: "block-title" }, t("lesson.checks")),
      h("ol", null, checks.map((each) => h("li", { class: each.passed ? "verdict-row right" : "verdict-row off" },
        h("span", { class: each.passed ? "verdict right" : "verdict off" }, t(each.passed ? "lesson.check.passed" : "lesson.check.failed")), " ",
        h("strong", null, t(`lesson.check.${each.check}`)), ". ", alone(each.message, each.parameters)))),
      made.job ? null : h("p", { class: "outcome" }, t(passed ? "lesson.passed" : "lesson.not-yet")));
  }

  async function attempt() {
    const which = on ? "on" : "off";
    after = `try-${name}`;
    const text = t(`lesson.state.${which}`, { pass: wanted.pass });
    const event = await work(made, context, ask(state, { measure: state.lesson.model, sizes: state.lesson.sizes, pipeline: pipelines[which] }), text);
    if (event !== null) {
      ran[which] = { pipeline: pipelines[which], report: event.report };
      if (checks.some((each) => !each.passed)) checks = []; // they were of what is no longer so
      context.shell.announce(t("lesson.run.done"));
    }
    draw();
  }

  /** The submission that the fields make, or null with `wrong` set. */
  function read() {
    wrong = null;
    echoes = [];
    const shapes = [];
    for (const [k, row] of cells.entries()) {
      const texts = [...sizes, ...STATES].map((key) => (row[key] ?? "").trim());
      if (texts.every((text) => text === "")) continue;
      const shape = { sizes: {}, off: null, on: null };
      for (const key of sizes) {
        const most = state.lesson.maximum[key];
        const found = readNumber(row[key] ?? "", language());
        const value = found !== null && Number.isInteger(found.value) ? found.value : 0;
        if (value < 1 || value > most) { wrong = { k, key, message: "lesson.wrong.size", parameters: { row: k + 1, name: key, most } }; return null; }
        if (found.ambiguous) echoes.push(doubt(found, row[key].trim()));
        shape.sizes[key] = value;
      }
      for (const key of STATES) {
        if (!(row[key] ?? "").trim()) continue;
        const found = readNumber(row[key], language(), "MiB");
        if (found === null || found.value < 0) { wrong = { k, key, message: "lesson.wrong.number", parameters: { row: k + 1 } }; return null; }
        if (found.ambiguous) echoes.push(doubt(found, row[key].trim()));
        shape[key] = found.value * MIB;
      }
      shapes.push(shape);
    }
    return { off: ran.off?.pipeline ?? null, on: ran.on?.pipeline ?? null, shapes };
  }

  async function submit() {
    const submission = read();
    if (submission === null) {
      say();
      context.shell.announce(said.textContent);
      inputs[wrong.k][wrong.key].focus();
      return;
    }
    const asked = JSON.stringify(submission);
    if (echoes.length && confirmed !== asked) {
      confirmed = asked;
      say();
      context.shell.announce(said.textContent);
      return;
    }
    echoes = [];
    checks = [];
    after = `submit-${name}`;
    say();
    const request = { kind: "exercise", lesson: state.lesson.id, exercise: name, submission };
    const event = await work(made, context, request, t("lesson.checking"), {
      said: t("lesson.checking"),
      hear: (heard) => { if (heard.phase === "check") checks = [...checks, heard.check]; },
    });
    if (event !== null) {
      checks = event.checks;
      after = `results-${name}`;
      context.add({ id: id(context, name), kind: "attempt", value: { submission, passed: event.passed, checks: event.checks } });
      const first = checks.find((each) => !each.passed);
      context.shell.announce([t(event.passed ? "lesson.passed" : "lesson.not-yet"), first ? alone(first.message, first.parameters) : ""].join(" ").trim());
    }
    draw();
  }

  draw();
  return made;
}

// ---- the closing table ---------------------------------------------------------------------------

function closing(block, context) {
  const element = h("section", { class: "block block-closing" });
  const made = { element, draw };
  function draw() {
    const { state } = context;
    const { rows, head } = evidence(state, context.progress());
    element.setAttribute("aria-label", t("lesson.closing"));
    replace(element,
      h("div", { class: "table", tabindex: 0, role: "group", "aria-label": t("lesson.closing") }, h("table", null,
        h("caption", null, t("lesson.closing")),
        h("thead", null, h("tr", null, head.map((text) => h("th", { scope: "col" }, text)))),
        h("tbody", null, rows.map((row) => h("tr", null,
          h("th", { scope: "row" }, row.label), h("td", null, tight(row.guess)),
          h("td", null, tight(row.computed), row.computedKind ? [" ", kindTag("computed", false)] : null),
          h("td", null, tight(row.measured), row.kind ? [" ", kindTag(row.kind, row.recorded)] : null),
          h("td", null, tight(compared(row)))))))),
      Object.keys(state.lesson.runs).filter((name) => rows.some((row) => row.runs.includes(name))).map((name) => cardOf(context, name)),
      h("div", { class: "actions", role: "group", "aria-label": t("lesson.export") },
        h("span", null, t("lesson.export")),
        Object.entries(FORMATS).map(([format, { name, type, write }]) => h("button", {
          type: "button", id: `export-${format}`, onclick: () => download(`${state.lesson.id}.${format}`, type, write(state, context)),
        }, name))));
  }
  draw();
  return made;
}
