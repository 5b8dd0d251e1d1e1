"""What the rules of fusion know of a graph: who reads what, where, and what each op is to them.

Made once a run; everything the search asks thousands of times is a look-up here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum

from compiler.ir.dims import ZERO, Dim, Guard, product
from compiler.ir.graph import Graph, Op, reads
from compiler.ir.loops import TRANSCENDENTAL
from compiler.ir.shapes import Shape
from compiler.ir.verify import Equalities

from .access import (
    BROADCASTING,
    MOVEMENT,
    Access,
    Index,
    classify,
    hangs_on,
    is_reduction,
    is_unit_reshape,
    merged_axes,
    operand_index,
    squeeze,
)


class Role(Enum):
    """What an op is to fusion."""

    COMPUTE = "compute"
    """Runs in a kernel: belongs to exactly one group."""
    UNIT_VIEW = "unit view"
    """A reshape that only inserts or removes unit axes, or joins axes of a contraction: an alias,
    or a step inside a group."""
    VIEW = "view"
    """Any other reshape: an alias outside the groups."""
    LEAF = "leaf"
    """One literal element: copied into every group that reads it."""
    WINDOW = "window"
    """An index map that only contractions and reductions read: copied into their groups."""
    SOURCE = "source"
    """A weight or a shape vector: an array that is there."""
    LIBRARY = "library"
    """A library call, or a kind that no kernel computes."""


NOTHING_TO_READ = frozenset({"iota"})
CHEAP = MOVEMENT | {"cast", "copy", "iota", "reshape"}
"""Families that may be evaluated again for every element: they cost no arithmetic."""


class Facts:
    """A graph by op position. `size` gives numbers to dimensions, for the cost model; `guards`
    say which dimensions are equal though they look different.
    """

    def __init__(
        self, graph: Graph, size: Callable[[Dim], int], guards: Iterable[Guard] = ()
    ) -> None:
        self.ops: tuple[Op, ...] = graph.ops
        self.types = graph.types()
        self.outputs = frozenset(graph.outputs)
        self.producer = {v.name: i for i, op in enumerate(graph.ops) for v in op.outputs}
        self.users: dict[str, list[int]] = {name: [] for name in self.types}
        for i, op in enumerate(graph.ops):
            for name in dict.fromkeys(reads(op)):
                self.users.setdefault(name, []).append(i)
        self.role = tuple(self._role(op) for op in graph.ops)
        self.anchor = tuple(self._is_anchor(op) for op in graph.ops)
        """By op: whether it has loops of its own, at whose end a group may go on."""
        self.reads = tuple(self._links(i) for i in range(len(graph.ops)))
        self.cheap = tuple(self._is_cheap(op) for op in graph.ops)
        self._size = size
        self._normal = Equalities(guards).normal
        self._solid: dict[str, Shape] = {}
        self._sizes: dict[Dim, int] = {}
        self._bytes: dict[str, Dim | None] = {}

    def _role(self, op: Op) -> Role:
        if op.kind == "const" or (op.kind == "dims" and op.type.rank == 0):
            return Role.LEAF
        if op.kind in ("param", "dims"):
            return Role.SOURCE
        if op.kind == "reshape":
            unit = is_unit_reshape(op, self.types) or self._merges(op)
            return Role.UNIT_VIEW if unit else Role.VIEW
        if len(op.outputs) != 1 or op.regions or not op.type.known:
            return Role.LIBRARY
        if op.family == "window":
            return Role.WINDOW if self._is_absorbed(op) else Role.COMPUTE
        if op.kind == "contract":
            return Role.LIBRARY if op.str("library", "") else Role.COMPUTE
        if not op.inputs:
            return Role.COMPUTE if op.kind in NOTHING_TO_READ else Role.LIBRARY
        opaque = (Access.OPAQUE, Access.CONTRACT)
        if any(classify(op, k, self.types) in opaque for k in range(len(op.inputs))):
            return Role.LIBRARY
        return Role.COMPUTE

    def _merges(self, op: Op) -> bool:
        """Whether a reshape only joins axes of a contraction, of which it is the only reader:
        the groups of a convolution and the outputs in them."""
        name = op.operands[0]
        at = self.producer.get(name)
        if at is None or self.ops[at].kind != "contract" or self.ops[at].str("library", ""):
            return False
        alone = len(self.users[name]) == 1 and name not in self.outputs
        known = op.type.known and self.types[name].known
        return alone and known and bool(merged_axes(self.types[name].dims, op.type.dims))

    def _is_absorbed(self, window: Op) -> bool:
        """Whether all readers are contractions, or reductions over the places in the window."""
        users = [self.ops[u] for u in self.users[window.key]]
        places = len(window.ints("axes") or ())
        inner = tuple(range(window.type.rank - places, window.type.rank))
        return (
            bool(users)
            and window.key not in self.outputs
            and all(
                (op.kind == "contract" and not op.str("library", ""))
                or (op.family == "reduce" and op.ints("axes") == inner and places < op.type.rank)
                for op in users
            )
        )

    def _is_anchor(self, op: Op) -> bool:
        at = self.producer[op.key]
        if self.role[at] is not Role.COMPUTE:
            return False
        return op.family in ("contract", "window") or any(map(self.is_window, op.operands))

    def is_window(self, name: str) -> bool:
        """Whether a value is an absorbed window."""
        at = self.producer.get(name)
        return at is not None and self.role[at] is Role.WINDOW

    def sources(self, i: int) -> tuple[str, ...]:
        """The arrays that an anchor reads, those behind absorbed windows."""
        found: list[str] = []
        for name in self.ops[i].operands:
            inner = self.ops[self.producer[name]].operands if self.is_window(name) else (name,)
            found += (n for n in inner if not self.is_leaf(n))
        return tuple(dict.fromkeys(found))

    def _links(self, i: int) -> tuple[tuple[str, int | None], ...]:
        """The arrays an op reads: (name, None where the index is the result's own, else k)."""
        op = self.ops[i]
        if self.role[i] not in (Role.COMPUTE, Role.UNIT_VIEW) or self.anchor[i]:
            return ()
        links: list[tuple[str, int | None]] = []
        for k, name in enumerate(op.inputs):
            if name is None or self.is_leaf(name):
                continue
            same = op.family in BROADCASTING and self.types[name].shape == op.type.shape
            links.append((name, None if same else k))
        return tuple(dict.fromkeys(links))

    def _is_cheap(self, op: Op) -> bool:
        if op.family in CHEAP:
            return True
        if op.family == "contract":
            return False
        plain = not is_reduction(op) and op.function not in TRANSCENDENTAL
        return plain and op.type.shape is not None and not squeeze(op.type.shape)

    def is_leaf(self, name: str) -> bool:
        at = self.producer.get(name)
        return at is not None and self.role[at] is Role.LEAF

    def index(self, i: int, link: int | None, at: Index, inner: Index) -> Index:
        """Where op `i` reads the operand behind a link when its result is wanted at `at`."""
        if link is None:
            return at
        found = operand_index(self.ops[i], link, self.types, at, inner)
        assert found is not None, f"%{self.ops[i].key} has no index map"
        return found

    def visible(self, name: str, inside: frozenset[int]) -> bool:
        """Whether a value is seen from outside a group: read there, an output, or read nowhere."""
        users = self.users[name]
        return name in self.outputs or not all(self.within(u, inside) for u in users or (-1,))

    def within(self, i: int, inside: frozenset[int]) -> bool:
        """Whether an op is in a group, or an absorbed window that only its members read."""
        window = i >= 0 and self.role[i] is Role.WINDOW
        return i in inside or (window and inside.issuperset(self.users[self.ops[i].key]))

    def solid(self, name: str) -> Shape:
        """The dimensions of a value that are longer than 1, equal ones written alike."""
        found = self._solid.get(name)
        if found is None:
            found = tuple(self._normal(d) for d in squeeze(self.types[name].dims))
            self._solid[name] = found
        return found

    def size(self, value: Dim) -> int:
        """A number for a dimension at the sizes that the cost model assumes."""
        found = self._sizes.get(value)
        if found is None:
            found = self._sizes[value] = self._size(value)
        return found

    def nbytes(self, name: str) -> Dim:
        """Bytes of a value; 0 where its type is unknown or has no fixed size, and for literals."""
        found = self.known_bytes(name)
        return ZERO if found is None else found

    def known_bytes(self, name: str) -> Dim | None:
        """Bytes of a value, 0 for a literal; None where its type is unknown or of no fixed size."""
        if name not in self._bytes:
            type = self.types[name]
            try:
                known = type.nbytes if type.known else None
            except ValueError:
                known = None
            self._bytes[name] = ZERO if self.is_leaf(name) else known
        return self._bytes[name]

    def footprint(self, name: str, indexes: Iterable[Index], domain: Shape) -> Dim:
        """Bytes of the elements read at the given places over a domain, those of different places
        added up, and at most all."""
        whole, places = self.nbytes(name), tuple(indexes)
        for at in places:
            axes = [p.axis for p in at if p.axis is not None]
            if tuple(domain[a] for a in axes) == self.solid(name):
                return whole
        size = ZERO
        for at in places:
            size = size + product(domain[axis] for axis in sorted(hangs_on(at)))
        size = size * self.types[name].element.itemsize
        return size if self.size(size) < self.size(whole) else whole
