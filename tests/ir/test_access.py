"""Closed forms of floor and touched, proved against the counting interpreter on small sizes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.ir.access import floor, touched
from compiler.ir.dims import Dim, dim
from compiler.ir.interpret import Counter, run_kernel
from compiler.ir.loops import Arg, Binary, Const, For, If, Index, Kernel, Load, Store
from compiler.ir.parser import parse_dim, parse_kernel
from compiler.ir.types import DType, Scalar, tensor


def counted(kernel, extents):
    """(touched, floor) of a run: argument -> (reads, writes)."""
    buffers = {
        a.name: np.ones([d.evaluate(extents) for d in a.type.dims], a.type.element.numpy())
        for a in kernel.args
        if a.mode != "scratch"
    }
    counter = Counter()
    run_kernel(kernel, extents, buffers, counter=counter)
    every = {name: (c.reads, c.writes) for name, c in counter.arguments.items()}
    unique = {
        name: (c.unique_reads, c.unique_writes)
        for name, c in counter.arguments.items()
        if name in buffers
    }
    return every, unique


def numbers(footprint, extents):
    return {
        t.arg.name: (t.reads.evaluate(extents), t.writes.evaluate(extents))
        for t in footprint.arguments
    }


def forms(footprint):
    return {t.arg.name: (str(t.reads), str(t.writes)) for t in footprint.arguments}


BOUNDED = {
    "pad": (
        """(x: in f32[a,b], y: out f32[r,c]) {
        par i in r { vec j in c { store y[i,j] = (load x[i-1,j-2] if
          and(and(index[i-1] >= index[0], index[i-1] < index[a]),
              and(index[j-2] >= index[0], index[j-2] < index[b])) else 0) } } }""",
        {"x": ("a*b", "0"), "y": ("0", "c*r")}, {"x": ("a*b", "0"), "y": ("0", "c*r")}, ("x",),
        {"a": 2, "b": 3, "r": 4, "c": 7},
    ),
    "concat with itself, reversed": (
        """(x: in f32[a], y: out f32[n]) {
        par i in n { store y[i] = select(index[i] < index[a],
          (load x[a-i-1] if and(index[a-i-1] >= index[0], index[a-i-1] < index[a]) else 0),
          (load x[i-a] if and(index[i-a] >= index[0], index[i-a] < index[a]) else 0)) } }""",
        {"x": ("a", "0"), "y": ("0", "n")}, {"x": ("2*a", "0"), "y": ("0", "n")}, ("x",),
        {"a": 3, "n": 6},
    ),
    "a window": (
        """(x: in f32[h], y: out f32[n,k]) {
        par i in n { vec j in k { store y[i,j] = (load x[i+j-1] if
          and(index[i+j-1] >= index[0], index[i+j-1] < index[h]) else 0) } } }""",
        {"x": ("h", "0"), "y": ("0", "k*n")}, {"x": ("k*n", "0"), "y": ("0", "k*n")}, ("x",),
        {"h": 4, "n": 4, "k": 3},
    ),
    "rows that data tell": (
        """(x: in f32[v,c], k: in i64[n], y: out f32[n,c]) {
        par i in n {
          let g = load k[i]
          acc s: f32 = 0
          red j in c { s += load x[g,j] }
          vec j in c { store y[i,j] = load x[g,j] / s } } }""",
        {"x": ("c*n", "0"), "k": ("n", "0"), "y": ("0", "c*n")},
        {"x": ("2*c*n", "0"), "k": ("n", "0"), "y": ("0", "c*n")}, ("x",),
        {"v": 9, "c": 3, "n": 4},
    ),
    "a scatter": (
        """(x: in f32[v], k: in i64[n], u: in f32[n], y: out f32[v]) {
        seq i in v { store y[i] = load x[i] }
        seq i in n { if index[0] < index[v] { let g = load k[i]; store y[g] = load u[i] } } }""",
        {"x": ("v", "0"), "k": ("n", "0"), "u": ("n", "0"), "y": ("0", "n+v")},
        {"x": ("v", "0"), "k": ("n", "0"), "u": ("n", "0"), "y": ("0", "n+v")}, ("y",),
        {"v": 9, "n": 4},
    ),
}  # fmt: skip
"""kernel, floor and touched as bounds, the arguments whose floor is one, and sizes."""


@pytest.mark.parametrize("name", sorted(BOUNDED))
def test_guards_and_data_give_bounds(name):
    text, wanted, every, inexact, extents = BOUNDED[name]
    kernel = parse_kernel(f"kernel @k {text}")
    least = floor(kernel)
    assert forms(least) == wanted and forms(touched(kernel)) == every
    assert least.inexact == inexact
    seen, unique = counted(kernel, extents)
    for bound, found in ((least, unique), (touched(kernel), seen)):
        for arg, numbers_ in numbers(bound, extents).items():
            assert all(b >= f for b, f in zip(numbers_, found[arg], strict=True)), (arg, found)


# kernel, floor (reads, writes), touched (reads, writes), as text over the extents
KERNELS = {
    "chain": (
        """(x: in f32[r,c], q: in f32[r,c], b: in f32[c], s: in f32[c], y: out f32[r,c]) {
        par i in r { vec j in c {
          let t = max(load x[i,j] + load b[j], 0.0)
          store y[i,j] = min(max(t * load s[j] + load q[i,j], -2.0), 2.0) } } }""",
        {"x": ("c*r", "0"), "q": ("c*r", "0"), "b": ("c", "0"), "s": ("c", "0"),
         "y": ("0", "c*r")},
        {"x": ("c*r", "0"), "q": ("c*r", "0"), "b": ("c*r", "0"), "s": ("c*r", "0"),
         "y": ("0", "c*r")},
    ),
    "softmax": (
        """(x: in f32[r,c], y: out f32[r,c]) {
        par i in r {
          acc m: f32 = -inf
          red j in c { m max= load x[i,j] }
          acc z: f32 = 0
          red j in c { let e = exp(load x[i,j] - m); store y[i,j] = e; z += e }
          vec j in c { store y[i,j] = load y[i,j] / z } } }""",
        {"x": ("c*r", "0"), "y": ("0", "c*r")},
        {"x": ("2*c*r", "0"), "y": ("c*r", "2*c*r")},
    ),
    "an input read twice": (
        """(x: in f32[n], y: out f32[n]) {
        par i in n { store y[i] = load x[i] * load x[i] } }""",
        {"x": ("n", "0"), "y": ("0", "n")},
        {"x": ("2*n", "0"), "y": ("0", "n")},
    ),
    "scratch row": (
        """(x: in f32[r,c], y: out f32[r], t: scratch f32[c]) {
        par i in r {
          vec j in c { store t[j] = load x[i,j] }
          acc z: f32 = 0
          red j in c { z += load t[j] }
          store y[i] = z } }""",
        {"x": ("c*r", "0"), "y": ("0", "r")},
        {"x": ("c*r", "0"), "y": ("0", "r"), "t": ("c*r", "c*r")},
    ),
    "permuted, scalar, constant row": (
        """(x: in f32[c,r], k: in f32[], w: in f32[3,c], y: out f32[r,c]) {
        par i in r { vec j in c {
          store y[i,j] = load x[j,i] * load k[] + load w[1,j] } } }""",
        {"x": ("c*r", "0"), "k": ("1", "0"), "w": ("c", "0"), "y": ("0", "c*r")},
        {"x": ("c*r", "0"), "k": ("c*r", "0"), "w": ("c*r", "0"), "y": ("0", "c*r")},
    ),
    "row-major by hand": (
        """(x: in f32[c*r], y: out f32[r,c]) {
        par i in r { vec j in c { store y[i,j] = load x[i*c+j] } } }""",
        {"x": ("c*r", "0"), "y": ("0", "c*r")},
        {"x": ("c*r", "0"), "y": ("0", "c*r")},
    ),
    "slices": (
        """(x: in f32[r,2*c], w: in f32[2*c+1], y: out f32[r,c]) {
        par i in r { vec j in c {
          store y[i,j] = load x[i,j] * load x[i,j+c] + load w[2*j+1] } } }""",
        {"x": ("2*c*r", "0"), "w": ("c", "0"), "y": ("0", "c*r")},
        {"x": ("2*c*r", "0"), "w": ("c*r", "0"), "y": ("0", "c*r")},
    ),
    "neighbours": (
        """(x: in f32[n+2], y: out f32[n]) {
        par i in n { store y[i] = load x[i] + load x[i+1] + load x[i+2] } }""",
        {"x": ("n+2", "0"), "y": ("0", "n")},
        {"x": ("3*n", "0"), "y": ("0", "n")},
    ),
    "window": (
        """(x: in f32[n+k-1], w: in f32[k], y: out f32[n]) {
        par i in n { acc z: f32 = 0
          red j in k { z += load x[i+j] * load w[j] }
          store y[i] = z } }""",
        {"x": ("k+n-1", "0"), "w": ("k", "0"), "y": ("0", "n")},
        {"x": ("k*n", "0"), "w": ("k*n", "0"), "y": ("0", "n")},
    ),
    "blocks with a tail": (
        """(x: in f32[n], y: out f32[(n+3)//4]) {
        par i in (n+3)//4 { acc z: f32 = 0
          red j in 4 { if index[4*i+j] < index[n] { z += load x[4*i+j] } }
          store y[i] = z } }""",
        {"x": ("n", "0"), "y": ("0", "(n+3)//4")},
        {"x": ("n", "0"), "y": ("0", "(n+3)//4")},
    ),
    "diagonal": (
        """(x: in f32[n,n], y: out f32[n]) {
        par i in n { store y[i] = load x[i,i] } }""",
        {"x": ("n", "0"), "y": ("0", "n")},
        {"x": ("n", "0"), "y": ("0", "n")},
    ),
    "in place": (
        """(y: inout f32[r,c], b: in f32[c]) {
        par i in r { vec j in c { store y[i,j] = load y[i,j] + load b[j] } } }""",
        {"y": ("c*r", "c*r"), "b": ("c", "0")},
        {"y": ("c*r", "c*r"), "b": ("c*r", "0")},
    ),
    "row written, then read element by element": (
        """(x: in f32[r,c], m: out f32[r], y: out f32[r,c]) {
        par i in r { acc z: f32 = 0
          red j in c { z += load x[i,j] }
          store m[i] = z
          vec j in c { store y[i,j] = load x[i,j] - load m[i] } } }""",
        {"x": ("c*r", "0"), "m": ("0", "r"), "y": ("0", "c*r")},
        {"x": ("2*c*r", "0"), "m": ("c*r", "r"), "y": ("0", "c*r")},
    ),
    "one element of what was written": (
        """(x: in f32[r,c], y: out f32[r,c], z: out f32[r]) {
        par i in r {
          vec j in c { store y[i,j] = load x[i,j] }
          store z[i] = load y[i,0] } }""",
        {"x": ("c*r", "0"), "y": ("0", "c*r"), "z": ("0", "r")},
        {"x": ("c*r", "0"), "y": ("r", "c*r"), "z": ("0", "r")},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_closed_forms(name):
    text, least, every = KERNELS[name]
    kernel = parse_kernel(f"kernel @k {text}")

    def same(found, wanted):
        wanted_dims = {n: tuple(map(parse_dim, pair)) for n, pair in wanted.items()}
        got = {t.arg.name: (t.reads, t.writes) for t in found.arguments}
        assert found.exact and got == wanted_dims, forms(found)

    same(floor(kernel), least)
    same(touched(kernel), every)
    sizes = [1, 2, 3, 5]
    for k in range(len(sizes) ** 2):
        pair = (sizes[k % 4], sizes[k // 4])
        extents = {n: pair[at % 2] for at, n in enumerate(sorted(kernel.extents))}
        counted_every, counted_least = counted(kernel, extents)
        assert numbers(floor(kernel), extents) == counted_least, extents
        assert numbers(touched(kernel), extents) == counted_every, extents


def test_bytes_of_the_chain_are_3s_and_two_rows():
    footprint = floor(parse_kernel(f"kernel @k {KERNELS['chain'][0]}"))
    s = 64 << 20
    assert footprint.nbytes.evaluate({"r": 4096, "c": 4096}) == 3 * s + (32 << 10)
    launched = footprint.substitute({"r": dim("batch"), "c": 8})
    assert launched.nbytes == 96 * dim("batch") + 64
    assert (launched.of("b").reads, launched.of("b").nbytes) == (dim(8), dim(32))


def test_a_planted_second_read_changes_touched_and_not_floor():
    text = KERNELS["chain"][0]
    planted = text.replace("max(load x[i,j] +", "max(load x[i,j] * 0.0 + load x[i,j] +")
    assert planted != text
    before, after = (parse_kernel(f"kernel @k {t}") for t in (text, planted))
    assert floor(before).nbytes == floor(after).nbytes
    assert touched(after).nbytes == touched(before).nbytes + 4 * dim("r") * dim("c")


def test_a_store_in_another_iteration_covers_nothing_and_is_not_claimed_exact():
    """A running sum reads what the iteration before wrote: only a bound is known."""
    kernel = parse_kernel("""kernel @k (y: inout f32[n+1]) {
      seq i in n { store y[i+1] = load y[i] } }""")
    found = floor(kernel)
    assert found.inexact == ("y",)
    _, least = counted(kernel, {"n": 4})
    assert least == {"y": (1, 4)}
    assert numbers(found, {"n": 4}) == {"y": (4, 4)}


def test_a_store_under_a_condition_covers_nothing():
    kernel = parse_kernel("""kernel @k (x: in f32[n], y: inout f32[n]) {
      par i in n {
        if load x[i] > 2.0 { store y[i] = 1.0 }
        store y[i] = load y[i] } }""")
    assert floor(kernel).of("y").reads == dim("n")
    assert floor(kernel).inexact == ("y",)
    assert touched(kernel).inexact == ("y",)


def test_equal_conditions_over_data_may_differ_in_time():
    kernel = parse_kernel("""kernel @k (t: inout f32[n], y: inout f32[n], z: out f32[n]) {
      par i in n {
        if load t[i] < 0.5 { store y[i] = 0.0 }
        store t[i] = 0.0
        if load t[i] < 0.5 { store z[i] = load y[i] } } }""")
    assert floor(kernel).of("y").reads == dim("n")
    assert counted(kernel, {"n": 3})[1]["y"] == (3, 0)


def test_a_tail_that_is_stored_and_read_back():
    kernel = parse_kernel("""kernel @k (x: in f32[n], y: out f32[n]) {
      par i in (n+3)//4 {
        vec j in 4 { if index[4*i+j] < index[n] { store y[4*i+j] = load x[4*i+j] } }
        vec j in 4 { if index[4*i+j] < index[n] { store y[4*i+j] = load y[4*i+j] } } } }""")
    n = dim("n")
    assert floor(kernel).exact
    assert (floor(kernel).of("y").reads, floor(kernel).of("y").writes) == (dim(0), n)
    assert touched(kernel).of("y").writes == 2 * n


def test_an_extent_over_an_axis_is_refused():
    kernel = parse_kernel("""kernel @k (x: in f32[n], y: out f32[n]) {
      par i in n { vec j in i { store y[j] = load x[j] } } }""")
    with pytest.raises(ValueError, match="kernel @k: the extent i has an axis"):
        floor(kernel)


# ---- random kernels ------------------------------------------------------------------------------

SIDE = 64
A, B = dim("a"), dim("b")


@st.composite
def kernels(draw):
    """A par loop over some inner loops with loads and stores at random affine places."""

    def place(axes) -> Dim:
        choices = [dim(0), dim(1), dim(2), A, B]
        choices += [dim(x) for x in axes] * 3
        choices += [2 * dim(x) + 1 for x in axes] + [dim(x) + A for x in axes]
        choices += [A - 1 - dim(x) for x, e in axes.items() if e == A]
        choices += [dim(x) * axes[y] + dim(y) for x in axes for y in axes if x != y]
        choices += [dim(x) + dim(y) for x in axes for y in axes if x < y]
        return draw(st.sampled_from(choices))

    def at(axes):
        usual = dim("j" if "j" in axes else "i")
        if draw(st.integers(0, 4)):
            return draw(st.sampled_from([(dim("i"), usual), (dim("i"), dim(0))]))
        return (place(axes), place(axes))

    def stores(axes):
        value = Const(Scalar.of(DType.f32, 0))
        for _ in range(draw(st.integers(0, 2))):
            load = Load(draw(st.sampled_from("xyz")), at(axes))
            value = Binary("add", value, load)
        target = draw(st.sampled_from("yz"))
        if not draw(st.integers(0, 9)):
            condition = Binary("lt", Index(place(axes)), Index(draw(st.sampled_from((A, B)))))
            return If(condition, (Store(target, at(axes), value),))
        return Store(target, at(axes), value)

    body = []
    for _ in range(draw(st.integers(1, 3))):
        if draw(st.booleans()):
            extent = draw(st.sampled_from((A, B, dim(2))))
            inner = [stores({"i": A, "j": extent}) for _ in range(draw(st.integers(1, 2)))]
            body.append(For("seq", "j", extent, tuple(inner)))
        else:
            body.append(stores({"i": A}))
    args = tuple(
        Arg(n, "in" if n == "x" else "inout", tensor(DType.f32, SIDE, SIDE)) for n in "xyz"
    )
    return Kernel("k", ("a", "b"), args, (For("par", "i", A, tuple(body)),))


@settings(max_examples=400)
@given(kernels(), st.integers(1, 4), st.integers(1, 4))
def test_random_kernels_agree_with_the_counter_or_say_so(kernel, a, b):
    extents = {"a": a, "b": b}
    every, least = counted(kernel, extents)
    for found, wanted in ((touched(kernel), every), (floor(kernel), least)):
        for name, pair in numbers(found, extents).items():
            if name in found.inexact:
                assert all(bound >= n for bound, n in zip(pair, wanted[name], strict=True))
            else:
                assert pair == wanted[name], name
