"""The loop interpreter: right results, right errors, and counts that watch memory."""

import warnings

import numpy as np
import pytest

from compiler.ir.dims import dim
from compiler.ir.interpret import Counter, KernelError, poison, run_kernel
from compiler.ir.loops import Acc, Arg, Const, For, Kernel, Let, Load, Ref, Store, Update
from compiler.ir.parser import parse_kernel
from compiler.ir.types import DType, Scalar, tensor

SOFTMAX = """
kernel @softmax (x: in f32[r,c], y: out f32[r,c]) {
  par i in r {
    acc m: f32 = -inf
    red j in c { m max= load x[i,j] }
    acc z: f32 = 0
    red j in c { let e = exp(load x[i,j] - m); store y[i,j] = e; z += e }
    vec j in c { store y[i,j] = load y[i,j] / z }
  }
}"""

CHAIN = """
kernel @chain (x: in f32[r,c], q: in f32[r,c], b: in f32[c], s: in f32[c], y: out f32[r,c]) {
  par i in r {
    vec j in c {
      let t = max(load x[i,j] + load b[j], 0.0)
      store y[i,j] = min(max(t * load s[j] + load q[i,j], -2.0), 2.0)
    }
  }
}"""


def kernel(text):
    return parse_kernel(text.strip())


def random(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def counts(text, extents, **buffers):
    """Argument -> (touched reads, touched writes, unique reads, unique writes)."""
    counter = Counter()
    run_kernel(kernel(text), extents, buffers, counter=counter)
    return {
        name: (c.reads, c.writes, c.unique_reads, c.unique_writes)
        for name, c in counter.arguments.items()
    }


@pytest.mark.parametrize("r, c", [(3, 5), (1, 1), (0, 4), (2, 0)])
def test_softmax_is_numpy_softmax(r, c):
    x, y = random(r, c), np.empty((r, c), np.float32)
    run_kernel(kernel(SOFTMAX), {"r": r, "c": c}, {"x": x, "y": y}, poison_outputs=True)
    wide = x.astype(np.float64)
    e = np.exp(wide - wide.max(axis=1, keepdims=True, initial=-np.inf))
    np.testing.assert_allclose(y, e / e.sum(axis=1, keepdims=True), rtol=1e-6)


def test_every_step_rounds_to_the_declared_type():
    x = np.array([[1, 2**24, 1, -(2**24)]], np.float32)
    y = np.empty(1, np.float32)
    text = """kernel @sum (x: in f32[r,c], y: out f32[r]) {
      par i in r { acc z: f32 = 0
        red j in c { z += load x[i,j] }
        store y[i] = z } }"""
    run_kernel(kernel(text), {"r": 1, "c": 4}, {"x": x, "y": y})
    assert y[0] == 0  # float64, or another order, gives 2 or 1


def test_float64_precision_widens_every_float():
    x = np.array([[1, 2**24, 1, -(2**24)]], np.float64)
    y = np.empty((1, 4))
    text = """kernel @k (x: in f32[r,c], y: out f32[r,c]) {
      par i in r { vec j in c { store y[i,j] = load x[i,j] * 0.1 } } }"""
    run_kernel(kernel(text), {"r": 1, "c": 4}, {"x": x, "y": y}, precision="float64")
    assert (y == x * np.float64(np.float32(0.1))).all()


def test_chain_counts_are_3s_and_two_rows():
    r, c = 3, 4
    x, q, b, s = random(r, c), random(r, c, seed=1), random(c), random(c, seed=2)
    y = np.empty((r, c), np.float32)
    found = counts(CHAIN, {"r": r, "c": c}, x=x, q=q, b=b, s=s, y=y)
    n = r * c
    assert found == {
        "x": (n, 0, n, 0), "q": (n, 0, n, 0), "b": (n, 0, c, 0), "s": (n, 0, c, 0),
        "y": (0, n, 0, n),
    }  # fmt: skip
    t = np.maximum(x + b, np.float32(0)) * s + q
    np.testing.assert_array_equal(y, np.clip(t, np.float32(-2), np.float32(2)))


def test_softmax_touches_more_than_its_floor():
    r, c = 3, 4
    n = r * c
    found = counts(SOFTMAX, {"r": r, "c": c}, x=random(r, c), y=np.empty((r, c), np.float32))
    assert found == {"x": (2 * n, 0, n, 0), "y": (n, 2 * n, 0, n)}


def test_an_input_read_twice_changes_touched_and_not_floor():
    once = """kernel @k (x: in f32[n], y: out f32[n]) {
      par i in n { store y[i] = load x[i] + load x[i] * 0.0 } }"""
    found = counts(once, {"n": 5}, x=random(5), y=np.empty(5, np.float32))
    assert found == {"x": (10, 0, 5, 0), "y": (0, 5, 0, 5)}


def test_a_read_after_the_write_is_no_first_read():
    text = """kernel @k (y: inout f32[n]) {
      par i in n { store y[i] = load y[i] + 1.0
        store y[i] = load y[i] * 2.0 } }"""
    y = np.array([1, 2], np.float32)
    assert counts(text, {"n": 2}, y=y) == {"y": (4, 4, 2, 2)}
    assert y.tolist() == [4, 6]


@pytest.mark.parametrize("index, at", [("i+1", 3), ("i-1", -1), ("2*i", 4)])
def test_out_of_range_raises(index, at):
    text = f"""kernel @k (x: in f32[n], y: out f32[n]) {{
      par i in n {{ store y[i] = load x[{index}] }} }}"""
    with pytest.raises(IndexError, match=rf"kernel @k: x\[{at}\] of shape \[3\]"):
        run_kernel(kernel(text), {"n": 3}, {"x": random(3), "y": np.empty(3, np.float32)})


def test_both_branches_of_select_are_evaluated():
    text = """kernel @k (x: in f32[n], y: out f32[n]) {
      par i in n { store y[i] = select(index[i] < i64(2), load x[i+1], load x[i]) } }"""
    with pytest.raises(IndexError):
        run_kernel(kernel(text), {"n": 3}, {"x": random(3), "y": np.empty(3, np.float32)})


def test_if_guards_loads():
    text = """kernel @k (x: in f32[n], y: out f32[b]) {
      par i in b { acc z: f32 = 0
        red j in 4 { if index[4*i+j] < index[n] { z += load x[4*i+j] } }
        store y[i] = z } }"""
    x, y = np.arange(6, dtype=np.float32), np.empty(2, np.float32)
    run_kernel(parse_kernel(text), {"n": 6, "b": 2}, {"x": x, "y": y})
    assert y.tolist() == [6, 9]


def test_scratch_is_poison_in_every_parallel_iteration():
    """The first iteration fills the row, the second one reads what the first left there."""
    text = """kernel @k (x: in f32[r,c], y: out f32[r,c], t: scratch f32[c]) {
      par i in r {
        if index[i] < i64(1) { vec j in c { store t[j] = load x[i,j] } }
        vec j in c { store y[i,j] = load t[j] } } }"""
    x, y = random(2, 3), np.empty((2, 3), np.float32)
    run_kernel(kernel(text), {"r": 2, "c": 3}, {"x": x, "y": y})
    assert (y[0] == x[0]).all() and np.isnan(y[1]).all()


def test_what_is_not_written_stays_poison():
    text = """kernel @k (x: in f32[n], y: out f32[n], k: out i64[n]) {
      par i in n { if load x[i] > 0.0 { store y[i] = load x[i]
        store k[i] = index[i] } } }"""
    x = np.array([1, -1], np.float32)
    y, k = np.zeros(2, np.float32), np.zeros(2, np.int64)
    run_kernel(kernel(text), {"n": 2}, {"x": x, "y": y, "k": k}, poison_outputs=True)
    assert y[0] == 1 and np.isnan(y[1])
    assert k[0] == 0 and k[1] == np.int64(0xA5A5A5A5A5A5A5A5 - 2**64)


def test_poison():
    for dtype in (np.float32, np.float64, np.float16):
        x = np.zeros((2, 2), dtype)
        poison(x)
        assert np.isnan(x).all()
    flags = np.zeros(3, bool)
    poison(flags)
    assert flags.view(np.uint8).tolist() == [0xA5] * 3


def test_integers_index_casts_and_bools():
    text = """kernel @k (x: in f32[n], k: out i64[n], p: out bool[n], y: out f32[n]) {
      par i in n {
        let a: i64 = cast(i64, load x[i])
        store k[i] = a / i64(-2) + index[2*i+n]
        store p[i] = not(a == i64(3))
        store y[i] = cast(f32, load p[i]) } }"""
    x = np.array([3.7, -3.7], np.float32)
    k, p, y = np.empty(2, np.int64), np.empty(2, bool), np.empty(2, np.float32)
    run_kernel(kernel(text), {"n": 2}, {"x": x, "k": k, "p": p, "y": y})
    assert (k.tolist(), p.tolist(), y.tolist()) == ([1, 5], [False, True], [0, 1])


def test_half_storage_computes_in_float32_and_rounds_at_the_store():
    text = """kernel @k (x: in f16[n], y: out f16[n]) {
      par i in n { store y[i] = load x[i] * 3.0 + 0.25 } }"""
    x, y = np.array([0.1, 2048], np.float16), np.empty(2, np.float16)
    run_kernel(kernel(text), {"n": 2}, {"x": x, "y": y})
    wanted = (x.astype(np.float32) * np.float32(3) + np.float32(0.25)).astype(np.float16)
    assert (y == wanted).all()


def test_nothing_warns():
    text = """kernel @k (x: in f32[n], k: in i64[n], y: out f32[n], m: out i64[n]) {
      par i in n { store y[i] = exp(load x[i]) / 0.0
        store m[i] = load k[i] / i64(-1) * i64(3) } }"""
    low = np.iinfo(np.int64).min
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run_kernel(
            kernel(text),
            {"n": 2},
            {
                "x": np.array([np.nan, 1000], np.float32), "k": np.array([low, 0]),
                "y": np.empty(2, np.float32), "m": np.empty(2, np.int64),
            },
        )  # fmt: skip


BAD = {
    "store to an input": ("store x[i] = 0.0", "store to x, which is no written argument"),
    "unknown buffer": ("store y[i] = load w[i]", "no argument w"),
    "unknown axis": ("store y[j] = 0.0", "no axis or extent j"),
    "rank": ("store y[i,i] = 0.0", "y has rank 1, indexed by 2"),
    "type of a store": ("store y[i] = i64(1)", "store to y is i64, expected f32"),
    "types of operands": ("store y[i] = load x[i] + i64(1)", "right side of add is i64"),
    "condition": ("store y[i] = select(load x[i], 0.0, 1.0)", "a condition is f32"),
    "inner par": ("par j in n { store y[j] = 0.0 }\nstore y[i] = 0.0", "a par loop over j"),
    "shadowed axis": ("vec i in n { store y[i] = 0.0 }", "axis i stands for two loops"),
}


@pytest.mark.parametrize("name", sorted(BAD))
def test_malformed_kernels(name):
    body, message = BAD[name]
    text = f"kernel @k (x: in f32[n], y: out f32[n]) {{\n par i in n {{ {body} }}\n}}"
    with pytest.raises(KernelError, match=f"kernel @k: .*{message}"):
        run_kernel(parse_kernel(text), {"n": 2}, {"x": random(2), "y": random(2)})


def built(*body):
    n = dim("n")
    args = (Arg("x", "in", tensor(DType.f32, n)), Arg("y", "out", tensor(DType.f32, n)))
    return Kernel("k", ("n",), args, (For("par", "i", n, body),))


AT = (dim("i"),)
ONE = Const(Scalar.of(DType.f32, 1))


@pytest.mark.parametrize("body, message", [
    ((Store("y", AT, Ref("v")),), "no value v here"),
    ((For("vec", "j", dim(2), (Let("v", DType.f32, ONE),)), Store("y", AT, Ref("v"))), "value v"),
    ((Let("v", DType.f32, ONE), Let("v", DType.f32, ONE)), "v is declared twice"),
    ((Let("v", DType.i64, ONE),), "let v is f32, expected i64"),
    ((Let("v", DType.f32, ONE), Update("v", "add", ONE)), "update v add="),
    ((Acc("a", DType.f32, Scalar.of(DType.f32, 0)), Update("a", "sub", ONE)), "update a sub="),
    ((Acc("a", DType.f32, Scalar.of(DType.i64, 0)),), "acc a of f32 starts elsewhere"),
])  # fmt: skip
def test_scopes(body, message):
    with pytest.raises(KernelError, match=message):
        run_kernel(built(*body), {"n": 1}, {"x": random(1), "y": random(1)})


def test_sibling_scopes_may_reuse_names():
    loop = For("vec", "j", dim(2), (Let("v", DType.f32, Load("x", AT)), Store("y", AT, Ref("v"))))
    x, y = random(2), np.empty(2, np.float32)
    run_kernel(built(loop, loop), {"n": 2}, {"x": x, "y": y})
    assert (x == y).all()


@pytest.mark.parametrize("bad", [
    np.zeros(3, np.float32), np.zeros(2, np.float64), np.zeros((2, 2), np.float32)[:, 0],
])  # fmt: skip
def test_buffers_are_checked(bad):
    k = built(Store("y", AT, Load("x", AT)))
    with pytest.raises(ValueError, match=r"kernel @k: x is .*expected contiguous float32\[2\]"):
        run_kernel(k, {"n": 2}, {"x": bad, "y": random(2)})
