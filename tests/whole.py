"""Whole compiles: from a model to results, along every way there is.

    engine      compile(model).engine.run(inputs)          machine code
    plan        run_plan(trace.final, inputs)              the plan interpreter, nothing is compiled
    reference   reference(model, inputs)                   float64
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto

import compiler
from compiler.driver import Built, trace_model
from compiler.frontend.inputs import make_inputs
from compiler.frontend.load import OnnxModel, load
from compiler.frontend.reference import ReferenceRunner, reference
from compiler.ir.edits import fold
from compiler.ir.interpret import run_plan
from compiler.ir.module import Module
from compiler.ir.parser import parse_module
from compiler.ir.printer import print_module
from compiler.ir.types import Array
from compiler.ir.verify import verify
from compiler.passes.base import Context
from compiler.trace import PassRecord, Trace
from sample_models import Sample, catalogue, sample

ROOT = Path(__file__).resolve().parents[1]
CASES = ROOT.parent / "shared" / "cases"
META: dict[str, dict[str, Any]] = (
    json.loads((CASES / "meta.json").read_text("utf-8")) if CASES.is_dir() else {}
)
"""The cases beside the checkout, by name; none where the folder is missing."""

NAMES = tuple(each.name for each in catalogue())
PIPELINES = ("default", "op-by-op")
SLOW = {"conv_bn_relu": 3, "depthwise_separable": 3, "resnet_tiny": 3, "attention_block": 40,
        "tiny_gpt": 40, "ffn_dynamic": 40}  # fmt: skip
"""Sample -> the largest size for which the interpreters and the reference do not need long."""
CONVOLUTIONS = ("conv_bn_relu", "depthwise_separable", "resnet_tiny")


def pipeline_of(each: Sample, base: str = "default") -> str:
    """The pipeline at which the sample makes its point."""
    force = ",".join(each.force)
    return f"{base},partition-fallback{{force=[{force}]}}" if force else base


def built(name: str, base: str = "default", numerics: str = "default") -> Built:
    """A sample compiled, once a process."""
    return _built(name, base, numerics)


@cache
def _built(name: str, base: str, numerics: str) -> Built:
    each = sample(name)
    return compiler.compile(each.path, pipeline=pipeline_of(each, base), numerics=numerics)


def small(name: str, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """The sizes of the sample's symbols, no larger than it takes, and not slow."""
    most = sample(name).maximum.values()
    return tuple(min(n, high, SLOW.get(name, n)) for n, high in zip(sizes, most, strict=False))


def each_small(sizes: Iterable[tuple[int, ...]]) -> list[tuple[str, tuple[int, ...]]]:
    """Every sample with each of the sizes that it takes, once."""
    return [(n, taken) for n in NAMES for taken in dict.fromkeys(small(n, s) for s in sizes)]


def model_of(source: ModelProto | OnnxModel | Path) -> OnnxModel:
    if isinstance(source, ModelProto):
        return load(source.SerializeToString())
    return load(source) if isinstance(source, Path) else source


class Whole:
    """A model and its trace up to the plan and the source: no machine code is made."""

    def __init__(
        self, source: ModelProto | OnnxModel | Path, pipeline: str = "default", **how: Any
    ) -> None:
        self.model = model_of(source)
        found: tuple[Trace, Context] = trace_model(self.model, pipeline, until="build", **how)
        self.trace, self.context = found

    @property
    def module(self) -> Module:
        return self.trace.final

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """The results of the plan interpreter."""
        externs = ReferenceRunner(self.module, self.context.params)
        return run_plan(self.module, inputs, self.context.params, externs)


def inputs_of(trace: Trace, sizes: Mapping[str, int], seed: int = 0) -> dict[str, Array]:
    return make_inputs(trace.module_after("infer-shapes"), sizes, seed)


# ---- what is right -------------------------------------------------------------------------------


def float64(model: OnnxModel, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The reference's results, which must have been computed in float64."""
    found = reference(model, inputs)
    assert found.precision == "float64", found.reason
    return found.outputs


def assert_near(
    found: Mapping[str, Array], wanted: Mapping[str, Array], tolerance: float = 1e-5
) -> None:
    """Names and shapes equal; floats within `tolerance` of the norm; the rest equal."""
    assert list(found) == list(wanted)
    for name, right in wanted.items():
        a = found[name]
        assert a.shape == right.shape, f"{name}: {a.shape}, expected {right.shape}"
        if right.dtype.kind == "f":
            assert a.dtype.kind == "f"
            assert np.isfinite(right).all(), f"{name}: the reference is not finite"
            distance = np.linalg.norm(a.astype(np.float64) - right)
            assert distance <= tolerance * np.linalg.norm(right), f"{name}: off by {distance}"
        else:
            assert a.dtype == right.dtype
            assert np.array_equal(a, right), f"{name}: {a} expected {right}"


def assert_close(
    found: Mapping[str, Array], wanted: Mapping[str, Array], tolerance: float
) -> None:
    """As `assert_near`, but each element within `tolerance`, absolute and relative."""
    assert list(found) == list(wanted)
    for name, right in wanted.items():
        a = found[name]
        assert a.shape == right.shape, f"{name}: {a.shape}, expected {right.shape}"
        if right.dtype.kind in "fc":
            np.testing.assert_allclose(a, right, rtol=tolerance, atol=tolerance, err_msg=name)
        else:
            assert a.dtype == right.dtype
            assert np.array_equal(a, right), f"{name}: {a} expected {right}"


def assert_same_bits(found: Mapping[str, Array], wanted: Mapping[str, Array]) -> None:
    """Equal names, types, shapes and bits."""
    assert list(found) == list(wanted)
    for name, right in wanted.items():
        a = found[name]
        assert (a.shape, a.dtype) == (right.shape, right.dtype)
        assert a.tobytes() == right.tobytes(), f"{name}: {a} is not {right}, bit for bit"


# ---- what every record promises ------------------------------------------------------------------


def assert_records(records: tuple[PassRecord, ...]) -> None:
    """Every record begins where the last one ended, and replays; every state verifies, and is what
    its text says."""
    assert all(a.after is b.before for a, b in pairwise(records))
    for r in records:
        assert fold(r.before, r.events) == r.after, r.text
        assert (r.before is r.after) == (not any(e.edits for e in r.events)), r.text
        if r.changed:
            assert parse_module(print_module(r.after)) == r.after, r.text
            verify(r.after)


def states(record: PassRecord) -> Iterator[Module]:
    """The module after each rewrite of a record: what stepping through it shows."""
    state = record.before
    for event in record.events:
        if event.edits:
            state = fold(state, (event,))
            yield state
