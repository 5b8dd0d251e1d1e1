"""The history of a compile for a viewer: every state of the module, down to single rewrites.

    state(p, k) = fold(apply, before(p), first k events of p)

A state is a list of *chunks*: the header, the graph's head, one a top-level op, kernel, plan and
source. A chunk holds its lines of text and its nodes of the graph, and is stored once however many
states share it; a state is stored as splices `[at, removed, [added…]]` of the one before it.
Folding the splices in the viewer is folding `apply` over the events (tested for every pass).

Nodes name the values they read and make; who feeds whom follows from the state as a whole, and so
does how a constant reads in the label of the op that uses it. So a chunk never changes because
something else did.

Teaches: a compile is a film, and its frames share almost everything.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from compiler.ir.dims import format_dim
from compiler.ir.edits import apply
from compiler.ir.graph import Graph, Op, Origins, Value, format_origin
from compiler.ir.module import EMPTY, Module
from compiler.ir.printer import (
    Line,
    Part,
    PartPrinter,
    common_ends,
    print_attr,
    print_attrs,
    print_type,
)
from compiler.ir.types import KernelRef, ParamRef, TensorType
from compiler.trace import Json, PassRecord

CONSTANTS = ("const", "dims")
"""Kinds that are shown in the label of the ops that read them."""


def history(records: Sequence[PassRecord]) -> dict[str, Json]:
    """`{schema, chunks, first, passes}`: `passes[p].steps[k]` are the splices of event k.

    `first` is the state before the first pass, as indices into `chunks`.
    """
    film = _Film()
    film.show(records[0].before if records else EMPTY)
    start = list(film.state)
    passes: list[Json] = []
    for record in records:
        module = record.before
        steps: list[Json] = []
        for event in record.events:
            for edit in event.edits:
                module = apply(module, edit)
            steps.append(film.show(module) if event.edits else [])
        passes.append({"name": record.name, "level": record.level, "steps": steps})
    return {"schema": 1, "chunks": film.chunks, "first": start, "passes": passes}


def splices(before: Sequence[int], after: Sequence[int], offset: int = 0) -> list[Json]:
    """`[at, removed, [added…]]` that turn one list into the other, one after the other.

    Common ends are left alone; what lies between is cut where both lists share an element that
    stands once in each, in the same order. `offset`: where both stand in longer lists.
    """
    start, stop = 0, min(len(before), len(after))
    while start < stop and before[start] == after[start]:
        start += 1
    end = 0
    while end < stop - start and before[-1 - end] == after[-1 - end]:
        end += 1
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    if not old and not new:
        return []
    found: list[Json] = []
    place = {chunk: k for k, chunk in enumerate(new)}
    at, reached, pending = offset + start, 0, 0
    for chunk in old:
        k = place.get(chunk, -1)
        if k < reached:
            pending += 1
            continue
        if pending or k > reached:
            found.append([at, pending, list(new[reached:k])])
        at, reached, pending = at + (k - reached) + 1, k + 1, 0
    if pending or reached < len(new):
        found.append([at, pending, list(new[reached:])])
    return found


def expand(document: Mapping[str, Json], upto: int, events: int | None = None) -> list[int]:
    """The state after `events` events of pass `upto` (all of them: None), by the splices alone."""
    state = list(_ints(document["first"]))
    passes = document["passes"]
    assert isinstance(passes, Sequence) and not isinstance(passes, str)
    for p, done in enumerate(passes[: upto + 1]):
        assert isinstance(done, Mapping)
        steps = done["steps"]
        assert isinstance(steps, Sequence) and not isinstance(steps, str)
        for step in steps[: events if p == upto else None]:
            assert isinstance(step, Sequence) and not isinstance(step, str)
            for splice in step:
                assert isinstance(splice, Sequence) and not isinstance(splice, str)
                at, removed, added = splice
                assert isinstance(at, int) and isinstance(removed, int)
                state[at : at + removed] = _ints(added)
    return state


def _ints(value: Json) -> list[int]:
    assert isinstance(value, Sequence) and not isinstance(value, str)
    return [v for v in value if isinstance(v, int)]


class _Film:
    """Chunks by content, and the state that is shown."""

    def __init__(self) -> None:
        self.chunks: list[Json] = []
        self.state: list[int] = []
        self._printer = PartPrinter()
        self._parts: tuple[Part, ...] = ()
        self._known: dict[str, int] = {}
        self._of: dict[int, tuple[Part, int]] = {}

    def show(self, module: Module) -> list[Json]:
        """The splices from the state that was shown to this one."""
        parts = self._printer.parts(module)
        start, end = common_ends(self._parts, parts)
        stop = len(self._parts) - end
        old, new = self.state[start:stop], [*map(self._number, parts[start : len(parts) - end])]
        self.state[start:stop], self._parts = new, parts
        return splices(old, new, start)

    def _number(self, part: Part) -> int:
        known = self._of.get(id(part))
        return known[1] if known is not None else self._chunk(part)

    def _chunk(self, part: Part) -> int:
        made = chunk(part)
        text = json.dumps(made, sort_keys=True)
        number = self._known.setdefault(text, len(self.chunks))
        if number == len(self.chunks):
            self.chunks.append(made)
        self._of[id(part)] = (part, number)
        return number


# ---- chunks --------------------------------------------------------------------------------------


def chunk(part: Part) -> dict[str, Json]:
    """`{section, key, lines, nodes, groups, constants}`; empty ones are left out."""
    nodes: list[Json] = []
    groups: list[Json] = []
    constants: dict[str, Json] = {}
    match part.of:
        case Graph() as graph:
            nodes += _ends(graph)
        case Op() as op:
            _visit(op, "", nodes, groups, constants)
        case _:
            pass
    found: dict[str, Json] = {
        "section": part.section,
        "key": _key(part),
        "lines": [_line(line) for line in part.lines],
    }
    for name, value in (("nodes", nodes), ("groups", groups), ("constants", constants)):
        if value:
            found[name] = value
    return found


def _key(part: Part) -> str:
    of = part.of
    if isinstance(of, Op):
        return of.key
    return part.lines[0].key if part.section in ("kernel", "source") else ""


def _line(line: Line) -> Json:
    found: dict[str, Json] = {"text": line.text}
    if line.key:
        found["key"] = line.key
    if line.origins:
        found["origins"] = origins_json(line.origins)
    return found


def origins_json(origins: Origins) -> list[Json]:
    """Positions of ONNX nodes as text, `n3`, in order."""
    return [format_origin(o) for o in sorted(origins)]


def _ends(graph: Graph) -> Iterable[Json]:
    """Inputs and outputs of the graph are nodes, so that they have edges."""
    for v in graph.inputs:
        yield {"key": v.name, "kind": "input", "type": print_type(v.type), "outs": [_value(v)]}
    for value, name in zip(graph.outputs, graph.names or graph.outputs, strict=True):
        yield {"key": f"output {name}", "kind": "output", "label": name, "ins": [value]}


def _visit(
    op: Op, group: str, nodes: list[Json], groups: list[Json], constants: dict[str, Json]
) -> None:
    if op.kind in CONSTANTS:
        constants.update((v.name, _constant(op)) for v in op.outputs)
        return
    if op.kind == "fused":
        groups.append({
            "key": op.key,
            "ins": list(dict.fromkeys(op.operands)),
            "outs": [_value(v) for v in op.outputs],
            "origins": origins_json(op.origins),
        })  # fmt: skip
        for inner in op.regions[0].ops:
            _visit(inner, op.key, nodes, groups, constants)
        return
    found: dict[str, Json] = {
        "key": op.key,
        "kind": op.kind,
        "type": print_type(op.type),
        "ins": list(dict.fromkeys(op.operands)),
        "outs": [_value(v) for v in op.outputs],
        "origins": origins_json(op.origins),
    }
    kernel, param = op.get("kernel"), op.get("param")
    if group:
        found["group"] = group
    if isinstance(kernel, KernelRef):
        found["kernel"] = kernel.name
    if isinstance(param, ParamRef):
        found["param"] = param.name
    attrs = tuple(a for a in op.attrs if not isinstance(a[1], KernelRef | ParamRef))
    if attrs:
        found["attrs"] = print_attrs(attrs, op.kind)
    nodes.append(found)


def _value(v: Value) -> Json:
    return {"name": v.name, "type": print_type(v.type), "bytes": _bytes(v.type)}


def _bytes(type: TensorType) -> str | None:
    """The polynomial of a value's bytes; None where the type does not tell."""
    if not type.known or type.element.value == "string":
        return None
    return format_dim(type.nbytes)


def _constant(op: Op) -> str:
    value = op.get("value")
    if value is not None and not isinstance(value, tuple):
        return print_attr(value)
    values = op.get("values")
    return "[…]" if values is None else print_attr(values, dimension=True)
