"""Sizes from where they are asked for, and arrays of these sizes."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from compiler.driver import trace_model
from compiler.errors import InputsError, ModelError
from compiler.ir.dims import Symbol
from compiler.measure.inputs import (
    default_sizes,
    made_inputs,
    read_inputs,
    sample_sizes,
    sizes_of,
)
from sample_models import catalogue, sample
from tests.measure.models import built, traced

CHAIN = sample("five_op_chain").path


def test_a_sample_has_the_sizes_of_the_catalogue() -> None:
    for each in catalogue():
        assert sample_sizes(each.path) == each.sizes
        assert sizes_of(traced(each.name)[0].final, {}, each.path, {}) == each.sizes


def test_what_is_asked_for_comes_first() -> None:
    module = traced("five_op_chain")[0].final
    found = sizes_of(module, {}, CHAIN, {"r": 7})
    assert found == {"r": 7, "c": sample("five_op_chain").sizes["c"]}
    assert default_sizes(built("five_op_chain"), CHAIN, {"r": 7}) == found


def test_another_model_gets_four(tmp_path: Path) -> None:
    module = traced("five_op_chain")[0].final
    assert sizes_of(module, {}, None, {}) == {"r": 4, "c": 4}
    copy = tmp_path / "five_op_chain.onnx"
    shutil.copy(CHAIN, copy)
    assert sizes_of(module, {}, copy, {}) == {"r": 4, "c": 4}
    for text in ("no JSON", "{}", "[1]", json.dumps([{"file": copy.name, "sizes": [1]}])):
        (tmp_path / "samples.json").write_text(text)
        assert sample_sizes(copy) == {}


def test_a_pin_is_kept() -> None:
    trace, context = trace_model(CHAIN, pin={"r": 9}, until="decompose")
    assert sizes_of(trace.final, context.pin, CHAIN, {"c": 5}) == {"r": 9, "c": 5}
    assert sizes_of(trace.final, context.pin, CHAIN, {"r": 9, "c": 5})["r"] == 9
    with pytest.raises(InputsError, match="r is pinned to 9, so it cannot be 8"):
        sizes_of(trace.final, context.pin, CHAIN, {"r": 8})


def test_an_unknown_name_and_a_size_out_of_bounds_are_errors() -> None:
    module = traced("five_op_chain")[0].final
    with pytest.raises(InputsError, match="no dimension called 'batch'; it has: r, c"):
        sizes_of(module, {}, CHAIN, {"batch": 3})
    dims = (Symbol("r", 2, 8, 2), Symbol("c"))
    bounded = replace(module, dims=dims)
    with pytest.raises(InputsError, match="r = 3 is out of its range: 2 to 8, a multiple of 2"):
        sizes_of(bounded, {}, None, {"r": 3})
    assert sizes_of(bounded, {}, CHAIN, {})["r"] == 4  # the sample's 2048 is out of bounds


def test_made_inputs_have_the_sizes_and_repeat() -> None:
    model = built("five_op_chain")
    sizes = {"r": 3, "c": 5}
    first, second = made_inputs(model, sizes, 1), made_inputs(model, sizes, 1)
    assert {n: a.shape for n, a in first.items()} == {
        "X": (3, 5), "R": (3, 5), "b": (5,), "s": (5,),
    }  # fmt: skip
    other = made_inputs(model, sizes, 2)
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name])
        assert not np.array_equal(array, other[name])


def test_a_file_of_arrays(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, x=np.arange(3))
    assert read_inputs(path)["x"].tolist() == [0, 1, 2]
    broken = tmp_path / "broken.npz"
    broken.write_bytes(b"PK no archive")
    alone = tmp_path / "alone.npy"
    np.save(alone, np.arange(3))
    objects = tmp_path / "objects.npz"
    np.savez(objects, x=np.array([{}], object))
    for wrong in (broken, alone, objects, tmp_path / "missing.npz"):
        with pytest.raises(ModelError, match=r"cannot be read.*numpy\.savez") as caught:
            read_inputs(wrong)
        assert wrong.name in caught.value.file
