"""What a viewer lists beside the history: kernels, the plan, the weights, as JSON (docs/json.md).

    kernel_listing   loop tree by lines, source, machine code, and what they came from
    plan_listing     steps with the bytes they must move, buffers with their live ranges
    param_listing    the smallest, largest and mean weight, and how the weights are spread

Bytes are polynomials over the model's symbols as text, so that a viewer binds other sizes without
a compile.

Teaches: figures that follow from index maps need no run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from compiler.history import origins_json
from compiler.ir.dims import Dim
from compiler.ir.module import Module, Source
from compiler.ir.params import ParamStore
from compiler.ir.plan import BindStep, Buffer, CallStep, CopyStep, KernelStep, Step
from compiler.ir.printer import kernel_lines, print_step, print_type
from compiler.ir.types import TensorType
from compiler.measure.bytes import StepBytes, step_bytes
from compiler.trace import Json

BINS = 24
"""Bars of a histogram of weights."""


def kernel_listings(module: Module, blobs: Mapping[str, bytes]) -> Iterator[dict[str, Json]]:
    """`{name, symbol, origins, tree[], source[], llvm, assembly, ptx[]}` of each kernel.

    `tree[]`, `source[]` and `ptx[]` are lines `{text, origins}`. `blobs` holds what `build` made,
    by digest; a kernel that is not emitted yet has a tree only.
    """
    sources = {s.kernel: s for s in module.sources}
    for kernel in module.kernels:
        source = sources.get(kernel.name)
        yield {
            "name": kernel.name,
            "symbol": "" if source is None else source.symbol,
            "origins": origins_json(kernel.origins),
            "tree": [
                {"text": line.text, "origins": origins_json(line.origins)}
                for line in kernel_lines(kernel)
            ],
            "source": [] if source is None else _source(source),
            "llvm": _artifact(source, "llvm", blobs),
            "assembly": _artifact(source, "assembly", blobs),
            "ptx": _ptx(source, _artifact(source, "ptx", blobs)),
        }


def _origins(source: Source) -> dict[int, Json]:
    """Of the lines of a source, from 1."""
    return {mark.line: origins_json(mark.origins) for mark in source.lines}


def _source(source: Source) -> list[Json]:
    origins = _origins(source)
    lines = source.text.rstrip("\n").split("\n")
    return [{"text": text, "origins": origins.get(k, [])} for k, text in enumerate(lines, 1)]


def _ptx(source: Source | None, text: str) -> list[Json]:
    """Instructions have the origins of the line of the source that the last `.loc` before them
    names, or that what it names was inlined at; without `.loc` no line has any."""
    if source is None or not text:
        return []
    of, line, found = _origins(source), 0, list[Json]()
    for row in text.rstrip("\n").split("\n"):
        told = re.match(r"\s*\.loc\s+(\d+) (\d+)", row)
        if told:
            inlined = re.findall(r"inlined_at 1 (\d+)", row)
            line = int(inlined[-1] if inlined else told[2] if told[1] == "1" else 0)
        instruction = re.match(r"\s+(@!?%)?\w", row)
        found.append({"text": row, "origins": of.get(line, []) if instruction else []})
    return found


def _artifact(source: Source | None, kind: str, blobs: Mapping[str, bytes]) -> str:
    for found, digest in () if source is None else source.artifacts:
        if found == kind and digest in blobs:
            return blobs[digest].decode()
    return ""


def plan_listing(module: Module) -> dict[str, Json]:
    """`{steps[], buffers[]}` of the plan; both empty before there is one.

    A step is `{kind, name, text, values, origins, reads, writes, floor, touched, domain, exact}`:
    the bytes hold where `domain` is not 0 and are null where no type tells them; `values` are the
    values that it makes. A binding step moves nothing. Of a GPU's plan, `untiled` of the compile
    (compiler/measure/report.py) is what says what must be moved.
    """
    plan = module.plan
    if plan is None:
        return {"steps": [], "buffers": []}
    counted, types = iter(step_bytes(module)), dict(module.graph.types())
    types |= {s.target.value: s.target.type for s in plan.steps if isinstance(s, CopyStep)}
    steps: list[Json] = []
    for step in plan.steps:
        text = print_step(step)
        if isinstance(step, BindStep):
            steps.append({"kind": "bind", "name": step.value, "text": text, "values": [],
                          "origins": origins_json(step.origins)})  # fmt: skip
            continue
        steps.append({"text": text, "values": _made(step), **_bytes(next(counted))})
    return {
        "steps": steps,
        "buffers": [
            {
                "name": b.name, "kind": b.kind, "source": b.source, "members": list(b.members),
                "size": _size(b, types), "start": b.start, "stop": b.stop,
            }
            for b in plan.buffers
        ],
    }  # fmt: skip


def _size(buffer: Buffer, types: Mapping[str, TensorType]) -> str | None:
    """Bytes of a buffer; None where a run alone tells the type of what is in it."""
    inside = [types[name] for name in buffer.members if name in types]
    return str(buffer.size) if all(type.sized for type in inside) else None


def _made(step: Step) -> list[Json]:
    match step:
        case KernelStep():
            return [o.value for o in step.operands[len(step.operands) - step.outputs :]]
        case CallStep():
            return [o.value for o in step.outputs]
        case CopyStep():
            return [step.target.value]
        case BindStep():
            return []


def _bytes(step: StepBytes) -> dict[str, Json]:
    def text(value: Dim | None) -> str | None:
        return None if value is None else str(value)

    return {
        "kind": step.kind, "name": step.name, "origins": origins_json(step.origins),
        "reads": text(step.reads), "writes": text(step.writes), **step.to_json(),
    }  # fmt: skip


def param_listing(module: Module, params: ParamStore) -> list[Json]:
    """`{name, type, elements, zeros, min, max, mean, histogram}` of every weight of the module.

    `histogram` counts the finite elements in `BINS` equal steps from `min` to `max`; both, and the
    mean, are over finite elements, and left out where there is none. Text has a type only.
    """
    found: list[Json] = []
    for param in module.params:
        row: dict[str, Json] = {"name": param.name, "type": print_type(param.type)}
        array = params.get(param.digest)
        if array.dtype.kind in "fiub":
            numbers = array.astype(np.float64).reshape(-1)
            finite = numbers[np.isfinite(numbers)]
            row |= {"elements": int(numbers.size), "zeros": int((numbers == 0).sum())}
            if finite.size:
                row |= {
                    "min": float(finite.min()), "max": float(finite.max()),
                    "mean": float(finite.mean()), "histogram": histogram(finite),
                }  # fmt: skip
        found.append(row)
    return found


def histogram(numbers: npt.NDArray[np.float64]) -> list[Json]:
    """How many of these finite numbers lie in each of `BINS` equal steps from the least on.

    `np.histogram` refuses numbers so large that steps between them can't be told apart, such as
    the "to the end" of a slice; halves keep the range of any two numbers finite.
    """
    half = numbers * 0.5
    least, most = half.min(), half.max()
    if least == most:
        return [int(numbers.size) if k == BINS // 2 else 0 for k in range(BINS)]
    share = (half - least) / (most - least)
    bars = np.minimum((share * BINS).astype(np.int64), BINS - 1)
    return [int(n) for n in np.bincount(bars, minlength=BINS)]
