"""An ONNX model as a torch function at fixed sizes, for torch.compile to race with.

    constants (weights, and all that follows from shapes)  computed once, by the same functions
    every other node                                       traced by torch.fx, node by node

Each ONNX operator that the samples use is a function over torch ops; it gets tensors, or fx's
proxies of them. Attributes and constant operands (axes, shapes, splits) are plain numbers by then,
so torch.compile sees straight-line code without a graph break.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
import torch  # pyright: ignore[reportMissingImports]
import torch.nn.functional as F  # pyright: ignore[reportMissingImports]
from onnx import numpy_helper

Attributes = Mapping[str, Any]
Function = Callable[..., Any]
"""(attributes, *operands) -> the result, or a tuple of them. An absent operand is None."""


class NoRival(Exception):
    """The model has something that is not translated; the text says what."""


def _ints(tensor: Any) -> list[int]:
    return [int(v) for v in tensor.reshape(-1).tolist()]


def _axes(a: Attributes, given: Any) -> list[int]:
    if given is None and "axes" not in a:
        raise NoRival("a reduction over all axes")
    return _ints(given) if given is not None else list(a["axes"])


def _reduced(function: Callable[[Any, list[int], bool], Any]) -> Function:
    def run(a: Attributes, x: Any, axes: Any = None) -> Any:
        return function(x, _axes(a, axes), bool(a.get("keepdims", 1)))

    return run


def _reshape(a: Attributes, x: Any, shape: Any) -> Any:
    return x.reshape([x.shape[k] if d == 0 else d for k, d in enumerate(_ints(shape))])


def _flatten(a: Attributes, x: Any) -> Any:
    if a.get("axis", 1) != 1:
        raise NoRival(f"Flatten at axis {a['axis']}")
    return torch.flatten(x, 1)


def _squeeze(function: Callable[[Any, int], Any], descending: bool) -> Function:
    def run(a: Attributes, x: Any, axes: Any = None) -> Any:
        for axis in sorted(_axes(a, axes), reverse=descending):
            x = function(x, axis)
        return x

    return run


def _slice(a: Attributes, x: Any, starts: Any, ends: Any, axes: Any = None,
           steps: Any = None) -> Any:  # fmt: skip
    begin, end = _ints(starts), _ints(ends)
    where = _ints(axes) if axes is not None else list(range(len(begin)))
    if steps is not None and set(_ints(steps)) != {1}:
        raise NoRival("Slice with steps")
    for axis, low, high in zip(where, begin, end, strict=True):
        x = torch.ops.aten.slice.Tensor(x, axis, low, high)
    return x


def _gather(a: Attributes, x: Any, indices: Any) -> Any:
    if a.get("axis", 0) != 0:
        raise NoRival(f"Gather at axis {a['axis']}")
    return x[indices]


def _gemm(a: Attributes, x: Any, w: Any, c: Any = None) -> Any:
    x = x.t() if a.get("transA") else x
    w = w.t() if a.get("transB") else w
    alpha, beta = a.get("alpha", 1.0), a.get("beta", 1.0)
    if c is None:
        return torch.mm(x, w) * alpha
    return torch.addmm(c, x, w, beta=beta, alpha=alpha)


def _window(a: Attributes) -> dict[str, Any]:
    """Stride, padding, dilation of a convolution or pooling; padding must be symmetric."""
    rank = len(a["kernel_shape"])
    pads = list(a.get("pads", [0] * 2 * rank))
    if pads[:rank] != pads[rank:] or a.get("auto_pad", "NOTSET") != "NOTSET":
        raise NoRival("padding that is not symmetric")
    return {
        "stride": list(a.get("strides", [1] * rank)), "padding": pads[:rank],
        "dilation": list(a.get("dilations", [1] * rank)),
    }  # fmt: skip


def _conv(a: Attributes, x: Any, w: Any, b: Any = None) -> Any:
    return F.conv2d(x, w, b, groups=a.get("group", 1), **_window(a))


def _max_pool(a: Attributes, x: Any) -> Any:
    return F.max_pool2d(x, list(a["kernel_shape"]), ceil_mode=bool(a.get("ceil_mode", 0)),
                        **_window(a))  # fmt: skip


def _batch_norm(a: Attributes, x: Any, scale: Any, bias: Any, mean: Any, variance: Any) -> Any:
    return F.batch_norm(x, mean, variance, scale, bias, False, 0.0, a.get("epsilon", 1e-5))


def _layer_norm(a: Attributes, x: Any, scale: Any, bias: Any = None) -> Any:
    return F.layer_norm(x, list(scale.shape), scale, bias, a.get("epsilon", 1e-5))


def _plain(function: Callable[..., Any]) -> Function:
    return lambda a, *xs: function(*xs)


FUNCTIONS: Mapping[str, Function] = {
    "Add": _plain(torch.add),
    "BatchNormalization": _batch_norm,
    "Clip": _plain(torch.clamp),
    "Concat": lambda a, *xs: torch.cat(xs, a["axis"]),
    "Conv": _conv,
    "Div": _plain(torch.div),
    "Dropout": _plain(lambda x, *more: x),
    "Erf": _plain(torch.erf),
    "Exp": _plain(torch.exp),
    "Flatten": _flatten,
    "Gather": _gather,
    "Gelu": lambda a, x: F.gelu(x, approximate=_text(a.get("approximate", b"none"))),
    "Gemm": _gemm,
    "GlobalAveragePool": _plain(lambda x: F.adaptive_avg_pool2d(x, 1)),
    "Greater": _plain(torch.gt),
    "Identity": _plain(lambda x: x),
    "LayerNormalization": _layer_norm,
    "MatMul": _plain(torch.matmul),
    "Max": _plain(torch.maximum),
    "MaxPool": _max_pool,
    "Mul": _plain(torch.mul),
    "Neg": _plain(torch.neg),
    "Pow": _plain(torch.pow),
    "Range": _plain(lambda low, high, step: torch.arange(low.item(), high.item(), step.item())),
    "ReduceMax": _reduced(lambda x, axes, keep: torch.amax(x, axes, keep)),
    "ReduceMean": _reduced(lambda x, axes, keep: torch.mean(x, axes, keep)),
    "ReduceSum": _reduced(lambda x, axes, keep: torch.sum(x, axes, keep)),
    "Relu": _plain(torch.relu),
    "Reshape": _reshape,
    "Shape": _plain(lambda x: torch.tensor(list(x.shape))),
    "Sigmoid": _plain(torch.sigmoid),
    "Slice": _slice,
    "Softmax": lambda a, x: torch.softmax(x, a.get("axis", -1)),
    "Split": lambda a, x, sizes: torch.split(x, _ints(sizes), a.get("axis", 0)),
    "Sqrt": _plain(torch.sqrt),
    "Sub": _plain(torch.sub),
    "Tanh": _plain(torch.tanh),
    "Transpose": lambda a, x: torch.permute(x, list(a["perm"])),
    "Squeeze": _squeeze(torch.squeeze, descending=True),
    "Unsqueeze": _squeeze(torch.unsqueeze, descending=False),
    "Where": _plain(torch.where),
}


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value


def _results(node: onnx.NodeProto, operands: list[Any]) -> tuple[Any, ...]:
    function = FUNCTIONS.get(node.op_type)
    if function is None or node.domain:
        raise NoRival(f"operator {node.domain}{node.op_type}")
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    found = function(attributes, *operands)
    count = len(node.output)
    return (found,) if count == 1 else tuple(found[k] for k in range(count))


def torch_module(model: bytes, inputs: Mapping[str, np.ndarray]) -> Any:
    """A torch.fx module `(inputs…, outs…) -> None` that writes the model's results into `outs`.

    `inputs` are examples: the module is made for their shapes. Inputs and outs are in the order of
    the model's. Raises NoRival.
    """
    graph = onnx.load_model_from_string(model).graph
    weights = {t.name: torch.from_numpy(numpy_helper.to_array(t).copy()) for t in graph.initializer}
    names = [v.name for v in graph.input if v.name not in weights]
    known: dict[str, Any] = {**weights, "": None}
    seen = {name: torch.from_numpy(inputs[name]) for name in names} | known
    for node in graph.node:
        operands = [seen[name] for name in node.input]
        made = dict(zip(node.output, _results(node, operands), strict=False))
        seen |= made
        if node.op_type == "Shape" or all(name in known for name in node.input):
            known |= made

    def run(*tensors: Any) -> None:
        values = {**known, **{name: tensors[k] for k, name in enumerate(names)}}
        for node in graph.node:
            if node.output[0] not in known:
                operands = [values[name] for name in node.input]
                values |= dict(zip(node.output, _results(node, operands), strict=False))
        for k, value in enumerate(graph.output):
            tensors[len(names) + k].copy_(values[value.name])

    return torch.fx.symbolic_trace(run)
