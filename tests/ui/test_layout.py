"""Placing nodes: one layout for all states of a stretch, by three engines."""

import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import combinations, pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.traces import NAMES, history_of
from tests.ui.histories import chain, film, node, output, transformer
from tests.ui.test_pane_modules import call
from ui import layout as room
from ui.grouping import BOXES, overview
from ui.layered import FOOT, HEAD, SHAPE, SIDE, clustered, layered, span
from ui.layout import NO_SUCH, layout, place, size_of, spline
from ui.union import stretch, union_of

ROOT = Path(__file__).resolve().parents[2]
Box = Sequence[float]
Answer = dict[str, Any]


def overlap(a: Box, b: Box) -> bool:
    return (
        a[0] < b[0] + b[2] - 0.2
        and b[0] < a[0] + a[2] - 0.2
        and a[1] < b[1] + b[3] - 0.2
        and b[1] < a[1] + a[3] - 0.2
    )


def inside(box: Box, x: float, y: float, margin: float = 3) -> bool:
    return (
        box[0] - margin <= x <= box[0] + box[2] + margin
        and box[1] - margin <= y <= box[1] + box[3] + margin
    )


def check(answer: Answer, keys: Iterable[str], edges: Iterable[tuple[str, str]]) -> None:
    """Everything is placed, nothing overlaps, routes lead from box to box."""
    boxes = answer["boxes"]
    assert set(boxes) == set(keys)
    for (one, a), (other, b) in combinations(boxes.items(), 2):
        assert not overlap(a, b), (one, other)
    for x, y, width, height in boxes.values():
        assert x >= -0.1 and x + width <= answer["width"] + 0.2
        assert y >= -0.1 and y + height <= answer["height"] + 0.2
    pairs = [(a, b) for a, b, _ in answer["routes"]]
    assert len(set(pairs)) == len(pairs) and set(pairs) == set(edges)
    for a, b, points in answer["routes"]:
        assert len(points) == 4 or len(points) % 6 in (2, 4)
        assert inside(boxes[a], *points[:2]) and inside(boxes[b], *points[-2:])


def placed(*states: Sequence[dict[str, Any]]) -> Answer:
    return layout(film(*states), 0)


# ---- all samples ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_every_state_of_a_sample_has_its_places(name: str) -> None:
    document = history_of(name)
    for first, last in sorted({stretch(document, p) for p in range(len(document["passes"]))}):
        union, answer = union_of(document, first), layout(document, first)
        check(answer, union.items, union.edges)
        assert answer["overview"] is None
        for key, item in union.items.items():
            width, height = answer["boxes"][key][2:]
            for lines in item.texts:
                assert width >= room.CHARACTER * max(map(len, lines)) + room.PADDING
                assert height >= room.LINE * len(lines) + room.PADDING
        few = {n for n, s in union.states.items() if 0 < 2 * len(s.keys) < len(union.items)}
        assert set(answer["alone"]) == few
        checked: list[Answer] = []
        for end, alone in answer["alone"].items():
            if alone in checked:
                continue
            checked.append(alone)
            check(alone, union.states[end].keys, union.states[end].edges)
            assert "alone" not in alone
        if first < last and len(union.items) < 40:
            assert layout(document, last) == answer, "any pass of a stretch names it"


def test_a_fused_group_stands_together() -> None:
    document = history_of("layernorm_residual")
    at = next(p for p, done in enumerate(document["passes"]) if done["name"] == "fuse")
    union, boxes = union_of(document, at), layout(document, at)["boxes"]
    assert union.fused
    for group in set(union.fused.values()):
        members = [boxes[k] for k, g in union.fused.items() if g == group]
        x0, y0 = (min(b[i] for b in members) for i in (0, 1))
        x1, y1 = (max(b[i] + b[i + 2] for b in members) for i in (0, 1))
        hull = (x0, y0, x1 - x0, y1 - y0)
        for key, box in boxes.items():
            assert union.fused.get(key) == group or not overlap(box, hull), (group, key)


def test_a_launch_leaves_the_ops_that_it_replaces_and_is_laid_out_alone() -> None:
    document = history_of("softmax_spelled_out")
    at = next(p for p, done in enumerate(document["passes"]) if done["name"] == "lower-loops")
    answer = layout(document, at)
    assert f"{at}.after" in answer["alone"] and f"{at}.before" not in answer["alone"]
    assert len(answer["alone"][f"{at}.after"]["boxes"]) < len(answer["boxes"]) / 2


# ---- one union -----------------------------------------------------------------------------------


def test_what_is_removed_leaves_a_hole() -> None:
    before = [*chain("abcd"), output("y", "d")]
    after = [*before[:2], node("d", "map.exp", "b"), before[4]]
    boxes = placed(before, after)["boxes"]
    assert boxes["c"][1] > boxes["b"][1] and boxes["d"][1] > boxes["c"][1]


def test_an_empty_state_is_not_laid_out_alone() -> None:
    assert placed([], chain("abc"))["alone"] == {}
    assert placed([]) == {
        "width": 0, "height": 0, "engine": "dot", "boxes": {}, "routes": [], "groups": [],
        "overview": None, "alone": {},
    }  # fmt: skip


def test_ops_that_change_places_make_a_cycle_that_is_drawn() -> None:
    x = node("x", "input")
    before = [x, node("a", "map.exp", "x"), node("b", "map.neg", "a")]
    after = [x, node("b", "map.neg", "x"), node("a", "map.exp", "b")]
    edges = {("x", "a"), ("a", "b"), ("x", "b"), ("b", "a")}
    check(placed(before, after), "xab", edges)


def test_names_are_kept_whatever_they_hold() -> None:
    names = ['a"b', "x;y}", "<b>", "\\N", "ổ", "", "a -> b", "§0", "n0"]
    nodes = [node(names[0], "input"), *(node(n, "\\l<&>", names[0]) for n in names[1:])]
    check(placed(nodes), names, [(names[0], n) for n in names[1:]])


def test_an_input_stands_right_above_the_one_that_reads_it() -> None:
    late = node("f", "map.add", "e", "w")
    nodes = [node("w", "param"), *chain("abcde"), late]
    boxes = placed(nodes)["boxes"]
    assert boxes["d"][1] < boxes["w"][1] < boxes["f"][1]


# ---- the layered drawing -------------------------------------------------------------------------


def test_any_graph_is_drawn_without_overlap() -> None:
    random = Random(5)
    for count in (1, 2, 30, 120):
        sizes = {str(k): (random.uniform(48, 220), random.uniform(20, 60)) for k in range(count)}
        edges = list(dict.fromkeys(
            (str(random.randrange(count)), str(random.randrange(count))) for _ in range(2 * count)
        ))  # fmt: skip
        edges = [(a, b) for a, b in edges if a != b]
        number = [(int(a), int(b)) for a, b in edges]
        corners, routes = layered(list(sizes.values()), number)
        boxes = {k: (*c, *sizes[k]) for k, c in zip(sizes, corners, strict=True)}
        drawn = [[a, b, r] for (a, b), r in zip(edges, routes, strict=True)]
        width, height = (max(b[i] + b[i + 2] for b in boxes.values()) for i in (0, 1))
        check({"boxes": boxes, "routes": drawn, "width": width, "height": height}, sizes, edges)


def test_a_chain_is_a_straight_column() -> None:
    corners, routes = layered([(100.0, 30.0)] * 50, list(pairwise(range(50))))
    assert {x for x, _ in corners} == {0.0}
    assert all(a[1] + 30 < b[1] for a, b in pairwise(corners))
    assert all(route[0] == route[2] for route in routes)


def test_a_weight_stands_in_the_rank_above_its_reader() -> None:
    edges = [*pairwise(range(10)), (10, 9), (11, 10)]  # 11 -> 10 -> 9, which ends the chain
    corners, _ = layered([(50.0, 30.0)] * 12, edges)
    assert corners[10][1] == corners[8][1] and corners[11][1] == corners[7][1]


def test_an_edge_passes_beside_the_boxes_in_its_way() -> None:
    corners, routes = layered([(100.0, 30.0)] * 4, [(0, 1), (1, 2), (2, 3), (0, 3)])
    route = routes[3]
    assert len(route) == 8
    middle = (route[0] + 3 * route[2] + 3 * route[4] + route[6]) / 8
    assert middle > corners[1][0] + 100


def test_long_weights_do_not_push_the_chain_aside() -> None:
    """Thirty ranks, a weight each: the ops stay in a column."""
    sizes = [(80.0, 30.0)] * 30 + [(220.0, 30.0)] * 29
    corners, _ = layered(sizes, [*pairwise(range(30)), *((30 + k, k + 1) for k in range(29))])
    middles = [x + 40 for x, _ in corners[1:30]]
    assert max(middles) - min(middles) < 60


def test_span_counts_the_ranks_that_edges_cross() -> None:
    assert span(4, [(0, 1), (1, 2), (2, 3), (0, 3)]) == 6
    assert span(2, [(0, 1), (1, 0)]) == 2
    assert span(0, []) == 0


def test_groups_stand_together_and_apart_from_everything_else() -> None:
    random = Random(11)
    for _ in range(20):
        count = 60
        sizes = [(random.uniform(48, 220), random.uniform(20, 60)) for _ in range(count)]
        ends = [(random.randrange(count), random.randrange(count)) for _ in range(120)]
        edges = sorted({(a, b) for a, b in ends if a != b})
        members = random.sample(range(count), 36)
        groups = [sorted(members[k : k + 6]) for k in range(0, 36, 6)]
        corners, routes = clustered(sizes, edges, groups)
        boxes = {str(v): (*corners[v], *sizes[v]) for v in range(count)}
        width, height = (max(b[i] + b[i + 2] for b in boxes.values()) + HEAD for i in (0, 1))
        drawn = [[str(a), str(b), r] for (a, b), r in zip(edges, routes, strict=True)]
        check(
            {"boxes": boxes, "routes": drawn, "width": width, "height": height},
            boxes, [(str(a), str(b)) for a, b in edges],
        )  # fmt: skip
        for group in groups:
            x0, y0 = (min(corners[v][i] for v in group) for i in (0, 1))
            x1, y1 = (max(corners[v][i] + sizes[v][i] for v in group) for i in (0, 1))
            frame = (x0 - SIDE, y0 - HEAD, x1 - x0 + 2 * SIDE, y1 - y0 + HEAD + FOOT)
            for v in set(range(count)) - set(group):
                assert not overlap(boxes[str(v)], frame)


def test_a_deep_graph_is_cut_into_columns() -> None:
    edges = [*pairwise(range(40)), (5, 38)]
    corners, routes = layered([(150.0, 55.0)] * 40, edges, wrap=True)
    width, height = (max(c[i] for c in corners) + (150, 55)[i] for i in (0, 1))
    assert 0.8 < width / height < 2
    assert len({x for x, _ in corners}) == len({x for x, y in corners if y == corners[0][1]}) > 2
    for (a, b), route in zip(edges, routes, strict=True):
        assert route[:2] == [corners[a][0] + 75, corners[a][1] + 55]
        assert route[-2:] == [corners[b][0] + 75, corners[b][1]]
    along = routes[-1]
    corner_points = list(zip(along[::2], along[1::2], strict=True))[::3]
    for x, y in corner_points[1:-1]:
        assert not any(inside((*c, 150, 55), x, y, 0) for c in corners), "beside the columns"


def test_a_wide_graph_is_cut_into_rows() -> None:
    edges = [(0, k) for k in range(1, 31)] + [(k, 31) for k in range(1, 31)]
    corners, _ = layered([(150.0, 55.0)] * 32, edges, wrap=True)
    width, height = (max(c[i] for c in corners) + (150, 55)[i] for i in (0, 1))
    assert 0.6 < width / height < 2.6
    assert corners[0][1] == min(y for _, y in corners)
    assert corners[31][1] == max(y for _, y in corners)


# ---- which engine --------------------------------------------------------------------------------


def test_graphs_that_graphviz_would_take_long_for_are_drawn_here() -> None:
    small = {str(k): (48.0, 25.0) for k in range(40)}
    line = [(str(a), str(b)) for a, b in pairwise(range(40))]
    every = [(str(a), str(b)) for a, b in combinations(range(40), 2)]
    assert place(small, line, {})["engine"] == "dot"
    assert place(small, every, {})["engine"] == "layered"
    large = {str(k): (48.0, 25.0) for k in range(room.DOT + 1)}
    assert place(large, [], {})["engine"] == "layered"


def test_a_graph_of_thousands_of_nodes_is_placed_node_by_node() -> None:
    nodes = transformer(60)
    answer = placed([], nodes)
    assert 2000 < len(nodes) <= room.LARGE
    assert answer["engine"] == "layered" and answer["overview"] is None
    assert set(answer["boxes"]) == {n["key"] for n in nodes}
    assert [g["label"] for g in answer["groups"]] == [f"h.{k}" for k in range(60)]
    ranks: dict[float, list[Box]] = {}
    for box in answer["boxes"].values():
        ranks.setdefault(box[1], []).append(box)
    for boxes in ranks.values():
        assert not any(overlap(a, b) for a, b in pairwise(sorted(boxes)))


# ---- groups and overviews ------------------------------------------------------------------------


def test_groups_come_with_the_layout_and_open_one_by_one() -> None:
    document = film([], transformer(3))
    answer = layout(document, 0)
    assert [g["label"] for g in answer["groups"]] == [f"h.{k}" for k in range(3)]
    for group in answer["groups"]:
        opened = layout(document, 0, group["key"])
        assert set(opened["boxes"]) == set(group["members"])
        members = set(group["members"])
        edges = {(a, b) for a, b, _ in answer["routes"] if a in members and b in members}
        check(opened, members, edges)


def test_a_very_large_graph_is_a_window_of_boxes_that_open() -> None:
    nodes = transformer(260)
    document = film([], nodes)
    answer = layout(document, 0)
    rows = answer["overview"]["groups"]
    assert len(nodes) > 10_000 and len(rows) <= BOXES
    assert 0.5 < answer["width"] / answer["height"] / SHAPE < 2, "the shape of a window"
    members = [key for row in rows for key in row["members"]]
    assert sorted(members) == sorted(n["key"] for n in nodes)
    assert all(row["count"] == len(row["members"]) for row in rows)
    of = {key: row["key"] for row in rows for key in row["members"]}
    weights = {n["key"] for n in nodes if n["kind"] == "param"}
    edges = {
        (of[v], of[n["key"]])
        for n in nodes
        for v in n["ins"]
        if v not in weights and of[v] != of[n["key"]]
    }
    check(answer, (row["key"] for row in rows), edges)
    one = next(row for row in rows if "–" in row["label"])
    opened = layout(document, 0, one["key"])
    assert set(opened["boxes"]) == set(one["members"])
    first = one["label"].split(" – ")[0]
    assert opened["groups"][0]["label"] == first, "called inside as outside"


def test_groups_that_are_still_large_open_to_an_overview(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "LARGE", 60)
    monkeypatch.setattr(room, "overview", partial(overview, most=10))
    document = film(chain([f"v{k}" for k in range(2000)]))
    key, rows, whole = "", layout(document, 0)["overview"]["groups"], set[str]()
    assert len(rows) <= 10 and max(row["count"] for row in rows) > 60
    for row in rows[:3]:
        inner = layout(document, 0, row["key"])["overview"]["groups"]
        assert all(part["key"].startswith(f"{row['key']}.") for part in inner)
        whole |= {key for part in inner for key in part["members"]}
        key = inner[-1]["key"]
    assert whole == {key for row in rows[:3] for key in row["members"]}
    last = layout(document, 0, key)
    assert last["overview"] is None and last["boxes"]


def test_a_group_that_is_not_there_is_refused() -> None:
    for key in ("§9", "§0.99", "h", "§"):
        with pytest.raises(KeyError):
            layout(film([], transformer(3)), 0, key)


# ---- sizes, splines, the program -----------------------------------------------------------------


def test_a_box_holds_each_of_its_labels() -> None:
    width, height = size_of([("ab", "c" * 30), ("d", "e", "f")])
    assert width == pytest.approx(30 * room.CHARACTER + 2 * room.PADDING)
    assert height == 3 * room.LINE + room.PADDING
    assert size_of([("a",)])[0] == 48 and size_of([]) == (48, room.PADDING)


def test_the_page_draws_the_frame_that_the_layout_leaves_room_for() -> None:
    nodes = [node("a", "map.exp", group="a"), node("b", "map.neg", "a", group="a")]
    group = {"key": "a", "ins": [], "outs": [], "origins": []}
    chunk = {"section": "graph", "key": "a", "lines": [], "nodes": nodes, "groups": [group]}
    places = {"boxes": {"a": [50, 40, 100, 55], "b": [70, 120, 120, 55]}, "routes": []}
    found = call(
        "history scene",
        f"""
        const drawn = history.expand([{json.dumps(chunk)}], [0]), places = {json.dumps(places)};
        places.routes = new Map();
        const [frame] = scene.sceneOf(drawn, places, {{ marks: new Map(), sizes: {{}}, most: 0, hits: new Set(),
          selection: null, hover: null, closed: new Set(), heat: {{ values: new Map(), most: 0 }} }}).groups;
        return [frame.x, frame.y, frame.w, frame.h];""",  # noqa: E501
    )
    assert found == [50 - SIDE, 40 - HEAD, 140 + 2 * SIDE, 135 + HEAD + FOOT]


def test_the_page_breaks_the_name_of_a_group_as_the_layout_does() -> None:
    labels = ["h.3 – 7", "Conv Relu #12", "LayerNormalization MatMul Add … #1 – 4", "a" * 60]
    assert call("scene", f"return {json.dumps(labels)}.map(scene.titleOf);") == [
        room.title(label) for label in labels
    ]


def test_splines_are_turned_upside_down_and_end_at_the_tip() -> None:
    assert spline("e,1,2 3,90 4,80 5,70 6,60", top=100) == [3, 10, 4, 20, 5, 30, 6, 40, 1, 98]


def program(path: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "ui.layout", str(path), *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, check=False)


def test_the_program_prints_json_or_says_what_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_text(json.dumps(film(chain("ab"))), encoding="utf-8")
    done = program(path, "0", "")
    assert done.returncode == 0 and list(json.loads(done.stdout)["boxes"]) == ["a", "b"]
    assert program(path, "1").returncode == NO_SUCH
    assert program(path, "0", "§5").returncode == NO_SUCH
