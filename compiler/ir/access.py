"""Bytes from access maps: how many elements a kernel must move, and how many it does.

    touched = sum over loads and stores of  prod(extents of the loops around it)
    floor   = | union of images of loads that no earlier store covers |  +  | union of stores |

The image of an index map over its loops is found dimension by dimension. For one dimension

    offset + sum_k c_k * a_k,   0 <= a_k < n_k,

sorted so that a part either continues the stretch so far (c <= length: the length grows by
c*(n-1)) or leaves gaps (c >= span: the count is multiplied by n), the number of values is a closed
form: row-major `i*c + j` gives r*c, a slice `2*i + 1` gives n, a sliding window `i + j` gives
n + k - 1. Where the structure is another, the count is an upper bound and its argument is named in
`Footprint.inexact`: where data tell an index (once for each iteration that tells one), and where a
guard keeps an index inside a buffer (all of that dimension). Proved against the counting
interpreter on small sizes.

Teaches: how little a kernel could move is known before it runs, from its index expressions alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from .dims import ONE, ZERO, Dim, FloorDiv, ceil_div, dim, product
from .loops import (
    Arg,
    Binary,
    Expr,
    For,
    If,
    Index,
    Kernel,
    Let,
    Load,
    Ref,
    Stmt,
    Store,
    as_within,
    expressions,
    walk_expr,
)


@dataclass(frozen=True, slots=True)
class Traffic:
    """Elements of one argument that are read and written."""

    arg: Arg
    reads: Dim
    writes: Dim

    @property
    def nbytes(self) -> Dim:
        return (self.reads + self.writes) * self.arg.type.element.itemsize


@dataclass(frozen=True)
class Footprint:
    """Traffic of every argument, over the kernel's extents; it holds where these are 1 or more.

    (A kernel with an empty loop may move less: row vectors are not read when there is no row.)
    `inexact` names arguments whose counts are only upper bounds.
    """

    arguments: tuple[Traffic, ...]
    inexact: tuple[str, ...] = ()

    @property
    def exact(self) -> bool:
        return not self.inexact

    @property
    def nbytes(self) -> Dim:
        """Bytes read plus bytes written."""
        total = ZERO
        for traffic in self.arguments:
            total = total + traffic.nbytes
        return total

    def of(self, name: str) -> Traffic:
        for traffic in self.arguments:
            if traffic.arg.name == name:
                return traffic
        raise KeyError(f"no argument {name!r}")

    def substitute(self, sizes: Mapping[str, Dim | int]) -> Footprint:
        """With the dimensions of a launch in place of the kernel's extents."""
        placed = tuple(
            Traffic(t.arg, t.reads.substitute(sizes), t.writes.substitute(sizes))
            for t in self.arguments
        )
        return Footprint(placed, self.inexact)


def touched(kernel: Kernel) -> Footprint:
    """Every load and store of the loop tree, scratch included, both branches of a `select`.

    ValueError for a loop whose extent depends on an axis.
    """
    counts: dict[str, list[Dim]] = {arg.name: [ZERO, ZERO] for arg in kernel.args}
    inexact: set[str] = set()
    for access in accesses(kernel):
        box, bounded = _without_guards(access)
        if not bounded:
            inexact.add(access.buffer)
        slot = counts[access.buffer]
        slot[access.store] = slot[access.store] + product(box.free.values())
    found = tuple(Traffic(arg, counts[arg.name][0], counts[arg.name][1]) for arg in kernel.args)
    return Footprint(found, tuple(sorted(inexact)))


def floor(kernel: Kernel) -> Footprint:
    """Elements read before this kernel wrote them, plus elements written, once each.

    Scratch is no memory of the run and is left out. ValueError as `touched`.
    """
    every = accesses(kernel)
    found: list[Traffic] = []
    inexact: list[str] = []
    for arg in kernel.args:
        if arg.mode == "scratch":
            continue
        stores = [a for a in every if a.buffer == arg.name and a.store]
        loads = [
            a
            for a in every
            if a.buffer == arg.name
            and not a.store
            and not any(_covers(s, a) for s in stores)
        ]
        reads, exact_reads = _union([_image(a) for a in loads])
        writes, exact_writes = _union([_image(a) for a in stores])
        clear = all(_never_after(load, store) for load in loads for store in stores)
        if not (exact_reads and exact_writes and clear):
            inexact.append(arg.name)
        found.append(Traffic(arg, reads, writes))
    return Footprint(tuple(found), tuple(inexact))


# ---- accesses in program order ------------------------------------------------------------------


@dataclass(frozen=True)
class Access:
    """A load or store: its indices over axes that are renamed to be unique in the kernel.

    `loops` are the unique axes around it with their extents, outermost first; `guards` the
    conditions around it, each with the number of its `if`; `position` grows in program order;
    `told` are the lets in its indices, each with the axes that its value hangs on.
    """

    buffer: str
    store: bool
    indices: tuple[Dim, ...]
    loops: tuple[tuple[str, Dim], ...]
    guards: tuple[tuple[int, Expr], ...]
    position: int
    told: tuple[tuple[str, frozenset[str]], ...] = ()


def accesses(kernel: Kernel) -> tuple[Access, ...]:
    """All loads and stores of arguments in program order (registers and shared memory are no
    memory of the run). ValueError for an extent over axes."""
    found: list[Access] = []
    counter = 0
    along: dict[str, frozenset[str]] = {}
    arguments = {arg.name for arg in kernel.args}

    def visit(
        body: tuple[Stmt, ...],
        names: Mapping[str, Dim],
        loops: tuple[tuple[str, Dim], ...],
        guards: tuple[tuple[int, Expr], ...],
    ) -> None:
        nonlocal counter

        def add(buffer: str, store: bool, indices: tuple[Dim, ...], guard: Expr | None) -> None:
            nonlocal counter
            if buffer not in arguments:
                return
            around = guards
            if guard is not None:
                counter += 1
                around = (*guards, (counter, _rename(guard, names)))
            at = tuple(d.substitute(names) for d in indices)
            told = sorted({s for d in at for s in d.symbols() if s in along})
            found.append(
                Access(
                    buffer, store, at, loops, around, len(found),
                    tuple((s, along[s]) for s in told),
                )
            )  # fmt: skip

        def hangs_on(value: Expr) -> frozenset[str]:
            """The axes that a value may differ along; an accumulator's, along all around it."""
            used: set[str] = set()
            for e in walk_expr(value):
                if isinstance(e, Ref) and e.name not in names:
                    used.update(axis for axis, _ in loops)
                dims = e.indices if isinstance(e, Load) else ()
                dims = (e.value,) if isinstance(e, Index) else dims
                dims = (names[e.name],) if isinstance(e, Ref) and e.name in names else dims
                used.update(s for d in dims for s in d.substitute(names).symbols() if "#" in s)
            return frozenset[str]().union(*(along.get(s, {s}) for s in used))

        names = dict(names)
        for stmt in body:
            for e in expressions(stmt):
                for node in walk_expr(e):
                    if isinstance(node, Load):
                        add(node.buffer, False, node.indices, node.guard)
            if isinstance(stmt, Let):
                counter += 1
                unique = f"{stmt.name}#{counter}"
                along[unique] = hangs_on(stmt.value)
                names[stmt.name] = dim(unique)
            elif isinstance(stmt, Store):
                add(stmt.buffer, True, stmt.indices, None)
            elif isinstance(stmt, If):
                counter += 1
                condition = _rename(stmt.condition, names)
                visit(stmt.body, names, loops, (*guards, (counter, condition)))
            elif isinstance(stmt, For):
                counter += 1
                unique = f"{stmt.axis}#{counter}"
                extent = stmt.extent.substitute(names)
                if any("#" in s for s in extent.symbols()):
                    raise ValueError(f"kernel @{kernel.name}: the extent {stmt.extent} has an axis")
                inner = {**names, stmt.axis: dim(unique)}
                visit(stmt.body, inner, (*loops, (unique, extent)), guards)

    visit(kernel.body, {}, (), ())
    return tuple(found)


def _rename(condition: Expr, names: Mapping[str, Dim]) -> Expr:
    """A comparison of indices, which most guards are, over unique axes; others stay."""
    match condition:
        case Binary("and", x, y):
            return Binary("and", _rename(x, names), _rename(y, names))
        case Binary(relation, Index(a), Index(b)):
            return Binary(relation, Index(a.substitute(names)), Index(b.substitute(names)))
        case _:
            return condition


# ---- images -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Box:
    """Index expressions over free axes; every other symbol stands for one number, but for those
    `told` by data, which may differ along the given axes."""

    indices: tuple[Dim, ...]
    free: Mapping[str, Dim]
    told: tuple[tuple[str, frozenset[str]], ...] = ()


@dataclass(frozen=True, slots=True)
class _Span:
    """`offset + [0, length) + sum of c*[0, n)` with disjoint steps: one dimension of an image."""

    offset: Dim
    length: Dim
    blocks: tuple[tuple[Dim, Dim], ...] = ()

    @property
    def count(self) -> Dim:
        return self.length * product(n for _, n in self.blocks)

    @property
    def end(self) -> Dim:
        """One past the largest value."""
        last = self.offset + self.length
        for c, n in self.blocks:
            last = last + c * (n - 1)
        return last


@dataclass(frozen=True)
class _Image:
    """What an access reaches: a product of spans, or None where only a bound is known."""

    spans: tuple[_Span, ...] | None
    key: tuple[object, ...]
    count: Dim
    exact: bool


def at_least_zero(d: Dim) -> bool:
    """Whether `d >= 0` is proved for all extents >= 1 and all axes >= 0 (one way only)."""
    return _no_minus(d.substitute({s: dim(s) + 1 for s in d.symbols() if "#" not in s}))


def _no_minus(d: Dim) -> bool:
    """Whether nothing is ever subtracted: then d >= 0 wherever its symbols are."""
    return all(
        coefficient >= 0 and all(isinstance(a, str) or _no_minus(a.numerator) for a in monomial)
        for monomial, coefficient in d.terms
    )


def _affine(d: Dim, free: Mapping[str, Dim]) -> tuple[Dim, dict[str, Dim]] | None:
    """`offset + sum(coefficient * axis)` over the free axes; None for anything else."""
    offset, parts = ZERO, dict[str, Dim]()
    for monomial, coefficient in d.terms:
        axes = [a for a in monomial if isinstance(a, str) and a in free]
        hidden = any(isinstance(a, FloorDiv) and a.numerator.symbols() & free.keys()
                     for a in monomial)
        if hidden or len(axes) > 1:
            return None
        rest = Dim(((tuple(a for a in monomial if a not in axes), coefficient),))
        if axes:
            parts[axes[0]] = parts.get(axes[0], ZERO) + rest
        else:
            offset = offset + rest
    return offset, parts


def _span(d: Dim, free: Mapping[str, Dim]) -> _Span | None:
    """The values of one index expression, or None where their number is not proved."""
    affine = _affine(d, free)
    if affine is None:
        return None
    offset, coefficients = affine
    waiting: list[tuple[Dim, Dim]] = []
    for axis, c in coefficients.items():
        n = free[axis]
        if n == ONE:
            continue
        if at_least_zero(-c):
            offset, c = offset + c * (n - 1), -c
        waiting.append((c, n))
    length, span, blocks = ONE, ONE, list[tuple[Dim, Dim]]()
    while waiting:
        for part in waiting:
            c, n = part
            if not blocks and at_least_zero(length - c) and at_least_zero(c - 1):
                length = span = length + c * (n - 1)
                break
        else:
            for part in waiting:
                c, n = part
                if at_least_zero(c - span):
                    if blocks and blocks[-1][0] * blocks[-1][1] == c:
                        blocks[-1] = (blocks[-1][0], blocks[-1][1] * n)
                    else:
                        blocks.append((c, n))
                    span = span + c * (n - 1)
                    break
            else:
                return None
        waiting.remove(part)
    return _Span(offset, length, tuple(blocks))


def _box_image(box: _Box) -> _Image:
    used: list[str] = []
    for d in box.indices:
        used += [a for a in box.free if a in d.symbols()]
    hung = {a for _, axes in box.told for a in axes if a in box.free}
    distinct = tuple(dict.fromkeys((*used, *sorted(hung))))
    order = {axis: dim(f"{k}#") for k, axis in enumerate(distinct)}
    key = (
        tuple(d.substitute(order) for d in box.indices),
        tuple(box.free[axis] for axis in distinct),
    )
    bound = product(box.free[axis] for axis in distinct)
    if hung:
        return _Image(None, key, bound, False)
    if len(used) == len(distinct):
        spans = [_span(d, box.free) for d in box.indices]
        known = tuple(s for s in spans if s is not None)
        if len(known) == len(spans):
            return _Image(known, key, product(s.count for s in known), True)
        return _Image(None, key, bound, False)
    recovered: set[str] = set()
    for d in box.indices:
        affine = _affine(d, box.free)
        if affine is not None and len(affine[1]) == 1:
            recovered |= affine[1].keys()
    return _Image(None, key, bound, recovered == set(distinct))


def _image(access: Access) -> _Image:
    box, bounded = _without_guards(access)
    box = _clamped(box, access)
    image = _box_image(box)
    return image if bounded else _Image(None, ("at most", *image.key), image.count, False)


def _without_guards(access: Access) -> tuple[_Box, bool]:
    """The box of an access, and whether it is just the iterations in which its guards hold.

    A guard `0 <= a < n` of one axis, of step 1, makes it an axis of extent n: at most so many of
    its iterations are left. A guard `a < n`, where `a` counts through [0, N) with N >= n as its
    axes run, turns these axes into one axis of extent n: the tail of a loop over blocks. Other
    guards are taken as true.
    """
    box = _Box(access.indices, dict(access.loops), access.told)
    bounded = True
    conditions = [c for _, condition in access.guards for c in _conjuncts(condition)]
    for number, condition in enumerate(conditions):
        bounds = as_within(condition)
        if bounds is not None:
            box, bounded = _shifted(box, *bounds, f"guard{number}#"), False
            continue
        reduced = _guarded(box, condition, f"guard{number}#")
        bounded = bounded and reduced is not None
        box = reduced or box
    return box, bounded


def _conjuncts(condition: Expr) -> Iterator[Expr]:
    match condition:
        case Binary("and", x, y) if as_within(condition) is None:
            yield from _conjuncts(x)
            yield from _conjuncts(y)
        case _:
            yield condition


def _shifted(box: _Box, a: Dim, n: Dim, name: str) -> _Box:
    """The box where `0 <= a < n`, at most: `a` is an axis of its own there. The same box where
    `a` is no single axis in steps of 1."""
    affine = _affine(a, box.free)
    if affine is None or len(affine[1]) != 1:
        return box
    offset, ((axis, step),) = affine[0], affine[1].items()
    if step not in (ONE, -ONE) or n.symbols() & box.free.keys():
        return box
    place = {axis: (dim(name) - offset) * step}
    free = {name if k == axis else k: n if k == axis else v for k, v in box.free.items()}
    told = tuple((s, frozenset(name if k == axis else k for k in axes)) for s, axes in box.told)
    return _Box(tuple(d.substitute(place) for d in box.indices), free, told)


def _clamped(box: _Box, access: Access) -> _Box:
    """The box with every index that a guard keeps in [0, n), and that several axes make, as an axis
    of extent n."""
    free, indices = dict(box.free), list(box.indices)
    for number, (_, guard) in enumerate(access.guards):
        for part, condition in enumerate(_conjuncts(guard)):
            bounds = as_within(condition)
            for k, d in enumerate(indices):
                if bounds is not None and d == bounds[0] and len(d.symbols() & free.keys()) > 1:
                    name = f"clamp{number}.{part}#"
                    indices[k], free[name] = dim(name), bounds[1]
    return _Box(tuple(indices), free, box.told)


def _guarded(box: _Box, condition: Expr, name: str) -> _Box | None:
    match condition:
        case Binary("lt", Index(a), Index(n)):
            pass
        case _:
            return None
    axes = [axis for axis in box.free if axis in a.symbols()]
    if not (a.symbols() | n.symbols()) & box.free.keys() and at_least_zero(n - a - 1):
        return box
    span = _span(a, box.free)
    whole = product(box.free[axis] for axis in axes)
    if not axes or span is None or span != _Span(ZERO, whole) or n.symbols() & box.free.keys():
        return None
    sizes = [box.free[axis].constant for axis in axes]
    rounded = any(b and whole == ceil_div(n, b) * b for b in sizes)
    if not rounded and not at_least_zero(whole - n):
        return None
    indices: list[Dim] = []
    for d in box.indices:
        if d.symbols() & set(axes):
            d = d - a + dim(name)
            if d.symbols() & set(axes):
                return None
        indices.append(d)
    free = {axis: extent for axis, extent in box.free.items() if axis not in axes}
    return _Box(tuple(indices), {**free, name: n}, box.told)


# ---- unions and order ---------------------------------------------------------------------------


def _union(images: Sequence[_Image]) -> tuple[Dim, bool]:
    """The number of elements in a union of images, and whether it is exact."""
    kept: list[_Image] = []
    for image in images:
        if all(image.key != other.key for other in kept):
            kept.append(image)
    boxes = _merge([i.spans for i in kept if i.spans is not None])
    opaque = [i for i in kept if i.spans is None]
    total = ZERO
    for spans in boxes:
        total = total + product(s.count for s in spans)
    for image in opaque:
        total = total + image.count
    apart = all(
        _disjoint(a, b) for k, a in enumerate(boxes) for b in boxes[:k]
    )
    if not opaque:
        return total, apart
    return total, len(kept) == 1 and opaque[0].exact


def _merge(boxes: Iterable[tuple[_Span, ...]]) -> list[tuple[_Span, ...]]:
    """Boxes without those inside others; two that differ in one dimension and touch become one."""
    kept = list(dict.fromkeys(boxes))
    while True:
        for k, a in enumerate(kept):
            for b in kept[:k]:
                joined = _join(a, b) or _join(b, a)
                if joined is not None:
                    kept = [joined, *(c for c in kept if c is not a and c is not b)]
                    break
            else:
                continue
            break
        else:
            return kept


def _join(a: tuple[_Span, ...], b: tuple[_Span, ...]) -> tuple[_Span, ...] | None:
    """The union of two boxes where it is a box, a's corner being the lower one."""
    if all(_inside(y, x) for x, y in zip(a, b, strict=True)):
        return a
    different = [k for k, (x, y) in enumerate(zip(a, b, strict=True)) if x != y]
    if len(different) != 1:
        return None
    at = different[0]
    x, y = a[at], b[at]
    in_order = not x.blocks and not y.blocks and at_least_zero(y.offset - x.offset)
    if in_order and at_least_zero(x.end - y.offset) and at_least_zero(y.end - x.end):
        return (*a[:at], _Span(x.offset, y.end - x.offset), *a[at + 1 :])
    return None


def _inside(inner: _Span, outer: _Span) -> bool:
    """Whether every value of `inner` is one of `outer`, proved."""
    if inner == outer:
        return True
    return (
        not outer.blocks
        and at_least_zero(inner.offset - outer.offset)
        and at_least_zero(outer.end - inner.end)
    )


def _disjoint(a: tuple[_Span, ...], b: tuple[_Span, ...]) -> bool:
    return any(
        at_least_zero(x.offset - y.end) or at_least_zero(y.offset - x.end)
        for x, y in zip(a, b, strict=True)
    )


def _common(a: Access, b: Access) -> int:
    """How many outer loops the two accesses share."""
    shared = 0
    for x, y in zip(a.loops, b.loops, strict=False):
        if x != y:
            break
        shared += 1
    return shared


def _inner_box(access: Access, shared: int) -> _Box:
    return _Box(access.indices, dict(access.loops[shared:]), access.told)


def _same_map(a: Access, b: Access) -> bool:
    """Whether two accesses reach the same elements in one iteration of their common loops."""
    shared = _common(a, b)
    keys: list[tuple[object, ...]] = []
    for access in (a, b):
        order = {axis: dim(f"{k}#") for k, (axis, _) in enumerate(access.loops[shared:])}
        keys.append(
            (
                tuple(d.substitute(order) for d in access.indices),
                tuple(extent for _, extent in access.loops[shared:]),
                tuple(_rename(condition, order) for _, condition in access.guards),
            )
        )
    return keys[0] == keys[1]


def _covers(store: Access, load: Access) -> bool:
    """Whether the store has written, in the same iteration of their common loops and before,
    every element that the load reads."""
    if store.position > load.position:
        return False
    inside = set(store.guards) <= set(load.guards)
    if _same_map(store, load) and (inside or _affine_guards(store)):
        return True
    if not inside:
        return False
    shared = _common(store, load)
    written = _box_image(_inner_box(store, shared))
    wanted = _box_image(_inner_box(load, shared))
    if written.spans is None or wanted.spans is None:
        return False
    return all(_inside(x, y) for x, y in zip(wanted.spans, written.spans, strict=True))


def _affine_guards(access: Access) -> bool:
    """Guards over indices alone: equal guards then hold together (data may change between)."""
    return all(
        isinstance(c, Binary) and isinstance(c.x, Index) and isinstance(c.y, Index)
        for _, c in access.guards
    )


def _never_after(load: Access, store: Access) -> bool:
    """Whether no element was stored before this (uncovered) load reads it first.

    True where the images are disjoint, or where every iteration loads its elements before it
    stores the same ones.
    """
    if load.position < store.position and _same_map(load, store):
        return True
    a, b = _image(load), _image(store)
    return a.spans is not None and b.spans is not None and _disjoint(a.spans, b.spans)


def reads_before_writes(kernel: Kernel, source: str, target: str) -> bool:
    """Whether `target` may lie over `source`: every element is read before it is written.

    Proved where each load of the source reaches no element twice over all its loops, and, in each
    iteration of the loops that it shares with a store of the target, the elements that the store
    writes afterwards. False wherever that is not proved.
    """
    try:
        every = accesses(kernel)
    except ValueError:
        return False
    loads = [a for a in every if a.buffer == source and not a.store]
    stores = [a for a in every if a.buffer == target and a.store]
    known = set(kernel.extents)
    return bool(stores) and all(
        _reaches_once(load, known)
        and all(load.position < s.position and _same_map(load, s) for s in stores)
        for load in loads
    )


def _reaches_once(access: Access, known: Collection[str]) -> bool:
    """Whether no two iterations of its loops reach one element; `known` are numbers, not data."""
    loops = dict(access.loops)
    used = {s for d in access.indices for s in d.symbols()}
    image = _image(access)
    exact = image.spans is not None and image.count == product(loops.values())
    return not access.guards and used <= loops.keys() | set(known) and exact
