"""Compile a model: run the pipeline, keep the records, put the engine together.

    model -> passes -> Trace;  the last module + objects + weights -> Engine
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from compiler.errors import InputsError, OptionError, TargetError
from compiler.frontend.load import OnnxModel, Source, load
from compiler.frontend.reference import node_model
from compiler.ir.dims import format_dim, product
from compiler.ir.machine import TEST_MACHINE, MachineProfile
from compiler.ir.module import EMPTY, Module
from compiler.ir.names import Names
from compiler.ir.params import ParamStore
from compiler.ir.plan import CallStep, Signature
from compiler.ir.printer import print_module
from compiler.key import Key, engine_key
from compiler.passes.base import Blobs, Context
from compiler.passes.base import Built as BuiltKernel
from compiler.pipeline import (
    DEFAULT,
    Pipeline,
    for_target,
    parse_pipeline,
    print_pipeline,
    run_pass,
)
from compiler.runtime.engine import Engine, Parts
from compiler.runtime.native import cpu_features
from compiler.runtime.store import Json
from compiler.trace import PassRecord, Trace

if TYPE_CHECKING:
    from compiler.runtime.cuda import Device

Progress = Callable[[PassRecord | None, str, int, int], None]
"""Told (record, phase, done, of): after each pass (`pass`), and for each kernel (`build`)."""

NUMERICS = ("default", "strict")
TARGETS = ("cpu", "cuda", "cuda:ptx")
"""`cuda` runs on the GPU at hand; `cuda:ptx` compiles for one (compute capability 9.0) without."""

PTX_CAPABILITY = (9, 0)


@dataclass(frozen=True)
class Built:
    """What `compile` gives. `phases` are milliseconds by phase: import, passes, emit, compile,
    link; `hit`: the engine came from the store; `changed`: on a miss, which components of the key
    differ from the last engine of the same model in the store."""

    trace: Trace
    engine: Engine
    model: OnnxModel
    context: Context
    key: Key
    phases: Mapping[str, float]
    hit: bool = False
    changed: tuple[str, ...] = ()

    @property
    def module(self) -> Module:
        return self.trace.final


def read_pipeline(pipeline: str | Pipeline | None) -> Pipeline:
    if pipeline is None:
        return DEFAULT
    return parse_pipeline(pipeline) if isinstance(pipeline, str) else pipeline


def compile(
    model: OnnxModel | Source,
    target: str = "cpu",
    pin: Mapping[str, int] | None = None,
    pipeline: str | Pipeline | None = None,
    numerics: str = "default",
    shapes: Mapping[str, str] | None = None,
    machine: MachineProfile | None = None,
    threads: int | None = None,
    store: str | Path | None = None,
    *,
    sizes: Mapping[str, int] | None = None,
    progress: Progress | None = None,
    cancel: threading.Event | None = None,
    kernels: dict[str, BuiltKernel] | None = None,
) -> Built:
    """Compile a model for a target.

    `pin` binds dimensions at compile time, the others stay symbolic; `shapes` gives policies of
    dimensions (`any` is the one that exists); `sizes` are what the cost model assumes of symbols;
    `store` is a folder that keeps engines by key; `kernels` holds kernels of this target that were
    built before, by symbol, and those that are built now are added to it. Raises ModelError,
    OptionError, PipelineError, PinError, UnsupportedOperator, Cancelled.
    """
    _check(target, numerics, shapes)
    passes = for_target(read_pipeline(pipeline), target)
    device = open_device(target) if target == "cuda" else None
    begin = time.perf_counter()
    loaded = model if isinstance(model, OnnxModel) else load(model)
    phases = {"import": (time.perf_counter() - begin) * 1e3}

    def on_kernel(phase: str, done: int, of: int) -> None:
        if progress is not None:
            progress(None, phase, done, of)

    context = Context(
        params=ParamStore(), machine=machine or TEST_MACHINE, numerics=numerics, target=target,
        sizes=dict(sizes or {}), pin=dict(pin or {}), names=Names(), blobs=Blobs(),
        cancel=cancel or threading.Event(), progress=on_kernel, model=loaded,
        built={} if kernels is None else kernels,
        capability=device.capability if device is not None else PTX_CAPABILITY,
    )  # fmt: skip
    text = print_pipeline(passes)
    module = EMPTY
    records: list[PassRecord] = []
    key: Key | None = None
    folder: Path | None = None
    for k, p in enumerate(passes):
        if p.name == "build" and folder is not None and folder.is_dir():
            context.built.update(stored_kernels(folder))
        record = run_pass(p, module, context)
        module = record.after
        records.append(record)
        if p.name == "import":
            check_sizes(module, context.sizes)
            key = engine_key(
                module, pin=context.pin, sizes=context.sizes, pipeline=text, numerics=numerics,
                target=target, features=features(context), machine=context.machine,
            )  # fmt: skip
            folder = Path(store) / "engine" / key.digest if store is not None else None
        if progress is not None:
            progress(record, "pass", k + 1, len(passes))
    assert key is not None
    for r in records:
        phase = {"import": "import", "emit": "emit", "build": "compile"}.get(r.name, "passes")
        phases[phase] = phases.get(phase, 0.0) + r.milliseconds
    trace = Trace(loaded.name, text, target, numerics, tuple(records), context.sizes)
    hit = folder is not None and folder.is_dir()
    changed = () if hit or store is None else changed_components(Path(store), loaded.name, key)
    start = time.perf_counter()
    if context.gpu:
        from compiler.runtime.cuda import CudaEngine

        engine: Engine = (
            CudaEngine.load_gpu(folder, device)
            if hit and folder is not None
            else CudaEngine(make_parts(trace, context, key), device)
        )
    elif hit and folder is not None:
        engine = Engine.load(folder, threads=threads)
    else:
        engine = Engine.assemble(make_parts(trace, context, key), threads=threads)
    phases["link"] = (time.perf_counter() - start) * 1e3
    if folder is not None and not hit:
        engine.save(folder)
    return Built(trace, engine, loaded, context, key, phases, hit, changed)


def open_device(target: str) -> Device:
    """The GPU that a target needs.

    Raises TargetError whose `reason` says why there is none; its parameter `lacks` is "driver"
    where it is the driver that is not there.
    """
    from compiler.runtime.cuda import Device, NoDevice
    from compiler.runtime.cuda_driver import NoDriver

    try:
        return Device.open()
    except NoDevice as error:
        lacks = "driver" if isinstance(error, NoDriver) else ""
        raise TargetError(
            "target.device", target=target, reason=str(error), lacks=lacks
        ) from error


def features(context: Context) -> tuple[str, str]:
    """What machine code depends on: the CPU's name and features, or the GPU's capability."""
    if not context.gpu:
        return cpu_features()
    major, minor = context.capability
    try:
        compiler = f"numba-cuda {version('numba-cuda')}"
    except PackageNotFoundError:
        compiler = ""
    return f"sm_{major}{minor}", compiler


def _check(target: str, numerics: str, shapes: Mapping[str, str] | None) -> None:
    def one_of(what: str, value: str, known: tuple[str, ...]) -> None:
        if value not in known:
            raise OptionError(f"{what} is one of {', '.join(known)}, not {value!r}")

    one_of("a target", target, TARGETS)
    one_of("numerics", numerics, NUMERICS)
    for policy in (shapes or {}).values():
        one_of("a shape policy", policy, ("any",))


def check_sizes(module: Module, sizes: Mapping[str, int]) -> None:
    """InputsError for a size of a dimension that the model does not have."""
    known = [s.name for s in module.dims]
    for name in sizes:
        if name not in known:
            raise InputsError("size.unknown", name=name, known=", ".join(known))


def signature(module: Module) -> Signature:
    """Inputs and outputs as a caller knows them."""
    types = module.graph.types()
    return Signature(
        tuple((v.name, v.type) for v in module.graph.inputs),
        tuple((name, types[value]) for name, value in module.graph.results),
        module.dims,
    )


def make_parts(trace: Trace, context: Context, key: Key) -> Parts:
    """Everything an engine is put together from."""
    module = trace.final
    assert module.plan is not None
    kernels: dict[str, str] = {}
    objects: dict[str, bytes] = {}
    texts: dict[str, bytes] = {}
    listing: dict[str, str] = {}
    for source in module.sources:
        built = context.built[source.symbol]
        kernels[source.kernel] = built.symbol
        objects[built.symbol] = built.object
        listing.setdefault(source.symbol, source.text)
        texts[f"llvm/{source.symbol}.ll"] = built.llvm.encode()
        texts[_assembly_name(source.symbol, context.gpu)] = built.assembly.encode()
    texts["kernels.py"] = "\n\n".join(listing.values()).encode()
    texts["trace.json"] = json.dumps(trace.to_json()).encode()
    for k, snapshot in enumerate(trace.snapshots()):
        texts[f"ir/{k:02d}.txt"] = print_module(snapshot).encode()
    library = {
        step.outputs[0].value: node_model(op, module, context.params).SerializeToString()
        for step in module.plan.steps
        if isinstance(step, CallStep) and step.function == "reference"
        for op in module.graph.ops
        if op.key == step.outputs[0].value
    }
    symbols = {s.symbol: context.built[s.symbol].symbol for s in module.sources}
    about = {
        "key": key.digest,
        "components": dict(key.components),
        "model": trace.name,
        "pipeline": trace.pipeline,
        "numerics": trace.numerics,
        "target": trace.target,
        "symbols": symbols,
    }
    if context.gpu:
        about |= {"capability": list(context.capability), "grids": grids(module)}
    params = {p.name: context.params.get(p.digest) for p in module.params}
    used = {b.source for b in module.plan.buffers if b.kind == "param"}
    return Parts(
        name=trace.name,
        signature=signature(module),
        plan=module.plan,
        kernels=kernels,
        objects=objects,
        params={n: a for n, a in params.items() if n in used},
        library=library,
        texts=texts,
        about=about,
        labels={n.position: f'{n.op} "{n.name}"' if n.name else n.op for n in module.nodes},
    )


def _assembly_name(symbol: str, gpu: bool) -> str:
    return f"ptx/{symbol}.ptx" if gpu else f"asm/{symbol}.s"


def grids(module: Module) -> dict[str, Json]:
    """kernel -> extents, block loops over them, threads of a block: what a launch must know."""
    found: dict[str, Json] = {}
    for kernel in module.kernels:
        loops, _ = kernel.grid()
        blocks = [format_dim(loop.extent) for loop in loops if loop.kind == "block"]
        threads = product(loop.extent for loop in loops if loop.kind != "block")
        found[kernel.name] = {
            "extents": list(kernel.extents), "blocks": list(blocks), "threads": threads.constant,
        }  # fmt: skip
    return found


def stored_kernels(folder: Path) -> dict[str, BuiltKernel]:
    """The kernels of an artifact by source symbol: nothing of them is compiled again."""
    from compiler.runtime.store import read_verified

    manifest = read_verified(folder)
    found: dict[str, BuiltKernel] = {}
    symbols = manifest.about.get("symbols", {})
    assert isinstance(symbols, dict)
    gpu = manifest.about.get("target", "cpu") != "cpu"
    for symbol, native in symbols.items():
        found[symbol] = BuiltKernel(
            str(native),
            manifest.read(f"cubin/{native}.cubin" if gpu else f"native/{native}.o"),
            manifest.read(f"llvm/{symbol}.ll").decode(),
            manifest.read(_assembly_name(symbol, gpu)).decode(),
        )
    return found


def changed_components(store: Path, model: str, key: Key) -> tuple[str, ...]:
    """What differs from the nearest engine of the same model in the store; () where none is."""
    nearest: tuple[str, ...] = ()
    for path in sorted((store / "engine").glob("*/manifest.json")):
        try:
            about = json.loads(path.read_text())["about"]
        except (OSError, ValueError, KeyError):
            continue
        if about.get("model") == model:
            changed = key.changed(about.get("components", {}))
            if not nearest or len(changed) < len(nearest):
                nearest = changed
    return nearest


def trace_model(
    model: OnnxModel | Source,
    pipeline: str | Pipeline | None = None,
    *,
    numerics: str = "default",
    pin: Mapping[str, int] | None = None,
    sizes: Mapping[str, int] | None = None,
    until: str | None = None,
) -> tuple[Trace, Context]:
    """Run a pipeline without putting an engine together: up to and without the pass `until`."""
    loaded = model if isinstance(model, OnnxModel) else load(model)
    passes = read_pipeline(pipeline)
    context = Context(
        numerics=numerics, pin=dict(pin or {}), sizes=dict(sizes or {}), model=loaded
    )
    module = EMPTY
    records: list[PassRecord] = []
    for p in passes:
        if p.name == until:
            break
        record = run_pass(p, module, context)
        module = record.after
        records.append(record)
    text = print_pipeline(passes)
    trace = Trace(loaded.name, text, context.target, numerics, tuple(records), context.sizes)
    return trace, context
