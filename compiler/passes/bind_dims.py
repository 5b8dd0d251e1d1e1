"""bind-dims: dimensions that are fixed at compile time become numbers in every type.

    pin batch=32:      x: f32[batch, 784]     becomes     x: f32[32, 784]

Teaches: a size is either a number now or a symbol until the first call; a pin moves it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from compiler.errors import PinError
from compiler.ir.dims import Dim, Guard, Symbol, dim
from compiler.ir.edits import Dims, Edit, Event, Types, fold, parameters
from compiler.ir.module import Module
from compiler.ir.types import TensorType

from .base import Context, Pass, Result
from .nodes import all_values


@dataclass(frozen=True)
class BindDims(Pass):
    """`bind-dims`: pins the symbols in `context.pin`."""

    name: ClassVar[str] = "bind-dims"
    required: ClassVar[bool] = True
    level: ClassVar[str] = "onnx"
    after: ClassVar[tuple[str, ...]] = ("import",)

    def run(self, module: Module, context: Context) -> Result:
        """One event a pinned symbol. PinError for a name or a size that the model lacks."""
        events: list[Event] = []
        known = {s.name: s for s in module.dims}
        for name, value in context.pin.items():
            if name not in known:
                names = ", ".join(known) or "none"
                raise PinError("pin.unknown", name=name, known=names)
            _check(known[name], value)
        for name, value in context.pin.items():
            edits: list[Edit] = []
            sizes = {name: dim(value)}
            types = tuple(
                (v.name, bound)
                for v in all_values(module.graph)
                if (bound := substituted(v.type, sizes)) != v.type
            )
            symbols = tuple(s for s in module.dims if s.name != name)
            edits.append(Dims(symbols, _guards(module.guards, sizes)))
            if types:
                edits.append(Types(types))
            event = Event(
                "bind-dims", name, tuple(edits), "bind-dims.pinned",
                parameters(name=name, value=value, types=len(types)),
            )  # fmt: skip
            module = fold(module, (event,))
            events.append(event)
        return Result(module, tuple(events))


def _check(symbol: Symbol, value: int) -> None:
    if not symbol.admits(value):
        raise PinError(
            "pin.bounds", name=symbol.name, value=value, low=symbol.low, high=symbol.high,
            divisor=symbol.divisor,
        )  # fmt: skip


def _guards(guards: tuple[Guard, ...], sizes: Mapping[str, Dim]) -> tuple[Guard, ...]:
    """The guards with sizes put in; those that hold go, one that does not is a PinError."""
    kept: list[Guard] = []
    for guard in guards:
        new = replace(
            guard, left=guard.left.substitute(sizes), right=guard.right.substitute(sizes)
        )
        if new.symbols():
            kept.append(new)
        elif not new.holds({}):
            raise PinError(
                "pin.guard", left=str(guard.left), relation=guard.relation, right=str(guard.right)
            )
    return tuple(kept)


def substituted(type: TensorType, sizes: Mapping[str, Dim]) -> TensorType:
    """The type with symbols replaced."""
    if type.shape is None or not type.symbols() & sizes.keys():
        return type
    return replace(type, shape=tuple(d.substitute(sizes) for d in type.shape))
