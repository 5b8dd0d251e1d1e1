"""The history that a viewer is given: its splices, folded, are the compile's own states."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any, cast

import pytest

from compiler.history import CONSTANTS, chunk, expand, history, splices
from compiler.ir.dims import dim
from compiler.ir.edits import KernelEdit, apply
from compiler.ir.graph import Op, Value
from compiler.ir.module import EMPTY, Module
from compiler.ir.printer import PartPrinter, print_module
from compiler.trace import Json, Trace
from tests.traces import NAMES, Document, compiled, history_of

Chunk = Mapping[str, Any]


def trace_of(name: str) -> Trace:
    return compiled(name)[0]


def folded(document: Document) -> Iterator[tuple[int, int, list[int]]]:
    """Pass, number of its events, state: by the splices alone, every state of the document."""
    state = list(document["first"])
    for p, done in enumerate(document["passes"]):
        yield p, 0, state
        for k, step in enumerate(done["steps"], 1):
            state = list(state)
            for at, removed, added in step:
                assert 0 <= at <= at + removed <= len(state)
                state[at : at + removed] = added
            yield p, k, state


def modules(trace: Trace) -> Iterator[tuple[int, int, Module]]:
    """Pass, number of its events, module: by `apply` alone."""
    for p, record in enumerate(trace.records):
        module = record.before
        yield p, 0, module
        for k, event in enumerate(record.events, 1):
            for edit in event.edits:
                module = apply(module, edit)
            yield p, k, module


def chunks(document: Document, state: Sequence[int]) -> list[Chunk]:
    return [document["chunks"][n] for n in state]


def text_of(found: Sequence[Chunk]) -> str:
    return "".join(f"{line['text']}\n" for c in found for line in c["lines"])


def nodes(document: Document, state: Sequence[int]) -> list[Chunk]:
    return [node for c in chunks(document, state) for node in c.get("nodes", ())]


def state_of(name: str, text: str) -> list[int]:
    """The state after the last pass that is called so."""
    document = history_of(name)
    at = max(p for p, done in enumerate(document["passes"]) if done["name"] == text)
    return expand(document, at)


# ---- every event of every pass of every sample ---------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_splices_fold_to_what_the_edits_make(name: str) -> None:
    document, printer = history_of(name), PartPrinter()
    made: dict[int, tuple[object, object]] = {}  # by identity of the part, which is held

    def wanted(module: Module) -> Iterator[object]:
        for part in printer.parts(module):
            if id(part) not in made:
                made[id(part)] = (part, json.loads(json.dumps(chunk(part))))
            yield made[id(part)][1]

    last = printed = None
    for (p, k, state), (q, j, module) in zip(
        folded(document), modules(trace_of(name)), strict=True
    ):
        assert (p, k) == (q, j)
        found = chunks(document, state)
        if module is not last:
            assert found == list(wanted(module)), (document["passes"][p]["name"], k)
        if module is not printed and k == len(document["passes"][p]["steps"]):
            printed = module
            assert print_module(module) == text_of(found)
        last = module


@pytest.mark.parametrize("name", ["fork_reduce", "dirty", "tiny_gpt", "conv_bn_relu"])
def test_a_printer_that_saw_other_states_prints_as_a_fresh_one(name: str) -> None:
    """What it remembers of one module must not show in another, whichever comes after which."""
    states = [module for _, _, module in modules(trace_of(name))]
    seen, source = PartPrinter(), Random(name)
    for module in [*source.sample(states, min(60, len(states))), *states[-3:]]:
        parts = seen.parts(module)
        assert "".join(f"{x.text}\n" for p in parts for x in p.lines) == print_module(module)


def test_a_printer_notices_what_an_untouched_op_is_printed_by() -> None:
    """A launch by its kernel's extents, a fused op by the types of what it reads."""
    trace = trace_of("bias_gelu")
    lowered, fused = trace.module_after("lower-loops"), trace.module_after("fuse")
    kernel = lowered.kernels[0]
    other = replace(kernel, extents=(*kernel.extents[::-1], "more"))
    value, *rest = fused.graph.inputs
    wider = Value(value.name, replace(value.type, shape=(*value.type.dims, dim(7))))
    for module, changed in (
        (lowered, apply(lowered, KernelEdit(kernel.name, other))),
        (fused, replace(fused, graph=replace(fused.graph, inputs=(wider, *rest)))),
    ):
        seen = PartPrinter()
        before, after = seen.parts(module), seen.parts(changed)
        ops = [k for k, p in enumerate(before) if isinstance(p.of, Op)]
        assert any(before[k].lines != after[k].lines for k in ops)
        text = "".join(f"{x.text}\n" for p in after for x in p.lines)
        assert text == print_module(changed)


@pytest.mark.parametrize("name", NAMES)
def test_passes_and_events_stand_beside_those_of_the_trace(name: str) -> None:
    document, trace = history_of(name), trace_of(name).to_json()
    told = cast(Sequence[Document], trace["passes"])
    assert [(p["name"], p["level"]) for p in document["passes"]] == [
        (p["name"], p["level"]) for p in told
    ]
    for mine, other in zip(document["passes"], told, strict=True):
        assert len(mine["steps"]) == len(other["events"])
        for step, event in zip(mine["steps"], other["events"], strict=True):
            assert event["edits"] or not step, "an event without edits changes nothing"


@pytest.mark.parametrize("name", NAMES)
def test_every_value_that_is_read_has_one_producer(name: str) -> None:
    document = history_of(name)
    last = None
    for p, k, state in folded(document):
        if state == last:
            continue
        last = state
        found, where = nodes(document, state), (document["passes"][p]["name"], k)
        keys = [node["key"] for node in found]
        assert len(set(keys)) == len(keys), where
        made = [v["name"] for node in found for v in node.get("outs", ())]
        assert len(set(made)) == len(made), where
        constants = {v for c in chunks(document, state) for v in c.get("constants", {})}
        for node in found:
            there = set(node.get("ins", ())) <= {*made, *constants}
            assert there or where[0] == "import", where  # the graph's outputs come with its head
        groups = [g for c in chunks(document, state) for g in c.get("groups", ())]
        assert {n["group"] for n in found if "group" in n} <= {g["key"] for g in groups}, where
        for group in groups:
            assert set(group["ins"]) <= {*made, *constants}, where
            assert {v["name"] for v in group["outs"]}


@pytest.mark.parametrize("name", NAMES)
def test_nodes_are_the_ops_of_the_module_its_inputs_and_its_outputs(name: str) -> None:
    document, trace = history_of(name), trace_of(name)
    for p, record in enumerate(trace.records):
        graph = record.after.graph
        ops = [
            op
            for top in graph.ops
            for op in (top.regions[0].ops if top.kind == "fused" else (top,))
            if op.kind not in CONSTANTS
        ]
        wanted = {op.key: list(dict.fromkeys(op.operands)) for op in ops}
        wanted |= {v.name: [] for v in graph.inputs}
        names = graph.names or graph.outputs
        wanted |= {f"output {n}": [v] for n, v in zip(names, graph.outputs, strict=True)}
        found = nodes(document, expand(document, p))
        assert {n["key"]: list(n.get("ins", ())) for n in found} == wanted


def test_a_state_in_the_middle_of_a_pass_is_found_by_its_number_of_events() -> None:
    document = history_of("five_op_chain")
    for p, k, state in folded(document):
        assert expand(document, p, k) == state


# ---- what a viewer relies on ---------------------------------------------------------------------


def test_what_stays_is_the_same_chunk() -> None:
    """A rewrite of one op leaves the chunks of all others alone."""
    document = history_of("tiny_gpt")
    at = next(p for p, done in enumerate(document["passes"]) if done["name"] == "decompose")
    for step in document["passes"][at]["steps"]:
        assert sum(removed for _, removed, _ in step) <= 3
    assert len(document["chunks"]) < sum(len(s) for _, _, s in folded(document)) / 50


def test_a_group_is_told_by_the_nodes_in_it() -> None:
    document = history_of("five_op_chain")
    before, after = (
        {n["key"]: n.get("group") for n in nodes(document, state_of("five_op_chain", name))}
        for name in ("rematerialise-cheap", "fuse")
    )
    assert before.keys() == after.keys(), "the graph keeps its nodes where they are"
    assert set(before.values()) == {None}
    assert {k for k, group in after.items() if group} >= {"T1", "T2", "T3", "T4", "Y"}
    assert after["X"] is None and after["output Y"] is None
    (group,) = (
        g for c in chunks(document, state_of("five_op_chain", "fuse")) for g in c.get("groups", ())
    )
    assert {n for n in after.values() if n} == {group["key"]}
    assert set(group["ins"]) >= {"X", "R", "b", "s"} and [v["name"] for v in group["outs"]] == ["Y"]
    assert group["origins"] == ["n0", "n1", "n2", "n3", "n4"]


def test_values_carry_their_bytes_over_the_symbols() -> None:
    document = history_of("five_op_chain")
    found = nodes(document, state_of("five_op_chain", "decompose"))
    size = {v["name"]: v["bytes"] for n in found for v in n.get("outs", ())}
    assert size["X"] == size["T1"] == size["Y"]
    dims = trace_of("five_op_chain").final.dims
    assert sorted(size["X"].split("*")) == sorted(["4", *(d.name for d in dims)])


def test_a_value_whose_type_is_not_known_yet_has_no_bytes() -> None:
    document = history_of("five_op_chain")
    found = nodes(document, state_of("five_op_chain", "import"))
    (value,) = (v for n in found for v in n.get("outs", ()) if v["name"] == "T1")
    assert value["bytes"] is None


def test_constants_are_labels_and_no_nodes() -> None:
    document = history_of("five_op_chain")
    state = state_of("five_op_chain", "decompose")
    constants = {k: v for c in chunks(document, state) for k, v in c.get("constants", {}).items()}
    assert constants and not set(constants) & {n["key"] for n in nodes(document, state)}
    read = {v for n in nodes(document, state) for v in n.get("ins", ())}
    assert set(constants) <= read, "a constant that nobody reads is gone by now"
    assert {"-2.0", "2.0"} <= set(constants.values()), "the ends of the clip"


def test_a_launch_names_its_kernel_and_a_weight_its_param() -> None:
    document = history_of("mlp")
    found = nodes(document, state_of("mlp", "lower-loops"))
    kernels = {k.name for k in trace_of("mlp").module_after("lower-loops").kernels}
    assert {n["kernel"] for n in found if n["kind"] == "launch"} == kernels
    params = {p.name for p in trace_of("mlp").final.params}
    assert {n["param"] for n in found if n["kind"] == "param"} == params


def test_nothing_compiled_has_no_history() -> None:
    document = history([])
    assert document["passes"] == []
    first = chunks(document, cast(Sequence[int], document["first"]))
    assert text_of(first) == print_module(EMPTY)


# ---- splices -------------------------------------------------------------------------------------


def spliced(before: Sequence[int], found: Sequence[Json]) -> list[int]:
    state = list(before)
    for at, removed, added in cast(Sequence[tuple[int, int, Sequence[int]]], found):
        state[at : at + removed] = added
    return state


@pytest.mark.parametrize(
    ("before", "after", "wanted"),
    [
        ([1, 2, 3], [1, 2, 3], []),
        ([1, 2, 3], [1, 3], [[1, 1, []]]),
        ([1, 3], [1, 2, 3], [[1, 0, [2]]]),
        ([1, 2, 3], [1, 4, 5, 3], [[1, 1, [4, 5]]]),
        ([], [1], [[0, 0, [1]]]),
        ([1], [], [[0, 1, []]]),
        ([1, 1, 1], [1, 1], [[2, 1, []]]),
    ],
)
def test_splices_say_what_changed(
    before: list[int], after: list[int], wanted: list[object]
) -> None:
    assert splices(before, after) == wanted


def test_splices_of_far_places_leave_the_middle_alone() -> None:
    before, after = list(range(100)), [*range(1, 50), 200, *range(50, 99)]
    found = splices(before, after)
    assert spliced(before, found) == after
    assert sum(cast(int, s[1]) for s in cast(Sequence[Sequence[Json]], found)) == 2


def test_splices_turn_any_list_into_any_other() -> None:
    random = Random(7)
    for _ in range(3000):
        before = [random.randrange(8) for _ in range(random.randrange(9))]
        after = [random.randrange(8) for _ in range(random.randrange(9))]
        assert spliced(before, splices(before, after)) == after
        same = random.sample(range(9), 9)
        assert spliced(sorted(same), splices(sorted(same), same)) == same
