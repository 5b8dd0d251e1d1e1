"""Linking and running kernels, which are LLVM text here: nothing of the compiler is needed."""

import gc
import platform
import subprocess
import sys
import textwrap
import threading
import time
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


def test_libm_is_there_for_the_first_engine_of_a_process() -> None:
    done = run_python("""
        import test_native as t
        t.test_libm_is_there()
        print("right")
    """)
    assert done.stdout == "right\n", done.stderr


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


def test_a_runner_of_another_version_is_refused() -> None:
    other = emit(f"define void @{native.RUNNER_SYMBOL}(ptr %s, i64 %c, i64 %t) {{ ret void }}")
    with pytest.raises(NativeError, match="another version: build the engine again"):
        NativeCode({native.RUNNER_SYMBOL: other, "one": add("one", 1.0)})


def test_the_runner_is_code_for_both_machines_and_no_other() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    for machine in ("x86_64", "aarch64"):
        target = llvm.Target.from_triple(f"{machine}-unknown-linux-gnu")
        module = llvm.parse_assembly(native._runner_text(machine))
        data = target.create_target_machine().emit_object(module)
        assert native.RUNNER_SYMBOL in native.read_symbols(data).defined
        assert native.undefined_symbols(data) == ()
    with pytest.raises(NativeError, match="x86_64 or aarch64, not on riscv64"):
        native._runner_text("riscv64")


# The pool. A loop that waits gives up after some seconds, so that a defect fails and hangs nothing.

POOL = """
define internal void @until(ptr %at, i64 %value) {
entry:
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%i1, %loop]
  %v = load atomic i64, ptr %at acquire, align 8
  %i1 = add i64 %i, 1
  %there = icmp sge i64 %v, %value
  %late = icmp ugt i64 %i1, 20000000000
  %stop = or i1 %there, %late
  br i1 %stop, label %done, label %loop
done:
  ret void
}

; params [present, wanted, y]: wait in each chunk until `wanted` chunks have begun; y[lo] = worker
define void @meet(ptr %p, i64 %worker, i64 %lo, i64 %hi) {
  %wanted.at = getelementptr i64, ptr %p, i64 1
  %wanted = load i64, ptr %wanted.at
  %y.at = getelementptr i64, ptr %p, i64 2
  %y = load ptr, ptr %y.at
  atomicrmw add ptr %p, i64 1 seq_cst
  call void @until(ptr %p, i64 %wanted)
  %yi = getelementptr i64, ptr %y, i64 %lo
  store i64 %worker, ptr %yi
  ret void
}

; params [begun, done, slow, others, turns, y]: member `slow` waits in each chunk until `others`
; chunks are done, and some turns more; the others wait until it has begun one; y[lo] = worker
define void @late(ptr %p, i64 %worker, i64 %lo, i64 %hi) {
entry:
  %done.at = getelementptr i64, ptr %p, i64 1
  %slow.at = getelementptr i64, ptr %p, i64 2
  %slow = load i64, ptr %slow.at
  %others.at = getelementptr i64, ptr %p, i64 3
  %others = load i64, ptr %others.at
  %turns.at = getelementptr i64, ptr %p, i64 4
  %turns = load i64, ptr %turns.at
  %y.at = getelementptr i64, ptr %p, i64 5
  %y = load ptr, ptr %y.at
  %is.slow = icmp eq i64 %worker, %slow
  br i1 %is.slow, label %wait, label %quick
wait:
  store atomic i64 1, ptr %p release, align 8
  call void @until(ptr %done.at, i64 %others)
  br label %turn
turn:
  %i = phi i64 [0, %wait], [%i1, %turn]
  %v = load volatile i64, ptr %p
  %i1 = add i64 %i, 1
  %more = icmp ult i64 %i1, %turns
  br i1 %more, label %turn, label %end
quick:
  call void @until(ptr %p, i64 1)
  br label %end
end:
  %yi = getelementptr i64, ptr %y, i64 %lo
  store i64 %worker, ptr %yi
  atomicrmw add ptr %done.at, i64 1 seq_cst
  ret void
}

; params [x, inside, clashes]: x[i] += 1; inside[w] is 1 while worker w is here, and was 0 before
define void @alone(ptr %p, i64 %worker, i64 %lo, i64 %hi) {
entry:
  %x = load ptr, ptr %p
  %inside.at = getelementptr i64, ptr %p, i64 1
  %inside = load ptr, ptr %inside.at
  %clashes = getelementptr i64, ptr %p, i64 2
  %mine = getelementptr i64, ptr %inside, i64 %worker
  %before = atomicrmw xchg ptr %mine, i64 1 seq_cst
  atomicrmw add ptr %clashes, i64 %before seq_cst
  br label %loop
loop:
  %i = phi i64 [%lo, %entry], [%i1, %loop]
  %xi = getelementptr i64, ptr %x, i64 %i
  %v = load i64, ptr %xi
  %s = add i64 %v, 1
  store i64 %s, ptr %xi
  %i1 = add i64 %i, 1
  %more = icmp ult i64 %i1, %hi
  br i1 %more, label %loop, label %done
done:
  store atomic i64 0, ptr %mine seq_cst, align 8
  ret void
}
"""

# For longer than a worker waits before it sleeps.
HOLD = """
define internal void @hold() {
entry:
  %turn = alloca i64
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%i1, %loop]
  store volatile i64 %i, ptr %turn
  %i1 = add i64 %i, 1
  %more = icmp ult i64 %i1, 5000000
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""


def meet(code: NativeCode, team: int) -> list[int]:
    """The members that did the chunks of a step that only a whole team can do."""
    y = np.full(team, -1)
    p = params(0, team, y)
    run(code, team, ("meet", p, team, True))
    assert p[0] == team
    return y.tolist()


@pytest.mark.parametrize("team", [2, 3, 8])
def test_a_step_is_done_by_its_whole_team(team: int) -> None:
    code = engine(meet=emit(POOL))
    for _ in range(3):
        assert sorted(meet(code, team)) == list(range(team))
        time.sleep(0.002)  # the workers fall asleep


def test_a_caller_that_is_held_between_two_shares_wakes_who_is_needed() -> None:
    """Whoever is awake takes the first share that opens, its owner perhaps sleeps on the last.

    A pool whose workers have just begun is caught in between; each turn makes another.
    """
    text = native._runner_text(platform.machine())
    opened = "store atomic i64 %word, ptr %share seq_cst, align 8\n"
    assert text.count(opened) == 1
    hold = "call void @hold()\n"
    runner = native.assemble(text.replace(opened, opened + hold) + HOLD)
    for turn in range(6):
        objects = {native.RUNNER_SYMBOL: runner + bytes(turn), "meet": emit(POOL)}
        assert sorted(meet(NativeCode(objects), 4)) == [0, 1, 2, 3]


@pytest.mark.parametrize("turns", [0, 30_000_000], ids=["at once", "after a while"])
@pytest.mark.parametrize("slow", [0, 1], ids=["caller", "worker"])
@pytest.mark.parametrize("threads", [2, 4])
def test_whoever_is_late_does_less(slow: int, threads: int, turns: int) -> None:
    """One member is held in its first chunk until the others have done all the rest."""
    code = engine(late=emit(POOL))
    extent = threads * native.CHUNKS
    y = np.full(extent, -1)
    p = params(0, 0, slow, extent - 1, turns, y)
    run(code, threads, ("late", p, extent, True))
    assert p[1] == extent
    assert np.count_nonzero(y == slow) == 1
    assert np.all((y >= 0) & (y < threads))


@pytest.mark.parametrize("threads", range(1, 9))
def test_thousands_of_short_steps(threads: int) -> None:
    """Each index once a step, nobody twice at a time, with and without sleep in between."""
    code = engine(alone=emit(POOL))
    extents = [0, 1, 2, 3, 7, 61, 64, 1009] * 100
    x, inside = np.zeros(1009, np.int64), np.zeros(native.TEAM, np.int64)
    p = params(x, inside, 0)
    table = table_of(code, *(("alone", p, extent, True) for extent in extents))
    random = np.random.default_rng(threads)
    first = 0
    while first < len(table):
        count = min(int(random.integers(1, 60)), len(table) - first)
        code.run(address_of(table[first:]), count, threads)
        first += count
        stop = time.perf_counter() + random.choice([0, 1e-5, 1e-4])
        while time.perf_counter() < stop:
            pass
    assert p[2] == 0
    assert not inside.any()
    assert np.array_equal(x, sum(np.arange(1009) < extent for extent in extents))


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_a_step_sees_all_that_the_steps_before_wrote(threads: int) -> None:
    """A plan of 120 steps, each reading what others may have written."""
    reverse = loop(
        "reverse",
        """
        %past = sub i64 1000, %i
        %from = sub i64 %past, 1
        %xi = getelementptr double, ptr %x, i64 %from
        %yi = getelementptr double, ptr %y, i64 %i
        %v = load double, ptr %xi
        %s = fadd double %v, 1.0
        store double %s, ptr %yi
        """,
    )
    code = engine(reverse=reverse)
    start = np.arange(1000.0)
    for _ in range(20):
        x, y = start.copy(), np.zeros(1000)
        there, back = params(x, y), params(y, x)
        steps = [("reverse", back if k % 2 else there, 1000, True) for k in range(120)]
        run(code, threads, *steps)
        assert np.array_equal(x, start + 120)


def test_a_step_that_finds_the_pool_taken_runs_serially() -> None:
    code = engine(meet=emit(POOL), visit=visit("visit"))
    y = np.full(2, -1)
    p = params(0, 3, y)  # two chunks that wait for a third, which never comes: it is set below
    table = table_of(code, ("meet", p, 2, True))
    thread = threading.Thread(target=code.run, args=(address_of(table), 1, 2))
    thread.start()
    while p[0] < 2:
        time.sleep(0.001)
    seen, worker = np.zeros(100, np.int64), np.ones(100, np.int64)
    run(code, 2, ("visit", params(seen, worker), 100, True))
    p[0] = 3
    thread.join()
    assert np.all(seen == 1) and not worker.any()
    assert sorted(y) == [0, 1]


def test_without_new_threads_the_caller_does_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_LIBC", ("getpid", "syscall"))  # getpid gives no 0: an error
    runner = native.runner_object() + b"\0"  # bytes of its own: a pool of its own
    code = NativeCode({native.RUNNER_SYMBOL: runner, "visit": visit("visit")})
    seen, worker = np.zeros(100, np.int64), np.ones(100, np.int64)
    for _ in range(3):
        run(code, 4, ("visit", params(seen, worker), 100, True))
    assert np.all(seen == 3) and not worker.any()


def test_more_threads_than_a_team_may_have() -> None:
    code = engine(visit=visit("visit"))
    seen, worker = np.zeros(5000, np.int64), np.full(5000, -1)
    run(code, 1 << 40, ("visit", params(seen, worker), 5000, True))
    assert np.all(seen == 1) and np.all((worker >= 0) & (worker < native.TEAM))


def test_idle_workers_use_no_cpu() -> None:
    done = run_python("""
        import time
        import numpy as np
        import test_native as t
        code = t.engine(meet=t.emit(t.POOL))
        assert sorted(t.meet(code, 8)) == list(range(8))
        before = time.process_time()
        time.sleep(0.5)
        print(time.process_time() - before < 0.1)
    """)
    assert done.stdout == "True\n", done.stderr


@pytest.mark.parametrize("end", ["", "time.sleep(0.01)", "raise SystemExit", "import gc; del code"])
def test_a_process_ends_while_workers_wait(end: str) -> None:
    done = run_python(f"""
        import time
        import test_native as t
        code = t.engine(meet=t.emit(t.POOL))
        t.meet(code, 4)
        {end}
    """)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_process_ends_while_a_daemon_runs_a_step() -> None:
    done = run_python("""
        import threading, time
        import numpy as np
        import test_native as t
        code = t.engine(meet=t.emit(t.POOL))
        y = np.zeros(2, np.int64)
        p = t.params(0, 3, y)
        table = t.table_of(code, ("meet", p, 2, True))
        run = lambda: code.run(t.address_of(table), 1, 2)
        threading.Thread(target=run, daemon=True).start()
        while p[0] < 2:
            time.sleep(0.001)
    """)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


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


def test_a_forked_process_has_a_pool_of_its_own() -> None:
    """Forked while the pool sleeps, and while another thread has it; a child of a child too."""
    done = run_python("""
        import os, signal, threading, time
        import numpy as np
        import test_native as t

        def child(depth):
            signal.alarm(60)
            right = sorted(t.meet(code, 4)) == [0, 1, 2, 3]
            if depth:
                right &= fork(depth - 1) == 0
            os._exit(0 if right else 1)

        def fork(depth):
            pid = os.fork()
            if pid == 0:
                child(depth)
            return os.waitpid(pid, 0)[1]

        code = t.engine(meet=t.emit(t.POOL))
        results = [fork(0)]
        t.meet(code, 3)
        results.append(fork(1))
        y = np.zeros(2, np.int64)
        p = t.params(0, 3, y)
        table = t.table_of(code, ("meet", p, 2, True))
        thread = threading.Thread(target=code.run, args=(t.address_of(table), 1, 2))
        thread.start()
        while p[0] < 2:
            time.sleep(0.001)
        results.append(fork(0))
        p[0] = 3
        thread.join()
        results.append(fork(0))
        assert sorted(t.meet(code, 4)) == [0, 1, 2, 3]
        print(results)
    """)
    assert done.stdout == "[0, 0, 0, 0]\n", done.stderr


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
