"""A measurement: the reference, op by op and fused, interleaved in one run, with its conditions.

    bandwidth share = floor / p50 / best copy of the same run

Everything on the page and in `measure --json` is read from a `Report` (docs/json.md). Op by op is
the baseline: the same model with one kernel an ONNX node, the same emit options and numerics, and
the same nodes left to the library. The reference computes in float64, so its time is no
competitor's; it tells what is right. On a GPU (`gpu.py`) the two variants and the copy run there,
the reference on the CPU.

Teaches: a comparison is worth as much as what was kept equal.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from compiler.driver import Built, Progress, compile, read_pipeline, trace_model
from compiler.errors import InputsError, TargetError
from compiler.frontend.load import OnnxModel, Source, load
from compiler.frontend.reference import ReferenceRunner, evaluate, evaluator, widened
from compiler.ir.binding import bind_symbols
from compiler.ir.graph import format_origin
from compiler.ir.machine import TEST_MACHINE, MachineProfile
from compiler.ir.module import Module
from compiler.ir.plan import BindStep
from compiler.ir.types import Array, DType
from compiler.measure import cold as cold_start
from compiler.measure import gpu
from compiler.measure.accuracy import Accuracy, compare_all
from compiler.measure.bytes import (
    StepBytes,
    distinct_kernels,
    floor_formula,
    step_bytes,
    total_floor,
    total_touched,
)
from compiler.measure.conditions import Conditions
from compiler.measure.copies import copies
from compiler.measure.counting import Cache, Counted, count
from compiler.measure.inputs import assumed_sizes, made_inputs, read_inputs, sizes_of
from compiler.measure.machine import peak
from compiler.measure.timing import Latency, interleave, now_and_then, seconds_of
from compiler.passes.base import Built as BuiltKernel
from compiler.passes.base import Cancelled, Pass
from compiler.passes.emit import Emit
from compiler.passes.partition_fallback import PartitionFallback
from compiler.pipeline import OP_BY_OP, Pipeline
from compiler.runtime.addresses import aligned_empty
from compiler.runtime.cuda import CudaEngine
from compiler.trace import Json

SECONDS = 3.0
"""How long the interleaved run lasts about, unless told otherwise."""
WARMUPS = 3
MOST, ENOUGH = 1000, 100
"""Repetitions from which p99 and p95 can be told."""
COUNTED = 1_000_000_000
"""Accesses that the counting build is given; a plan that makes more is not simulated."""
STEP_REPETITIONS = 30
PEAK_REPETITIONS = 3
COPY_BYTES = (1 << 16, 1 << 29)
"""The smallest and the largest copy that bandwidth is compared with."""

REFERENCE, OP_BY_OP_NAME, FUSED = "reference", "op_by_op", "fused"


@dataclass(frozen=True)
class StepReport:
    """One step: its bytes, its arithmetic operations by the formula (None: not known), and the
    median of its time alone, in seconds (None: not timed). `exact`: the floor is the number itself,
    by its closed form or counted, not only an upper bound."""

    bytes: StepBytes
    floor: int | None
    exact: bool
    touched: int | None
    simulated: int | None
    operations: int | None
    p50: float | None

    def to_json(self) -> dict[str, Json]:
        return {
            "name": self.bytes.name,
            "kind": self.bytes.kind,
            "floor": self.floor,
            "touched": self.touched,
            "simulated": self.simulated,
            "operations": self.operations,
            "formula": self.bytes.formula,
            "exact": self.exact,
            "origins": [format_origin(o) for o in sorted(self.bytes.origins)],
            "p50": None if self.p50 is None else self.p50 * 1e3,
        }


@dataclass(frozen=True)
class Variant:
    """What was found of one compiled variant, op by op or fused."""

    pipeline: str
    launches: int
    kernels: int
    formula: str | None
    floor: int | None
    touched: int | None
    simulated: int | None
    measured: int | None
    latency: Latency
    bandwidth: float | None
    error: Accuracy | None
    steps: tuple[StepReport, ...]

    @property
    def bytes(self) -> dict[str, Json]:
        """`measured` needs hardware counters: a GPU's, where they are open."""
        return {
            "floor": self.floor,
            "touched": self.touched,
            "simulated": self.simulated,
            "measured": self.measured,
        }


@dataclass(frozen=True)
class Report:
    """One measurement. `copies` are bytes a second by the copy's name, `peak` is float32 operations
    a second of a large matrix product on the CPU (None on a GPU); `cold_start` and `memory` as in
    the schema; `reference` is None where the evaluator cannot run the model. A brief measurement
    has neither peak nor reference."""

    model: str
    target: str
    numerics: str
    reference: Latency | None
    op_by_op: Variant
    fused: Variant
    copies: Mapping[str, float]
    peak: float | None
    memory: Mapping[str, int | None]
    cold_start: Mapping[str, Json]
    conditions: Conditions

    def to_json(self) -> dict[str, Json]:
        """The documented schema: docs/json.md."""
        both = {OP_BY_OP_NAME: self.op_by_op, FUSED: self.fused}
        return {
            "schema": 1,
            "model": self.model,
            "target": self.target,
            "numerics": self.numerics,
            "pipeline": self.fused.pipeline,
            "latency": {
                REFERENCE: None if self.reference is None else self.reference.to_json(),
                **{name: v.latency.to_json() for name, v in both.items()},
            },
            "bytes": {name: v.bytes for name, v in both.items()},
            "bandwidth": {
                **{name: v.bandwidth for name, v in both.items()},
                "copies": dict(self.copies),
            },
            "launches": {name: v.launches for name, v in both.items()},
            "kernels": {name: v.kernels for name, v in both.items()},
            "floor_formula": {name: v.formula for name, v in both.items()},
            "error": {
                name: None if v.error is None else v.error.to_json() for name, v in both.items()
            },
            "per_kernel": {name: [s.to_json() for s in v.steps] for name, v in both.items()},
            "roofline": {"peak": self.peak, "bandwidth": max(self.copies.values())},
            "memory": dict(self.memory),
            "cold_start": dict(self.cold_start),
            "conditions": self.conditions.to_json(),
        }


def baseline(pipeline: Pipeline) -> Pipeline:
    """Op by op, with the emit options and the library steps of the pipeline compared with it."""
    kept: dict[str, Pass] = {
        p.name: p for p in pipeline if isinstance(p, Emit | PartitionFallback)
    }
    return tuple(kept.get(p.name, p) for p in OP_BY_OP)


# ---- measuring -----------------------------------------------------------------------------------


def measure(
    model: OnnxModel | Source,
    target: str = "cpu",
    pin: Mapping[str, int] | None = None,
    pipeline: str | Pipeline | None = None,
    numerics: str = "default",
    machine: MachineProfile | None = None,
    threads: int | None = None,
    store: str | Path | None = None,
    *,
    sizes: Mapping[str, int] | None = None,
    inputs: str | Path | Mapping[str, Array] | None = None,
    seed: int = 0,
    repetitions: int | None = None,
    seconds: float | None = None,
    cold: bool = True,
    brief: bool = False,
    progress: Progress | None = None,
    cancel: threading.Event | None = None,
    kernels: dict[str, BuiltKernel] | None = None,
) -> Report:
    """Compile a model op by op and fused, and measure both beside the reference.

    `sizes` of symbols default to the sample's own, else 4; `inputs` (arrays, or an `.npz` file)
    are made from `seed` when absent, else they give the sizes. `repetitions` default to as many as
    fit in `seconds` (3), 1,000 at most; a run that turns out slower ends a while after `seconds`,
    unless only `repetitions` are given. `cold` starts two new processes that time a compile and a
    load; `kernels` is as for `compile`, and those processes know nothing of it. `brief` leaves out
    what a comparison of the two does without: the reference is computed once, for the errors, and
    not timed; no step is timed by itself; there is no peak. `progress` is told
    (record, phase, done, of): what the compiles tell, then the phases `reference`, `count`, `cold`
    and `measure`. Raises what `compile` and `Engine.run` raise, and Cancelled.
    """
    if target == "cuda:ptx":
        raise TargetError("target.measure", target=target)
    on_gpu = target == "cuda"
    counters, closed = gpu.open_counters() if on_gpu else (None, "")
    passes = read_pipeline(pipeline)
    stop = cancel or threading.Event()

    def check() -> None:
        if stop.is_set():
            raise Cancelled

    def tell(phase: str, done: int, of: int) -> None:
        check()
        if progress is not None:
            progress(None, phase, done, of)

    path = Path(model) if isinstance(model, str | Path) else None
    loaded = model if isinstance(model, OnnxModel) else load(model)

    def built_by(chosen: Pipeline) -> Built:
        return compile(
            loaded, target, pin, chosen, numerics, None, machine, threads, store,
            sizes=assumed_sizes(path, pin or {}, sizes or {}), progress=progress, cancel=stop,
            kernels=kernels,
        )  # fmt: skip

    fused, plain = built_by(passes), built_by(baseline(passes))
    arrays, bound = bound_inputs(fused, path, sizes or {}, inputs, seed)
    oracle = _Reference.of(loaded, arrays, tell)
    cache = (machine or TEST_MACHINE).cache
    counted: dict[str, Counted | None] = {OP_BY_OP_NAME: None, FUSED: None}
    both = {OP_BY_OP_NAME: plain, FUSED: fused}
    for k, (name, built) in enumerate(both.items()):
        tell("count", k, 2)
        if not on_gpu:
            counted[name] = _count(built, arrays, bound, cache, check)
    for found in counted.values():
        if found is not None:
            bound = {**bound, **found.sizes}
    phases: dict[str, Json] = {}
    if cold:
        tell("cold", 0, 1)
        phases = _cold(fused, path, bound, stop)
    tell("measure", 0, 1)
    timed = replace(oracle, call=None) if brief else oracle
    if on_gpu:
        bench = gpu.Bench({n: _engine_on_gpu(b) for n, b in both.items()}, arrays)
        times, best = _time_on_gpu(
            bench, fused, timed, bound, repetitions, seconds, check, tell
        )
        hbm = bench.hbm(counters, closed, times)
        results = {name: bench.results(name) for name in both}
        measured: Mapping[str, int] = hbm.bytes
        about = {
            **{n: str(v) for n, v in fused.engine.conditions.items() if n != "gpu"},
            "clock": "events in the GPU's queue",
            "bytes": "HBM",
            "counters": hbm.closed or "open",
        }
    else:
        times, best = _time(both, arrays, timed, bound, repetitions, seconds, check, tell)
        results = {name: built.engine.run(arrays) for name, built in both.items()}
        measured = {}
        about = {
            "bytes": "main memory",
            "cache_model": f"LRU, {cache >> 20} MiB, 16 ways, write-allocate",
        }
    copy = max(best.values())
    variants = {
        name: _variant(
            built, arrays, bound, counted[name], times[name], copy,
            _error(results[name], oracle, built.module), measured.get(name), brief,
        )
        for name, built in both.items()
    }  # fmt: skip
    conditions = Conditions(
        device=str(fused.engine.conditions["gpu"]) if on_gpu else "cpu",
        threads=fused.engine.threads,
        dtype=", ".join(_element_types(fused.module)),
        sizes=bound,
        warmups=WARMUPS,
        repetitions=times[FUSED].repetitions,
        target=target,
        notes={
            "numerics": numerics,
            "reference": oracle.about,
            **about,
            "inputs": "given" if inputs is not None else f"made, seed {seed}",
        },
    )
    return Report(
        fused.trace.name, target, numerics, times.get(REFERENCE), variants[OP_BY_OP_NAME],
        variants[FUSED], best, None if on_gpu or brief else peak(PEAK_REPETITIONS),
        _memory(fused, bound), phases, conditions,
    )  # fmt: skip


def _engine_on_gpu(built: Built) -> CudaEngine:
    assert isinstance(built.engine, CudaEngine)
    return built.engine


def untiled(built: Built) -> Module:
    """The module with its kernels as they were before they were divided among the threads of a
    GPU: what must be moved is read off those."""
    module = built.module
    before = next((r.before for r in built.trace.records if r.name == "map-gpu"), module)
    known = {k.name: k for k in before.kernels}
    return replace(module, kernels=tuple(known.get(k.name, k) for k in module.kernels))


def bound_inputs(
    built: Built,
    path: Path | None,
    sizes: Mapping[str, int],
    inputs: str | Path | Mapping[str, Array] | None,
    seed: int,
) -> tuple[dict[str, Array], dict[str, int]]:
    """Aligned input arrays, and the size of every symbol that they determine (and of pins)."""
    pin = built.context.pin
    if inputs is None:
        chosen = sizes_of(built.module, pin, path, sizes)
        found: Mapping[str, Array] = made_inputs(built, chosen, seed)
    else:
        found = inputs if isinstance(inputs, Mapping) else read_inputs(inputs)
    signature = built.engine.signature
    bound = bind_symbols(signature.inputs, found, symbols=signature.symbols)
    for name, size in sizes.items():
        if inputs is not None and bound.get(name, size) != size:
            raise InputsError("size.inputs", name=name, value=size, given=bound[name])
    return {name: _aligned(array) for name, array in found.items()}, {**pin, **bound}


def _aligned(array: Array) -> Array:
    if array.dtype.hasobject or array.dtype.kind in "SUT":
        return array
    copy = aligned_empty(array.shape, array.dtype)
    copy[...] = array
    return copy


def _element_types(module: Module) -> list[str]:
    """Element types of inputs and outputs, as NumPy calls them."""
    types = module.graph.types()
    shown = [v.type for v in module.graph.inputs] + [types[n] for n in module.graph.outputs]
    found = {t.dtype for t in shown if t.dtype is not None}
    named = (DType.bf16, DType.string)
    return sorted(d.value if d in named else d.numpy().name for d in found)


@dataclass(frozen=True)
class _Reference:
    """What is right: outputs, a call that computes them again, and its first time in seconds.

    `call` is None, and `about` says why, where the evaluator cannot run the model.
    """

    outputs: Mapping[str, Array]
    call: Callable[[], object] | None
    seconds: float
    about: str

    @staticmethod
    def of(
        model: OnnxModel,
        inputs: Mapping[str, Array],
        tell: Callable[[str, int, int], None],
    ) -> _Reference:
        tell("reference", 0, 1)
        reasons: list[str] = []
        for precision in ("float64", "declared"):
            try:
                return _Reference._run(model, inputs, precision, "; ".join(reasons))
            except Exception as error:  # the evaluator's errors have no common type
                reasons.append(f"not in {precision}: {type(error).__name__}: {error}")
        return _Reference({}, None, 0.0, f"none; {'; '.join(reasons)}")

    @staticmethod
    def _run(
        model: OnnxModel, inputs: Mapping[str, Array], precision: str, reason: str
    ) -> _Reference:
        wide = precision == "float64"
        made = evaluator(widened(model.proto) if wide else model.proto)
        weights = {tensor.name for tensor in model.proto.graph.initializer}
        feeds = {
            name: x.astype(np.float64) if wide and x.dtype.kind == "f" else x
            for name, x in inputs.items()
            if name not in weights
        }
        start = time.perf_counter()
        results = evaluate(made, feeds)
        seconds = time.perf_counter() - start
        names = [value.name for value in model.proto.graph.output]
        about = f"onnx ReferenceEvaluator, {precision}" + (f" ({reason})" if reason else "")
        outputs = dict(zip(names, results, strict=True))
        return _Reference(outputs, lambda: evaluate(made, feeds), max(seconds, 1e-6), about)


def _count(
    built: Built,
    arrays: Mapping[str, Array],
    sizes: Mapping[str, int],
    cache: int,
    check: Callable[[], None],
) -> Counted | None:
    """The counting build's figures; None for a plan that makes too many accesses."""
    touched = total_touched(step_bytes(built.module), sizes)
    if touched is not None and touched // 4 > COUNTED:
        return None
    params = built.context.params
    return count(
        built.module, arrays, params, ReferenceRunner(built.module, params),
        strict=built.context.strict, cache=Cache(cache), check=check,
    )  # fmt: skip


def _time(
    built: Mapping[str, Built],
    arrays: Mapping[str, Array],
    oracle: _Reference,
    sizes: Mapping[str, int],
    repetitions: int | None,
    seconds: float | None,
    check: Callable[[], None],
    tell: Callable[[str, int, int], None],
) -> tuple[dict[str, Latency], dict[str, float]]:
    """Latency of every variant, and bytes a second of every copy, all in one run."""
    threads = built[FUSED].engine.threads
    made = copies(_copied(built[FUSED], sizes), threads)
    calls: dict[str, Callable[[], object]] = {
        name: b.engine.bind(arrays) for name, b in built.items()
    }
    calls |= {f"copy: {name}": call for name, call in made.calls.items()}
    once = sum(seconds_of(call) for call in calls.values())
    budget = SECONDS if seconds is None else seconds
    asked = repetitions is not None
    if repetitions is None:
        repetitions = max(3, min(MOST, int(budget / once)))
        if repetitions < ENOUGH and once * ENOUGH <= 2 * budget:
            repetitions = ENOUGH
    slow: dict[str, int] = {}
    if oracle.call is not None:
        calls[REFERENCE] = oracle.call
        slow[REFERENCE] = max(1, int(budget / 3 / oracle.seconds))
    limit = float("inf") if asked and seconds is None else 1.7 * budget
    taken = interleave(
        calls, repetitions=repetitions, warmups=WARMUPS, seconds=limit, slow=slow, check=check,
        progress=now_and_then(lambda done, of: tell("measure", done, of)),
    )  # fmt: skip
    best = {name: 2 * made.nbytes / taken[f"copy: {name}"].p50 for name in made.calls}
    return {name: t for name, t in taken.items() if not name.startswith("copy: ")}, best


def _copied(fused: Built, sizes: Mapping[str, int]) -> int:
    """Bytes of a copy that moves about as much as the fused model, within `COPY_BYTES`."""
    low, high = COPY_BYTES
    floor = total_floor(step_bytes(untiled(fused)), sizes) or 0
    return min(high, max(low, floor // 2))


def _time_on_gpu(
    bench: gpu.Bench,
    fused: Built,
    oracle: _Reference,
    sizes: Mapping[str, int],
    repetitions: int | None,
    seconds: float | None,
    check: Callable[[], None],
    tell: Callable[[str, int, int], None],
) -> tuple[dict[str, Latency], dict[str, float]]:
    """As `_time`: the variants and the copy by the GPU's events, the reference by the CPU's
    clock."""
    budget = SECONDS if seconds is None else seconds
    times, speed = bench.time(
        _copied(fused, sizes), repetitions, budget, MOST, check,
        now_and_then(lambda done, of: tell("measure", done, of)),
    )  # fmt: skip
    if oracle.call is not None:
        once = max(1, min(repetitions or MOST, int(budget / 3 / oracle.seconds)))
        times |= interleave(
            {REFERENCE: oracle.call}, repetitions=once, warmups=0, check=check
        )
    return times, {gpu.COPY: speed}


def _variant(
    built: Built,
    arrays: Mapping[str, Array],
    sizes: Mapping[str, int],
    counted: Counted | None,
    latency: Latency,
    copy: float,
    error: Accuracy | None,
    measured: int | None,
    brief: bool,
) -> Variant:
    module = untiled(built)
    assert module.plan is not None
    steps = step_bytes(module)
    floor = total_floor(steps, sizes)
    return Variant(
        pipeline=built.trace.pipeline,
        launches=module.plan.launches(),
        kernels=distinct_kernels(module),
        formula=floor_formula(steps),
        floor=floor if floor is not None or counted is None else counted.floor,
        touched=_touched(built, steps, sizes) if counted is None else counted.touched,
        simulated=None if counted is None else counted.simulated,
        measured=measured,
        latency=latency,
        bandwidth=None if floor is None else floor / latency.p50 / copy,
        error=error,
        steps=_steps(built, arrays, steps, sizes, counted, None if brief else latency.p50),
    )


def _touched(
    built: Built, steps: Iterable[StepBytes], sizes: Mapping[str, int]
) -> int | None:
    """None on a GPU, whose threads keep in registers what the loops load again."""
    return None if built.context.gpu else total_touched(steps, sizes)


def _error(
    outputs: Mapping[str, Array], oracle: _Reference, module: Module
) -> Accuracy | None:
    """The error of all numeric outputs; None without a reference."""
    if oracle.call is None:
        return None
    types = dict(zip(module.graph.names, module.graph.outputs, strict=True))
    known = module.graph.types()
    found: dict[str, Array] = {}
    for name, array in outputs.items():
        if array.dtype.kind in "OUST":
            continue
        is_bf16 = known[types[name]].dtype is DType.bf16 and array.dtype == np.uint16
        wide = (array.astype(np.uint32) << np.uint32(16)).view(np.float32) if is_bf16 else array
        found[name] = wide
    return compare_all(found, oracle.outputs)


def _steps(
    built: Built,
    arrays: Mapping[str, Array],
    steps: Sequence[StepBytes],
    sizes: Mapping[str, int],
    counted: Counted | None,
    p50: float | None,
) -> tuple[StepReport, ...]:
    """`p50` is that of a whole run, in seconds; without it no step is timed."""
    assert built.module.plan is not None
    plan = built.module.plan.steps
    medians: list[float | None] = [None] * len(steps)
    if p50 is not None:
        repetitions = max(1, min(STEP_REPETITIONS, int(0.5 / max(p50, 1e-6))))
        times = built.engine.per_step(arrays, repetitions)
        medians = [
            Latency(seconds).p50
            for step, seconds in zip(plan, times, strict=True)
            if not isinstance(step, BindStep)
        ]
    found: list[StepReport] = []
    for k, (step, median) in enumerate(zip(steps, medians, strict=True)):
        seen = None if counted is None else counted.steps[k]
        floor = step.floor_at(sizes)
        found.append(
            StepReport(
                step,
                floor if floor is not None or seen is None else seen.floor,
                seen is not None if floor is None else step.exact,
                _touched(built, (step,), sizes) if seen is None else seen.touched,
                None if seen is None else seen.simulated,
                step.operations_at(sizes),
                median,
            )
        )
    return tuple(found)


def _memory(built: Built, sizes: Mapping[str, int]) -> dict[str, int | None]:
    """Of the arena; inputs, outputs and weights are the caller's."""
    try:
        layout = built.engine.memory(sizes)
    except ValueError:  # a size that only data tells
        return {"naive": None, "peak": None, "lower_bound": None}
    return {"naive": layout.naive, "peak": layout.peak, "lower_bound": layout.lower_bound}


def _cold(
    built: Built, path: Path | None, sizes: Mapping[str, int], cancel: threading.Event
) -> dict[str, Json]:
    """Phases of a cold compile and, under `load`, of a cold load; `failed` says why there are
    none."""
    pin = built.context.pin
    free = {name: size for name, size in sizes.items() if name not in pin}
    inputs = frozenset[str]().union(*(v.type.symbols() for v in built.module.graph.inputs))
    free = {name: size for name, size in free.items() if name in inputs}
    threads = built.engine.threads
    with tempfile.TemporaryDirectory() as folder:
        if path is None:
            path = Path(folder) / "model.onnx"
            path.write_bytes(built.model.proto.SerializeToString())
        try:
            compiled = cold_start.measure_compile(
                path, pin=pin, sizes=free, pipeline=built.trace.pipeline,
                numerics=built.trace.numerics, threads=threads, target=built.trace.target,
                cancel=cancel,
            )  # fmt: skip
            engine = Path(folder) / "engine"
            built.engine.save(engine)
            loaded = cold_start.measure_load(
                engine, sizes=free, threads=threads, target=built.trace.target, cancel=cancel
            )
        except cold_start.ColdStartError as error:
            return {"failed": str(error)}
    return {**compiled, "load": loaded}


# ---- without a run -------------------------------------------------------------------------------


def explanation(built: Built) -> dict[str, Json]:
    """`launches`, `kernels`, `floor_formula` and `floors` of op by op and of what was built."""
    context = built.context
    pipeline = read_pipeline(built.trace.pipeline)
    plain, _ = trace_model(
        built.model, baseline(pipeline), numerics=context.numerics, pin=context.pin,
        sizes=context.sizes, until="emit",
    )  # fmt: skip
    both = {OP_BY_OP_NAME: plain.final, FUSED: untiled(built)}
    launches: dict[str, Json] = {}
    kernels: dict[str, Json] = {}
    formulas: dict[str, Json] = {}
    floors: dict[str, Json] = {}
    for name, module in both.items():
        assert module.plan is not None
        launches[name] = module.plan.launches()
        kernels[name] = distinct_kernels(module)
        steps = step_bytes(module)
        formulas[name] = floor_formula(steps)
        floors[name] = [step.to_json() for step in steps]
    return {
        "launches": launches, "kernels": kernels, "floor_formula": formulas, "floors": floors,
    }  # fmt: skip


# ---- as text -------------------------------------------------------------------------------------

TITLES = {REFERENCE: "reference", OP_BY_OP_NAME: "op by op", FUSED: "fused"}


def print_report(report: Report) -> str:
    """The report as plain text tables, with its conditions."""
    both = {OP_BY_OP_NAME: report.op_by_op, FUSED: report.fused}
    sizes = ", ".join(f"{k}={v}" for k, v in report.conditions.sizes.items()) or "fixed sizes"
    ratio = report.op_by_op.latency.p50 / report.fused.latency.p50
    memory = ", ".join(f"{k.replace('_', ' ')} {_bytes(v)}" for k, v in report.memory.items())
    best = ", ".join(f"{name} {value / 1e9:.1f} GB/s" for name, value in report.copies.items())
    stated = report.conditions.to_json()
    return "\n\n".join([
        f"{report.model}  target={report.target}  numerics={report.numerics}  {sizes}",
        _table(("latency", "p50", "p95", "p99", "repetitions"), list(_latency_rows(report))),
        f"fused takes {1 / ratio:.2f} of the time of op by op ({ratio:.2f}x as fast)",
        _table(
            ("bytes", "floor", "touched", "simulated", "measured", "of copy bandwidth"),
            [(TITLES[n], *_byte_cells(v)) for n, v in both.items()],
        ),
        "\n".join(f"floor, {TITLES[n]}: {v.formula or 'not known'}" for n, v in both.items()),
        _table(
            ("", "launches", "kernels"),
            [(TITLES[n], str(v.launches), str(v.kernels)) for n, v in both.items()],
        ),
        _table(
            ("error", "max abs", "max rel", "norm rel", "share above", "close"),
            [(TITLES[n], *_error_cells(v.error)) for n, v in both.items()],
        ),
        _table(
            ("step", "of", "kind", "floor", "touched", "simulated", "p50", "nodes"),
            [(s.bytes.name, TITLES[n], *_step_cells(s)) for n, v in both.items() for s in v.steps],
        ),
        f"memory of the fused engine's arena: {memory}",
        *_cold_lines(report.cold_start),
        f"copies of this run: {best}",
        "\n".join(["conditions", *(f"  {n}: {_plain(v)}" for n, v in stated.items() if v != "")]),
    ])


def _latency_rows(report: Report) -> Iterable[Sequence[str]]:
    timed = {OP_BY_OP_NAME: report.op_by_op.latency, FUSED: report.fused.latency}
    if report.reference is not None:
        timed = {REFERENCE: report.reference, **timed}
    for name, t in timed.items():
        yield TITLES[name], _ms(t.p50), _ms(t.p95), _ms(t.p99), str(t.repetitions)


def _byte_cells(variant: Variant) -> Sequence[str]:
    share = "-" if variant.bandwidth is None else f"{variant.bandwidth:.0%}"
    words = (variant.touched, variant.simulated, variant.measured)
    exact = all(step.exact for step in variant.steps)
    return _floor(variant.floor, exact), *map(_bytes, words), share


def _error_cells(error: Accuracy | None) -> Sequence[str]:
    if error is None:
        return ("-",) * 5
    numbers = (error.max_abs, error.max_rel, error.norm_rel)
    close = "yes" if error.allclose else "no"
    return *(f"{x:.2e}" for x in numbers), f"{error.share_above:.2%}", close


def _step_cells(step: StepReport) -> Sequence[str]:
    nodes = " ".join(format_origin(o) for o in sorted(step.bytes.origins))
    words = (step.touched, step.simulated)
    floor = _floor(step.floor, step.exact)
    return step.bytes.kind, floor, *map(_bytes, words), _ms(step.p50), nodes


def _cold_lines(phases: Mapping[str, Json]) -> Iterable[str]:
    if not phases:
        return
    if "failed" in phases:
        yield f"cold start: not measured, {phases['failed']}"
        return
    for title, values in (("cold start", phases), ("cold start of a load", phases.get("load"))):
        if isinstance(values, Mapping):
            found = {k: v for k, v in values.items() if isinstance(v, int | float)}
            text = ", ".join(f"{k.replace('_', ' ')} {v:.1f}" for k, v in found.items())
            yield f"{title} (ms): {text}"


def _plain(value: Json) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{k} {v}" for k, v in value.items())
    return str(value)


def _ms(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds * 1e3:.3f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.2f} us"


def _floor(value: int | None, exact: bool) -> str:
    return _bytes(value) if value is None or exact else f"<= {_bytes(value)}"


def _bytes(value: int | None) -> str:
    if value is None:
        return "-"
    amount = float(value)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024 or unit == "GiB":
            break
        amount /= 1024
    return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.2f} {unit}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns aligned: the first to the left, the others to the right."""
    every = [tuple(head), *(tuple(r) for r in rows)]
    widths = [max(len(row[k]) for row in every) for k in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if k == 0 else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in every
    )
