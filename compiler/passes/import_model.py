"""import: from the empty module to a graph of ONNX ops, one equation a node.

    y = Relu(x W)        ─►     %t = onnx.MatMul %x, %W     %y = onnx.Relu %t

Weights become `const`, `dims` and `param`, subgraphs regions, named dimensions symbols. What is
written down here is what the file says, types included; nothing is computed yet.

Teaches: a compiler begins by saying the program again in its own words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from compiler.ir.edits import fold
from compiler.ir.module import EMPTY, Module

from .base import Context, Pass, PassError, Result


@dataclass(frozen=True)
class Import(Pass):
    """`import`: reads `context.model`; starts from the empty module."""

    name: ClassVar[str] = "import"
    required: ClassVar[bool] = True
    level: ClassVar[str] = "onnx"

    def run(self, module: Module, context: Context) -> Result:
        """The module of the model. ModelError for damaged weights."""
        from compiler.frontend.importer import import_events  # onnx takes a second to import

        if context.model is None:
            raise PassError(self.name, "the context holds no model")
        if module != EMPTY:
            raise PassError(self.name, "import starts from the empty module")
        events = import_events(context.model, context.params, context.names)
        return Result(fold(module, events), events)
