"""How many steps each sample takes, and that none of them could be spared by fusing.

    launches = library products + kernels       tail: what follows element by element from a product

    after a product of the library   at most one kernel that only computes its tail
    after a generated convolution    none: its tail is in its own kernel, or in that of a reduction
    anywhere                         no step that only moves elements to other places
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import pytest

from compiler.driver import trace_model
from compiler.frontend.load import load
from compiler.fusion.access import MOVEMENT
from compiler.ir.graph import Graph, Op
from compiler.ir.plan import CallStep, CopyStep, KernelStep, Plan
from compiler.trace import Trace
from sample_models import sample
from tests.whole import NAMES, pipeline_of


class Row(NamedTuple):
    """A sample: products of the library (a graph break counts as one), kernels, and the steps op by
    op. What each kernel is for stands beside."""

    name: str
    library: int
    kernels: int
    apart: int


TABLE = (
    Row("five_op_chain", 0, 1, 5),  # all five
    Row("softmax_spelled_out", 0, 1, 5),  # the whole row
    Row("mlp", 2, 2, 6),  # bias and Relu; bias and softmax
    Row("layernorm_residual", 1, 2, 4),  # normalisation; bias and residual
    Row("digits", 2, 3, 7),  # scaling, which a library product cannot hold; bias and Relu; softmax
    Row("diamond", 1, 2, 3),  # before and after the forced library step (R2)
    Row("bias_relu", 0, 1, 2),
    Row("bias_gelu", 0, 1, 2),
    Row("matmul", 1, 0, 1),
    Row("fork_reduce", 0, 2, 5),  # the row sums; every row needs the sums of all rows
    Row("dirty", 1, 2, 21),  # what comes before the product; its bias
    Row("mlp_gelu", 2, 2, 10),  # bias and Gelu; bias and softmax
    Row("ffn_dynamic", 2, 3, 19),  # normalisation; bias and Gelu; bias and residual
    Row("lstm_cell", 2, 1, 14),  # sum, bias, split, all gates
    # Four products of weights with a bias each; two of activations, a softmax between them.
    Row("attention_block", 6, 5, 17),
    # Each of two layers: eight products; three biases, softmax, bias and Gelu, and two kernels with
    # bias, residual and the next normalisation. Before them the mask, and embedding with the first
    # normalisation; after them one product.
    Row("tiny_gpt", 17, 16, 110),
    # Convolution; maximum over windows; average; then the bias of the product.
    Row("conv_bn_relu", 1, 4, 8),
    Row("depthwise_separable", 0, 3, 12),  # the three convolutions
    # Eight convolutions, one of them at a shortcut; average; the bias of the product.
    Row("resnet_tiny", 1, 10, 37),
)


@cache
def trace(name: str, base: str = "default") -> Trace:
    """A sample up to its plan: no machine code is made."""
    each = sample(name)
    found, _ = trace_model(load(each.path), pipeline_of(each, base), until="emit")
    return found


def plan(name: str, base: str = "default") -> Plan:
    found = trace(name, base).final.plan
    assert found is not None
    return found


def test_the_table_has_every_sample() -> None:
    assert tuple(row.name for row in TABLE) == NAMES


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)
def test_steps_are_counted(row: Row) -> None:
    fused = plan(row.name)
    assert sum(isinstance(s, CallStep) for s in fused.steps) == row.library
    assert sum(isinstance(s, KernelStep) for s in fused.steps) == row.kernels
    assert fused.launches() == row.library + row.kernels
    assert plan(row.name, "op-by-op").launches() == row.apart


def fused(name: str) -> Graph:
    return trace(name).module_after("fuse").graph


def is_product(op: Op) -> bool:
    return op.kind == "contract" or op.get("group") == "contract"


def tail(graph: Graph, product: Op) -> Iterator[str]:
    """Kernels without loops of their own that follow from a product, through views and each
    other."""
    names, seen = [v.name for v in product.outputs], set[str]()
    while names:
        name = names.pop()
        for op in graph.ops:
            if name not in op.operands or op.key in seen:
                continue
            if op.kind == "reshape" or op.get("group") == "pointwise":
                seen.add(op.key)
                names += [v.name for v in op.outputs]
                if op.kind != "reshape":
                    yield op.key


@pytest.mark.parametrize("name", NAMES)
def test_the_tail_of_a_product_is_one_kernel_at_most_and_of_a_convolution_none(name: str) -> None:
    graph = fused(name)
    for product in filter(is_product, graph.ops):
        kernels = list(tail(graph, product))
        assert len(kernels) <= (1 if product.kind == "contract" else 0), (product.key, kernels)


def test_products_of_both_kinds_are_there() -> None:
    found = {(op.kind, len(list(tail(graph, op))))
             for graph in map(fused, NAMES) for op in graph.ops if is_product(op)}  # fmt: skip
    assert found == {("contract", 0), ("contract", 1), ("fused", 0)}


@pytest.mark.parametrize("name", NAMES)
def test_no_step_only_moves_elements(name: str) -> None:
    """Where an index map can express it, nothing is copied: every kernel computes something."""
    idle = MOVEMENT | {"reshape", "copy", "const", "dims", "iota", "window"}
    for op in fused(name).ops:
        if op.kind == "fused":
            assert {inner.family for inner in op.regions[0].ops} - idle, op.key
        else:
            assert op.family not in MOVEMENT, op.key
    assert not any(isinstance(s, CopyStep) for s in plan(name).steps)
