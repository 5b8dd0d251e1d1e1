// Two texts side by side: which line stands beside which, and which words of a changed line differ.
//
// Lines are compared by `compare` (diff.mjs): by value name, then by text. Here they get rows, so that
// both sides scroll as one; what has no partner stands beside an empty row.

import { common, compare } from "../diff.mjs";

/**
 * `[{before, after, left, right}]`: index of the line on each side or -1, and how it is marked.
 * Changed lines of one name that stand in the same order are partners.
 */
export function align(before, after) {
  const [left, right] = compare(before, after);
  const ids = [named(before, left, "removed"), named(after, right, "added")];
  const rows = [];
  let i = 0, j = 0;
  const alone = (upto, downto) => {
    for (; i < upto; i += 1) rows.push({ before: i, after: -1, left: left[i], right: "none" });
    for (; j < downto; j += 1) rows.push({ before: -1, after: j, left: "none", right: right[j] });
  };
  for (const [a, b] of common(...ids)) {
    alone(a, b);
    rows.push({ before: a, after: b, left: left[a], right: right[b] });
    i = a + 1;
    j = b + 1;
  }
  alone(before.length, after.length);
  return rows;
}

/** A name for each line that its partner shares, and nothing else. */
function named(lines, marks, lonely) {
  const seen = new Map();
  return lines.map((line, k) => {
    if (marks[k] === lonely) return `${lonely} ${k}`;
    const name = `${line.section}\u0000${line.key}\u0000${marks[k] === "changed" ? "\u0000" : line.text.trim()}`;
    const n = seen.get(name) ?? 0;
    seen.set(name, n + 1);
    return `${name}\u0000${n}`;
  });
}

/** Rows with changes; a run without any becomes `{skipped: n}`. */
export function onlyChanges(rows) {
  const found = [];
  for (const row of rows) {
    if (row.left !== "same" && row.right !== "same") found.push(row);
    else if (found.at(-1)?.skipped) found.at(-1).skipped += 1;
    else found.push({ skipped: 1 });
  }
  return found;
}

const WORD = /\s+|[%@]?[\p{L}\p{N}_.$]+|[^]/gu;

/** `[left, right]`: the runs `{text, mark}` of two lines, marked "same", "removed" or "added". */
export function words(before, after) {
  const [a, b] = [before.match(WORD) ?? [], after.match(WORD) ?? []];
  const pairs = common(a, b);
  const kept = [new Set(pairs.map((p) => p[0])), new Set(pairs.map((p) => p[1]))];
  return [runs(a, kept[0], "removed"), runs(b, kept[1], "added")];
}

function runs(list, kept, other) {
  const found = [];
  list.forEach((text, k) => {
    const mark = kept.has(k) ? "same" : other;
    if (found.at(-1)?.mark === mark) found.at(-1).text += text;
    else found.push({ text, mark });
  });
  return found;
}
