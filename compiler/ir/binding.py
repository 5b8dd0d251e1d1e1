"""Binding: numbers for the symbols of a module, read off the shapes of its inputs.

    solve  d_k(symbols) = n_k  for every axis k of every input, then check bounds and guards

An axis that is one symbol gives its value at once; `2*s + 1 = 9` is solved because it is linear
in its only unknown; every equation is checked in the end, so two inputs that share a symbol must
agree. Imports nothing but NumPy and the value classes: the engine binds with it at load time.

Teaches: a symbolic compile moves the shape questions to the first call, it does not remove them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .dims import Dim, Guard, Symbol, dim
from .graph import Origin, format_origin
from .types import Array, DType, TensorType

Shape = tuple[int, ...]
Labels = Mapping[Origin, str]
"""Node position -> what to call the node in a message, for example `Add "residual"`."""


class BindingError(ValueError):
    """Inputs that the module cannot be run with."""


class InputError(BindingError):
    """A missing or unknown input, or one of another element type."""


class ShapeError(BindingError):
    """An input's shape that does not fit: names input, axis, expected and given."""


class GuardError(BindingError):
    """A guard that fails for these sizes: the compiled code holds for others only."""

    def __init__(self, guard: Guard, sizes: Mapping[str, int], label: str = "") -> None:
        self.guard = guard
        self.sizes = {name: sizes[name] for name in sorted(guard.symbols())}
        self.node = guard.node
        where = format_origin(guard.node) + (f" ({label})" if label else "")
        given = ", ".join(f"{name}={value}" for name, value in self.sizes.items())
        super().__init__(
            f"node {where} needs {guard} ({guard.reason}), "
            f"but {given}: give inputs for which it holds, or compile for these sizes"
        )


@dataclass(frozen=True, slots=True)
class _Equation:
    """`dim == given`, asked for by one axis of one value."""

    dim: Dim
    given: int
    what: str
    axis: int


def bind_symbols(
    inputs: Sequence[tuple[str, TensorType]],
    arrays: Mapping[str, Array],
    *,
    symbols: Sequence[Symbol] = (),
    guards: Sequence[Guard] = (),
    labels: Labels | None = None,
) -> dict[str, int]:
    """Symbol -> size for `arrays`; checks names, element types, shapes, bounds and guards.

    InputError for a missing or unknown name or another element type (byte order is free),
    else as `bind_shapes`.
    """
    check_inputs(inputs, arrays)
    shapes = {name: arrays[name].shape for name, _ in inputs}
    return bind_shapes(inputs, shapes, symbols=symbols, guards=guards, labels=labels)


def check_inputs(
    inputs: Sequence[tuple[str, TensorType]], arrays: Mapping[str, Array]
) -> None:
    """Every input is there, of its element type, and no other: else InputError."""
    names = [name for name, _ in inputs]
    known = ", ".join(names) or "none"
    for name in arrays:
        if name not in names:
            raise InputError(f"there is no input {name!r}; inputs: {known}")
    for name, type in inputs:
        if name not in arrays:
            raise InputError(f"input {name!r} is missing; inputs: {known}")
        if type.dtype is None or type.dtype is DType.bf16:
            continue
        given = DType.of(arrays[name].dtype)
        if given is not type.dtype:
            raise InputError(
                f"input {name!r} holds {given.value}, expected {type.dtype.value}: "
                f"convert it with astype"
            )


def bind_shapes(
    inputs: Sequence[tuple[str, TensorType]],
    shapes: Mapping[str, Shape],
    *,
    symbols: Sequence[Symbol] = (),
    guards: Sequence[Guard] = (),
    labels: Labels | None = None,
) -> dict[str, int]:
    """Symbol -> size from shapes alone.

    ShapeError for another rank or extent, a size outside a symbol's bounds or no multiple of its
    divisor, and a symbol that the shapes do not determine; GuardError for a guard that fails.
    Guards over symbols that no input carries (they come from data, later) are left alone.
    """
    sizes: dict[str, int] = {}
    known = -1
    while len(sizes) > known:
        known = len(sizes)
        for name, type in inputs:
            solve_shape(f"input {name!r}", type, shapes[name], sizes, partial=True)
    for name, type in inputs:
        solve_shape(f"input {name!r}", type, shapes[name], sizes)
    check_symbols(symbols, sizes, inputs)
    check_guards(guards, sizes, labels=labels)
    return sizes


def solve_shape(
    what: str, type: TensorType, shape: Shape, sizes: dict[str, int], *, partial: bool = False
) -> None:
    """Add to `sizes` what a shape tells, and check it against its type.

    `what` names the value in messages: `input 'x'`. ShapeError where the two cannot agree, and,
    unless `partial`, for a dimension whose symbols stay unknown.
    """
    if type.shape is None:
        return
    if len(shape) != len(type.shape):
        raise ShapeError(
            f"{what} has rank {len(shape)}, shape {format_shape(shape)}; "
            f"expected rank {len(type.shape)}, [{','.join(map(str, type.shape))}]"
        )
    open_equations = [
        _Equation(d, given, what, axis)
        for axis, (d, given) in enumerate(zip(type.shape, shape, strict=True))
    ]
    progress = True
    while open_equations and progress:
        progress = False
        for equation in tuple(open_equations):
            if _solve(equation, sizes):
                open_equations.remove(equation)
                progress = True
    if open_equations and not partial:
        equation = open_equations[0]
        unknown = ", ".join(sorted(equation.dim.symbols() - sizes.keys()))
        raise ShapeError(
            f"axis {equation.axis} of {equation.what} is {equation.dim} = {equation.given}, "
            f"which does not determine {unknown}: fix it at compile time"
        )


def _solve(equation: _Equation, sizes: dict[str, int]) -> bool:
    """Whether the equation is settled: checked, or solved for its only unknown symbol."""
    symbol = equation.dim.symbol
    if symbol is not None and symbol not in sizes:
        sizes[symbol] = equation.given
        return True
    unknown = equation.dim.symbols() - sizes.keys()
    if not unknown:
        expected = equation.dim.evaluate(sizes)
        if expected != equation.given:
            raise ShapeError(_mismatch(equation, f"{expected}", sizes))
        return True
    if len(unknown) > 1:
        return False
    (name,) = unknown
    rest = equation.dim.substitute({k: v for k, v in sizes.items() if k in equation.dim.symbols()})
    offset = rest.substitute({name: 0}).constant
    slope = (rest - (offset or 0)).exact_div(dim(name))
    factor = slope.constant if slope is not None else None
    if offset is None or not factor:
        return False
    value, remainder = divmod(equation.given - offset, factor)
    if remainder or value < 0:
        raise ShapeError(_mismatch(equation, f"{rest} for some {name} >= 0", sizes))
    sizes[name] = value
    return True


def _mismatch(equation: _Equation, expected: str, sizes: Mapping[str, int]) -> str:
    used = sorted(equation.dim.symbols() & sizes.keys())
    why = "" if equation.dim.constant is not None else f" ({equation.dim}"
    if why:
        why += "".join(f", {name}={sizes[name]}" for name in used) + ")"
    return (
        f"axis {equation.axis} of {equation.what} has extent {equation.given}, "
        f"expected {expected}{why}"
    )


def check_symbols(
    symbols: Iterable[Symbol],
    sizes: Mapping[str, int],
    inputs: Sequence[tuple[str, TensorType]] = (),
) -> None:
    """Every size is within its symbol's bounds and a multiple of its divisor: else ShapeError."""
    for symbol in symbols:
        if symbol.name not in sizes or symbol.admits(sizes[symbol.name]):
            continue
        where = next(
            (
                f" (axis {axis} of input {name!r})"
                for name, type in inputs
                for axis, d in enumerate(type.shape or ())
                if symbol.name in d.symbols()
            ),
            "",
        )
        multiple = f", a multiple of {symbol.divisor}" if symbol.divisor != 1 else ""
        raise ShapeError(
            f"{symbol.name}{where} is {sizes[symbol.name]}, "
            f"expected {symbol.low} to {symbol.high}{multiple}"
        )


def check_guards(
    guards: Iterable[Guard],
    sizes: Mapping[str, int],
    *,
    known: Mapping[str, int] | None = None,
    labels: Labels | None = None,
) -> None:
    """GuardError for the first guard that fails; guards with unknown symbols are skipped.

    With `known`, sizes whose guards were checked before, only guards that were still open then
    are looked at: what a `bind` step asks for.
    """
    for guard in guards:
        needed = guard.symbols()
        if not needed <= sizes.keys() or (known is not None and needed <= known.keys()):
            continue
        if not guard.holds(sizes):
            raise GuardError(guard, sizes, (labels or {}).get(guard.node, ""))


def format_shape(shape: Sequence[int]) -> str:
    return f"[{','.join(map(str, shape))}]"


def evaluate_shape(type: TensorType, sizes: Mapping[str, int]) -> Shape:
    """The numbers of a type's shape. ValueError for an unknown rank, KeyError for a symbol."""
    return tuple(d.evaluate(sizes) for d in type.dims)
