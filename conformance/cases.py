"""The tests that ship with the installed onnx package; nothing is fetched.

    node                 one operator each, made by onnx's own code, also expanded into its function
    simple               small models of a few nodes
    pytorch-converted    layers as an early PyTorch exported them
    pytorch-operator     operators as an early PyTorch exported them

A test is a model with sets of inputs and the outputs expected of them.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import ModelProto, TypeProto, numpy_helper
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.loader import load_model_tests

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")

Data = tuple[list[object], list[object]]
"""Inputs, and the outputs expected of them."""


@dataclass(frozen=True)
class Case:
    """One test. `operator`: what it tests, where it tests one operator, else empty.

    `model` and `sets` are at hand for tests made by code; `folder` holds those of the others.
    Values count as equal within `atol + rtol * |expected|`.
    """

    kind: str
    name: str
    operator: str
    rtol: float
    atol: float
    model: ModelProto | None = None
    sets: Sequence[tuple[Sequence[object], Sequence[object]]] = ()
    folder: Path | None = None

    def read(self) -> tuple[ModelProto, list[Data]]:
        """The model, and its sets of inputs and expected outputs."""
        if self.model is not None:
            return self.model, [
                ([array(x) for x in inputs], [array(x) for x in outputs])
                for inputs, outputs in self.sets
            ]
        assert self.folder is not None
        model = onnx.load(self.folder / "model.onnx")
        inputs = [value.type for value in model.graph.input]
        outputs = [value.type for value in model.graph.output]
        return model, [
            (stored(folder, "input", inputs), stored(folder, "output", outputs))
            for folder in sorted(self.folder.glob("test_data_set_*"))
        ]


def collect(kinds: Sequence[str] = KINDS) -> dict[str, Case]:
    """All tests of some kinds, by `kind/name`, in order."""
    found: dict[str, Case] = {}
    for kind in kinds:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tests = load_model_tests(kind=kind)
        operators = {t.name: t.model.graph.node[0].op_type for t in tests if t.model is not None}
        for test in sorted(tests, key=lambda t: t.name):
            found[f"{kind}/{test.name}"] = case(kind, test, operators)
    return found


def case(kind: str, test: TestCase, operators: dict[str, str]) -> Case:
    """The case of a test; an operator's expansion into its function tests that operator."""
    operator = operators.get(test.name.partition("_expanded")[0], "")
    folder = None if test.model_dir is None else Path(test.model_dir)
    return Case(
        kind, test.name, operator, test.rtol, test.atol, test.model, test.data_sets or (), folder
    )


def array(x: object) -> object:
    """A tensor as an array; anything else as it is."""
    return numpy_helper.to_array(x) if isinstance(x, onnx.TensorProto) else x


def stored(folder: Path, what: str, types: Sequence[TypeProto]) -> list[object]:
    """The values in `input_0.pb, input_1.pb, …` of a set, each of the type that the model tells."""
    count = len(list(folder.glob(f"{what}_*.pb")))
    return [value(folder / f"{what}_{k}.pb", types[k]) for k in range(count)]


def value(path: Path, type: TypeProto) -> object:
    data = path.read_bytes()
    if type.HasField("sequence_type"):
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    if type.HasField("optional_type"):
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
    return np.asarray(numpy_helper.to_array(onnx.TensorProto.FromString(data)))
