"""A compiler for machine-learning models, made to be looked into.

    model = compiler.load("m.onnx")
    built = compiler.compile(model, target="cpu", pin={"batch": 32})
    built.engine.run({"x": array})
    compiler.Engine.load(folder).run({"x": array})

Names are imported when first used, so that loading an engine imports neither Numba nor onnx.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from compiler.driver import Built as Built
    from compiler.driver import compile as compile
    from compiler.errors import CompilerError as CompilerError
    from compiler.errors import GuardError as GuardError
    from compiler.errors import ModelError as ModelError
    from compiler.errors import PipelineError as PipelineError
    from compiler.errors import UnsupportedOperator as UnsupportedOperator
    from compiler.frontend.load import OnnxModel as OnnxModel
    from compiler.frontend.load import load as load
    from compiler.frontend.reference import reference as reference
    from compiler.ir.printer import print_module as print_module
    from compiler.measure.report import Report as Report
    from compiler.measure.report import explanation as explanation
    from compiler.measure.report import measure as measure_model
    from compiler.passes.base import Cancelled as Cancelled
    from compiler.runtime.engine import Engine as Engine

_HOME = {
    "Built": ("compiler.driver", "Built"),
    "compile": ("compiler.driver", "compile"),
    "Cancelled": ("compiler.passes.base", "Cancelled"),
    "CompilerError": ("compiler.errors", "CompilerError"),
    "GuardError": ("compiler.errors", "GuardError"),
    "ModelError": ("compiler.errors", "ModelError"),
    "PipelineError": ("compiler.errors", "PipelineError"),
    "UnsupportedOperator": ("compiler.errors", "UnsupportedOperator"),
    "OnnxModel": ("compiler.frontend.load", "OnnxModel"),
    "load": ("compiler.frontend.load", "load"),
    "reference": ("compiler.frontend.reference", "reference"),
    "print_module": ("compiler.ir.printer", "print_module"),
    "Report": ("compiler.measure.report", "Report"),
    "explanation": ("compiler.measure.report", "explanation"),
    "measure_model": ("compiler.measure.report", "measure"),
    "Engine": ("compiler.runtime.engine", "Engine"),
}

__all__ = [
    "Built", "Cancelled", "CompilerError", "Engine", "GuardError", "ModelError", "OnnxModel",
    "PipelineError", "Report", "UnsupportedOperator", "compile", "explanation", "load",
    "measure_model", "print_module", "reference",
]  # fmt: skip


def __getattr__(name: str) -> object:
    """Import a public name when it is first asked for (PEP 562)."""
    if name not in _HOME:
        raise AttributeError(f"module 'compiler' has no attribute {name!r}")
    module, attribute = _HOME[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    return sorted(__all__)
