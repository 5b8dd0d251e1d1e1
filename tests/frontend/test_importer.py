"""What an imported model looks like, and that its text and its events say all of it."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import AttributeProto, ModelProto, TensorProto, helper
from onnx.numpy_helper import from_array

from compiler.errors import ModelError
from compiler.frontend.load import load
from compiler.ir.edits import fold
from compiler.ir.graph import reads
from compiler.ir.module import EMPTY, Module
from compiler.ir.parser import parse_module
from compiler.ir.printer import print_module
from compiler.ir.verify import verify
from compiler.passes.base import Context
from compiler.passes.import_model import Import
from tests.frontend.models import BOOL, I64, data, graph, if_model, info, model, node

ONE = np.array([1.5], np.float32)


def imported(proto: ModelProto, name: str = "m") -> tuple[Module, Context]:
    context = Context(model=load(data(proto), name))
    result = Import().run(EMPTY, context)
    verify(result.module)
    assert fold(EMPTY, result.events) == result.module
    assert parse_module(print_module(result.module)) == result.module
    return result.module, context


def text(proto: ModelProto) -> str:
    module, _ = imported(proto)
    digests = {p.digest: "…" for p in module.params}
    shown = print_module(module)
    for digest, short in digests.items():
        shown = shown.replace(digest, short)
    return shown


def test_golden() -> None:
    proto = model(
        [
            node("MatMul", ["x", "W"], ["t"], name="product"),
            node("Add", ["t", "b"], ["u"]),
            node("Constant", [], ["low"], value_float=-1.0),
            node("Clip", ["u", "low"], ["v"]),
            node("Reshape", ["v", "shape"], ["w"], allowzero=0),
            node("LeakyRelu", ["w"], ["y"], alpha=0.25, name="last"),
        ],
        [info("x", ["batch", 3])],
        [info("y", [None, 2])],
        {
            "W": np.ones((3, 4), np.float32), "b": ONE,
            "shape": np.array([-1, 2], np.int64),
        },
    )  # fmt: skip
    assert text(proto) == '''\
module @m
  dims(batch, y.0)
  opsets("" 17)
  nodes(n0 MatMul "product", n1 Add, n2 Constant, n3 Clip, n4 Reshape, n5 LeakyRelu "last")
  params(W: f32[3,4] "…")
{
  graph (%x: f32[batch,3]) -> (%y) {
    %W = param @W : f32[3,4]
    %b = const 1.5 : f32[1]
    %shape = dims {values=[-1, 2]} : i64[2]
    %t = onnx.MatMul %x, %W : ?  @[n0]
    %u = onnx.Add %t, %b : ?  @[n1]
    %low = const -1.0 : f32[]  @[n2]
    %v = onnx.Clip %u, %low : ?  @[n3]
    %w = onnx.Reshape %v, %shape {allowzero=0} : ?  @[n4]
    %y = onnx.LeakyRelu %w {alpha=0.25} : f32[y.0,2]  @[n5]
  }
}
'''


def test_subgraphs_are_regions() -> None:
    shown = text(if_model())
    assert shown == '''\
module @m dims(n) opsets("" 17) nodes(n0 Exp, n1 If, n1.0.0 Sub, n1.1.0 Add) {
  graph (%c: bool[], %x: f32[n]) -> (%y) {
    %k = onnx.Exp %x : ?  @[n0]
    %y = onnx.If %c {else_branch_region=0, then_branch_region=1} () -> (%t) {
      %t = onnx.Sub %x, %k : f32[n]  @[n1.0.0]
    } () -> (%t.1) {
      %t.1 = onnx.Add %x, %k : f32[n]  @[n1.1.0]
    } : ?  @[n1]
  }
}
'''
    module, _ = imported(if_model())
    assert reads(module.graph.ops[1]) == ("c", "x", "k", "x", "k")


def test_names_inside_do_not_clash_with_later_ones() -> None:
    inner = graph([node("Neg", ["x"], ["late"])], [], ["late"])
    proto = model(
        [
            node("If", ["c"], ["y"], then_branch=inner, else_branch=inner),
            node("Exp", ["x"], ["late"]),
        ],
        [info("c", [], BOOL), info("x", [1])],
        ["y", "late"],
    )
    module, _ = imported(proto)
    names = [v.name for op in module.graph.walk() for v in op.outputs]
    assert len(names) == len(set(names)) and names[-1] == "late"


@pytest.mark.parametrize(
    "name", ["a b", 'quote"d', "back\\slash", "ünïcode", "数", "_", "1", "new\nline", "x/y:0", "%x"]
)
def test_any_name_survives(name: str) -> None:
    proto = model(
        [node("Add", ["x", name], [name + "!"])], [info("x", [f"{name} dim"])], [name + "!"],
        {name: np.ones(70, np.float32)},
    )  # fmt: skip
    module, _ = imported(proto)
    assert module.graph.outputs == (name + "!",) and module.graph.ops[0].key == name
    assert [s.name for s in module.dims] == [f"{name} dim"]


def test_empty_names() -> None:
    proto = model(
        [
            node("Clip", ["x", "", "high"], ["y"]),
            node("Dropout", ["y", "", ""], ["z", ""]),
            node("TopK", ["x", "k"], ["", "at"]),
        ],
        [info("x", [4]), info("", [2])],
        ["z", "at"],
        {"high": np.float32(1), "k": np.array([2], np.int64)},
    )
    module, _ = imported(proto)
    ops = {op.kind: op for op in module.graph.ops}
    assert ops["onnx.Clip"].inputs == ("x", None, "high")
    assert ops["onnx.Dropout"].inputs == ("y",) and len(ops["onnx.Dropout"].outputs) == 1
    assert [v.name for v in ops["onnx.TopK"].outputs] == ["at.1", "at"]
    assert [v.name for v in module.graph.inputs] == ["x", ""]


def test_duplicate_node_names_are_fine() -> None:
    nodes = [node("Neg", ["x"], ["t"], name="n"), node("Exp", ["t"], ["y"], name="n")]
    module, _ = imported(model(nodes, [info("x", [1])], ["y"]))
    assert [n.name for n in module.nodes] == ["n", "n"]


@pytest.mark.parametrize("ir_version", [3, 8])
def test_weights_listed_as_inputs_are_constants(ir_version: int) -> None:
    proto = model(
        [node("Mul", ["x", "k"], ["y"])], [info("x", [2]), info("k", [1])], ["y"], {"k": ONE},
        ir_version=ir_version,
    )  # fmt: skip
    context = Context(model=load(data(proto)))
    result = Import().run(EMPTY, context)
    assert [v.name for v in result.module.graph.inputs] == ["x"]
    assert result.module.graph.ops[0].kind == "const"
    remarks = [e.where for e in result.events if e.rule == "import.default"]
    assert remarks == (["k"] if ir_version >= 4 else [])


def test_leaves() -> None:
    weights = {
        "one": np.array([[True]]),
        "half": np.array(0.5, np.float16),
        "empty": np.zeros(0, np.int64),
        "short": np.arange(64, dtype=np.int64),
        "long": np.arange(65, dtype=np.int64),
        "int32": np.arange(3, dtype=np.int32),
        "square": np.ones((2, 2), np.int64),
        "nan": np.array(np.nan, np.float32),
    }
    proto = model([node("Relu", ["x"], ["y"])], [info("x", [1])], ["y"], weights)
    module, context = imported(proto)
    kinds = {op.key: op.kind for op in module.graph.ops}
    assert kinds == {
        "one": "const", "half": "const", "empty": "dims", "short": "dims", "long": "param",
        "int32": "param", "square": "param", "nan": "const", "y": "onnx.Relu",
    }  # fmt: skip
    kept = context.params.get(module.param("long").digest)
    assert np.array_equal(kept, weights["long"])
    assert not kept.flags.writeable and kept.__array_interface__["data"][0] % 64 == 0


def test_constant_nodes() -> None:
    values = {
        "a": {"value_float": 0.5},
        "b": {"value_floats": [1.0, 2.0]},
        "c": {"value_int": 3},
        "d": {"value_ints": [4, 5]},
        "e": {"value": from_array(np.arange(4, dtype=np.float32))},
        "f": {"value_string": "text"},
    }
    nodes = [node("Constant", [], [name], **attribute) for name, attribute in values.items()]
    module, _ = imported(model(nodes, [], list(values)))
    found = {op.key: (op.kind, op.type.element.value) for op in module.graph.ops}
    assert found == {
        "a": ("const", "f32"), "b": ("param", "f32"), "c": ("const", "i64"), "d": ("dims", "i64"),
        "e": ("param", "f32"), "f": ("onnx.Constant", "string"),
    }  # fmt: skip
    assert all(op.origins == {(k,)} for k, op in enumerate(module.graph.ops))


def test_what_no_attribute_can_hold_stays_as_it_is() -> None:
    bfloat = helper.make_tensor("w", TensorProto.BFLOAT16, [2], [1.0, 2.0])
    optional = helper.make_optional_type_proto(helper.make_tensor_type_proto(1, [2]))
    proto = model(
        [node("Cast", ["w"], ["y"], to=1), node("Optional", [], ["z"], type=optional)],
        [], ["y", "z"], {"w": bfloat},
    )  # fmt: skip
    module, context = imported(proto)
    weight, _, op = module.graph.ops
    assert weight.kind == "onnx.Constant" and [a for a, _ in weight.attrs] == ["value_proto"]
    assert [a for a, _ in op.attrs] == ["type_proto"]
    stored = AttributeProto()
    stored.ParseFromString(context.params.get(module.param("z.type").digest).tobytes())
    assert stored.tp == optional


def test_attributes() -> None:
    tensor = from_array(np.array([2.5, 1], np.float32))
    nodes = [
        node("X", ["x"], ["y"], domain="my.own", i=-1, f=0.1, s="tanh", ints=[1, 2], floats=[0.5],
             strings=["a", "b"], t=tensor, raw=b"\xff\xfe"),
    ]  # fmt: skip
    module, _ = imported(model(nodes, [info("x", [1])], ["y"], domains={"my.own": 3}))
    (op,) = module.graph.ops
    assert op.kind == "onnx.my.own:X" and module.nodes[0].op == "my.own.X"
    assert (op.int("i"), op.str("s"), op.ints("ints")) == (-1, "tanh", (1, 2))
    assert op.float("f") == np.float32(0.1)
    assert [p.name for p in module.params] == ["y.raw", "y.t"]
    assert "raw_proto" in dict(op.attrs) and module.opsets == (("", 17), ("my.own", 3))


def test_dimensions_without_names() -> None:
    x = info("x", [None, "x.0", -1, 2])
    module, _ = imported(model([node("Relu", ["x"], ["y"])], [x], ["y"]))
    assert [s.name for s in module.dims] == ["x.0'", "x.0", "x.2"]
    unranked, _ = imported(model([node("Relu", ["x"], ["y"])], [info("x", None)], ["y"]))
    assert unranked.graph.inputs[0].type.shape is None


def test_damaged_tensor_is_named() -> None:
    tensor = from_array(np.ones(4, np.float32), "w")
    tensor.raw_data = tensor.raw_data[:-2]
    proto = model([node("Add", ["x", "w"], ["y"])], [info("x", [4])], ["y"], {"w": tensor})
    with pytest.raises(ModelError, match="'w'") as caught:
        imported(proto)
    assert caught.value.message == "model.tensor"


def test_scan_and_loop_bodies() -> None:
    body = graph(
        [node("Add", ["s", "e"], ["s2"]), node("Identity", ["s2"], ["o"])],
        [info("s", []), info("e", [])],
        ["s2", "o"],
    )
    scan = node("Scan", ["s0", "xs"], ["end", "sums"], body=body, num_scan_inputs=1)
    module, _ = imported(model([scan], [info("s0", []), info("xs", ["n"])], ["end", "sums"]))
    (op,) = module.graph.ops
    assert op.int("body_region") == 0 and len(op.regions[0].inputs) == 2
    assert I64 == TensorProto.INT64
