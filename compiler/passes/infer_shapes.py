"""infer-shapes: the type of every value from the types of the inputs, node by node.

    x: f32[s, 784], W: f32[784, 256]   ⊢   MatMul(x, W): f32[s, 256]

The rows of the operator table are asked first; where there is none, or it cannot tell, onnx's own
inference of the single node; at last what the file declares. A dimension that only data tell is a
new symbol `y.0` that no input carries: a run binds it when the value is there. What cannot be
proved and must hold is a guard.

What the file declares of a value between nodes is a remark: inference overrules it. What it
declares of an output is a promise: where sizes differ it becomes a guard, or an error.

Teaches: shapes flow forward like values, only before there are any.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from compiler.errors import ModelError
from compiler.ir.dims import ZERO, Dim, Guard, Symbol, dim
from compiler.ir.edits import Dims, Edit, Event, Types, parameters, retype
from compiler.ir.graph import Op, Value, reads
from compiler.ir.module import Module
from compiler.ir.printer import print_type
from compiler.ir.shapes import ShapeMismatch
from compiler.ir.types import DType, TensorType
from compiler.ops.base import Malformed, NodeView, Unsupported, reading
from compiler.ops.decomposition import narrowed
from compiler.ops.rules import nonnegative
from compiler.ops.shape_values import Walk
from compiler.ops.table import find
from compiler.ops.views import operator_name

from .base import Context, Pass, Result
from .nodes import all_values, file_of, malformed, node_label

PartialShape = tuple[Dim | None, ...] | None
MOST_ELEMENTS = 1 << 60
"""More can't be addressed with 64 bits, whatever their type."""

Told = tuple[DType | None, PartialShape]


@dataclass(frozen=True)
class InferShapes(Pass):
    """`infer-shapes`: needs the ONNX level."""

    name: ClassVar[str] = "infer-shapes"
    required: ClassVar[bool] = True
    level: ClassVar[str] = "onnx"
    after: ClassVar[tuple[str, ...]] = ("bind-dims",)

    def run(self, module: Module, context: Context) -> Result:
        """One sweep. ModelError names the node whose shapes do not fit, and the dimensions."""
        sweep = _Sweep(module, context)
        for op in module.graph.ops:
            context.check()
            sweep.visit(op)
        events = sweep.finish()
        if not any(e.edits for e in events):
            return Result(module, tuple(events))
        graph = retype(module.graph, sweep.changed)
        after = replace(
            module, graph=graph, dims=tuple(sweep.symbols.values()), guards=sweep.guards
        )
        return Result(after, tuple(events))


@dataclass
class _Sweep:
    """The state of one run; `walk` holds the types so far and what is known of shapes."""

    module: Module
    context: Context
    walk: Walk = field(init=False)
    symbols: dict[str, Symbol] = field(init=False)
    guards: tuple[Guard, ...] = field(init=False)
    changed: dict[str, TensorType] = field(default_factory=dict[str, TensorType])
    events: list[Event] = field(default_factory=list[Event])
    aliases: dict[str, Dim] = field(default_factory=dict[str, Dim])
    promised: frozenset[str] = field(init=False)
    given: frozenset[str] = field(init=False)
    bound: set[str] = field(init=False)
    made: dict[tuple[str, int], str] = field(default_factory=dict[tuple[str, int], str])
    noted: int = field(init=False)

    def __post_init__(self) -> None:
        inputs = self.module.graph.inputs
        self.walk = Walk(self.module, self.context.params, {v.name: v.type for v in inputs})
        self.symbols = {s.name: s for s in self.module.dims}
        self.guards = self.module.guards
        self.noted = len(self.guards)
        self.promised = frozenset(self.module.graph.outputs)
        self.given = frozenset[str]().union(*(v.type.symbols() for v in inputs))
        self.bound = set(self.given)

    def visit(self, op: Op) -> None:
        if op.family != "onnx":
            self.walk.visit(op)
            return
        view = self.walk.view(op)
        try:
            rule, told = self.infer(op, view)
        except Malformed as error:
            raise malformed(op, self.module, self.context, error) from error
        symbols = len(self.symbols)
        found = tuple(
            Value(v.name, self.settle(op, v, dtype, shape))
            for v, (dtype, shape) in zip(op.outputs, told, strict=True)
        )
        view.guards += self.sizes_from_zero(view, found)
        self.note(op, rule, found, view.guards, len(self.symbols) > symbols)
        self.walk.visit(replace(op, outputs=found))

    # ---- what the node tells

    def infer(self, op: Op, view: NodeView) -> tuple[str, list[Told]]:
        """Which rule told, and the types of the results as far as it knows them."""
        row = find(*operator_name(op))
        if row is not None:
            try:
                with reading():
                    types = row.infer(view)
                if narrowed(view.guards, frozenset(self.symbols) - self.given):
                    raise Unsupported("break.size-from-data")
            except Unsupported:
                view.guards.clear()
            except ShapeMismatch as clash:
                raise self.mismatch(op, clash) from clash
            else:
                known: list[Told] = [(t.dtype, t.shape) for t in types[: len(op.outputs)]]
                known += [(None, None)] * (len(op.outputs) - len(known))
                return "infer.row", known
        from compiler.frontend.infer import infer_node  # onnx takes a second to import

        names = dict.fromkeys(reads(op))
        constants = {n: a for n in names if (a := self.walk.constant(n)) is not None}
        types = {n: t for n in names if (t := self.walk.types[n]).dtype is not None}
        with reading():
            told = infer_node(taken(op, view), self.module, self.context.params, types, constants)
        return "infer.library", [(t.dtype, t.shape) for t in told]

    def settle(self, op: Op, v: Value, dtype: DType | None, shape: PartialShape) -> TensorType:
        """The type of one result: what was inferred, completed by what is declared."""
        declared = v.type
        if dtype is not None and declared.dtype not in (None, dtype):
            raise self.broken_promise(op, v, TensorType(dtype, None))
        dtype = dtype or declared.dtype
        claimed = self.claimed(declared)
        if shape is None:
            if claimed is None:
                return TensorType(dtype, None)
            shape = (None,) * len(claimed)
        if claimed is not None and len(claimed) != len(shape):
            self.differs(op, v, TensorType(dtype, self.complete(v, shape, None)))
            claimed = None
        whole = self.complete(v, shape, claimed)
        self.require_sizes(op, v, TensorType(dtype, whole))
        for axis, (d, wanted) in enumerate(zip(shape, claimed or (), strict=False)):
            if d is None or d == wanted:
                continue
            original = (declared.shape or ())[axis].symbol
            if original is not None and self.is_free(original):
                self.aliases[original] = d
            elif v.name not in self.promised or (
                d.constant is not None and wanted.constant is not None
            ):
                self.differs(op, v, TensorType(dtype, whole))
            else:
                position = min(op.origins, default=())
                self.require(Guard(d, "==", wanted, position, "guard.declared"))
        return TensorType(dtype, whole)

    def claimed(self, declared: TensorType) -> tuple[Dim, ...] | None:
        """The declared shape, with symbols that were found to be another dimension replaced."""
        if declared.shape is None:
            return None
        return tuple(d.substitute(self.aliases) for d in declared.shape)

    def is_free(self, symbol: str) -> bool:
        """Whether a symbol is only a name so far: no input carries it, no value has bound it."""
        return symbol not in self.bound and symbol not in self.aliases

    def complete(
        self, v: Value, shape: tuple[Dim | None, ...], claimed: tuple[Dim, ...] | None
    ) -> tuple[Dim, ...]:
        """The shape with unknown dimensions as declared, else as new symbols."""
        whole: list[Dim] = []
        for axis, d in enumerate(shape):
            if d is None:
                d = claimed[axis] if claimed is not None else dim(self.new_symbol(v.name, axis))
                self.bound |= d.symbols()
            whole.append(d)
        return tuple(whole)

    def new_symbol(self, value: str, axis: int) -> str:
        """The symbol of an extent that only data tell."""
        if (value, axis) not in self.made:
            name = f"{value}.{axis}"
            while name in self.bound:
                name += "'"
            self.symbols.setdefault(name, Symbol(name))
            self.made[value, axis] = name
        return self.made[value, axis]

    # ---- what is wrong, and what must hold

    def require(self, guard: Guard) -> None:
        if guard not in self.guards:
            self.guards = (*self.guards, guard)

    def require_sizes(self, op: Op, v: Value, type: TensorType) -> None:
        """No extent is below 0, and 64 bits count the bytes of all elements: else ModelError."""
        count = type.numel.constant
        if any((d.constant or 0) < 0 for d in type.dims) or (count or 0) > MOST_ELEMENTS:
            raise ModelError(
                "model.size", file=file_of(self.module, self.context),
                node=node_label(op, self.module), value=v.name, type=print_type(type),
            )  # fmt: skip

    def sizes_from_zero(self, view: NodeView, found: Iterable[Value]) -> list[Guard]:
        """What must hold so that no extent is below 0, where neither form nor guards tell."""
        told = [g.right - g.left for g in (*self.guards, *view.guards) if g.relation == "<="]
        needed: list[Guard] = []
        for d in dict.fromkeys(d for v in found for d in v.type.shape or ()):
            if not from_zero(d, told):
                needed.append(Guard(ZERO, "<=", d, view.position, "guard.size"))
        return needed

    def mismatch(self, op: Op, clash: ShapeMismatch) -> ModelError:
        shapes = ", ".join(f"{n}: {print_type(self.walk.types[n])}" for n in op.operands)
        return ModelError(
            "model.shape-mismatch", file=file_of(self.module, self.context),
            node=node_label(op, self.module),
            left=str(clash.left), right=str(clash.right), shapes=shapes,
        )  # fmt: skip

    def broken_promise(self, op: Op, v: Value, found: TensorType) -> ModelError:
        return ModelError(
            "model.declared-type", file=file_of(self.module, self.context),
            node=node_label(op, self.module), value=v.name,
            inferred=print_type(found), declared=print_type(v.type),
        )  # fmt: skip

    def differs(self, op: Op, v: Value, found: TensorType) -> None:
        """Declared and inferred shape differ: an error for an output, else a remark."""
        if v.name in self.promised:
            raise self.broken_promise(op, v, found)
        event = Event(
            "infer.declared", v.name, (), "infer.declared",
            parameters(value=v.name, inferred=print_type(found), declared=print_type(v.type)),
        )  # fmt: skip
        if event not in self.events:
            self.events.append(event)

    # ---- events

    def note(
        self, op: Op, rule: str, found: tuple[Value, ...], needed: Iterable[Guard], grown: bool
    ) -> None:
        """The event of one node: new types, guards and symbols."""
        for guard in dict.fromkeys(needed):
            self.require(guard)
        types = tuple(
            (new.name, new.type)
            for old, new in zip(op.outputs, found, strict=True)
            if new.type != old.type
        )
        self.changed.update(types)
        edits: list[Edit] = []
        if grown or len(self.guards) > self.noted:
            edits.append(Dims(tuple(self.symbols.values()), self.guards))
            self.noted = len(self.guards)
        if types:
            edits.append(Types(types))
        told = all(v.type.known for v in found)
        if edits or not told:
            self.events.append(
                Event(
                    rule, op.key, tuple(edits), rule if told else "infer.unknown",
                    parameters(
                        node=node_label(op, self.module),
                        types=", ".join(print_type(v.type) for v in found),
                    ),
                )
            )  # fmt: skip

    def finish(self) -> list[Event]:
        """All events, with a last one that drops symbols which no type and no guard uses."""
        used: set[str] = set()
        for v in all_values(self.module.graph):
            used |= self.changed.get(v.name, v.type).symbols()
        for guard in self.guards:
            used |= guard.symbols()
        kept = {name: s for name, s in self.symbols.items() if name in used}
        gone = [name for name in self.symbols if name not in kept]
        if gone:
            self.symbols = kept
            self.events.append(
                Event(
                    "infer.symbols", self.module.name, (Dims(tuple(kept.values()), self.guards),),
                    "infer.symbols", parameters(symbols=", ".join(gone)),
                )
            )  # fmt: skip
        return self.events


def from_zero(value: Dim, rooms: Sequence[Dim]) -> bool:
    """Whether a dimension is at least 0, as far as its form and what is at least 0 tell."""
    if any(nonnegative(value - room) for room in (ZERO, *rooms)):
        return True
    return all(
        factor >= 0 and all(isinstance(a, str) or from_zero(a.numerator, rooms) for a in atoms)
        for atoms, factor in value.terms
    )


def taken(op: Op, view: NodeView) -> Op:
    """An If of which the condition is known, with the branch that is taken as both; else the op."""
    condition = view.known(0) if operator_name(op) == ("", "If") else None
    if condition is None or len(condition) != 1 or condition[0].constant is None:
        return op
    branch = op.int("then_branch_region" if condition[0].constant else "else_branch_region", 0)
    return op.with_attrs(then_branch_region=branch, else_branch_region=branch)
