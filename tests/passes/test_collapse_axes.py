"""Axes whose extents agree only by a guard join where it proves the size, else stay apart."""

from __future__ import annotations

import numpy as np
import pytest

import compiler
from tests.frontend.models import info, model, node

CASES = (
    ((3, 4, 5), (1, 0, 0, 0, 0, 1), (4, 1, 1), "collapse.refused"),
    ((3, 2, 5), (1, 1, 0, 2, 0, 1), (6, 3, 6), "collapse.done"),
)


@pytest.mark.parametrize(("shape", "pads", "factor", "message"), CASES)
def test_extents_equal_by_a_guard_only(
    shape: tuple[int, ...], pads: tuple[int, ...], factor: tuple[int, ...], message: str
) -> None:
    weight = np.arange(np.prod(factor), dtype=np.float32).reshape(factor)
    proto = model(
        [node("Pad", ["x", "p"], ["a"]), node("Mul", ["w", "a"], ["y"])],
        [info("x", ["s", "b", "t"])], ["y"], {"p": np.array(pads), "w": weight},
    )  # fmt: skip
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    built = compiler.compile(proto, pipeline="op-by-op", threads=1)
    padded = np.pad(x, list(zip(pads[:3], pads[3:], strict=True)))
    np.testing.assert_array_equal(built.engine.run({"x": x})["y"], weight * padded)
    assert message in {e.message for e in built.trace.record("collapse-axes").events}
