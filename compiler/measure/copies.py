"""How fast this machine copies: the ceiling that bandwidth is a share of.

Three copies of the same bytes, and the best one counts: the library's (NumPy), plain 64-byte
stores, and non-temporal stores, which do not read a line before writing it. All by the same
threads as the engine.

Teaches: a kernel that moves its floor at the speed of a copy cannot become faster by other code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from compiler.ir.types import Array
from compiler.runtime.addresses import address_of, aligned_empty
from compiler.runtime.native import RUNNER_SYMBOL, NativeCode, assemble, runner_object

BLOCK = 1 << 14
"""Bytes that one iteration of a copy kernel moves."""

_COPY = """
define void @{name}(ptr %params, i64 %worker, i64 %lo, i64 %hi) {{
entry:
  %x.at = getelementptr i64, ptr %params, i64 0
  %y.at = getelementptr i64, ptr %params, i64 1
  %x.word = load i64, ptr %x.at
  %y.word = load i64, ptr %y.at
  %x = inttoptr i64 %x.word to ptr
  %y = inttoptr i64 %y.word to ptr
  %start = mul i64 %lo, {block}
  %stop = mul i64 %hi, {block}
  br label %loop
loop:
  %i = phi i64 [%start, %entry], [%next, %loop]
  %from = getelementptr i8, ptr %x, i64 %i
  %to = getelementptr i8, ptr %y, i64 %i
  %value = load <16 x float>, ptr %from, align 64
  store <16 x float> %value, ptr %to, align 64{hint}
  %next = add i64 %i, 64
  %more = icmp ult i64 %next, %stop
  br i1 %more, label %loop, label %done
done:
  ret void
}}
!0 = !{{i32 1}}
"""


@dataclass(frozen=True)
class Copies:
    """Ready-made copies of `nbytes` bytes, by name; calling one copies `source` to `target`."""

    nbytes: int
    calls: dict[str, Callable[[], None]]
    source: Array
    target: Array


def copies(nbytes: int, threads: int) -> Copies:
    """The three copies over buffers of their own, of `nbytes` rounded up to whole blocks."""
    blocks = max(1, -(-nbytes // BLOCK))
    size = blocks * BLOCK
    source: Array = aligned_empty((size,), np.uint8)
    target: Array = aligned_empty((size,), np.uint8)
    source[...] = 1
    target[...] = 0
    names = {"plain stores": "copy_plain", "non-temporal stores": "copy_nontemporal"}
    hints = {"copy_plain": "", "copy_nontemporal": ", !nontemporal !0"}
    objects = {
        name: assemble(_COPY.format(name=name, block=BLOCK, hint=hint), host=True)
        for name, hint in hints.items()
    }
    code = NativeCode({**objects, RUNNER_SYMBOL: runner_object()})
    params = np.array([address_of(source), address_of(target)], np.int64)
    calls: dict[str, Callable[[], None]] = {"library": lambda: np.copyto(target, source)}
    for label, name in names.items():
        step = np.array([code.address(name), address_of(params), blocks, 1], np.int64)
        calls[label] = _runner(code, step, threads, (params, source, target))
    return Copies(size, calls, source, target)


def _runner(
    code: NativeCode, step: Array, threads: int, alive: tuple[Array, ...]
) -> Callable[[], None]:
    address = address_of(step)

    def call() -> None:
        assert alive and step.size
        code.run(address, 1, threads)

    return call
