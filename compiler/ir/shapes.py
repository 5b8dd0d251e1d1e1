"""Broadcasting and equality of symbolic shapes: what is proved, and what becomes a guard.

    broadcast(a, b): 1 yields to the other; equal stays; else the first stays and `a == b` is a
    guard. Never by `max`: 0 against 1 gives 0.
"""

from __future__ import annotations

from collections.abc import Sequence

from .dims import ONE, Dim, Guard
from .graph import Origin

Shape = tuple[Dim, ...]


class ShapeMismatch(Exception):
    """Two constant dimensions that cannot be made equal."""

    def __init__(self, left: Dim, right: Dim) -> None:
        super().__init__(f"{left} against {right}")
        self.left, self.right = left, right


def same(a: Dim, b: Dim, node: Origin, reason: str) -> tuple[Guard, ...]:
    """What must hold for `a == b`. ShapeMismatch when both are different constants."""
    if a == b:
        return ()
    if a.constant is not None and b.constant is not None:
        raise ShapeMismatch(a, b)
    return (Guard(a, "==", b, node, reason),)


def broadcast(
    shapes: Sequence[Shape], node: Origin = (), reason: str = "guard.broadcast"
) -> tuple[Shape, tuple[Guard, ...]]:
    """NumPy's broadcasting over symbolic shapes: the result and the guards it rests on."""
    rank = max((len(s) for s in shapes), default=0)
    result: list[Dim] = []
    guards: list[Guard] = []
    for axis in range(rank):
        chosen = ONE
        for shape in shapes:
            at = axis - rank + len(shape)
            if at < 0 or shape[at] == ONE:
                continue
            if chosen == ONE:
                chosen = shape[at]
            else:
                guards += same(chosen, shape[at], node, reason)
        result.append(chosen)
    return tuple(result), tuple(dict.fromkeys(guards))


def window_shape(
    shape: Shape,
    axes: Sequence[int],
    sizes: Sequence[Dim],
    strides: Sequence[Dim],
    dilations: Sequence[Dim],
    before: Sequence[Dim],
    after: Sequence[Dim],
) -> Shape:
    """The type rule of `window`: where it stands, then where in it.

    Along a windowed axis of n elements there are `(before + n + after - (size-1)*dilation - 1) //
    stride + 1` windows; sizes, strides and dilations are constants.
    """
    out, tail = list(shape), list[Dim]()
    for k, a in enumerate(axes):
        room = before[k] + shape[a] + after[k] - (sizes[k] - 1) * dilations[k] - 1
        out[a] = room // (strides[k].constant or 1) + 1
        tail.append(sizes[k])
    return (*out, *tail)
