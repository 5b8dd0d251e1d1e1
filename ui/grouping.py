"""Which nodes of a graph belong together, so that they can be drawn as one box.

    1. repeated structure   blocks of ops in a row that have the same kinds and the same edges
    2. names                `layer.3.attn.q` and `layer.3.attn.k` share `layer.3.attn`
    3. neighbours           a weight, or a node that a rewrite removed, joins who it stands with

Repeated blocks are found as repeats in the program's order: at distance p, op i and op i + p are of
one kind for at least p ops. Where a block starts is open by as much as the repeat is longer than
its blocks; the cut that fewest values cross is taken. Each block is called by what its names
share, `h.3`, or by its kinds and its number, `Conv Relu #3`.

`overview` covers a whole graph with few boxes. A weight counts as part of the first op that reads
it; where boxes go together, they are neighbours that feed each other.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TypeVar

LEAST = 3
"""Nodes of a group."""

BOXES = 40
"""Boxes of an overview, at most: what a window shows with labels that can be read."""

ENDS = ("input", "output")
"""Kinds that stand outside of all groups, so that a graph's ends stay in sight."""

TRIED, FOUND = 12, 40
"""Distances at which a repeat is looked for, and repeats after which the search ends."""

Edges = Iterable[tuple[str, str]]
T = TypeVar("T")


@dataclass(frozen=True)
class Group:
    """`members` in program order; `parts` are the groups that went together to make this one."""

    label: str
    members: tuple[str, ...]
    parts: tuple[Group, ...] = ()


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
        for block, name in zip(blocks, _block_names(blocks, kinds), strict=True):
            owner.update(dict.fromkeys(block, len(labels)))
            labels.append(name)
    for name, members in _by_name([k for k in ops if k not in owner], kinds):
        owner.update(dict.fromkeys(members, len(labels)))
        labels.append(name)
    loose = [k for k, kind in kinds.items() if kind == "param" or k not in core]
    _adopt(owner, loose, kinds, known)
    members_of: dict[int, list[str]] = defaultdict(list)
    for key in kinds:
        if key in owner:
            members_of[owner[key]].append(key)
    large = {g: tuple(m) for g, m in members_of.items() if len(m) >= LEAST}
    names = dict(zip(sorted(large), _numbered([labels[g] for g in sorted(large)]), strict=True))
    found = [Group(names[g], members) for g, members in large.items()]
    return tuple(found) if len(found) > 1 else ()


def overview(
    kinds: Mapping[str, str], edges: Edges, core: AbstractSet[str], most: int = BOXES
) -> tuple[Group, ...]:
    """All nodes in at most `most` groups (and at least two), those of one node included.

    Where structure and names leave more, neighbours in the program's order go together, those
    first that read from each other.
    """
    edges = list(edges)
    number = {key: n for n, key in enumerate(kinds)}
    reader: dict[str, str] = {}
    for a, b in edges:
        if kinds[a] == "param" and (a not in reader or number[b] < number[reader[a]]):
            reader[a] = b
    known = {key: g for g in groups(kinds, edges, core) for key in g.members}
    parts: dict[Group, list[str]] = {}
    for key in kinds:
        at = reader.get(key, key) if key not in known else key
        parts.setdefault(known.get(at) or Group(at, (at,)), []).append(key)
    boxes = [Group(g.label, tuple(members)) for g, members in parts.items()]
    boxes.sort(key=lambda g: next((number[k] for k in g.members if kinds[k] != "param"), 0))
    if len(boxes) <= most:
        return tuple(boxes)
    ends = [g for g in boxes if len(g.members) == 1 and kinds[g.members[0]] in ENDS]
    if len(ends) <= most // 4:
        outside = set(ends)
        return (*_merged([g for g in boxes if g not in outside], edges, most - len(ends)), *ends)
    return _merged(boxes, edges, most)


def _merged(boxes: Sequence[Group], edges: Edges, most: int) -> tuple[Group, ...]:
    """Boxes in a row together: within runs where each feeds the next, else run by run.

    Blocks and what stands between them stay apart as far as there are boxes for it.
    """
    of = {key: n for n, g in enumerate(boxes) for key in g.members}
    linked = {of[a] for a, b in edges if a in of and b in of and of[b] == of[a] + 1}
    block = [len(g.members) >= LEAST and g.label not in g.members for g in boxes]
    alike = {n for n in linked if block[n] == block[n + 1]}
    runs = _runs(boxes, alike)
    if len(runs) > most // 2:
        runs = _runs(boxes, linked)
    if len(runs) > most:
        joined = _pieces(runs, -(-len(runs) // most))
        return tuple(_together([g for run in some for g in run]) for some in joined)
    size = -(-len(boxes) // most)
    while sum(-(-len(run) // size) for run in runs) > most:
        size += 1
    return tuple(_together(piece) for run in runs for piece in _pieces(run, size))


def _runs(boxes: Sequence[Group], joined: AbstractSet[int]) -> list[list[Group]]:
    """Boxes in a row, box n with n + 1 where n is in `joined`."""
    runs: list[list[Group]] = []
    for n, box in enumerate(boxes):
        if n - 1 in joined:
            runs[-1].append(box)
        else:
            runs.append([box])
    return runs


def _pieces(row: Sequence[T], size: int) -> list[Sequence[T]]:
    """A row cut into pieces of about the same length, at most `size`."""
    count = -(-len(row) // size)
    ends = [len(row) * k // count for k in range(count + 1)]
    return [row[a:b] for a, b in pairwise(ends)]


def _together(run: Sequence[Group]) -> Group:
    """One group, called by its first and its last: `h.3 – 7`."""
    if len(run) == 1:
        return run[0]
    first, last = run[0].label, run[-1].label
    start = 0  # of the word in which they differ
    for found in re.finditer(r"[.#/_]", first):
        if first[: found.end()] != last[: found.end()]:
            break
        start = found.end()
    members = tuple(key for g in run for key in g.members)
    return Group(f"{first} – {last[start:]}", members, tuple(run))


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


def _block_names(blocks: Sequence[Sequence[str]], kinds: Mapping[str, str]) -> list[str]:
    """What the names of each block share, where that tells the blocks apart; else their kinds."""
    shared = [_shared(block) for block in blocks]
    length = min(len(found) for found in shared)
    names = [found[:length] for found in shared]
    same = [len({name[at] for name in names}) == 1 for at in range(length)]
    while length and same[length - 1] and not all(same[:length]):
        length -= 1  # what follows the word that tells them apart tells nothing more
    found = [".".join(name[:length]) for name in names]
    if len(set(found)) == len(found) and all(any(w.isalpha() for w in name) for name in names):
        return found
    few = list(dict.fromkeys(kinds[key].removeprefix("onnx.") for key in blocks[0]))
    return [" ".join(few[:3]) + (" …" if len(few) > 3 else "")] * len(blocks)


def _numbered(names: Sequence[str]) -> list[str]:
    """Names, with a number where several are equal."""
    times, seen = Counter(names), Counter[str]()
    found: list[str] = []
    for name in names:
        seen[name] += 1
        found.append(f"{name} #{seen[name]}" if times[name] > 1 else name)
    return found


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
