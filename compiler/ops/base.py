"""What an ONNX operator is to the compiler: one row with a type rule and a decomposition.

    OPERATORS = (Operator("LeakyRelu", versions=(1, 6, 16), infer=same_type, decompose=leaky_relu),)

The row serves every opset: `node.opset` says which one the node is read under.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from compiler.ir.builder import Builder
from compiler.ir.dims import Dim, Guard
from compiler.ir.edits import Parameters, parameters
from compiler.ir.graph import Op, Origin, Value, WrongAttribute
from compiler.ir.types import COMPILED, Array, Scalar, TensorType


class Unsupported(Exception):
    """The compiler lacks this form of an operator: a graph break, with a message id."""

    def __init__(self, message: str, **values: str | int | float) -> None:
        super().__init__(f"{message} {values}" if values else message)
        self.message = message
        self.parameters: Parameters = parameters(**values)


class Malformed(Exception):
    """A node that makes no sense under its operator's definition, with a message id."""

    def __init__(self, message: str, **values: str) -> None:
        super().__init__(f"{message} {values}")
        self.message = message
        self.values = values


@contextmanager
def reading() -> Generator[None]:
    """Around a rule of a row: Malformed for attributes and operands that it stumbles over."""
    try:
        yield
    except WrongAttribute as error:
        raise Malformed(
            "model.attribute", attribute=error.attribute, wanted=error.wanted
        ) from error
    except (ArithmeticError, AssertionError, LookupError, TypeError, ValueError) as error:
        raise Malformed("model.node", reason=str(error)) from error


@dataclass(frozen=True)
class Known:
    """The elements of a value of rank 0 or 1 as dimensions, and the guards that they rest on."""

    elements: tuple[Dim, ...]
    guards: tuple[Guard, ...] = ()


def no_array(name: str) -> Array | None:
    """A node without tensor attributes."""
    del name


@dataclass
class NodeView:
    """An ONNX node with all that is known of its inputs.

    `types`: of the inputs, None where absent. `known(k)`: the elements of input k as dimensions,
    where known; asking notes the guards they rest on. `constant(k)`: its array, where known.
    `attribute_array(name)`: the array behind a tensor attribute. `guards` collects what an
    inference rests on. `data`: symbols of sizes that only the data of a run tell.
    """

    op: Op
    opset: int
    types: tuple[TensorType | None, ...]
    known: Callable[[int], tuple[Dim, ...] | None]
    constant: Callable[[int], Array | None]
    attribute_array: Callable[[str], Array | None] = no_array
    guards: list[Guard] = field(default_factory=list[Guard])
    data: frozenset[str] = frozenset()

    @property
    def position(self) -> Origin:
        return min(self.op.origins, default=())

    def type(self, index: int) -> TensorType:
        """The type of a present input; Unsupported when absent or not known."""
        found = self.types[index] if index < len(self.types) else None
        if found is None:
            raise Unsupported("break.input-missing", input=index)
        if not found.known:
            raise Unsupported("break.type-unknown", input=self.op.inputs[index] or "")
        return found

    def has(self, index: int) -> bool:
        return index < len(self.op.inputs) and self.op.inputs[index] is not None

    def scalar(self, name: str) -> Scalar | None:
        value = self.op.get(name)
        return value if isinstance(value, Scalar) else None


Infer = Callable[[NodeView], tuple[TensorType, ...]]
"""Types of the outputs, one each. May raise Unsupported or ShapeMismatch."""

Decompose = Callable[[Builder, NodeView, tuple[Value | None, ...]], tuple[Value, ...]]
"""Tensor ops for a node with inferred types; raises Unsupported for a form it lacks."""

ShapeValue = Callable[[NodeView], tuple[Dim, ...] | None]
"""The elements of the (integer) output as dimensions where the inputs tell them."""


@dataclass(frozen=True)
class Operator:
    """One row: `versions` are the opsets at which the operator's definition changed."""

    name: str
    versions: tuple[int, ...]
    infer: Infer
    decompose: Decompose
    shape_value: ShapeValue | None = None
    domain: str = ""


def require_compiled(*types: TensorType) -> None:
    """Unsupported unless every element type is one that kernels compute with."""
    for t in types:
        if t.element not in COMPILED:
            raise Unsupported("break.dtype", dtype=t.element.value)
