"""The counting build: the source of a kernel, compiled with loads and stores that take notes.

    load(x, i)       loads x += 1;   element i first seen by a load:  first reads x += 1
    store(x, i, v)   stores x += 1;  element i not stored before:     first stores x += 1
    both             the line of x[i] goes to the cache, unless it is the one x was last at

The text of the kernel stays as it is; only its vocabulary differs. Where the parameter table of a
kernel holds the address of a buffer, here it holds the address of a note: `NOTE_WORDS` int64 that
say where the elements lie and what has happened to them. The notes of one run share a cache:

    set = line mod sets;  a hit moves the line to the front (least recently used goes first);
    a miss reads the line, and writes back the one it replaces where that is dirty

Stores allocate, as on every CPU of today: a line is read before it is written. Only a row that is
streamed past the cache is not: its lines go to memory, and leave the cache. Staging is taken at its
word, the row is always made apart and then copied: so counts are those of the loop tree at every
size. Lines are numbered by the addresses that the notes state, not by where arrays happen to lie.

Teaches: the bytes that a program touches and those that memory must move are two numbers.
"""

# Numba has no type hints; the public functions of this module are its typed face.
# pyright: basic

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any, Final

from numba import cfunc, njit, types

from compiler.codegen.numba_api import _ABI, _fastmath, _vocabulary

DATA, MAP, BASE, CACHE, ITEMSIZE, LAST, LOADS, STORES, FIRST_READS, FIRST_STORES = range(10)
"""Words of a note. Given: addresses of the elements, of a map with one byte an element, of the
first element in the cache's numbering, of the cache; bytes of an element. Kept: the last line,
loads, stores, elements loaded before they were stored, elements stored."""
NOTE_WORDS: Final = 10

SETS, WAYS, CLOCK, MISSES, WRITTEN_BACK = range(5)
"""Words of a cache. Given: its sets and ways. Kept: accesses, lines read, lines written back.
Behind CACHE_HEADER words follow two for every way of every set: the line, and when it was used.
A line stands as 2*number, plus 1 where it is dirty; -1 is empty. So does `LAST` of a note."""
CACHE_HEADER: Final = 8
CACHE_LINE: Final = 64

CountingKernel = Callable[[int, int, int, int], None]
"""`kernel(params address, worker, lo, hi)`, as the kernel proper; the GIL is released meanwhile."""

_READ, _STORED = 1, 2  # bits of the map: loaded while not stored; stored


@functools.lru_cache(maxsize=256)
def compile_counting(name: str, source: str, *, strict: bool, math: str) -> CountingKernel:
    """The function `name` that `source` defines, taking notes; some 0.3 s.

    It serves in this process only. Errors of Numba are raised as they are: the same source has
    been compiled before.
    """
    scope: dict[str, Any] = {**_counting_vocabulary(strict, math), "__name__": "counting"}
    exec(compile(source, f"<counting {name}>", "exec"), scope)
    made: Any = cfunc(_ABI, fastmath=_fastmath(strict), error_model="numpy")(scope[name])
    word = ctypes.c_uint64
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, word, word, word)(made.address)

    def kernel(params: int, worker: int, lo: int, hi: int) -> None:
        call(params, worker, lo, hi)

    kernel.made = made  # the code lives as long as what calls it
    return kernel


def stream(cache_address: int, base: int, nbytes: int, store: bool) -> None:
    """Read or write every line of `nbytes` bytes from `base` on, once, in order."""
    if nbytes:
        _streamer()(cache_address, base // CACHE_LINE, (base + nbytes - 1) // CACHE_LINE, store)


@functools.cache
def _streamer() -> Any:
    access = _access()

    @njit(types.void(types.int64, types.int64, types.int64, types.boolean), nogil=True)
    def walk(cache, first, last, store):
        for line in range(first, last + 1):
            access(cache, 2 * line + (1 if store else 0))

    return walk


@functools.cache
def _access() -> Any:
    """`access(cache address, 2*line + store)`."""
    words = _vocabulary(True, "poly")
    pointer, load, store, i64, u64 = (words[n] for n in ("pointer", "load", "store", "i64", "u64"))

    @njit(types.void(types.int64, types.int64), error_model="numpy")
    def access(cache, mark):
        state = pointer(cache, i64)
        now = load(state, u64(CLOCK)) + 1
        store(state, u64(CLOCK), now)
        ways = load(state, u64(WAYS))
        line = mark >> 1
        at = CACHE_HEADER + 2 * ways * (line % load(state, u64(SETS)))
        victim, oldest = at, now
        for _ in range(ways):
            found = load(state, u64(at))
            if found >> 1 == line:
                store(state, u64(at), found | mark)
                store(state, u64(at + 1), now)
                return
            used = load(state, u64(at + 1))
            if used < oldest:
                victim, oldest = at, used
            at += 2
        gone = load(state, u64(victim))
        if gone >= 0 and gone & 1:
            store(state, u64(WRITTEN_BACK), load(state, u64(WRITTEN_BACK)) + 1)
        store(state, u64(MISSES), load(state, u64(MISSES)) + 1)
        store(state, u64(victim), mark)
        store(state, u64(victim + 1), now)

    return access


@functools.cache
def _pass_by() -> Any:
    """`pass_by(cache address, line)`: a whole line is written to memory, not to the cache."""
    words = _vocabulary(True, "poly")
    pointer, load, store, i64, u64 = (words[n] for n in ("pointer", "load", "store", "i64", "u64"))

    @njit(types.void(types.int64, types.int64), error_model="numpy")
    def pass_by(cache, line):
        state = pointer(cache, i64)
        store(state, u64(WRITTEN_BACK), load(state, u64(WRITTEN_BACK)) + 1)
        ways = load(state, u64(WAYS))
        at = CACHE_HEADER + 2 * ways * (line % load(state, u64(SETS)))
        for _ in range(ways):
            if load(state, u64(at)) >> 1 == line:
                store(state, u64(at), i64(-1))
                store(state, u64(at + 1), i64(0))
            at += 2

    return pass_by


@functools.cache
def _counting_vocabulary(strict: bool, math: str) -> dict[str, Any]:
    words = _vocabulary(strict, math)
    raw_pointer, raw_load, raw_store = words["pointer"], words["load"], words["store"]
    i64, u8, u64 = words["i64"], words["u8"], words["u64"]
    access, pass_by = _access(), _pass_by()

    # A buffer is a pair: the typed address of its elements, and that of its note.

    @njit(error_model="numpy")
    def pointer(address, dtype):
        note = raw_pointer(i64(address), i64)
        return raw_pointer(raw_load(note, u64(DATA)), dtype), note

    @njit(error_model="numpy")
    def private(address, dtype, count):
        return pointer(address, dtype)

    @njit(error_model="numpy")
    def byte(note, at):
        return raw_load(note, u64(BASE)) + i64(at) * raw_load(note, u64(ITEMSIZE))

    @njit(error_model="numpy")
    def look(note, at, store):
        mark = 2 * (byte(note, at) // CACHE_LINE) + store
        last = raw_load(note, u64(LAST))
        if mark != last and mark | 1 != last:
            raw_store(note, u64(LAST), mark)
            access(raw_load(note, u64(CACHE)), mark)

    @njit(error_model="numpy")
    def add_one(note, word):
        raw_store(note, u64(word), raw_load(note, u64(word)) + 1)

    @njit(error_model="numpy")
    def note_load(note, at):
        add_one(note, LOADS)
        seen = raw_pointer(raw_load(note, u64(MAP)), u8)
        if raw_load(seen, at) == u8(0):
            raw_store(seen, at, u8(_READ))
            add_one(note, FIRST_READS)

    @njit(error_model="numpy")
    def note_store(note, at):
        add_one(note, STORES)
        seen = raw_pointer(raw_load(note, u64(MAP)), u8)
        before = raw_load(seen, at)
        if before & u8(_STORED) == 0:
            raw_store(seen, at, u8(before | u8(_STORED)))
            add_one(note, FIRST_STORES)

    @njit(error_model="numpy")
    def load(buffer, at):
        elements, note = buffer
        note_load(note, at)
        look(note, at, 0)
        return raw_load(elements, at)

    @njit(error_model="numpy")
    def load_if(guard, buffer, at, other):
        if guard:
            return load(buffer, at)
        return other

    @njit(error_model="numpy")
    def store(buffer, at, value):
        elements, note = buffer
        note_store(note, at)
        look(note, at, 1)
        raw_store(elements, at, value)

    @njit(error_model="numpy")
    def staging(row, y, at, wide):
        return row

    @njit(error_model="numpy")
    def stream(y, at, row, count, wide):
        elements, note = y
        for k in range(count):
            note_store(note, at + k)
            raw_store(elements, at + k, load(row, k))
        if count == u64(0):
            return
        cache = raw_load(note, u64(CACHE))
        start, stop = byte(note, at), byte(note, at + count)
        for line in range(start // CACHE_LINE, (stop - 1) // CACHE_LINE + 1):
            whole = line * CACHE_LINE >= start and (line + 1) * CACHE_LINE <= stop
            if wide and whole:
                pass_by(cache, line)
            else:
                access(cache, 2 * line + 1)

    @njit(error_model="numpy")
    def stream_end(wide):
        pass

    return {
        **words, "pointer": pointer, "private": private, "load": load, "load_if": load_if,
        "store": store, "staging": staging, "stream": stream, "stream_end": stream_end,
    }  # fmt: skip
