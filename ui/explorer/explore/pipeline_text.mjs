// The text of a pipeline, read, changed and printed as the compiler does (docs/passes.md).
//
//     fold-constants,cse,fuse{max_ops=64}       a pipeline in full
//     default,fuse{force=[a+b]},-cse            the default order, options set, a pass dropped
//
// A pipeline is `{base, items}`: `base` is "default", "op-by-op" or "" (written in full), an item is
// `{dropped, name, options}` with options as a Map of text or lists of text. Every function makes
// a new pipeline. Names and order are the compiler's to check; only the form is read here.

export const BASES = ["default", "op-by-op"];

const STOP = new Set('{}[],="\\');
// What Python calls space: the compiler's reader ends a bare word there.
const SPACE = /[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]/;

/** A text that is no pipeline: `at` counts characters from 1, `expected` says what was missing. */
export class PipelineError extends Error {
  constructor(at, expected) {
    super(`pipeline, character ${at}: expected ${expected}`);
    Object.assign(this, { at, expected });
  }
}

/** `{base, items}` of a text; throws PipelineError. */
export function read(text) {
  const items = readItems(text);
  const first = items[0];
  const based = first !== undefined && !first.dropped && BASES.includes(first.name);
  return { base: based ? first.name : "", items: based ? items.slice(1) : items };
}

function readItems(text) {
  let at = 0;
  const fail = (expected) => { throw new PipelineError([...text.slice(0, at)].length + Math.max(1, at + 1 - text.length), expected); };
  const peek = () => {
    while (at < text.length && SPACE.test(text[at])) at += 1;
    return text[at] ?? "";
  };
  const take = (sign) => peek() === sign && (at += 1) > 0;
  const need = (sign) => { if (!take(sign)) fail(`'${sign}'`); };
  function word() {
    if (take('"')) {
      let made = "";
      while (at < text.length && text[at] !== '"') {
        if (text[at] === "\\") at += 1;
        made += text[at] ?? "";
        at += 1;
      }
      need('"');
      return made;
    }
    const start = at;
    while (at < text.length && !STOP.has(text[at]) && !SPACE.test(text[at])) at += 1;
    if (start === at) fail("a word");
    return text.slice(start, at);
  }
  function option() {
    if (!take("[")) return word();
    const list = [];
    while (!take("]")) {
      list.push(word());
      if (peek() !== "]") need(",");
    }
    return list;
  }
  const items = [];
  while (peek()) {
    const dropped = take("-");
    const name = word();
    const options = new Map();
    if (take("{")) {
      while (!take("}")) {
        const key = word();
        need("=");
        options.set(key, option());
        if (peek() !== "}") need(",");
      }
    }
    items.push({ dropped, name, options });
    if (peek()) {
      need(",");
      if (!peek()) fail("a pass after the comma");
    }
  }
  return items;
}

/** The text of a pipeline. */
export function print({ base, items }) {
  return [...(base ? [base] : []), ...items.map(printItem)].join(",");
}

/** One pass with its options: `fuse{by=origin}`. */
export function printItem({ dropped, name, options }) {
  const inside = [...options].map(([key, value]) => `${printWord(key)}=${printOption(value)}`);
  return `${dropped ? "-" : ""}${printName(name)}${inside.length ? `{${inside.join(",")}}` : ""}`;
}

function printOption(value) {
  return Array.isArray(value) ? `[${value.map(printWord).join(",")}]` : printWord(String(value));
}

function printWord(text) {
  if (text && ![...text].some((ch) => STOP.has(ch) || SPACE.test(ch))) return text;
  return `"${text.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
}

const printName = (name) => (name.startsWith("-") ? `"${name}"` : printWord(name));

// ---- options -------------------------------------------------------------------------------------

/** The value that an option has: of the last item of that name that sets it; else undefined. */
export function optionOf({ items }, name, key) {
  return items.filter((item) => !item.dropped && item.name === name && item.options.has(key)).at(-1)?.options.get(key);
}

/** The option as a list: none set is an empty one. */
export function listOf(pipeline, name, key) {
  const value = optionOf(pipeline, name, key) ?? [];
  return Array.isArray(value) ? value : [value];
}

/**
 * The pipeline with an option of a pass set on each of its items; undefined or an empty list takes
 * it away. Where the pass has no item it is added behind a base; a pipeline in full stays as it is.
 */
export function withOption(pipeline, name, key, value) {
  const away = value === undefined || (Array.isArray(value) && value.length === 0);
  const there = (item) => !item.dropped && item.name === name;
  const items = pipeline.items.map((item) => {
    if (!there(item)) return item;
    const options = new Map(item.options);
    if (away) options.delete(key);
    else options.set(key, value);
    return { ...item, options };
  }).filter((item) => !pipeline.base || item.dropped || item.options.size > 0);
  if (!away && pipeline.base && !items.some(there)) {
    items.push({ dropped: false, name, options: new Map([[key, value]]) });
  }
  return { ...pipeline, items };
}

/** The option as a list with an entry put in (`is`) or taken out. */
export function withEntry(pipeline, name, key, entry, is = true) {
  const others = listOf(pipeline, name, key).filter((other) => other !== entry);
  return withOption(pipeline, name, key, is ? [...others, entry] : others);
}

/** A pipeline over `default` in full; `order` is the default order, written in full. */
export function inFull(pipeline, order) {
  if (pipeline.base !== "default") return pipeline;
  return pipeline.items.reduce((full, { dropped, name, options }) => (dropped ? switchOff(full, name)
    : [...options].reduce((made, [key, value]) => withOption(made, name, key, value), full)), order);
}

// ---- passes --------------------------------------------------------------------------------------

/** Whether a pass takes no part: dropped, or not there; `fuse` where it only follows the nodes. */
export function isOff(pipeline, name) {
  if (name === "fuse" && optionOf(pipeline, name, "by") === "origin") return true;
  const { base, items } = pipeline;
  return items.some((item) => item.dropped && item.name === name)
    || (!base && !items.some((item) => item.name === name));
}

/** Every `name` switched off; `fuse` can't be left out, it then makes one kernel a node. */
export function switchOff(pipeline, name) {
  if (isOff(pipeline, name)) return pipeline;
  if (name === "fuse") return withOption(pipeline, name, "by", "origin");
  const items = pipeline.items.filter((item) => item.name !== name);
  if (pipeline.base) items.push({ dropped: true, name, options: new Map() });
  return { ...pipeline, items };
}

/** Switched on again: what `switchOff` did is taken back. In full it can't: `insertAt` says where. */
export function switchOn(pipeline, name) {
  const made = name === "fuse" ? withOption(pipeline, name, "by", undefined) : pipeline;
  return { ...made, items: made.items.filter((item) => !(item.dropped && item.name === name)) };
}

/** Of a pipeline in full: without item `k`. */
export function removeAt(pipeline, k) {
  return { ...pipeline, items: pipeline.items.toSpliced(k, 1) };
}

/** Of a pipeline in full: a pass, or a copy of an item, before item `k`. */
export function insertAt(pipeline, k, pass) {
  const item = typeof pass === "string" ? { dropped: false, name: pass, options: new Map() } : { ...pass };
  return { ...pipeline, items: pipeline.items.toSpliced(k, 0, item) };
}

/** Of a pipeline in full: item `k` once more, right behind itself. */
export const repeatAt = (pipeline, k) => insertAt(pipeline, k + 1, pipeline.items[k]);

/** Of a pipeline in full: item `from` put so that it becomes item `to`. */
export function moveTo(pipeline, from, to) {
  return insertAt(removeAt(pipeline, from), to, pipeline.items[from]);
}
