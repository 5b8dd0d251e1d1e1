// Dimensions and byte counts over symbols: `12*rows*cols+8*cols`, `(s+1)//2`.
//
// The text is the compiler's (docs/ir.md). A parsed dimension is a function of the sizes, so that a
// slider binds a symbol without asking anybody.

const parsed = new Map();

/** What a record holds under a name that a model gave; `constructor` and `__proto__` are names like others. */
export const own = (record, name) => (record && Object.hasOwn(record, name) ? record[name] : undefined);

/** The value of a dimension's text at `sizes`; null where a symbol is unbound or the text is null. */
export function evaluate(text, sizes) {
  if (text === null || text === undefined) return null;
  let made = parsed.get(text);
  if (made === undefined) {
    made = parse(text);
    parsed.set(text, made);
  }
  const value = made(sizes);
  return Number.isNaN(value) ? null : value;
}

/** The sum of the texts' values at `sizes`; null where one is not known. */
export function sum(texts, sizes) {
  return texts.map((text) => evaluate(text, sizes)).reduce((total, value) => (total === null || value === null ? null : total + value), 0);
}

/**
 * Bytes of a step of a plan at `sizes`: its `floor`, `reads` or `writes`. They hold where its domain is not
 * empty, and are no more than what it touches (an empty loop reads no row vector); null where not known.
 */
export function stepBytes(step, key, sizes) {
  const value = evaluate(step[key], sizes), domain = evaluate(step.domain, sizes);
  if (value === null || domain === null) return null;
  const touched = evaluate(step.touched, sizes);
  return domain === 0 ? 0 : touched === null ? value : Math.min(value, touched);
}

/** `{bytes, exact}` of a run: the sum of its steps' floors; bytes are null where one is not known. */
export function totalFloor(steps, sizes) {
  let bytes = 0, exact = true;
  for (const step of steps) {
    const floor = stepBytes(step, "floor", sizes);
    if (floor === null) return { bytes: null, exact: false };
    bytes += floor;
    exact = exact && (step.exact || floor === 0);
  }
  return { bytes, exact };
}

/** The symbols in a dimension's text, in order of appearance. */
export function symbolsOf(text) {
  const found = new Set();
  for (const token of tokens(text ?? "")) if (token.name !== undefined) found.add(token.name);
  return [...found];
}

const TOKEN = /\s*(?:(\d+)|"((?:[^"\\]|\\.)*)"|([A-Za-z_][\w.]*)|(\/\/|[-+*()]))/y;

function tokens(text) {
  const found = [];
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < text.length) {
    const start = TOKEN.lastIndex;
    const match = TOKEN.exec(text);
    if (match === null) throw new SyntaxError(`no dimension: ${text.slice(start)}`);
    if (match[1] !== undefined) found.push({ number: Number(match[1]) });
    else if (match[2] !== undefined) found.push({ name: JSON.parse(`"${match[2]}"`) });
    else if (match[3] !== undefined) found.push({ name: match[3] });
    else found.push({ sign: match[4] });
  }
  return found;
}

/** sum = ["-"] term {("+"|"-") term}; term = factor {("*"|"//") factor}. */
function parse(text) {
  const list = tokens(text);
  let at = 0;
  const take = (sign) => list[at]?.sign === sign && (at += 1) > 0;
  function factor() {
    const token = list[at];
    at += 1;
    if (token?.number !== undefined) return () => token.number;
    if (token?.name !== undefined) return (sizes) => own(sizes, token.name) ?? NaN;
    if (token?.sign !== "(") throw new SyntaxError(`no dimension: ${text}`);
    const inner = sum();
    if (!take(")")) throw new SyntaxError(`no dimension: ${text}`);
    return inner;
  }
  function term() {
    let left = factor();
    for (;;) {
      const before = left;
      if (take("*")) { const right = factor(); left = (s) => before(s) * right(s); }
      else if (take("//")) { const right = factor(); left = (s) => Math.floor(before(s) / right(s)); }
      else return left;
    }
  }
  function sum() {
    const negative = take("-");
    const first = term();
    let left = negative ? (s) => -first(s) : first;
    for (;;) {
      const before = left;
      if (take("+")) { const right = term(); left = (s) => before(s) + right(s); }
      else if (take("-")) { const right = term(); left = (s) => before(s) - right(s); }
      else return left;
    }
  }
  const whole = sum();
  if (at !== list.length) throw new SyntaxError(`no dimension: ${text}`);
  return whole;
}
