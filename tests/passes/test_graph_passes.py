"""The graph passes on whole models: samples, and graphs that real compilers got wrong.

Every pass up to `decompose`, in both orders; each single rewrite leaves a module that verifies and
replays (`texts.run`), and the tensor graph at the end computes what the model computes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from compiler.frontend.inputs import make_inputs
from compiler.frontend.load import load
from compiler.frontend.reference import ReferenceRunner
from compiler.ir.interpret.tensor import run_graph
from compiler.ir.module import EMPTY, Module
from compiler.ir.types import Array
from compiler.passes.base import Context
from compiler.passes.import_model import Import
from compiler.passes.infer_shapes import InferShapes
from compiler.pipeline import DEFAULT, OP_BY_OP, Pipeline
from tests.passes.texts import run

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = sorted((ROOT / "sample_models").glob("*.onnx"))
CASES = ROOT.parent / "shared" / "cases"

ORDERS = pytest.mark.parametrize("order", [DEFAULT, OP_BY_OP], ids=["default", "op by op"])


def tensor_level(path: Path, order: Pipeline) -> tuple[Module, Context]:
    """The module before `fuse`; no ONNX node is left in it."""
    context = Context(model=load(path))
    module = EMPTY
    for p in order:
        if p.name == "fuse":
            break
        if isinstance(p, Import):
            module = p.run(module, context).module
        else:
            module, _ = run(p, module, context)
    assert all(op.family != "onnx" for op in module.graph.ops)
    return module, context


def nodes_level(path: Path) -> Module:
    """The module in which Gathers still tell how large an index may be."""
    context = Context(model=load(path))
    module = Import().run(EMPTY, context).module
    return InferShapes().run(module, context).module


def results(module: Module, context: Context, inputs: Mapping[str, Array]) -> dict[str, Array]:
    feeds = {v.name: inputs[v.name] for v in module.graph.inputs}
    return run_graph(
        module, feeds, context.params, externs=ReferenceRunner(module, context.params)
    )


@ORDERS
@pytest.mark.parametrize("path", SAMPLES, ids=lambda p: p.stem)
def test_samples_compute_the_same(path: Path, order: Pipeline) -> None:
    module, context = tensor_level(path, order)
    model = onnx.load(path)
    sizes = {s.name: 3 + k for k, s in enumerate(module.dims)}
    inputs = make_inputs(nodes_level(path), sizes, seed=0)
    wanted = ReferenceEvaluator(model).run(None, inputs)
    found = results(module, context, inputs)
    for name, array in zip(module.graph.names, wanted, strict=True):
        np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-5)


def stored_cases() -> list[str]:
    """Names of the cases beside the checkout whose outputs the specification or usage fixes."""
    if not CASES.is_dir():
        return []
    meta = json.loads((CASES / "meta.json").read_text(encoding="utf-8"))
    return sorted(n for n, m in meta.items() if m["mode"] in ("exact", "agreed"))


@ORDERS
@pytest.mark.parametrize("name", stored_cases())
def test_cases_give_the_stored_outputs(name: str, order: Pipeline) -> None:
    meta = json.loads((CASES / "meta.json").read_text(encoding="utf-8"))[name]
    module, context = tensor_level(CASES / f"{name}.onnx", order)
    arrays = np.load(CASES / f"{name}.npz")
    inputs = {n: arrays[f"in_{k}"] for k, n in enumerate(meta["ins"])}
    found = results(module, context, inputs)
    for k, n in enumerate(meta["outs"]):
        wanted = arrays[f"out_{k}"]
        assert found[n].dtype == wanted.dtype and found[n].shape == wanted.shape
        if wanted.dtype.kind == "f":
            tolerance = meta["tol"]
            np.testing.assert_allclose(
                found[n], wanted, rtol=tolerance, atol=tolerance, equal_nan=True
            )
        else:
            np.testing.assert_array_equal(found[n], wanted)
