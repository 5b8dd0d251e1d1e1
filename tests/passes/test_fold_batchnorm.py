"""fold-batchnorm: the same affine map with two arrays less; refused where it would be another."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.frontend.reference import ReferenceRunner
from compiler.ir.interpret.tensor import run_graph
from compiler.passes.base import Context
from compiler.passes.dce import Dce
from compiler.passes.fold_batchnorm import FoldBatchnorm
from tests.passes.texts import kinds, module, run

RANDOM = np.random.default_rng(5)


def array(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def statistics(channels: int) -> dict[str, np.ndarray]:
    found = {n: array(channels) for n in ("g", "s", "m")}
    return {**found, "v": 0.5 + np.abs(array(channels))}


def body(x: str, product: str, result: str, weights: dict[str, np.ndarray], more: str = "") -> str:
    leaves = " ".join(
        f"%{n} = param @{n} : f32[{','.join(map(str, a.shape))}]" for n, a in weights.items()
    )
    return f"""(%x: f32[{x}]) -> (%y{more}) {{
        {leaves}
        %c = {product} : f32[{result}]
        %y = onnx.BatchNormalization %c, %g, %s, %m, %v {{epsilon=0.001}} : f32[{result}]
    }}"""


PRODUCTS = [
    ("2,3,5,5", "onnx.Conv %x, %w", "2,4,3,3", {"w": array(4, 3, 3, 3)}, "onnx.Conv"),
    ("2,4,5,5", "onnx.Conv %x, %w, %b {group=2}", "2,6,3,3",
     {"w": array(6, 2, 3, 3), "b": array(6)}, "onnx.Conv"),
    ("2,3,9", "onnx.Conv %x, %w, %b", "2,4,8", {"w": array(4, 3, 2), "b": array(4)}, "onnx.Conv"),
    ("2,3", "onnx.MatMul %x, %w", "2,4", {"w": array(3, 4)}, "onnx.Gemm"),
    ("2,3", "onnx.Gemm %x, %w", "2,4", {"w": array(3, 4)}, "onnx.Gemm"),
    ("2,3", "onnx.Gemm %x, %w, %b {transB=1, alpha=0.5, beta=2.0}", "2,4",
     {"w": array(4, 3), "b": array(4)}, "onnx.Gemm"),
    ("3,2", "onnx.Gemm %x, %w, %b {transA=1}", "2,4", {"w": array(3, 4), "b": array(1, 4)},
     "onnx.Gemm"),
]  # fmt: skip


def sorted_attributes(product: str) -> str:
    head, brace, rest = product.partition("{")
    if not brace:
        return product
    return head + "{" + ", ".join(sorted(rest.rstrip("}").split(", "))) + "}"


@pytest.mark.parametrize(("x", "product", "result", "weights", "kind"), PRODUCTS)
def test_the_product_gives_what_both_gave(x, product, result, weights, kind) -> None:
    context = Context()
    weights = {**weights, **statistics(int(result.split(",")[1]))}
    before = module(body(x, sorted_attributes(product), result, weights), context, weights)
    after, events = run(FoldBatchnorm(), before, context)
    assert [e.message for e in events] == ["fold-batchnorm.done"]
    after, _ = run(Dce(), after, context)
    assert kinds(after) == ["param", "param", kind]
    inputs = {"x": array(*map(int, x.split(",")))}
    old, new = (
        run_graph(m, inputs, context.params, externs=ReferenceRunner(m, context.params))["y"]
        for m in (before, after)
    )
    np.testing.assert_allclose(new, old, rtol=1e-4, atol=1e-5)


def refusal(text: str, weights: dict[str, np.ndarray], numerics: str = "default") -> list[str]:
    context = Context(numerics=numerics)
    before = module(text, context, weights)
    after, events = run(FoldBatchnorm(), before, context)
    assert after is before
    return [e.message for e in events]


def test_refusals() -> None:
    weights = {"w": array(3, 4), **statistics(4)}
    plain = ("2,3", "onnx.MatMul %x, %w", "2,4", weights)
    assert refusal(body(*plain), weights, "strict") == ["fold-batchnorm.strict"]
    assert refusal(body(*plain, more=", %c"), weights) == ["fold-batchnorm.shared"]
    data = body(*plain).replace("(%x: f32[2,3])", "(%x: f32[2,3], %w: f32[3,4])")
    data = data.replace("%w = param @w : f32[3,4]", "")
    assert refusal(data, statistics(4)) == ["fold-batchnorm.constants"]
    batch = {"w": array(2, 3, 4), **statistics(3)}
    text = body("3,3", "onnx.MatMul %x, %w", "2,3,4", batch)
    assert refusal(text, batch) == ["fold-batchnorm.form"]


def test_nothing_is_said_of_what_reads_no_product() -> None:
    weights = statistics(3)
    leaves = " ".join(f"%{n} = param @{n} : f32[3]" for n in weights)
    text = f"""(%x: f32[2,3]) -> (%y) {{ {leaves}
        %c = onnx.Relu %x : f32[2,3]
        %y = onnx.BatchNormalization %c, %g, %s, %m, %v : f32[2,3]
    }}"""
    assert refusal(text, weights) == []
