"""The algebra of dimensions: canonical forms, evaluation, substitution, exact division, text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.ir.dims import (
    ONE,
    ZERO,
    Guard,
    Symbol,
    ceil_div,
    dim,
    format_dim,
    plain_word,
    product,
    quote,
)
from compiler.ir.parser import parse_dim

from .strategies import dimensions, names, symbols

SIZES = st.fixed_dictionaries({
    s: st.integers(0, 50) for s in ("s", "t", "batch", "a b", "", "f32", "inf")
})


@given(dimensions, dimensions, SIZES)
def test_evaluation_commutes_with_arithmetic(a, b, sizes):
    x, y = a.evaluate(sizes), b.evaluate(sizes)
    assert (a + b).evaluate(sizes) == x + y
    assert (a - b).evaluate(sizes) == x - y
    assert (a * b).evaluate(sizes) == x * y
    assert (-a).evaluate(sizes) == -x
    assert (3 - a).evaluate(sizes) == 3 - x


@given(dimensions, st.integers(1, 12), SIZES)
def test_evaluation_commutes_with_division(a, k, sizes):
    x = a.evaluate(sizes)
    assert (a // k).evaluate(sizes) == x // k
    assert ceil_div(a, k).evaluate(sizes) == -(-x // k)


@given(dimensions, dimensions, dimensions)
def test_equal_polynomials_have_one_form(a, b, c):
    assert a + b == b + a
    assert (a + b) + c == a + (b + c)
    assert a * b == b * a
    assert (a * b) * c == a * (b * c)
    assert a * (b + c) == a * b + a * c
    assert a - a == ZERO
    assert a * ONE == a
    assert hash(a * b) == hash(b * a)


@given(dimensions, st.integers(1, 9), dimensions)
def test_division_drops_what_divides(a, k, b):
    assert (a * k) // k == a
    assert (a * k + b) // k == a + b // k


@given(dimensions, st.integers(1, 9), st.integers(1, 9), st.integers(0, 8))
def test_division_drops_common_factors(a, k, g, c):
    assert (a * g + c % g) // (k * g) == a // k


@given(dimensions)
def test_no_term_is_zero_and_terms_are_sorted(a):
    assert all(coefficient for _, coefficient in a.terms)
    assert len({monomial for monomial, _ in a.terms}) == len(a.terms)
    sizes = [len(monomial) for monomial, _ in a.terms]
    assert sizes == sorted(sizes, reverse=True)


@given(dimensions)
def test_text_reads_back(a):
    assert parse_dim(format_dim(a)) == a


@given(dimensions, st.dictionaries(symbols, dimensions, max_size=2), SIZES)
def test_substitution_then_evaluation(a, by, sizes):
    inner = {**sizes, **{s: d.evaluate(sizes) for s, d in by.items()}}
    assert a.substitute(by).evaluate(sizes) == a.evaluate(inner)


@given(dimensions, dimensions)
def test_exact_division_is_exact(a, b):
    quotient = a.exact_div(b)
    if quotient is not None:
        assert quotient * b == a
        assert b != ZERO


@given(dimensions, symbols, st.integers(1, 9))
def test_exact_division_by_one_term_succeeds(a, symbol, k):
    divisor = dim(symbol) * k
    assert (a * divisor).exact_div(divisor) == a


def test_exact_division_refuses():
    s = dim("s")
    assert (s + 1).exact_div(2) is None
    assert (s + 1).exact_div("s") is None
    assert (s + 1).exact_div(s + 1) == ONE
    assert s.exact_div(ZERO) is None
    assert ZERO.exact_div(ZERO) is None
    assert ZERO.exact_div(s) == ZERO


def test_forms():
    s, t = dim("s"), dim("t")
    for value, text in (
        (ZERO, "0"),
        (dim(-3), "-3"),
        (s, "s"),
        (2 * s + 1, "2*s+1"),
        (s * s - t, "s*s-t"),
        (-s, "-s"),
        (s // 2, "s//2"),
        ((s + 1) // 2, "(s+1)//2"),
        ((s + 1) // 2 * 3 + t, "t+3*((s+1)//2)"),
        ((s // 2) // 3, "(s//2)//3"),
        (dim("batch size") * 4, '4*"batch size"'),
    ):
        assert format_dim(value) == text
        assert parse_dim(text) == value


def test_what_a_dimension_is():
    s = dim("s")
    assert ZERO.constant == 0
    assert dim(7).constant == 7
    assert s.constant is None
    assert s.symbol == "s"
    assert (2 * s).symbol is None
    assert (s // 2).symbol is None
    assert ((s + 1) // 2 + "t").symbols() == {"s", "t"}
    assert product((2, "s", s)) == 2 * s * s
    assert product(()) == ONE


def test_division_by_nothing_is_refused():
    for divisor in (0, -2):
        with pytest.raises(ValueError, match="positive constant"):
            dim("s") // divisor


def test_missing_size_is_named():
    with pytest.raises(KeyError, match="t"):
        (dim("s") * "t").evaluate({"s": 2})


@given(names)
def test_quoted_names_are_one_line(name):
    text = quote(name)
    assert "\n" not in text
    assert (text == name) == plain_word(name)


def test_symbols_admit():
    s = Symbol("s", 1, 64, 8)
    assert [n for n in range(80) if s.admits(n)] == [8, 16, 24, 32, 40, 48, 56, 64]


@given(dimensions, dimensions, SIZES)
def test_guards_hold_as_their_relation_says(a, b, sizes):
    x, y = a.evaluate(sizes), b.evaluate(sizes)
    for relation, expected in (("==", x == y), ("<=", x <= y), ("!=", x != y)):
        assert Guard(a, relation, b, (), "").holds(sizes) is expected
