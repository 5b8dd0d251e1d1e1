"""Which nodes of a graph belong together, so that they can be drawn as one box.

    1. repeated structure   blocks of ops in a row that have the same kinds and the same edges
    2. names                `layer.3.attn.q` and `layer.3.attn.k` share `layer.3.attn`
    3. neighbours           a weight, or a node that a rewrite removed, joins who it stands with

Repeated blocks are found as repeats in the program's order: at distance p, op i and op i + p are of
one kind for at least p ops. Where a block starts is open by as much as the repeat is longer than
its blocks; the cut that fewest values cross is taken. `overview` covers a whole graph with few
boxes.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import accumulate, pairwise

LEAST = 3
"""Nodes of a group."""

BOXES = 300
"""Boxes of an overview, at most."""

ENDS = ("input", "output")
"""Kinds that stand outside of all groups, so that a graph's ends stay in sight."""

TRIED, FOUND = 12, 40
"""Distances at which a repeat is looked for, and repeats after which the search ends."""

Edges = Iterable[tuple[str, str]]


@dataclass(frozen=True)
class Group:
    """`members` in program order. Equal labels: the same structure, as often as the label says."""

    label: str
    members: tuple[str, ...]


def groups(kinds: Mapping[str, str], edges: Edges, core: AbstractSet[str]) -> tuple[Group, ...]:
    """Groups of at least `LEAST` nodes, apart from each other; none when there are not two.

    `kinds`: key of a node -> its kind, in program order. `core`: the nodes whose order and edges
    are those of one state; the others join them.
    """
    known = [(a, b) for a, b in edges if a in kinds and b in kinds]
    ops = [k for k, kind in kinds.items() if k in core and kind not in (*ENDS, "param")]
    number = {key: n for n, key in enumerate(ops)}
    reads: list[set[int]] = [set() for _ in ops]
    for a, b in known:
        if a in number and b in number and number[a] < number[b]:
            reads[number[b]].add(number[a])
    owner: dict[str, int] = {}
    labels: list[str] = []
    for start, period, count in repeats([kinds[key] for key in ops], reads):
        blocks = [ops[at : at + period] for at in range(start, start + count * period, period)]
        name = _block_name(blocks, kinds)
        for block in blocks:
            owner.update(dict.fromkeys(block, len(labels)))
            labels.append(f"{name} ×{count}")
    for name, members in _by_name([k for k in ops if k not in owner], kinds):
        owner.update(dict.fromkeys(members, len(labels)))
        labels.append(name)
    loose = [k for k, kind in kinds.items() if kind == "param" or k not in core]
    _adopt(owner, loose, kinds, known)
    members_of: dict[int, list[str]] = defaultdict(list)
    for key in kinds:
        if key in owner:
            members_of[owner[key]].append(key)
    found = [Group(labels[g], tuple(m)) for g, m in members_of.items() if len(m) >= LEAST]
    return tuple(found) if len(found) > 1 else ()


def overview(
    kinds: Mapping[str, str], edges: Edges, core: AbstractSet[str], most: int = BOXES
) -> tuple[Group, ...]:
    """All nodes in at most `most` groups (and at least two), those of one node included.

    Where structure and names leave more, neighbours in the program's order go together.
    """
    found = groups(kinds, edges, core)
    of = {key: g for g in found for key in g.members}
    boxes = list(dict.fromkeys(of.get(key) or Group(key, (key,)) for key in kinds))
    ends = [g for g in boxes if len(g.members) == 1 and kinds[g.members[0]] in ENDS]
    if len(ends) <= most // 4:
        inner = [g for g in boxes if g not in set(ends)]
        return (*_merged(inner, most - len(ends)), *ends)
    return _merged(boxes, most)


def _merged(boxes: Sequence[Group], most: int) -> tuple[Group, ...]:
    size = -(-len(boxes) // most)
    if size <= 1:
        return tuple(boxes)
    found: list[Group] = []
    for at in range(0, len(boxes), size):
        run = boxes[at : at + size]
        first, last = run[0].label, run[-1].label
        label = first if first == last else f"{first} … {last}"
        found.append(Group(label, tuple(key for g in run for key in g.members)))
    return tuple(found)


# ---- repeated structure --------------------------------------------------------------------------


def repeats(kinds: Sequence[str], reads: Sequence[AbstractSet[int]]) -> list[tuple[int, int, int]]:
    """`(start, period, count)` of blocks in a row that are alike; apart, the largest first.

    `reads[i]` are the ops before i whose values op i reads. A block has two kinds at least.
    What is left beside a repeat is searched too, down to a hundredth of the ops.
    """
    found: list[tuple[int, int, int]] = []
    waiting = [(0, len(kinds))]
    crossing = _crossing(reads)
    while waiting and len(found) < FOUND:
        low, high = waiting.pop()
        if high - low < max(4, len(kinds) // 100):
            continue
        best = _best_repeat(low, high, kinds, reads, crossing)
        if best is not None:
            start, period, count = best
            found.append(best)
            waiting += [(low, start), (start + period * count, high)]
    return sorted(found, key=lambda r: (-r[1] * r[2], r[0]))


def _best_repeat(
    low: int,
    high: int,
    kinds: Sequence[str],
    reads: Sequence[AbstractSet[int]],
    crossing: Sequence[int],
) -> tuple[int, int, int] | None:
    """The repeat of ops low … high - 1 that covers most, the shortest block among equals."""
    distances: Counter[int] = Counter()
    for length in (2, 4, 8):
        last: dict[tuple[str, ...], int] = {}
        for i in range(low, high - length + 1):
            gram = tuple(kinds[i : i + length])
            if gram in last and i - last[gram] >= 2:
                distances[i - last[gram]] += 1
            last[gram] = i
    runs: list[tuple[int, int, int, int]] = []
    for p, _ in distances.most_common(TRIED):
        i = low
        while i + p < high:
            first = i
            while i + p < high and kinds[i] == kinds[i + p]:
                i += 1
            if i - first >= p and len(set(kinds[first : first + p])) > 1:
                count = (i - first) // p + 1
                runs.append((count * p, -p, first, i + p))
            i += 1
    for _, negative, first, stop in sorted(runs, reverse=True)[:TRIED]:
        alike = _alike(first, stop, -negative, reads, crossing)
        if alike is not None:
            return alike
    return None


def _alike(
    first: int,
    stop: int,
    period: int,
    reads: Sequence[AbstractSet[int]],
    crossing: Sequence[int],
) -> tuple[int, int, int] | None:
    """Blocks of a run: cut where fewest values cross, as many in a row as have equal edges."""
    count, spare = divmod(stop - first, period)
    start = min(
        range(first, first + spare + 1),
        key=lambda s: sum(crossing[s + k * period] for k in range(count + 1)),
    )

    def inside(k: int) -> list[frozenset[int]]:
        low = start + k * period
        return [frozenset(r - low for r in reads[i] if r >= low) for i in range(low, low + period)]

    blocks = [inside(k) for k in range(count)]
    longest, at = 1, 0
    run, begun = 1, 0
    for k, (one, other) in enumerate(pairwise(blocks), 1):
        run, begun = (run + 1, begun) if one == other else (1, k)
        if run > longest:
            longest, at = run, begun
    return (start + at * period, period, longest) if longest > 1 else None


def _crossing(reads: Sequence[AbstractSet[int]]) -> list[int]:
    """How many values made before op i are read by it or later, for i = 0 … number of ops."""
    change = [0] * (len(reads) + 1)
    last: dict[int, int] = {}
    for i, read in enumerate(reads):
        for r in read:
            last[r] = i
    for made, end in last.items():
        change[made + 1] += 1
        change[end + 1] -= 1
    return list(accumulate(change))


# ---- names ---------------------------------------------------------------------------------------


def words(name: str) -> list[str]:
    """`/layer.3/attn_q` as layer, 3, attn, q."""
    return re.findall(r"[^\W\d_]+|\d+", name)


def _block_name(blocks: Sequence[Sequence[str]], kinds: Mapping[str, str]) -> str:
    """What the names of each block share, a `*` where the blocks differ; else their kinds."""
    shared = [_shared(block) for block in blocks]
    pattern = [
        at[0] if len(set(at)) == 1 else "*"
        for at in zip(*shared, strict=False)  # as far as the shortest
    ]
    while pattern and pattern[-1] == "*" and not any(w.isalpha() for w in pattern[:-1]):
        pattern.pop()
    if any(w.isalpha() for w in pattern):
        return ".".join(pattern)
    found = list(dict.fromkeys(kinds[key].removeprefix("onnx.") for key in blocks[0]))
    return " ".join(found[:3]) + (" …" if len(found) > 3 else "")


def _shared(names: Sequence[str]) -> list[str]:
    """The words that at least two thirds of the names start with."""
    left = [words(name) for name in names]
    found: list[str] = []
    while True:
        at = len(found)
        nexts = Counter(w[at] for w in left if len(w) > at)
        if not nexts:
            return found
        word, times = nexts.most_common(1)[0]
        if 3 * times < 2 * len(names):
            return found
        found.append(word)
        left = [w for w in left if len(w) > at and w[at] == word]


def _by_name(keys: Sequence[str], kinds: Mapping[str, str]) -> list[tuple[str, list[str]]]:
    """Nodes whose names start with the same words, at the first word where names part.

    A word that is a kind (`MatMul_12`) tells no structure.
    """
    plain = {part.lower() for key in keys for part in kinds[key].split(".")}
    left = [(key, words(key)) for key in keys]
    prefix: list[str] = []
    while True:
        at = len(prefix)
        parts: dict[str, list[str]] = defaultdict(list)
        for key, found in left:
            if len(found) > at + 1 and found[at].lower() not in plain:
                parts[found[at]].append(key)
        large = {word: members for word, members in parts.items() if len(members) >= LEAST}
        if len(large) != 1:
            return [(".".join([*prefix, word]), members) for word, members in large.items()]
        ((word, members),) = large.items()
        prefix.append(word)
        kept = set(members)
        left = [(key, found) for key, found in left if key in kept]


# ---- neighbours ----------------------------------------------------------------------------------


def _adopt(
    owner: dict[str, int],
    loose: Sequence[str],
    kinds: Mapping[str, str],
    edges: Sequence[tuple[str, str]],
) -> None:
    """Loose nodes join the one group that they touch, round by round."""
    near: dict[str, set[str]] = defaultdict(set)
    for a, b in edges:
        near[b].add(a)
        near[a].add(b)
    for _ in range(LEAST):
        joins: dict[str, int] = {}
        for key in loose:
            if key in owner or kinds[key] in ENDS:
                continue
            touched = {owner[k] for k in near[key] if k in owner}
            if len(touched) == 1:
                joins[key] = touched.pop()
        owner.update(joins)
