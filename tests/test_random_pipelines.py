"""Random pipelines keep the result: optional passes drawn, repeated, moved and left out.

    for all models m, pipelines p:   run(p(m)) = reference(m)

Most run in the plan interpreter, over poisoned memory; a few through machine code.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import compiler
from compiler.driver import trace_model
from compiler.passes.fuse import LEAVES
from compiler.pipeline import DEFAULT, PASSES, parse_pipeline, print_pipeline
from sample_models import sample
from tests.random_models import DECOMPOSED, FUSE, LOOPS, Random, models, pipelines
from tests.whole import (
    CONVOLUTIONS,
    NAMES,
    Whole,
    assert_close,
    assert_near,
    assert_records,
    float64,
    inputs_of,
    model_of,
)

many = settings(max_examples=150, suppress_health_check=list(HealthCheck))
few = settings(max_examples=15, suppress_health_check=list(HealthCheck))


@many
@given(models(14), pipelines())
def test_any_pipeline_computes_what_the_model_says(model: Random, pipeline: str) -> None:
    whole = Whole(model.proto, pipeline)
    assert_records(whole.trace.records)
    assert_close(whole.run(model.inputs), float64(whole.model, model.inputs), 1e-4)


@few
@given(models(10), pipelines(), st.sampled_from(["default", "strict"]))
def test_any_pipeline_makes_machine_code(model: Random, pipeline: str, numerics: str) -> None:
    built = compiler.compile(
        model.proto.SerializeToString(), pipeline=pipeline, numerics=numerics, threads=2
    )
    assert_close(built.engine.run(model.inputs), float64(built.model, model.inputs), 1e-4)


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(models(14), st.data())
def test_any_wish_of_the_user_keeps_the_result(model: Random, choice: st.DataObject) -> None:
    """Nodes sent to the library, pairs forced and forbidden, groups of any size, sizes pinned."""
    nodes = model.proto.graph.node
    names = [o for n in nodes if n.op_type != "Constant" for o in n.output] or ["in0"]
    value = st.sampled_from(names)
    library = choice.draw(st.lists(value, max_size=3)) if names != ["in0"] else []
    forced = f"default,partition-fallback{{force=[{','.join(library)}]}}"
    known = {d.dim_param for i in model.proto.graph.input for d in i.type.tensor_type.shape.dim}
    pin = {n: size for n, size in model.sizes.items() if n in known and choice.draw(st.booleans())}
    trace, _ = trace_model(model_of(model.proto), forced, pin=pin, until="fuse")
    computed = [op.key for op in trace.final.graph.ops if op.kind not in LEAVES]
    value = st.sampled_from([f'"{name}"' for name in computed] or [""])
    pairs = st.lists(st.tuples(value, value), max_size=4 if computed else 0)
    pipeline = f"max_ops={choice.draw(st.sampled_from([1, 2, 3, 64]))}"
    for option in ("force", "forbid"):
        names = ",".join(f"{a[:-1]}+{b[1:]}" for a, b in choice.draw(pairs))
        pipeline = f"{option}=[{names}],{pipeline}"
    pipeline = f"{forced},fuse{{{pipeline}}}"
    whole = Whole(model.proto, pipeline, pin=pin)
    assert_records(whole.trace.records)
    breaks = {b.op for b in whole.trace.breaks() if b.message == "break.forced"}
    assert not breaks or library
    assert_close(whole.run(model.inputs), float64(whole.model, model.inputs), 1e-4)
    json.dumps(whole.trace.to_json(), allow_nan=False)


@settings(max_examples=8)
@given(pipelines())
@pytest.mark.parametrize("name", [n for n in NAMES if n not in CONVOLUTIONS])
def test_any_pipeline_keeps_a_sample(name: str, pipeline: str) -> None:
    whole = Whole(sample(name).path, pipeline)
    assert_records(whole.trace.records)
    inputs = inputs_of(whole.trace, {s.name: 2 + k for k, s in enumerate(whole.module.dims)})
    assert_near(whole.run(inputs), float64(whole.model, inputs))


@given(pipelines())
def test_a_drawn_pipeline_is_read_back(pipeline: str) -> None:
    made = parse_pipeline(pipeline)
    assert parse_pipeline(print_pipeline(made)) == made


def test_what_is_drawn_covers_every_pass() -> None:
    """A pass that joins the pipeline joins these tests."""
    required = {p.name for p in PASSES if p.required}
    drawn = {text.partition("{")[0] for text in (*DECOMPOSED, *LOOPS, *FUSE)}
    assert required | drawn == {p.name for p in PASSES} - {"map-gpu"}


@pytest.mark.parametrize("dropped", sorted({p.name for p in DEFAULT if not p.required}))
def test_the_default_without_one_pass(dropped: str) -> None:
    whole = Whole(sample("softmax_spelled_out").path, f"default,-{dropped}")
    left = {r.name for r in whole.trace.records}
    assert (dropped in left) == (dropped == "fuse")
    assert len(whole.trace.records) < len(DEFAULT) or dropped == "fuse"
    inputs = inputs_of(whole.trace, {"rows": 3, "cols": 5})
    assert_near(whole.run(inputs), float64(whole.model, inputs))


def test_inputs_are_left_alone() -> None:
    """What an interpreter or an engine is given is never written to."""
    whole = Whole(sample("five_op_chain").path)
    inputs = inputs_of(whole.trace, {"r": 3, "c": 4})
    kept = {name: x.copy() for name, x in inputs.items()}
    whole.run(inputs)
    compiler.compile(whole.model).engine.run(inputs)
    assert all(np.array_equal(inputs[name], x) for name, x in kept.items())
