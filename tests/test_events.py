"""Every pass on every model: its events replay, and every state on the way can be read.

    fold(apply, before, events) == after        parse(print(m)) == m

The models are the samples, and the graphs that real compilers got wrong (`../shared/cases`, where
that folder stands beside the checkout).
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from compiler.ir.module import EMPTY
from compiler.ir.parser import parse_module
from compiler.ir.printer import print_module
from compiler.ir.verify import verify
from compiler.pipeline import DEFAULT, OP_BY_OP, PASSES, replay
from sample_models import sample
from tests.whole import (
    CASES,
    META,
    NAMES,
    PIPELINES,
    Whole,
    assert_records,
    built,
    pipeline_of,
    states,
)

MODELS: list[tuple[str, Path, str]] = [
    *((name, sample(name).path, base) for name in NAMES for base in PIPELINES),
    *((name, CASES / f"{name}.onnx", base) for name in META for base in PIPELINES),
]


@cache
def whole(name: str, path: Path, base: str) -> Whole:
    return Whole(path, pipeline_of(sample(name), base) if name in NAMES else base)


@pytest.mark.parametrize(
    ("name", "path", "base"), MODELS, ids=[f"{name} {base}" for name, _, base in MODELS]
)
def test_every_rewrite_can_be_stepped_through(name: str, path: Path, base: str) -> None:
    records = whole(name, path, base).trace.records
    assert records[0].before is EMPTY
    assert_records(records)
    for record in records:
        for state in states(record):
            if record.name == "import":  # the graph grows node by node, its readers come later
                assert parse_module(print_module(state)) == state
            else:
                verify(state)


@pytest.mark.parametrize("base", PIPELINES)
@pytest.mark.parametrize("name", NAMES)
def test_machine_code_is_a_record_too(name: str, base: str) -> None:
    trace = built(name, base).trace
    assert_records(trace.records)
    assert [r.name for r in trace.records] == [
        p.name for p in (DEFAULT if base == "default" else OP_BY_OP)
    ]
    assert all(replay(r) == r.after for r in trace.records)
    kinds = {kind for s in trace.final.sources for kind, _ in s.artifacts}
    assert kinds == ({"object", "llvm", "assembly"} if trace.final.kernels else set())


def test_the_models_give_every_pass_something_to_do() -> None:
    assert {p.name for p in DEFAULT} == {p.name for p in PASSES} - {"map-gpu"}
    traces = [built(name).trace for name in NAMES] + [whole(*model).trace for model in MODELS]
    changed = {r.name for trace in traces for r in trace.records if r.changed}
    assert {p.name for p in DEFAULT} - changed == {"bind-dims"}, "where a size is pinned"
