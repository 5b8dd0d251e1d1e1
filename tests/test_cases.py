"""Graphs that real compilers and tools got wrong, through compile and engine.

The folder `../shared/cases` stands beside the checkout; its README says what each `mode` accepts:

    exact, agreed             the stored outputs
    unspecified, undefined    any value, or a clear error; the process stays alive
    invalid-by-spec           a clear error that names the node, or the stored value
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import compiler
from compiler.errors import CompilerError, ModelError
from compiler.ir.types import Array
from tests.whole import CASES, META, PIPELINES, Whole

LIBRARY = {
    "ConvTranspose", "DynamicQuantizeLinear", "If", "Loop", "QuantizeLinear", "Resize", "TopK",
}  # fmt: skip
"""Operators of the cases that the compiler lacks: each of their nodes is a graph break."""

OTHER_TYPES = {"bf16_roundtrip", "layernorm_fp16_stash", "reducemean_fp16_accumulate"}
"""Cases whose element types are computed by the library."""

FROM_SHAPES = {"dynamic_batch_reshape", "reshape_output_as_shape"}
"""Cases whose Gather, Concat and so on compute shapes, which are folded away."""

TRAINING = {"bn_training_momentum"}
"""Cases that ask for the statistics of the batch."""

UNTYPED = {"no_shapes_at_all"}
"""Cases in which no type is known before the run."""


def stored(name: str) -> tuple[dict[str, Array], dict[str, Array]]:
    """Inputs and outputs by their names in the model."""
    meta = META[name]
    with np.load(CASES / f"{name}.npz") as file:
        arrays: Mapping[str, Array] = {key: file[key] for key in file.files}
    inputs = {n: arrays[f"in_{k}"] for k, n in enumerate(meta["ins"])}
    return inputs, {n: arrays[f"out_{k}"] for k, n in enumerate(meta["outs"])}


def assert_stored(found: Mapping[str, Array], right: Mapping[str, Array], meta: Any) -> None:
    assert list(found) == list(right)
    for name, wanted in right.items():
        a = found[name]
        assert (a.shape, a.dtype) == (wanted.shape, wanted.dtype), name
        if wanted.dtype.kind in "fc":
            np.testing.assert_allclose(
                a, wanted, rtol=meta["tol"], atol=meta["tol"], equal_nan=True, err_msg=name
            )
        else:
            np.testing.assert_array_equal(a, wanted, name)


@pytest.mark.parametrize("base", PIPELINES)
@pytest.mark.parametrize("name", META)
def test_case(name: str, base: str) -> None:
    meta = META[name]
    inputs, right = stored(name)
    try:
        found = compiler.compile(CASES / f"{name}.onnx", pipeline=base).engine.run(inputs)
    except (CompilerError, ValueError) as error:
        assert meta["mode"] not in ("exact", "agreed"), error
        assert str(error)
        if meta["mode"] == "invalid-by-spec":
            assert isinstance(error, ModelError) and error.node
        return
    if meta["mode"] in ("exact", "agreed", "invalid-by-spec"):
        assert_stored(found, right, meta)
    else:
        assert {n: (a.shape, a.dtype) for n, a in found.items()} == {
            n: (a.shape, a.dtype) for n, a in right.items()
        }


@pytest.mark.parametrize("name", META)
def test_what_the_compiler_lacks_is_a_break_with_a_reason(name: str) -> None:
    """The other direction too: what it has is compiled."""
    breaks = Whole(CASES / f"{name}.onnx").trace.breaks()
    reasons = {b.message for b in breaks}
    if name in OTHER_TYPES:
        assert reasons == {"break.dtype"}
    elif name in UNTYPED:
        assert reasons == {"break.type-unknown"}
    elif name in TRAINING:
        assert reasons == {"break.training"}
    elif name not in FROM_SHAPES:
        assert {b.op for b in breaks} == LIBRARY & set(META[name]["ops"])
        assert reasons <= {"break.operator"}


def test_all_modes_are_known() -> None:
    modes = {meta["mode"] for meta in META.values()}
    assert modes <= {"exact", "agreed", "unspecified", "undefined", "invalid-by-spec"}
