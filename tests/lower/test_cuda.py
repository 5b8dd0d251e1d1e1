"""Schedules for a GPU: the same results as the tree they come from, at every size and alignment."""

from collections.abc import Iterator, Mapping
from functools import cache

import numpy as np
import pytest

from compiler.driver import trace_model
from compiler.ir.interpret.loops import run_kernel
from compiler.ir.loops import Barrier, For, Kernel, Load, Shuffle, Store, walk_statements
from compiler.ir.module import Module
from compiler.ir.parser import parse_kernel
from compiler.ir.printer import print_kernel
from compiler.ir.types import Array, KernelRef
from compiler.ir.verify import verify
from compiler.lower.cuda import Options, Scheduled, schedule
from sample_models import sample

CPU = "default,-stream-stores"
BY_ORIGIN = "op-by-op,-stream-stores"


@cache
def kernels(name: str, pipeline: str = CPU) -> tuple[Kernel, ...]:
    """The kernels of a sample as they are before they are scheduled."""
    trace, _ = trace_model(sample(name).path, pipeline, until="plan-memory")
    refs = [op.get("kernel") for op in trace.final.graph.ops if op.kind == "launch"]
    return tuple(trace.final.kernel(r.name) for r in refs if isinstance(r, KernelRef))


def arrays(kernel: Kernel, sizes: Mapping[str, int], shift: bool) -> dict[str, Array]:
    """Random arguments; with `shift` none of them is aligned to 16 bytes."""
    random = np.random.default_rng(7)
    found: dict[str, Array] = {}
    for arg in kernel.args:
        if arg.mode == "scratch":
            continue
        dtype = arg.type.element.numpy()
        shape = tuple(d.evaluate(sizes) for d in arg.type.dims)
        count = int(np.prod(shape))
        memory = np.empty(count * dtype.itemsize + 48, np.uint8)
        start = -memory.ctypes.data % 16 + (dtype.itemsize if shift else 0)
        array = memory[start : start + count * dtype.itemsize].view(dtype).reshape(shape)
        array[...] = (2 * random.standard_normal(shape)).astype(dtype)
        found[arg.name] = array
    return found


def close(found: Mapping[str, Array], wanted: Mapping[str, Array]) -> None:
    for name, array in wanted.items():
        a, b = array.astype(np.float64), found[name].astype(np.float64)
        assert np.linalg.norm(a - b) <= 1e-6 * np.linalg.norm(a), name


PLAIN = Options()


def check(
    kernel: Kernel,
    sizes: Mapping[str, int],
    options: Options = PLAIN,
    *,
    literal: bool = False,
    shift: bool = False,
) -> Scheduled:
    """Schedule, verify, print and parse again, and compare with the tree on poisoned outputs."""
    made = schedule(kernel, sizes if literal else {}, {} if literal else sizes, options)
    assert parse_kernel(print_kernel(made.kernel)) == made.kernel
    verify(Module(kernels=(made.kernel,)))
    wanted, found = arrays(kernel, sizes, shift), arrays(kernel, sizes, shift)
    run_kernel(kernel, sizes, wanted, poison_outputs=True)
    run_kernel(made.kernel, sizes, found, poison_outputs=True)
    close(found, wanted)
    return made


def sized(kernel: Kernel, last: int, others: int = 3) -> dict[str, int]:
    return {e: last if e == kernel.extents[-1] else others for e in kernel.extents}


NAMES = ("five_op_chain", "softmax_spelled_out", "layernorm_residual")


@pytest.mark.parametrize("shift", [False, True])
@pytest.mark.parametrize("last", [1, 7, 16, 40])
@pytest.mark.parametrize("name", NAMES)
def test_samples_equal_their_trees(name: str, last: int, shift: bool) -> None:
    for pipeline in (CPU, BY_ORIGIN):
        for kernel in kernels(name, pipeline):
            for literal in (False, True):
                check(kernel, sized(kernel, last), literal=literal, shift=shift)


@pytest.mark.parametrize("columns", [300, 512, 516, 640])
@pytest.mark.parametrize("name", ["softmax_spelled_out", "layernorm_residual"])
def test_rows_longer_and_shorter_than_the_registers(name: str, columns: int) -> None:
    """Two warps with two chunks hold 512 elements; the rest of the sizes take the other path."""
    kernel = kernels(name)[0]
    options = Options(warps=2, chunks=2)
    sizes = {e: columns if e == kernel.extents[-1] else 2 for e in kernel.extents}
    made = schedule(kernel, {}, {kernel.extents[-1]: 512}, options)
    assert made.kind == "row"
    assert any(isinstance(s, Barrier) for s in walk_statements(made.kernel.body))
    wanted, found = arrays(kernel, sizes, False), arrays(kernel, sizes, False)
    run_kernel(kernel, sizes, wanted, poison_outputs=True)
    run_kernel(made.kernel, sizes, found, poison_outputs=True)
    close(found, wanted)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("threads", "rows"), [(32, 1), (64, 3), (256, 4)])
def test_options_change_the_grid_and_nothing_else(threads: int, rows: int, stream: bool) -> None:
    (kernel,) = kernels("five_op_chain")
    options = Options(threads=threads, rows=rows, stream=stream)
    made = check(kernel, sized(kernel, 36, 5), options)
    assert made.kind == "pointwise"
    kinds = {s.kind for s in walk_statements(made.kernel.body) if isinstance(s, For)}
    assert ("stream" in kinds) == stream
    loops, _ = made.kernel.grid()
    assert [loop.kind for loop in loops] == ["block", "block", "lane"]
    assert loops[-1].extent.constant == threads


def wides(kernel: Kernel) -> Iterator[tuple[str, str]]:
    """(target, source) of every access of four elements."""
    for stmt in walk_statements(kernel.body):
        if isinstance(stmt, For) and stmt.kind in ("wide", "stream"):
            (copy,) = stmt.body
            assert isinstance(copy, Store) and isinstance(copy.value, Load)
            yield copy.buffer, copy.value.buffer


def test_a_row_is_read_once_and_written_once() -> None:
    (kernel,) = kernels("softmax_spelled_out")
    made = schedule(kernel, {}, {"c": 1024})
    found = list(wides(made.kernel))
    assert [source for _, source in found if source == "x"] == ["x"]
    assert [target for target, _ in found if target == "y"] == ["y"]
    shuffles = [s.xor for s in walk_statements(made.kernel.body) if isinstance(s, Shuffle)]
    assert shuffles == [16, 8, 4, 2, 1] * 4, "a maximum and a sum, on each of two paths"


TREES = {
    "flat": """pointwise
        (x: in f32[n], y: out f32[n]) { par i in n { store y[i] = exp(load x[i]) } }""",
    "three axes": """pointwise
        (x: in f32[a,b,c], s: in f32[b], y: out f32[a,b,c]) { par i in a { par j in b {
          let t = load s[j]
          vec k in c { store y[i,j,k] = load x[i,j,k] * t }
        } } }""",
    "strided read": """pointwise
        (x: in f32[c,r], y: out f32[r,c]) { par i in r {
          vec j in c { store y[i,j] = load x[j,i] }
        } }""",
    "mixed": """pointwise
        (x: in f16[r,c], m: in bool[r,c], y: out f32[r,c]) { par i in r {
          vec j in c { store y[i,j] = select(load m[i,j], load x[i,j], 0.0) }
        } }""",
    "two results": """pointwise
        (x: in f32[r,c], y: out f32[r,c], z: out bool[r,c]) { par i in r {
          vec j in c { let v = load x[i,j] + 1.0 store y[i,j] = v store z[i,j] = v < 0.0 }
        } }""",
    "over its operand": """pointwise
        (b: in f32[c], x: inout f32[r,c]) { par i in r {
          vec j in c { store x[i,j] = max(load x[i,j] + load b[j], 0.0) }
        } }""",
    "over a flat operand": """pointwise
        (h: in f16[n], x: inout f16[n]) { par i in n { store x[i] = load x[i] * load h[i] } }""",
    "over a transposed operand": """pointwise
        (y: in f32[r,c], x: inout f32[c,r]) { par i in r {
          vec j in c { store x[j,i] = load x[j,i] + load y[i,j] }
        } }""",
    "in place": """row
        (x: inout f32[r,c]) { par i in r {
          acc m: f32 = -inf
          red j in c { m max= load x[i,j] }
          vec j in c { store x[i,j] = load x[i,j] - m }
        } }""",
    "in place, three loops": """row
        (r: in f32[a,c], x: inout f32[a,c], y: out f32[a,c]) { par i in a {
          acc s: f32 = 0
          red j in c { let h = load x[i,j] + load r[i,j] store x[i,j] = h s += h }
          vec j in c { store x[i,j] = load x[i,j] - s }
          vec j in c { store y[i,j] = load x[i,j] * 0.5 }
        } }""",
    "in place, of half precision": """thread gpu.reread
        (x: inout f16[r,c]) { par i in r {
          acc m: f32 = -inf
          red j in c { m max= load x[i,j] }
          vec j in c { store x[i,j] = load x[i,j] - m }
        } }""",
    "statistics": """row
        (x: in f32[a,b,c], m: out f32[a,b], y: out f32[a,b,c]) { par i in a { par j in b {
          acc s: f32 = 0
          red k in c { s += load x[i,j,k] }
          let t = s * 0.5
          store m[i,j] = t
          vec k in c { store y[i,j,k] = load x[i,j,k] - t }
        } } }""",
    "scratch": """row
        (x: in f32[r,c], y: out f32[r,c], e: scratch f32[c]) { par i in r {
          acc z: f32 = 0
          red j in c { let v = exp(load x[i,j]) store e[j] = v z += v }
          vec j in c { store y[i,j] = load e[j] / z }
        } }""",
    "columns": """thread gpu.strided
        (x: in f32[r,c], y: out f32[c]) { par j in c {
          acc s: f32 = 0
          red i in r { s += load x[i,j] }
          store y[j] = s
        } }""",
    "guard": """thread gpu.guard
        (x: in f32[r,c], y: out f32[r,c]) { par i in r { vec j in c {
          store y[i,j] =
            (load x[i,j-1] if and(index[j-1] >= index[0], index[j-1] < index[c]) else 0)
        } } }""",
    "data": """thread gpu.data
        (x: in f32[n], i: in i64[r,c], y: out f32[r,c]) { par a in r { vec j in c {
          let p = load i[a,j] * i64(0)
          let q = p + i64(1)
          store y[a,j] = load x[q]
        } } }""",
    "nothing": """thread gpu.shape
        (y: out i64[2]) { store y[0] = i64(1) store y[1] = i64(2) }""",
}


@pytest.mark.parametrize("name", TREES)
def test_every_way_equals_its_tree(name: str) -> None:
    head, _, text = TREES[name].partition("\n")
    kind, _, reason = head.partition(" ")
    kernel = parse_kernel(f"kernel @k {text}")
    others = 20 if name == "columns" else 5
    for last in (8, 20, 33):
        for shift in (False, True):
            for options in (Options(), Options(threads=32, chunks=1, warps=2)):
                made = check(kernel, sized(kernel, last, others), options, shift=shift)
                if last > 16:
                    assert (made.kind, made.reason) == (kind, reason or f"gpu.{kind}")


def per_thread(text: str, columns: int) -> tuple[int, int]:
    """(wide accesses of a thread to an array, or rows of its tile; warps of a block)."""
    kernel = schedule(parse_kernel(f"kernel @k {text}"), {}, {"r": 4096, "c": columns}).kernel
    loops, _ = kernel.grid()
    unrolled = {
        s.extent.evaluate({})
        for s in walk_statements(kernel.body)
        if isinstance(s, For) and s.kind == "unroll"
    }
    (times,) = unrolled
    threads = 1
    for loop in loops:
        threads *= 1 if loop.kind == "block" else loop.extent.evaluate({})
    return times, threads // 32


@pytest.mark.parametrize(
    ("columns", "arrays", "wanted"),
    [(256, 1, (2, 4)), (1024, 1, (4, 2)), (1024, 2, (2, 4)), (1024, 5, (1, 8)),
     (4096, 1, (4, 8)), (16384, 1, (8, 16)), (100_000, 1, (8, 32))],
)  # fmt: skip
def test_a_rows_warps_hold_four_loads_in_flight(
    columns: int, arrays: int, wanted: tuple[int, int]
) -> None:
    names = [f"x{k}" for k in range(arrays)]
    given = " ".join(f"{n}: in f32[r,c]," for n in names)
    read = " + ".join(f"load {n}[i,j]" for n in names)
    text = f"""({given} w: in f32[c], y: out f32[r,c]) {{ par i in r {{
      acc s: f32 = 0
      red j in c {{ s += {read} }}
      vec j in c {{ store y[i,j] = ({read} - s) * load w[j] }}
    }} }}"""
    assert per_thread(text, columns) == wanted


@pytest.mark.parametrize(("arrays", "rows"), [(1, 4), (2, 2), (3, 1), (5, 1)])
def test_a_tiles_rows_hold_four_loads_in_flight(arrays: int, rows: int) -> None:
    names = [f"x{k}" for k in range(arrays)]
    given = " ".join(f"{n}: in f32[r,c]," for n in names)
    read = " + ".join(f"load {n}[i,j]" for n in names)
    text = f"""({given} w: in f32[c], y: out f32[r,c]) {{ par i in r {{
      vec j in c {{ store y[i,j] = ({read}) * load w[j] }}
    }} }}"""
    assert per_thread(text, 4096) == (rows, 8)


def test_short_rows_go_to_one_thread() -> None:
    (kernel,) = kernels("softmax_spelled_out")
    made = check(kernel, sized(kernel, 8, 40))
    assert (made.kind, made.reason) == ("thread", "gpu.small")


def test_a_stream_loop_is_for_a_cpu() -> None:
    trace, _ = trace_model(sample("softmax_spelled_out").path, "default", until="plan-memory")
    (kernel,) = trace.final.kernels
    with pytest.raises(ValueError, match="for a CPU"):
        schedule(kernel, {}, {})


def test_no_row_and_no_column() -> None:
    for name in NAMES[:2]:
        (kernel,) = kernels(name)
        for rows, columns in ((0, 8), (3, 0)):
            sizes = {"r": rows, "c": columns}
            made = schedule(kernel, {}, {})
            found = arrays(kernel, sizes, False)
            run_kernel(made.kernel, sizes, found, poison_outputs=True)
