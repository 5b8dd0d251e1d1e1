"""Models that make no sense, and values of options that make none, are errors in words."""

from __future__ import annotations

import numpy as np

import compiler
from tests.frontend.models import info, model, node


def test_names_of_any_length() -> None:
    """LLVM tells names apart by their first 1024 letters."""
    long = "a" * 3000
    made = model(
        [node("Relu", ["x"], [long]), node("Exp", [long], [long + "b"])],
        [info("x", ["n", long])], [long + "b"],
    )  # fmt: skip
    x = np.ones((2, 3), np.float32)
    built = compiler.compile(made, threads=1)
    np.testing.assert_allclose(built.engine.run({"x": x})[long + "b"], np.exp(x), rtol=1e-6)
    assert all(len(line) < 500 for s in built.module.sources for line in s.text.splitlines())
