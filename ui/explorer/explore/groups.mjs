// Groups of a graph that open and close: fused ones, and those that the layout found by structure or name.
//
// A group is `{id, key, label, fused, members}` with the keys of its nodes. What is closed is drawn as one
// box at its place; edges from and to its nodes end there, edges within it are not drawn.

/** The groups of a state: those of the layout (`{key, label, members}`), largest first, then fused ones. */
export function groupsOf(drawn, places) {
  if (places?.overview) return places.overview.groups.flatMap((group) => structural(drawn, group, 1));
  const inside = new Map(drawn.groups.map((group) => [group.key, []]));
  for (const node of drawn.nodes) if (node.group) inside.get(node.group)?.push(node.key);
  const fused = drawn.groups.filter((group) => inside.get(group.key).length > 0).map((group) => ({
    id: `fused ${group.key}`, key: group.key, label: `fused ${group.key}`, fused: true, of: group, members: inside.get(group.key),
  }));
  const found = (places?.groups ?? []).flatMap((group) => structural(drawn, group, 2));
  return [...found.sort((a, b) => b.members.length - a.members.length), ...fused];
}

function structural(drawn, { key, label, members }, least) {
  const here = members.filter((member) => drawn.byKey.has(member));
  return here.length < least ? [] : [{ id: `group ${key}`, key, label, fused: false, of: null, members: here }];
}

/** node key -> the closed group that stands for it; of nested ones the largest. */
export function hiddenBy(groups, closed) {
  const hidden = new Map();
  for (const group of groups) {
    if (!closed.has(group.id)) continue;
    for (const member of group.members) if (!hidden.has(member)) hidden.set(member, group);
  }
  return hidden;
}

/** group -> `{ins, outs}` of what is drawn as one box: values that enter it and that leave it. */
export function boundaries(hidden, drawn) {
  const found = new Map();
  for (const group of hidden.values()) if (!found.has(group)) found.set(group, { ins: new Set(), used: new Set() });
  for (const { from, to, value } of drawn.edges) {
    const [a, b] = [hidden.get(from), hidden.get(to)];
    if (a === b) continue;
    if (b) found.get(b).ins.add(value);
    if (a) found.get(a).used.add(value);
  }
  return new Map([...found].map(([group, { ins, used }]) => [group,
    group.of ?? { ins: [...ins], outs: [...used].map((value) => drawn.producer.get(value)) }]));
}

/** `closed` with one id changed to the other state. */
export function toggled(closed, id) {
  const next = new Set(closed);
  if (!next.delete(id)) next.add(id);
  return next;
}
