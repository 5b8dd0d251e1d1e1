"""Placing nodes: what Graphviz is given and what comes back."""

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from ui import layout as room
from ui.layout import Box, Node, Snapshot, layout, shorten, spline

ROOT = Path(__file__).resolve().parents[2]


def node(key: str, group: str = "", label: str = "map.add") -> Node:
    return Node(key=key, kind="map.add", label=label, shape="f32[4]", group=group)


def chain(keys: str, groups: dict[str, str] | None = None) -> Snapshot:
    """One node a letter, each reading the one before it."""
    nodes = [node(k, (groups or {}).get(k, "")) for k in keys]
    edges = [{"from": a, "to": b, "value": a} for a, b in pairwise(keys)]
    return Snapshot(nodes=nodes, edges=edges)


def inside(box: Box, other: Box) -> bool:
    return (
        other["x"] <= box["x"]
        and other["y"] <= box["y"]
        and box["x"] + box["width"] <= other["x"] + other["width"] + 0.1
        and box["y"] + box["height"] <= other["y"] + other["height"] + 0.1
    )


def test_a_chain_runs_downwards_without_overlap() -> None:
    placed = layout(chain("abcd"))
    boxes = {box["key"]: box for box in placed["nodes"]}
    assert list(boxes) == list("abcd")
    for a, b in pairwise("abcd"):
        assert boxes[a]["y"] + boxes[a]["height"] < boxes[b]["y"]
    assert [(e["source"], e["target"]) for e in placed["edges"]] == [
        ("a", "b"),
        ("b", "c"),
        ("c", "d"),
    ]
    whole = Box(key="", x=0, y=0, width=placed["width"], height=placed["height"], lines=[])
    assert all(inside(box, whole) for box in placed["nodes"])


def test_an_edge_starts_at_its_source_and_its_tip_touches_its_target() -> None:
    placed = layout(chain("ab"))
    a, b = placed["nodes"]
    points = placed["edges"][0]["points"]
    assert points[1] == pytest.approx(a["y"] + a["height"], abs=3)
    assert points[-1] == pytest.approx(b["y"], abs=3)


def test_a_group_boxes_its_members_and_nobody_else() -> None:
    placed = layout(chain("abcd", {"b": "c", "c": "c"}))
    (group,) = placed["groups"]
    assert group["key"] == "c"
    assert [box["key"] for box in placed["nodes"] if inside(box, group)] == ["b", "c"]


def test_names_are_kept_whatever_they_hold() -> None:
    names = ['a"b', "x;y}", "<b>", "\\N", "ổ", "", "a -> b"]
    snapshot = Snapshot(
        nodes=[node(n, label="\\l<&>") for n in names],
        edges=[{"from": names[0], "to": n, "value": n} for n in names[1:]],
    )
    placed = layout(snapshot)
    assert [box["key"] for box in placed["nodes"]] == names
    assert {edge["target"] for edge in placed["edges"]} == set(names[1:])


def test_two_edges_between_the_same_nodes_stay_two() -> None:
    snapshot = chain("ab")
    snapshot["edges"].append({"from": "a", "to": "b", "value": "second"})
    assert [e["value"] for e in layout(snapshot)["edges"]] == ["a", "second"]


def test_a_graph_without_nodes_has_no_size() -> None:
    assert layout(Snapshot(nodes=[], edges=[])) == {
        "width": 0, "height": 0, "nodes": [], "groups": [], "edges": [],
    }  # fmt: skip


def test_a_graph_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "LARGEST", 3)
    with pytest.raises(ValueError, match="4 nodes are more than 3"):
        layout(chain("abcd"))


def test_long_labels_lose_their_middle() -> None:
    text = "start" + "x" * 50 + "end"
    assert len(shorten(text)) <= room.SHOWN
    assert shorten(text).startswith("start") and shorten(text).endswith("end")
    assert shorten("short") == "short"


def test_splines_are_turned_upside_down_and_end_at_the_tip() -> None:
    assert spline("e,1,2 3,90 4,80 5,70 6,60", top=100) == [3, 10, 4, 20, 5, 30, 6, 40, 1, 98]


def test_the_program_prints_json(tmp_path: Path) -> None:
    path = tmp_path / "snapshot"
    path.write_text(json.dumps(chain("ab")), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "ui.layout", str(path)], cwd=ROOT, capture_output=True, check=True
    )
    assert [box["key"] for box in json.loads(done.stdout)["nodes"]] == ["a", "b"]
