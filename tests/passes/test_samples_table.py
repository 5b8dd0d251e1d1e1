"""Every optional pass has a sample on which it acts, and one on which it refuses, with the reason.

    acts       some event of the pass carries edits          refuses    some event or decision of it
                                                                        says why it did not

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
from tests.whole import Whole, pipeline_of


class Row(NamedTuple):
    """A pass, the sample on which it acts, the one on which it refuses, and what it says there.

    `how` says under which numerics it refuses (`strict` where only those forbid it), or for which
    target.
    """

    name: str
    acts: str
    refuses: str
    message: str
    how: str = "default"


TABLE = (
    Row("fold-constants", "dirty", "dirty", "fold-constants.inexact", "strict"),
    Row("fold-shape-ops", "dirty", "tiny_gpt", "fold-shape-ops.length"),
    Row("fold-batchnorm", "conv_bn_relu", "conv_bn_relu", "fold-batchnorm.strict", "strict"),
    Row("dedup-params", "dirty", "dirty", "dedup-params.shape"),
    Row("canonicalise", "dirty", "mlp_gelu", "canonicalise.division.inexact"),
    Row("algebraic-simplify", "attention_block", "dirty", "algebraic-simplify.zero"),
    Row("cancel-permutes", "attention_block", "tiny_gpt", "cancel-permutes.strict", "strict"),
    Row("remove-noops", "dirty", "tiny_gpt", "remove-noops.sizes"),
    Row("cse", "dirty", "lstm_cell", "cse.attributes"),
    Row("dce", "dirty", "lstm_cell", "dce.output"),
    Row("rematerialise-cheap", "fork_reduce", "tiny_gpt", "rematerialise-cheap.gain"),
    Row("fuse", "five_op_chain", "diamond", "fuse.R2"),
    Row("collapse-axes", "diamond", "bias_relu", "collapse.refused"),
    Row("order-steps", "attention_block", "diamond", "order.kept"),
    Row("inplace", "mlp", "bias_relu", "inplace.caller"),
    Row("stream-stores", "softmax_spelled_out", "five_op_chain", "stream.once"),
    Row("map-gpu", "five_op_chain", "five_op_chain", "gpu.target", "cpu"),
)
EACH = pytest.mark.parametrize("row", TABLE, ids=lambda row: row.name)


@cache
def whole(name: str, numerics: str) -> Whole:
    return Whole(sample(name).path, pipeline_of(sample(name)), numerics=numerics)


def records(name: str, on: str, how: str) -> list[PassRecord]:
    """What a pass did on a sample, each time that it ran; `how`: the numerics, or a target for
    `map-gpu`, which the order for a CPU lacks."""
    if name == MapGpu.name:
        one = whole(on, "default")
        context = replace(one.context, target=how)
        return [run_pass(MapGpu(), one.trace.module_after("collapse-axes"), context)]
    return [r for r in whole(on, how).trace.records if r.name == name]


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
    found = records(row.name, row.acts, "cuda:ptx" if row.name == "map-gpu" else "default")
    assert any(r.changed and any(e.edits for e in r.events) for r in found)


@EACH
def test_a_sample_on_which_it_refuses_and_says_why(row: Row) -> None:
    found = list(refusals(records(row.name, row.refuses, row.how)))
    said = [told for message, told in found if message == row.message]
    assert said, [message for message, _ in found]
    for language in messages.LANGUAGES:
        text = messages.say(row.message, said[0], language)
        assert text != row.message and "{" not in text
