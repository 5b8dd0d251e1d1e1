"""Closed forms of a plan's bytes against the counting build, which ran the very source."""

from dataclasses import replace

import numpy as np
import pytest

from compiler.frontend.reference import ReferenceRunner
from compiler.ir.interpret import Counter, run_kernel
from compiler.ir.interpret.plan import run_plan
from compiler.ir.interpret.tensor import ExternRunner
from compiler.ir.loops import Binary, Const, Load, map_statements
from compiler.ir.module import Module
from compiler.ir.plan import KernelStep
from compiler.ir.types import DType, Scalar
from compiler.measure.bytes import (
    StepBytes,
    distinct_kernels,
    floor_formula,
    step_bytes,
    total_floor,
    total_touched,
)
from compiler.measure.counting import count
from tests.measure.models import FORCED, NAMES, counted, inputs, sizes_of, traced

PIPELINES = [(name, p) for name in NAMES for p in ("default", "op-by-op")] + [("diamond", FORCED)]
BOUNDED = frozenset(NAMES) - {
    "five_op_chain", "softmax_spelled_out", "layernorm_residual", "mlp", "diamond", "digits",
}  # fmt: skip
"""Samples that may have guards, data that tell an index, or slices at literal offsets: bounds."""
S = 64 << 20
LARGE = {"r": 4096, "c": 4096}


def steps(name: str, pipeline: str) -> tuple[StepBytes, ...]:
    return step_bytes(traced(name, pipeline)[0].final)


def test_the_chain_at_4096_moves_11_tensors_op_by_op_and_3_fused() -> None:
    plain, fused = steps("five_op_chain", "op-by-op"), steps("five_op_chain", "default")
    assert total_floor(plain, LARGE) == 11 * S + (32 << 10)
    assert total_floor(fused, LARGE) == 3 * S + (32 << 10)
    assert floor_formula(plain) == "44*c*r+8*c"
    assert floor_formula(fused) == "12*c*r+8*c"
    assert len(plain) == 5 and len(fused) == 1
    assert fused[0].formula == floor_formula(fused)


@pytest.mark.parametrize(("name", "pipeline", "values"), [
    (name, pipeline, values)
    for name, pipeline in PIPELINES
    for values in ((3, 5), (1, 1), (0, 0), (4, 0), (0, 3), (17, 40))
    if name not in BOUNDED
    or (values == (3, 5) and pipeline == "default" and name not in ("resnet_tiny", "tiny_gpt"))
])  # fmt: skip
def test_the_counting_build_agrees(name: str, pipeline: str, values: tuple[int, ...]) -> None:
    found = steps(name, pipeline)
    sizes = sizes_of(traced(name, pipeline)[0].final, *values)
    ran = counted(name, pipeline, sizes)
    assert name in BOUNDED or all(s.exact for s in found)
    assert [c.kind for c in ran.steps] == [s.kind for s in found]
    for seen, said in zip(ran.steps, found, strict=True):
        bytes_ = (said.floor_at(sizes), said.touched_at(sizes))
        if said.exact:
            assert (seen.floor, seen.touched) == bytes_
        else:
            assert seen.floor <= bytes_[0] and seen.touched <= bytes_[1]
    if all(s.exact for s in found):
        assert ran.floor == total_floor(found, sizes)
        assert ran.touched == total_touched(found, sizes)


@pytest.mark.parametrize("name", NAMES)
def test_the_counting_build_computes_what_the_plan_means(name: str) -> None:
    trace, context = traced(name)
    sizes = sizes_of(trace.final, 3, 5)
    ran = counted(name, "default", sizes)
    externs: ExternRunner = ReferenceRunner(trace.final, context.params)
    wanted = run_plan(trace.final, inputs(trace, sizes), context.params, externs)
    assert ran.sizes == sizes
    assert ran.outputs.keys() == wanted.keys()
    for key, array in wanted.items():
        np.testing.assert_allclose(ran.outputs[key], array, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["five_op_chain", "softmax_spelled_out", "layernorm_residual"])
def test_each_argument_counts_as_in_the_interpreter(name: str) -> None:
    module = traced(name)[0].final
    assert module.plan is not None
    sizes = sizes_of(module, 2, 5)
    kernels = [s for s in module.plan.steps if isinstance(s, KernelStep)]
    ran = [s for s in counted(name, "default", sizes).steps if s.kind == "kernel"]
    for step, seen in zip(kernels, ran, strict=True):
        kernel = module.kernel(step.kernel)
        values = [d.evaluate(sizes) for d in step.extents]
        extents = dict(zip(kernel.extents, values, strict=True))
        buffers = {
            a.name: np.ones([d.evaluate(extents) for d in a.type.dims], a.type.element.numpy())
            for a in kernel.args
            if a.mode != "scratch"
        }
        counter = Counter()
        run_kernel(kernel, extents, buffers, counter=counter)
        assert {
            b.name: (b.loads, b.stores, b.first_loads, b.first_stores) for b in seen.buffers
        } == {
            n: (c.reads, c.writes, c.unique_reads, c.unique_writes)
            for n, c in counter.arguments.items()
        }


def read_twice(module: Module, buffer: str) -> Module:
    """The module with a kernel that adds 0 * (another load) to every load of a buffer."""
    zero = Const(Scalar.of(DType.f32, 0))

    def again(e):
        if isinstance(e, Load) and e.buffer == buffer:
            return Binary("add", e, Binary("mul", e, zero))
        return e

    (kernel,) = module.kernels
    planted = replace(kernel, body=map_statements(kernel.body, again))
    assert planted != kernel
    return replace(module, kernels=(planted,))


def test_a_planted_second_read_changes_touched_and_not_floor() -> None:
    trace, context = traced("five_op_chain")
    module, planted = trace.final, read_twice(trace.final, "X")
    sizes = {"r": 6, "c": 7}
    extra = 4 * 6 * 7
    before, after = step_bytes(module), step_bytes(planted)
    assert floor_formula(after) == floor_formula(before)
    assert total_touched(after, sizes) == (total_touched(before, sizes) or 0) + extra
    arrays = inputs(trace, sizes)
    first, second = (count(m, arrays, context.params) for m in (module, planted))
    assert second.floor == first.floor == total_floor(before, sizes)
    assert second.touched == first.touched + extra
    np.testing.assert_array_equal(first.outputs["Y"], second.outputs["Y"])


def test_a_step_whose_size_only_data_tells_has_no_number_before_it() -> None:
    step = steps("five_op_chain", "default")[0]
    unknown = replace(step, reads=None, touched=None)
    assert unknown.formula is None and unknown.floor_at(LARGE) is None
    assert total_floor((step, unknown), LARGE) is None
    assert floor_formula((step, unknown)) is None
    assert unknown.to_json()["floor"] is None
    assert step.floor_at({"r": 4}) is None


def test_kernels_that_differ_in_names_alone_count_once() -> None:
    module = traced("five_op_chain", "op-by-op")[0].final
    assert len(module.kernels) == 5
    twice = replace(module, kernels=(*module.kernels, replace(module.kernels[0], name="again")))
    assert distinct_kernels(twice) == distinct_kernels(module)


def test_a_module_without_a_plan_is_refused() -> None:
    module = traced("five_op_chain")[0].module_after("fuse")
    with pytest.raises(ValueError, match="no plan"):
        step_bytes(module)
    with pytest.raises(ValueError, match="no plan"):
        count(module, {}, traced("five_op_chain")[1].params)
