"""The model of the cache: against a slow one in plain Python, and on streams whose sum is known."""

from collections import OrderedDict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.codegen import counting
from compiler.codegen.counting import CACHE_LINE, NOTE_WORDS, compile_counting
from compiler.measure.counting import Cache, Places, count
from compiler.runtime.addresses import address_of
from tests.measure.models import counted, inputs, traced


class SlowCache:
    """Least recently used, write-allocate: one ordered dictionary a set."""

    def __init__(self, sets: int, ways: int) -> None:
        self.sets = [OrderedDict[int, bool]() for _ in range(sets)]
        self.ways = ways
        self.moved = 0

    def access(self, line: int, store: bool) -> None:
        lines = self.sets[line % len(self.sets)]
        dirty = lines.pop(line, None)
        if dirty is None:
            self.moved += CACHE_LINE
            if len(lines) == self.ways:
                _, gone = lines.popitem(last=False)
                self.moved += CACHE_LINE * gone
        lines[line] = bool(dirty) or store

    @property
    def dirty(self) -> int:
        return CACHE_LINE * sum(sum(lines.values()) for lines in self.sets)


@settings(max_examples=60)
@given(
    st.sampled_from([(1, 1), (1, 4), (2, 2), (4, 3)]),
    st.lists(st.tuples(st.integers(0, 40), st.integers(1, 5), st.booleans()), max_size=60),
)
def test_the_cache_is_least_recently_used(
    shape: tuple[int, int], accesses: list[tuple[int, int, bool]]
) -> None:
    sets, ways = shape
    fast, slow = Cache(sets * ways * CACHE_LINE, ways), SlowCache(sets, ways)
    for first, lines, store in accesses:
        fast.stream(first * CACHE_LINE, lines * CACHE_LINE, store)
        for line in range(first, first + lines):
            slow.access(line, store)
        assert (fast.moved, fast.dirty) == (slow.moved, slow.dirty)


def test_a_stretch_counts_the_lines_it_meets() -> None:
    cache = Cache()
    cache.stream(60, 8, False)
    assert cache.moved == 2 * CACHE_LINE
    cache.stream(1 << 20, 0, True)
    assert (cache.moved, cache.dirty) == (2 * CACHE_LINE, 0)


def test_a_cache_smaller_than_its_ways_is_refused() -> None:
    with pytest.raises(ValueError, match="16 lines"):
        Cache(512)


def lines(nbytes: int) -> int:
    return -(-nbytes // CACHE_LINE) * CACHE_LINE


SIZES = {"r": 30, "c": 50}


def test_in_a_large_cache_every_line_is_read_once_and_every_written_one_goes_back() -> None:
    """Op by op, the intermediate values are found in the cache by the step that reads them."""
    full, row = lines(4 * 30 * 50), lines(4 * 50)
    read_in = 2 * full + 2 * row + 5 * full  # inputs, and the lines that are about to be written
    ran = counted("five_op_chain", "op-by-op", SIZES)
    assert ran.flushed == 5 * full
    assert ran.simulated == read_in + 5 * full
    fused = counted("five_op_chain", "default", SIZES)
    assert fused.simulated == 2 * full + 2 * row + full + full


def test_in_a_small_cache_the_chain_moves_what_its_streams_hold() -> None:
    """Far smaller than a tensor: op by op moves its floor plus a read of every line written."""
    full, row = lines(4 * 300 * 80), lines(4 * 80)
    sizes = {"r": 300, "c": 80}
    ran = counted("five_op_chain", "op-by-op", sizes, Cache(4096, 16))
    assert ran.simulated == 11 * full + 2 * row + 5 * full
    fused = counted("five_op_chain", "default", sizes, Cache(4096, 16))
    assert fused.simulated == 4 * full + 2 * row


def test_a_run_is_counted_alike_wherever_its_memory_lies() -> None:
    trace, context = traced("softmax_spelled_out")
    keep: list[object] = []
    found: list[int] = []
    for shift in (0, 8, 4096 + 24):
        arrays = inputs(trace, {"rows": 40, "cols": 30})
        x = np.empty(arrays["x"].nbytes + 8192, np.uint8)
        moved = x[shift : shift + arrays["x"].nbytes].view(np.float32).reshape(40, 30)
        moved[...] = arrays["x"]
        keep.append(x)
        ran = count(trace.final, {"x": moved}, context.params, cache=Cache(8192, 4))
        found.append(ran.simulated)
    assert len(set(found)) == 1 and found[0] > 2 * 4 * 40 * 30


def test_places_keep_distances_within_an_array_and_pages_between_two() -> None:
    places = Places()
    a, b = np.zeros(100, np.float32), np.zeros(5000, np.uint8)
    assert places(a) == 4096
    assert places(a[10:]) == places(a) + 40
    assert places(b) >= places(a) + a.nbytes + 4096
    assert places(b) % 4096 == 0


# ---- one kernel by hand --------------------------------------------------------------------------

COPY = """
def k(params, worker, lo, hi):
    n = extent(params, 0)
    x = pointer(params[1], f32)
    y = pointer(params[2], f32)
    for i in range(lo, hi):
        store(y, i, load(x, i) + load(x, i) * f32(0.0))
"""

STREAM = """
def k(params, worker, lo, hi):
    n = extent(params, 0)
    x = pointer(params[1], f32)
    y = pointer(params[2], f32)
    row_own = pointer(params[3] + i64(worker) * params[4], f32)
    wide = WIDE
    for i in range(lo, hi):
        row = staging(row_own, y, i * n, wide)
        for j in range(n):
            store(row, j, load(x, i * n + j))
        stream(y, i * n, row, n, wide)
    stream_end(wide)
"""


def run(source: str, n: int, rows: int, shift: int = 0) -> tuple[Cache, dict[str, np.ndarray]]:
    """Counts of x, y and a row of scratch; y starts `shift` bytes into a line."""
    x = np.arange(rows * n, dtype=np.float32)
    y, row = np.zeros_like(x), np.zeros(n, np.float32)
    cache = Cache()
    notes, keep = [], []
    for k, array in enumerate((x, y, row)):
        seen = np.zeros(max(1, array.size), np.uint8)
        keep.append(seen)
        note = np.zeros(NOTE_WORDS, np.int64)
        note[counting.DATA], note[counting.MAP] = address_of(array), address_of(seen)
        note[counting.BASE] = (k + 1) << 20
        note[counting.CACHE], note[counting.ITEMSIZE] = address_of(cache.words), 4
        note[counting.LAST] = -1
        notes.append(note)
    notes[1][counting.BASE] += shift
    table = np.array([n, *(address_of(note) for note in notes), 0], np.int64)
    compile_counting("k", source, strict=False, math="poly")(address_of(table), 0, 0, rows)
    np.testing.assert_array_equal(x, y)
    kept = (counting.LOADS, counting.STORES, counting.FIRST_READS, counting.FIRST_STORES)
    return cache, {name: note[list(kept)] for name, note in zip("xyr", notes, strict=True)}


def test_a_kernel_that_reads_twice_touches_twice_and_reads_first_once() -> None:
    cache, notes = run(COPY, 1, 1000)
    assert notes["x"].tolist() == [2000, 0, 1000, 0]
    assert notes["y"].tolist() == [0, 1000, 0, 1000]
    assert cache.moved == 2 * lines(4000)
    assert cache.dirty == lines(4000)


@pytest.mark.parametrize("shift", [0, 12])
def test_a_streamed_row_is_not_read_and_leaves_nothing_dirty(shift: int) -> None:
    rows, n = 10, 64
    size = 4 * rows * n
    cache, notes = run(STREAM.replace("WIDE", "n >= u64(1)"), n, rows, shift)
    assert notes["y"].tolist() == [0, rows * n, 0, rows * n]
    assert notes["r"].tolist() == [rows * n, rows * n, 0, n]
    row_lines = 4 * n
    if shift == 0:
        assert cache.moved == size + row_lines + size
        assert cache.dirty == row_lines
    else:  # the lines that two rows share, and the ends, are written in the cache
        shared = (rows + 1) * CACHE_LINE
        assert cache.dirty == row_lines + shared
        assert cache.moved == size + row_lines + shared + size - rows * CACHE_LINE


def test_a_row_that_is_not_wide_is_stored_as_usual() -> None:
    rows, n = 10, 64
    size = 4 * rows * n
    cache, notes = run(STREAM.replace("WIDE", "n < u64(1)"), n, rows)
    assert notes["y"].tolist() == [0, rows * n, 0, rows * n]
    assert cache.moved == 2 * size + 4 * n
    assert cache.dirty == size + 4 * n
