"""The interface by which tools that know ONNX use a compiler: `onnx.backend.base`.

    rep = backend.prepare(model, device="CPU")     compile once
    rep.run([x, y])                                call many times
    backend.run_node(node, [x, y])                 a model of one node, compiled and called

Inputs stand in the order of the graph's inputs that are no weights, outputs in the order of the
graph's outputs. A tensor is an array, bfloat16 one of ml_dtypes' type; a sequence is a list.

Teaches: an interface that others know is worth more than a better one of your own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, defs, helper
from onnx.backend.base import Backend, BackendRep

from compiler.driver import Built, compile, open_device, trace_model
from compiler.errors import CompilerError, OptionError, TargetError
from compiler.ir.binding import InputError
from compiler.ir.types import Array, DType

Inputs = Sequence[object] | Mapping[str, object] | Array
"""What a model is called with: values in order or by name, or the one array that it takes."""

Outputs = tuple[Array | list[Array] | None, ...]

OPTIONS = ("numerics", "pipeline")
"""What `prepare` takes beside a device: as `compiler.compile`, all of them text."""

BFLOAT16 = helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16)


class CompilerRep(BackendRep):
    """A compiled model: `built` has its engine, its trace and what went to the library."""

    def __init__(self, built: Built) -> None:
        self.built = built

    def run(self, inputs: Inputs, **kwargs: object) -> Outputs:
        """The outputs, in the order of the graph's.

        No options are known. Raises InputError for another number of inputs, OptionError for an
        option, else as `Engine.run`.
        """
        _known_options(kwargs, ())
        signature = self.built.engine.signature
        given = _named(inputs, [name for name, _ in signature.inputs])
        results = self.built.engine.run(given)
        return tuple(_taken_out(results[name], type.dtype) for name, type in signature.outputs)


class CompilerBackend(Backend):
    """The compiler as an ONNX backend; a class without instances, as the interface wants it."""

    @classmethod
    def is_compatible(cls, model: ModelProto, device: str = "CPU", **kwargs: object) -> bool:
        """Whether `prepare` would take the model: it is read, and every node has somebody who
        computes it."""
        if not cls.supports_device(device):
            return False
        try:
            trace_model(model, until="fold-constants")
        except CompilerError:
            return False
        return True

    @classmethod
    def prepare(cls, model: ModelProto, device: str = "CPU", **kwargs: object) -> CompilerRep:
        """Compile a model. Options: `numerics` and `pipeline`, as `compiler.compile`.

        Raises what `compiler.compile` raises, and OptionError for an option it does not know.
        """
        options = _known_options(kwargs, OPTIONS)
        return CompilerRep(
            compile(
                model,
                target=_target(device),
                numerics=options.get("numerics", "default"),
                pipeline=options.get("pipeline"),
            )
        )

    @classmethod
    def run_model(
        cls,
        model: ModelProto,
        inputs: Inputs,
        device: str = "CPU",
        **kwargs: object,
    ) -> Outputs:
        """`prepare` and `run` in one."""
        return cls.prepare(model, device, **kwargs).run(inputs)

    @classmethod
    def run_node(
        cls,
        node: NodeProto,
        inputs: Inputs,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype[np.generic], tuple[int, ...]]] | None = None,
        **kwargs: object,
    ) -> Outputs:
        """Compute one node. `inputs`: arrays, one a present input in order, or by name.

        `outputs_info` tells dtype and shape of the outputs, where the caller knows them;
        `opset_version` the opset (default: the newest that onnx knows).
        """
        options = dict(kwargs)
        opset = options.pop("opset_version", _newest(node))
        if not isinstance(opset, int):
            raise OptionError(f"opset_version is a number, not {opset!r}")
        present = [name for name in dict.fromkeys(node.input) if name]
        given = _named(inputs, present)
        results = [name for name in node.output if name]
        info = outputs_info or [None] * len(results)
        graph = helper.make_graph(
            [node],
            node.name or node.op_type,
            [_declared(name, (x.dtype, x.shape)) for name, x in given.items()],
            [_declared(n, known) for n, known in zip(results, info, strict=True)],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid(node.domain, opset)])
        return cls.run_model(model, given, device, **options)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """`CPU` always; `CUDA` where a GPU answers."""
        try:
            if _target(device) == "cuda":
                open_device("cuda")
        except (OptionError, TargetError):
            return False
        return True


is_compatible = CompilerBackend.is_compatible
prepare = CompilerBackend.prepare
run_model = CompilerBackend.run_model
run_node = CompilerBackend.run_node
supports_device = CompilerBackend.supports_device


def _newest(node: NodeProto) -> int:
    """The newest opset of the node's domain that onnx knows the operator in."""
    if not node.domain:
        return defs.onnx_opset_version()
    known = defs.has(node.op_type, node.domain)
    return defs.get_schema(node.op_type, domain=node.domain).since_version if known else 1


def _target(device: str) -> str:
    """The compiler's target for a device as ONNX names it: `CPU`, `CUDA`, `CUDA:0`."""
    targets = {"CPU": "cpu", "CPU:0": "cpu", "CUDA": "cuda", "CUDA:0": "cuda"}
    if device not in targets:
        raise OptionError(f"a device is one of {', '.join(targets)}, not {device!r}")
    return targets[device]


def _named(inputs: Inputs, names: Sequence[str]) -> dict[str, Array]:
    """The inputs as arrays, by name. InputError for another number of them."""
    if isinstance(inputs, Mapping):
        return {name: np.asarray(x) for name, x in inputs.items()}
    given = inputs if isinstance(inputs, Sequence) else [inputs]
    if len(given) != len(names):
        expected = ", ".join(names) or "none"
        raise InputError(f"{len(given)} inputs are given, expected: {expected}")
    return {name: np.asarray(x) for name, x in zip(names, given, strict=True)}


def _known_options(given: Mapping[str, object], known: Sequence[str]) -> dict[str, str]:
    """The options, all of them text that is known; else OptionError."""
    found: dict[str, str] = {}
    for name, value in given.items():
        if name not in known:
            names = ", ".join(known) or "none"
            raise OptionError(f"there is no option {name!r}; options: {names}")
        if not isinstance(value, str):
            raise OptionError(f"{name} is a text, not {value!r}")
        found[name] = value
    return found


def _declared(
    name: str, known: tuple[np.dtype[np.generic], tuple[int, ...]] | None
) -> ValueInfoProto:
    """The declaration of a value, with its type where that is known."""
    if known is None:
        return ValueInfoProto(name=name)
    dtype, shape = known
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return helper.make_tensor_value_info(name, element, list(shape))


def _taken_out(result: Array, dtype: DType | None) -> Array | list[Array] | None:
    """An output as ONNX knows it: a sequence or an absent optional out of its box, bfloat16 as
    such."""
    if result.dtype.hasobject and result.ndim == 0 and isinstance(result[()], list | None):
        return cast("list[Array] | None", result[()])
    return result.view(BFLOAT16) if dtype is DType.bf16 else result
