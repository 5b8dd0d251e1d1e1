"""Every optional pass has a sample on which it acts, and one on which it refuses, with the reason.

    acts       some event of the pass carries edits          refuses    some event or decision of it
                                                                        says why it did not

The samples are those of the table in docs/passes.md, at the sizes at which the page compiles them.
Refusing is the other half of a pass: a rewrite is right because of what it leaves alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import pytest

from compiler import messages
from compiler.fusion.decisions import REFUSED
from compiler.passes.map_gpu import MapGpu
from compiler.pipeline import PASSES, run_pass
from compiler.trace import PassRecord
from sample_models import sample
from tests.pages import read, table, words
from tests.whole import Whole, pipeline_of


class Row(NamedTuple):
    """A pass, the sample on which it acts, the one on which it refuses, and what it says there.

    `where` says under which numerics it refuses (`strict numerics` where only those forbid it), or
    for which target.
    """

    name: str
    acts: str
    refuses: str
    where: str
    message: str


def rows() -> Iterator[Row]:
    for name, acts, refuses, where, message in table(read("passes.md"), "Optional pass"):
        assert where in ("", "strict numerics", "target `cpu`")
        yield Row(*(words(cell)[0] for cell in (name, acts, refuses)), where, words(message)[0])


TABLE = tuple(rows())
EACH = pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)


@cache
def whole(name: str, numerics: str) -> Whole:
    each = sample(name)
    return Whole(each.path, pipeline_of(each), numerics=numerics, sizes=each.sizes)


def records(name: str, on: str, numerics: str, target: str) -> list[PassRecord]:
    """What a pass did on a sample, each time that it ran; the order for a CPU lacks `map-gpu`."""
    found = whole(on, numerics)
    if name == MapGpu.name:
        context = replace(found.context, target=target)
        return [run_pass(MapGpu(), found.trace.module_after("inplace"), context)]
    return [r for r in found.trace.records if r.name == name]


def refusals(found: list[PassRecord]) -> Iterator[tuple[str, dict[str, object]]]:
    for record in found:
        for event in record.events:
            if not event.edits:
                yield event.message, dict(event.parameters)
        for decision in record.decisions:
            if decision.verdict == REFUSED:
                yield decision.message, dict(decision.parameters)


def test_the_table_has_every_optional_pass() -> None:
    assert [row.name for row in TABLE] == [p.name for p in PASSES if not p.required]


@EACH
def test_a_sample_on_which_it_acts(row: Row) -> None:
    found = records(row.name, row.acts, "default", "cuda:ptx")
    assert any(r.changed and any(e.edits for e in r.events) for r in found)


@EACH
def test_a_sample_on_which_it_refuses_and_says_why(row: Row) -> None:
    numerics = "strict" if row.where == "strict numerics" else "default"
    found = list(refusals(records(row.name, row.refuses, numerics, "cpu")))
    said = [told for message, told in found if message == row.message]
    assert said, [message for message, _ in found]
    for language in messages.LANGUAGES:
        text = messages.say(row.message, said[0], language)
        assert text != row.message and "{" not in text
