"""The one place that names all passes: the order as data, its text, and the driver.

    fold-constants,cse,fuse{max_ops=64}       a pipeline in full
    default,fuse{by=origin},-cse              the default order with options set and a pass dropped

An optional pass can be dropped, repeated or moved, a required one not; what a pass needs before it
is its stated precondition (`after`). Dropping `fuse` means `fuse{by=origin}`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import Field, fields, replace

from compiler.errors import PipelineError
from compiler.ir.edits import fold
from compiler.ir.module import EMPTY, Module
from compiler.ir.verify import verify
from compiler.passes.algebraic_simplify import AlgebraicSimplify
from compiler.passes.base import Context, Option, Pass, PassError
from compiler.passes.bind_dims import BindDims
from compiler.passes.build import Build
from compiler.passes.cancel_permutes import CancelPermutes
from compiler.passes.canonicalise import Canonicalise
from compiler.passes.collapse_axes import CollapseAxes
from compiler.passes.cse import Cse
from compiler.passes.dce import Dce
from compiler.passes.decompose import Decompose
from compiler.passes.dedup_params import DedupParams
from compiler.passes.emit import Emit
from compiler.passes.fold_batchnorm import FoldBatchnorm
from compiler.passes.fold_constants import FoldConstants
from compiler.passes.fold_shape_ops import FoldShapeOps
from compiler.passes.fuse import Fuse
from compiler.passes.import_model import Import
from compiler.passes.infer_shapes import InferShapes
from compiler.passes.inplace import Inplace
from compiler.passes.lower_loops import LowerLoops
from compiler.passes.map_gpu import MapGpu
from compiler.passes.order_steps import OrderSteps
from compiler.passes.partition_fallback import PartitionFallback
from compiler.passes.plan_memory import PlanMemory
from compiler.passes.rematerialise_cheap import RematerialiseCheap
from compiler.passes.remove_noops import RemoveNoops
from compiler.passes.stream_stores import StreamStores
from compiler.trace import PassRecord

PASSES: tuple[type[Pass], ...] = (
    Import, BindDims, InferShapes, PartitionFallback, FoldConstants, FoldShapeOps, FoldBatchnorm,
    DedupParams, Canonicalise, AlgebraicSimplify, CancelPermutes, RemoveNoops, Cse, Dce, Decompose,
    RematerialiseCheap, Fuse, LowerLoops, CollapseAxes, OrderSteps, Inplace, StreamStores,
    MapGpu, PlanMemory, Emit, Build,
)  # fmt: skip
"""Every pass there is."""

Pipeline = tuple[Pass, ...]

DEFAULT: Pipeline = (
    Import(), BindDims(), InferShapes(), PartitionFallback(), FoldConstants(), FoldShapeOps(),
    FoldBatchnorm(), DedupParams(), Canonicalise(), RemoveNoops(), Cse(), Dce(), Decompose(),
    FoldConstants(), Canonicalise(), AlgebraicSimplify(), CancelPermutes(), RemoveNoops(), Cse(),
    Dce(), RematerialiseCheap(), Fuse(), LowerLoops(), CollapseAxes(), OrderSteps(), Inplace(),
    StreamStores(), PlanMemory(), Emit(), Build(),
)  # fmt: skip

OP_BY_OP: Pipeline = (
    Import(), BindDims(), InferShapes(), PartitionFallback(), FoldShapeOps(), Decompose(),
    Fuse(by="origin"), LowerLoops(), CollapseAxes(), StreamStores(), OrderSteps(),
    PlanMemory(share=False), Emit(), Build(),
)  # fmt: skip
"""The baseline everywhere: no clean-up, one kernel an ONNX node, one buffer a value."""


def for_target(pipeline: Pipeline, target: str) -> Pipeline:
    """The pipeline as it runs for a target: for a GPU, `map-gpu` takes the place of `stream-stores`
    (of `plan-memory`, which it precedes, where that is not there)."""
    if target == "cpu" or any(isinstance(p, MapGpu) for p in pipeline):
        return pipeline
    names = [p.name for p in pipeline]
    if "stream-stores" in names:
        return tuple(MapGpu() if isinstance(p, StreamStores) else p for p in pipeline)
    at = names.index("plan-memory")
    return (*pipeline[:at], MapGpu(), *pipeline[at:])


def find(name: str) -> type[Pass]:
    for found in PASSES:
        if found.name == name:
            return found
    known = ", ".join(p.name for p in PASSES)
    raise PipelineError("pipeline.unknown", name=name, known=known)


# ---- text ----------------------------------------------------------------------------------------


def print_option(value: Option) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return "[" + ",".join(_print_word(v) for v in value) + "]"
    return _print_word(value) if isinstance(value, str) else str(value)


_STOP = set('{}[],="\\')


def _print_word(text: str) -> str:
    if text and not any(ch in _STOP or ch.isspace() for ch in text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def print_pass(p: Pass) -> str:
    """The pass with the options that differ from their defaults: `fuse{by=origin}`."""
    options = p.options()
    if not options:
        return p.name
    return p.name + "{" + ",".join(f"{k}={print_option(v)}" for k, v in options) + "}"


def print_pipeline(pipeline: Pipeline) -> str:
    return ",".join(print_pass(p) for p in pipeline)


class _Reader:
    """Characters of a pipeline's text, with the errors that say where."""

    def __init__(self, text: str) -> None:
        self.text, self.at = text, 0

    def fail(self, message: str, **expected: str) -> PipelineError:
        return PipelineError(message, at=self.at + 1, **expected)

    def skip(self) -> None:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    def peek(self) -> str:
        self.skip()
        return self.text[self.at] if self.at < len(self.text) else ""

    def take(self, ch: str) -> bool:
        if self.peek() == ch:
            self.at += 1
            return True
        return False

    def need(self, ch: str) -> None:
        if not self.take(ch):
            raise self.fail("pipeline.sign", sign=ch)

    def word(self) -> str:
        self.skip()
        if self.take('"'):
            out: list[str] = []
            while self.at < len(self.text) and self.text[self.at] != '"':
                if self.text[self.at] == "\\":
                    self.at += 1
                out.append(self.text[self.at : self.at + 1])
                self.at += 1
            self.need('"')
            return "".join(out)
        start = self.at
        while self.at < len(self.text):
            ch = self.text[self.at]
            if ch in _STOP or ch.isspace():
                break
            self.at += 1
        if start == self.at:
            raise self.fail("pipeline.word")
        return self.text[start : self.at]

    def option(self) -> str | list[str]:
        if not self.take("["):
            return self.word()
        items: list[str] = []
        while not self.take("]"):
            items.append(self.word())
            if self.peek() != "]":
                self.need(",")
        return items


Item = tuple[bool, str, dict[str, str | list[str]]]


def _convert(p: str, name: str, default: Option, raw: str | list[str]) -> Option:
    if isinstance(default, tuple):
        return tuple(raw) if isinstance(raw, list) else (raw,)
    if isinstance(raw, list):
        raise PipelineError("pipeline.list", name=p, option=name)
    if isinstance(default, bool):
        if raw in ("true", "false"):
            return raw == "true"
        raise PipelineError("pipeline.flag", name=p, option=name)
    if isinstance(default, int):
        try:
            return int(raw)
        except ValueError:
            raise PipelineError("pipeline.number", name=p, option=name, value=raw) from None
    return raw


def _with_options(base: Pass | type[Pass], options: dict[str, str | list[str]]) -> Pass:
    """The pass with options set; a class stands for the pass with its defaults."""
    base = base() if isinstance(base, type) else base
    known: dict[str, Field[Option]] = {f.name: f for f in fields(base)}
    values: dict[str, Option] = {}
    for name, raw in options.items():
        if name not in known:
            names = ", ".join(known) or "none"
            raise PipelineError("pipeline.option", name=base.name, option=name, known=names)
        default = known[name].default
        assert isinstance(default, int | str | bool | tuple)
        values[name] = _convert(base.name, name, default, raw)
    try:
        return replace(base, **values)
    except ValueError as error:
        raise PipelineError("pipeline.choice", name=base.name, reason=str(error)) from None


def read_items(text: str) -> list[Item]:
    """(dropped, name, options) of every item of a text."""
    reader = _Reader(text)
    items: list[Item] = []
    while reader.peek():
        dropped = reader.take("-")
        name = reader.word()
        options: dict[str, str | list[str]] = {}
        if reader.take("{"):
            while not reader.take("}"):
                key = reader.word()
                reader.need("=")
                options[key] = reader.option()
                if reader.peek() != "}":
                    reader.need(",")
        items.append((dropped, name, options))
        if reader.peek():
            reader.need(",")
            if not reader.peek():
                raise reader.fail("pipeline.end")
    return items


def parse_pipeline(text: str) -> Pipeline:
    """The passes of a text; PipelineError says where it is wrong and what is known."""
    items = read_items(text)
    bases = {"default": DEFAULT, "op-by-op": OP_BY_OP}
    if items and items[0][1] in bases and not items[0][0]:
        passes = bases[items[0][1]]
        for dropped, name, options in items[1:]:
            kind = find(name)
            present = any(isinstance(p, kind) for p in passes)
            if dropped:
                if kind.required and kind is not Fuse:
                    raise PipelineError("pipeline.required", name=name)
                if kind is Fuse:
                    passes = tuple(Fuse(by="origin") if isinstance(p, Fuse) else p for p in passes)
                else:
                    passes = tuple(p for p in passes if not isinstance(p, kind))
            elif present:
                passes = tuple(
                    _with_options(p, options) if isinstance(p, kind) else p for p in passes
                )
            else:
                raise PipelineError("pipeline.absent", name=name)
        return check(passes)
    if any(dropped for dropped, _, _ in items):
        raise PipelineError("pipeline.minus")
    return check(tuple(_with_options(find(n), o) for _, n, o in items))


def parse_pass(text: str) -> Pass:
    """One pass from its text, outside any pipeline: `fuse{by=origin}`."""
    (_, name, options), = read_items(text)
    return _with_options(find(name), options)


def check(pipeline: Pipeline) -> Pipeline:
    """The pipeline with `fuse{by=origin}` where `fuse` is missing; PipelineError when a required
    pass is missing or repeated, stands before what it needs, or stands behind the plan."""
    names = [p.name for p in pipeline]
    if "fuse" not in names and "lower-loops" in names:
        at = names.index("lower-loops")
        pipeline = (*pipeline[:at], Fuse(by="origin"), *pipeline[at:])
        names = [p.name for p in pipeline]
    for kind in PASSES:
        if kind.required and names.count(kind.name) != 1:
            found = names.count(kind.name)
            raise PipelineError("pipeline.once", name=kind.name, found=found)
    for k, p in enumerate(pipeline):
        for needed in p.after:
            if needed not in names[:k]:
                raise PipelineError("pipeline.before", name=p.name, needed=needed)
    for name in names[names.index("plan-memory") + 1 :]:
        if name not in ("emit", "build"):
            raise PipelineError("pipeline.planned", name=name)
    return pipeline


# ---- driver --------------------------------------------------------------------------------------

Progress = Callable[[PassRecord, int, int], None]


def run_pass(p: Pass, module: Module, context: Context) -> PassRecord:
    """One pass with the verifier after it; PassError names the pass, the op and its origin."""
    context.check()
    start = time.perf_counter()
    result = p.run(module, context)
    milliseconds = (time.perf_counter() - start) * 1e3
    if result.module is not module:
        try:
            verify(result.module)
        except Exception as error:
            raise PassError(p.name, f"left a broken module: {error}") from error
    elif any(e.edits for e in result.events):
        raise PassError(p.name, "reports edits but returned the module it was given")
    level = p.level if p.level in ("loops", "source") else result.module.level
    return PassRecord(
        p.name, print_pass(p), level, p.unit, p.required, module, result.module,
        result.events, result.decisions, milliseconds,
    )  # fmt: skip


def run_pipeline(
    pipeline: Pipeline, context: Context, progress: Progress | None = None
) -> tuple[PassRecord, ...]:
    """All passes from the empty module, each verified."""
    module = EMPTY
    records: list[PassRecord] = []
    for k, p in enumerate(pipeline):
        record = run_pass(p, module, context)
        records.append(record)
        module = record.after
        if progress is not None:
            progress(record, k + 1, len(pipeline))
    return tuple(records)


def replay(record: PassRecord) -> Module:
    """The module after the events of a record, folded from `before`."""
    return fold(record.before, record.events)
