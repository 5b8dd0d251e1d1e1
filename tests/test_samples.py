"""The sample models: sound, small, described in both languages, and what their generator writes."""

import json
import unicodedata
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

from sample_models import FOLDER, Sample, catalogue, generate, sample

NAMES = [
    "five_op_chain", "softmax_spelled_out", "mlp", "layernorm_residual", "digits", "diamond",
    "bias_relu", "bias_gelu", "matmul", "fork_reduce", "dirty", "mlp_gelu", "ffn_dynamic",
    "lstm_cell", "attention_block", "tiny_gpt", "conv_bn_relu", "depthwise_separable",
    "resnet_tiny",
]  # fmt: skip
EACH = pytest.mark.parametrize("each", catalogue(), ids=lambda each: each.name)


def read(each: Sample) -> onnx.ModelProto:
    return onnx.load(each.path)


def shapes(values: list[onnx.ValueInfoProto]) -> dict[str, list[str | int]]:
    """Name -> dimensions, a symbolic one by its name."""
    return {
        value.name: [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim]
        for value in values
    }


def session(each: Sample) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(each.path, providers=["CPUExecutionProvider"])


def test_every_sample_is_in_the_catalogue_and_every_file_has_a_row() -> None:
    assert [each.name for each in catalogue()] == NAMES
    assert {each.file for each in catalogue()} == {path.name for path in FOLDER.glob("*.onnx")}
    assert sample("diamond").force == ("b",)
    with pytest.raises(KeyError, match="five_op_chain"):
        sample("nowhere")


@EACH
def test_model_is_sound_and_small(each: Sample) -> None:
    assert each.path.stat().st_size < 1_000_000
    model = read(each)
    onnx.checker.check_model(model, full_check=True)
    opset = 20 if each.name == "bias_gelu" else 17
    assert [(o.domain, o.version) for o in model.opset_import] == [("", opset)]
    names = [node.name for node in model.graph.node]
    assert all(names) and len(set(names)) == len(names)


@EACH
def test_catalogue_row_fits_the_model(each: Sample) -> None:
    inputs = shapes(list(read(each).graph.input))
    symbols = {d for shape in inputs.values() for d in shape if isinstance(d, str)}
    assert symbols == set(each.sizes) == set(each.maximum) != set()
    assert all(1 < each.sizes[symbol] <= each.maximum[symbol] for symbol in symbols)
    made = {name for node in read(each).graph.node for name in node.output}
    assert set(each.force) <= made


@EACH
@pytest.mark.parametrize("field", ["title", "teaches"])
def test_catalogue_speaks_both_languages(each: Sample, field: str) -> None:
    texts = getattr(each, field)
    assert set(texts) == {"vi", "en"}
    for text in texts.values():
        assert text == unicodedata.normalize("NFC", text).strip()
        assert "!" not in text
        # One sentence ends in one full stop; a title has none.
        assert text.count(".") == text.endswith(".") == (field == "teaches")
    assert texts["vi"] != texts["en"]


def test_catalogue_has_no_unknown_keys() -> None:
    known = set(Sample.__dataclass_fields__)
    for row in json.loads((FOLDER / "samples.json").read_text(encoding="utf-8")):
        assert set(row) <= known


@EACH
def test_onnxruntime_runs_it_at_the_default_sizes(each: Sample) -> None:
    def at(dims: list[str | int]) -> tuple[int, ...]:
        return tuple(each.sizes[d] if isinstance(d, str) else d for d in dims)

    random = np.random.default_rng(1)
    graph = read(each).graph
    feeds = {
        name: random.integers(0, 64, at(dims))
        if name == "tokens"
        else random.standard_normal(at(dims), dtype=np.float32)
        for name, dims in shapes(list(graph.input)).items()
    }
    outputs = session(each).run(None, feeds)
    for value, (_, dims) in zip(outputs, shapes(list(graph.output)).items(), strict=True):
        assert value.dtype == np.float32
        assert value.shape == at(dims)
        assert np.isfinite(value).all()
        assert value.std() > 0


def test_five_op_chain_is_what_the_lessons_count_on() -> None:
    graph = read(sample("five_op_chain")).graph
    assert [(node.op_type, *node.output) for node in graph.node] == [
        ("Add", "T1"), ("Relu", "T2"), ("Mul", "T3"), ("Add", "T4"), ("Clip", "Y"),
    ]  # fmt: skip
    assert shapes(list(graph.input)) == {
        "X": ["r", "c"], "R": ["r", "c"], "b": ["c"], "s": ["c"],
    }  # fmt: skip


def test_digits_reads_handwriting_that_it_never_saw() -> None:
    held_out = np.load(FOLDER / "digits_test.npz")
    (prob,) = session(sample("digits")).run(None, {"image": held_out["image"].astype(np.float32)})
    assert len(held_out["label"]) >= 300
    assert (np.asarray(prob).argmax(axis=1) == held_out["label"]).mean() >= 0.95


@pytest.mark.parametrize("name", generate.UNTRAINED)
def test_generator_writes_the_same_bytes(name: str) -> None:
    made = generate.encode(generate.UNTRAINED[name]())
    assert made == sample(name).path.read_bytes()


def test_digits_file_is_the_generator_s_graph_around_trained_weights() -> None:
    path = sample("digits").path
    stored = onnx.load(path).graph.initializer
    weights = {w.name: onnx.numpy_helper.to_array(w) for w in stored if w.name != "sixteen"}
    assert sorted(weights) == ["W1", "W2", "b1", "b2"]
    ordered = {name: weights[name] for name in ("W1", "b1", "W2", "b2")}
    assert generate.encode(generate.digits(ordered)) == path.read_bytes()


def test_generator_leaves_digits_alone_without_scikit_learn(tmp_path: Path) -> None:
    generate.main(tmp_path, train=False)
    assert {path.name for path in tmp_path.iterdir()} == {f"{n}.onnx" for n in generate.UNTRAINED}
