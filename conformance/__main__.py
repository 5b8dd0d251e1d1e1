"""`make conformance`, or `python -m conformance [PATTERN …]`: run, print the table, keep it."""

from __future__ import annotations

import argparse
import json
import platform
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import numpy as np
import onnx

from compiler.runtime.engine import available_threads
from conformance.cases import KINDS, Case, collect
from conformance.exclusions import EXCLUSIONS
from conformance.judge import BREAKS, COMPILED, EXCLUDED, FAILED, STATUSES, Verdict, judge
from conformance.pool import run

Results = Mapping[str, Verdict]

TITLES = {COMPILED: "compiled", BREAKS: "with breaks", EXCLUDED: "excluded", FAILED: "failed"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 when nothing failed and every exclusion still excuses something."""
    options = parser().parse_args(arguments)
    cases = {
        name: case
        for name, case in collect(options.kind or KINDS).items()
        if not options.pattern or any(re.search(p, name) for p in options.pattern)
    }
    if not cases:
        print("no test has such a name", file=sys.stderr)
        return 2
    how = {"numerics": options.numerics, "pipeline": options.pipeline}
    verdicts: dict[str, Verdict] = {}
    for name, verdict in run(cases, partial(judge, **how), options.workers, options.limit):
        verdicts[name] = verdict
        if sys.stderr.isatty():
            print(f"\r{len(verdicts)}/{len(cases)} {name:.60}\033[K", end="", file=sys.stderr)
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    results = {name: verdicts[name] for name in cases}
    conditions = about(how)
    print(report(cases, results, conditions))
    unused = () if options.pattern or options.kind else unused_exclusions(results)
    for reason in unused:
        print(f"excludes nothing any more: {reason}")
    if options.json:
        text = json.dumps(as_json(cases, results, conditions), indent=1, ensure_ascii=False)
        options.json.write_text(text + "\n", encoding="utf-8")
    return int(bool(unused) or any(v.status == FAILED for v in results.values()))


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m conformance", description=__doc__)
    add = made.add_argument
    add("pattern", nargs="*", help="regular expressions: only tests whose kind/name has one")
    add("--kind", action="append", choices=KINDS, help="only tests of this kind; may be repeated")
    add("--numerics", default="default", choices=("default", "strict"))
    add("--pipeline", default="default", help="passes, as for python -m compiler")
    add("--workers", type=int, default=min(2, available_threads()), help="processes at once")
    add("--limit", type=float, default=120.0, help="seconds that a test may take")
    add("--json", type=Path, help="also write the results to this file")
    return made


def about(how: Mapping[str, str]) -> dict[str, str]:
    """The conditions of a run."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"), "onnx": onnx.__version__,
        "numpy": np.__version__, "python": platform.python_version(), **how,
    }  # fmt: skip


def counts(verdicts: Sequence[Verdict]) -> dict[str, int]:
    """Status -> how many, every status present."""
    found = Counter(v.status for v in verdicts)
    return {status: found[status] for status in STATUSES}


def by_kind(cases: Mapping[str, Case], results: Results) -> dict[str, dict[str, int]]:
    kinds = dict.fromkeys(case.kind for case in cases.values())
    return {
        kind: counts([v for n, v in results.items() if cases[n].kind == kind]) for kind in kinds
    }


def by_operator(cases: Mapping[str, Case], results: Results) -> dict[str, dict[str, int]]:
    operators = sorted({case.operator for case in cases.values() if case.operator})
    found: dict[str, list[Verdict]] = {operator: [] for operator in operators}
    for name, verdict in results.items():
        if cases[name].operator:
            found[cases[name].operator].append(verdict)
    return {operator: counts(verdicts) for operator, verdicts in found.items()}


def unused_exclusions(results: Results) -> tuple[str, ...]:
    """Reasons of the rows that excused no test."""
    used = {v.exclusion for v in results.values()}
    return tuple(row.reason for k, row in enumerate(EXCLUSIONS) if k not in used)


def report(cases: Mapping[str, Case], results: Results, conditions: Mapping[str, str]) -> str:
    """The tables as text: by kind, by operator, reasons, failures."""
    lines = [", ".join(f"{k} {v}" for k, v in conditions.items()), ""]
    kinds = by_kind(cases, results)
    if len(kinds) > 1:
        kinds["all"] = counts(list(results.values()))
    lines += [*table("kind", kinds), ""]
    operators = by_operator(cases, results)
    if operators:
        lines += [*table("operator", operators), ""]
    reasons = Counter(v.detail for v in results.values() if v.status == EXCLUDED)
    if reasons:
        lines += ["excluded:", *(f"{n:6}  {reason}" for reason, n in reasons.most_common()), ""]
    failed = {name: v.detail for name, v in results.items() if v.status == FAILED}
    if failed:
        lines += ["failed:", *(f"  {name}: {why.strip()}" for name, why in failed.items()), ""]
    return "\n".join(lines)


def table(head: str, rows: Mapping[str, Mapping[str, int]]) -> list[str]:
    width = max(len(head), *map(len, rows))
    titles = ["tests", *TITLES.values()]
    lines = [f"{head:{width}}  " + "  ".join(f"{t:>11}" for t in titles)]
    for name, row in rows.items():
        numbers = [sum(row.values()), *(row[status] for status in TITLES)]
        lines.append(f"{name:{width}}  " + "  ".join(f"{n or '-':>11}" for n in numbers))
    return lines


def as_json(
    cases: Mapping[str, Case], results: Results, conditions: Mapping[str, str]
) -> dict[str, object]:
    """Everything of a run: conditions, counts, and every test with its verdict."""
    return {
        "conditions": dict(conditions),
        "all": counts(list(results.values())),
        "kinds": by_kind(cases, results),
        "operators": by_operator(cases, results),
        "tests": {
            name: [v.status, v.detail] if v.detail else [v.status] for name, v in results.items()
        },
    }


def table_sentence(kept: Mapping[str, Mapping[str, object]]) -> str:
    """What a run found, as one sentence; `kept` is `as_json`."""
    row, told = kept["all"], kept["conditions"]
    number = {status: f"{row[status]:,}" for status in STATUSES}
    return (
        f"Of the {len(kept['tests']):,} tests that come with onnx {told['onnx']}, on "
        f"{told['date']} {number[COMPILED]} passed wholly compiled, {number[BREAKS]} with graph "
        f"breaks, {number[EXCLUDED]} were excluded with a reason and {number[FAILED]} failed."
    )


if __name__ == "__main__":
    sys.exit(main())
