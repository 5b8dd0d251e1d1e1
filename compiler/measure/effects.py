"""The effect of each pass: leave it out, and measure beside the whole pipeline in the same run.

    effect(p) = p50(pipeline without p) / p50(pipeline)        above 1: the pass pays

Every optional pass that changed something is left out once (`fuse` left out is `fuse{by=origin}`).
All variants are interleaved, so that a ratio is of one run; floors and launches say why. Effects do
not add up: a pass may only prepare what another one saves.

Teaches: a pass is worth what the model loses without it, here and at these sizes.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from compiler.driver import Built, Progress, compile, read_pipeline
from compiler.errors import PipelineError
from compiler.frontend.load import OnnxModel, Source, load
from compiler.measure.accuracy import Accuracy, compare_all
from compiler.measure.bytes import step_bytes, total_floor
from compiler.measure.conditions import Conditions
from compiler.measure.inputs import assumed_sizes
from compiler.measure.report import bound_inputs
from compiler.measure.timing import Latency, interleave, now_and_then, seconds_of
from compiler.passes.base import Built as BuiltKernel
from compiler.passes.base import Cancelled
from compiler.passes.fuse import Fuse
from compiler.pipeline import Pipeline, check, print_pipeline
from compiler.trace import Json

SECONDS = 3.0
WARMUPS = 3
LEAST, MOST = 5, 300


@dataclass(frozen=True)
class Effect:
    """One variant: the pass that is left out (empty: none), and what the rest comes to.

    `floor` in bytes, None where it is not known; `moved` is the difference to the whole pipeline's
    results; `refused` is why the pipeline cannot do without the pass.
    """

    name: str
    latency: Latency | None
    launches: int
    floor: int | None
    moved: Accuracy | None
    refused: str = ""

    def to_json(self, whole: Latency) -> dict[str, Json]:
        found = self.latency
        return {
            "pass": self.name,
            "latency": None if found is None else found.to_json(),
            "ratio": None if found is None else found.p50 / whole.p50,
            "launches": self.launches,
            "floor": self.floor,
            "moved": None if self.moved is None else self.moved.to_json(),
            "refused": self.refused,
        }


def effects(
    model: OnnxModel | Source,
    pipeline: str | Pipeline | None = None,
    numerics: str = "default",
    pin: Mapping[str, int] | None = None,
    threads: int | None = None,
    *,
    sizes: Mapping[str, int] | None = None,
    seconds: float | None = None,
    seed: int = 0,
    progress: Progress | None = None,
    cancel: threading.Event | None = None,
    kernels: dict[str, BuiltKernel] | None = None,
) -> dict[str, Json]:
    """`{model, target, numerics, pipeline, whole, rows[], conditions}` on the CPU.

    `progress` is told the phases `effect` (a variant compiled) and `measure`. Raises what `compile`
    and `Engine.run` raise, and Cancelled.
    """
    stop = cancel or threading.Event()
    path = Path(model) if isinstance(model, str | Path) else None
    loaded = model if isinstance(model, OnnxModel) else load(model)
    passes = read_pipeline(pipeline)
    known = {} if kernels is None else kernels

    def alive() -> None:
        if stop.is_set():
            raise Cancelled

    def tell(phase: str, done: int, of: int) -> None:
        alive()
        if progress is not None:
            progress(None, phase, done, of)

    def built_by(chosen: Pipeline) -> Built:
        return compile(
            loaded, "cpu", pin, chosen, numerics, threads=threads,
            sizes=assumed_sizes(path, pin or {}, sizes or {}), cancel=stop, kernels=known,
        )  # fmt: skip

    whole = built_by(passes)
    names = left_out(whole)
    variants: dict[str, Built] = {"": whole}
    refused: dict[str, str] = {}
    for k, name in enumerate(names):
        tell("effect", k, len(names))
        try:
            variants[name] = built_by(without(passes, name))
        except PipelineError as error:
            refused[name] = str(error)
    arrays, bound = bound_inputs(whole, path, sizes or {}, None, seed)
    calls = {name: built.engine.bind(arrays) for name, built in variants.items()}
    budget = SECONDS if seconds is None else seconds
    tell("measure", 0, 1)
    once = sum(seconds_of(call) for call in calls.values())
    taken = interleave(
        calls, repetitions=max(LEAST, min(MOST, int(budget / once))), warmups=WARMUPS,
        seconds=budget, check=alive, seed=seed,
        progress=now_and_then(lambda done, of: tell("measure", done, of)),
    )  # fmt: skip
    wanted = whole.engine.run(arrays)
    rows: list[Effect] = []
    for name, built in variants.items():
        assert built.module.plan is not None
        rows.append(
            Effect(
                name, taken[name], built.module.plan.launches(),
                total_floor(step_bytes(built.module), bound),
                compare_all(built.engine.run(arrays), wanted) if name else None,
            )
        )  # fmt: skip
    rows += [Effect(name, None, 0, None, None, why) for name, why in refused.items()]
    conditions = Conditions(
        device="cpu", threads=whole.engine.threads, dtype="", sizes=bound, warmups=WARMUPS,
        repetitions=taken[""].repetitions, target="cpu",
        notes={"numerics": numerics, "inputs": f"made, seed {seed}"},
    )  # fmt: skip
    return {
        "schema": 1,
        "model": whole.trace.name,
        "target": "cpu",
        "numerics": numerics,
        "pipeline": print_pipeline(passes),
        "rows": [row.to_json(taken[""]) for row in rows],
        "conditions": conditions.to_json(),
    }


def left_out(whole: Built) -> Sequence[str]:
    """The optional passes that changed something, in order, each once."""
    return list(
        dict.fromkeys(
            r.name for r in whole.trace.records
            if r.changed and (not r.required or r.name == Fuse.name)
        )
    )  # fmt: skip


def without(passes: Pipeline, name: str) -> Pipeline:
    """The pipeline without every pass of that name. PipelineError where another one needs it."""
    return check(tuple(p for p in passes if p.name != name))
