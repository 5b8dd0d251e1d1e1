"""Where the nodes and edges of a graph go: one layout for all states of a stretch of passes.

    python -m ui.layout HISTORY PASS [GROUP]        writes the layout as JSON on standard output

The union of all states (ui/union.py) is laid out once, and every state draws its part at those
places, so nothing jumps from pass to pass. It runs as a program of its own, because a layout may
take long on a large graph and then has to be stopped from outside.

    small               Graphviz, with a cluster a fused group
    up to LARGE nodes   layered drawing in plain Python (ui/layered.py), fused groups kept together
    above               an overview: one box a group (ui/grouping.py), in columns where it would be
                        tall; GROUP lays out its inside

An overview counts weights with the first op that reads them and draws no edge from them: one that
many blocks share would cross the whole picture and say little.

What costs Graphviz time is bending long edges around boxes, so their length decides beside the
number of nodes. Graphviz sees numbers instead of names and boxes instead of labels: it only
places them. Its method: Gansner, Koutsofios, North and Vo, A Technique for Drawing Directed Graphs,
1993.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from compiler.pipes import take_output
from ui.grouping import Group, groups, overview
from ui.layered import FOOT, SHAPE, clustered, layered, span
from ui.union import Edge, Item, State, Union, shorten, union_of

DOT, BENDS = 400, 1500
"""Nodes and ranks that edges cross, up to which Graphviz draws; those count twice with clusters.

It takes half a second there, and 12 s with twice the nodes and three times the ranks.
"""

LARGE = 5000
"""Nodes above which groups are drawn in their place."""

NO_SUCH = 3
"""Exit status where a history has no such pass or group."""

CHARACTER, LINE, PADDING = 7.8, 14.0, 12.0
"""Width of a character and height of a line of the label, and space around it, in pixels.

`CHARACTER` and `LINE` of ui/explorer/explore/sight.mjs say the same.
"""

TITLE, COUNT = 20, 23
"""Characters of a group's name in a box of an overview, and of how many ops and weights it has."""

Box = tuple[float, float, float, float]
"""Upper left corner, width and height, in pixels, y downwards."""

Size = tuple[float, float]
Answer = dict[str, Any]


def size_of(texts: Iterable[Sequence[str]]) -> Size:
    """The size of a box that holds each of these labels."""
    found = list(texts)
    longest = max((len(line) for lines in found for line in lines), default=1)
    width = longest * CHARACTER + 2 * PADDING
    return max(round(width, 1), 48.0), max(map(len, found), default=0) * LINE + PADDING


def title(label: str) -> list[str]:
    """The first lines of the box of a group: its name, then its number.

    `titleOf` of ui/explorer/explore/scene.mjs says the same.
    """
    return [shorten(line, TITLE) for line in label.replace(" #", "\n#").split("\n")]


# ---- what is laid out ----------------------------------------------------------------------------


def layout(document: Mapping[str, Any], at: int, opened: str = "") -> Answer:
    """The layout of the stretch that holds pass `at`, or of the inside of a group of it.

    `{width, height, engine, boxes, routes, groups, alone, overview}` (docs/json.md). IndexError
    where there is no such pass, KeyError where there is no such group.
    """
    union = union_of(document, at)
    scene = _Scene(union)
    if opened:
        scene = scene.inside(opened)
    answer = scene.draw()
    answer["alone"] = {} if opened else _alone(union)
    return answer


def _alone(union: Union) -> dict[str, Answer]:
    """States that fill less than half of their union, each laid out for itself."""
    made: dict[int, Answer] = {}
    found: dict[str, Answer] = {}
    for name, state in union.states.items():
        if 0 < 2 * len(state.keys) < len(union.items):
            if id(state) not in made:
                made[id(state)] = _Scene(_only(union, state)).draw()
            found[name] = made[id(state)]
    return found


def _only(union: Union, state: State) -> Union:
    items = {key: item for key, item in union.items.items() if key in state.keys}
    return Union(items, state.edges, union.fused, {"": state})


class _Scene:
    """A union, or the part of it that is in a group."""

    def __init__(self, union: Union, path: str = "", parts: Sequence[Group] = ()) -> None:
        self._union = union
        self._path = path
        self._kinds = {key: item.kind for key, item in union.items.items()}
        states = sorted(union.states.values(), key=lambda s: len(s.keys))
        core = states[-1].keys if states else frozenset[str]()
        self._large = len(union.items) > LARGE
        find = overview if self._large else groups
        self._groups = parts or find(self._kinds, union.edges, core)

    def _key(self, k: int) -> str:
        return f"{self._path}.{k}" if self._path else f"§{k}"

    def inside(self, key: str) -> _Scene:
        """The scene of the group called so, however deep. KeyError where there is none."""
        for k, group in enumerate(self._groups):
            mine = self._key(k)
            if key == mine or key.startswith(f"{mine}."):
                parts = group.parts if len(group.members) <= LARGE else ()
                part = _Scene(_part(self._union, group), mine, parts)
                return part if key == mine else part.inside(key)
        raise KeyError(key)

    def _box(self, group: Group) -> Size:
        """The size of a box of an overview: a node looks like itself."""
        key, *more = group.members
        if more:
            return size_of([(*title(group.label), " " * COUNT)])
        texts = self._union.items[key].texts
        return size_of([[shorten(line, TITLE) for line in lines] for lines in texts])

    def draw(self) -> Answer:
        rows = [
            {"key": self._key(k), "label": g.label, "members": list(g.members)}
            for k, g in enumerate(self._groups)
        ]
        union = self._union
        if not self._large:
            sizes = {key: size_of(item.texts) for key, item in union.items.items()}
            return {
                **place(sizes, union.edges, union.fused), "groups": rows, "overview": None,
            }  # fmt: skip
        of = {key: self._key(k) for k, g in enumerate(self._groups) for key in g.members}
        edges = dict.fromkeys(
            (of[a], of[b]) for a, b in union.edges
            if of[a] != of[b] and self._kinds[a] != "param"
        )  # fmt: skip
        sizes = {self._key(k): self._box(g) for k, g in enumerate(self._groups)}
        counted = [{**row, "count": len(row["members"])} for row in rows]
        drawn = place(sizes, tuple(edges), {}, wrap=True)
        return {**drawn, "groups": [], "overview": {"groups": counted}}


def _part(union: Union, group: Group) -> Union:
    inside = frozenset(group.members)
    items: dict[str, Item] = {k: item for k, item in union.items.items() if k in inside}

    def within(edges: Iterable[Edge]) -> tuple[Edge, ...]:
        return tuple((a, b) for a, b in edges if a in inside and b in inside)

    largest = max(union.states.values(), key=lambda s: len(s.keys & inside))
    state = State(largest.keys & inside, within(largest.edges))
    return Union(items, within(union.edges), union.fused, {"": state})


# ---- engines -------------------------------------------------------------------------------------


def place(
    sizes: Mapping[str, Size],
    edges: Sequence[Edge],
    fused: Mapping[str, str],
    *,
    wrap: bool = False,
) -> Answer:
    """`{width, height, engine, boxes, routes}` of nodes of these sizes; `wrap`: in columns or
    rows where it would be much taller or wider than a window."""
    edges = [(a, b) for a, b in edges if a != b]
    keys = list(sizes)
    number = {key: k for k, key in enumerate(keys)}
    ends = [(number[a], number[b]) for a, b in edges]
    together: dict[str, list[int]] = {}
    for key in keys:
        if key in fused:
            together.setdefault(fused[key], []).append(number[key])
    most = BENDS // 2 if together else BENDS
    if len(keys) <= DOT and span(len(keys), ends) <= most:
        drawn = _dot(sizes, edges, fused)
        if not wrap or 0.5 <= drawn["width"] / drawn["height"] / SHAPE <= 2:
            return drawn
    boxed = [sizes[key] for key in keys]
    corners, routes = (
        clustered(boxed, ends, list(together.values()))
        if together
        else layered(boxed, ends, wrap=wrap)
    )
    boxes: dict[str, Box] = {
        key: (*corner, *sizes[key]) for key, corner in zip(keys, corners, strict=True)
    }
    return {
        "width": round(max(x + w for x, _, w, _ in boxes.values()), 1),
        "height": round(max(y + h for _, y, _, h in boxes.values()), 1),
        "engine": "layered",
        "boxes": boxes,
        "routes": [[a, b, route] for (a, b), route in zip(edges, routes, strict=True)],
    }


def _dot(sizes: Mapping[str, Size], edges: Sequence[Edge], fused: Mapping[str, str]) -> Answer:
    if not sizes:
        return {"width": 0, "height": 0, "engine": "dot", "boxes": {}, "routes": []}
    import pygraphviz

    graph = pygraphviz.AGraph(directed=True, strict=False, nodesep="0.2", ranksep="0.17")
    keys = list(sizes)
    number = {key: k for k, key in enumerate(keys)}
    for k, (width, height) in enumerate(sizes.values()):
        graph.add_node(
            f"n{k}", shape="box", fixedsize=True, label="", width=width / 72, height=height / 72
        )
    for k, (a, b) in enumerate(edges):
        graph.add_edge(f"n{number[a]}", f"n{number[b]}", key=f"e{k}", id=str(k))
    clusters: dict[str, list[str]] = {}
    for key in keys:
        if key in fused:
            clusters.setdefault(fused[key], []).append(f"n{number[key]}")
    for k, members in enumerate(clusters.values()):
        graph.add_subgraph(members, name=f"cluster_{k}", label=" ", margin=str(FOOT))
    text = graph.draw(format="json0", prog="dot")
    assert text is not None, "Graphviz gives the drawing back unless it is told where to write it"
    drawn = cast(dict[str, Any], json.loads(text))
    _, _, right, top = (float(v) for v in str(drawn["bb"]).split(","))
    boxes: dict[str, Box] = {}
    for item in cast(list[dict[str, str]], drawn["objects"]):
        if "pos" in item:
            key = keys[int(item["name"][1:])]
            x, y = (float(v) for v in item["pos"].split(","))
            width, height = sizes[key]
            boxes[key] = (round(x - width / 2, 1), round(top - y - height / 2, 1), width, height)
    routes = [
        [*edges[int(item["id"])], spline(item["pos"], top)]
        for item in cast(list[dict[str, str]], drawn.get("edges", []))
    ]
    return {"width": right, "height": top, "engine": "dot", "boxes": boxes, "routes": routes}


def spline(pos: str, top: float) -> list[float]:
    """Graphviz's `e,tip p0 p1 p2 p3 …` as x, y, x, y, …, the tip last, y downwards."""
    tip: tuple[float, float] | None = None
    points: list[tuple[float, float]] = []
    for item in pos.split():
        x, y = (float(v) for v in item.removeprefix("e,").removeprefix("s,").split(","))
        if item.startswith("e,"):
            tip = (x, y)
        elif not item.startswith("s,"):
            points.append((x, y))
    if tip is not None:
        points.append(tip)
    return [round(v, 1) for x, y in points for v in (x, top - y)]


def main(arguments: Sequence[str]) -> int:
    """Lay out a history in a file; the exit status."""
    path, at, *opened = arguments
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
        result = layout(document, int(at), opened[0] if opened else "")
    except (IndexError, KeyError) as error:
        print(error, file=sys.stderr)
        return NO_SUCH
    with take_output() as out:
        out.write(json.dumps(result, ensure_ascii=False, separators=(",", ":")).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
