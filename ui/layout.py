"""Where the nodes and edges of a snapshot's graph go: layered drawing by Graphviz.

    python -m ui.layout SNAPSHOT        writes the layout as JSON on standard output

It runs as a program of its own, because Graphviz serves one thread, may take long on a large graph
and then has to be stopped from outside. Graphviz sees numbers instead of names and boxes instead of
labels: it only places them, the component draws them.

Method: Gansner, Koutsofios, North and Vo, A Technique for Drawing Directed Graphs, 1993.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TypedDict, cast

LARGEST = 1500
"""Nodes above which a graph is not drawn; the text view remains."""

SHOWN = 30
"""Characters of a label that a box shows."""

CHARACTER, LINE, PADDING = 6.7, 15.0, 10.0
"""Width of a character and height of a line of the label, and space around it, in pixels."""


class Node(TypedDict):
    key: str
    kind: str
    label: str
    shape: str
    group: str


class Edge(TypedDict):
    """`from` and `to` are keys of nodes. (`from` is a keyword: see `edge_ends`.)"""

    to: str
    value: str


class Snapshot(TypedDict):
    nodes: list[Node]
    edges: list[dict[str, str]]


class Box(TypedDict):
    """A rectangle by its upper left corner, in pixels, y downwards."""

    key: str
    x: float
    y: float
    width: float
    height: float
    lines: list[str]


class Line(TypedDict):
    """A spline: `points` x0, y0, then three control points a segment, then the arrow's tip."""

    source: str
    target: str
    value: str
    points: list[float]


class Layout(TypedDict):
    width: float
    height: float
    nodes: list[Box]
    groups: list[Box]
    edges: list[Line]


def shorten(text: str) -> str:
    """At most `SHOWN` characters, the middle left out."""
    if len(text) <= SHOWN:
        return text
    half = (SHOWN - 1) // 2
    return f"{text[:half]}…{text[-half:]}"


def lines_of(node: Node) -> list[str]:
    """What stands in a node's box: its label, its name, its type."""
    texts = dict.fromkeys((node["label"], node["key"], node["shape"]))
    return [shorten(text) for text in texts if text]


def size_of(lines: Iterable[str]) -> tuple[float, float]:
    found = list(lines)
    width = max((len(line) for line in found), default=1) * CHARACTER + 2 * PADDING
    return max(width, 48.0), len(found) * LINE + PADDING


def layout(snapshot: Snapshot) -> Layout:
    """The layout of a snapshot's graph. ValueError when it has more than `LARGEST` nodes."""
    import pygraphviz

    nodes, edges = snapshot["nodes"], snapshot["edges"]
    if len(nodes) > LARGEST:
        raise ValueError(f"{len(nodes)} nodes are more than {LARGEST}")
    if not nodes:
        return Layout(width=0, height=0, nodes=[], groups=[], edges=[])
    graph = pygraphviz.AGraph(directed=True, strict=False, nodesep="0.2", ranksep="0.35")
    texts = [lines_of(node) for node in nodes]
    number = {node["key"]: k for k, node in enumerate(nodes)}
    for k, lines in enumerate(texts):
        width, height = size_of(lines)
        graph.add_node(
            f"n{k}", shape="box", fixedsize=True, label="", width=width / 72, height=height / 72
        )
    for k, edge in enumerate(edges):
        graph.add_edge(f"n{number[edge['from']]}", f"n{number[edge['to']]}", key=f"e{k}", id=str(k))
    groups = list(dict.fromkeys(node["group"] for node in nodes if node["group"]))
    for k, group in enumerate(groups):
        members = [f"n{i}" for i, node in enumerate(nodes) if node["group"] == group]
        graph.add_subgraph(members, name=f"cluster_{k}", label=" ", margin="10")
    text = graph.draw(format="json0", prog="dot")
    assert text is not None, "Graphviz gives the drawing back unless it is told where to write it"
    drawn = cast(dict[str, object], json.loads(text))

    _, _, right, top = (float(v) for v in str(drawn["bb"]).split(","))
    found = cast(list[dict[str, str]], drawn["objects"])
    boxes: list[Box] = []
    clusters: list[Box] = []
    for item in found:
        name = item["name"]
        if name.startswith("cluster_"):
            x0, y0, x1, y1 = (float(v) for v in item["bb"].split(","))
            key = groups[int(name.removeprefix("cluster_"))]
            clusters.append(
                Box(key=key, x=x0, y=top - y1, width=x1 - x0, height=y1 - y0, lines=[shorten(key)])
            )
        elif "pos" in item:
            k = int(name[1:])
            x, y = (float(v) for v in item["pos"].split(","))
            width, height = size_of(texts[k])
            boxes.append(
                Box(
                    key=nodes[k]["key"], x=x - width / 2, y=top - y - height / 2,
                    width=width, height=height, lines=texts[k],
                )
            )  # fmt: skip
    splines: list[Line] = []
    for item in cast(list[dict[str, str]], drawn.get("edges", [])):
        edge = edges[int(item["id"])]
        splines.append(
            Line(
                source=edge["from"], target=edge["to"], value=edge["value"],
                points=spline(item["pos"], top),
            )
        )  # fmt: skip
    return Layout(width=right, height=top, nodes=boxes, groups=clusters, edges=splines)


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


def main(arguments: list[str]) -> int:
    """Lay out the snapshot in a file. Status 3: too large to draw."""
    snapshot = cast(Snapshot, json.loads(Path(arguments[0]).read_text(encoding="utf-8")))
    try:
        result = layout(snapshot)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 3
    json.dump(result, sys.stdout, ensure_ascii=False, separators=(",", ":"))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
