"""The graph: an ordered tuple of named equations in static single assignment form.

    %y, %z = kind %a, %b {attrs} : types  @[origins]

Operands are names; a type stands once, at the definition. The same classes serve ONNX operators
(`onnx.Conv`), tensor primitives (`map.add`), groups (`fused`) and launches (`launch`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from .types import Attr, Attrs, Scalar, TensorType

Origin = tuple[int, ...]
"""The position of an ONNX node: `(3,)`, or a path into subgraphs and functions: `(3, 0, 2)`."""

Origins = frozenset[Origin]
NO_ORIGINS: Origins = frozenset()


@dataclass(frozen=True, slots=True)
class Value:
    """A name and its type."""

    name: str
    type: TensorType


class WrongAttribute(KeyError):
    """An attribute that an op must have is missing, or of another type than `wanted`, which is
    ONNX's word for it: INT, INTS, STRING or FLOAT."""

    def __init__(self, op: Op, attribute: str, wanted: str) -> None:
        super().__init__(f"{op.kind} of %{op.key} has no attribute {attribute!r} of type {wanted}")
        self.attribute = attribute
        self.wanted = wanted


@dataclass(frozen=True)
class Op:
    """One equation. `inputs` are names, None where an optional input is absent.

    Every op has at least one output; the first output's name is the op's key.
    """

    kind: str
    inputs: tuple[str | None, ...]
    outputs: tuple[Value, ...]
    attrs: Attrs = ()
    regions: tuple[Graph, ...] = ()
    origins: Origins = NO_ORIGINS

    @property
    def key(self) -> str:
        return self.outputs[0].name

    @property
    def type(self) -> TensorType:
        """The type of the first output."""
        return self.outputs[0].type

    @property
    def operands(self) -> tuple[str, ...]:
        """The inputs that are present."""
        return tuple(name for name in self.inputs if name is not None)

    @property
    def family(self) -> str:
        """`map` of `map.add`; `onnx` of `onnx.Conv`."""
        return self.kind.partition(".")[0]

    @property
    def function(self) -> str:
        """`add` of `map.add`; empty for a kind without a dot."""
        return self.kind.partition(".")[2]

    def get(self, name: str) -> Attr | None:
        for key, value in self.attrs:
            if key == name:
                return value
        return None

    def int(self, name: str, default: int | None = None) -> int:
        value = self.get(name)
        if isinstance(value, int):
            return value
        if value is None and default is not None:
            return default
        raise WrongAttribute(self, name, "INT")

    def ints(self, name: str) -> tuple[int, ...] | None:
        value = self.get(name)
        if value is None:
            return None
        found = tuple(v for v in value if isinstance(v, int)) if isinstance(value, tuple) else None
        if found != value:
            raise WrongAttribute(self, name, "INTS")
        return found

    def str(self, name: str, default: str | None = None) -> str:
        value = self.get(name)
        if isinstance(value, str):
            return value
        if value is None and default is not None:
            return default
        raise WrongAttribute(self, name, "STRING")

    def float(self, name: str, default: float | None = None) -> float:
        value = self.get(name)
        if isinstance(value, Scalar):
            return float(value.value())
        if value is None and default is not None:
            return default
        raise WrongAttribute(self, name, "FLOAT")

    def with_attrs(self, **changes: Attr) -> Op:
        merged = {**dict(self.attrs), **changes}
        return replace(self, attrs=tuple(sorted(merged.items())))


@dataclass(frozen=True)
class Graph:
    """Inputs (typed), outputs (names of values), ops in program order.

    `names` are the outputs' names towards the outside: a rewrite may rename the value that an
    output shows, never the output. Empty for regions.
    """

    inputs: tuple[Value, ...] = ()
    outputs: tuple[str, ...] = ()
    ops: tuple[Op, ...] = ()
    names: tuple[str, ...] = ()

    @property
    def results(self) -> tuple[tuple[str, str], ...]:
        """(outside name, value) of every output."""
        return tuple(zip(self.names or self.outputs, self.outputs, strict=True))

    def producer(self) -> dict[str, Op]:
        """value name -> op that defines it (graph inputs have none)."""
        return {v.name: op for op in self.ops for v in op.outputs}

    def types(self) -> dict[str, TensorType]:
        found = {v.name: v.type for v in self.inputs}
        for op in self.ops:
            for v in op.outputs:
                found[v.name] = v.type
        return found

    def users(self) -> dict[str, list[Op]]:
        """value name -> ops that read it, in program order; also reads inside regions."""
        found: dict[str, list[Op]] = {v.name: [] for v in self.inputs}
        for op in self.ops:
            for v in op.outputs:
                found.setdefault(v.name, [])
            for name in dict.fromkeys(reads(op)):
                found.setdefault(name, []).append(op)
        return found

    def walk(self) -> Iterator[Op]:
        """All ops, those of regions after the op that holds them."""
        for op in self.ops:
            yield op
            for region in op.regions:
                yield from region.walk()


def reads(op: Op) -> tuple[str, ...]:
    """Names an op reads from around it: operands, and what its regions capture."""
    if not op.regions:
        return op.operands
    names = list(op.operands)
    for region in op.regions:
        inner = {v.name for v in region.inputs}
        for sub in region.ops:
            names += [n for n in reads(sub) if n not in inner]
            inner |= {v.name for v in sub.outputs}
        names += [n for n in region.outputs if n not in inner]
    return tuple(names)


@dataclass(frozen=True, slots=True)
class Node:
    """An ONNX node that origins refer to: position, its name (may be empty), `domain.Op`."""

    position: Origin
    name: str
    op: str


@dataclass(frozen=True, slots=True)
class Param:
    """A weight: its type and the digest of its array in the store."""

    name: str
    type: TensorType
    digest: str


def format_origin(origin: Origin) -> str:
    return "n" + ".".join(str(i) for i in origin)
