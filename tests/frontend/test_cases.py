"""Every graph of `../shared/cases` (where it stands beside the checkout) and every sample.

Through import, shape inference and partition, the module still computes what the case says.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from compiler.frontend.inputs import make_inputs
from compiler.frontend.load import OnnxModel, load
from compiler.frontend.reference import ReferenceRunner, reference
from compiler.ir.edits import fold
from compiler.ir.interpret.tensor import run_graph
from compiler.ir.module import EMPTY, Module
from compiler.ir.parser import parse_module
from compiler.ir.printer import print_module
from compiler.ir.types import Array
from compiler.ir.verify import verify
from compiler.passes.base import Context, Pass
from compiler.passes.bind_dims import BindDims
from compiler.passes.import_model import Import
from compiler.passes.infer_shapes import InferShapes
from compiler.passes.partition_fallback import PartitionFallback

ROOT = Path(__file__).parents[2]
FOLDER = ROOT.parent / "shared" / "cases"
META: dict[str, dict[str, Any]] = (
    json.loads((FOLDER / "meta.json").read_text("utf-8")) if FOLDER.is_dir() else {}
)
EXACT = ("exact", "agreed")
ROUNDED = ("bf16_roundtrip",)
"""Cases about rounding, which float64 does away with."""

PASSES: tuple[Pass, ...] = (Import(), BindDims(), InferShapes(), PartitionFallback())


def lowered(model: OnnxModel) -> tuple[Module, Context]:
    """The module after the front passes; each verified, printed, parsed and replayed."""
    context = Context(model=model)
    module = EMPTY
    for p in PASSES:
        result = p.run(module, context)
        assert fold(module, result.events) == result.module
        verify(result.module)
        assert parse_module(print_module(result.module)) == result.module
        module = result.module
    return module, context


def assert_close(found: Array, right: Array, tolerance: float) -> None:
    assert (found.shape, found.dtype) == (right.shape, right.dtype)
    if right.dtype.kind in "fc":
        np.testing.assert_allclose(found, right, rtol=tolerance, atol=tolerance)
    else:
        assert np.array_equal(found, right)


def stored(name: str, meta: dict[str, Any]) -> tuple[dict[str, Array], list[Array]]:
    with np.load(FOLDER / f"{name}.npz") as file:
        arrays = {key: file[key] for key in file.files}
    inputs = {n: arrays[f"in_{k}"] for k, n in enumerate(meta["ins"])}
    return inputs, [arrays[f"out_{k}"] for k in range(len(meta["outs"]))]


@pytest.mark.parametrize("name", META)
def test_case(name: str) -> None:
    meta = META[name]
    inputs, outputs = stored(name, meta)
    model = load(FOLDER / f"{name}.onnx")
    module, context = lowered(model)
    assert module.graph.names == tuple(meta["outs"])
    found = run_graph(
        module, inputs, context.params, externs=ReferenceRunner(module, context.params)
    )
    declared = reference(model, inputs, "declared")
    wide = reference(model, inputs)
    assert wide.precision == "float64", wide.reason
    if meta["mode"] in (*EXACT, "invalid-by-spec"):
        for k, value in enumerate(found):
            assert_close(found[value], outputs[k], meta["tol"])
            assert_close(declared.outputs[value], outputs[k], meta["tol"])
            if name not in ROUNDED:
                narrowed = np.asarray(wide.outputs[value]).astype(outputs[k].dtype)
                assert_close(narrowed, outputs[k], meta["tol"])


SAMPLES = sorted((ROOT / "sample_models").glob("*.onnx"))


def test_there_are_samples() -> None:
    assert len(SAMPLES) >= 6


@pytest.mark.parametrize("path", SAMPLES, ids=lambda p: p.stem)
def test_sample(path: Path) -> None:
    model = load(path)
    module, context = lowered(model)
    assert all(v.type.known for op in module.graph.ops for v in op.outputs)
    assert not any(op.kind == "extern" for op in module.graph.ops)
    inputs = make_inputs(module, {s.name: 5 for s in module.dims}, seed=3)
    found = run_graph(
        module, inputs, context.params, externs=ReferenceRunner(module, context.params)
    )
    right = reference(model, inputs)
    assert right.precision == "float64"
    for name, array in found.items():
        np.testing.assert_allclose(array, right.outputs[name], rtol=1e-4, atol=1e-5)
