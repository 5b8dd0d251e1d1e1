"""A layered drawing in plain Python, for graphs on which Graphviz takes too long.

    rank    longest path from the sources; what only feeds one place moves down beside it
    order   nodes of a rank by where their neighbours stand
    place   the nearest places to the wished ones that keep this order and do not overlap

Each sweep wishes every node to the mean place of its neighbours, near ones counting more, and
solves each rank exactly (isotonic regression). There are no bends: an edge that would pass behind
a box leaves it to one side.

Methods: Sugiyama, Tagawa and Toda, Methods for Visual Understanding of Hierarchical System
Structures, 1981, without dummy nodes; places by the pool-adjacent-violators algorithm.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush

ACROSS, DOWN = 14.0, 26.0
"""Space between boxes of a rank and between ranks, in pixels."""

SWEEPS = 4
LOOKED_AT = 60
"""Ranks between the ends of an edge up to which boxes in its way are looked for."""

Size = tuple[float, float]
Place = tuple[float, float]


def layered(
    sizes: Sequence[Size], edges: Sequence[tuple[int, int]]
) -> tuple[list[Place], list[list[float]]]:
    """Upper left corners of the boxes, and a route for each edge, in pixels, y downwards.

    Nodes are numbers in program order. An edge that closes a cycle is drawn upwards. A route is
    two points, or a Bézier curve of four.
    """
    order, before, after = _order(len(sizes), edges)
    rank = _ranks(order, before, after)
    layers: list[list[int]] = [[] for _ in range(max(rank, default=-1) + 1)]
    for v in order:
        layers[rank[v]].append(v)
    middle = _spread(layers, sizes, before, after, rank)
    top = 0.0
    corner: list[Place] = [(0.0, 0.0)] * len(sizes)
    left = min((middle[v] - sizes[v][0] / 2 for v in order), default=0.0)
    for layer in layers:
        height = max(sizes[v][1] for v in layer)
        for v in layer:
            width, own = sizes[v]
            corner[v] = (round(middle[v] - width / 2 - left, 1), round(top + (height - own) / 2, 1))
        top += height + DOWN
    return corner, _routes(edges, corner, sizes, layers, rank)


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
