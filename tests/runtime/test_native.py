"""Linking and running kernels, which are LLVM text here: nothing of the compiler is needed."""

import ctypes
import gc
import subprocess
import sys
import textwrap
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest

from compiler.runtime import native
from compiler.runtime.addresses import address_of
from compiler.runtime.native import NativeCode, NativeError
from compiler.runtime.symbols import ALLOWED_SYMBOLS, NEVER_TAKEN

ROOT = Path(__file__).parents[2]

# A kernel whose params are [a, b] runs BODY for each index %i of its range.
LOOP = """
DECLARATIONS
define void @NAME(ptr %p, i64 %worker, i64 %lo, i64 %hi) {
entry:
  %q = getelementptr i64, ptr %p, i64 1
  %a = load i64, ptr %p
  %b = load i64, ptr %q
  %x = inttoptr i64 %a to ptr
  %y = inttoptr i64 %b to ptr
  br label %loop
loop:
  %i = phi i64 [%lo, %entry], [%i1, %loop]
  BODY
  %i1 = add i64 %i, 1
  %more = icmp ult i64 %i1, %hi
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""


def emit(text: str) -> bytes:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(opt=2, jit=True)
    return machine.emit_object(llvm.parse_assembly(text))


def loop(name: str, body: str, declarations: str = "") -> bytes:
    text = LOOP.replace("NAME", name).replace("BODY", body)
    return emit(text.replace("DECLARATIONS", declarations))


def add(name: str, constant: float) -> bytes:
    """y[i] = x[i] + constant, in float64."""
    return loop(
        name,
        f"""
        %xi = getelementptr double, ptr %x, i64 %i
        %yi = getelementptr double, ptr %y, i64 %i
        %v = load double, ptr %xi
        %s = fadd double %v, {constant!r}
        store double %s, ptr %yi
        """,
    )


def visit(name: str) -> bytes:
    """x[i] += 1 and y[i] = worker, in int64."""
    return loop(
        name,
        """
        %xi = getelementptr i64, ptr %x, i64 %i
        %yi = getelementptr i64, ptr %y, i64 %i
        %v = load i64, ptr %xi
        %s = add i64 %v, 1
        store i64 %s, ptr %xi
        store i64 %worker, ptr %yi
        """,
    )


def engine(**objects: bytes) -> NativeCode:
    return NativeCode({native.RUNNER_SYMBOL: native.runner_object(), **objects})


def params(*values: int | np.ndarray) -> np.ndarray:
    return np.array([v if isinstance(v, int) else address_of(v) for v in values], np.int64)


Step = tuple[str, np.ndarray, int, bool]  # kernel, params, extent, parallel?


def table_of(code: NativeCode, *steps: Step) -> np.ndarray:
    """The steps as data. It holds addresses only: the caller keeps the params alive."""
    rows = [(code.address(name), address_of(p), extent, wide) for name, p, extent, wide in steps]
    return np.array(rows, np.int64).reshape(-1, native.STEP_WORDS)


def run(code: NativeCode, threads: int, *steps: Step) -> None:
    table = table_of(code, *steps)
    code.run(address_of(table), len(table), threads)


def run_python(text: str) -> subprocess.CompletedProcess[str]:
    """The text in a process of its own, with this module as `t`."""
    start = f"import sys; sys.path[:0] = [{str(ROOT)!r}, {str(Path(__file__).parent)!r}]\n"
    return subprocess.run(
        [sys.executable, "-c", start + textwrap.dedent(text)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


# The runner.


@pytest.mark.parametrize("extent", [0, 1, 2, 3, 7, 64, 1000])
@pytest.mark.parametrize("threads", [-1, 0, 1, 2, 3, 8])
@pytest.mark.parametrize("wide", [False, True])
def test_every_index_is_visited_once(extent: int, threads: int, wide: bool) -> None:
    code = engine(visit=visit("visit"))
    seen, worker = np.zeros(1001, np.int64), np.full(1001, -1)
    run(code, threads, ("visit", params(seen, worker), extent, wide))
    assert np.array_equal(seen, np.arange(1001) < extent)
    assert np.all(worker[extent:] == -1)
    most = max(threads, 1) if wide else 1
    assert np.all((worker[:extent] >= 0) & (worker[:extent] < most))
    assert np.all(np.diff(worker[:extent]) >= 0)


def test_a_wide_step_uses_its_threads() -> None:
    code = engine(visit=visit("visit"))
    seen, worker = np.zeros(100, np.int64), np.zeros(100, np.int64)
    run(code, 2, ("visit", params(seen, worker), 100, True))
    assert worker.tolist() == [0] * 50 + [1] * 50


def test_steps_run_in_order_and_empty_ones_are_skipped() -> None:
    code = engine(one=add("one", 1.0), half=add("half", 0.5), visit=visit("visit"))
    x, y, z = np.arange(9.0), np.zeros(9), np.zeros(9)
    xy, yz, xz = params(x, y), params(y, z), params(x, z)
    nowhere = params(0, 0)
    chain = (
        ("visit", nowhere, 0, False),
        ("one", xy, 9, True),
        ("visit", nowhere, 0, True),
        ("one", xz, 9, False),
        ("half", yz, 9, True),
    )
    run(code, 2, *chain)
    assert np.array_equal(y, x + 1)
    assert np.array_equal(z, x + 1.5)
    z[:] = 0
    run(code, 2)
    assert not z.any()
    run(code, 2, *chain[:4])
    assert np.array_equal(z, x + 1)


def test_one_table_serves_other_sizes_and_buffers() -> None:
    code = engine(one=add("one", 1.0))
    p = params(0, 0)
    table = table_of(code, ("one", p, 0, True))
    for size in (5, 1, 300):
        x, y = np.random.default_rng(size).normal(size=size), np.zeros(size)
        p[:] = address_of(x), address_of(y)
        table[0, 2] = size
        code.run(address_of(table), 1, 2)
        assert np.array_equal(y, x + 1.0)


def test_runner_object_is_closed_and_reproducible() -> None:
    data = native.runner_object()
    assert native.undefined_symbols(data) == ()
    native.runner_object.cache_clear()
    assert native.runner_object() == data


# Symbols.


def calls(name: str, function: str, result: str = "float", argument: str = "float") -> bytes:
    """y[i] = function(x[i]), in float32 unless told otherwise."""
    return loop(
        name,
        f"""
        %xi = getelementptr {argument}, ptr %x, i64 %i
        %yi = getelementptr {result}, ptr %y, i64 %i
        %v = load {argument}, ptr %xi
        %s = call {result} @{function}({argument} %v)
        store {result} %s, ptr %yi
        """,
        f"declare {result} @{function}({argument})",
    )


def never_calls(name: str, function: str, at: int) -> bytes:
    """Calls the function where the worker's number is `at`."""
    return emit(f"""
    declare void @{function}()
    define void @{name}(ptr %p, i64 %worker, i64 %lo, i64 %hi) {{
      %bad = icmp eq i64 %worker, {at}
      br i1 %bad, label %call, label %done
    call:
      call void @{function}()
      br label %done
    done:
      store i64 42, ptr %p
      ret void
    }}
    """)


def test_undefined_symbols() -> None:
    assert native.undefined_symbols(add("one", 1.0)) == ()
    assert native.undefined_symbols(calls("k", "tanhf")) == ("tanhf",)


def test_libm_is_there() -> None:
    code = engine(k=calls("k", "tanhf"))
    x, y = np.linspace(-2, 2, 50, dtype=np.float32), np.zeros(50, np.float32)
    run(code, 2, ("k", params(x, y), 50, True))
    assert np.allclose(y, np.tanh(x), rtol=1e-6)


def test_every_allowed_symbol_can_be_resolved() -> None:
    native._initialise()
    missing = [name for name in ALLOWED_SYMBOLS - NEVER_TAKEN if not llvm.address_of_symbol(name)]
    assert not missing
    defined = native.read_symbols(native.runner_object()).defined
    assert set(defined) >= NEVER_TAKEN


@pytest.mark.parametrize("check", [native.check_symbols, lambda name, data: engine(**{name: data})])
def test_forbidden_symbol(check) -> None:
    data = calls("k7", "malloc", result="ptr", argument="i64")
    with pytest.raises(native.ForbiddenSymbol, match=r"k7.*malloc") as caught:
        check("k7", data)
    assert caught.value.kernel == "k7"
    assert caught.value.symbols == ("malloc",)


def test_names_never_taken_link_and_leave_the_process_alone() -> None:
    before = {name: llvm.address_of_symbol(name) for name in NEVER_TAKEN}
    kernels = {f"k{i}": never_calls(f"k{i}", name, at=9) for i, name in enumerate(NEVER_TAKEN)}
    code = engine(**kernels)
    for name in kernels:
        p = params(0)
        run(code, 1, (name, p, 1, False))
        assert p.tolist() == [42]
    assert {name: llvm.address_of_symbol(name) for name in NEVER_TAKEN} == before


def test_a_name_never_taken_stops_the_process() -> None:
    done = run_python("""
        import test_native as t
        code = t.engine(k=t.never_calls("k", "numba_gil_ensure", at=0))
        t.run(code, 1, ("k", t.params(0), 1, False))
        print("went on")
    """)
    assert done.returncode < 0, done.stderr
    assert "went on" not in done.stdout


def test_beside_numba() -> None:
    """What Numba registers with the process stays its own, before and after an engine is loaded."""
    done = run_python("""
        import numba, numpy as np
        @numba.njit
        def f(n):
            return np.ones(n).sum()
        assert f(10) == 10
        import test_native as t
        t.test_names_never_taken_link_and_leave_the_process_alone()
        t.test_libm_is_there()
        @numba.njit
        def g(n):
            return np.zeros(n).sum() + n
        assert f(20) == 20 and g(20) == 20
        print("right")
    """)
    assert done.stdout == "right\n", done.stderr


def test_an_open_name_that_the_process_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    data = calls("k", "tanhf")
    monkeypatch.setattr(native.llvm, "address_of_symbol", lambda name: None)
    with pytest.raises(NativeError, match=r"'k' needs 'tanhf'"):
        engine(k=data)


def test_a_name_defined_twice_is_refused() -> None:
    helper = "define double @helper(double %x) {{ ret double {} }}"
    first = emit(helper.format("1.0") + "define void @a() { ret void }")
    second = emit(helper.format("2.0") + "define void @b() { ret void }")
    with pytest.raises(NativeError, match=r"'a' and 'b' both define 'helper'"):
        engine(a=first, b=second)


def test_objects_that_are_not_what_they_say() -> None:
    with pytest.raises(NativeError, match="no plan runner"):
        NativeCode({"one": add("one", 1.0)})
    with pytest.raises(NativeError, match="'two' does not define it"):
        engine(two=add("one", 1.0))
    with pytest.raises(NativeError, match="'two' is not in this engine"):
        engine(one=add("one", 1.0)).address("two")


def test_no_object_file() -> None:
    good = add("one", 1.0)
    for data in (b"", b"\x7fELF", b"x" * 1000, good[:64], good[: len(good) // 2], b"x" + good):
        with pytest.raises(native.BadObject):
            engine(one=data)


def test_a_missing_openmp_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    native._openmp_addresses.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(ctypes, "CDLL", missing)
        with pytest.raises(NativeError, match="apt-get install libgomp1"):
            engine(one=add("one", 1.0))
    engine(one=add("one", 1.0))


# Several engines, several threads.


def test_two_engines_whose_kernels_share_a_name() -> None:
    one, two = engine(k=add("k", 1.0)), engine(k=add("k", 2.0))
    x, y = np.arange(4.0), np.zeros(4)
    for code, constant in ((one, 1.0), (two, 2.0), (one, 1.0)):
        run(code, 2, ("k", params(x, y), 4, True))
        assert np.array_equal(y, x + constant)
    del one
    gc.collect()
    run(two, 2, ("k", params(x, y), 4, True))
    assert np.array_equal(y, x + 2.0)


def test_eight_threads_run_one_engine() -> None:
    code = engine(one=add("one", 1.0), half=add("half", 0.5))
    start = threading.Barrier(8)

    def work(seed: int) -> bool:
        x = np.random.default_rng(seed).normal(size=20_000)
        y, z = np.zeros_like(x), np.zeros_like(x)
        xy, yz = params(x, y), params(y, z)
        start.wait()
        right = True
        for _ in range(20):
            z[:] = 0
            run(code, 2, ("one", xy, x.size, True), ("half", yz, x.size, True))
            right &= np.array_equal(z, (x + 1.0) + 0.5)
        return right

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


def test_eight_threads_load_engines() -> None:
    objects = [add("k", float(seed)) for seed in range(8)]
    start = threading.Barrier(8)

    def work(seed: int) -> bool:
        start.wait()
        x, y = np.arange(50.0), np.zeros(50)
        right = True
        for _ in range(10):
            code = engine(k=objects[seed])
            run(code, 2, ("k", params(x, y), 50, seed % 2 == 0))
            right &= np.array_equal(y, x + seed)
        return right

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


# Waits until p[0] is set, for some seconds at most; p[1] = 1, and p[2] = what it saw at last.
WAIT = """
define void @wait(ptr %p, i64 %worker, i64 %lo, i64 %hi) {
entry:
  %started = getelementptr i64, ptr %p, i64 1
  %seen = getelementptr i64, ptr %p, i64 2
  store volatile i64 1, ptr %started
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%i1, %loop]
  %v = load volatile i64, ptr %p
  %i1 = add i64 %i, 1
  %set = icmp ne i64 %v, 0
  %late = icmp ugt i64 %i1, 20000000000
  %stop = or i1 %set, %late
  br i1 %stop, label %done, label %loop
done:
  store i64 %v, ptr %seen
  ret void
}
"""


def test_a_run_releases_the_gil_and_keeps_its_engine() -> None:
    code = engine(wait=emit(WAIT))
    alive = weakref.ref(code)
    p = params(0, 0, 0)
    table = table_of(code, ("wait", p, 1, False))
    thread = threading.Thread(target=code.run, args=(address_of(table), 1, 1))
    del code
    thread.start()
    while not p[1]:
        pass
    gc.collect()
    assert alive() is not None
    p[0] = 1  # reached only if the running kernel holds no GIL
    thread.join()
    assert p[2] == 1
    del thread
    gc.collect()
    assert alive() is None


def test_a_dropped_engine_frees_its_memory() -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    size = 1 << 20
    table = "@table = internal constant [1048576 x i8] c\"" + "\\07" * size + '"\n'
    data = loop(
        "big",
        """
        %ti = getelementptr i8, ptr @table, i64 %i
        %yi = getelementptr i8, ptr %y, i64 %i
        %v = load volatile i8, ptr %ti
        store i8 %v, ptr %yi
        """,
        table,
    )
    assert len(data) > size
    y = np.zeros(9, np.uint8)
    p = params(0, y)
    before = 0
    for turn in range(60):
        code = engine(big=data)
        run(code, 1, ("big", p, 9, False))
        assert np.all(y == 7)
        if turn == 9:
            before = resident()
    assert resident() - before < 20 * size


def test_a_forked_process_runs_serially() -> None:
    done = run_python("""
        import os, signal, sys
        import numpy as np
        import test_native as t
        code = t.engine(visit=t.visit("visit"))
        seen, worker = np.zeros(100, np.int64), np.zeros(100, np.int64)
        step = ("visit", t.params(seen, worker), 100, True)
        t.run(code, 2, step)
        assert worker.max() == 1
        child = os.fork()
        if child == 0:
            signal.alarm(60)
            t.run(code, 2, step)
            os._exit(0 if np.all(seen == 2) and not worker.any() else 1)
        print(os.waitpid(child, 0)[1])
    """)
    assert done.stdout == "0\n", done.stderr


# This machine.


def test_cpu_features() -> None:
    name, features = native.cpu_features()
    assert name
    listed = features.split(",") if features else []
    assert all(feature[0] in "+-" for feature in listed)
    assert [f[1:] for f in listed] == sorted(f[1:] for f in listed)
    assert native.cpu_features() == (name, features)


def test_the_load_path_imports_no_compiler() -> None:
    done = run_python("""
        import compiler.runtime.native, compiler.runtime.store, compiler.runtime.addresses
        print(sorted({"numba", "onnx", "networkx"} & set(sys.modules)))
    """)
    assert done.stdout == "[]\n", done.stderr
