"""Access classes and index maps, read off op and types."""

import pytest

from compiler.fusion.access import (
    FIRST,
    Access,
    Place,
    axes_of,
    classify,
    identity,
    is_unit_reshape,
    operand_index,
    place,
)
from compiler.ir.dims import dim, dims
from compiler.ir.parser import parse_module

TEXT = """
module @m dims(r, c) {
  graph (%x: f32[r,c], %b: f32[c], %k: f32[c,4], %p: f32[r,1], %m: bool[r,c]) -> (%out) {
    %same = map.add %x, %b : f32[r,c]
    %col = map.mul %x, %p : f32[r,c]
    %pick = select %m, %x, %b : f32[r,c]
    %wide = expand %b : f32[r,c]
    %flip = permute %x {perm=[1, 0]} : f32[c,r]
    %half = slice %x {starts=[0, 1], steps=[1, 2]} : f32[r,c//2]
    %all = slice %x {starts=[0, 0], steps=[1, 1]} : f32[r,c]
    %sum = reduce.sum %x {axes=[1]} : f32[r,1]
    %unit = reshape %x : f32[r,1,c]
    %flat = reshape %x : f32[c*r]
    %prod = contract %x, %k {spec="mk,kn->mn"} : f32[r,4]
    %out = extern %x {op="onnx.Sin", opset=17} : f32[r,c]
  }
}
"""
MODULE = parse_module(TEXT)
OPS = MODULE.graph.producer()
TYPES = MODULE.graph.types()


@pytest.mark.parametrize(("value", "operand", "expected"), [
    ("same", 0, Access.ELEMENTWISE),
    ("same", 1, Access.BROADCAST),
    ("col", 1, Access.BROADCAST),
    ("pick", 0, Access.ELEMENTWISE),
    ("pick", 2, Access.BROADCAST),
    ("wide", 0, Access.BROADCAST),
    ("flip", 0, Access.INJECTIVE),
    ("half", 0, Access.INJECTIVE),
    ("all", 0, Access.ELEMENTWISE),
    ("sum", 0, Access.REDUCE),
    ("unit", 0, Access.ELEMENTWISE),
    ("flat", 0, Access.INJECTIVE),
    ("prod", 0, Access.CONTRACT),
    ("out", 0, Access.OPAQUE),
])  # fmt: skip
def test_class(value: str, operand: int, expected: Access) -> None:
    assert classify(OPS[value], operand, TYPES) is expected


def index(value: str, operand: int = 0):
    op = OPS[value]
    return operand_index(op, operand, TYPES, identity(op.type.dims))


def test_index_maps() -> None:
    i, j = Place(0), Place(1)
    assert index("same", 1) == (j,)
    assert index("col", 1) == (i, FIRST)
    assert index("flip") == (j, i)
    assert index("half") == (i, Place(1, dim(2), dim(1)))
    assert index("sum") == (i, Place(2))
    assert index("unit") == (i, Place(2))
    assert index("flat") is None
    assert index("out") is None


def test_maps_compose() -> None:
    """A slice with step 2 of a slice with step 2 has step 4, and the starts add up."""
    half = OPS["half"]
    at = (Place(0), Place(1, dim(2), dim(3)))
    assert operand_index(half, 0, TYPES, at) == (Place(0), Place(1, dim(4), dim(7)))


def test_a_reduction_reads_along_the_inner_axes_it_is_given() -> None:
    assert operand_index(OPS["sum"], 0, TYPES, (Place(0), FIRST), (Place(5),)) == (
        Place(0),
        Place(5),
    )


def test_places() -> None:
    shape = dims(("r", 1, "c"))
    assert identity(shape) == (Place(0), FIRST, Place(2))
    assert place(shape, (0, 1)) == (Place(0), FIRST, Place(1))
    assert axes_of(identity(shape)) == {0, 2}
    assert is_unit_reshape(OPS["unit"], TYPES)
    assert not is_unit_reshape(OPS["flat"], TYPES)
