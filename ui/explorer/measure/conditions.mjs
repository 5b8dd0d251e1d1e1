// The condition card: without it no figure can be compared.

import { code, h, unseen } from "../dom.mjs";
import { date, known, number, t } from "../text.mjs";

const ORDER = [
  "device", "cpu", "cores", "threads", "capability", "driver", "processors", "target", "dtype", "numerics", "sizes",
  "inputs", "warmups", "repetitions", "cache", "concurrency", "clock", "reference", "bytes", "counters", "cache_model",
  "versions", "date", "fallback",
];

/** The card of a measurement's conditions; every key that there is is shown. `of`: what it is heard to be of. */
export function conditionCard(conditions, id = "conditions", of = "") {
  return h("aside", { class: "conditions", "aria-labelledby": `${id}-title` },
    h("h3", { id: `${id}-title` }, t("conditions.title"), of ? unseen(` (${of})`) : null),
    h("dl", null, rows(conditions).map(([name, value]) => h("div", null, h("dt", null, name), h("dd", null, value)))));
}

/** [name, value] of every condition that is stated, in words of the reader's language. */
export function rows(conditions) {
  const keys = [...ORDER, ...Object.keys(conditions).filter((key) => !ORDER.includes(key))];
  return keys.filter((key) => ![undefined, null, ""].includes(conditions[key]))
    .map((key) => [known(`conditions.${key}`) ? t(`conditions.${key}`) : key, say(key, conditions[key])]);
}

/** Values with figures or causes in them. */
const FORMS = [
  ["conditions.value.made", /^made, seed (?<seed>\d+)$/],
  ["conditions.value.evaluator", /^onnx ReferenceEvaluator, declared \((?<why>.*)\)$/s],
  ["conditions.value.lru", /^LRU, (?<size>\d+ MiB), (?<ways>\d+) ways, write-allocate$/],
  ["conditions.value.closed", /^(?:the driver keeps its counters closed|CUPTI refused to sample) \((?<error>.*)\): /s],
  ["conditions.value.uninstalled", /^cupti-python is not installed: (?<way>.*)$/s],
];

function say(key, value) {
  if (key === "date") return date(value);
  if (typeof value === "number") return number(value);
  if (typeof value === "boolean") return t(value ? "answer.yes" : "answer.no");
  if (Array.isArray(value)) return value.length ? value.join(" · ") : t("figure.none");
  if (typeof value === "object") {
    return Object.entries(value).map(([k, v]) => `${k} ${typeof v === "number" ? number(v) : v}`).join(" · ") || t("figure.none");
  }
  for (const [message, form] of FORMS) {
    const found = form.exec(value);
    if (found) return t(message, found.groups);
  }
  const word = `conditions.value.${String(value).replaceAll(/[ ']+/g, "-")}`;
  return known(word) ? t(word) : code(value);
}

/** The conditions in one line, for tables that travel alone. */
export function oneLine(conditions) {
  const text = (value) => (typeof value === "string" ? value : value.textContent);
  return rows(conditions).map(([name, value]) => `${name}: ${text(value)}`).join("; ");
}
