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
        ("Floor", 13, [I32], {}, "break.dtype"),
        ("Equal", 13, [F, I32], {}, "break.mixed-dtypes"),
        ("And", 7, [B, I32], {}, "break.dtype"),
        ("Where", 9, [B, F, I32], {}, "break.mixed-dtypes"),
        ("Gelu", 20, [F], {"approximate": "cubic"}, "break.mode"),
        ("PRelu", 16, [F, np.zeros((2, 2, 3), np.float32)], {}, "break.shapes"),
        ("BatchNormalization", 15, [F, *[F[0]] * 4], {}, None),
        ("ReduceLogSum", 13, [I32], {}, "break.dtype"),
        ("ArgMax", 13, [np.zeros((2, 0), np.float32)], {"axis": 1}, "break.empty"),
        ("GatherElements", 13, [F, np.zeros((3, 1), np.int64)], {"axis": 1}, "break.shapes"),
        ("GatherElements", 13, [F, np.zeros((3,), np.int64)], {}, "break.concat-rank"),
        ("ScatterElements", 18, [F, I32, F], {"reduction": "add"}, "break.mode"),
        ("Concat", 13, [F, I32], {"axis": 0}, "break.mixed-dtypes"),
        ("Pad", 13, [F, Fixed(np.ones((4,), np.int64)), np.array(0, np.int32)], {},
         "break.mixed-dtypes"),
        ("Pad", 19, [np.zeros((0, 2), np.float32), Fixed(np.ones((4,), np.int64))],
         {"mode": "edge"}, "break.empty"),
        ("Conv", 11, [np.zeros((1, 1, 4), np.int32)] * 2, {}, "break.dtype"),
        ("DepthToSpace", 13, [np.zeros((1, 4, 2, 2), np.float32)],
         {"blocksize": 2, "mode": "ABC"}, "break.mode"),
        ("LpNormalization", 22, [F], {"p": 3}, "break.mode"),
        ("OneHot", 11, [F, Fixed(np.array(3, np.int64)), F[0, :2]], {}, "break.dtype"),
    ],
)
def test_a_form_that_is_lacking_says_why(op, opset, inputs, attributes, message):
    found = reason(op, opset, inputs, **attributes)
    assert (found.message if found is not None else None) == message


@pytest.mark.parametrize(
    "op, opset, inputs, attributes, message",
    [
        ("MaxPool", 12, [np.zeros((1, 1, 2), np.float32)], {"kernel_shape": [3]}, "break.window"),
        ("MaxPool", 12, [F], {"kernel_shape": [2]}, "break.rank"),
        ("AveragePool", 11, [np.zeros((1, 1, 4), np.float32)], {}, "break.attribute-missing"),
        ("BatchNormalization", 15, [F, *[F[0]] * 4], {"training_mode": 1}, "break.training"),
        ("BatchNormalization", 6, [F, *[F[0]] * 4], {}, "break.training"),
        ("Split", 13, [F, Fixed(np.array([1, 2], np.int64))], {"axis": 1}, "break.split"),
        ("Pad", 13, [F, Fixed(np.ones((3,), np.int64))], {}, "break.pads"),
        ("Pad", 13, [F, np.ones((4,), np.int64)], {}, "break.from-data"),
        ("Tile", 1, [F, np.array(1, np.float32), np.array(1, np.float32)], {}, "break.opset"),
        ("Slice", 13, [F, AXES, AXES], {}, "break.from-data"),
        ("OneHot", 11, [I32, AXES, F[0, :2]], {}, "break.from-data"),
        ("Trilu", 14, [F[0]], {}, "break.rank"),
    ],
)
def test_a_form_that_has_no_type_says_why(op, opset, inputs, attributes, message):
    with pytest.raises(Unsupported) as error:
        reason(op, opset, inputs, **attributes)
    assert error.value.message == message


def test_the_place_of_the_maximum_is_left_to_the_library():
    x = np.zeros((1, 1, 4), np.float32)
    found = reason("MaxPool", 12, [x], outputs=2, kernel_shape=[2])
    assert found is not None and found.message == "break.indices"


def test_axes_that_come_from_data_have_no_type_and_no_ops():
    with pytest.raises(Unsupported) as error:
        reason("ReduceSum", 13, [F, AXES])
    assert error.value.message == "break.from-data"


def test_what_the_compiler_has_is_not_refused():
    assert reason("LayerNormalization", 17, [F, F[0]], outputs=3) is None
