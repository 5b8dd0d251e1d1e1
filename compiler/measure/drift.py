"""How far each pass moved the results: the module before and after it, run on the same inputs.

    max_abs = max |a - b|       norm_rel = max over outputs of |a - b| / |b|
    max_ulp = max number of floating-point values from a to b     (b before the pass, a after)

Dispatch of the interpreters is per op, so every module on the way down runs: as a graph while
there is only that, as a plan once there is one, and as the built engine at the source level. The
sizes are small, differ from each other, and are stated.

Teaches: "the results are a little different" is a property of one pass, and it has a first value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from compiler.driver import Built
from compiler.frontend.inputs import make_inputs
from compiler.frontend.reference import ReferenceRunner
from compiler.ir.dims import Symbol
from compiler.ir.graph import Origin, format_origin
from compiler.ir.interpret.plan import run_plan
from compiler.ir.interpret.tensor import run_graph
from compiler.ir.module import Module
from compiler.ir.plan import KernelStep
from compiler.ir.types import Array
from compiler.trace import Drift, PassRecord, Trace

SMALL = (3, 5, 2, 4)
"""Sizes of the first symbols, so that two axes are not mistaken for each other."""
LIMIT = 100_000
"""Innermost iterations that the interpreter of kernels is given."""


@dataclass(frozen=True)
class _Run:
    """Results by outside name, and all values that were seen, in order."""

    outputs: Mapping[str, Array]
    values: Mapping[str, Array] = field(default_factory=dict[str, Array])


def with_drift(built: Built, seed: int = 0) -> Trace:
    """The trace with the drift of every pass that changed the module.

    None stays where there is nothing to compare: before import, at sizes that a guard forbids, and
    where kernels are too large to interpret. A module that cannot be run raises the interpreter's
    error: it names the op.
    """
    trace = built.trace
    sizes = small_sizes(trace.final)
    if sizes is None:
        return trace
    inputs = make_inputs(trace.module_after("infer-shapes"), {**built.context.pin, **sizes}, seed)
    stated = tuple(sorted({**built.context.pin, **sizes}.items()))
    runs: dict[int, _Run | None] = {}

    def run(module: Module) -> _Run | None:
        if id(module) not in runs:
            runs[id(module)] = _run(module, inputs, sizes, built)
        return runs[id(module)]

    def measured(record: PassRecord) -> PassRecord:
        if not record.changed:
            return record
        before, after = run(record.before), run(record.after)
        if before is None or after is None:
            return record
        return replace(record, drift=drift(before, after, record.after, stated))

    return replace(trace, records=tuple(measured(r) for r in trace.records))


def small_sizes(module: Module) -> dict[str, int] | None:
    """Small sizes of the symbols that inputs determine, within bounds and guards; None without."""
    used = frozenset[str]().union(*(v.type.symbols() for v in module.graph.inputs))
    symbols = [s for s in module.dims if s.name in used]
    rotated = [[SMALL[k % len(SMALL)] for k in range(len(symbols))]]
    for values in (*rotated, *([n] * len(symbols) for n in (3, 4, 2, 1))):
        sizes = {s.name: admitted(s, n) for s, n in zip(symbols, values, strict=True)}
        guards = [g for g in module.guards if g.symbols() <= sizes.keys()]
        if all(g.holds(sizes) for g in guards):
            return sizes
    return None


def admitted(symbol: Symbol, wanted: int) -> int:
    """The wanted size, or the nearest above that the symbol admits, or its largest."""
    size = -(-max(wanted, symbol.low) // symbol.divisor) * symbol.divisor
    return size if size <= symbol.high else symbol.high // symbol.divisor * symbol.divisor


def _run(
    module: Module, inputs: Mapping[str, Array], sizes: Mapping[str, int], built: Built
) -> _Run | None:
    if not module.graph.outputs:
        return None
    if module.sources:
        return _Run(built.engine.run(inputs))
    params = built.context.params
    externs = ReferenceRunner(module, params)
    if module.kernels and interpreted(module, sizes) > LIMIT:
        return None
    if module.plan is not None:
        return _Run(run_plan(module, inputs, params, externs))
    values: dict[str, Array] = {}
    found = run_graph(module, inputs, params, externs=externs, observe=values.__setitem__)
    return _Run(found, values)


def interpreted(module: Module, sizes: Mapping[str, int]) -> int:
    """About how many elements kernels work on: those of what they read and write."""
    if module.plan is not None:
        work = [s.work for s in module.plan.steps if isinstance(s, KernelStep)]
    else:
        types = module.graph.types()
        work = [
            types[name].numel
            for op in module.graph.ops
            if op.kind == "launch"
            for name in (*op.operands, *(v.name for v in op.outputs))
            if types[name].known
        ]
    return sum(d.evaluate(sizes) for d in work if d.symbols() <= sizes.keys())


# ---- distances -----------------------------------------------------------------------------------


def drift(before: _Run, after: _Run, module: Module, sizes: tuple[tuple[str, int], ...]) -> Drift:
    """The distance of two runs; `module` is the one after, it tells where values come from."""
    pairs = [(after.outputs[name], before.outputs[name]) for name in before.outputs]
    first = _first(before, after, module)
    return Drift(
        max_abs=max((max_abs(a, b) for a, b in pairs), default=0.0),
        norm_rel=max((norm_rel(a, b) for a, b in pairs), default=0.0),
        max_ulp=max((max_ulp(a, b) for a, b in pairs), default=0.0),
        first=first,
        where=_where(first, module),
        sizes=sizes,
    )


def _first(before: _Run, after: _Run, module: Module) -> str:
    """The first value that both runs have and that differs, by its name; else an output."""
    for name, value in after.values.items():
        if name in before.values and not same(value, before.values[name]):
            return name
    shown = dict(zip(module.graph.names, module.graph.outputs, strict=True))
    for name, value in after.outputs.items():
        if not same(value, before.outputs[name]):
            return shown[name]
    return ""


def _where(name: str, module: Module) -> tuple[str, ...]:
    """The origins of a value; a constant has none, then those of the ops that read it."""
    every = tuple(module.graph.walk())
    makers = [op.origins for op in every if name in {v.name for v in op.outputs}]
    readers = [op.origins for op in every if name in op.operands]
    nothing = frozenset[Origin]()
    origins = nothing.union(*makers) or nothing.union(*readers)
    return tuple(format_origin(o) for o in sorted(origins))


def same(a: Array, b: Array) -> bool:
    """Bit for bit, but any NaN equals any NaN."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind == "f":
        return bool(np.all((_ordered(a) == _ordered(b)) | (np.isnan(a) & np.isnan(b))))
    return bool(np.array_equal(a, b))


def max_abs(a: Array, b: Array) -> float:
    """The largest |a - b|; infinite for a shape, infinity or NaN that the other lacks."""
    return float(np.max(_distance(a, b), initial=0.0))


def norm_rel(a: Array, b: Array) -> float:
    """|a - b| / |b| in the Euclidean norm; |a - b| where b is 0."""
    distance = float(np.linalg.norm(_distance(a, b).reshape(-1)))
    with np.errstate(all="ignore"):
        wide = np.nan_to_num(np.asarray(b).astype(np.float64), posinf=0.0, neginf=0.0)
    size = float(np.linalg.norm(wide.reshape(-1)))
    return distance / size if size and math.isfinite(distance) else distance


def max_ulp(a: Array, b: Array) -> float:
    """How many floating-point values lie between a and b at most; of integers their distance.

    -0 and 0 are one apart, so that a lost sign shows. NaN equals NaN.
    """
    if a.shape != b.shape or a.dtype != b.dtype:
        return math.inf
    if a.dtype.kind != "f":
        return max_abs(a, b)
    x, y = _ordered(a), _ordered(b)
    steps = np.where(x > y, x - y, y - x).view(np.uint64)  # right even where int64 wraps
    steps[np.atleast_1d(np.isnan(a) & np.isnan(b))] = 0
    return float(np.max(steps, initial=0))


def _ordered(x: Array) -> npt.NDArray[np.int64]:
    """Integers in the order of the floats: neighbours differ by one."""
    flat: Array = np.atleast_1d(np.asarray(x))
    bits = flat.view(np.dtype(f"i{flat.dtype.itemsize}")).astype(np.int64)
    least = np.int64(-(1 << (8 * flat.dtype.itemsize - 1)))
    ordered: npt.NDArray[np.int64] = np.where(bits < 0, least - bits - 1, bits)
    return ordered


def _distance(a: Array, b: Array) -> npt.NDArray[np.float64]:
    if a.shape != b.shape or a.dtype.kind in "OUST" or b.dtype.kind in "OUST":
        equal = a.shape == b.shape and bool(np.array_equal(a, b))
        return np.array([0.0 if equal else math.inf])
    with np.errstate(all="ignore"):
        x, y = np.asarray(a).astype(np.float64), np.asarray(b).astype(np.float64)
        alike = (x == y) | (np.isnan(x) & np.isnan(y))
        broken = ~(np.isfinite(x) & np.isfinite(y))
        found: npt.NDArray[np.float64] = np.where(
            alike, 0.0, np.where(broken, math.inf, np.abs(x - y))
        )
        return np.atleast_1d(found)
