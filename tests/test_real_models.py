"""Two models from PyPI that nobody here made: a pitch detector and a detector of file types.

    swift-f0    audio [1, samples], fmin, fmax  ->  pitch, confidence [1, frames]      358 nodes
    magika      bytes [files, 2048]             ->  214 probabilities a file            95 nodes

Their packages are installed for these tests alone; only the model file in them is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import files
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import compiler
from compiler import messages
from compiler.driver import Built
from compiler.errors import GuardError
from compiler.frontend.reference import reference
from compiler.ir.types import Array
from tests.whole import assert_near

RATE = 16_000
"""Samples of audio a second."""


@dataclass(frozen=True)
class Real:
    """A package that holds one model; two sizes, how many nodes a library must compute, and how
    far from the reference the results may lie, relative to its norm."""

    package: str
    sizes: tuple[int, int]
    breaks: int
    tolerance: float


SWIFT = Real("swift-f0", (1_000, 6_000), 6, 1e-5)
MAGIKA = Real("magika", (1, 3), 0, 1e-4)
"""magika takes a variance as E[x²] - E[x]², where most digits cancel: ONNX Runtime, too, is 3e-5
from the reference for the first of these files."""

EACH = pytest.mark.parametrize("real", [SWIFT, MAGIKA], ids=lambda real: real.package)


@cache
def path_of(real: Real) -> Path:
    (found,) = [f for f in files(real.package) or () if f.suffix == ".onnx"]
    return Path(str(found.locate()))


@cache
def made(real: Real) -> Built:
    return compiler.compile(path_of(real))


def inputs_of(real: Real, size: int) -> dict[str, Array]:
    """A falling tone with noise; or files, each of one alphabet, that end early (in 256)."""
    random = np.random.default_rng(size)
    if real is MAGIKA:
        texts = random.integers(32, 64 + 64 * np.arange(size)[:, None], (size, 2048))
        texts[:, 1500:] = 256
        return {"bytes": texts.astype(np.int32)}
    seconds = np.arange(size) / RATE
    tone = 0.5 * np.sin(2 * np.pi * (300 - 100 * seconds) * seconds)
    audio = tone + 0.01 * random.standard_normal(size)
    low, high = np.array(46.875, np.float32), np.array(2093.75, np.float32)
    return {"audio": audio[None].astype(np.float32), "fmin": low, "fmax": high}


def onnxruntime_outputs(real: Real, inputs: Mapping[str, Array]) -> dict[str, Array]:
    session = onnxruntime.InferenceSession(path_of(real), providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(inputs)), strict=True))


@EACH
def test_one_engine_is_right_at_two_sizes(real: Real) -> None:
    one = made(real)
    for size in real.sizes:
        inputs = inputs_of(real, size)
        found = one.engine.run(inputs)
        wide = reference(one.model, inputs)
        assert wide.precision == "float64", wide.reason
        assert_near(found, wide.outputs, real.tolerance)
        rival = onnxruntime_outputs(real, inputs)
        assert {n: a.dtype for n, a in found.items()} == {n: a.dtype for n, a in rival.items()}
        assert_near(found, rival, 1e-4)


@EACH
def test_nearly_all_nodes_are_compiled_and_every_break_is_explained(real: Real) -> None:
    trace = made(real).trace
    breaks = trace.breaks()
    compiled = 1 - len(breaks) / len(trace.final.nodes)
    assert compiled >= 0.95
    assert len(breaks) == real.breaks
    for language in ("vi", "en"):
        for each in breaks:
            assert each.message in messages.catalogue(language)
            text = messages.say(each.message, dict(each.parameters), language)
            assert each.op in text and each.node in text and "{" not in text
    # What the detector computes in double precision, and nothing else, is left to the library.
    assert {b.message for b in breaks} <= {"break.dtype"}
    assert {dict(b.parameters)["dtype"] for b in breaks} <= {"f64"}


@pytest.mark.parametrize("samples", [0, 1, 255])
def test_less_than_a_frame_of_audio_is_refused_with_the_reason(samples: int) -> None:
    """The model pads short audio by max(256 - samples, 0): the code holds where that is 0."""
    with pytest.raises(GuardError, match=r"256 <= samples .*but samples=" + str(samples)) as told:
        made(SWIFT).engine.run(inputs_of(SWIFT, samples))
    assert told.value.sizes == {"samples": samples}
    found = made(SWIFT).engine.run(inputs_of(SWIFT, 256))
    assert found["pitch"].shape == found["confidence"].shape == (1, 1)
