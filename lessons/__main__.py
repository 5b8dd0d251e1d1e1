"""`python -m lessons [LESSON …]`: run every view, run and listing and write `recorded.json`.

Fails, and writes nothing, where a text and the compiler differ: a path that no measurement has, a
listing or a view that no compile has, a claim that is not true, a ratio that left its band. Lessons
that are not named keep what was recorded.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from lessons import figures
from lessons.form import Lesson, lesson, written
from lessons.prose import Json


def run(each: Lesson) -> tuple[Mapping[str, Mapping[str, Json]], list[str]]:
    """What is recorded of a lesson, and every problem that was found on the way."""
    problems: list[str] = []
    for name, view in each.views.items():
        if problem := figures.view_problem(view):
            problems.append(f"view {name}: {problem}")
    listings: dict[str, Json] = {}
    for name, listing in each.listings.items():
        try:
            listings[name] = figures.listing_text(listing)
        except ValueError as error:
            problems.append(f"listing {name}: {error}")
    runs: dict[str, figures.Report] = {}
    for name, wanted in each.runs.items():
        print(f"{each.id}: {name} …", file=sys.stderr, flush=True)
        runs[name] = figures.measure(wanted)
    problems += figures.missing(each, runs)
    problems += figures.broken_claims(each, runs)
    problems += figures.broken_bands(each, runs)
    return {"runs": runs, "listings": listings}, problems


def main(arguments: Sequence[str]) -> int:
    names = arguments or written()
    unknown = [name for name in names if name not in written()]
    if unknown:
        print(f"error: no lesson {unknown[0]!r}; there are {', '.join(written())}", file=sys.stderr)
        return 2
    found = {slug: kept for slug, kept in figures.recorded().items() if slug in written()}
    failed = False
    for name in names:
        found[name], problems = run(lesson(name))
        for problem in problems:
            print(f"{name}: {problem}", file=sys.stderr)
        failed |= bool(problems)
    if failed:
        return 1
    figures.write({slug: found[slug] for slug in written() if slug in found})
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
