"""Build each kernel's source into an object file, once for each symbol.

The object, the LLVM text and the assembly go to the blobs of the compile; the module keeps their
digests. For a GPU the object is a cubin and the assembly PTX; making them takes no GPU. A kernel
whose symbol the object cache knows is not compiled again. Where there is much to compile, other
processes help (`codegen/helpers.py`).

Teaches: compiling is the slow part of a cold start, and it need happen only once.
"""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, replace
from typing import ClassVar

from compiler.codegen.helpers import Helpers, Job, helpers_worth
from compiler.errors import TargetError
from compiler.ir.edits import Event, SourceEdit, apply, parameters
from compiler.ir.graph import Origins
from compiler.ir.module import Module, Source
from compiler.passes.base import Built, Context, Pass, PassError, Result
from compiler.runtime.engine import available_threads


@dataclass(frozen=True)
class Build(Pass):
    """`build`: after `emit`."""

    name: ClassVar[str] = "build"
    required: ClassVar[bool] = True
    unit: ClassVar[str] = "sources"
    level: ClassVar[str] = "source"
    after: ClassVar[tuple[str, ...]] = ("emit",)

    def run(self, module: Module, context: Context) -> Result:
        with _helpers(module, context) as helpers:
            return self._run(module, context, helpers)

    def _run(self, module: Module, context: Context, helpers: Helpers) -> Result:
        state = module
        events: list[Event] = []
        for k, source in enumerate(module.sources):
            context.check()
            if context.progress is not None:
                context.progress("build", k, len(module.sources))
            start = time.perf_counter()
            known = context.built.get(source.symbol)
            built = known or self._compile(source, module, context, helpers)
            context.built[source.symbol] = built
            milliseconds = (time.perf_counter() - start) * 1e3
            artifacts = tuple(
                (kind, _keep(context, data))
                for kind, data in (
                    ("object", built.object),
                    ("llvm", built.llvm.encode()),
                    ("ptx" if context.gpu else "assembly", built.assembly.encode()),
                )
            )
            edit = SourceEdit(source.kernel, replace(source, artifacts=artifacts))
            state = apply(state, edit)
            message = "build.known" if known else "build.done"
            values = parameters(
                kernel=source.kernel, bytes=len(built.object), milliseconds=round(milliseconds, 1)
            )
            events.append(Event("build", source.kernel, (edit,), message, values))
        return Result(state, tuple(events))

    def _compile(
        self, source: Source, module: Module, context: Context, helpers: Helpers
    ) -> Built:
        origins: Origins = module.kernel(source.kernel).origins
        try:
            if context.gpu:
                return _compile_gpu(source, context)
            from compiler.codegen.numba_api import compile_kernel

            made = helpers.take(source.symbol, context.check) or compile_kernel(
                source.symbol, source.text, strict=context.strict, math=source.math
            )
        except ValueError as error:
            raise PassError(self.name, str(error), source.kernel, origins) from error
        return Built(made.symbol, made.object, made.llvm, made.assembly)


def _helpers(module: Module, context: Context) -> Helpers:
    """As many as the kernels that are not known are worth; none for a GPU."""
    new = {
        s.symbol: Job(s.symbol, s.text, context.strict, s.math)
        for s in module.sources
        if s.symbol not in context.built and not context.gpu
    }
    jobs = tuple(new.values())
    return Helpers(jobs, helpers_worth(jobs, available_threads()))


def _compile_gpu(source: Source, context: Context) -> Built:
    from compiler.codegen.numba_cuda_api import CudaMissing, compile_ptx, link_cubin

    try:
        made = compile_ptx(
            source.symbol, source.text, strict=context.strict, math=source.math,
            capability=context.capability, lines=context.target == "cuda:ptx",
        )  # fmt: skip
        cubin = link_cubin(source.symbol, made.ptx, context.capability)
    except CudaMissing as error:
        raise TargetError("target.packages", target=context.target, reason=str(error)) from error
    return Built(made.symbol, cubin, made.llvm, made.ptx)


def _keep(context: Context, data: bytes) -> str:
    digest = hashlib.sha256(data).hexdigest()
    context.blobs.data[digest] = data
    return digest
