"""Groups: repeated blocks, then names; and overviews that stay small."""

from collections.abc import Sequence
from itertools import pairwise
from random import Random

import pytest

from tests.traces import NAMES, history_of
from tests.ui.histories import Node, chain, node, transformer
from ui.grouping import BOXES, LEAST, Group, groups, overview, repeats, words
from ui.union import Union, union_of

Edges = list[tuple[str, str]]


def read(nodes: Sequence[Node]) -> tuple[dict[str, str], Edges]:
    kinds = {n["key"]: n["kind"] for n in nodes}
    return kinds, [(v, n["key"]) for n in nodes for v in n.get("ins", ()) if v in kinds]


def grouped(nodes: Sequence[Node]) -> tuple[Group, ...]:
    kinds, edges = read(nodes)
    return groups(kinds, edges, frozenset(kinds))


def core_of(union: Union) -> frozenset[str]:
    return max(union.states.values(), key=lambda s: len(s.keys)).keys


# ---- all samples ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_groups_are_apart_and_an_overview_leaves_nothing_out(name: str) -> None:
    document = history_of(name)
    for at, done in enumerate(document["passes"]):
        if at and document["passes"][at - 1]["level"] == done["level"]:
            continue
        union = union_of(document, at)
        kinds = {key: item.kind for key, item in union.items.items()}
        found = groups(kinds, union.edges, core_of(union))
        members = [key for g in found for key in g.members]
        assert len(set(members)) == len(members) and set(members) <= set(kinds)
        assert len(found) != 1 and all(len(g.members) >= LEAST for g in found)
        for most in (2, 5, BOXES):
            whole = overview(kinds, union.edges, core_of(union), most)
            assert sorted(key for g in whole for key in g.members) == sorted(kinds)
            assert min(2, len(kinds)) <= len(whole) <= max(most, 2)


def test_the_layers_of_a_model_are_found() -> None:
    union = union_of(history_of("tiny_gpt"), 0)
    kinds = {key: item.kind for key, item in union.items.items()}
    first, second = groups(kinds, union.edges, core_of(union))
    assert first.label.endswith("#1") and second.label == first.label[:-1] + "2"
    assert [kinds[k] for k in first.members] == [kinds[k] for k in second.members]


# ---- repeated structure --------------------------------------------------------------------------


def test_blocks_of_a_transformer_are_its_layers() -> None:
    nodes = transformer(5)
    found = grouped(nodes)
    assert [g.label for g in found] == [f"h.{k}" for k in range(5)]
    for k, group in enumerate(found):
        inside = [n["key"] for n in nodes if n["key"].startswith(f"/h.{k}/")]
        assert list(group.members) == inside, "cut where only one value crosses"


def test_without_names_the_kinds_tell_what_a_block_is() -> None:
    named, plain = grouped(transformer(5)), grouped(transformer(5, named=False))
    assert [len(g.members) for g in plain] == [len(g.members) for g in named]
    assert [g.label for g in plain] == [f"ReduceMean Sub Pow … #{k}" for k in range(1, 6)]


def test_blocks_after_a_shared_word_are_called_by_what_tells_them_apart() -> None:
    nodes = [node("x", "input")]
    for k in range(3):
        for kind in ("exp", "neg", "abs", "tanh"):
            name = f"model.stage.{k}.unit.{kind}"
            nodes.append(node(name, f"map.{kind}", nodes[-1]["key"]))
    assert [g.label for g in grouped(nodes)] == [f"model.stage.{k}" for k in range(3)]


def test_blocks_of_equal_kinds_and_other_edges_are_not_alike() -> None:
    x = node("x", "input")
    one = [node("a", "map.exp", "x"), node("b", "map.neg", "a"), node("c", "map.add", "b")]
    same = [node("d", "map.exp", "c"), node("e", "map.neg", "d"), node("f", "map.add", "e")]
    other = [node("d", "map.exp", "c"), node("e", "map.neg", "c"), node("f", "map.add", "d")]
    assert [g.members for g in grouped([x, *one, *same])] == [("a", "b", "c"), ("d", "e", "f")]
    assert grouped([x, *one, *other]) == ()


def test_a_chain_of_one_kind_has_no_blocks() -> None:
    assert grouped(chain([f"v{k}" for k in range(50)])) == ()


def test_a_repeat_within_a_repeat_is_the_larger_one() -> None:
    kinds = ["a", "b", "a", "b", "c"] * 4
    reads = [set[int](), *({k - 1} for k in range(1, len(kinds)))]
    assert repeats(kinds, reads) == [(0, 5, 4)]


def test_two_repeats_after_each_other_are_both_found() -> None:
    kinds = ["a", "b"] * 3 + ["x"] + ["c", "d", "e"] * 5
    reads = [set[int](), *({k - 1} for k in range(1, len(kinds)))]
    assert repeats(kinds, reads) == [(7, 3, 5), (0, 2, 3)]


def test_repeats_of_anything_are_apart_and_alike() -> None:
    random = Random(3)
    for _ in range(300):
        kinds = [random.choice("abc") for _ in range(random.randrange(40))]
        reads = [
            {random.randrange(k) for _ in range(2)} if k else set[int]() for k in range(len(kinds))
        ]
        found = sorted(repeats(kinds, reads))
        for start, period, count in found:
            assert count > 1 and period > 1
            blocks = [range(start + k * period, start + (k + 1) * period) for k in range(count)]
            looks = {
                tuple((kinds[i], frozenset(r - b[0] for r in reads[i] if r in b)) for i in b)
                for b in blocks
            }
            assert len(looks) == 1
        for (start, period, count), (after, _, _) in pairwise(found):
            assert start + period * count <= after


# ---- names and neighbours ------------------------------------------------------------------------


def test_words_of_names() -> None:
    assert words("/layer.3/attn_q/MatMul") == ["layer", "3", "attn", "q", "MatMul"]
    assert words("h12b") == ["h", "12", "b"]
    assert words("ổ_1") == ["ổ", "1"]


def test_names_group_what_has_no_repeated_structure() -> None:
    kinds = ["exp", "neg", "abs", "tanh", "sqrt", "log", "floor"]
    names = [f"net.{part}.{k}" for part in ("encoder", "decoder") for k in range(3)]
    nodes = [node("x", "input")]
    for name, kind, before in zip(names, kinds, ["x", *names], strict=False):
        nodes.append(node(name, f"map.{kind}", before))
    found = grouped(nodes)
    assert [(g.label, g.members) for g in found] == [
        ("net.encoder", tuple(names[:3])), ("net.decoder", tuple(names[3:])),
    ]  # fmt: skip


def test_a_name_that_is_a_kind_is_no_group() -> None:
    kinds = ["exp", "neg", "neg", "exp", "exp", "neg", "neg", "neg", "exp"]
    names = [f"{kind}_{k}" for k, kind in enumerate(kinds)]
    nodes = [node("x", "input")]
    for name, kind, before in zip(names, kinds, ["x", *names], strict=False):
        nodes.append(node(name, f"map.{kind}", before))
    assert not any(g.label in ("exp", "neg") for g in grouped(nodes))


def test_weights_join_who_reads_them_and_ends_stay_outside() -> None:
    found = grouped(transformer(3))
    members = {key for g in found for key in g.members}
    assert "/h.1/mlp/fc.weight" in members
    assert not members & {"ids", "mask", "output logits"}


def test_a_node_of_another_state_joins_its_neighbours() -> None:
    nodes = transformer(3)
    kinds, edges = read(nodes)
    core = frozenset(kinds)
    kinds["removed"] = "map.exp"
    edges += [("/h.1/ln/Sub", "removed"), ("removed", "/h.1/ln/Pow")]
    found = groups(kinds, edges, core)
    assert ["removed" in g.members for g in found] == [False, True, False]


# ---- overviews -----------------------------------------------------------------------------------


def test_an_overview_of_many_layers_is_its_layers_and_ends() -> None:
    kinds, edges = read(transformer(30))
    found = overview(kinds, edges, frozenset(kinds))
    labels = [g.label for g in found]
    assert len(set(labels)) == len(labels)
    assert [x for x in labels if x.startswith("h.")] == [f"h.{k}" for k in range(30)]
    assert {g.members for g in found if len(g.members) == 1} >= {("ids",), ("mask",)}


def test_more_groups_than_boxes_go_together_in_order() -> None:
    kinds, edges = read(transformer(30))
    found = overview(kinds, edges, frozenset(kinds), 12)
    assert len(found) <= 12
    layers = [g for g in found if g.label.startswith("h.")]
    assert [g.label for g in layers] == [f"h.{k} – {k + 4}" for k in range(0, 30, 5)]
    assert [part.label for part in layers[1].parts] == [f"h.{k}" for k in range(5, 10)]
    assert all(
        g.members == tuple(key for part in g.parts for key in part.members) for g in layers
    )


def test_boxes_that_go_together_feed_each_other() -> None:
    """Chains beside each other: none of them is cut to stand with a piece of another."""
    kinds, edges = {"x": "input"}, list[tuple[str, str]]()
    for k in range(6):
        before = "x"
        for n in range(20):
            key = f"c{k}_{n}"
            kinds[key] = "map.exp"
            edges.append((before, key))
            before = key
    found = overview(kinds, edges, frozenset(kinds), 14)
    assert len(found) <= 14
    for group in found[:-1]:
        assert len({key.split("_")[0] for key in group.members}) == 1


def test_a_weight_counts_with_the_first_op_that_reads_it() -> None:
    nodes = transformer(30)
    nodes.append(node("shared", "param"))
    for name in ("/h.4/mlp/fc", "/h.9/mlp/fc"):
        (op,) = (n for n in nodes if n["key"].startswith(name) and n["kind"].endswith("MatMul"))
        op["ins"].append("shared")
    kinds, edges = read(nodes)
    found = overview(kinds, edges, frozenset(kinds))
    assert [g.label for g in found if "shared" in g.members] == ["h.4"]
    alone = [g for g in found if kinds[g.members[0]] == "param" and len(g.members) == 1]
    assert not alone, "no weight stands by itself"


def test_a_chain_without_names_is_cut_into_pieces() -> None:
    kinds, edges = read(chain([str(k) for k in range(7000)]))
    found = overview(kinds, edges, frozenset(kinds))
    assert 2 <= len(found) <= BOXES
    assert [key for g in found for key in g.members if key != "0"] == [*kinds][1:]
