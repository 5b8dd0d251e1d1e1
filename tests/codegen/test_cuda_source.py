"""The source of a CUDA kernel computes what its loop tree does: no name means two things."""

from collections.abc import Mapping
from math import prod

import pytest

from compiler.ir.interpret.loops import run_kernel
from compiler.ir.loops import Kernel
from compiler.ir.parser import parse_kernel
from compiler.lower.cuda import Options, schedule
from tests.codegen.cuda_source import run_source
from tests.lower.test_cuda import arrays, close, kernels, sized

PLAIN = Options(threads=64)


def check(
    kernel: Kernel, sizes: Mapping[str, int], shift: bool = False, options: Options = PLAIN
) -> None:
    made = schedule(kernel, {}, sizes, options).kernel
    wanted, found = arrays(kernel, sizes, shift), arrays(kernel, sizes, shift)
    run_kernel(kernel, sizes, wanted, poison_outputs=True)
    loops, _ = made.grid()
    blocks = [loop.extent.evaluate(sizes) for loop in loops if loop.kind == "block"]
    threads = prod(loop.extent.evaluate(sizes) for loop in loops if loop.kind != "block")
    run_source(made, (blocks[-1], prod(blocks[:-1])), threads, sizes, found)
    close(found, wanted)


@pytest.mark.parametrize("name", ["five_op_chain", "softmax_spelled_out", "layernorm_residual"])
def test_samples(name: str) -> None:
    for kernel in kernels(name):
        for columns in (16, 37):
            check(kernel, sized(kernel, columns, 9))


@pytest.mark.parametrize("shift", [False, True])
def test_in_place(shift: bool) -> None:
    """Several rows a thread, held in registers while the same names are written."""
    for kernel in kernels("mlp"):
        assert any(arg.mode == "inout" for arg in kernel.args)
        check(kernel, sized(kernel, 256, 33), shift, Options(threads=64, rows=4))


def test_a_register_takes_no_name_that_is_there() -> None:
    text = """kernel @k (x_4_1: in f32[r,c], x: in f32[r,c], y: out f32[r,c]) {
      par i in r { par j in c { store y[i,j] = load x[i,j] - load x_4_1[i,j] } }
    }"""
    check(parse_kernel(text), {"r": 8, "c": 8}, options=Options(threads=32, rows=4))
