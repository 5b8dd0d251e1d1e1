"""bind-dims: pinned symbols become numbers everywhere, or a clear error."""

from __future__ import annotations

import pytest

from compiler.errors import PinError
from compiler.ir.edits import fold
from compiler.ir.parser import parse_module
from compiler.ir.printer import print_module
from compiler.ir.verify import verify
from compiler.passes.base import Context
from compiler.passes.bind_dims import BindDims

BEFORE = '''\
module @m
  dims(batch, n in [0,64] % 8)
  guards(batch == n @n0 "guard.broadcast")
  opsets("" 17)
  nodes(n0 Add, n1 If)
{
  graph (%x: f32[batch,n], %c: bool[]) -> (%y) {
    %t = onnx.Add %x, %x : f32[batch,n]  @[n0]
    %y = onnx.If %c {then_branch_region=0} () -> (%z) {
      %z = onnx.Neg %t : f32[2*batch+1,n]  @[n1.0.0]
    } : f32[(batch+n)//2,4]  @[n1]
  }
}
'''

AFTER = '''\
module @m
  dims(n in [0,64] % 8)
  guards(8 == n @n0 "guard.broadcast")
  opsets("" 17)
  nodes(n0 Add, n1 If)
{
  graph (%x: f32[8,n], %c: bool[]) -> (%y) {
    %t = onnx.Add %x, %x : f32[8,n]  @[n0]
    %y = onnx.If %c {then_branch_region=0} () -> (%z) {
      %z = onnx.Neg %t : f32[17,n]  @[n1.0.0]
    } : f32[(n//2)+4,4]  @[n1]
  }
}
'''


def pinned(**pin: int) -> str:
    before = parse_module(BEFORE)
    result = BindDims().run(before, Context(pin=pin))
    verify(result.module)
    assert fold(before, result.events) == result.module
    if not pin:
        assert result.module is before and not result.events
    return print_module(result.module)


def test_golden() -> None:
    assert pinned(batch=8) == AFTER


def test_no_pin_changes_nothing() -> None:
    assert pinned() == BEFORE


def test_all_pinned() -> None:
    shown = pinned(batch=16, n=16)
    assert "dims(" not in shown and "guards(" not in shown and "%x: f32[16,16]" in shown
    assert ": f32[16,4]" in shown


def test_unknown_symbol_names_the_known_ones() -> None:
    with pytest.raises(PinError, match="'rows'; it has: batch, n"):
        pinned(rows=1)


@pytest.mark.parametrize("n", [-8, 4, 72])
def test_size_out_of_range(n: int) -> None:
    with pytest.raises(PinError, match="0 to 64, a multiple of 8"):
        pinned(n=n)


def test_sizes_that_break_a_guard() -> None:
    with pytest.raises(PinError, match="does not hold"):
        pinned(batch=8, n=16)
