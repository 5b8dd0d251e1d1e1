"""cancel-permutes: the letters tell what the permutations told, and the library copies nothing."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.ir.interpret.tensor import contract
from compiler.passes.base import Context
from compiler.passes.cancel_permutes import CancelPermutes, moved, reads_in_place
from compiler.passes.dce import Dce
from compiler.runtime.library import matmul
from tests.passes.texts import kinds, module, run, values

SIZES = {"a": 2, "b": 3, "m": 4, "n": 5, "k": 6}
ATTENTION = """(%q: f32[2,5,3,4], %k: f32[2,5,3,4]) -> (%y) {
  %q1 = permute %q {perm=[0, 2, 1, 3]} : f32[2,3,5,4]
  %k1 = permute %k {perm=[0, 2, 3, 1]} : f32[2,3,4,5]
  %s = contract %q1, %k1 {spec="abmk,abkn->abmn", library="matmul"} : f32[2,3,5,5]
  %y = permute %s {perm=[0, 2, 1, 3]} : f32[2,5,3,5]
}"""


def test_permutations_around_a_product_become_letters() -> None:
    context = Context()
    before = module(ATTENTION, context)
    after, events = run(CancelPermutes(), before, context)
    assert [e.rule for e in events] == ["operand", "result"]
    after, _ = run(Dce(), after, context)
    (product,) = after.graph.ops
    assert (product.key, product.operands) == ("y", ("q", "k"))
    assert product.str("spec") == "ambk,anbk->ambn" and product.str("library") == "matmul"
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((2, 5, 3, 4)).astype(np.float32) for _ in range(2))
    old, new = values(before, context, q=x, k=y), values(after, context, q=x, k=y)
    np.testing.assert_allclose(new["y"], old["y"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("body", "strict", "message"),
    [
        (ATTENTION, True, "strict"),
        (ATTENTION.replace("(%y)", "(%y, %s)"), False,
         "shared"),
        ("""(%x: f32[4,8,3], %w: f32[3,8,5]) -> (%y) {
            %t = permute %x {perm=[2, 0, 1]} : f32[3,4,8]
            %y = contract %t, %w {spec="bmk,bkn->bmn", library="matmul"} : f32[3,4,5] }""", False,
         "layout"),
    ],
)  # fmt: skip
def test_what_stays_says_why(body: str, strict: bool, message: str) -> None:
    context = Context(numerics="strict" if strict else "default")
    before = module(body, context)
    after, events = run(CancelPermutes(), before, context)
    assert f"cancel-permutes.{message}" in [e.message for e in events if not e.edits]
    assert "permute" in kinds(after)


def test_a_generated_contraction_is_left_to_fusion() -> None:
    context = Context()
    before = module(ATTENTION.replace(', library="matmul"', ""), context)
    after, events = run(CancelPermutes(), before, context)
    assert after is before and not events


def test_letters_of_what_is_permuted() -> None:
    x = np.empty([SIZES[c] for c in "mbka"])
    perm = (3, 1, 0, 2)
    word = "abmk"
    assert x.transpose(perm).shape == tuple(SIZES[c] for c in word)
    assert moved(word, perm) == "mbka"


@settings(max_examples=150)
@given(st.permutations("abmk"), st.permutations("abkn"), st.permutations("abmn"))
def test_a_view_that_is_taken_is_never_copied(left: str, right: str, result: str) -> None:
    """Whatever order the letters stand in, the library computes the same; and where the pass says
    so, its operands and its result are views whose matrices have neighbours in memory."""
    left, right, result = "".join(left), "".join(right), "".join(result)
    rng = np.random.default_rng(1)
    x, y = (rng.standard_normal([SIZES[c] for c in w]).astype(np.float32) for w in (left, right))
    out = np.full([SIZES[c] for c in result], np.nan, np.float32)
    spec = f"{left},{right}->{result}"
    matmul(spec, x, y, out)()
    np.testing.assert_allclose(out, contract(spec, x, y), rtol=1e-4, atol=1e-5)
    fits = all(w[-1] not in "ab" for w in (left, right, result))
    assert reads_in_place(left, right, result) is fits


def test_groups_of_letters_that_stand_apart_are_copied() -> None:
    assert reads_in_place("amk", "kn", "amn")
    assert reads_in_place("mk", "nk", "nm")
    assert reads_in_place("m", "n", "mn") and reads_in_place("k", "kn", "n")
    assert not reads_in_place("mkp", "kn", "mpn"), "rows m and p stand apart"
    assert not reads_in_place("mkl", "lkn", "mn"), "summed in another order"
    for result in map("".join, itertools.permutations("mpn")):
        assert reads_in_place("mpk", "kn", result) is ("mp" in result)
