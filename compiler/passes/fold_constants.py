"""fold-constants: an op whose operands are all constants is run now, and its result kept.

    f(c₁, …, cₙ)  becomes  the array f(c₁, …, cₙ)        unless that array is large and new

One element becomes `const`, an int64 vector `dims`, anything else a `param` of its own. Results of
more than 65,536 elements are kept only where they are no larger than the operands. In strict
numerics only functions that NumPy and a kernel compute alike, bit for bit, are folded.

Teaches: folding is running the program early; what it may cost is memory, or a last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from compiler.ir.constants import constant_of
from compiler.ir.dims import dims
from compiler.ir.edits import parameters
from compiler.ir.graph import Op, Origins, Param, Value
from compiler.ir.interpret.tensor import InterpretError, run_op
from compiler.ir.names import Names
from compiler.ir.types import Array, DType, ParamRef, Scalar, TensorType, attrs
from compiler.ops.base import Malformed, Unsupported
from compiler.ops.decomposition import decompose_node
from compiler.ops.views import node_view, nothing_known

from .base import Pass, Refusal, Rewrite, View

LARGEST = 64 * 1024
"""Elements of a result that is kept even where it is larger than the operands."""

SHORT_VECTOR = 64
"""The longest int64 vector that becomes `dims`."""

TENSOR_KINDS = frozenset(
    {"map", "compare", "reduce", "select", "cast", "reshape", "permute", "expand", "slice",
     "contract", "copy"}
)  # fmt: skip

EXACT = frozenset(
    {"abs", "add", "ceil", "div", "floor", "isnan", "max", "min", "mul", "neg", "not", "and", "or",
     "xor", "rint", "sign", "sqrt", "sub"}
)  # fmt: skip
"""Scalar functions that are rounded correctly, or not at all, wherever they are computed."""


@dataclass(frozen=True)
class FoldConstants(Pass):
    """`fold-constants`: needs inferred shapes; works on ONNX nodes and tensor ops."""

    name: ClassVar[str] = "fold-constants"
    level: ClassVar[str] = "onnx"
    after: ClassVar[tuple[str, ...]] = ("infer-shapes",)

    def rewrite(self, op: Op, view: View) -> Rewrite | Refusal | None:
        """Fold one op; Refusals tell of results too large, inexact, or that cannot be computed."""
        if op.regions or (op.family != "onnx" and op.family not in TENSOR_KINDS):
            return None
        if not op.operands and op.kind != "onnx.Constant":
            return None
        producers = [view.producer(n) for n in op.operands]
        arrays = {n: view.constant(n) for n in op.operands}
        operands = {n: a for n, a in arrays.items() if a is not None}
        sizes = [v.type.numel.constant if v.type.known else None for v in op.outputs]
        elements = sum(n for n in sizes if n is not None)
        if len(operands) < len(arrays) or None in sizes:
            return None
        given = sum(a.size for a in operands.values())
        if op.kind == "expand" and elements > given:
            return None
        steps, results = _steps(op, view)
        if not steps and op.kind != "onnx.Constant":
            return None
        if elements > max(LARGEST, given):
            return Refusal(
                self.name, "fold-constants.large", parameters(op=op.kind, elements=elements)
            )
        inexact = next((s.kind for s in steps if not exact(s, steps, view)), None)
        if view.context.strict and inexact is not None:
            return Refusal(
                self.name, "fold-constants.inexact", parameters(op=op.kind, function=inexact)
            )
        try:
            found = _run(steps, operands, view)
        except InterpretError as error:
            return Refusal(
                self.name, "fold-constants.error", parameters(op=op.kind, error=str(error))
            )
        origins = op.origins.union(*(p.origins for p in producers if p is not None))
        leaves = [
            leaf(v.name, found[r], origins, view) for v, r in zip(op.outputs, results, strict=True)
        ]
        return Rewrite(
            self.name, "fold-constants.done", parameters(op=op.kind, elements=elements),
            tuple(made for made, _ in leaves),
            params=tuple(p for _, p in leaves if p is not None),
        )  # fmt: skip


def exact(step: Op, steps: Sequence[Op], view: View) -> bool:
    """Whether NumPy's result of a tensor op is what any kernel computes, bit for bit."""
    made = {v.name: v.type for s in steps for v in s.outputs}
    types = [made[n] if n in made else view.type(n) for n in step.operands]
    if not any(t.element.is_float for t in types):
        return True
    if step.family == "map":
        return step.function in EXACT
    if step.family == "reduce":
        return step.function in ("max", "min")
    return step.kind != "contract"


def leaf(name: str, array: Array, origins: Origins, view: View) -> tuple[Op, Param | None]:
    """The op that stands for an array under `name`, and the weight where it needs one."""
    dtype = DType.of(array.dtype)
    value = Value(name, TensorType(dtype, dims(array.shape)))
    if array.size == 1:
        scalar = Scalar(dtype, int.from_bytes(array.tobytes(), "little"))
        return Op("const", (), (value,), attrs(value=scalar), (), origins), None
    if dtype is DType.i64 and array.ndim == 1 and array.size <= SHORT_VECTOR:
        values = dims(int(n) for n in array)
        return Op("dims", (), (value,), attrs(values=values), (), origins), None
    taken = any(p.name == name for p in view.module.params)
    weight = view.context.names.fresh(name) if taken else name
    digest = view.context.params.add(np.asarray(array))
    op = Op("param", (), (value,), attrs(param=ParamRef(weight)), (), origins)
    return op, Param(weight, value.type, digest)


def _steps(op: Op, view: View) -> tuple[tuple[Op, ...], tuple[str, ...]]:
    """The tensor ops that compute an op and the names of its results; none where it has none."""
    if op.family != "onnx":
        return (op,), tuple(v.name for v in op.outputs)
    node = node_view(
        op, view.module, view.context.params, view.type, nothing_known, view.constant
    )
    try:
        made = decompose_node(node, Names(op.operands))
    except (Unsupported, Malformed):
        return (), ()
    return made.ops, tuple(r.name for r in made.results)


def _run(steps: Sequence[Op], operands: dict[str, Array], view: View) -> dict[str, Array]:
    """The values of all steps, by name; InterpretError for one that cannot be computed."""
    env = dict(operands)
    for step in steps:
        known = constant_of(step, view.module, view.context.params)
        if known is not None:
            env[step.key] = known
            continue
        results = run_op(step, [None if n is None else env[n] for n in step.inputs])
        env.update((v.name, r) for v, r in zip(step.outputs, results, strict=True))
    return env
