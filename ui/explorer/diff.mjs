// What changed between two snapshots: first by the value's name, then by the text of its lines.
//
// Indentation is no change: an op that moves into a group keeps its line.

/** [beforeMarks, afterMarks]: for each line one of "same", "removed", "added", "changed". */
export function compare(before, after) {
  const marks = [before.map(() => "removed"), after.map(() => "added")];
  const groups = new Map();
  const gather = (lines, side) => lines.forEach((line, k) => {
    const key = `${line.section}\u0000${line.key}`;
    if (!groups.has(key)) groups.set(key, [[], []]);
    groups.get(key)[side].push(k);
  });
  gather(before, 0);
  gather(after, 1);
  for (const [left, right] of groups.values()) {
    if (left.length === 0 || right.length === 0) continue;
    const a = left.map((k) => before[k].text.trim());
    const b = right.map((k) => after[k].text.trim());
    const pairs = common(a, b);
    for (const [i, j] of pairs) {
      marks[0][left[i]] = "same";
      marks[1][right[j]] = "same";
    }
    pairRest(left.filter((k) => marks[0][k] !== "same"), right.filter((k) => marks[1][k] !== "same"), marks);
  }
  return marks;
}

/** Lines of one name that are left over on both sides changed, as far as there are as many. */
function pairRest(left, right, marks) {
  const n = Math.min(left.length, right.length);
  for (let k = 0; k < n; k += 1) {
    marks[0][left[k]] = "changed";
    marks[1][right[k]] = "changed";
  }
}

/** Index pairs of a longest common subsequence; in order of first match where it would be slow. */
export function common(a, b) {
  const pairs = [];
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) {
    pairs.push([start, start]);
    start += 1;
  }
  let ends = [a.length, b.length];
  const tail = [];
  while (ends[0] > start && ends[1] > start && a[ends[0] - 1] === b[ends[1] - 1]) {
    ends = [ends[0] - 1, ends[1] - 1];
    tail.unshift(ends);
  }
  const n = ends[0] - start, m = ends[1] - start;
  if (n * m > 1_000_000) {
    let from = start;
    for (let i = start; i < ends[0]; i += 1) {
      const at = b.indexOf(a[i], from);
      if (at >= 0 && at < ends[1]) { pairs.push([i, at]); from = at + 1; }
    }
  } else if (n > 0 && m > 0) {
    const length = Array.from({ length: n + 1 }, () => new Int32Array(m + 1));
    for (let i = n - 1; i >= 0; i -= 1)
      for (let j = m - 1; j >= 0; j -= 1)
        length[i][j] = a[start + i] === b[start + j]
          ? length[i + 1][j + 1] + 1
          : Math.max(length[i + 1][j], length[i][j + 1]);
    for (let i = 0, j = 0; i < n && j < m;) {
      if (a[start + i] === b[start + j]) { pairs.push([start + i, start + j]); i += 1; j += 1; }
      else if (length[i + 1][j] >= length[i][j + 1]) i += 1;
      else j += 1;
    }
  }
  return pairs.concat(tail);
}

/** [before, after]: key of a node -> "same", "removed", "added", "changed" or "fused". */
export function compareNodes(before, after) {
  const read = (nodes) => new Map(nodes.map((n) => [n.key, n]));
  const left = read(before), right = read(after);
  const marks = [new Map(), new Map()];
  for (const [key, node] of left) {
    const other = right.get(key);
    const same = other && other.label === node.label && other.shape === node.shape;
    marks[0].set(key, !other ? "removed" : same ? "same" : "changed");
  }
  for (const [key, node] of right) {
    const other = left.get(key);
    const same = other && other.label === node.label && other.shape === node.shape;
    marks[1].set(key, !other ? "added" : same ? (node.group && !other.group ? "fused" : "same") : "changed");
  }
  return marks;
}
