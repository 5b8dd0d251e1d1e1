"""The others: ONNX Runtime and torch.compile on the caller's arrays, warm after the first call."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnxruntime

Arrays = Mapping[str, np.ndarray]


def onnxruntime_call(
    model: bytes, inputs: Arrays, outs: Arrays, threads: int
) -> Callable[[], object]:
    """ONNX Runtime with inputs and outputs bound to the caller's arrays.

    The binding has their addresses only, so the call keeps the arrays themselves.
    """
    session = onnxruntime_session(model, threads)
    binding = session.io_binding()
    for name, array in inputs.items():
        binding.bind_cpu_input(name, array)
    for name, array in outs.items():
        binding.bind_output(
            name, "cpu", 0, array.dtype, list(array.shape), array.__array_interface__["data"][0]
        )

    def call(alive: tuple[Arrays, Arrays] = (inputs, outs)) -> None:
        session.run_with_iobinding(binding)

    return call


def onnxruntime_session(model: bytes, threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def torch_call(
    model: bytes, inputs: Arrays, outs: Arrays, threads: int
) -> Callable[[], object]:
    """torch.compile at these sizes (`dynamic=False`), its results copied into `outs` by the
    compiled function itself, where Inductor makes the copy part of its last kernel."""
    try:
        import torch  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise ImportError("torch is not installed: pip install -r requirements-bench.txt") from None
    from benchmarks.torch_model import torch_module

    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    torch._dynamo.reset()
    module = torch_module(model, inputs)
    compiled = torch.compile(module, dynamic=False, fullgraph=True)
    tensors = [torch.from_numpy(array) for array in (*inputs.values(), *outs.values())]
    return lambda: compiled(*tensors)
