"""The figures of lessons: measured by the compiler, kept in `recorded.json`, held to the texts.

    lesson.yaml ──runs, listings──► compiler ──► recorded.json ──► the page, where it can't measure
                ──claims, bands, paths──────────────┘  problems

A claim is exact (bytes, launches), a band is the interval of a measured figure within which the
sentences of the text are true.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import cast

import compiler
from lessons import arith
from lessons.form import FOLDER, Lesson, Listing, Run, View
from lessons.prose import Json
from sample_models import sample

RECORDED = FOLDER / "recorded.json"
LEFT_OUT = ("per_kernel", "cold_start", "memory")
"""Keys of a measurement that no lesson shows."""

Report = Mapping[str, Json]
Reports = Mapping[str, Report]
"""Run -> its measurement, as docs/json.md says, without `LEFT_OUT`."""


# ---- from the compiler ---------------------------------------------------------------------------


def measure(run: Run) -> Report:
    """Measure a run. Raises what the compiler raises."""
    found = compiler.measure_model(
        sample(run.measure).path, sizes=run.sizes, pipeline=run.pipeline, numerics=run.numerics,
        cold=False, brief=True,
    ).to_json()  # fmt: skip
    return {key: _without_quantiles(value) for key, value in found.items() if key not in LEFT_OUT}


def _without_quantiles(value: Json) -> Json:
    if not isinstance(value, Mapping):
        return value
    return {k: _without_quantiles(v) for k, v in value.items() if k != "quantiles"}


@cache
def _built(model: str, pipeline: str | None) -> compiler.Built:
    return compiler.compile(sample(model).path, pipeline=pipeline)


def listing_text(listing: Listing) -> str:
    """The text of a listing. ValueError where the compile has no such pass or kernel."""
    built = _built(listing.model, listing.pipeline)
    try:
        record = built.trace.record(listing.at)
    except KeyError as error:
        raise ValueError(f"no pass {listing.at!r} ran") from error
    module = record.before if listing.side == "before" else record.after
    if listing.kind == "ir":
        return compiler.print_module(module)
    for source in module.sources:
        if source.kernel == listing.kernel:
            return source.text
    raise ValueError(f"there is no source of a kernel {listing.kernel!r}")


def view_problem(view: View) -> str:
    """What a view names that its compile does not have; '' where it has everything."""
    keys = view.keys
    pipeline = keys.get("pipeline")
    built = _built(str(keys["model"]), str(pipeline) if pipeline is not None else None)
    wanted = keys.get("pass")
    if wanted is not None:
        if wanted not in [r.name for r in built.trace.records]:
            return f"no pass {wanted!r} ran"
        record = built.trace.record(str(wanted))
        event = keys.get("event")
        if isinstance(event, int) and not 0 <= event < len(record.events):
            return f"pass {wanted!r} has {len(record.events)} events"
    select = keys.get("select")
    if select is not None and not any(f"%{select} " in t for t in _texts(built)):
        return f"there is no value {select!r}"
    return ""


def _texts(built: compiler.Built) -> Sequence[str]:
    return [compiler.print_module(m) for m in built.trace.snapshots()]


def formulas(run: Run) -> Report:
    """`launches` and `bytes.<variant>.floor` of a run, from a compile alone: no clock is read."""
    built = _built(run.measure, run.pipeline)
    about = cast(Mapping[str, Mapping[str, Json]], compiler.explanation(built))
    floors = {
        variant: {"floor": None if text is None else arith.value_of(str(text), run.sizes)}
        for variant, text in about["floor_formula"].items()
    }
    return {"launches": about["launches"], "bytes": floors}


# ---- held to the texts ---------------------------------------------------------------------------


def look_up(reports: Reports, path: str) -> Json:
    """What stands at `run.key.key…`; KeyError where nothing does."""
    value: Json = reports
    for word in path.split("."):
        if not isinstance(value, Mapping) or word not in value:
            raise KeyError(path)
        value = value[word]
    return value


def lookup(reports: Reports) -> Callable[[str], float | None]:
    """Numbers by path, as arithmetic wants them; None for what is missing or no number."""

    def find(path: str) -> float | None:
        try:
            value = look_up(reports, path)
        except KeyError:
            return None
        return None if isinstance(value, str) or not isinstance(value, int | float) else value

    return find


def missing(lesson: Lesson, reports: Reports) -> list[str]:
    """Paths of a lesson at which a measurement has no key; a null there is "not measured"."""
    found: list[str] = []
    for path in dict.fromkeys(lesson.paths()):
        try:
            look_up(reports, path)
        except KeyError:
            found.append(f"a run has nothing at {path}")
    return found


def broken_claims(lesson: Lesson, reports: Reports) -> list[str]:
    """Claims that the compiler does not bear out; those whose paths `reports` lacks, too."""
    found: list[str] = []
    for claim in lesson.claims:
        value = arith.evaluate(arith.parse(claim.value), lookup(reports))
        wanted = arith.value_of(claim.equals, lesson.sizes)
        assert wanted is not None
        if value is None or not math.isclose(value, wanted, rel_tol=1e-9):
            found.append(f"{claim.value} is {value}, and the text says {claim.equals} = {wanted}")
    return found


def broken_bands(lesson: Lesson, reports: Reports) -> list[str]:
    """Bands that a measured figure left."""
    found: list[str] = []
    for name, band in lesson.bands.items():
        value = arith.evaluate(arith.parse(band.value), lookup(reports))
        if value is None or not band.low <= value <= band.high:
            found.append(f"band {name}: {band.value} is {value}, not {band.low} to {band.high}")
    return found


# ---- kept ----------------------------------------------------------------------------------------


def recorded(file: Path = RECORDED) -> Mapping[str, Mapping[str, Mapping[str, Json]]]:
    """Lesson -> `runs` and `listings` by id; empty before the first `make lessons`."""
    if not file.is_file():
        return {}
    return json.loads(file.read_text(encoding="utf-8"))["lessons"]


def write(found: Mapping[str, Mapping[str, Mapping[str, Json]]], file: Path = RECORDED) -> None:
    text = json.dumps({"schema": 1, "lessons": found}, ensure_ascii=False, indent=1)
    file.write_text(text + "\n", encoding="utf-8")
