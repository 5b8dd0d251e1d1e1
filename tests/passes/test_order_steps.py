"""The order of steps: best among those of whole subtrees on a tree, never worse, any depth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations, product

from hypothesis import given
from hypothesis import strategies as st

from compiler.ir.dims import dim
from compiler.ir.graph import Graph, Op, Value
from compiler.ir.module import EMPTY
from compiler.ir.types import DType, TensorType
from compiler.passes.base import Context
from compiler.passes.order_steps import OrderSteps, peak, schedule, value_bytes


def graph(reads: list[set[int]], sizes: list[int]) -> Graph:
    """Op k reads the results of the ops in `reads[k]` and makes `sizes[k]` bytes; what nobody
    reads is an output."""
    ops = tuple(
        Op("launch", tuple(f"v{a}" for a in sorted(inputs)), (Value(f"v{k}", flags(size)),))
        for k, (inputs, size) in enumerate(zip(reads, sizes, strict=True))
    )
    read = set[int]().union(*reads)
    return Graph((), tuple(f"v{k}" for k in range(len(ops)) if k not in read), ops)


def flags(size: int) -> TensorType:
    """The type of so many bytes."""
    return TensorType(DType.bool, (dim(size),))


def by_subtree(found: Graph) -> Iterator[list[Op]]:
    """Every order of a tree in which each subtree is computed in one go."""
    producer = found.producer()

    def orders(op: Op) -> list[list[Op]]:
        return [
            [step for part in parts for step in part] + [op]
            for operands in permutations(producer[name] for name in op.operands)
            for parts in product(*map(orders, operands))
        ]

    yield from orders(found.ops[-1])


@st.composite
def trees(draw: st.DrawFn) -> Graph:
    """Trees of at most 7 ops, the root last."""
    count = draw(st.integers(1, 7))
    reads: list[set[int]] = [set() for _ in range(count)]
    for k in range(count - 1):
        reads[draw(st.integers(k + 1, count - 1))].add(k)
    return graph(reads, draw(st.lists(st.integers(0, 9), min_size=count, max_size=count)))


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Graphs of at most 12 ops, where values may have several readers."""
    count = draw(st.integers(1, 12))
    reads = [draw(st.sets(st.integers(0, k - 1), max_size=3)) if k else set() for k in range(count)]
    return graph(reads, draw(st.lists(st.integers(0, 9), min_size=count, max_size=count)))


@given(trees())
def test_no_order_of_whole_subtrees_needs_less(found: Graph) -> None:
    sizes = value_bytes(found, Context())
    least = min(peak(found, order, sizes) for order in by_subtree(found))
    assert peak(found, schedule(found, sizes), sizes) == least


@given(graphs())
def test_a_graph_never_needs_more_and_operands_come_first(found: Graph) -> None:
    sizes = value_bytes(found, Context())
    module = replace(EMPTY, graph=found)
    after = OrderSteps().run(module, Context()).module.graph
    assert peak(after, after.ops, sizes) <= peak(found, found.ops, sizes)
    seen: set[str] = set()
    for op in schedule(found, sizes):
        assert seen.issuperset(op.operands)
        seen.add(op.key)
    assert seen == {op.key for op in found.ops}


def test_a_chain_may_be_as_long_as_it_likes() -> None:
    found = graph([{k - 1} if k else set() for k in range(5000)], [1] * 5000)
    assert schedule(found, value_bytes(found, Context())) == list(found.ops)
