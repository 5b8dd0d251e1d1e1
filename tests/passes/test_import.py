"""The import pass: preconditions and events. What it makes is tested in tests/frontend."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.frontend.load import load
from compiler.ir.edits import fold
from compiler.ir.module import EMPTY, Module
from compiler.passes.base import Context, PassError
from compiler.passes.import_model import Import
from compiler.pipeline import parse_pass, print_pass
from tests.frontend.models import data, info, model, node


def test_import_needs_a_model_and_the_empty_module() -> None:
    with pytest.raises(PassError, match="no model"):
        Import().run(EMPTY, Context())
    proto = model([node("Relu", ["x"], ["y"])], [info("x", [1])], ["y"])
    with pytest.raises(PassError, match="empty module"):
        Import().run(Module("other"), Context(model=load(data(proto))))


def test_import_has_no_options() -> None:
    assert print_pass(Import()) == "import" and parse_pass("import") == Import()


def test_events_build_the_module_step_by_step() -> None:
    proto = model(
        [node("Constant", [], ["c"], value_floats=[1.0, 2.0]), node("Mul", ["t", "c"], ["y"]),
         node("Add", ["x", "w"], ["t"])],
        [info("x", ["n", 2])], ["y"], {"w": np.ones(2, np.float32)},
    )  # fmt: skip
    context = Context(model=load(data(proto)))
    result = Import().run(EMPTY, context)
    assert [e.rule for e in result.events] == [
        "import.header", "import.reordered", "import.dims", "import.weights", "import.nodes",
    ]  # fmt: skip
    assert [e.refused for e in result.events] == [False, True, False, False, False]
    weights = fold(EMPTY, result.events[:4])
    assert [op.kind for op in weights.graph.ops] == ["param"]
    assert [p.name for p in weights.params] == ["w"]
    assert [p.name for p in result.module.params] == ["w", "c"]
    assert [n.op for n in result.module.nodes] == ["Constant", "Add", "Mul"]
    assert [n.position for n in result.module.nodes] == [(0,), (2,), (1,)]
    assert context.names.fresh("y") == "y.1"


def test_importing_twice_gives_the_same() -> None:
    proto = model(
        [node("Dropout", ["x", "", ""], ["y", ""])], [info("x", [1])], ["y"],
        {"w": np.ones(2, np.float32)},
    )  # fmt: skip
    modules = [Import().run(EMPTY, Context(model=load(data(proto)))).module for _ in range(2)]
    assert modules[0] == modules[1]
