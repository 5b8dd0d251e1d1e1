"""The vocabulary of kernels: what each name computes, and what may become of the code."""

import itertools
import math
import re
import subprocess
import sys
import threading

import numpy as np
import pytest

from compiler.codegen import numba_api
from compiler.codegen.numba_api import (
    VOCABULARY,
    ForbiddenSymbol,
    KernelSourceError,
    compile_kernel,
    helper_digest,
)
from compiler.runtime.native import undefined_symbols
from tests.codegen.native_kernel import evaluate, link, source

F32_EDGES = np.array(
    [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 1e-45, 3e38, np.inf, -np.inf, np.nan, 7.3],
    np.float32,
)
I32, I64 = np.iinfo(np.int32), np.iinfo(np.int64)

BIAS_GELU = """
def bias_gelu(params, worker, lo, hi):
    columns = extent(params, 1)
    x = pointer(params[2], f32)
    bias = pointer(params[3], f32)
    y = pointer(params[4], f32)
    for i in range(lo, hi):
        for j in range(columns):
            v = load(x, i * columns + j) + load(bias, j)
            half = f32(0.5) * v
            store(y, i * columns + j, half * (f32(1) + erf(v * f32(0.70710678))))
"""

SOFTMAX = """
def softmax(params, worker, lo, hi):
    columns = extent(params, 1)
    x = pointer(params[2], f32)
    y = pointer(params[3], f32)
    for i in range(lo, hi):
        m = f32(-inf)
        for j in range(columns):
            m = max_reassoc(m, load(x, i * columns + j))
        z = f32(0)
        for j in range(columns):
            e = exp(load(x, i * columns + j) - m)
            store(y, i * columns + j, e)
            z = add_reassoc(z, e)
        for j in range(columns):
            store(y, i * columns + j, load(y, i * columns + j) / z)
"""

REDUCTION = """
def reduction(params, worker, lo, hi):
    columns = extent(params, 1)
    x = pointer(params[2], {dtype})
    y = pointer(params[3], {dtype})
    for i in range(lo, hi):
        t = {dtype}({start})
        for j in range(columns):
            t = {function}(t, load(x, i * columns + j))
        store(y, i, t)
"""


def reduce_rows(function: str, x: np.ndarray, dtype: str, start: str, strict: bool = False):
    text = REDUCTION.format(function=function, dtype=dtype, start=start)
    y = np.empty(x.shape[0], x.dtype)
    link(compile_kernel("reduction", text, strict=strict, math="poly"))(x.shape, x, y)
    return y


def vector_widths(llvm: str) -> set[int]:
    return {int(n) for n in re.findall(r"<(\d+) x float>", llvm)}


# ---- what kernels compute ----------------------------------------------------------------------


def test_bias_gelu_is_vectorised_and_right():
    kernel = compile_kernel("bias_gelu", BIAS_GELU, strict=False, math="poly")
    assert kernel.undefined == ()
    assert max(vector_widths(kernel.llvm)) >= 4
    assert re.search(r"[xyz]mm\d", kernel.assembly) or "aarch64" in kernel.assembly

    rng = np.random.default_rng(0)
    x, bias = rng.standard_normal((37, 53), np.float32), rng.standard_normal(53, np.float32)
    y = np.empty_like(x)
    link(kernel)(x.shape, x, bias, y)
    v = (x + bias).astype(np.float64)
    wanted = 0.5 * v * (1 + np.vectorize(math.erf)(v / np.sqrt(2)))
    assert np.abs(y - wanted).max() < 5e-7


def test_softmax_is_vectorised_and_right():
    kernel = compile_kernel("softmax", SOFTMAX, strict=False, math="poly")
    assert kernel.undefined == ()
    assert re.search(r"llvm\.vector\.reduce\.fadd\.v\d+f32", kernel.llvm)
    assert re.search(r"llvm\.vector\.reduce\.fmaximum\.v\d+f32", kernel.llvm)

    x = np.random.default_rng(0).standard_normal((19, 101), np.float32) * np.float32(50)
    x[3, :50] = -np.inf
    y = np.empty_like(x)
    link(kernel)(x.shape, x, y)
    e = np.exp((x - x.max(1, keepdims=True)).astype(np.float64))
    assert np.allclose(y, e / e.sum(1, keepdims=True), rtol=1e-6, atol=1e-38)
    assert np.all(y[3, :50] == 0)


@pytest.mark.parametrize("count", [30, 32])
def test_a_short_loop_of_literal_length_becomes_vectors(count):
    source = f"""
def tail(params, worker, lo, hi):
    x = pointer(params[0], f32)
    y = pointer(params[1], f32)
    for i in range(lo, hi):
        for j in range(u64({count})):
            at = i * u64({count}) + j
            store(y, at, maximum(load(x, at) + f32(1.0), f32(0.0)))
"""
    kernel = compile_kernel("tail", source, strict=True, math="poly")
    assert max(vector_widths(kernel.llvm), default=1) >= 4
    for left in ("is.constant", "alloca [", "ptrtoint"):
        assert left not in kernel.llvm
    x = np.random.default_rng(0).standard_normal((5, count), np.float32)
    x[1, 2] = np.nan
    y = np.empty_like(x)
    link(kernel)((), x, y, hi=5)
    assert np.array_equal(y, np.maximum(x + np.float32(1), np.float32(0)), equal_nan=True)


def test_a_range_of_the_outer_axis_touches_nothing_else():
    call = link(compile_kernel("k", source("k", "f32 f32", "a"), strict=False, math="poly"))
    x, y = np.arange(40, dtype=np.float32), np.full(40, -1, np.float32)
    call((10, 4), x, y, lo=3, hi=5)
    assert np.array_equal(y[12:20], x[12:20])
    assert np.all(y[:12] == -1) and np.all(y[20:] == -1)


def test_bits_do_not_depend_on_where_a_range_is_cut():
    """Default numerics: an element of a vector loop and one of its tail are rounded alike."""
    text = source("k", "f32 f32", "erf(a * a + f32(0.3)) * exp(a) + tanh(a) * log(abs(a))")
    text = text.replace("i * columns + j", "i").replace("        for j in range(columns):\n", "")
    kernel = compile_kernel(
        "k", text.replace("            ", "        "), strict=False, math="poly"
    )
    assert max(vector_widths(kernel.llvm)) >= 4
    call = link(kernel)
    x = np.random.default_rng(0).standard_normal(1009, np.float32)
    whole, pieces = np.empty_like(x), np.empty_like(x)
    call((x.size, 0), x, whole)
    cuts = [0, 1, 3, 16, 17, 50, 333, 1000, x.size]
    for lo, hi in itertools.pairwise(cuts):
        call((x.size, 0), x, pieces, lo=lo, hi=hi)
    assert np.array_equal(whole.view(np.uint32), pieces.view(np.uint32))


@pytest.mark.parametrize("strict", [False, True])
def test_sum_of_a_row(strict):
    x = np.random.default_rng(0).standard_normal((5, 1001), np.float32)
    got = reduce_rows("add_reassoc", x, "f32", "0", strict)
    in_order = np.add.accumulate(x, axis=1)[:, -1]  # sums from left to right, as strict must
    assert np.array_equal(got, in_order) is strict
    assert np.allclose(got, x.astype(np.float64).sum(1), atol=1e-4)


def test_product_and_integer_accumulators():
    x = np.random.default_rng(0).uniform(0.9, 1.1, (3, 77)).astype(np.float32)
    assert np.allclose(reduce_rows("mul_reassoc", x, "f32", "1"), x.prod(1), rtol=1e-5)
    n = np.random.default_rng(0).integers(-9, 9, (3, 77))
    assert np.array_equal(reduce_rows("add_reassoc", n, "i64", "0"), n.sum(1))
    assert np.array_equal(reduce_rows("max_reassoc", n, "i64", "-100"), n.max(1))


@pytest.mark.parametrize(
    ("function", "start", "numpy"),
    [("max_reassoc", "-inf", np.max), ("min_reassoc", "inf", np.min)],
)
def test_extreme_of_a_row_keeps_nan(function, start, numpy):
    x = np.random.default_rng(0).standard_normal((64, 67), np.float32)
    x[np.arange(0, 64, 2), np.arange(0, 64, 2)] = np.nan
    for strict in (False, True):
        got = reduce_rows(function, x, "f32", start, strict)
        assert np.array_equal(got, numpy(x, axis=1), equal_nan=True)


def test_maximum_and_minimum_know_nan_and_the_zeros():
    a, b = (v.ravel().copy() for v in np.meshgrid(F32_EDGES, F32_EDGES))
    for name, numpy in (("maximum", np.maximum), ("minimum", np.minimum)):
        got = evaluate(f"{name}(a, b)", "f32 f32 f32", a, b)
        assert np.array_equal(got, numpy(a, b), equal_nan=True)
    zero = np.array([0.0, -0.0], np.float32)
    assert not np.signbit(evaluate("maximum(a, b)", "f32 f32 f32", zero, -zero)).any()
    assert np.signbit(evaluate("minimum(a, b)", "f32 f32 f32", zero, -zero)).all()
    n = np.array([I64.min, -1, 0, I64.max])
    r = n[::-1].copy()
    assert np.array_equal(evaluate("maximum(a, b)", "i64 i64 i64", n, r), np.maximum(n, r))
    u = np.array([0, 255], np.uint8)
    assert np.array_equal(evaluate("minimum(a, b)", "u8 u8 u8", u, u[::-1].copy()), [0, 0])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("sqrt(a)", np.sqrt),
        ("floor(a)", np.floor),
        ("ceil(a)", np.ceil),
        ("rint(a)", np.rint),
        ("abs(a)", np.abs),
        ("neg(a)", np.negative),
        ("sign(a)", np.sign),
        ("a / f32(3)", lambda x: x / np.float32(3)),
        ("select(a < f32(1), a, f32(9))", lambda x: np.where(x < 1, x, np.float32(9))),
    ],
)
def test_exact_functions_of_floats(value, expected):
    for strict in (False, True):
        got = evaluate(value, "f32 f32", F32_EDGES, strict=strict)
        with np.errstate(all="ignore"):
            wanted = expected(F32_EDGES)
        assert np.array_equal(got, wanted, equal_nan=True)
        numbers = ~np.isnan(wanted)
        assert np.array_equal(np.signbit(got[numbers]), np.signbit(wanted[numbers]))


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "erf", "sigmoid", "sin", "cos"])
def test_float64_and_the_c_library(name):
    def true(v: np.ndarray) -> np.ndarray:
        if name == "erf":
            return np.vectorize(math.erf)(v)
        return 1 / (1 + np.exp(-v)) if name == "sigmoid" else getattr(np, name)(v)

    x = np.linspace(0.1, 8, 101)
    assert np.allclose(evaluate(f"{name}(a)", "f64 f64", x), true(x), rtol=1e-14)
    x32 = x.astype(np.float32)
    got = evaluate(f"{name}(a)", "f32 f32", x32, math="libm")
    assert np.allclose(got, true(x32.astype(np.float64)), rtol=3e-7)


def test_pow():
    a = np.array([2, 0, -8, 1, np.nan, 9, -0.0, 1.5], np.float32)
    b = np.array([10, 0, 3, np.nan, 0, 0.5, -1, 2], np.float32)
    with np.errstate(all="ignore"):
        wanted = np.power(a, b)
    assert np.allclose(evaluate("pow(a, b)", "f32 f32 f32", a, b), wanted, equal_nan=True)


def test_pow_with_a_literal():
    """LLVM makes products and roots of these; C's rules for the edges stay."""
    x = np.array([-np.inf, -0.0, 0.25, 2, np.inf], np.float32)
    for exponent, wanted in {
        "2.0": [np.inf, 0, 0.0625, 4, np.inf],
        "3.0": [-np.inf, 0, 0.015625, 8, np.inf],
        "-1.0": [0, -np.inf, 4, 0.5, 0],
        "0.5": [np.inf, 0, 0.5, 2**0.5, np.inf],
        "-0.5": [0, np.inf, 2, 0.5**0.5, 0],
    }.items():
        got = evaluate(f"pow(a, f32({exponent}))", "f32 f32", x)
        assert np.allclose(got, wanted, rtol=3e-7), exponent
    for base in ("2.0", "10.0"):
        got = evaluate(f"pow(f32({base}), a)", "f32 f32", x)
        assert np.allclose(got, np.power(np.float32(base), x), rtol=3e-7), base


def test_sine_and_cosine_of_one_value():
    x = np.linspace(-3, 3, 33).astype(np.float32)
    assert np.allclose(evaluate("sin(a) * cos(a)", "f32 f32", x), np.sin(x) * np.cos(x), atol=1e-6)


# ---- integers ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "info"), [("i32", I32), ("i64", I64)])
def test_division_never_traps(name, info):
    a = np.array([7, -7, 7, -7, info.min, info.min, 5, 0, info.max], info.dtype)
    b = np.array([2, 2, -2, -2, -1, 1, 0, 0, -1], info.dtype)
    kinds = f"{name} {name} {name}"
    quotient = [3, -3, -3, 3, info.min, info.min, 0, 0, -info.max]
    assert evaluate("truncdiv(a, b)", kinds, a, b).tolist() == quotient
    assert evaluate("mod(a, b)", kinds, a, b).tolist() == [1, 1, -1, -1, 0, 0, 0, 0, 0]
    assert evaluate("fmod(a, b)", kinds, a, b).tolist() == [1, -1, 1, -1, 0, 0, 0, 0, 0]


def test_unsigned_division():
    a, b = np.array([250, 7, 9], np.uint8), np.array([7, 250, 0], np.uint8)
    assert evaluate("truncdiv(a, b)", "u8 u8 u8", a, b).tolist() == [35, 0, 0]
    assert evaluate("mod(a, b)", "u8 u8 u8", a, b).tolist() == [5, 7, 0]


def test_float_remainders():
    a, b = (v.ravel().copy() for v in np.meshgrid(F32_EDGES, F32_EDGES))
    with np.errstate(all="ignore"):
        assert np.array_equal(
            evaluate("fmod(a, b)", "f32 f32 f32", a, b), np.fmod(a, b), equal_nan=True
        )
        assert np.array_equal(
            evaluate("mod(a, b)", "f32 f32 f32", a, b), np.mod(a, b), equal_nan=True
        )


def test_integers_wrap():
    x = np.array([I32.min, -3, 0, 5, I32.max], np.int32)
    assert evaluate("abs(a)", "i32 i32", x).tolist() == [I32.min, 3, 0, 5, I32.max]
    assert evaluate("neg(a)", "i32 i32", x).tolist() == [I32.min, 3, 0, -5, -I32.max]
    assert evaluate("sign(a)", "i32 i32", x).tolist() == [-1, -1, 0, 1, 1]
    assert evaluate("i32(a + a)", "i32 i32", x).tolist() == [0, -6, 0, 10, -2]
    assert evaluate("i32(a * i32(3))", "i32 i32", x)[-1] == I32.max - 2


# ---- casts and storage -------------------------------------------------------------------------


def test_float_to_integer_truncates_and_is_never_undefined():
    x = np.array([1.9, -1.9, -0.0, 2e9, 3e9, -3e9, 1e20, np.inf, -np.inf, np.nan], np.float32)
    low = I32.min
    assert evaluate("i32(a)", "f32 i32", x).tolist() == [1, -1, 0, 2 * 10**9] + [low] * 6
    wide = evaluate("i64(a)", "f32 i64", x).tolist()
    assert wide == [1, -1, 0, 2 * 10**9, 3 * 10**9, -3 * 10**9] + [I64.min] * 4
    assert evaluate("i8(a)", "f32 i8", np.array([300, -1, np.nan], np.float32)).tolist() == [
        44,
        -1,
        0,
    ]
    assert evaluate("u8(a)", "f32 u8", np.array([300, -1, 255], np.float32)).tolist() == [
        44,
        255,
        255,
    ]
    big = evaluate("u64(a)", "f64 u64", np.array([2.0**63, 1.5, -1.0, 2.0**64, np.nan]))
    assert big.tolist() == [2**63, 1, 2**64 - 1, 2**63, 2**63]
    assert evaluate("u32(a)", "f32 u32", np.array([4e9, -1], np.float32)).tolist() == [
        4 * 10**9,
        2**32 - 1,
    ]


def test_other_casts():
    n = np.array([-1, 0, 1, 300, I64.min])
    assert evaluate("i8(a)", "i64 i8", n).tolist() == [-1, 0, 1, 44, 0]
    assert evaluate("u8(a)", "i64 u8", n).tolist() == [255, 0, 1, 44, 0]
    assert evaluate("f32(a)", "i64 f32", n).tolist() == [-1, 0, 1, 300, float(I64.min)]
    assert evaluate("f32(a)", "u64 f32", np.array([2**64 - 1], np.uint64)) == 2.0**64
    assert evaluate("b1(a)", "i64 b1", n).tolist() == [True, False, True, True, True]
    floats = np.array([0.0, -0.0, 0.1, np.nan], np.float32)
    assert evaluate("b1(a)", "f32 b1", floats).tolist() == [False, False, True, True]
    flags = np.array([True, False])
    assert evaluate("i64(a)", "b1 i64", flags).tolist() == [1, 0]
    assert evaluate("f32(a)", "b1 f32", flags).tolist() == [1, 0]
    assert evaluate("f32(a)", "f64 f32", np.array([1 / 3])) == np.float32(1 / 3)


def test_logic_on_bool():
    a, b = np.array([True, True, False, False]), np.array([True, False, True, False])
    for name, numpy in (("and", np.logical_and), ("or", np.logical_or), ("xor", np.logical_xor)):
        assert np.array_equal(evaluate(f"logical_{name}(a, b)", "b1 b1 b1", a, b), numpy(a, b))
    assert np.array_equal(evaluate("logical_not(a)", "b1 b1", a), ~a)
    assert np.array_equal(evaluate("select(a, b, logical_not(b))", "b1 b1 b1", a, b), a == b)
    assert evaluate("isnan(a)", "f32 b1", F32_EDGES).tolist() == np.isnan(F32_EDGES).tolist()


def test_a_stored_bool_is_one_byte_0_or_1():
    bytes_in = np.array([0, 1, 2, 255], np.uint8)
    got = evaluate("a", "b1 b1", bytes_in).view(np.uint8)
    assert got.tolist() == [0, 1, 1, 1]


def test_bits_and_literals():
    assert evaluate("bits(a)", "f32 i32", F32_EDGES).tolist() == F32_EDGES.view(np.int32).tolist()
    words = np.array([0x7FF8 << 48, -1, 1])
    assert np.array_equal(evaluate("from_bits(a)", "i64 f64", words).view(np.int64), words)
    one = np.ones(1, np.float32)
    assert np.signbit(evaluate("f32(-0.0)", "f32 f32", one))[0]
    assert evaluate("f32(-inf)", "f32 f32", one)[0] == -np.inf
    assert np.isnan(evaluate("f32(nan)", "f32 f32", one))[0]
    assert evaluate("f32(0.1)", "f32 f32", one)[0] == np.float32(0.1)


def test_half_precision_is_storage():
    x = np.random.default_rng(0).standard_normal(2000, np.float32) * np.float32(3)
    x[:6] = [np.inf, -np.inf, np.nan, 65520, 1e-8, -0.0]
    with np.errstate(over="ignore"):
        assert np.array_equal(evaluate("a", "f32 f16", x), x.astype(np.float16), equal_nan=True)
        back = x.astype(np.float16)
    assert np.array_equal(evaluate("a", "f16 f32", back), back.astype(np.float32), equal_nan=True)
    assert np.array_equal(evaluate("f16(a)", "f32 f32", x), back.astype(np.float32), equal_nan=True)


def test_bfloat16_rounds_to_nearest_even():
    words = [0x3F808000, 0x3F818000, 0x3F80C000, 0x7F800001, 0x7F7FFFFF, -0x80000000, 0x7F800000]
    x = np.array(words, np.int64).astype(np.int32).view(np.float32)
    got = evaluate("a", "f32 bf16", x)
    assert got.tolist() == [0x3F80, 0x3F82, 0x3F81, 0x7FC0, 0x7F80, 0x8000, 0x7F80]
    wide = evaluate("a", "bf16 f32", got)
    assert np.array_equal(wide.view(np.uint32), got.astype(np.uint32) << 16)


# ---- numerics ----------------------------------------------------------------------------------


def test_contraction_is_the_only_freedom():
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal(999, np.float32) for _ in range(3))
    kinds = "f32 f32 f32 f32"
    twice = a * b + c
    assert np.array_equal(evaluate("a * b + c", kinds, a, b, c, strict=True), twice)
    once = (a.astype(np.float64) * b + c).astype(np.float32)
    got = evaluate("a * b + c", kinds, a, b, c)
    assert np.all((got == twice) | (got == once))

    shifted = "(a + f32(12582912.0)) - f32(12582912.0)"
    assert np.array_equal(evaluate(shifted, "f32 f32", a), np.rint(a))
    assert np.array_equal(evaluate("(a + b) - b", "f32 f32 f32", a, b), (a + b) - b)
    assert np.array_equal(evaluate("a / b", "f32 f32 f32", a, b), a / b)
    assert np.array_equal(evaluate("a / f32(3)", "f32 f32", a), a / np.float32(3))
    zero = np.array([-0.0], np.float32)
    assert not np.signbit(evaluate("a + f32(0)", "f32 f32", zero))[0]


@pytest.mark.parametrize("strict", [False, True])
def test_no_instruction_has_more_licence_than_it_may(strict):
    flags = set()
    for name, text in (("bias_gelu", BIAS_GELU), ("softmax", SOFTMAX)):
        llvm = compile_kernel(name, text, strict=strict, math="poly").llvm
        found = re.findall(r"\b(fast|reassoc|nnan|ninf|nsz|arcp|afn|contract)\b", llvm)
        flags.update(found)
        assert not re.search(r"= f(sub|mul|div|neg) [a-z ]*\b(reassoc|nsz|arcp|fast)\b", llvm)
    assert flags <= (set() if strict else {"contract", "reassoc", "nsz"})


# ---- compiling ---------------------------------------------------------------------------------


def test_the_table_names_the_vocabulary():
    table = numba_api.__doc__ or ""
    assert {name for name in VOCABULARY if not re.search(rf"\b{name}\b", table)} == set()


def test_symbols_of_the_object():
    kernel = compile_kernel("k", source("k", "f32 f32", "pow(a, a)"), strict=False, math="poly")
    assert kernel.undefined == undefined_symbols(kernel.object) == ("powf",)
    assert kernel.symbol.encode() in kernel.object
    assert kernel.symbol in kernel.llvm and kernel.symbol in kernel.assembly


def test_library_mode_calls_the_library():
    for name, symbol in {"exp": "expf", "log": "logf", "tanh": "tanhf", "erf": "erff"}.items():
        kernel = compile_kernel(
            "k", source("k", "f32 f32", f"{name}(a)"), strict=False, math="libm"
        )
        assert kernel.undefined == (symbol,)


def test_a_kernel_that_allocates_is_refused():
    text = "def greedy(params, worker, lo, hi):\n    kept = [lo, hi]\n    kept.append(lo)\n"
    text += "    store(pointer(params[0], u64), kept[0], kept[0])\n"
    with pytest.raises(ForbiddenSymbol) as caught:
        compile_kernel("greedy", text, strict=False, math="poly")
    assert caught.value.kernel == "greedy"
    assert caught.value.symbols
    assert "greedy" in str(caught.value) and caught.value.symbols[0] in str(caught.value)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("    store(pointer(params[0], f32), lo, 1.0)", "store does not take"),
        ("    load(pointer(params[0], f32), 0.5)", "load does not take"),
        ("    exp(lo)", "exp does not take"),
        ("    pointer(params[0], lo)", "pointer takes"),
        ("    unheard_of(lo)", "unheard_of"),
        ("    for", "invalid syntax"),
    ],
)
def test_bad_source_names_the_kernel_and_the_reason(body, reason):
    with pytest.raises(KernelSourceError, match=re.escape(reason)) as caught:
        compile_kernel(
            "bad", f"def bad(params, worker, lo, hi):\n{body}\n", strict=False, math="poly"
        )
    assert caught.value.kernel == "bad"
    assert "'bad'" in str(caught.value)


def test_source_without_the_function():
    with pytest.raises(KernelSourceError, match="defines no function 'k'"):
        compile_kernel("k", "x = 1\n", strict=False, math="poly")


def test_unknown_math():
    with pytest.raises(ValueError, match="poly, libm"):
        compile_kernel("k", source("k", "f32 f32", "a"), strict=False, math="svml")
    with pytest.raises(ValueError, match="poly, libm"):
        helper_digest(False, "svml")


def test_digest_tells_the_variants_apart():
    variants = {helper_digest(s, m) for s in (False, True) for m in ("poly", "libm")}
    assert len(variants) == 4
    assert all(re.fullmatch(r"[0-9a-f]{64}", d) for d in variants)


def test_many_kernels_from_many_threads():
    results: dict[int, float] = {}
    x = np.array([2.0], np.float32)

    def work(first: int) -> None:
        for n in range(first, 12, 3):
            text = source(f"k{n}", "f32 f32", f"a * f32({n}) + exp(f32(0) * a)")
            call = link(compile_kernel(f"k{n}", text, strict=False, math="poly"))
            y = np.empty_like(x)
            call((1, 1), x, y)
            results[n] = float(y[0])

    threads = [threading.Thread(target=work, args=(first,)) for first in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {n: 2.0 * n + 1 for n in range(12)}


def test_two_processes_agree_on_the_digest():
    program = "from compiler.codegen.numba_api import helper_digest as h; print(h(True, 'poly'))"
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert out.stdout.strip() == helper_digest(True, "poly")
