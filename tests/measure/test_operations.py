"""Arithmetic read off loop trees: closed forms against what the interpreter executes."""

import pytest

from compiler.driver import trace_model
from compiler.ir.loops import Binary, For, If, Kernel, Stmt, Unary, Update, expressions, walk_expr
from compiler.measure.bytes import step_bytes
from compiler.measure.operations import LOGIC, kernel_operations
from sample_models import sample


def operations(name: str) -> dict[str, str]:
    trace, _ = trace_model(sample(name).path, until="emit")
    return {s.name: str(s.operations) for s in step_bytes(trace.final)}


def test_the_chain_does_six_operations_an_element() -> None:
    assert operations("five_op_chain") == {"k0": "6*c*r"}


def test_a_matrix_product_multiplies_and_adds_for_each_of_its_letters() -> None:
    assert operations("matmul") == {"matmul": "2*n*n*n"}


def test_softmax_counts_each_of_its_five_steps() -> None:
    # a maximum, a difference, an exponential, a sum, a quotient
    assert operations("softmax_spelled_out") == {"k0": "5*cols*rows"}


def executed(body: tuple[Stmt, ...], sizes: dict[str, int]) -> int:
    """The same by walking every iteration."""
    total = 0
    for stmt in body:
        total += isinstance(stmt, Update)
        for e in expressions(stmt):
            total += sum(
                isinstance(x, Unary | Binary) and x.function not in LOGIC for x in walk_expr(e)
            )
        if isinstance(stmt, For):
            for k in range(stmt.extent.evaluate(sizes)):
                total += executed(stmt.body, {**sizes, stmt.axis: k})
        elif isinstance(stmt, If):
            total += executed(stmt.body, sizes)
    return total


@pytest.mark.parametrize("name", ["layernorm_residual", "fork_reduce", "lstm_cell"])
def test_the_closed_form_is_the_number_of_operations_executed(name: str) -> None:
    trace, _ = trace_model(sample(name).path, until="emit")
    kernels: tuple[Kernel, ...] = trace.final.kernels
    assert kernels
    for kernel in kernels:
        sizes = {e: 2 + k for k, e in enumerate(kernel.extents)}
        assert kernel_operations(kernel).evaluate(sizes) == executed(kernel.body, sizes)
