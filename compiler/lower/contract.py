"""From a contraction, with its windows and its tail, to a loop tree.

    y[n, o, y, x] = tail( sum over c, h, w of  a[n, c, y*s + h - p, x*s + w - p] * b[o, c, h, w] )

    par n, blocks of o, y and x {
      seq c, rows, x   { rows[c, …] = a[…] where it lies inside, else the value outside }
      seq blocks of 4 outputs, tiles {
        vec f          { sums[0…3, f] = 0 }
        red c, h       { vec f { sums[k, f] += b[o+k, c, h, w] * rows[c, f + at h, w]  all k, w } }
        vec x          { y[n, o+k, y, x] = tail(sums[k, f]) }
      }
    }

A *tile* is a few rows of results: f counts through them, `width` apart, as through one line. The
elements that a stack of tiles needs are brought into the worker's scratch once, with what lies
outside filled in: so every place in the window is a plain offset from f, and no loop over f has a
condition.
What comes before that operand, element by element, is computed where it is brought. With a stride s
the scratch keeps elements whose positions agree modulo s together: then these
offsets are plain again. No element is copied once a place in the window, as im2col would.

The sums of one tile have a literal size and fit the vector registers. The innermost axis is the
last one that counts more than one element. A contraction for which it is in both operands, or in
another than the axes behind it, is one accumulator an element.

Sums run over c, h, w in the order of their indices, whatever the tile, and no sum is split: results
depend neither on threads nor on tiles.

Teaches: a convolution is a matrix product whose operand is read at shifted places.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product as combinations

from compiler.fusion.access import merged_axes, squeeze
from compiler.fusion.prologue import OUTPUTS, TASKS, Operand, innermost_axis, tiled_operand
from compiler.ir.dims import ONE, ZERO, Dim, ceil_div, dim, product
from compiler.ir.graph import Op
from compiler.ir.loops import (
    Acc,
    Arg,
    Binary,
    Const,
    Expr,
    For,
    If,
    Index,
    Let,
    Load,
    Ref,
    Select,
    Stmt,
    Store,
    Unary,
    Update,
    within,
)
from compiler.ir.types import Scalar, TensorType

from .kernels import Axis, Group, Lowered, identifier, identity

LANES = 16
"""Elements that a line of sums is rounded up to: a vector of 512 bits."""

LINE = 256
"""The longest line of sums, in elements."""

SUMS = 256
"""Sums of a tile: so many float32 fit 16 registers of 512 bits, and leave as many for the rest."""

LATENCY = 5
"""Cycles until a sum can be added to again, counted with what else its loop does."""

NEAR, FAR = 1 << 13, 1 << 16
"""Elements that are brought into scratch at most for a stack of several tiles: 32 KiB of float32,
which a first-level cache holds; 256 KiB where that saves reading much of the other operand again.
"""

EDGE = 4
"""Columns of one side outside of the common inside that are written out one by one."""

HEAVY = 1 << 17
"""Elements of an operand that does not stay in the second-level cache beside all else."""

COMBINE = {"sum": "add", "prod": "mul", "max": "max", "min": "min"}

Places = Mapping[str, Dim]
"""Letter -> where along it."""


@dataclass(frozen=True)
class Step:
    """One axis of an array: read at `letter*stride + tap*dilation - before`; `size` long."""

    letter: str
    size: Dim
    tap: str = ""
    stride: int = 1
    dilation: int = 1
    before: Dim = ZERO
    inside: bool = True
    """Whether no place lies outside, as long as the letters stay in range."""

    def at(self, places: Places) -> Dim:
        found = places[self.letter] * self.stride - self.before
        return found + places[self.tap] * self.dilation if self.tap else found


@dataclass(frozen=True)
class Access:
    """How a contraction reads one operand: the array, axis by axis, and what lies outside."""

    name: str
    steps: tuple[Step, ...]
    outside: Scalar

    @property
    def letters(self) -> frozenset[str]:
        return frozenset(s.letter for s in self.steps)

    @property
    def taps(self) -> tuple[str, ...]:
        return tuple(s.tap for s in self.steps if s.tap)

    def step(self, letter: str) -> Step | None:
        return next((s for s in self.steps if s.letter == letter), None)


@dataclass(frozen=True)
class Tile:
    """`rows` x `columns` results, `width` apart in a line of `line` sums, for `outputs` outputs.

    `stack` tiles, one below the other, read what is brought into scratch at once.
    """

    rows: int
    columns: int
    width: int
    line: int
    outputs: int
    stack: int = 1


@dataclass(frozen=True)
class Phase:
    """A position modulo the stride: `at`, one of `many` from `first` on."""

    at: Dim
    first: int
    many: int = 1

    @property
    def all(self) -> range:
        return range(self.first, self.first + self.many)


def choose_tile(
    rows: int | None, columns: int | None, below: int, beside: int, outputs: int
) -> Tile:
    """The tile that computes a plane of rows x columns (None: not known) in the least time.

    `below` and `beside` are how far a window reaches past its first row and column, counted in
    strides. The model: a vector of sums costs half a cycle, a load half a cycle, and they overlap,
    but no sum is added to twice in `LATENCY` cycles.
    """
    best, least = Tile(1, 64, 64 + beside, 64, outputs), float("inf")
    if columns is None:
        return best
    cap = min(LINE, SUMS // outputs)
    for parts in range(1, columns + 1):
        across = -(-columns // parts)
        for down in range(1, (rows or 1) + 1 if parts == 1 else 2):
            width = across + beside
            line = -(-((down - 1) * width + across) // LANES) * LANES
            if line > cap and (down > 1 or across > 1):
                break
            vectors = line // LANES
            time = max(vectors * outputs, vectors + outputs, 2 * LATENCY) / 2
            copied = (down + below) * -(-width // LANES) / (4 * outputs)
            tiles = -(-columns // across) * -(-(rows or 1) // down)
            ragged = columns % across or (rows or 1) % down
            total = tiles * (time + copied) * (1.05 if ragged else 1.0)
            if total < least * 0.999:
                least, best = total, Tile(down, across, width, line, outputs)
        if across <= LANES:
            break
    return best


def stacked(tile: Tile, rows: int | None, below: int, deep: int | None, room: int) -> Tile:
    """The tile with as many others below it as the scratch holds, evenly.

    `deep`: elements that are brought for each place in a row, one for each channel and phase;
    `room`: how many may be brought altogether.
    """
    if rows is None or deep is None:
        return tile
    tiles = -(-rows // tile.rows)
    lines = room // max(1, deep * tile.width) - below
    most = max(1, min(tiles, lines // tile.rows))
    return replace(tile, stack=-(-tiles // -(-tiles // most)) if tiles else 1)


class Contraction(Group):
    """The state of lowering one contract group."""

    def __init__(self, name: str, op: Op) -> None:
        region = op.regions[0]
        self.lead = find_lead(op)
        super().__init__(name, op, region)
        self.reduces = []
        self.origins = self.lead.origins
        contract = self.lead.kind == "contract"
        self.function = "sum" if contract else self.lead.function
        zero = Scalar.of(self.lead.type.element, 0)
        self.first = zero if contract else identity(self.lead)
        """What a sum over nothing is."""
        self.places: dict[str, Dim] = {}
        self.sum: Expr | None = None
        self.varying: tuple[Axis, ...] = ()
        self.sizes: dict[str, Dim] = {}
        self.result, self.reads = self._letters()
        self.kept = "".join(k for k in self.result if k in self.sizes)
        """Letters of the result, without the axes of extent 1 that a reduction leaves behind."""
        self.reduced = [k for k in self._order() if k not in self.result]
        self.innermost = ""

    # ---- what is contracted

    def _is_window(self, name: str) -> bool:
        return name in self.ops and self.ops[name].family == "window"

    def _letters(self) -> tuple[str, tuple[Access, ...]]:
        """The letters of the result, and how the operands are read over all letters."""
        if self.lead.kind == "contract":
            sources, result = self.lead.str("spec").split("->")
            words = sources.split(",")
        else:
            rank = self.lead.type.rank
            words = ["".join(chr(0x61 + k) for k in range(rank))]
            result = words[0]
        reads = tuple(
            self._access(n, w) for n, w in zip(self.lead.operands, words, strict=True)
        )
        for name, word in zip(self.lead.operands, words, strict=True):
            for letter, d in zip(word, self.types[name].dims, strict=True):
                self.sizes.setdefault(letter, self.extent_of(d))
        if self.lead.kind != "contract":
            result = "".join(s.letter for s in reads[0].steps) + "".join(
                letter.upper() for letter in reads[0].taps
            )
        return result, reads

    def _access(self, name: str, word: str) -> Access:
        if not self._is_window(name):
            shape = self.types[name].dims
            return Access(name, tuple(map(Step, word, shape)), self.first)
        window = self.ops[name]
        source, value = window.operands
        shape = self.types[source].dims
        steps = [Step(letter, d) for letter, d in zip(word, shape, strict=False)]
        strides, dilations = window.ints("strides") or (), window.ints("dilations") or ()
        befores, afters = _dims(window, "before"), _dims(window, "after")
        for k, axis in enumerate(window.ints("axes") or ()):
            before, after = befores[k], afters[k]
            low = before if before.constant is not None else self.extent_of(before)
            whole = before == ZERO and after == ZERO
            steps[axis] = Step(
                word[axis], shape[axis], word[len(shape) + k], strides[k], dilations[k], low, whole
            )
        constant = self.ops[value].get("value") if value in self.ops else None
        if not isinstance(constant, Scalar):
            raise ValueError(f"@{self.name}: what lies outside a window is not a literal")
        return Access(source, tuple(steps), constant)

    def _order(self) -> list[str]:
        """All letters in the order in which sums run: axes first, then places in windows."""
        found = dict.fromkeys(s.letter for a in self.reads for s in a.steps if s.letter
                              not in self._taps())  # fmt: skip
        return [*found, *self._taps()]

    def _taps(self) -> tuple[str, ...]:
        return tuple(t for a in self.reads for t in a.taps)

    # ---- the tail, in the terms of `Group`

    @property
    def inner_axes(self) -> tuple[Axis, ...]:
        return self.varying

    def extent_of(self, size: Dim) -> Dim:
        """Constants stay literal."""
        return size if size.constant is not None else super().extent_of(size)

    def _make_axes(self) -> tuple[Axis, ...]:
        return ()

    def place(self, shape: Sequence[Dim]) -> tuple[Dim, ...]:
        """Where a value that fills the domain stands, which may join axes of the contraction."""
        solid = len(squeeze(tuple(shape)))
        joined = next((axes for axes in self._ways() if len(axes) == solid), None)
        if joined is None:
            raise ValueError(f"@{self.name}: a value of {len(shape)} axes has no place here")
        along = iter(joined)
        return tuple(ZERO if d == ONE else self._joined(next(along)) for d in shape)

    def _ways(self) -> Iterator[tuple[tuple[int, ...], ...]]:
        """For every way in which the result stands in the domain, as it is made or with axes
        joined, the axes of the contraction that each axis longer than 1 holds. A value that fills
        the domain has as many axes as one of them; how long they are may be known by a guard."""
        own = self.lead.type.dims
        for op in self.region.ops:
            if op is self.lead or (op.kind == "reshape" and op.operands[0] == self.lead.key):
                axes = merged_axes(own, op.type.dims)
                if axes is not None:
                    yield axes

    def _joined(self, axes: Sequence[int]) -> Dim:
        """The row-major position along some axes of the result."""
        at = ZERO
        for k in axes:
            at = at * self.extent_of(self.lead.type.dims[k]) + self.places[self.result[k]]
        return at

    def _expression(self, op: Op, index: tuple[Dim, ...]) -> Expr:
        reshaped = op.kind == "reshape" and op.operands[0] == self.lead.key
        if op is not self.lead and not reshaped:
            return super()._expression(op, index)
        if self.sum is None or index != self.place(op.type.dims):
            raise ValueError(f"@{self.name}: %{op.key} is read elsewhere than where it is made")
        return self.sum

    def load(self, name: str, index: tuple[Dim, ...]) -> Expr:
        """What is the same for a whole row is read once, before it."""
        found = super().load(name, index)
        if self.inner is None or self._is_inner(index) or name in self.region.outputs:
            return found
        return self._named(name, index, found, self.origins)

    def tail(self, at: Places, sum: Expr, varying: tuple[Axis, ...]) -> list[Stmt]:
        """Loops over `varying` that compute and store the results where `at` says.

        The innermost is a vector. Results past the end of an axis are not computed.
        """
        self.places, self.sum, self.varying = dict(at), sum, varying
        self.row, self.row_memo = [], {}
        self.inner, self.inner_memo = [], {}
        stores = [s for name in self.region.outputs for s in self._store(name)]
        body = [*self.inner, *stores]
        self.inner, self.inner_memo = None, {}
        return self._guarded(at, body, varying)

    def _guarded(
        self, at: Places, body: list[Stmt], varying: tuple[Axis, ...]
    ) -> list[Stmt]:
        guards = {
            k: Binary("lt", Index(at[k]), Index(self.sizes[k])) for k in self.ragged
        }
        for k, axis in enumerate(reversed(varying)):
            for letter, guard in tuple(guards.items()):
                if dim(axis.name).symbols() & at[letter].symbols():
                    body = [If(guard, tuple(body), self.origins)]
                    del guards[letter]
            kind = "seq" if k else "vec"
            body = [For(kind, axis.name, axis.extent, tuple(body), self.op.origins)]
        body = [*self.row, *body]
        for guard in guards.values():
            body = [If(guard, tuple(body), self.origins)]
        return body

    ragged: tuple[str, ...] = ()
    """Letters whose last block may reach past the end."""

    # ---- loops

    def axis(self, letter: str, extent: Dim) -> Axis:
        return Axis(identifier(letter, self.taken, "a"), extent, False)

    def loops(self, kind: str, axes: Sequence[Axis], body: Sequence[Stmt]) -> tuple[Stmt, ...]:
        for axis in reversed(axes):
            body = (For(kind, axis.name, axis.extent, tuple(body), self.origins),)
        return tuple(body)

    def lower(self) -> Lowered:
        rows = self._rows()
        body = self._elementwise() if rows is None else _Tiled(self, *rows).lower()
        kernel = self._kernel(body)
        return Lowered(kernel, tuple(size for _, size in self.extents))

    def _rows(self) -> tuple[Access, Access | None] | None:
        """The operand that the tile's rows are read from, and the other one; None: no tile."""
        operands = [
            Operand(a.name, "".join(t.letter for t in a.steps),
                    {t.letter: t.tap for t in a.steps if t.tap})
            for a in self.reads
        ]  # fmt: skip
        single = [k for k in self.kept if self.sizes[k] == ONE]
        self.innermost = innermost_axis(operands, self.kept, single)
        k = tiled_operand(operands, self.result, self.innermost)
        if k is None:
            return None
        others = [a for a in self.reads if a is not self.reads[k]]
        return self.reads[k], others[0] if others else None

    def _elementwise(self) -> tuple[Stmt, ...]:
        """One accumulator an element: parallel over all results."""
        free = [k for k in self.kept if self.sizes[k] != ONE]
        axes = {k: self.axis(k, self.sizes[k]) for k in (*free, *self.reduced)}
        at = {k: dim(axes[k].name) if k in axes else ZERO for k in self.sizes}
        word = identifier(self.lead.key, self.taken, "a")
        first = self.first
        value: Expr | None = None
        for access in self.reads:
            read = self.read(access, at)
            value = read if value is None else Binary("mul", value, read)
        assert value is not None
        update = Update(word, COMBINE[self.function], value, self.origins)
        summed = self.loops("red", [axes[k] for k in self.reduced], [update])
        self.places, self.sum = at, Ref(word)
        stores = [s for name in self.region.outputs for s in self._store(name)]
        body = (Acc(word, first.dtype, first, self.origins), *summed, *self.row, *stores)
        return self.loops("par", [axes[k] for k in free], body)

    def read(self, access: Access, at: Places) -> Expr:
        """One element of an operand, or what lies outside."""
        index = tuple(s.at(at) if s.size != ONE or s.tap else ZERO for s in access.steps)
        guard = all_of(
            within(i, self.extent_of(s.size))
            for s, i in zip(access.steps, index, strict=True)
            if not s.inside
        )
        return self.element(access, index, guard)

    def element(self, access: Access, index: tuple[Dim, ...], guard: Expr | None) -> Expr:
        """The element of an operand at a place, or what lies outside where the guard fails:
        loaded, or computed here (a prologue)."""
        with self.elsewhere_at(guard):
            value = self.emit(access.name, index)
        if guard is None:
            return value
        if isinstance(value, Load) and access.name not in self.ops:
            return replace(value, other=access.outside)
        return Select(guard, value, Const(access.outside))

    def gathered(self, varying: tuple[Axis, ...]) -> None:
        """From here on, what is computed belongs into a loop over `varying`, or before it."""
        self.varying, self.row, self.row_memo = varying, [], {}
        self.inner, self.inner_memo = [], {}

    def taken_out(self) -> tuple[list[Stmt], list[Stmt]]:
        """What belongs before that loop, and what belongs into it."""
        found = self.row, self.inner or []
        self.row, self.row_memo, self.inner, self.inner_memo = [], {}, None, {}
        return found

class _Tiled:
    """The loops of a tiled contraction: `rows` holds the innermost result axis, `other` not."""

    def __init__(self, group: Contraction, rows: Access, other: Access | None) -> None:
        self.group, self.rows, self.other = group, rows, other
        g, result = group, group.kept[: group.kept.index(group.innermost) + 1]
        others = other.letters if other else frozenset[str]()
        self.x = result[-1]
        above = result[-2] if len(result) > 1 else ""
        shared = above in rows.letters and above not in others
        self.y = above if above and shared else ""
        own = [k for k in result if k in others and k not in rows.letters]
        self.o = own[-1] if own and g.sizes[own[-1]] != ONE else ""
        self.outer = [
            k for k in result if k not in (self.x, self.y, self.o) and g.sizes[k] != ONE
        ]
        self.taps = {s.letter: s for s in rows.steps if s.letter in (self.x, self.y)}
        self.plain = [
            k for k in g.reduced if k not in {s.tap for s in self.taps.values()}
        ]
        outputs = g.sizes[self.o].constant if self.o else 1
        height, length = (g.sizes[k].constant if k else 1 for k in (self.y, self.x))
        below, beside = (self.reach(k) for k in (self.y, self.x))
        self.tile = choose_tile(height, length, below, beside, min(OUTPUTS, outputs or OUTPUTS))
        lengths = [g.sizes[k] for k in self.plain]
        self.phases = {k: self.phase_count(k) for k in (self.y, self.x)}
        phases = dim(self.phases[self.y] * self.phases[self.x])
        deep = product((*lengths, phases)).constant
        weights = product(g.sizes[k] for k in others).constant or 0
        room = FAR if weights > HEAVY else NEAR
        self.tile = stacked(self.tile, height, below, deep, room)
        self.high = self.tile.rows * self.tile.stack
        """Rows of results of a stack."""
        self.below = below
        self.width = dim(self.tile.width)
        self.line = dim(self.tile.line)
        element = g.lead.type.element
        self.sums = identifier("sums", g.taken, "r")
        self.done = identifier("done", g.taken, "r")
        self.loops = False
        """Whether there is a loop over what is reduced: then sums need a place of their own."""
        self.store = identifier("rows", g.taken, "r")
        self.first = g.first
        above = self.high - self.tile.rows + below
        copied = dim(above * self.tile.width + self.tile.line + beside)
        self.copied = copied
        g.scratch += [
            Arg(self.store, "scratch", TensorType(element, (*lengths, phases, copied))),
            Arg(self.sums, "scratch", TensorType(element, (dim(self.tile.outputs), self.line))),
            Arg(self.done, "scratch", TensorType(element, (dim(self.tile.outputs), self.line))),
        ]

    # ---- windows along the tile's two axes

    def reach(self, letter: str) -> int:
        """How many strides past its first place a window reaches."""
        step = self.step(letter)
        if step is None or not step.tap:
            return 0
        size = self.group.sizes[step.tap].constant
        assert size is not None
        return (size - 1) * step.dilation // step.stride

    def step(self, letter: str) -> Step | None:
        return self.rows.step(letter) if letter else None

    def phase_count(self, letter: str) -> int:
        step = self.step(letter)
        return step.stride if step is not None and step.tap else 1

    def used_phases(self, letter: str) -> list[int]:
        """Positions modulo the stride that some place in the window has.

        Along the innermost axis all of a small stride: neighbours are read together.
        """
        step = self.step(letter)
        if step is None or not step.tap:
            return [0]
        if letter == self.x and step.stride <= 4:
            return list(range(step.stride))
        size = self.group.sizes[step.tap].constant or 0
        return sorted({k * step.dilation % step.stride for k in range(size)})

    def offset(self, letter: str, places: Places) -> tuple[Dim, Dim]:
        """(phase, strides) of the place in the window along a letter."""
        step = self.step(letter)
        if step is None or not step.tap:
            return ZERO, ZERO
        at = places[step.tap] * step.dilation
        return at - at // step.stride * step.stride, at // step.stride

    # ---- the nest

    def lower(self) -> tuple[Stmt, ...]:
        g, tile = self.group, self.tile
        at: dict[str, Dim] = dict.fromkeys(g.sizes, ZERO)
        par: list[Axis] = []
        for k in self.outer:
            par.append(g.axis(k, g.sizes[k]))
            at[k] = dim(par[-1].name)
        many = g.sizes[self.o] if self.o else ONE
        tiles = product(dim(g.sizes[k].constant or 1) for k in self.outer) * product(
            ceil_div(g.sizes[k], n)
            for k, n in ((self.y, self.high), (self.x, tile.columns))
            if k
        )
        chunk = self.chunk(many, tiles)
        if chunk is not None:
            par.append(g.axis(f"{self.o}s", dim((many.constant or 0) // chunk)))
            at[self.o] = dim(par[-1].name) * chunk
            many = dim(chunk)
        ragged: list[str] = []
        for k, n in ((self.y, self.high), (self.x, tile.columns)):
            if not k:
                continue
            blocks = ceil_div(g.sizes[k], n)
            if g.sizes[k].exact_div(dim(n)) is None:
                ragged.append(k)
            if blocks != ONE:
                par.append(g.axis(f"{k}s", blocks))
                at[k] = dim(par[-1].name) * n
        g.ragged = tuple(ragged)
        body = [*self.fetch(at), *self.outputs(at, many)]
        if not self.loops:
            g.scratch = [a for a in g.scratch if a.name != self.sums]
        return g.loops("par", par, body)

    def chunk(self, many: Dim, tiles: Dim) -> int | None:
        """Outputs that one task computes, where that is not all of them."""
        count, spread = many.constant, tiles.constant
        if count is None or spread is None or spread >= TASKS:
            return None
        least = max(2 * OUTPUTS, -(-count * spread // TASKS))
        for size in range(least, count):
            if count % size == 0 and size % OUTPUTS == 0:
                return size
        return None

    def fetch(self, at: Places) -> list[Stmt]:
        """Bring what the tile reads into scratch."""
        g, tile = self.group, self.tile
        plain = {k: g.axis(k, g.sizes[k]) for k in self.plain if g.sizes[k] != ONE}
        inside = {**at, **{k: dim(a.name) for k, a in plain.items()}}
        row = g.axis("row", dim(self.high + self.below))
        column = g.axis("at", self.width)
        body: list[Stmt] = []
        first = tuple(dim(plain[k].name) if k in plain else ZERO for k in self.plain)
        phases = self.used_phases(self.x)
        full = dim((self.high + self.below) * tile.width)
        rest = self.copied - full
        downs = self.used_phases(self.y)
        many = len(downs) if downs == list(range(len(downs))) else 1
        phase = g.axis("phase", dim(many))
        for first_down in downs if many == 1 else (0,):
            down = Phase(dim(phase.name) if many > 1 else dim(first_down), first_down, many)
            spots = {
                right: (*first, down.at * self.phases[self.x] + right) for right in phases
            }
            fetched = [self.copied_rows(inside, spots, row, column, down)]
            if rest.constant:
                tail = dim(column.name) + full
                stores = tuple(
                    Store(self.store, (*spot, tail), Const(self.first), g.origins)
                    for spot in spots.values()
                )
                fetched.append(For("vec", column.name, rest, stores, g.origins))
            body += g.loops("seq", [phase] if many > 1 else [], fetched)
        return list(g.loops("seq", list(plain.values()), body))

    def copied_rows(
        self,
        at: Places,
        spots: Mapping[int, tuple[Dim, ...]],
        row: Axis,
        column: Axis,
        down: Phase,
    ) -> Stmt:
        """Rows of the phases that share a row, from neighbouring elements. Where it is known which
        columns lie inside, these are read without a condition, and a few others one by one:

        `if the row lies inside { vec: load;  the edges } if not { vec: outside }`
        """
        g, width = self.group, self.tile.width
        row_guard: list[Expr | None] = []

        def copy(spot_at: Dim, how: str) -> tuple[list[Stmt], list[Stmt]]:
            """What is done before the loops, and the stores of the column at `spot_at` of all
            phases; `how`: outside, inside, any."""
            stores: list[Stmt] = []
            g.gathered((column,))
            for right, spot in spots.items():
                index, guards = self.place(at, dim(row.name), spot_at, down, right)
                own = guards.get(self.x)
                others = all_of(v for k, v in guards.items() if k != self.x)
                row_guard[:] = [others]
                known = spot_at.constant
                if how == "inside" and known is not None and not self.is_inside(known, right):
                    value: Expr = Const(self.rows.outside)
                elif how == "outside":
                    value = Const(self.rows.outside)
                else:
                    guard = {"inside": None, "edge": own}.get(how, all_of(guards.values()))
                    value = g.element(self.rows, index, guard)
                place = dim(row.name) * self.width + spot_at
                stores.append(Store(self.store, (*spot, place), value, g.origins))
            before, within_loop = g.taken_out()
            return before, [*within_loop, *stores]

        def copies(first: int, end: int, how: str) -> tuple[Stmt, ...]:
            """The columns from `first` to before `end`."""
            if end <= first:
                return ()
            before, body = copy(dim(column.name) + first, how)
            return (*before, For("vec", column.name, dim(end - first), tuple(body), g.origins))

        def edge(first: int, end: int) -> tuple[Stmt, ...]:
            if end - first > EDGE:
                return copies(first, end, "edge")
            parts = (copy(dim(k), "inside") for k in range(first, end))
            return tuple(stmt for before, body in parts for stmt in (*before, *body))

        low, high = self.columns_inside(tuple(spots))
        if low >= high:
            return For("seq", row.name, row.extent, copies(0, width, "any"), g.origins)
        body = (*copies(low, high, "inside"), *edge(0, low), *edge(high, width))
        (guard,) = row_guard
        if guard is not None:
            otherwise = If(Unary("not", guard), copies(0, width, "outside"), g.origins)
            body = (If(guard, body, g.origins), otherwise)
        return For("seq", row.name, row.extent, body, g.origins)

    def is_inside(self, column: int, phase: int) -> bool:
        """Whether a column of a plane that is one tile wide lies inside of the array."""
        s = self.step(self.x)
        assert s is not None and s.size.constant is not None and s.before.constant is not None
        return 0 <= column * s.stride + phase - s.before.constant < s.size.constant

    def columns_inside(self, phases: Sequence[int]) -> tuple[int, int]:
        """The columns that lie inside of the array in all phases: from the first to before the
        second; an empty range where that differs from tile to tile, or is not known."""
        s = self.step(self.x)
        assert s is not None
        tiles = ceil_div(self.group.sizes[self.x], self.tile.columns)
        size, before = s.size.constant, s.before.constant
        if tiles != ONE or size is None or before is None:
            return 0, 0
        low = max(max(0, -(-(before - p) // s.stride)) for p in phases)
        high = min((size - 1 + before - p) // s.stride + 1 for p in phases)
        return low, min(high, self.tile.width)

    def place(
        self, at: Places, row: Dim, column: Dim, down: Phase, right: int
    ) -> tuple[tuple[Dim, ...], dict[str, Expr]]:
        """Where the element lies that stands at (row, column) of one phase of the scratch, and for
        letters whose axis it may lie outside of, the condition that it does not."""
        g = self.group
        index: list[Dim] = []
        guards: dict[str, Expr] = {}
        for s in self.rows.steps:
            n = g.extent_of(s.size)
            if s.letter in (self.x, self.y):
                across = column, Phase(dim(right), right)
                along, phase = (row, down) if s.letter == self.y else across
                i = (at[s.letter] + along) * s.stride + phase.at - s.before
                safe = all(self.stays_inside(s, k) for k in phase.all)
            else:
                i, safe = s.at(at), s.inside
            index.append(i if n != ONE or not safe else ZERO)
            if not safe:
                guards[s.letter] = within(i, n)
        return tuple(index), guards

    def stays_inside(self, s: Step, phase: int) -> bool:
        """Whether every element that is fetched along an axis of the tile exists."""
        g, tile = self.group, self.tile
        length = tile.columns if s.letter == self.x else self.high
        blocks, size = ceil_div(g.sizes[s.letter], length).constant, s.size.constant
        before = s.before.constant
        if blocks is None or size is None or before is None:
            return not s.tap and g.sizes[s.letter].exact_div(dim(length)) is not None
        last = (blocks * length - 1 + self.reach(s.letter)) * s.stride + phase - before
        return phase >= before and last < size

    def outputs(self, at: Places, many: Dim) -> list[Stmt]:
        """All outputs of a task: blocks of `tile.outputs`, then those that are left."""
        g, wide = self.group, self.tile.outputs
        if not self.o:
            return self.block(at, 1)
        base = at[self.o]
        axis = g.axis(self.o, many // wide)
        body = self.block({**at, self.o: base + dim(axis.name) * wide}, wide)
        found: list[Stmt] = []
        if many // wide == ONE:
            found = self.block({**at, self.o: base}, wide)
        elif many // wide != ZERO:
            found = [For("seq", axis.name, axis.extent, tuple(body), g.origins)]
        left = many - many // wide * wide
        if left.constant is not None:
            if left.constant:
                found += self.block({**at, self.o: base + many // wide * wide}, left.constant)
            return found
        rest = g.axis(self.o, left)
        body = self.block({**at, self.o: base + many // wide * wide + dim(rest.name)}, 1)
        return [*found, For("seq", rest.name, rest.extent, tuple(body), g.origins)]

    def block(self, at: Places, wide: int) -> list[Stmt]:
        """The sums of a stack of tiles for `wide` outputs, and the tail that stores them."""
        g, tile = self.group, self.tile
        if tile.stack == 1:
            return self.one(at, wide, ZERO)
        t = g.axis("t", dim(tile.stack))
        down = dim(t.name) * tile.rows
        body = self.one({**at, self.y: at[self.y] + down}, wide, down * self.width)
        return [For("seq", t.name, t.extent, tuple(body), g.origins)]

    def one(self, at: Places, wide: int, start: Dim) -> list[Stmt]:
        """The sums of one tile, whose lines begin at `start`."""
        g, tile = self.group, self.tile
        down = g.axis("row", dim(tile.rows))
        right = g.axis("at", dim(tile.columns))
        k = g.axis("k", dim(wide))
        varying = (down, right) if tile.rows > 1 else (right,)
        here = dict(at)
        row = dim(down.name) if tile.rows > 1 else ZERO
        output = dim(k.name) if wide > 1 else ZERO
        here[self.x] = at[self.x] + dim(right.name)
        if self.y:
            here[self.y] = at[self.y] + row
        if self.o:
            here[self.o] = at[self.o] + output
        place = row * self.width + dim(right.name)
        found = self.summed(at, wide, start)
        tail = g.tail(here, Load(self.done, (output, place)), varying)
        return [*found, *(g.loops("seq", [k], tail) if wide > 1 else tail)]

    def unrolled(self, wide: int) -> list[str]:
        """Places in the window that one loop over the line adds up at once, innermost ones.

        For one output all of a small window: each element is loaded for it alone.
        """
        g = self.group
        limit = 16 if wide == 1 else 4
        found: list[str] = []
        count = 1
        for k in reversed(g.reduced):
            size = g.sizes[k].constant or LINE
            if count * size > limit or (k in self.plain and size > 1):
                break
            count *= size
            found.insert(0, k)
        return found

    def summed(self, at: Places, wide: int, start: Dim) -> list[Stmt]:
        """What leaves the sums of a tile in `done`.

        Without a loop over what is reduced they go there at once. With one they are kept in
        `sums`, which no index but constants reaches once its loops are unrolled: in registers.
        """
        g = self.group
        inner = self.unrolled(wide)
        f = g.axis("f", self.line)
        axes = {k: g.axis(k, g.sizes[k]) for k in g.reduced if k not in inner}
        places = {**at, **{k: dim(a.name) for k, a in axes.items()}}
        here = [(dim(k), dim(f.name)) for k in range(wide)]
        first = Const(self.first)
        so_far = [Load(self.sums, spot) if axes else first for spot in here]
        weights, lets, values = self.terms(places, inner, so_far, dim(f.name) + start)

        def vector(buffer: str, values: Sequence[Expr], before: Sequence[Stmt] = ()) -> Stmt:
            stores = [
                Store(buffer, spot, value, g.origins)
                for spot, value in zip(here, values, strict=True)
            ]
            return For("vec", f.name, self.line, (*before, *stores), g.origins)

        if not axes:
            return [*weights, vector(self.done, values, lets)]
        self.loops = True
        added = g.loops("red", list(axes.values()), [*weights, vector(self.sums, values, lets)])
        loads = [Load(self.sums, spot) for spot in here]
        return [vector(self.sums, [first] * wide), *added, vector(self.done, loads)]

    def terms(
        self, at: Places, inner: Sequence[str], so_far: Sequence[Expr], f: Dim
    ) -> tuple[list[Stmt], list[Stmt], list[Expr]]:
        """Sums for each output with the products for all places of `inner` added: what is read
        before the loop over f, what is read in it, and the expressions."""
        g = self.group
        values = list(so_far)
        weights: list[Stmt] = []
        lets: list[Stmt] = []
        element = self.first.dtype
        for taps in self.all_places(inner):
            spot = {**at, **taps}
            each: Expr = self.along(spot, f)
            if len(values) > 1:
                word = identifier("a", g.taken, "a")
                lets.append(Let(word, element, each, g.origins))
                each = Ref(word)
            for k, value in enumerate(values):
                term = each
                if self.other is not None:
                    output = {**spot, self.o: spot[self.o] + k} if self.o else spot
                    weight = identifier("w", g.taken, "w")
                    read = g.read(self.other, output)
                    weights.append(Let(weight, element, read, g.origins))
                    term = Binary("mul", each, Ref(weight))
                values[k] = Binary(COMBINE[g.function], value, term)
        return weights, lets, values

    def all_places(self, letters: Sequence[str]) -> Iterator[dict[str, Dim]]:
        sizes = [self.group.sizes[k].constant or 0 for k in letters]
        for spot in combinations(*map(range, sizes)):
            yield dict(zip(letters, map(dim, spot), strict=True))

    def along(self, places: Places, f: Dim) -> Load:
        """The line of the scratch that a place in the window stands for."""
        down, rows = self.offset(self.y, places)
        right, columns = self.offset(self.x, places)
        phase = down * self.phases[self.x] + right
        at = f + rows * self.width + columns
        return Load(self.store, (*(places[k] for k in self.plain), phase, at))


def all_of(conditions: Iterable[Expr]) -> Expr | None:
    found: Expr | None = None
    for c in conditions:
        found = c if found is None else Binary("and", found, c)
    return found


def _dims(op: Op, name: str) -> tuple[Dim, ...]:
    value = op.get(name)
    assert isinstance(value, tuple)
    return tuple(dim(v) for v in value if isinstance(v, int | Dim))


def find_lead(op: Op) -> Op:
    """The contraction of a group, or its reduction over windows."""
    for inner in op.regions[0].ops:
        if inner.family in ("contract", "reduce"):
            return inner
    raise ValueError(f"%{op.key} holds no contraction")


def lower_contract(name: str, op: Op) -> Lowered:
    """The kernel of a `fused` op of group `contract`. ValueError for one that is not legal."""
    return Contraction(name, op).lower()
