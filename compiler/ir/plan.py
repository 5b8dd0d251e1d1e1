"""The plan: what a run does, step by step, with sizes still symbolic; and the offset allocator.

A value lives in an alias class (`Buffer`): a graph input, an output, a weight, or a stretch of the
arena that is its own from the step that first writes it to the step that last reads it. Offsets
are numbers, so they belong to a *binding* of the symbols, made by `assign_offsets`.

Teaches: two buffers whose live ranges do not overlap can share memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .dims import Dim, Guard, Symbol, product
from .graph import NO_ORIGINS, Origins
from .types import Attrs, DType, TensorType

BUFFER_KINDS = ("input", "output", "param", "arena", "object")


@dataclass(frozen=True, slots=True)
class Buffer:
    """An alias class: values that share the same memory.

    `kind`: `input` and `output` are the caller's arrays, `param` a weight, `arena` planned
    memory, `object` a value without a known type (it lives as a NumPy array between library
    steps). `size` in bytes (0 for `object`); live from step `start` to step `stop`, inclusive.
    `source`: the input's, output's or param's outside name; empty for the arena.
    """

    name: str
    kind: str
    source: str
    members: tuple[str, ...]
    size: Dim
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Operand:
    """A value as a step sees it: its buffer and its contiguous type there."""

    value: str
    buffer: str
    type: TensorType


@dataclass(frozen=True, slots=True)
class KernelStep:
    """Launch `kernel` over `parallel` (the product of its `par` extents).

    `extents` are the values of the kernel's extents, in their order; `operands` its buffers, in
    the order of its arguments without scratch; `scratch` bytes a worker for each scratch
    argument, in their order.
    """

    kernel: str
    extents: tuple[Dim, ...]
    operands: tuple[Operand, ...]
    scratch: tuple[Dim, ...]
    parallel: Dim
    work: Dim
    """Elements touched, a measure of whether threads pay."""
    outputs: int
    """How many of the last operands are written."""
    origins: Origins = NO_ORIGINS


@dataclass(frozen=True, slots=True)
class CallStep:
    """A library call: `matmul` (attributes: `spec`) or `reference` (attributes: `node`, a digest).

    An absent optional input is None.
    """

    function: str
    inputs: tuple[Operand | None, ...]
    outputs: tuple[Operand, ...]
    attrs: Attrs
    origins: Origins = NO_ORIGINS


@dataclass(frozen=True, slots=True)
class CopyStep:
    """Copy a whole value to another buffer, both contiguous."""

    source: Operand
    target: Operand
    origins: Origins = NO_ORIGINS


@dataclass(frozen=True, slots=True)
class BindStep:
    """Bind symbols from the shape that a library step gave to `value`: axis -> symbol."""

    value: str
    symbols: tuple[tuple[int, str], ...]
    origins: Origins = NO_ORIGINS


Step = KernelStep | CallStep | CopyStep | BindStep


@dataclass(frozen=True)
class Plan:
    """Steps in order, the buffers they use, and what must hold of the sizes."""

    steps: tuple[Step, ...]
    buffers: tuple[Buffer, ...]
    guards: tuple[Guard, ...]

    def buffer(self, name: str) -> Buffer:
        for b in self.buffers:
            if b.name == name:
                return b
        raise KeyError(name)

    def launches(self) -> int:
        """Kernel, call and copy steps."""
        return sum(not isinstance(s, BindStep) for s in self.steps)


@dataclass(frozen=True, slots=True)
class Signature:
    """What a caller must know of a graph: inputs, outputs, symbols."""

    inputs: tuple[tuple[str, TensorType], ...]
    outputs: tuple[tuple[str, TensorType], ...]
    symbols: tuple[Symbol, ...]


@dataclass(frozen=True, slots=True)
class Interval:
    """A request for memory: `size` bytes from step `start` to step `stop`, inclusive."""

    name: str
    size: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Layout:
    """Offsets of intervals in one arena. All in bytes.

    `naive` is the sum of all sizes, `lower_bound` the largest sum of sizes live at one step:
    `lower_bound <= peak <= naive`.
    """

    offsets: Mapping[str, int]
    peak: int
    naive: int
    lower_bound: int


def align_up(value: int, alignment: int) -> int:
    return -(-value // alignment) * alignment


def assign_offsets(intervals: Sequence[Interval], alignment: int = 64) -> Layout:
    """Best-fit by decreasing size: each interval goes to the smallest gap that holds it.

    Sizes are rounded up to `alignment`, an empty interval takes no memory. Greedy by size:
    Pisarchyk and Lee, Efficient Memory Management for Deep Neural Net Inference, 2020.
    """
    sized = [(align_up(i.size, alignment), i) for i in intervals]
    placed: list[tuple[int, int, Interval]] = []
    offsets: dict[str, int] = {}
    for size, item in sorted(sized, key=lambda s: (-s[0], s[1].start, s[1].name)):
        busy = sorted(
            (at, end)
            for at, end, other in placed
            if other.start <= item.stop and item.start <= other.stop
        )
        best: tuple[int, int] | None = None
        cursor = 0
        for at, end in busy:
            if at - cursor >= size and (best is None or at - cursor < best[0]):
                best = (at - cursor, cursor)
            cursor = max(cursor, end)
        at = cursor if best is None else best[1]
        offsets[item.name] = at
        if size:
            placed.append((at, at + size, item))
    live: dict[int, int] = {}
    for size, item in sized:
        for step in range(item.start, item.stop + 1):
            live[step] = live.get(step, 0) + size
    return Layout(
        offsets,
        peak=max((end for _, end, _ in placed), default=0),
        naive=sum(size for size, _ in sized),
        lower_bound=max(live.values(), default=0),
    )


def find_overlap(intervals: Sequence[Interval], layout: Layout) -> tuple[str, str] | None:
    """Two intervals live at one step whose bytes overlap, or None. Independent of the allocator."""
    for k, a in enumerate(intervals):
        for b in intervals[:k]:
            if a.start <= b.stop and b.start <= a.stop and a.size and b.size:
                at, bt = layout.offsets[a.name], layout.offsets[b.name]
                if at < bt + b.size and bt < at + a.size:
                    return b.name, a.name
    return None


def buffer_bytes(dtype: DType, shape: Sequence[Dim]) -> Dim:
    return product(shape) * dtype.itemsize
