"""Lessons as JSON for a page: the course, and each lesson with what was recorded of it.

Everything is in every language. Notes for trainers and known-bad submissions stay here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from lessons.figures import recorded
from lessons.form import Lesson, course, lesson, written
from lessons.prose import Directive, Json, Node
from lessons.terms import with_terms
from sample_models import sample

__all__ = ["course_json", "lesson_json"]


def course_json() -> list[Json]:
    """`{id, number, title, minutes, predictions, exercises}` of each lesson; the last three null
    where it is not written yet."""
    there = written()
    found: list[Json] = []
    for entry in course():
        data = lesson(entry.id) if entry.id in there else None
        found.append({
            "id": entry.id, "number": entry.number, "title": dict(entry.title),
            "minutes": data and data.minutes,
            "predictions": data and list(data.predictions),
            "exercises": data and list(data.exercises),
        })  # fmt: skip
    return found


def lesson_json(slug: str) -> dict[str, Json]:
    """One lesson. KeyError where there is none."""
    data = lesson(slug)
    texts = {language: with_terms(blocks, language) for language, blocks in data.texts.items()}
    kept = recorded().get(slug, {})
    return {
        "id": data.id, "title": dict(data.title), "minutes": data.minutes, "model": data.model,
        "sizes": dict(data.sizes), "maximum": dict(sample(data.model).maximum),
        "needs": list(data.needs), "goals": {k: list(v) for k, v in data.goals.items()},
        "views": {
            name: {"label": dict(view.label), "keys": dict(view.keys)}
            for name, view in data.views.items()
        },
        "runs": {name: asdict(run) for name, run in data.runs.items()},
        "listings": {name: asdict(listing) for name, listing in data.listings.items()},
        "predictions": {name: asdict(p) for name, p in data.predictions.items()},
        "exercises": {name: _exercise(data, name) for name in data.exercises},
        "closing": [asdict(row) for row in data.closing],
        "texts": {language: [_block(b) for b in blocks] for language, blocks in texts.items()},
        "recorded": {"runs": kept.get("runs", {}), "listings": kept.get("listings", {})},
    }  # fmt: skip


def _exercise(data: Lesson, name: str) -> dict[str, Json]:
    exercise = data.exercises[name]
    return {
        "kind": exercise.kind, "pass": exercise.switched,
        "checks": [{"check": check, **numbers} for check, numbers in exercise.checks],
    }


def _block(block: Node | Directive) -> Json:
    if not isinstance(block, Directive):
        return block
    options: Mapping[str, str] = block.options
    return {
        "kind": block.name, "ids": list(block.ids),
        **{key: options.get(key, "").split() for key in ("table", "rows", "hide")},
        "until": options.get("until", ""),
    }  # fmt: skip
