// Search over what a state shows: nodes of the graph and lines of the IR.

/** Sections whose lines name values; a kernel's lines are its own. */
const SHOWN = new Set(["module", "graph"]);

/** `[{key, text, node, line}]` of both states; what is in both, and a value that many lines name, is found once.
 * First what stands in the graph, then the other lines, each in program order. An empty text
 * finds nothing. */
export function find(text, before, after) {
  const wanted = text.trim().toLowerCase();
  if (wanted === "") return [];
  const found = [], seen = new Set();
  for (const state of [after, before]) {
    for (const line of state.lines) {
      if (!line.text.toLowerCase().includes(wanted)) continue;
      const node = SHOWN.has(line.section) ? state.byKey.get(line.key) : undefined;
      const id = node ? node.key : `${line.section}\u0000${line.key ?? ""}\u0000${line.text.trim()}`;
      if (seen.has(id)) continue;
      seen.add(id);
      found.push({ key: line.key ?? "", text: line.text.trim(), node: node ?? null, line });
    }
    for (const node of state.nodes) {
      if (seen.has(node.key) || !`${node.kind} ${node.key} ${node.label ?? ""}`.toLowerCase().includes(wanted)) continue;
      seen.add(node.key);
      found.push({ key: node.key, text: node.key, node, line: null });
    }
  }
  return found.sort((a, b) => Number(a.node === null) - Number(b.node === null));
}
