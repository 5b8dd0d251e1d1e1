"""What a viewer lists beside the history: kernels, the plan and the weights."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from compiler.history import origins_json
from compiler.ir.dims import dims
from compiler.ir.graph import Param
from compiler.ir.module import EMPTY
from compiler.ir.params import ParamStore
from compiler.ir.printer import print_kernel
from compiler.ir.types import DType, TensorType
from compiler.listings import BINS, kernel_listings, param_listing, plan_listing
from compiler.measure.bytes import step_bytes
from tests.traces import NAMES, compiled


def through_json(value: object) -> Any:
    return json.loads(json.dumps(value, allow_nan=False))


# ---- kernels -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_every_kernel_brings_its_tree_and_its_source_line_by_line(name: str) -> None:
    module = compiled(name)[0].final
    listed = [through_json(k) for k in kernel_listings(module, {})]
    assert [k["name"] for k in listed] == [k.name for k in module.kernels]
    for kernel, found in zip(module.kernels, listed, strict=True):
        source = next(s for s in module.sources if s.kernel == kernel.name)
        assert found["symbol"] == source.symbol
        assert "\n".join(line["text"] for line in found["tree"]) == print_kernel(kernel)
        assert "\n".join(line["text"] for line in found["source"]) == source.text.rstrip("\n")
        for lines in (found["tree"], found["source"]):
            told = {origin for line in lines for origin in line["origins"]}
            assert told and told <= set(found["origins"])


def test_a_kernel_that_is_not_emitted_yet_has_a_tree_only() -> None:
    module = compiled("softmax_spelled_out")[0].module_after("lower-loops")
    (kernel,) = kernel_listings(module, {})
    assert kernel["tree"] and kernel["source"] == [] and kernel["symbol"] == ""


def test_what_build_made_is_found_by_its_digest() -> None:
    module = compiled("softmax_spelled_out")[0].final
    (source,) = module.sources
    made = (("object", "o"), ("llvm", "l"), ("assembly", "gone"), ("ptx", "p"))
    (kernel,) = kernel_listings(
        replace(module, sources=(replace(source, artifacts=made),)),
        {"l": b"define", "o": b"\xff", "p": b".version"},
    )
    assert kernel["llvm"] == "define" and kernel["assembly"] == ""
    assert kernel["ptx"] == [{"text": ".version", "origins": []}]


def test_an_instruction_came_from_the_line_that_the_last_loc_names() -> None:
    module = compiled("softmax_spelled_out")[0].final
    (source,) = module.sources
    marks = sorted((m for m in source.lines if m.origins), key=lambda m: len(m.origins))
    first, last = marks[0], marks[-1]
    assert first.origins != last.origins
    text = "\n".join((
        ".version 8.5", "\t.file\t1 \"k.py\"", "\tmov.u32 \t%r1, 0;",
        f"\t.loc\t1 {first.line} 1", "\tld.f32 \t%f1, [%rd1];", "$L__BB0_2:", "\t@!%p1 bra \t$L;",
        f"\t.loc\t2 4 1, function_name $L__info_string0, inlined_at 1 {last.line} 1",
        "\tst.f32 \t[%rd1], %f1;", "\t.loc\t1 0 1", "\tret;", "}", "",
    ))  # fmt: skip
    changed = replace(module, sources=(replace(source, artifacts=(("ptx", "p"),)),))
    (kernel,) = kernel_listings(changed, {"p": text.encode()})
    found = {line["text"].split()[0]: line["origins"] for line in kernel["ptx"]}
    assert "\n".join(line["text"] for line in kernel["ptx"]) == text.rstrip("\n")
    lit = {word: origins for word, origins in found.items() if origins}
    of = {line: origins_json(mark.origins) for line, mark in ((1, first), (2, last))}
    assert lit == {"ld.f32": of[1], "@!%p1": of[1], "st.f32": of[2]}


# ---- the plan ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_steps_tell_the_bytes_that_a_measurement_counts(name: str) -> None:
    module = compiled(name)[0].final
    assert module.plan is not None
    found = through_json(plan_listing(module))
    steps = [s for s in found["steps"] if s["kind"] != "bind"]
    for step, counted in zip(steps, step_bytes(module), strict=True):
        assert (step["kind"], step["name"]) == (counted.kind, counted.name)
        for key in ("reads", "writes", "floor", "touched"):
            value = getattr(counted, key)
            assert step[key] == (None if value is None else str(value))
        assert step["values"], "a step makes something"
    names = {member for b in found["buffers"] for member in b["members"]}
    assert {value for step in steps for value in step["values"]} <= names
    for buffer, row in zip(module.plan.buffers, found["buffers"], strict=True):
        assert row["name"] == buffer.name and row["size"] == str(buffer.size)
        assert 0 <= row["start"] <= row["stop"] <= len(found["steps"])


def test_the_fused_chain_reads_its_inputs_once_and_writes_its_output_once() -> None:
    (step,) = plan_listing(compiled("five_op_chain")[0].final)["steps"]  # pyright: ignore
    rows, columns = (d.name for d in compiled("five_op_chain")[0].final.dims)
    terms = {frozenset(t.split("*")) for t in step["reads"].split("+")}
    assert terms == {frozenset({"8", rows, columns}), frozenset({"8", columns})}
    assert frozenset(step["writes"].split("*")) == {"4", rows, columns}
    assert step["exact"] is True and step["values"] == ["Y"]


def test_before_there_is_a_plan_there_are_no_steps() -> None:
    module = compiled("mlp")[0].module_after("fuse")
    assert plan_listing(module) == {"steps": [], "buffers": []}


# ---- weights -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_every_weight_is_told(name: str) -> None:
    trace, context = compiled(name)
    found = through_json(param_listing(trace.final, context.params))
    assert [row["name"] for row in found] == [p.name for p in trace.final.params]
    for row, param in zip(found, trace.final.params, strict=True):
        array = context.params.get(param.digest)
        if array.dtype.kind not in "fiub" or not array.size:
            continue
        assert row["elements"] == array.size == sum(row["histogram"])
        assert row["min"] == pytest.approx(float(array.min()))
        assert row["max"] == pytest.approx(float(array.max()))
        assert row["min"] <= row["mean"] <= row["max"]
        assert len(row["histogram"]) == BINS


def row_of(array: npt.NDArray[Any]) -> Any:
    """The row of one weight alone."""
    store = ParamStore()
    param = Param("w", TensorType(DType.of(array.dtype), dims(array.shape)), store.add(array))
    (row,) = param_listing(replace(EMPTY, params=(param,)), store)
    return through_json(row)


def test_bars_are_equal_steps_from_the_least_to_the_largest() -> None:
    row = row_of(np.arange(2 * BINS, dtype=np.int32))
    assert row["histogram"] == [2] * BINS
    assert (row["min"], row["max"], row["mean"]) == (0, 2 * BINS - 1, BINS - 0.5)
    assert (row["elements"], row["zeros"]) == (2 * BINS, 1)


@pytest.mark.parametrize(
    "values",
    [
        np.full(3, np.iinfo(np.int64).max),
        np.array([1.0, np.nextafter(1.0, 2.0)]),
        np.array([-np.finfo(np.float64).max, np.finfo(np.float64).max]),
        np.array([0.0, 5e-324]),
        np.array([0.5]),
        np.array([True, False]),
    ],
)
def test_any_numbers_have_bars(values: npt.NDArray[Any]) -> None:
    row = row_of(values)
    assert sum(row["histogram"]) == values.size and len(row["histogram"]) == BINS


def test_infinity_and_nan_are_left_out_of_the_figures() -> None:
    row = row_of(np.array([np.nan, 1.0, np.inf, 3.0, -np.inf], dtype=np.float32))
    assert (row["elements"], row["min"], row["max"], row["mean"]) == (5, 1.0, 3.0, 2.0)
    assert sum(row["histogram"]) == 2
    nothing = row_of(np.array([np.nan], dtype=np.float32))
    assert "histogram" not in nothing and "mean" not in nothing


def test_no_elements_and_no_numbers_have_no_figures() -> None:
    assert row_of(np.zeros((0, 4), np.float32)) == {
        "name": "w", "type": "f32[0,4]", "elements": 0, "zeros": 0,
    }  # fmt: skip
    assert row_of(np.array(["a", "b"], dtype=object)) == {"name": "w", "type": "string[2]"}
