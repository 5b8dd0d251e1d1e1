"""What onnx's reference evaluator gets wrong or lacks, computed as the specification says.

    Softmax, LogSoftmax   before opset 13 over all axes from `axis` on, flattened; default axis 1
    LogSoftmax            x - max - log Σ exp(x - max), so that it does not underflow to -inf
    BatchNormalization    before opset 14 inference unless it has more than one output
    LayerNormalization    mean and variance in at least float32, rounded before scale and bias
    ReduceMean            float16 and bfloat16 accumulate in float32
    Flatten, Reshape      of no elements: an extent that is asked for follows from those not copied
    Shape                 an `end` below minus the rank is clipped to 0
    Loop                  scalars that it collects become a vector; no condition means true
    Optional              the value itself, not a list that holds it
    Scan                  along any axis, backward too; at opset 8 with a batch axis
    GatherElements        indices may reach less far than the data along every axis
    GlobalAveragePool     of an empty batch is empty
    GlobalMaxPool         over all axes behind the channels, not two axes counted from the rank
    DequantizeLinear      before opset 19 it is missing

The evaluator finds a class by its name, for every opset; where the opsets differ, the class looks
up which one it runs under. Frontend and engine run the same; onnx is imported with this file, so
both import it late.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, cast

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, TypeProto, helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from ..types import Array

Floats = npt.NDArray[np.floating]


def _opset(op: OpRun) -> int:
    version: int = op.run_params["opsets"].get("", 1)
    return version


def _given(op: OpRun, name: str, default: int) -> int:
    """An integer attribute as the node has it: the class's own default is the newest opset's."""
    for attribute in op.onnx_node.attribute:
        if attribute.name == name:
            return attribute.i
    return default


def wide(x: Array) -> Floats:
    """x in at least float32."""
    enough = x.dtype.kind == "f" and x.dtype.itemsize >= 4
    return cast(Floats, x) if enough else x.astype(np.float32)


def _softmax(op: OpRun, x: Array, log: bool) -> Array:
    old = _opset(op) < 13
    axis = _given(op, "axis", 1 if old else -1)
    if x.size == 0:
        return x
    work = wide(x)
    if old:
        axis += x.ndim if axis < 0 else 0
        work = work.reshape(int(np.prod(x.shape[:axis], dtype=np.int64)), -1)
        axis = 1
    with np.errstate(all="ignore"):
        shifted = work - work.max(axis=axis, keepdims=True)
        exps = np.exp(shifted)
        total = exps.sum(axis=axis, keepdims=True)
        y = shifted - np.log(total) if log else exps / total
    return y.reshape(x.shape).astype(x.dtype)


class Softmax(OpRun):
    """Softmax 1, 11, 13."""

    def _run(self, x: Array, axis: int | None = None) -> tuple[Array, ...]:
        return (_softmax(self, x, log=False),)


class LogSoftmax(OpRun):
    """LogSoftmax 1, 11, 13."""

    def _run(self, x: Array, axis: int | None = None) -> tuple[Array, ...]:
        return (_softmax(self, x, log=True),)


class BatchNormalization(OpRun):
    """BatchNormalization 1 to 15. x is [N, C, …], the parameters [C] (with spatial=0 [C, …])."""

    def _run(
        self,
        x: Array,
        scale: Array,
        bias: Array,
        mean: Array,
        var: Array,
        epsilon: float = 1e-5,
        momentum: float = 0.9,
        training_mode: int = 0,
        is_test: int = 0,
        spatial: int = 1,
        consumed_inputs: Sequence[int] | None = None,
    ) -> tuple[Array, ...]:
        opset = _opset(self)
        if opset >= 14:
            training = bool(training_mode)
        elif opset >= 7:
            training = sum(bool(name) for name in self.onnx_node.output) > 1
        else:
            training = not is_test
        data = wide(x)
        axes = (0,) if not spatial else tuple(a for a in range(x.ndim) if a != 1)

        def along(p: Array) -> Floats:
            if not spatial or x.ndim < 2:
                return wide(p)
            return wide(p).reshape(-1, *[1] * (x.ndim - 2))

        at, spread = wide(mean), wide(var)
        if training:
            at, spread = data.mean(axis=axes), data.var(axis=axes)
        with np.errstate(all="ignore"):
            normal = (data - along(at)) / np.sqrt(along(spread) + epsilon)
            y = (along(scale) * normal + along(bias)).astype(x.dtype)
        if not training:
            return (y,)
        running_mean = wide(mean) * momentum + at * (1 - momentum)
        running_var = wide(var) * momentum + spread * (1 - momentum)
        results = [running_mean.astype(mean.dtype), running_var.astype(var.dtype)]
        if opset < 14:
            results += [at.astype(mean.dtype), spread.astype(var.dtype)]
        return (y, *results)


class LayerNormalization(OpRun):
    """LayerNormalization 17. Normalises over the axes from `axis` on."""

    def _run(
        self,
        x: Array,
        scale: Array,
        bias: Array | None = None,
        axis: int = -1,
        epsilon: float = 1e-5,
        stash_type: int = 1,
    ) -> tuple[Array, ...]:
        stash = helper.tensor_dtype_to_np_dtype(stash_type)
        work = wide(x).astype(np.promote_types(wide(x).dtype, stash))
        axes = tuple(range(axis + x.ndim if axis < 0 else axis, x.ndim))
        with np.errstate(all="ignore"):
            mean = work.mean(axis=axes, keepdims=True)
            centred = work - mean
            variance = (centred * centred).mean(axis=axes, keepdims=True)
            inverse = np.reciprocal(np.sqrt(variance + work.dtype.type(epsilon)))
            y = (centred * inverse).astype(x.dtype) * scale
        if bias is not None:
            y = y + bias
        return (y.astype(x.dtype), mean, inverse)


class ReduceMean(OpRun):
    """ReduceMean 1, 11, 13, 18. `axes` is an attribute before opset 18, then an input."""

    def _run(
        self,
        data: Array,
        axes: Array | Sequence[int] | None = None,
        keepdims: int = 1,
        noop_with_empty_axes: int = 0,
    ) -> tuple[Array, ...]:
        chosen = tuple(int(a) for a in np.asarray(axes).reshape(-1)) if axes is not None else ()
        if not chosen and noop_with_empty_axes:
            return (data,)
        over = chosen or tuple(range(data.ndim))
        work = wide(data) if data.dtype.itemsize == 2 and data.dtype.kind not in "iu" else data
        with np.errstate(all="ignore"):
            numbers = cast(Floats, work)  # integers too: their mean is theirs, cut off
            mean = np.mean(numbers, axis=over, keepdims=bool(keepdims), dtype=work.dtype)
        return (np.asarray(mean).astype(data.dtype),)


class Flatten(OpRun):
    """Flatten 1 to 25: [Π extents before `axis`, Π of the rest]."""

    def _run(self, x: Array, axis: int = 1) -> tuple[Array, ...]:
        axis += x.ndim if axis < 0 else 0
        sides = x.shape[:axis], x.shape[axis:]
        return (x.reshape([int(np.prod(side, dtype=np.int64)) for side in sides]),)


class Shape(OpRun):
    """Shape 1 to 25: the extents from `start` to `end`, both clipped to the rank."""

    def _run(
        self, x: Array, start: int | None = None, end: int | None = None
    ) -> tuple[Array, ...]:
        return (np.array(x.shape[start:end], np.int64),)


class Reshape(OpRun):
    """Reshape 1 to 25. 0 copies an extent (unless `allowzero`), -1 takes what the others leave.

    What is copied leaves on both sides: [0, 6] to (0, 2, -1) is [0, 2, 3].
    """

    def _run(
        self,
        x: Array,
        shape: Array | Sequence[int],
        allowzero: int = 0,
        consumed_inputs: Sequence[int] | None = None,
    ) -> tuple[Array, ...]:
        wanted = [int(n) for n in np.asarray(shape).reshape(-1)]
        copied = [k for k, n in enumerate(wanted) if n == 0 and not allowzero]
        target = [x.shape[k] if k in copied else n for k, n in enumerate(wanted)]
        if x.size == 0 and wanted.count(-1) == 1 and not (allowzero and 0 in wanted):
            rest = [n for k, n in enumerate(x.shape) if k not in copied]
            others = [n for n in wanted if n > 0]
            target[wanted.index(-1)] = int(np.prod(rest)) // int(np.prod(others))
        return (x.reshape(target),)


class Subgraph(Protocol):
    """A subgraph as the evaluator holds it."""

    input_names: Sequence[str]
    output_names: Sequence[str]
    output_types: Sequence[TypeProto]

    def run(
        self, names: None, feeds: Mapping[str, Array], attributes: Mapping[str, object] | None
    ) -> list[Array]: ...


class Loop(OpRun):
    """Loop 1 to 25: the body runs while the count and the condition, where given, allow it."""

    body: Subgraph

    def need_context(self) -> bool:
        """The body may read any value around it."""
        return True

    def _run(
        self,
        trips: Array | None,
        condition: Array | None,
        *carried: Array,
        context: Mapping[str, Array] | None = None,
        attributes: Mapping[str, object] | None = None,
        **others: object,
    ) -> tuple[Array, ...]:
        del others
        state: list[Array] = list(carried)
        collected: list[list[Array]] = [
            [] for _ in range(len(self.body.output_names) - 1 - len(carried))
        ]
        count = 0
        going = condition is None or _truth(condition)
        limit = None if trips is None else int(np.asarray(trips).reshape(-1)[0])
        while going and (limit is None or count < limit):
            given: list[Array] = [np.array(count, np.int64), np.array(going), *state]
            feeds = {**(context or {}), **dict(zip(self.body.input_names, given, strict=True))}
            results = self.body.run(None, feeds, attributes=attributes)
            going = _truth(results[0])
            state = results[1 : 1 + len(state)]
            for values, value in zip(collected, results[1 + len(state) :], strict=True):
                values.append(value)
            count += 1
        scans = [
            np.stack(values) if values else _nothing(self.body, 1 + len(state) + k)
            for k, values in enumerate(collected)
        ]
        return (*state, *scans)


def _nothing(body: Subgraph, index: int) -> Array:
    """What a loop collects that never ran: extent 0 before the declared shape."""
    type = body.output_types[index].tensor_type
    shape = [d.dim_value for d in type.shape.dim]
    dtype = helper.tensor_dtype_to_np_dtype(type.elem_type or 1)
    return np.empty((0, *shape), dtype)


def _truth(condition: Array) -> bool:
    return bool(np.asarray(condition).reshape(-1)[0])


class Scan(OpRun):
    """Scan 8 to 25: the body runs for every place along the scanned axes.

    At opset 8 every value has a batch axis in front, and the first input may tell how far each
    element of the batch is scanned; what is collected is filled up with zeros.
    """

    body: Subgraph

    def need_context(self) -> bool:
        """The body may read any value around it."""
        return True

    def _run(
        self,
        *values: Array | None,
        context: Mapping[str, Array] | None = None,
        attributes: Mapping[str, object] | None = None,
        **others: object,
    ) -> tuple[Array, ...]:
        del others
        around = context or {}
        if _opset(self) >= 9:
            return tuple(self._scan(cast(Sequence[Array], values), None, around, attributes))
        lengths, batches = values[0], cast(Sequence[Array], values[1:])
        rows = [
            self._scan(
                [x[k] for x in batches], None if lengths is None else int(lengths[k]), around,
                attributes,
            )
            for k in range(batches[0].shape[0])
        ]  # fmt: skip
        return tuple(np.stack(row) for row in zip(*rows, strict=True))

    def _scan(
        self,
        values: Sequence[Array],
        length: int | None,
        around: Mapping[str, Array],
        attributes: Mapping[str, object] | None,
    ) -> list[Array]:
        """Final states, then what was collected; only the first `length` places are run."""
        count = _given(self, "num_scan_inputs", 0)
        state, scanned = list(values[:-count]), values[-count:]
        axes = _listed(self, "scan_input_axes", count)
        old = "directions" if _opset(self) < 9 else "scan_input_directions"
        lines = [
            np.flip(np.moveaxis(x, axis, 0)[:length], 0) if backward
            else np.moveaxis(x, axis, 0)[:length]
            for x, axis, backward in zip(
                scanned, axes, _listed(self, old, count), strict=True
            )
        ]  # fmt: skip
        outputs = len(self.body.output_names) - len(state)
        collected: list[list[Array]] = [[] for _ in range(outputs)]
        for elements in zip(*lines, strict=True):
            given = zip(self.body.input_names, [*state, *elements], strict=True)
            results = self.body.run(None, {**around, **dict(given)}, attributes=attributes)
            state = results[: len(state)]
            for kept, value in zip(collected, results[len(state) :], strict=True):
                kept.append(value)
        missing = 0 if length is None else scanned[0].shape[0] - len(lines[0])
        scans: list[Array] = []
        into = _listed(self, "scan_output_axes", outputs)
        backward = _listed(self, "scan_output_directions", outputs)
        for k, kept in enumerate(collected):
            y = np.stack(kept) if kept else _nothing(self.body, len(state) + k)
            y = np.flip(y, 0) if backward[k] else y
            y = np.pad(y, [(0, missing), *[(0, 0)] * (y.ndim - 1)]) if missing else y
            scans.append(np.moveaxis(y, 0, into[k]))
        return [*state, *scans]


def _listed(op: OpRun, name: str, count: int) -> list[int]:
    """A list attribute of integers as the node has it; zeros where it is absent."""
    for attribute in op.onnx_node.attribute:
        if attribute.name == name:
            return list(attribute.ints)
    return [0] * count


class Optional(OpRun):
    """Optional 15: a value that may be absent is the value, or None.

    `run` stands in the place of the evaluator's, which takes None for no result.
    """

    def _run(self, x: object = None) -> tuple[object, ...]:
        return (x,)

    def run(self, *values: object, **others: object) -> tuple[object, ...]:
        del others
        return self._run(*values)


class GatherElements(OpRun):
    """GatherElements 11, 13: y[i, j] = x[indices[i, j], j] for axis 0."""

    def _run(self, x: Array, indices: Array, axis: int = 0) -> tuple[Array, ...]:
        at = axis % x.ndim
        corner = tuple(slice(None) if k == at else slice(n) for k, n in enumerate(indices.shape))
        whole = indices.astype(np.int64)
        return (np.take_along_axis(x[corner], np.where(whole < 0, whole + x.shape[at], whole), at),)


class GlobalAveragePool(OpRun):
    """GlobalAveragePool 1, 22: [N, C, …] to [N, C, 1, …]."""

    def _run(self, x: Array) -> tuple[Array, ...]:
        mean = wide(x).mean(axis=tuple(range(2, x.ndim)), keepdims=True)
        return (mean.astype(x.dtype),)


class GlobalMaxPool(OpRun):
    """GlobalMaxPool 1, 22: [N, C, …] to [N, C, 1, …]."""

    def _run(self, x: Array) -> tuple[Array, ...]:
        return (x.max(axis=tuple(range(2, x.ndim)), keepdims=True),)


class DequantizeLinear(OpRun):
    """DequantizeLinear 10, 13: (x - zero point) * scale, per tensor or along `axis` (since 13)."""

    def _run(
        self, x: Array, scale: Array, zero: Array | None = None, axis: int = 1, **others: object
    ) -> tuple[Array, ...]:
        del others
        factor, offset = wide(scale), np.zeros(scale.shape) if zero is None else zero
        if scale.ndim == 1 and scale.size > 1:
            shape = [1] * x.ndim
            shape[axis] = scale.size
            factor, offset = factor.reshape(shape), offset.reshape(shape)
        difference = x.astype(factor.dtype) - offset.astype(factor.dtype)
        return ((difference * factor).astype(scale.dtype),)


CORRECTED: tuple[type[OpRun], ...] = (
    Softmax, LogSoftmax, BatchNormalization, LayerNormalization, ReduceMean, Flatten, Reshape,
    Shape, Loop, Scan, Optional, GatherElements, GlobalAveragePool, GlobalMaxPool,
)  # fmt: skip


class Evaluator(Protocol):
    """What is used of onnx's evaluator."""

    @property
    def input_names(self) -> Sequence[str]: ...

    def run(self, output_names: None, feed_inputs: Mapping[str, object]) -> list[object]: ...


def evaluator(model: ModelProto) -> Evaluator:
    """onnx's evaluator of a model, with the corrections for its opset."""
    opset = next((entry.version for entry in model.opset_import if not entry.domain), 1)
    corrected = [*CORRECTED, DequantizeLinear] if opset < 19 else list(CORRECTED)
    return cast(Evaluator, ReferenceEvaluator(model, new_ops=corrected))
