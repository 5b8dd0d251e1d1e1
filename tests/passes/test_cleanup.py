"""The clean-up passes together: whatever their order, they end at one and the same graph.

Every module that some order of passes, with repetitions, can reach is visited; what no pass changes
any more is an end. Two modules count as one when they differ only in the names of values.
"""

from __future__ import annotations

from collections.abc import Hashable

import pytest

from compiler.ir.module import Module
from compiler.ir.types import ParamRef
from compiler.passes.algebraic_simplify import AlgebraicSimplify
from compiler.passes.base import Context, Pass
from compiler.passes.canonicalise import Canonicalise
from compiler.passes.cse import Cse
from compiler.passes.dce import Dce
from compiler.passes.decompose import Decompose
from compiler.passes.dedup_params import DedupParams
from compiler.passes.fold_batchnorm import FoldBatchnorm
from compiler.passes.fold_constants import FoldConstants
from compiler.passes.fold_shape_ops import FoldShapeOps
from compiler.passes.remove_noops import RemoveNoops
from compiler.pipeline import DEFAULT
from sample_models import sample
from tests.whole import Whole

LEAVES = ("const", "param", "dims")
NODES: tuple[Pass, ...] = (
    FoldConstants(), FoldShapeOps(), FoldBatchnorm(), DedupParams(), Canonicalise(), RemoveNoops(),
    Cse(), Dce(),
)  # fmt: skip
TENSORS: tuple[Pass, ...] = (
    FoldConstants(), DedupParams(), Canonicalise(), AlgebraicSimplify(), RemoveNoops(), Cse(),
    Dce(),
)  # fmt: skip


@pytest.fixture(scope="module")
def dirty() -> Whole:
    return Whole(sample("dirty").path)


def structure(module: Module) -> Hashable:
    """What a module computes from what, without the names of its values and weights."""
    digests = {p.name: p.digest for p in module.params}
    number = {v.name: k for k, v in enumerate(module.graph.inputs)}
    weights: dict[str, int] = {}
    rows: list[Hashable] = []
    for op in module.graph.ops:
        attributes: list[Hashable] = []
        for name, value in op.attrs:
            if isinstance(value, ParamRef):
                at = weights.setdefault(value.name, len(weights))
                attributes.append((name, digests[value.name], at))
            else:
                attributes.append((name, value))
        operands = tuple(None if n is None else number[n] for n in op.inputs)
        rows.append((op.kind, operands, tuple(attributes), tuple(v.type for v in op.outputs)))
        number.update((v.name, len(number) + k) for k, v in enumerate(op.outputs))
    outputs = tuple(number[n] for n in module.graph.outputs)
    return tuple(rows), outputs, tuple(sorted(digests.values()))


def ends(start: Module, passes: tuple[Pass, ...], context: Context) -> tuple[list[Module], int]:
    """What every order ends at, and how many modules lie on the ways."""
    seen: set[Hashable] = set()
    found: list[Module] = []
    todo = [start]
    while todo:
        module = todo.pop()
        key = structure(module)
        if key in seen:
            continue
        seen.add(key)
        results = [p.run(module, context).module for p in passes]
        changed = [r for r in results if r is not module]
        todo += changed
        if not changed:
            found.append(module)
    return found, len(seen)


def computed(module: Module) -> list[str]:
    return [op.kind for op in module.graph.ops if op.kind not in LEAVES]


def test_every_order_on_nodes_ends_at_one_graph(dirty: Whole) -> None:
    found, states = ends(
        dirty.trace.module_after("partition-fallback"), NODES, dirty.context
    )
    assert len(found) == 1 and states > 1000
    assert len(computed(found[0])) == 16


def test_every_order_on_tensor_ops_ends_at_one_graph(dirty: Whole) -> None:
    nodes = dirty.trace.module_after("partition-fallback")
    start = Decompose().run(nodes, dirty.context).module
    found, states = ends(start, TENSORS, dirty.context)
    assert len(found) == 1 and states > 100
    assert len(computed(found[0])) < len(computed(start)) / 2


def test_one_round_of_the_default_order_is_enough(dirty: Whole) -> None:
    """What the whole pipeline leaves: x + b, sigmoid, twice that, + 0, a quarter, product, bias."""
    before = next(r for r in dirty.trace.records if r.name == "rematerialise-cheap").before
    assert computed(before) == [
        "map.add", "map.sigmoid", "map.add", "map.add", "map.mul", "contract", "map.add",
    ]  # fmt: skip
    assert all(p.run(before, dirty.context).module is before for p in TENSORS)


def test_it_is_bait_for_every_clean_up_pass(dirty: Whole) -> None:
    optional = {p.name for p in (*NODES, *TENSORS)}
    assert {r.name for r in dirty.trace.records if r.changed and r.name in optional} == optional
    assert optional <= {p.name for p in DEFAULT}
