// Sentences and numbers in the reader's language.

const catalogues = new Map();
let current = { language: "vi", messages: new Map() };
let numberFormat, fourFormat, shortFormat, decimalFormat, powerFormat, dateFormat;

/** Fetch a catalogue (once) and make it the current one. */
export async function speak(language, base) {
  if (!catalogues.has(language)) {
    const answer = await fetch(new URL(`translations/${language}.json`, base));
    catalogues.set(language, new Map(Object.entries(await answer.json())));
  }
  current = { language, messages: catalogues.get(language) };
  numberFormat = new Intl.NumberFormat(language);
  fourFormat = new Intl.NumberFormat(language, { maximumSignificantDigits: 4 });
  shortFormat = new Intl.NumberFormat(language, { maximumSignificantDigits: 3 });
  decimalFormat = new Intl.NumberFormat(language, { minimumFractionDigits: 2, maximumFractionDigits: 2 });
  powerFormat = new Intl.NumberFormat(language, { notation: "scientific", maximumSignificantDigits: 3 });
  dateFormat = new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "medium" });
}

export const language = () => current.language;
export const known = (message) => current.messages.has(message);

const UNITS = { limit_bytes: bytes, took_ms: duration };

/**
 * The sentence of a message id; an unknown id shows itself. A parameter that is a message id is
 * said too; `limit_bytes` and `took_ms` get their units.
 */
export function t(message, parameters = {}) {
  const sentence = current.messages.get(message) ?? message;
  return sentence.replace(/\{(\w+)\}/g, (all, name) => {
    const value = parameters[name];
    if (value === undefined || value === null) return all;
    if (typeof value !== "number") return current.messages.get(value) ?? String(value);
    return (UNITS[name] ?? number)(value);
  });
}

/** A sentence that stands alone: a capital at its start unless a name stands there, a full stop. */
export function alone(message, parameters) {
  const said = t(message, parameters);
  const named = current.messages.get(message)?.startsWith("{");
  const start = named ? said : said.charAt(0).toLocaleUpperCase(current.language) + said.slice(1);
  return /[.?:]$/.test(start) ? start : `${start}.`;
}

/** A number: to whole ones from 1,000 up, to four digits below. */
export function number(value) {
  if (Number.isInteger(value) || Math.abs(value) >= 1000) return numberFormat.format(Math.round(value));
  return Math.abs(value) < 1e-3 ? scientific(value) : fourFormat.format(value);
}

export const short = (value) => shortFormat.format(value);
export const times = (value) => decimalFormat.format(value);
export const date = (text) => {
  const value = new Date(text);
  return Number.isNaN(value.getTime()) ? String(text) : dateFormat.format(value);
};

/** Milliseconds, in the unit that reads best. */
export function duration(milliseconds) {
  if (milliseconds === null || milliseconds === undefined) return t("figure.none");
  return durations(milliseconds)(milliseconds);
}

/** Says milliseconds in one unit, the one that reads best for `most`: the ticks of an axis. */
export function durations(most) {
  const [unit, factor] = most >= 1000 ? ["figure.seconds", 1e-3] : most >= 1 ? ["figure.milliseconds", 1] : ["figure.microseconds", 1e3];
  return (milliseconds) => t(unit, { n: short(milliseconds * factor) });
}

/** Bytes in powers of 1024. */
export function bytes(value) {
  if (value === null || value === undefined) return t("figure.none");
  const units = ["B", "KiB", "MiB", "GiB"];
  let scaled = value, k = 0;
  while (Math.abs(scaled) >= 1024 && k < units.length - 1) { scaled /= 1024; k += 1; }
  return `${k === 0 ? number(scaled) : fourFormat.format(scaled)} ${units[k]}`;
}

/** Bytes that a formula gives: a bound is said as one, and what no formula tells is unknown. */
export function byFormula(value, exact = true) {
  if (value === null || value === undefined) return t("bytes.unknown");
  return exact ? bytes(value) : t("bytes.most", { bytes: bytes(value) });
}

/** A share of one as a percentage. */
export function percent(value) {
  if (value === null || value === undefined) return t("figure.none");
  return new Intl.NumberFormat(current.language, { style: "percent", maximumFractionDigits: 1 }).format(value);
}

/** An error: from a hundredth to a million as any number, else as 4,39 × 10⁻⁷, which `aloud` reads. */
export function scientific(value) {
  if (value === null || value === undefined) return t("figure.none");
  if (!Number.isFinite(value)) return numberFormat.format(value);
  const size = Math.abs(value);
  if (size === 0 || (size >= 0.01 && size < 1e6)) return short(value);
  const found = { mantissa: "", power: "" };
  let side = "mantissa";
  for (const { type, value: part } of powerFormat.formatToParts(value)) {
    if (type === "exponentSeparator") side = "power";
    else found[side] += type === "exponentMinusSign" ? "-" : part;
  }
  return `${found.mantissa}\u00a0×\u00a010${[...found.power].map((sign) => RAISED.get(sign) ?? sign).join("")}`;
}

const RAISED = new Map([..."-0123456789"].map((sign, k) => [sign, "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"[k]]));
const LOWERED = new Map([...RAISED].map(([sign, raised]) => [raised, sign]));

/** Text as it is read aloud: powers of ten in words, since raised digits are read one by one or not at all. */
export function aloud(text) {
  return text.replace(/([\d.,]+)\s×\s10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)/g, (_, n, raised) => {
    const power = [...raised].map((sign) => LOWERED.get(sign)).join("");
    return t("figure.power", { n, power: power.startsWith("-") ? t("figure.minus", { n: power.slice(1) }) : power });
  });
}
