"""What a viewer is given of a module: every value of the graph, with edges that agree."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

import pytest

from compiler.driver import trace_model
from compiler.ir.module import EMPTY
from compiler.ir.printer import print_module
from compiler.snapshots import kernels, snapshot
from compiler.trace import Trace
from sample_models import catalogue, sample

Row = Mapping[str, object]


def trace_of(name: str) -> Trace:
    found = sample(name)
    force = ",".join(found.force)
    pipeline = f"default,partition-fallback{{force=[{force}]}}" if force else None
    return trace_model(found.path, pipeline, until="build")[0]


def rows(value: object) -> Sequence[Row]:
    return cast(Sequence[Row], value)


@pytest.mark.parametrize("name", [s.name for s in catalogue()])
def test_every_snapshot_of_a_sample_holds_together(name: str) -> None:
    for module in trace_of(name).snapshots():
        found = snapshot(module)
        json.dumps(found, allow_nan=False)
        assert found["text"] == print_module(module)
        assert "".join(f"{line['text']}\n" for line in rows(found["lines"])) == found["text"]
        nodes = [node["key"] for node in rows(found["nodes"])]
        assert len(set(nodes)) == len(nodes)
        for edge in rows(found["edges"]):
            assert edge["from"] in nodes and edge["to"] in nodes
        ops = {op.key for op in module.graph.ops if op.kind not in ("const", "dims", "fused")}
        assert ops <= set(nodes)


def test_a_group_is_told_by_the_nodes_in_it() -> None:
    trace = trace_of("five_op_chain")
    before, after = (
        {str(n["key"]): n["group"] for n in rows(snapshot(m)["nodes"])}
        for m in (trace.record("fuse").before, trace.record("fuse").after)
    )
    assert before.keys() == after.keys(), "the graph keeps its nodes where they are"
    assert set(before.values()) == {""}
    assert {k for k, group in after.items() if group == "Y"} >= {"T1", "T2", "T3", "T4", "Y"}
    assert after["X"] == "" and after["output Y"] == ""


def test_edges_carry_the_bytes_of_their_value_over_the_symbols() -> None:
    found = snapshot(trace_of("five_op_chain").record("decompose").after)
    size = {e["value"]: e["bytes"] for e in rows(found["edges"])}
    assert size["X"] == size["T1"] == size["Y"]
    assert sorted(str(size["X"]).split("*")) == ["4", "cols", "rows"]


def test_the_empty_module_has_a_text_and_no_nodes() -> None:
    found = snapshot(EMPTY)
    assert found["nodes"] == [] and found["edges"] == []
    assert str(found["text"]).startswith("module @empty")


def test_a_kernel_brings_its_tree_source_and_origins() -> None:
    trace = trace_of("softmax_spelled_out")
    (kernel,) = kernels(trace.final, {})
    assert str(kernel["tree"]).startswith(f"kernel @{kernel['name']}")
    assert "def " in str(kernel["source"])
    assert kernel["llvm"] == kernel["assembly"] == "", "nothing is built yet"
    assert len(rows(kernel["origins"])) == 5
    lines = str(kernel["source"]).count("\n") + 1
    assert all(1 <= cast(int, at["line"]) <= lines for at in rows(kernel["lines"]))


def test_what_build_made_is_found_by_its_digest() -> None:
    module = trace_of("softmax_spelled_out").final
    (source,) = module.sources
    built = replace(source, artifacts=(("object", "o"), ("llvm", "l"), ("assembly", "gone")))
    (kernel,) = kernels(replace(module, sources=(built,)), {"l": b"define", "o": b"\xff"})
    assert kernel["llvm"] == "define"
    assert kernel["assembly"] == ""
