"""Side by side with the rivals, with conditions: `make bench`, or `python -m benchmarks [NAME …]`.

In one process on two CPUs, op by op, fused, ONNX Runtime, torch.compile and NumPy run the same
models on the same arrays, outputs preallocated, two threads each, in rounds of random order, each
checked before it is timed. A ratio is the median of the one over the median of the other.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

import compiler
from benchmarks import models
from benchmarks.cold_start import KINDS, Cold, cold_starts
from benchmarks.compile_time import Compiled, compile_times, exponent
from benchmarks.conditions import TWO, conditions, on_two_cpus
from benchmarks.race import Call, Race, race, turns
from compiler.measure.copies import copies
from compiler.measure.timing import Latency
from compiler.runtime.engine import available_threads
from sample_models import FOLDER, Sample, catalogue, sample

BATCHES = (1, 32)
QUICK = ("mlp", "digits", "tiny_gpt", "resnet_tiny")
COLD = ("digits", "five_op_chain", "tiny_gpt", "resnet_tiny")


@dataclass(frozen=True)
class Effort:
    """How long each race may take, and how often things are repeated."""

    quick: bool
    repetitions: int
    seconds: float
    processes: int
    threads: int
    store: Path | None = None

    @property
    def scale(self) -> int:
        """What the rows of the three large models are divided by."""
        return 8 if self.quick else 1


@dataclass(frozen=True)
class Figure:
    """One figure: `value` in `unit`, `target` as text, and whether it is met."""

    name: str
    value: float
    unit: str
    target: str
    met: bool
    detail: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass
class Report:
    """All that was found so far."""

    figures: list[Figure] = field(default_factory=list[Figure])
    races: list[Race] = field(default_factory=list[Race])
    colds: list[Cold] = field(default_factory=list[Cold])
    compiled: list[Compiled] = field(default_factory=list[Compiled])

    def figure(self, name: str, value: float | None, unit: str, target: str, met: bool,
               detail: Mapping[str, float] | None = None) -> None:  # fmt: skip
        if value is None:
            print(f"{name}: not measured (wanted {target})")
            return
        figure = Figure(name, value, unit, target, met, detail or {})
        self.figures.append(figure)
        mark = "met" if figure.met else "MISSED"
        print(f"{name}: {f'{value:.3g} {unit}'.strip()} (wanted {target}: {mark})", flush=True)
        for key, number in figure.detail.items():
            print(f"    {key}: {number:.4g}")

    def race(self, found: Race) -> Race:
        self.races.append(found)
        print("\n".join(race_lines(found)), flush=True)
        return found

    def to_json(self) -> dict[str, object]:
        return {
            "figures": [{**f.__dict__, "detail": dict(f.detail)} for f in self.figures],
            "races": [r.to_json() for r in self.races],
            "cold": [c.to_json() for c in self.colds],
            "compile": [c.to_json() for c in self.compiled],
        }


# ---- races ---------------------------------------------------------------------------------------


def faster(report: Report, found: Race, who: str, than: float, target: str) -> None:
    ratio = found.ratio(who)
    met = ratio is not None and ratio >= than
    report.figure(f"{found.model}: {who} / fused", ratio, "x", target, met)


def large(
    report: Report, effort: Effort, name: str, model: bytes, sizes: Mapping[str, int], nbytes: int
) -> Race:
    """A race with three copies of the output's size beside it."""
    copy = copies(nbytes, effort.threads)
    more: dict[str, Call] = {f"copy, {k}": call for k, call in copy.calls.items()}
    return report.race(
        race(name, model, sizes, effort.threads, repetitions=effort.repetitions,
             seconds=5 * effort.seconds, more=more, store=effort.store)
    )  # fmt: skip


def chain(report: Report, effort: Effort) -> None:
    """The five-op chain at 4096 x 4096: op by op / fused."""
    rows, cols = 4096 // effort.scale, 4096
    model = (FOLDER / "five_op_chain.onnx").read_bytes()
    sizes = {"r": rows, "c": cols}
    found = large(report, effort, "five_op_chain", model, sizes, rows * cols * 4)
    faster(report, found, "op by op", 2.3, ">= 2.3")
    faster(report, found, "torch.compile", 1, ">= 1")


def gelu(report: Report, effort: Effort) -> None:
    """bias + GELU + residual at 2048 x 3072: ONNX Runtime / fused."""
    sizes = {"rows": 2048 // effort.scale, "cols": 3072}
    nbytes = sizes["rows"] * sizes["cols"] * 4
    name = "bias+GELU+residual"
    found = large(report, effort, name, models.bias_gelu_residual(), sizes, nbytes)
    faster(report, found, "ONNX Runtime", 3, ">= 3")
    faster(report, found, "torch.compile", 1, ">= 1")


def softmax(report: Report, effort: Effort) -> None:
    """Softmax at 8192 x 1024: ONNX Runtime / fused."""
    sizes = {"rows": 8192 // effort.scale, "cols": 1024}
    nbytes = sizes["rows"] * sizes["cols"] * 4
    found = large(report, effort, "softmax", models.softmax(), sizes, nbytes)
    faster(report, found, "ONNX Runtime", 1, ">= 1")
    faster(report, found, "torch.compile", 1, ">= 1")


def at_batches(each: Sample) -> Iterator[dict[str, int]]:
    """A sample's sizes with its batch (or its rows) 1 and 32; as they are where it has neither."""
    batch = next((n for n in ("batch", "rows", "r") if n in each.sizes), None)
    if batch is None:
        yield dict(each.sizes)
        return
    for size in BATCHES:
        yield {**each.sizes, batch: size}


def one_sample(report: Report, effort: Effort, each: Sample) -> None:
    """A sample model at batch 1 and 32; printed as it is."""
    for sizes in at_batches(each):
        report.race(
            race(each.name, each.path.read_bytes(), sizes, effort.threads,
                 repetitions=effort.repetitions, seconds=effort.seconds, store=effort.store)
        )  # fmt: skip


def samples(report: Report, effort: Effort) -> None:
    """Every sample model."""
    for each in catalogue():
        if not effort.quick or each.name in QUICK:
            one_sample(report, effort, each)


# ---- single figures ------------------------------------------------------------------------------


def call(report: Report, effort: Effort) -> None:
    """What a bound call of a one-kernel engine costs beyond the kernel: 16 elements, serial."""
    built = compiler.compile(models.one_add(), threads=1)
    x, y = np.ones(16, np.float32), np.empty(16, np.float32)
    bound = built.engine.bind({"x": x}, {"y": y})

    def many(call: Callable[[], object], times: int = 1000) -> None:
        for _ in range(times):
            call()

    found = turns({"call": lambda: many(bound), "nothing": lambda: many(lambda: None)}, 200,
                  effort.seconds)  # fmt: skip
    overhead = (found["call"].p50 - found["nothing"].p50) / 1000 * 1e6
    report.figure("bound call beyond the kernel", overhead, "us", "<= 5", overhead <= 5)


def steps(report: Report, effort: Effort) -> None:
    """A plan of 120 steps compiles one kernel, not a function of its own."""
    built = compiler.compile(models.chain_of(120), pipeline="op-by-op")
    assert built.module.plan is not None
    symbols = len({s.symbol for s in built.module.sources})
    launches = built.module.plan.launches()
    detail = {
        "steps": launches, "compile ms": built.phases["compile"], "link ms": built.phases["link"],
    }  # fmt: skip
    met = symbols == 1 and launches == 120
    name = "kernels compiled for a 120-step plan"
    report.figure(name, symbols, "", "1 (of 120 steps)", met, detail)


def nodes(report: Report, effort: Effort) -> None:
    """Compile time of 125, 250 and 500 nodes, split by pass."""
    found = compile_times(1 if effort.quick else 5)
    report.compiled += found
    print("\n".join(compile_lines(found)))
    power = exponent(found[-2].passes, found[-1].passes)
    report.figure("passes, 250 to 500 nodes: exponent", power, "", "<= 1.3", power <= 1.3)
    compiled = {c.compiled for c in found}
    report.figure(
        "kernels compiled for 500 nodes", found[-1].compiled, "",
        f"as for 125 ({found[0].compiled})", len(compiled) == 1,
        {"kernels of the plan": found[-1].kernels},
    )  # fmt: skip


def cold(report: Report, effort: Effort) -> None:
    """New processes to their first results, with empty stores and caches."""
    for name in COLD[:1] if effort.quick else COLD:
        each = sample(name)
        found = cold_starts(name, each.path, each.sizes, effort.threads, effort.processes)
        report.colds.append(found)
        print("\n".join(cold_lines(found)), flush=True)
        ours, theirs = found.total("fused"), found.total("torch.compile")
        ratio = theirs / ours if ours and theirs else None
        met = ratio is not None and ratio >= 5
        report.figure(f"{name}: cold start, torch.compile / fused", ratio, "x", ">= 5", met)
        if name == "digits":
            assert ours is not None
            report.figure(f"{name}: cold process to first result", ours, "s", "< 5", ours < 5)
            saved = found.phases["saved artifact"]
            load = saved["load"] + saved["first run"]
            label = f"{name}: load and run beyond the libraries"
            report.figure(label, load, "s", "<= 0.1", load <= 0.1)


ALL: Mapping[str, Callable[[Report, Effort], None]] = {
    "chain": chain, "gelu": gelu, "softmax": softmax, "samples": samples, "call": call,
    "steps": steps, "nodes": nodes, "cold": cold,
}  # fmt: skip
"""What runs when no name is given; the name of a sample runs that sample alone."""


# ---- text ----------------------------------------------------------------------------------------


def duration(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds * 1e6:.1f} us" if seconds < 1e-3 else f"{seconds * 1e3:.3f} ms"


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns of equal width, the first to the left, the others to the right."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(w) if k == 0 else cell.rjust(w)
            for k, (cell, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def race_lines(found: Race) -> list[str]:
    """The table of a race."""
    sizes = ", ".join(f"{k}={v}" for k, v in found.sizes.items())
    rows = [["", "p50", "p95", "p99", "calls", "/ fused", "error"]]
    absent: list[str] = []
    for name, contestant in found.contestants.items():
        latency: Latency | None = contestant.latency
        if latency is None:
            absent.append(f"  {name} is not there: {contestant.absent}")
            continue
        ratio = found.ratio(name)
        rows.append([
            f"  {name}", duration(latency.p50), duration(latency.p95), duration(latency.p99),
            str(latency.repetitions), f"{ratio:.2f}" if ratio else "-",
            "" if name.startswith("copy") else f"{contestant.error:.0e}",
        ])  # fmt: skip
    return ["", f"{found.model}  {sizes}", *aligned(rows), *absent]


def cold_lines(found: Cold) -> list[str]:
    sizes = ", ".join(f"{k}={v}" for k, v in found.sizes.items())
    rows = [["", "total", ""]]
    for kind in KINDS:
        total = found.total(kind)
        if total is not None:
            phases = ", ".join(f"{k} {v:.2f}" for k, v in found.phases[kind].items())
            rows.append([f"  {kind}", f"{total:.2f} s", phases])
    absent = [f"  {kind} is not there: {why}" for kind, why in found.absent.items()]
    head = f"{found.model}  {sizes}: cold start, median of {found.times} processes"
    return ["", head, *aligned(rows), *absent]


def compile_lines(found: Sequence[Compiled]) -> list[str]:
    """Milliseconds by pass, with the exponents between the columns."""

    def row(label: str, values: Sequence[float]) -> list[str]:
        powers = [exponent(a, b) for a, b in itertools.pairwise(values)]
        return [label, *(f"{v:.2f}" for v in values), *(f"{p:.2f}" for p in powers)]

    between = [f"{a.nodes}-{b.nodes}" for a, b in itertools.pairwise(found)]
    rows = [["compile, ms", *(str(c.nodes) for c in found), *between]]
    for name in found[0].milliseconds:
        rows.append(row(f"  {name}", [c.milliseconds[name] for c in found]))
    rows.append(row("  all but build", [c.passes for c in found]))
    rows.append(["  kernels", *(str(c.kernels) for c in found), *("" for _ in between)])
    rows.append(["  compiled", *(str(c.compiled) for c in found), *("" for _ in between)])
    return ["", *aligned(rows)]


# ---- command -------------------------------------------------------------------------------------


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    listed = f"{', '.join(ALL)}, or the name of a sample model"
    parser.add_argument("names", nargs="*", metavar="NAME", help=listed)
    parser.add_argument("--json", metavar="FILE", help="write everything here too")
    parser.add_argument("--quick", action="store_true", help="small sizes, few calls: a look")
    parser.add_argument("--seconds", type=float, help="of timing a race of a sample (large: x 5)")
    parser.add_argument("--processes", type=int, help="of each kind that start cold")
    parser.add_argument("--store", type=Path, metavar="FOLDER", help="keep engines between runs")
    args = parser.parse_args(argv)
    known = {**ALL, **{each.name: partial(one_sample, each=each) for each in catalogue()}}
    unknown = [name for name in args.names if name not in known]
    if unknown:
        parser.error(f"no benchmark is called {', '.join(unknown)}; there are: {listed}")
    quick = bool(args.quick)
    effort = Effort(
        quick, 100 if quick else 1000, args.seconds or (0.5 if quick else 6.0),
        args.processes or (1 if quick else 3), min(TWO, available_threads()), args.store,
    )  # fmt: skip
    found = conditions(effort.threads, effort.repetitions)
    print(json.dumps(found, indent=1))
    begin = time.perf_counter()
    report = Report()
    for name in args.names or ALL:
        known[name](report, effort)
        gc.collect()
        if args.json:
            text = json.dumps({"conditions": found, **report.to_json()}, indent=1)
            Path(args.json).write_text(text + "\n", encoding="utf-8")
    print(f"\n{time.perf_counter() - begin:.0f} s")
    return 0 if all(figure.met for figure in report.figures) else 1


if __name__ == "__main__":
    on_two_cpus()
    raise SystemExit(main())
