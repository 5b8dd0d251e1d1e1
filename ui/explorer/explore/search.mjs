// Search over what a state shows: nodes of the graph and lines of the IR, in program order.

/** `[{key, text, node, line}]` of both states; what is in both is found once. An empty text finds nothing. */
export function find(text, before, after) {
  const wanted = text.trim().toLowerCase();
  if (wanted === "") return [];
  const found = [], seen = new Set();
  for (const state of [after, before]) {
    for (const line of state.lines) {
      if (!line.text.toLowerCase().includes(wanted)) continue;
      const id = `${line.section}\u0000${line.key ?? ""}\u0000${line.text.trim()}`;
      if (seen.has(id)) continue;
      seen.add(id);
      const node = line.section === "graph" ? state.byKey.get(line.key) : undefined;
      if (node) seen.add(node.key);
      found.push({ key: line.key ?? "", text: line.text.trim(), node: node ?? null, line });
    }
    for (const node of state.nodes) {
      if (seen.has(node.key) || !`${node.kind} ${node.key} ${node.label ?? ""}`.toLowerCase().includes(wanted)) continue;
      seen.add(node.key);
      found.push({ key: node.key, text: node.key, node, line: null });
    }
  }
  return found;
}
