// A learner's evidence: guess, arithmetic and measurement side by side, as a table and as files.

import { language, t, times } from "../text.mjs";
import { oneLine } from "../measure/conditions.mjs";
import { figure, reportOf, withUnit } from "./values.mjs";
import { valueOf } from "./arith.mjs";

/**
 * `{head, rows}` of the closing table. A row's `guess` is the locked one; `ratio` is guess / what its
 * question asks for, `against` which that is: "computed" or "measured".
 */
export function evidence(state, progress) {
  const head = ["what", "guess", "computed", "measured", "ratio"].map((key) => t(`lesson.closing.${key}`));
  const rows = state.lesson.closing.map((row) => {
    const at = `${state.lesson.id}/${row.guess}`;
    const lock = row.guess ? progress.locks.get(at) : undefined;
    const skipped = row.guess && progress.skips.has(at);
    const computed = row.computed ? valueOf(row.computed, state.lesson.sizes) : null;
    const found = row.measured ? figure(state, row.measured) : { value: null, kind: "", recorded: false, runs: [] };
    const guess = lock ? lock.value : null;
    const against = row.guess && state.lesson.predictions[row.guess].run ? "measured" : "computed";
    const right = against === "measured" ? found.value : computed;
    return {
      label: row.label[language()], unit: row.unit,
      guess: guess !== null ? withUnit(guess, row.unit) : row.guess ? t(skipped ? "lesson.skipped.short" : "lesson.open.short") : t("lesson.closing.unasked"),
      computed: computed === null ? "" : withUnit(computed, row.unit), computedKind: computed !== null,
      measured: found.value === null ? t("figure.none") : withUnit(found.value, row.unit),
      kind: found.value === null ? "" : found.kind, recorded: found.value !== null && found.recorded, runs: found.runs,
      ratio: guess !== null && right ? guess / right : null, against,
      values: { guess, computed, measured: found.value },
    };
  });
  return { head, rows };
}

function conditions(state, rows) {
  const names = Object.keys(state.lesson.runs).filter((name) => rows.some((row) => row.runs.includes(name)));
  return names.flatMap((name) => {
    const got = reportOf(state, name);
    return got ? [{ run: name, label: state.lesson.runs[name].label[language()], recorded: got.recorded, conditions: got.report.conditions }] : [];
  });
}

/** The comparison of a row in words, "" without one. */
export const compared = (row) => (row.ratio === null ? "" : t(`lesson.closing.against.${row.against}`, { n: times(row.ratio) }));

const kindText = (row) => (row.kind ? `${t(`kind.${row.kind}`)}${row.recorded ? ` · ${t("kind.recorded")}` : ""}` : "");
const piped = (text) => String(text).replaceAll("|", "\\|");
const quoted = (text) => (/[",\n]/.test(text) ? `"${String(text).replaceAll('"', '""')}"` : String(text));

function tries(state, progress) {
  return Object.keys(state.lesson.exercises).map((name) => {
    const all = progress.attempts.get(`${state.lesson.id}/${name}`) ?? [];
    return { exercise: name, attempts: all.length, passed: all.some((event) => event.value?.passed === true) };
  });
}

export function markdown(state, context) {
  const progress = context.progress();
  const { head, rows } = evidence(state, progress);
  const lines = [
    `# ${state.lesson.title[language()]}`, "",
    `| ${head.join(" | ")} |`, `|${"---|".repeat(head.length)}`,
    ...rows.map((row) => `| ${[row.label, row.guess, row.computed, [row.measured, kindText(row)].filter(Boolean).join(" · "), compared(row)].map(piped).join(" | ")} |`),
    "",
    ...tries(state, progress).map((each) => `- ${t("lesson.exercise")}: ${each.exercise}, ${t(each.passed ? "lesson.check.passed" : "lesson.check.failed")} (${each.attempts})`),
    "",
    ...conditions(state, rows).map((each) => `- ${each.label} (${t(each.recorded ? "kind.recorded" : "kind.measured")}): ${oneLine(each.conditions)}`),
  ];
  return `${lines.join("\n").trimEnd()}\n`;
}

/** One row a figure, numbers with a point whatever the language. */
export function csv(state, context) {
  const { rows } = evidence(state, context.progress());
  const dates = new Map(conditions(state, rows).map((each) => [each.run, each.conditions]));
  const head = ["lesson", "figure", "unit", "guess", "computed", "measured", "kind", "recorded", "machine", "date", "ratio", "against"];
  const lines = rows.map((row) => {
    const about = dates.get(row.runs[0]);
    return [state.lesson.id, row.label, row.unit, row.values.guess ?? "", row.values.computed ?? "", row.values.measured ?? "",
      row.kind, row.recorded, about?.cpu ?? "", about?.date ?? "",
      row.ratio ?? "", row.ratio === null ? "" : row.against].map(quoted).join(",");
  });
  return `${[head.join(","), ...lines].join("\n")}\n`;
}

export function json(state, context) {
  const progress = context.progress();
  const { rows } = evidence(state, progress);
  return `${JSON.stringify({
    schema: 1, lesson: state.lesson.id, sizes: state.lesson.sizes,
    figures: rows.map((row) => ({ label: row.label, unit: row.unit, ...row.values, kind: row.kind || null, recorded: row.recorded,
      ratio: row.ratio, against: row.ratio === null ? null : row.against })),
    exercises: tries(state, progress), conditions: conditions(state, rows),
    events: context.events().filter((event) => event.id.startsWith(`${state.lesson.id}/`)),
  }, null, 1)}\n`;
}

export const FORMATS = {
  md: { name: "Markdown", type: "text/markdown", write: markdown },
  csv: { name: "CSV", type: "text/csv", write: csv },
  json: { name: "JSON", type: "application/json", write: json },
};
