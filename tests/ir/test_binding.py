"""Binding symbols to the shapes of inputs."""

import subprocess
import sys

import numpy as np
import pytest

from compiler.ir.binding import (
    GuardError,
    InputError,
    ShapeError,
    bind_shapes,
    bind_symbols,
    check_guards,
)
from compiler.ir.dims import Guard, Symbol, dim
from compiler.ir.types import UNKNOWN, DType, TensorType, tensor

R, S = dim("r"), dim("s")


def f32(*shape):
    return tensor(DType.f32, *shape)


def bind(inputs, *, symbols=(), guards=(), labels=None, **shapes):
    return bind_shapes(
        list(inputs.items()), shapes, symbols=symbols, guards=guards, labels=labels
    )


def test_symbols_come_from_shapes():
    assert bind({"x": f32("r", "s"), "b": f32("s")}, x=(2, 3), b=(3,)) == {"r": 2, "s": 3}
    assert bind({"x": f32("r", "s")}, x=(0, 1)) == {"r": 0, "s": 1}
    assert bind({"x": f32()}, x=()) == {}
    assert bind({"x": UNKNOWN}, x=(4,)) == {}


def test_two_inputs_that_share_a_symbol_must_agree():
    inputs = {"x": f32("r", "s"), "b": f32("s")}
    with pytest.raises(ShapeError, match=r"axis 0 of input 'b' has extent 4, expected 3 \(s, s=3"):
        bind(inputs, x=(2, 3), b=(4,))


def test_constants_and_ranks():
    with pytest.raises(ShapeError, match=r"axis 1 of input 'x' has extent 7, expected 8$"):
        bind({"x": f32("r", 8)}, x=(2, 7))
    with pytest.raises(ShapeError, match=r"input 'x' has rank 1, shape \[2\]; expected rank 2"):
        bind({"x": f32("r", 8)}, x=(2,))


def test_polynomials_linear_in_one_unknown_are_solved():
    assert bind({"x": f32(2 * S + 1)}, x=(9,)) == {"s": 4}
    assert bind({"x": f32(R * S, "r")}, x=(12, 3)) == {"r": 3, "s": 4}
    assert bind({"x": f32(R * S), "y": f32("r")}, x=(12,), y=(3,)) == {"r": 3, "s": 4}
    chain = {"x": f32(dim("a") + dim("b")), "y": f32(dim("b") + dim("c")), "z": f32("c")}
    assert bind(chain, x=(9,), y=(5,), z=(3,)) == {"a": 7, "b": 2, "c": 3}
    assert bind({"x": f32(S // 2), "y": f32("s")}, x=(3,), y=(7,)) == {"s": 7}


@pytest.mark.parametrize("given", [8, 0])
def test_no_integer_solution(given):
    with pytest.raises(ShapeError, match=rf"extent {given}, expected 2\*s\+1 for some s >= 0"):
        bind({"x": f32(2 * S + 1)}, x=(given,))


@pytest.mark.parametrize("d", [R * S, S * S, S // 2, R + S])
def test_an_undetermined_symbol_is_an_error(d):
    with pytest.raises(ShapeError, match="does not determine"):
        bind({"x": f32(d)}, x=(6,))


def test_a_product_with_zero_determines_nothing():
    with pytest.raises(ShapeError, match="does not determine s"):
        bind({"x": f32("r", R * S)}, x=(0, 0))


def test_bounds_and_divisor():
    inputs = {"x": f32("r", "s")}
    symbols = (Symbol("s", 1, 64, 8),)
    assert bind(inputs, symbols=symbols, x=(3, 16)) == {"r": 3, "s": 16}
    for bad in (0, 12, 72):
        message = rf"s \(axis 1 of input 'x'\) is {bad}, expected 1 to 64, a multiple of 8"
        with pytest.raises(ShapeError, match=message):
            bind(inputs, symbols=symbols, x=(3, bad))


def test_guards_name_dims_and_node():
    guard = Guard(R, "==", 2 * S, (3,), "guard.broadcast")
    inputs = {"x": f32("r", "s")}
    assert bind(inputs, guards=(guard,), x=(6, 3)) == {"r": 6, "s": 3}
    message = r"node n3 \(Add \"sum\"\) needs r == 2\*s .* r=5, s=3"
    with pytest.raises(GuardError, match=message) as e:
        bind(inputs, guards=(guard,), labels={(3,): 'Add "sum"'}, x=(5, 3))
    assert (e.value.node, e.value.sizes, e.value.guard) == ((3,), {"r": 5, "s": 3}, guard)


@pytest.mark.parametrize("relation, good, bad", [("==", 4, 5), ("<=", 4, 3), ("!=", 5, 4)])
def test_relations(relation, good, bad):
    guard = Guard(dim(4), relation, S, (), "why")
    assert bind({"x": f32("s")}, guards=(guard,), x=(good,)) == {"s": good}
    with pytest.raises(GuardError):
        bind({"x": f32("s")}, guards=(guard,), x=(bad,))


def test_guards_over_symbols_from_data_wait():
    guard = Guard(S, "==", dim("u"), (1,), "later")
    sizes = bind({"x": f32("s")}, guards=(guard,), x=(3,))
    with pytest.raises(GuardError):
        check_guards((guard,), {**sizes, "u": 4}, known=sizes)
    check_guards((guard,), {**sizes, "u": 4}, known={**sizes, "u": 4})


def test_names_and_dtypes():
    inputs = [("x", f32("s")), ("k", tensor(DType.i64))]
    x, k = np.zeros(3, np.float32), np.array(1)
    assert bind_symbols(inputs, {"x": x, "k": k}) == {"s": 3}
    assert bind_symbols(inputs, {"x": x.astype(">f4"), "k": k}) == {"s": 3}
    with pytest.raises(InputError, match="input 'k' is missing; inputs: x, k"):
        bind_symbols(inputs, {"x": x})
    with pytest.raises(InputError, match="no input 'z'; inputs: x, k"):
        bind_symbols(inputs, {"x": x, "k": k, "z": k})
    with pytest.raises(InputError, match="input 'x' holds f64, expected f32"):
        bind_symbols(inputs, {"x": x.astype(np.float64), "k": k})


def test_types_without_a_shape_only_check_the_dtype():
    inputs = [("x", TensorType(DType.f32, None))]
    assert bind_symbols(inputs, {"x": np.zeros((2, 3), np.float32)}) == {}


def test_binding_is_light_enough_for_the_load_path():
    code = (
        "import sys, compiler.ir.binding\n"
        "bad = [m for m in sys.modules if m.split('.')[0] in ('onnx', 'numba', 'llvmlite')\n"
        "       or m.startswith('compiler.ir.interpret')]\n"
        "assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
