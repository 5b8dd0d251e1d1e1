"""Files that are right, and every way in which a file can be wrong."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
from onnx import NodeProto, TensorProto, ValueInfoProto, external_data_helper, helper
from onnx.numpy_helper import from_array

from compiler.errors import ModelError
from compiler.frontend.load import load
from tests.frontend.models import BOOL, F32, data, graph, info, model, node, relu_model, untyped


def error(source: str | Path | bytes, name: str | None = None) -> ModelError:
    with pytest.raises(ModelError) as caught:
        load(source, name)
    assert caught.value.remedy and caught.value.remedy in str(caught.value)
    assert pickle.loads(pickle.dumps(caught.value)).message == caught.value.message
    return caught.value


def test_path_and_bytes_give_the_same_model(tmp_path: Path) -> None:
    path = tmp_path / "small.onnx"
    path.write_bytes(data(relu_model()))
    by_path, by_bytes = load(path), load(path.read_bytes())
    assert by_path.digest == by_bytes.digest
    assert (by_path.name, by_path.file) == ("small", "small.onnx")
    assert by_bytes.name == "g"
    assert by_path.opsets == (("", 17),)
    assert load(path.read_bytes(), "mine").name == "mine"


def test_missing_file_and_folder(tmp_path: Path) -> None:
    found = error(tmp_path / "no.onnx")
    assert found.message == "model.missing" and "no.onnx" in str(found)
    assert error(tmp_path).message == "model.unreadable"


@pytest.mark.parametrize(
    ("content", "message", "said"),
    [
        (b"", "model.empty-file", "empty"),
        (b"just some text, not a model at all", "model.not-onnx", "not an ONNX model"),
        (b"\x80\x02}q\x00.", "model.other-format", "pickle"),
        (b"\x89HDF\r\n\x1a\n", "model.other-format", "HDF5"),
        (b"\x1c\x00\x00\x00TFL3", "model.other-format", "TensorFlow Lite"),
        (b"version https://git-lfs.github.com/spec/v1\n", "model.lfs-pointer", "git lfs pull"),
        (b"\x08\x08\x3a\xff", "model.truncated", "cut off"),
        (b"\x08\x08", "model.no-graph", "no graph"),
    ],
)
def test_other_files(tmp_path: Path, content: bytes, message: str, said: str) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(content)
    found = error(path)
    assert found.message == message and found.file == "m.onnx"
    assert said in str(found) and "m.onnx" in str(found)


def test_archive(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "m.pt", "w") as archive:
        archive.writestr("data.pkl", b"x")
    assert error(tmp_path / "m.pt").message == "model.other-format"


def test_every_truncation_is_an_error_or_loads() -> None:
    whole = data(relu_model())
    messages: set[str] = set()
    for length in range(len(whole)):
        try:
            load(whole[:length], "cut")
        except ModelError as found:
            messages.add(found.message)
            assert found.file == "cut"
    assert "model.truncated" in messages and "model.no-opset" in messages


def test_graph_without_outputs() -> None:
    assert error(data(model([], [info("x", [1])], []))).message == "model.empty-graph"


def test_identity_without_nodes() -> None:
    assert load(data(model([], [info("x", [1])], ["x"]))).positions == ()


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (untyped("x"), "without a type"),
        (helper.make_tensor_sequence_value_info("x", F32, None), "a sequence"),
        (info("x", [1], TensorProto.UNDEFINED), "without an element type"),
        (info("x", [1], TensorProto.FLOAT8E4M3FN), "FLOAT8E4M3FN"),
    ],
)
def test_input_types(value: ValueInfoProto, said: str) -> None:
    found = error(data(model([node("Relu", ["x"], ["y"])], [value], ["y"])))
    assert found.message == "model.input-type" and said in str(found)


def test_names_that_clash() -> None:
    x = info("x", [1])
    twice = model([node("Relu", ["x"], ["y"]), node("Neg", ["x"], ["y"], name="n")], [x], ["y"])
    found = error(data(twice))
    assert found.message == "model.duplicate-value" and found.node == '#1 Neg "n"'
    shadow = model([node("Relu", ["x"], ["x"])], [x], ["x"])
    assert error(data(shadow)).message == "model.duplicate-value"
    relu = [node("Relu", ["x"], ["y"])]
    assert error(data(model(relu, [x, x], ["y"]))).message == "model.duplicate-input"
    assert error(data(model(relu, [x], ["y", "y"]))).message == "model.duplicate-output"


def test_values_that_nobody_defines() -> None:
    x = info("x", [1])
    found = error(data(model([node("Add", ["x", "w"], ["y"])], [x], ["y"])))
    assert found.message == "model.undefined-value" and "'w'" in str(found)
    found = error(data(model([node("Relu", ["x"], ["y"])], [x], ["z"])))
    assert found.message == "model.undefined-output" and "'z'" in str(found)
    inner = graph([node("Add", ["x", "w"], ["t"])], [], ["t"])
    outer = node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)
    found = error(data(model([outer], [x, info("c", [], BOOL)], ["y"])))
    assert found.message == "model.undefined-value" and found.node.startswith("#0 If")


def test_cycle_names_its_nodes() -> None:
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("Add", ["a", "d"], ["b"], name="first"),
        node("Neg", ["b"], ["d"]),
        node("Exp", ["d"], ["y"]),
    ]
    found = error(data(model(nodes, [info("x", [1])], ["y"])))
    assert found.message == "model.cycle"
    assert found.parameters["nodes"] == '#1 Add "first", #2 Neg'


def test_node_without_results() -> None:
    found = error(data(model([node("Relu", ["x"], [])], [info("x", [1])], ["x"])))
    assert found.message == "model.no-results"


@pytest.mark.parametrize(
    ("nodes", "message", "count", "least", "most"),
    [
        ([node("Div", ["x"], ["y"])], "model.inputs", 1, 2, 2),
        ([node("Add", ["x", ""], ["y"])], "model.inputs", 1, 2, 2),
        ([node("Add", ["x", "x", "x"], ["y"])], "model.inputs", 3, 2, 2),
        ([node("Relu", [], ["y"])], "model.inputs", 0, 1, 1),
        ([node("Sum", [], ["y"])], "model.inputs", 0, 1, "∞"),
        ([node("Relu", ["x"], ["y", "z"])], "model.outputs", 2, 1, 1),
    ],
)
def test_a_node_has_as_many_inputs_and_outputs_as_its_operator_takes(
    nodes: list[NodeProto], message: str, count: int, least: int, most: int | str
) -> None:
    found = error(data(model(nodes, [info("x", [1])], ["y"])))
    assert found.message == message and found.node == f"#0 {nodes[0].op_type}"
    assert [found.parameters[k] for k in ("count", "least", "most")] == [count, least, most]
    inner = graph(nodes, [], ["y"])
    outer = node("If", ["c"], ["o"], then_branch=inner, else_branch=inner)
    found = error(data(model([outer], [info("x", [1]), info("c", [], BOOL)], ["o"])))
    assert found.message == message, "in a subgraph too"


@pytest.mark.parametrize(
    ("one", "name", "known"),
    [
        (node("Softmax", ["x"], ["y"], axsi=0), "axsi", "axis"),
        (node("Relu", ["x"], ["y"], consumed_inputs=[0]), "consumed_inputs", "∅"),
        (node("ReduceSum", ["x"], ["y"], axes=[0]), "axes", "keepdims, noop_with_empty_axes"),
    ],
)
def test_an_attribute_that_the_operator_does_not_know_is_refused(
    one: NodeProto, name: str, known: str
) -> None:
    found = error(data(model([one], [info("x", [1])], ["y"])))
    assert found.message == "model.unknown-attribute" and found.node == f"#0 {one.op_type}"
    assert (found.parameters["attribute"], found.parameters["known"]) == (name, known)
    inner = graph([one], [], ["y"])
    outer = node("If", ["c"], ["o"], then_branch=inner, else_branch=inner)
    found = error(data(model([outer], [info("x", [1]), info("c", [], BOOL)], ["o"])))
    assert found.message == "model.unknown-attribute", "in a subgraph too"


def test_attributes_of_other_domains_are_their_own() -> None:
    own = node("Softmax", ["x"], ["y"], domain="com.example", axsi=0)
    load(data(model([own], [info("x", [1])], ["y"])))


def test_nodes_out_of_order_are_sorted() -> None:
    nodes = [node("Relu", ["a"], ["y"]), node("Neg", ["x"], ["a"]), node("Exp", ["x"], ["z"])]
    found = load(data(model(nodes, [info("x", [1])], ["y", "z"])))
    assert [n.op_type for n in found.proto.graph.node] == ["Neg", "Relu", "Exp"]
    assert found.positions == ((1,), (0,), (2,))
    assert found.notes == (("import.reordered", "g"),)


def test_a_subgraph_needs_what_it_captures_first() -> None:
    inner = graph([node("Identity", ["late"], ["t"])], [], ["t"])
    nodes = [
        node("If", ["c"], ["y"], then_branch=inner, else_branch=inner),
        node("Neg", ["x"], ["late"]),
    ]
    found = load(data(model(nodes, [info("x", [1]), info("c", [], BOOL)], ["y"])))
    assert found.positions == ((1,), (0,))


def test_domain_alias() -> None:
    proto = model([node("Relu", ["x"], ["y"], domain="ai.onnx")], [info("x", [1])], ["y"])
    found = load(data(proto))
    assert found.proto.graph.node[0].domain == "" and found.opsets == (("", 17),)
    proto.opset_import[0].domain = "ai.onnx"
    assert load(data(proto)).opsets == (("", 17),)


def test_functions_are_inlined() -> None:
    function = helper.make_function(
        "mine", "Twice", ["a"], ["b"],
        [node("Neg", ["a"], ["t"]), node("Neg", ["t"], ["b"])],
        [helper.make_opsetid("", 17)],
    )  # fmt: skip
    proto = model(
        [
            node("Relu", ["x"], ["r"]),
            node("Twice", ["r"], ["s"], domain="mine"),
            node("Exp", ["s"], ["y"]),
        ],
        [info("x", [1])], ["y"], domains={"mine": 1},
    )  # fmt: skip
    proto.functions.append(function)
    found = load(data(proto))
    assert [n.op_type for n in found.proto.graph.node] == ["Relu", "Neg", "Neg", "Exp"]
    assert found.positions == ((0,), (1, 0), (1, 1), (2,))
    assert ("import.inlined", "g") in found.notes


def test_sparse_weights_become_dense() -> None:
    values = from_array(np.array([1, 2], np.float32), "w")
    indices = from_array(np.array([0, 5], np.int64))
    sparse = helper.make_sparse_tensor(values, indices, [2, 3])
    proto = model([node("Add", ["x", "w"], ["y"])], [info("x", [2, 3])], ["y"])
    proto.graph.sparse_initializer.append(sparse)
    found = load(data(proto))
    (weight,) = found.proto.graph.initializer
    assert weight.name == "w" and list(weight.dims) == [2, 3]
    sparse.indices.CopyFrom(from_array(np.array([0, 6], np.int64)))
    proto.graph.sparse_initializer[0].CopyFrom(sparse)
    assert error(data(proto)).message == "model.tensor"


def external(folder: Path, location: str) -> bytes:
    tensor = from_array(np.arange(6, dtype=np.float32), "w")
    raw = tensor.raw_data
    external_data_helper.set_external_data(tensor, location, offset=0, length=len(raw))
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    (folder / "w.bin").write_bytes(raw)
    return data(model([node("Add", ["x", "w"], ["y"])], [info("x", [6])], ["y"], {"w": tensor}))


def test_external_data(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(external(tmp_path, "w.bin"))
    found = load(path)
    assert found.proto.graph.initializer[0].raw_data == (tmp_path / "w.bin").read_bytes()
    (tmp_path / "w.bin").write_bytes(b"\x01" * 24)
    assert load(path).digest != found.digest
    problem = error(path.read_bytes())
    assert problem.message == "model.external-bytes" and "'w.bin'" in str(problem)
    (tmp_path / "w.bin").write_bytes(b"\x01" * 20)
    assert error(path).message == "model.external-short"
    (tmp_path / "w.bin").unlink()
    assert error(path).message == "model.external-missing"


def test_external_data_stays_in_the_folder(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    path = inside / "m.onnx"
    path.write_bytes(external(tmp_path, "../w.bin"))
    assert error(path).message == "model.external-outside"
    path.write_bytes(external(tmp_path, str(tmp_path / "w.bin")))
    assert error(path).message == "model.external-outside"
    (inside / "link.bin").symlink_to(tmp_path / "w.bin")
    path.write_bytes(external(tmp_path, "link.bin"))
    assert error(path).message == "model.external-outside"
