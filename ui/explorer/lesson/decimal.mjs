// Numbers as people write them: "3,67" and "3.67" are the same; "1.234" can be read in two ways.

const PLAIN = /^(-?)(\d+)(?:([.,])(\d+))?$/;
const GROUPED = /^(-?)(\d{1,3}(?:([.,])\d{3})(?:\3\d{3})*)(?:([.,])(\d+))?$/;

/**
 * What a text says, `{value, ambiguous, digits}`, or null where it is no number. One separator with
 * three digits behind it groups thousands in one language and separates decimals in the other: the
 * reader's language decides, `ambiguous` is true, and `digits` says what was read, without groups.
 * A `unit` may stand behind the number.
 */
export function readNumber(text, language, unit = "") {
  let body = text.normalize("NFKC").replace(/\s+/g, "").replace(/^\+/, "").replace("−", "-");
  if (unit && body.toLowerCase().endsWith(unit.toLowerCase())) body = body.slice(0, -unit.length);
  if (body.length > 24) return null;
  const point = language === "vi" ? "," : ".";
  const grouped = GROUPED.exec(body);
  if (grouped) {
    const [, sign, whole, group, mark, rest] = grouped;
    if (mark === group) return null;
    const separators = whole.split(group).length - 1;
    const both = separators === 1 && !mark && !whole.startsWith("0");
    if (both && group === point) return found(sign, ...whole.split(group), true, point);
    if (both || separators > 1 || mark) return found(sign, whole.replaceAll(group, ""), rest ?? "", both, point);
  }
  const plain = PLAIN.exec(body);
  return plain === null ? null : found(plain[1], plain[2], plain[4] ?? "", false, point);
}

function found(sign, whole, rest, ambiguous, point) {
  const value = Number(`${sign}${whole}.${rest || "0"}`);
  if (!Number.isFinite(value)) return null;
  return { value, ambiguous, digits: `${sign}${whole}${rest ? point + rest : ""}` };
}
