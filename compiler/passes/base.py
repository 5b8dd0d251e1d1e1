"""What a pass is: a frozen dataclass with options, from a module to a module, with events.

    run(module, context) -> Result(module, events, decisions)

A pass changes nothing in place and returns the same module when it did nothing. The default
`run` sweeps the graph once in program order with `rewrite(op, view)`, applying every match.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, ClassVar

from compiler.fusion.decisions import ASSUMED, Decision
from compiler.ir.constants import constant_of
from compiler.ir.dims import Dim, Guard
from compiler.ir.edits import Dims, Edit, Event, Ops, Parameters, Params, rename_op
from compiler.ir.graph import Graph, Op, Origins, Param, Value, format_origin, reads
from compiler.ir.machine import TEST_MACHINE, MachineProfile
from compiler.ir.module import Module
from compiler.ir.names import Names
from compiler.ir.params import ParamStore
from compiler.ir.types import Array, TensorType

if TYPE_CHECKING:
    from compiler.frontend.load import OnnxModel


class Cancelled(Exception):
    """The caller asked the compile to stop."""


class PassError(Exception):
    """A pass found its input or its own work broken: names the pass, the op and its origin."""

    def __init__(self, name: str, message: str, where: str = "", origins: Origins = frozenset()):
        at = ", ".join(format_origin(o) for o in sorted(origins))
        super().__init__(f"{name}: {message}" + (f" (at %{where} [{at}])" if where else ""))
        self.name, self.where, self.origins = name, where, origins


@dataclass
class Blobs:
    """What `build` made, by digest: object files, LLVM and assembly text."""

    data: dict[str, bytes] = field(default_factory=dict[str, bytes])


@dataclass(frozen=True, slots=True)
class Built:
    """What compiling one kernel gave: its native symbol, object file, LLVM and assembly text.

    For a GPU the object is a cubin, and the assembly PTX.
    """

    symbol: str
    object: bytes
    llvm: str
    assembly: str


@dataclass(frozen=True)
class Context:
    """What passes may know beside the module.

    `numerics` is `default` or `strict`; `sizes` the sizes that the cost model assumes for
    symbols; `pin` the symbols bound at compile time; `model` what `import` reads; `built` the
    kernels compiled so far, by source symbol; `progress` is told (phase, done, of). `capability`
    is that of the GPU to compile for, where `target` is one.
    """

    params: ParamStore = field(default_factory=ParamStore)
    machine: MachineProfile = TEST_MACHINE
    numerics: str = "default"
    target: str = "cpu"
    capability: tuple[int, int] = (9, 0)
    sizes: Mapping[str, int] = field(default_factory=dict[str, int])
    pin: Mapping[str, int] = field(default_factory=dict[str, int])
    names: Names = field(default_factory=Names)
    blobs: Blobs = field(default_factory=Blobs)
    built: dict[str, Built] = field(default_factory=dict[str, Built])
    cancel: threading.Event = field(default_factory=threading.Event)
    progress: Callable[[str, int, int], None] | None = None
    model: OnnxModel | None = None

    def check(self) -> None:
        """Raise `Cancelled` when the caller asked to stop."""
        if self.cancel.is_set():
            raise Cancelled

    @property
    def strict(self) -> bool:
        return self.numerics == "strict"

    @property
    def gpu(self) -> bool:
        return self.target != "cpu"

    def size(self, value: Dim) -> int:
        """A number for a dimension under the assumed sizes."""
        return value.evaluate({s: self.sizes.get(s, ASSUMED) for s in value.symbols()})


@dataclass(frozen=True)
class Result:
    module: Module
    events: tuple[Event, ...] = ()
    decisions: tuple[Decision, ...] = ()


@dataclass(frozen=True)
class Rewrite:
    """Replace the op at hand by `ops`, then rename values; `ops` may be empty.

    A result that keeps its name is made by one of `ops` under that name.
    """

    rule: str
    message: str
    parameters: Parameters = ()
    ops: tuple[Op, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    guards: tuple[Guard, ...] = ()
    params: tuple[Param, ...] = ()


@dataclass(frozen=True)
class Refusal:
    """The rule looked at the op and let it be, for a reason worth telling."""

    rule: str
    message: str
    parameters: Parameters = ()


class View:
    """The state of a sweep: producers, users, types, constants of the graph as it stands now."""

    def __init__(self, module: Module, context: Context) -> None:
        self.module = module
        self.context = context
        graph = module.graph
        self._producer = graph.producer()
        self._types = graph.types()
        self._users: dict[str, set[str]] = {}
        self._outputs = list(graph.outputs)
        for op in graph.ops:
            self._add_reads(op)

    def _add_reads(self, op: Op) -> None:
        for name in reads(op):
            self._users.setdefault(name, set()).add(op.key)

    def producer(self, name: str) -> Op | None:
        """The op that defines a value; None for a graph input."""
        return self._producer.get(name)

    def users(self, name: str) -> frozenset[str]:
        """Keys of the ops that read a value."""
        return frozenset(self._users.get(name, ()))

    def is_output(self, name: str) -> bool:
        return name in self._outputs

    def type(self, name: str) -> TensorType:
        return self._types[name]

    def value(self, name: str) -> Value:
        return Value(name, self._types[name])

    def values(self, op: Op) -> list[Value | None]:
        return [self.value(n) if n is not None else None for n in op.inputs]

    def constant(self, name: str | None) -> Array | None:
        """The array behind a `const`, a `param` or a `dims` without symbols, else None."""
        op = self._producer.get(name) if name is not None else None
        return constant_of(op, self.module, self.context.params) if op is not None else None

    def known_dims(self, name: str | None) -> tuple[Dim, ...] | None:
        """The elements of an integer vector or scalar known as dimensions, else None."""
        op = self._producer.get(name) if name is not None else None
        if op is None:
            return None
        if op.kind == "dims":
            values = op.get("values")
            assert isinstance(values, tuple)
            return tuple(v for v in values if isinstance(v, Dim))
        array = constant_of(op, self.module, self.context.params)
        if array is None or array.dtype.kind not in "iu" or array.ndim > 1 or array.size > 64:
            return None
        from compiler.ir.dims import dims as make_dims

        return make_dims(int(v) for v in array.reshape(-1))

    def replaced(self, op: Op, rewrite: Rewrite) -> None:
        """Take note that `op` became `rewrite`."""
        for name in reads(op):
            self._users.get(name, set[str]()).discard(op.key)
        for v in op.outputs:
            self._producer.pop(v.name, None)
        renamed = dict(rewrite.renamed)
        for old, new in rewrite.renamed:
            self._users.setdefault(new, set()).update(self._users.pop(old, set()))
        self._outputs = [renamed.get(n, n) for n in self._outputs]
        for new in rewrite.ops:
            for v in new.outputs:
                self._producer[v.name] = new
                self._types[v.name] = v.type
            self._add_reads(new)
        if rewrite.params:
            self.module = replace(self.module, params=(*self.module.params, *rewrite.params))

    def updated(self, op: Op) -> None:
        """Take note of an op whose operands were renamed."""
        for v in op.outputs:
            self._producer[v.name] = op


Option = int | str | bool | tuple[str, ...]


@dataclass(frozen=True)
class Pass:
    """Base of all passes. Options are the dataclass fields of the subclass.

    `required`: cannot be dropped; `inexact`: changes rounding (off in strict numerics);
    `unit`: what the result counts (`ops`, `kernels`, `steps`, `sources`); `after`: passes that
    must stand earlier in a pipeline.
    """

    name: ClassVar[str] = ""
    required: ClassVar[bool] = False
    inexact: ClassVar[bool] = False
    unit: ClassVar[str] = "ops"
    level: ClassVar[str] = "tensor"
    after: ClassVar[tuple[str, ...]] = ()

    def options(self) -> tuple[tuple[str, Option], ...]:
        """Options that differ from their defaults."""
        found: list[tuple[str, Option]] = []
        for f in fields(self):
            value: Option = getattr(self, f.name)
            if value != f.default:
                found.append((f.name, value))
        return tuple(found)

    def run(self, module: Module, context: Context) -> Result:
        """One sweep of `rewrite` over the graph in program order."""
        view = View(module, context)
        context.names.reserve(module.graph.types())
        events: list[Event] = []
        done: list[Op] = []
        renamed: dict[str, str] = {}
        guards = module.guards
        params = module.params
        for original in module.graph.ops:
            context.check()
            op = rename_op(original, renamed) if renamed else original
            if op is not original:
                view.updated(op)
            outcome = self.rewrite(op, view)
            if outcome is None:
                done.append(op)
                continue
            if isinstance(outcome, Refusal):
                done.append(op)
                events.append(
                    Event(outcome.rule, op.key, (), outcome.message, outcome.parameters)
                )
                continue
            edits: list[Edit] = []
            fresh = tuple(g for g in outcome.guards if g not in guards)
            if fresh:
                guards = (*guards, *fresh)
                edits.append(Dims(module.dims, guards))
            if outcome.params:
                params = (*params, *outcome.params)
                edits.append(Params((), outcome.params))
            at = len(done)
            edits.append(Ops(
                removed=(op.key,),
                added=tuple((at + k, new) for k, new in enumerate(outcome.ops)),
                renamed=outcome.renamed,
            ))
            done += outcome.ops
            for old, new in outcome.renamed:
                renamed[old] = new
            view.replaced(op, outcome)
            events.append(
                Event(outcome.rule, op.key, tuple(edits), outcome.message, outcome.parameters)
            )
        if not any(e.edits for e in events):
            return Result(module, tuple(events))
        outputs = tuple(renamed.get(n, n) for n in module.graph.outputs)
        graph = Graph(module.graph.inputs, outputs, tuple(done), module.graph.names)
        after = replace(module, graph=graph, guards=guards, params=params)
        return Result(after, tuple(events))

    def rewrite(self, op: Op, view: View) -> Rewrite | Refusal | None:
        """What to do with one op; None: nothing to say. Only for passes that sweep."""
        raise NotImplementedError(self.name)


def adopt_names(
    op: Op, made: list[Op], results: tuple[Value, ...]
) -> tuple[tuple[Op, ...], tuple[tuple[str, str], ...]]:
    """Give the results of a decomposition the names of the op they replace.

    A result that one of `made` produces takes the op's output name; a result that is an existing
    value (or the same value twice) becomes a renaming. Returns the ops and the renamings.
    """
    local = {v.name for m in made for v in m.outputs}
    taken: dict[str, str] = {}
    renamed: list[tuple[str, str]] = []
    for output, result in zip(op.outputs, results, strict=True):
        if result.name in local and result.name not in taken:
            taken[result.name] = output.name
        else:
            renamed.append((output.name, taken.get(result.name, result.name)))
    out: list[Op] = []
    for m in made:
        new = rename_op(m, taken)
        outputs = tuple(Value(taken.get(v.name, v.name), v.type) for v in new.outputs)
        out.append(replace(new, outputs=outputs))
    return tuple(out), tuple(renamed)
