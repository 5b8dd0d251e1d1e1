"""The union of a stretch is that of its states, each found by folding the splices alone."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.traces import NAMES, Document, history_of
from tests.ui.histories import chain, film, node, output
from tests.ui.test_modules import run
from ui.union import Item, label, shorten, stretch, union_of

Constants = Mapping[str, str]


def states(document: Document, first: int, last: int) -> Iterator[list[int]]:
    """Every state from before pass `first` to after pass `last`."""
    state = list(document["first"])
    for p, done in enumerate(document["passes"][: last + 1]):
        if p == first:
            yield list(state)
        for step in done["steps"]:
            for at, removed, added in step:
                state[at : at + removed] = added
            if p >= first and step:
                yield list(state)


def graph(
    document: Document, state: list[int]
) -> tuple[list[Any], list[tuple[str, str]], Constants]:
    """Nodes, edges and constants of one state."""
    chunks = [document["chunks"][n] for n in state]
    nodes = [n for c in chunks for n in c.get("nodes", ())]
    makes = {v["name"]: n["key"] for n in nodes for v in n.get("outs", ())}
    edges = [(makes[v], n["key"]) for n in nodes for v in n.get("ins", ()) if v in makes]
    constants = {k: v for c in chunks for k, v in c.get("constants", {}).items()}
    return nodes, edges, constants


def stretches(document: Document) -> list[tuple[int, int]]:
    return sorted({stretch(document, p) for p in range(len(document["passes"]))})


@pytest.mark.parametrize("name", NAMES)
def test_the_union_holds_what_its_states_hold_and_nothing_else(name: str) -> None:
    document = history_of(name)
    found = stretches(document)
    assert [first for first, _ in found] == [0, *(last + 1 for _, last in found[:-1])]
    for first, last in found:
        union = union_of(document, first)
        items: dict[str, set[tuple[str, ...]]] = {}
        edges: set[tuple[str, str]] = set()
        for state in states(document, first, last):
            nodes, more, constants = graph(document, state)
            edges |= set(more)
            for one in nodes:
                items.setdefault(one["key"], set()).add(label(one, constants))
        assert {key: set(item.texts) for key, item in union.items.items()} == items
        assert set(union.edges) == edges and len(union.edges) == len(edges)


@pytest.mark.parametrize("name", NAMES)
def test_ends_of_passes_are_states_of_the_union(name: str) -> None:
    document = history_of(name)
    for first, last in stretches(document):
        union = union_of(document, last)
        assert list(union.states) == [
            f"{p}.{end}" for p in range(first, last + 1) for end in ("before", "after")
        ]
        for p in range(first, last + 1):
            *_, state = states(document, p, p)
            nodes, edges, _ = graph(document, state)
            after = union.states[f"{p}.after"]
            assert after.keys == {n["key"] for n in nodes} and set(after.edges) == set(edges)
        grouped = {
            n["key"]: n["group"]
            for state in states(document, first, last)
            for n in graph(document, state)[0]
            if "group" in n
        }
        assert union.fused == grouped, "the last group that each node stood in"


def test_new_nodes_stand_where_the_old_ones_stood() -> None:
    before = [*chain("abcd"), output("d", "d")]
    after = [before[0], node("b1", "map.neg", "a"), node("b2", "map.neg", "b1"), *before[2:]]
    keys = [*union_of(film(before, after), 0).items]
    assert [k for k in keys if k in "abcd"] == list("abcd")
    assert keys.index("a") < keys.index("b1") < keys.index("b2") < keys.index("c")


def test_an_edge_of_a_state_between_is_in_the_union() -> None:
    a, b = node("a", "input"), node("b", "map.neg", "a")
    between = node("c", "map.exp", "a")
    union = union_of(film([a, b], [a, between, node("b", "map.neg", "c")], [a, b]), 0)
    assert set(union.edges) == {("a", "b"), ("a", "c"), ("c", "b")}
    assert union.states["0.before"] == union.states["0.after"]


def test_a_new_text_of_a_constant_is_one_more_label_of_who_reads_it() -> None:
    y = node("y", "map.add", "x", "one")
    x = node("x", "input")
    states = ([x, {"key": "one", "kind": "const", "text": t}, y] for t in ("1.0", "2.0"))
    union = union_of(film(*states), 0)
    assert union.items["y"] == Item(
        "map.add", (("map.add 1.0", "y: f32[4]"), ("map.add 2.0", "y: f32[4]"))
    )
    assert "one" not in union.items


def test_a_pass_that_is_not_there_is_refused() -> None:
    for at in (-1, 1):
        with pytest.raises(IndexError):
            union_of(film(chain("ab")), at)


# ---- labels --------------------------------------------------------------------------------------


def test_labels_tell_kind_name_and_type() -> None:
    told = [
        (node("y", "onnx.Relu", "x"), ("Relu", "y: f32[4]")),
        (node("y", "map.max", "x", "zero"), ("map.max 0.0", "y: f32[4]")),
        (node("y", "launch", "x", kernel="k0"), ("launch @k0", "y: f32[4]")),
        (node("w", "param", param="w"), ("param", "w: f32[4]")),
        (node("input", "input"), ("input", "input: f32[4]")),
        (node("y" * 22, "onnx.Relu", "x"), ("Relu", "y" * 22 + ": f32[4]")),
        (node("y" * 23, "onnx.Relu", "x"), ("Relu", "y" * 23, "f32[4]")),
        (output("y", "v"), ("output y",)),
    ]
    for one, wanted in told:
        assert label(one, {"zero": "0.0"}) == wanted


def test_long_labels_lose_their_middle() -> None:
    text = "start" + "x" * 50 + "end"
    assert len(shorten(text)) <= 30
    assert shorten(text).startswith("start") and shorten(text).endswith("end")
    assert shorten("x" * 30) == "x" * 30


def test_the_component_makes_the_same_labels() -> None:
    document = history_of("mlp_gelu")
    rows: list[tuple[Any, Constants]] = []
    for first, last in stretches(document):
        *_, state = states(document, first, last)
        nodes, _, constants = graph(document, state)
        rows += [(one, constants) for one in nodes]
    rows.append((node("n" * 50, "onnx.Relu", "c"), {"c": "c" * 40}))
    shown = run(f"""
        const {{ label }} = await import(`${{EXPLORER}}/explore/history.mjs`);
        const rows = {json.dumps(rows)};
        console.log(JSON.stringify(rows.map(([n, c]) => label(n, new Map(Object.entries(c))))));
    """)
    assert shown == [list(label(one, constants)) for one, constants in rows]
