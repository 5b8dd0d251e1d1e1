// Arithmetic of lessons: numbers, names, + - * / ** and brackets. The same as lessons/arith.py;
// tests/lessons/arithmetic.json holds both to the same values.

const TOKEN = /\s*(?:(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)|(\*\*|[-+*/()]))/y;
const LONGEST = 400, DEEPEST = 50;

/** The expression as a tree of arrays; throws where `text` is none. */
export function parse(text) {
  if (text.length > LONGEST) throw new Error(`longer than ${LONGEST} characters`);
  let at = 0, deep = 0, kind = "", token = "";

  const problem = () => new Error(`${JSON.stringify(text)} is no expression: ${token || text.slice(at).trim() || "the end"}`);

  function next() {
    TOKEN.lastIndex = at;
    const match = TOKEN.exec(text);
    if (match === null) {
      if (text.slice(at).trim()) { token = ""; throw problem(); }
      kind = token = "";
      return;
    }
    at = TOKEN.lastIndex;
    kind = match[1] !== undefined ? "number" : match[2] !== undefined ? "name" : "sign";
    token = match[1] ?? match[2] ?? match[3];
  }

  function takes(...signs) {
    if (kind !== "sign" || !signs.includes(token)) return "";
    const sign = token;
    next();
    return sign;
  }

  function deeper(inner) {
    deep += 1;
    if (deep > DEEPEST) throw new Error(`more than ${DEEPEST} levels deep`);
    const found = inner();
    deep -= 1;
    return found;
  }

  function sum() {
    return deeper(() => {
      let left = product(), sign;
      while ((sign = takes("+", "-"))) left = [sign, left, product()];
      return left;
    });
  }

  function product() {
    let left = signed(), sign;
    while ((sign = takes("*", "/"))) left = [sign, left, signed()];
    return left;
  }

  function signed() {
    if (!takes("-")) return power();
    return deeper(() => ["minus", signed()]);
  }

  function power() {
    const base = atom();
    return takes("**") ? ["**", base, signed()] : base;
  }

  function atom() {
    const [was, text_] = [kind, token];
    if (was === "number") { next(); return ["number", Number(text_)]; }
    if (was === "name") { next(); return ["name", text_]; }
    if (takes("(")) {
      const found = sum();
      if (!takes(")")) throw problem();
      return found;
    }
    throw problem();
  }

  next();
  const found = sum();
  if (kind) throw problem();
  return found;
}

/** Every name of an expression, in order. */
export function names(tree) {
  if (tree[0] === "name") return [tree[1]];
  if (tree[0] === "number") return [];
  return tree.slice(1).flatMap(names);
}

/** The value, or null where a name has none or the result is not finite. */
export function evaluate(tree, lookup) {
  const [kind, a, b] = tree;
  if (kind === "number") return a;
  if (kind === "name") return lookup(a) ?? null;
  const left = evaluate(a, lookup);
  if (left === null) return null;
  if (kind === "minus") return -left;
  const right = evaluate(b, lookup);
  if (right === null) return null;
  const found = kind === "+" ? left + right : kind === "-" ? left - right : kind === "*" ? left * right
    : kind === "/" ? left / right : left ** right;
  return Number.isFinite(found) ? found : null;
}

/** `text` evaluated where names are sizes. */
export const valueOf = (text, sizes) => evaluate(parse(text), (name) => (Object.hasOwn(sizes, name) ? sizes[name] : null));
