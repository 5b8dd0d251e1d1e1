"""A layered drawing in plain Python, for graphs on which Graphviz takes too long.

    rank    longest path from the sources; what only feeds one place moves down beside it
    order   nodes of a rank by where their neighbours stand
    place   the nearest places to the wished ones that keep this order and do not overlap

Each sweep wishes every node to the mean place of its neighbours, near ones counting more, and
solves each rank exactly (isotonic regression). There are no bends: an edge that would pass behind
a box leaves it to one side. A drawing that is much taller than wide is cut into columns, as text
is, where that is asked for. Groups of nodes that stay together are laid out first, each for
itself, and then are one box among the others.

Methods: Sugiyama, Tagawa and Toda, Methods for Visual Understanding of Hierarchical System
Structures, 1981, without dummy nodes; places by the pool-adjacent-violators algorithm.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from itertools import accumulate
from math import log, sqrt

ACROSS, DOWN = 14.0, 20.0
"""Space between boxes of a rank and between ranks, in pixels."""

GUTTER, SHAPE = 60.0, 1.3
"""Space between columns, in pixels, and width of a wrapped drawing over its height."""

HEAD, SIDE, FOOT = 22.0, 10.0, 13.0
"""Space around the nodes of a group, for its frame (`frame` of ui/explorer/explore/scene.mjs)."""

SWEEPS = 4
LOOKED_AT = 60
"""Ranks between the ends of an edge up to which boxes in its way are looked for."""

Size = tuple[float, float]
Place = tuple[float, float]


Edge = tuple[int, int]
Drawing = tuple[list[Place], list[list[float]]]


def clustered(
    sizes: Sequence[Size], edges: Sequence[Edge], groups: Sequence[Sequence[int]]
) -> Drawing:
    """`layered`, with nothing but its nodes within the rectangle around each group, HEAD, SIDE and
    FOOT included. Groups are apart from each other."""
    of = {v: g for g, members in enumerate(groups) for v in members}
    alone = [v for v in range(len(sizes)) if v not in of]
    box = {v: n for n, v in enumerate(alone)} | {v: len(alone) + g for v, g in of.items()}
    inner: list[list[Edge]] = [[] for _ in groups]
    for a, b in edges:
        if a in of and of[a] == of.get(b):
            inner[of[a]].append((a, b))
    corner: list[Place] = [(0.0, 0.0)] * len(sizes)
    route: dict[Edge, list[float]] = {}
    whole: list[Size] = [sizes[v] for v in alone]
    for members, within in zip(groups, inner, strict=True):
        at = {v: n for n, v in enumerate(members)}
        places, routes = layered([sizes[v] for v in members], [(at[a], at[b]) for a, b in within])
        for v, place in zip(members, places, strict=True):
            corner[v] = place
        route.update(zip(within, routes, strict=True))
        width, height = (max(corner[v][i] + sizes[v][i] for v in members) for i in (0, 1))
        whole.append((width + 2 * SIDE, height + HEAD + FOOT))
    between = list(dict.fromkeys((box[a], box[b]) for a, b in edges if box[a] != box[b]))
    firsts = [*alone, *(min(members) for members in groups)]
    order = sorted(range(len(whole)), key=firsts.__getitem__)
    number = {n: k for k, n in enumerate(order)}
    places, routes = layered(
        [whole[n] for n in order], [(number[a], number[b]) for a, b in between]
    )
    outer = dict(zip(between, routes, strict=True))
    for v in range(len(sizes)):
        x, y = places[number[box[v]]]
        dx, dy = (corner[v][0] + SIDE, corner[v][1] + HEAD) if v in of else (0.0, 0.0)
        corner[v] = (round(x + dx, 1), round(y + dy, 1))
    for members, within in zip(groups, inner, strict=True):
        for edge in within:
            x, y = places[number[box[members[0]]]]
            moved = (x + SIDE, y + HEAD)
            route[edge] = [round(v + moved[i % 2], 1) for i, v in enumerate(route[edge])]
    for a, b in edges:
        if box[a] != box[b]:
            route[a, b] = _ended(
                outer[box[a], box[b]], (corner[a], sizes[a]), (corner[b], sizes[b])
            )
    return corner, [route[edge] for edge in edges]


def _ended(route: Sequence[float], a: tuple[Place, Size], b: tuple[Place, Size]) -> list[float]:
    """A route between groups that starts at a node of one and ends at a node of the other."""
    (ax, ay), (aw, ah) = a
    (bx, by), (bw, bh) = b
    up = route[1] > route[-1]
    start = (ax + aw / 2, ay + (0.0 if up else ah))
    end = (bx + bw / 2, by + (bh if up else 0.0))
    return [round(v, 1) for v in (*start, *route[2:-2], *end)]


def layered(sizes: Sequence[Size], edges: Sequence[Edge], *, wrap: bool = False) -> Drawing:
    """Upper left corners of the boxes, and a route for each edge, in pixels, y downwards.

    Nodes are numbers in program order. An edge that closes a cycle is drawn upwards. A route is
    two points, or Bézier curves one after the other, the first point in front. `wrap`: in rows and
    in columns from left to right, so that the drawing has about the shape of a window.
    """
    order, before, after = _order(len(sizes), edges)
    rank = _ranks(order, before, after)
    if wrap and sizes:
        rank = _rows(rank, sizes)
    layers: list[list[int]] = [[] for _ in range(max(rank, default=-1) + 1)]
    for v in order:
        layers[rank[v]].append(v)
    middle = _spread(layers, sizes, before, after, rank)
    corner: list[Place] = [(0.0, 0.0)] * len(sizes)
    heights = [max(sizes[v][1] for v in layer) for layer in layers]
    spans = [
        (
            min(middle[v] - sizes[v][0] / 2 for v in layer),
            max(middle[v] + sizes[v][0] / 2 for v in layer),
        )
        for layer in layers
    ]
    columns = _columns(heights, spans) if wrap else [range(len(layers))]
    x = 0.0
    bounds: list[tuple[float, float]] = []
    for column in columns:
        top = 2 * DOWN if len(columns) > 1 else 0.0  # above: edges that pass over columns
        left = min((spans[r][0] for r in column), default=0.0)
        for r in column:
            for v in layers[r]:
                width, own = sizes[v]
                corner[v] = (
                    round(x + middle[v] - width / 2 - left, 1),
                    round(top + (heights[r] - own) / 2, 1),
                )
            top += heights[r] + DOWN
        right = x + max((spans[r][1] for r in column), default=0.0) - left
        bounds.append((x, right))
        x = right + GUTTER
    of = [k for k, column in enumerate(columns) for _ in column]
    routes = _routes(edges, corner, sizes, layers, rank)
    for n, (a, b) in enumerate(edges):
        first, second = of[rank[a]], of[rank[b]]
        if first < second:
            ends = (
                (corner[a][0] + sizes[a][0] / 2, corner[a][1] + sizes[a][1]),
                (corner[b][0] + sizes[b][0] / 2, corner[b][1]),
            )
            gutters = bounds[first][1] + GUTTER / 2, bounds[second][0] - GUTTER / 2
            routes[n] = _turned(*ends, *gutters)
        elif first > second:
            routes[n] = [*routes[n][:2], *routes[n][-2:]]
    return corner, routes


def _rows(rank: Sequence[int], sizes: Sequence[Size]) -> list[int]:
    """Ranks, the wide ones in several rows: as many boxes beside each other as a window shows."""
    wide, tall = (sum(size[i] for size in sizes) / len(sizes) for i in (0, 1))
    most = max(3, round(sqrt(len(sizes) * SHAPE * (tall + DOWN) / (wide + ACROSS))))
    members: dict[int, list[int]] = {}
    for v, r in enumerate(rank):
        members.setdefault(r, []).append(v)
    found = [0] * len(rank)
    row = 0
    for r in sorted(members):
        count = -(-len(members[r]) // most)
        for n, v in enumerate(members[r]):
            found[v] = row + n * count // len(members[r])
        row += count
    return found


def _columns(heights: Sequence[float], spans: Sequence[tuple[float, float]]) -> list[range]:
    """Ranks in columns of about equal height: as many as come nearest to SHAPE."""
    ends = list(accumulate((h + DOWN for h in heights), initial=0.0))
    best: list[range] = [range(len(heights))]
    least = float("inf")
    for count in range(1, len(heights) + 1):
        columns: list[range] = []
        start = 0
        for k in range(1, count + 1):
            stop = bisect_left(ends, ends[-1] * k / count - 1.0)
            if stop > start:
                columns.append(range(start, stop))
                start = stop
        wide = sum(max(spans[r][1] for r in c) - min(spans[r][0] for r in c) for c in columns)
        wide += GUTTER * (len(columns) - 1)
        tall = max(ends[c.stop] - ends[c.start] for c in columns)
        off = abs(log(wide / tall / SHAPE))
        if off >= least:
            break
        best, least = columns, off
    return best


def _turned(start: Place, end: Place, right: float, left: float) -> list[float]:
    """From the foot of a column to the head of another, through the gutters beside them."""
    (x0, y0), (x1, y1) = start, end
    down, up = y0 + DOWN, y1 - DOWN
    route = [x0, y0, x0, down, right, down, right, y0]
    if right == left:
        route += [right, y0, right, y1, right, y1]
    else:
        route += [right, y0, right, DOWN, right, DOWN]
        route += [right, 0.0, left, 0.0, left, DOWN]
        route += [left, DOWN, left, y1, left, y1]
    return [round(v, 1) for v in (*route, left, up, x1, up, x1, y1)]


def span(count: int, edges: Sequence[tuple[int, int]]) -> int:
    """Ranks between the ends of all edges together: how long a program that bends edges takes."""
    rank = _ranks(*_order(count, edges))
    return sum(abs(rank[a] - rank[b]) for a, b in edges)


def _order(
    count: int, edges: Sequence[tuple[int, int]]
) -> tuple[list[int], list[list[int]], list[list[int]]]:
    """An order in which edges lead to later nodes, and each node's neighbours before and after.

    Some edges of each cycle are turned round for it.
    """
    place = _places(count, edges)
    before: list[list[int]] = [[] for _ in range(count)]
    after: list[list[int]] = [[] for _ in range(count)]
    for a, b in edges:
        if a != b:
            first, second = (a, b) if place[a] < place[b] else (b, a)
            after[first].append(second)
            before[second].append(first)
    return sorted(range(count), key=place.__getitem__), before, after


def _places(count: int, edges: Iterable[tuple[int, int]]) -> list[int]:
    waiting = [0] * count
    after: list[list[int]] = [[] for _ in range(count)]
    for a, b in edges:
        if a != b:
            waiting[b] += 1
            after[a].append(b)
    ready = [v for v in range(count) if not waiting[v]]
    heapify(ready)
    place = [-1] * count
    done, first = 0, 0
    while done < count:
        if not ready:  # a cycle: cut it at the node that the program has first
            while place[first] >= 0:
                first += 1
            ready.append(first)
        v = heappop(ready)
        if place[v] >= 0:
            continue
        place[v] = done
        done += 1
        for w in after[v]:
            waiting[w] -= 1
            if not waiting[w] and place[w] < 0:
                heappush(ready, w)
    return place


def _ranks(
    order: Sequence[int], before: Sequence[Sequence[int]], after: Sequence[Sequence[int]]
) -> list[int]:
    rank = [0] * len(order)
    free = [False] * len(order)  # nothing but sources above it
    for v in order:
        rank[v] = max((rank[u] + 1 for u in before[v]), default=0)
        free[v] = all(free[u] and len(after[u]) == 1 for u in before[v])
    for v in reversed(order):
        if free[v] and after[v]:
            rank[v] = min(rank[w] for w in after[v]) - 1
    used = {r: k for k, r in enumerate(sorted(set(rank)))}
    return [used[r] for r in rank]


def _spread(
    layers: Sequence[list[int]],
    sizes: Sequence[Size],
    before: Sequence[Sequence[int]],
    after: Sequence[Sequence[int]],
    rank: Sequence[int],
) -> list[float]:
    """The middle of each node; orders each layer from left to right."""
    middle = [0.0] * len(sizes)
    weight = [50.0 if before[v] and after[v] else 1.0 for v in range(len(sizes))]
    for layer in layers:
        _pack(layer, middle, sizes, weight, [0.0] * len(layer))

    def wish(v: int, near: Sequence[int]) -> float:
        total = share = 0.0
        for u in near:
            part = weight[u] / abs(rank[u] - rank[v])
            total += part * middle[u]
            share += part
        return total / share if share else middle[v]

    for sweep in range(2 * SWEEPS + 1):
        down = sweep % 2 == 0
        near = before if down else after
        for layer in layers if down else reversed(layers):
            wishes = {v: wish(v, near[v] or (after[v] if sweep else ())) for v in layer}
            layer.sort(key=wishes.__getitem__)
            _pack(layer, middle, sizes, weight, [wishes[v] for v in layer])
    return middle


def _pack(
    layer: Sequence[int],
    middle: list[float],
    sizes: Sequence[Size],
    weight: Sequence[float],
    wishes: Sequence[float],
) -> None:
    """Put a layer as near to its wishes as its order and its widths let it, by least squares."""
    offset, offsets = 0.0, list[float]()
    for k, v in enumerate(layer):
        if k:
            offset += (sizes[layer[k - 1]][0] + sizes[v][0]) / 2 + ACROSS
        offsets.append(offset)
    blocks: list[tuple[float, float, int]] = []  # mean, weight, nodes
    for v, wanted, moved in zip(layer, wishes, offsets, strict=True):
        mean, heavy, count = wanted - moved, weight[v], 1
        while blocks and blocks[-1][0] > mean:
            other, load, more = blocks.pop()
            mean = (mean * heavy + other * load) / (heavy + load)
            heavy, count = heavy + load, count + more
        blocks.append((mean, heavy, count))
    k = 0
    for mean, _, count in blocks:
        for _ in range(count):
            middle[layer[k]] = mean + offsets[k]
            k += 1


def _routes(
    edges: Iterable[tuple[int, int]],
    corner: Sequence[Place],
    sizes: Sequence[Size],
    layers: Sequence[Sequence[int]],
    rank: Sequence[int],
) -> list[list[float]]:
    lefts = [[corner[v][0] for v in layer] for layer in layers]
    found: list[list[float]] = []
    for a, b in edges:
        (ax, ay), (bx, by) = corner[a], corner[b]
        up = rank[a] >= rank[b]
        x0, y0 = ax + sizes[a][0] / 2, ay + (0.0 if up else sizes[a][1])
        x1, y1 = bx + sizes[b][0] / 2, by + (sizes[b][1] if up else 0.0)
        side = 0.0
        between = range(min(rank[a], rank[b]) + 1, max(rank[a], rank[b]))
        if 0 < len(between) <= LOOKED_AT:
            for r in between:
                layer = layers[r]
                y = corner[layer[0]][1] + sizes[layer[0]][1] / 2
                x = x0 + (x1 - x0) * (y - y0) / (y1 - y0)
                k = bisect_left(lefts[r], x) - 1
                if k >= 0 and x <= lefts[r][k] + sizes[layer[k]][0]:
                    side = max(side, lefts[r][k] + sizes[layer[k]][0] + ACROSS / 2)
        if side:
            out = max(x0, x1, (side - (x0 + x1) / 8) / 0.75)
            third = (y1 - y0) / 6
            route = [x0, y0, out, y0 + third, out, y1 - third, x1, y1]
        else:
            route = [x0, y0, x1, y1]
        found.append([round(v, 1) for v in route])
    return found
