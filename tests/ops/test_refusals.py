"""Forms that the compiler lacks: a reason each, never a crash and never a wrong graph."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from compiler.ops.base import Unsupported
from compiler.ops.decomposition import why_not
from compiler.ops.shape_values import Walk
from compiler.passes.base import Context
from tests.ops.harness import Fixed, Input, module_of

F = np.zeros((2, 3), np.float32)
I32 = np.zeros((2, 3), np.int32)
B = np.zeros((2, 3), bool)
H = np.zeros((2, 3), np.float16)
AXES = np.zeros((1,), np.int64)


def reason(op: str, opset: int, inputs: Sequence[Input], outputs: int = 1, **attributes):
    context = Context()
    module = module_of(op, opset, inputs, attributes, outputs, False, context)
    walk = Walk(module, context.params, {v.name: v.type for v in module.graph.inputs})
    for step in module.graph.ops[:-1]:
        walk.visit(step)
    return why_not(walk.view(module.graph.ops[-1]))


@pytest.mark.parametrize(
    "op, opset, inputs, attributes, message",
    [
        ("Exp", 13, [H], {}, "break.dtype"),
        ("Exp", 13, [I32], {}, "break.dtype"),
        ("Softmax", 13, [I32], {}, "break.dtype"),
        ("MatMul", 13, [B, B.T], {}, "break.dtype"),
        ("Cast", 13, [F], {"to": 11}, "break.dtype"),
        ("Add", 13, [F, I32], {}, "break.mixed-dtypes"),
        ("Max", 13, [F, F, I32], {}, "break.mixed-dtypes"),
        ("MatMul", 13, [F, I32.T], {}, "break.mixed-dtypes"),
        ("LayerNormalization", 17, [F, I32[0]], {}, "break.mixed-dtypes"),
        ("Clip", 13, [F, np.array(0, np.int32)], {}, "break.mixed-dtypes"),
        ("Clip", 13, [F, np.zeros((2,), np.float32)], {}, "break.shapes"),
        ("LayerNormalization", 17, [F, np.zeros((2, 1, 3), np.float32)], {}, "break.shapes"),
        ("LayerNormalization", 17, [F, F[0]], {"stash_type": 11}, "break.stash-type"),
        ("Gemm", 13, [F, F.T, np.zeros((5, 2, 2), np.float32)], {}, "break.shapes"),
        ("Pow", 13, [I32, I32], {}, "break.integer-power"),
        ("Pow", 13, [I32, Fixed(np.array(0.5, np.float32))], {}, "break.integer-power"),
        ("Dropout", 13, [F, None, np.array(True)], {}, "break.dropout-training"),
        ("Dropout", 6, [F], {}, "break.dropout-training"),
        ("Floor", 13, [F], {}, "break.no-kernel"),
    ],
)
def test_a_form_that_is_lacking_says_why(op, opset, inputs, attributes, message):
    found = reason(op, opset, inputs, **attributes)
    assert found is not None and found.message == message


def test_axes_that_come_from_data_have_no_type_and_no_ops():
    with pytest.raises(Unsupported) as error:
        reason("ReduceSum", 13, [F, AXES])
    assert error.value.message == "break.from-data"


def test_what_the_compiler_has_is_not_refused():
    assert reason("LayerNormalization", 17, [F, F[0]], outputs=3) is None
