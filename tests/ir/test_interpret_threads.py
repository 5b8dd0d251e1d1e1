"""The interpreter of grids: what threads compute, and what they can get wrong."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from compiler.ir.interpret.loops import Counter, KernelError, run_kernel
from compiler.ir.module import Module
from compiler.ir.parser import parse_kernel
from compiler.ir.printer import canonical_kernel, print_kernel
from compiler.ir.verify import VerifyError, verify

Floats = npt.NDArray[np.float32]

ROW_SUM = """kernel @k (x: in f32[r,c], y: out f32[r]) {
  block b in r { warp w in 2 { lane l in 32 {
    alloc x4: local f32[4]
    acc s: f32 = 0
    if index[128*w+4*l] < index[c] {
      wide e in 4 { store x4[e] = load x[b,128*w+4*l+e] }
      vec e in 4 { s += load x4[e] }
    }
    s += shuffle 16
    s += shuffle 8
    s += shuffle 4
    s += shuffle 2
    s += shuffle 1
    alloc part: shared f32[2]
    if index[l] == index[0] { store part[w] = s }
    barrier
    acc total: f32 = 0
    seq p in 2 { total += load part[p] }
    if index[32*w+l] == index[0] { store y[b] = total }
  }}}
}"""


def run(text: str, counter: Counter | None = None, c: int = 200) -> tuple[Floats, Floats]:
    """(x, y) of a kernel over x: f32[3,c], y: f32[3]."""
    x = np.random.default_rng(c).standard_normal((3, c)).astype(np.float32)
    y = np.zeros(3, np.float32)
    kernel = parse_kernel(text)
    verify(Module(kernels=(kernel,)))
    run_kernel(
        kernel, {"r": 3, "c": c}, {"x": x, "y": y}, counter=counter, poison_outputs=True
    )
    return x, y


@pytest.mark.parametrize("c", [4, 128, 200, 256])
def test_rows_are_summed_by_two_warps(c: int) -> None:
    counter = Counter()
    x, y = run(ROW_SUM, counter, c)
    np.testing.assert_allclose(y, x.sum(axis=1), rtol=1e-5, atol=1e-5)
    assert counter.arguments["x"].reads == counter.arguments["x"].unique_reads == 3 * c
    assert counter.arguments["y"].unique_writes == 3


def test_text_and_canonical_text() -> None:
    kernel = parse_kernel(ROW_SUM)
    assert parse_kernel(print_kernel(kernel)) == kernel
    other = ROW_SUM.replace("part", "bits").replace("x4", "four").replace("total", "t")
    assert canonical_kernel(parse_kernel(other)) == canonical_kernel(kernel)
    assert canonical_kernel(parse_kernel(ROW_SUM.replace("shuffle 8", "shuffle 7"))) != (
        canonical_kernel(kernel)
    )


def test_a_missing_barrier_poisons() -> None:
    _, y = run(ROW_SUM.replace("barrier", ""))
    assert np.isnan(y).all()


def test_a_second_use_without_a_barrier_poisons() -> None:
    """Thread 0 may overwrite a part that others still read."""
    last = "if index[32*w+l] == index[0] { store y[b] = total }"
    again = """if index[32*w+l] == index[0] { store part[1] = total }
      acc more: f32 = 0
      seq q in 2 { more += load part[q] }"""
    late = ROW_SUM.replace(last, f"{again} {last.replace('total', 'more')}")
    _, y = run(late)
    assert np.isnan(y).all()


def test_what_nobody_wrote_is_poison() -> None:
    _, y = run(ROW_SUM.replace("index[l] == index[0]", "index[l] == index[40]"))
    assert np.isnan(y).all()


def test_lanes_left_out_of_a_shuffle_are_poison() -> None:
    text = ROW_SUM.replace("    s += shuffle 16\n", "").replace(
        "vec e in 4 { s += load x4[e] }", "vec e in 4 { s += load x4[e] } s += shuffle 16"
    )
    _, y = run(text, c=64)
    assert np.isnan(y).any()


@pytest.mark.parametrize(
    ("change", "to", "why"),
    [
        ("barrier", "if index[w] == index[0] { barrier }", "not all threads"),
        ("{ store y[b] = total }", "{ store y[b] = total } store y[b] = total", "two threads"),
    ],
)
def test_errors(change: str, to: str, why: str) -> None:
    with pytest.raises((KernelError, IndexError), match=why):
        run(ROW_SUM.replace(change, to))


@pytest.mark.parametrize(("place", "why"), [("e+1", "misaligned"), ("e*e", "neighbours")])
def test_a_wide_access_is_four_aligned_neighbours(place: str, why: str) -> None:
    text = ROW_SUM.replace("128*w+4*l+e]", f"128*w+4*l+{place}]")
    with pytest.raises(KernelError, match=why):
        run(text.replace("< index[c]", "< index[c-8]"))


def test_aligned_asks_where_memory_lies() -> None:
    kernel = parse_kernel(
        "kernel @k (x: in f32[c], y: out f32[c]) { block b in 1 { lane t in 1 {"
        " let whole = aligned(x, y) seq j in c { store y[j] = select(whole, 1.0, 2.0) } }}}"
    )
    memory = np.zeros(64, np.float32)
    start = -(memory.ctypes.data // 4) % 4
    for shift in (0, 1):
        x = memory[start + shift : start + shift + 4]
        y = memory[start + 16 : start + 20]
        run_kernel(kernel, {"c": 4}, {"x": x, "y": y})
        assert (y == (2 if shift else 1)).all()


@pytest.mark.parametrize(
    ("change", "to", "why"),
    [
        ("lane l in 32", "lane l in 16", "no warp of 32"),
        ("shuffle 16", "shuffle 32", "no lane"),
        ("local f32[4]", "local f32[c]", "not literal"),
        ("wide e in 4", "wide e in 2", "copy of 4"),
        ("warp w in 2", "warp w in r", "not literal"),
        ("block b in r { warp w in 2 {", "warp w in 2 { block b in r {", "order"),
        ("alloc part: shared f32[2]", "alloc x: shared f32[2]", "twice"),
    ],
)
def test_verifier(change: str, to: str, why: str) -> None:
    kernel = parse_kernel(ROW_SUM.replace(change, to))
    with pytest.raises(VerifyError, match=why):
        verify(Module(kernels=(kernel,)))


def test_threads_need_a_grid() -> None:
    text = "kernel @k (y: out f32[r]) { par i in r { barrier store y[i] = 1.0 } }"
    with pytest.raises(VerifyError, match="no blocks"):
        verify(Module(kernels=(parse_kernel(text),)))
    buffers: dict[str, npt.NDArray[Any]] = {"y": np.zeros(2, np.float32)}
    with pytest.raises(KernelError, match="no grid"):
        run_kernel(parse_kernel(text), {"r": 2}, buffers)


RACES = {
    "reversed in place": "store x[63-l-32*b] = load x[l+32*b]",
    "one writes, all read": "let s = load x[0] if index[l+b] == index[0] { store x[0] = s + 1.0 }",
    "stored twice": "if index[l] == index[0] { store x[0] = 1.0 }",
}


@pytest.mark.parametrize("name", RACES)
def test_threads_of_a_grid_share_no_element_that_one_stores(name: str) -> None:
    text = f"kernel @k (x: inout f32[n]) {{ block b in 2 {{ lane l in 32 {{ {RACES[name]} }} }} }}"
    with pytest.raises(KernelError, match="one thread stores an element of x that another uses"):
        run_kernel(parse_kernel(text), {"n": 64}, {"x": np.zeros(64, np.float32)})
