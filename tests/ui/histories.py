"""Histories made up for tests: a state is a list of nodes, a chunk each."""

import json
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from compiler.history import splices

Node = dict[str, Any]


def node(key: str, kind: str, *ins: str, **more: Any) -> Node:
    """An op that makes the value that it is called after."""
    outs = [{"name": key, "type": "f32[4]", "bytes": "16"}]
    return {"key": key, "kind": kind, "type": "f32[4]", "ins": list(ins), "outs": outs, **more}


def output(name: str, value: str) -> Node:
    return {"key": f"output {name}", "kind": "output", "label": name, "ins": [value]}


def chain(keys: Iterable[str]) -> list[Node]:
    """Each node reads the one before it."""
    found = list(keys)
    return [node(found[0], "input"), *(node(b, "map.exp", a) for a, b in pairwise(found))]


def film(*states: Sequence[Node], level: str = "tensor") -> dict[str, Any]:
    """A history of one pass that leads through these states, an event each."""
    chunks: list[Any] = []
    known: dict[str, int] = {}

    def number(one: Node) -> int:
        made = {"section": "graph", "key": one["key"], "lines": [{"text": one["key"]}]}
        if one["kind"] == "const":
            made["constants"] = {one["key"]: one["text"]}
        else:
            made["nodes"] = [one]
        place = known.setdefault(json.dumps(made, sort_keys=True), len(chunks))
        if place == len(chunks):
            chunks.append(made)
        return place

    lists = [[number(one) for one in state] for state in states]
    steps = [splices(a, b) for a, b in pairwise(lists)]
    passes = [{"name": "p", "level": level, "steps": steps}]
    return {"schema": 1, "chunks": chunks, "first": lists[0], "passes": passes}


def transformer(layers: int, *, named: bool = True) -> list[Node]:
    """An imported graph of repeated blocks, about 40 nodes each, as an exporter names them.

    Every block reads a mask, so that there are edges over the whole depth. Without `named` the
    values are numbers.
    """
    found: list[Node] = [node("ids", "input"), node("mask", "input")]
    names: dict[str, str] = {}

    def add(name: str, kind: str, *ins: str) -> str:
        names[name] = name if named else str(len(names))
        found.append(node(names[name], kind, *ins))
        return names[name]

    def dense(at: str, x: str) -> str:
        weight, bias = add(f"{at}.weight", "param"), add(f"{at}.bias", "param")
        return add(f"{at}/Add", "onnx.Add", add(f"{at}/MatMul", "onnx.MatMul", x, weight), bias)

    def norm(at: str, x: str) -> str:
        mean = add(f"{at}/ReduceMean", "onnx.ReduceMean", x)
        centred = add(f"{at}/Sub", "onnx.Sub", x, mean)
        scale = add(f"{at}/Sqrt", "onnx.Sqrt", add(f"{at}/Pow", "onnx.Pow", centred))
        return add(f"{at}/Div", "onnx.Div", centred, scale)

    x = add("embed", "onnx.Gather", "ids")
    for k in range(layers):
        at = f"/h.{k}"
        h = norm(f"{at}/ln", x)
        q, key, v = (
            add(f"{at}/attn/{c}/Transpose", "onnx.Transpose", dense(f"{at}/attn/{c}", h))
            for c in "qkv"
        )
        s = add(
            f"{at}/attn/Add", "onnx.Add", add(f"{at}/attn/MatMul", "onnx.MatMul", q, key), "mask"
        )
        s = add(
            f"{at}/attn/MatMul_1", "onnx.MatMul", add(f"{at}/attn/Softmax", "onnx.Softmax", s), v
        )
        x = add(f"{at}/Add", "onnx.Add", x, dense(f"{at}/attn/proj", s))
        h = add(f"{at}/mlp/Gelu", "onnx.Gelu", dense(f"{at}/mlp/fc", norm(f"{at}/ln_2", x)))
        x = add(f"{at}/Add_1", "onnx.Add", x, dense(f"{at}/mlp/proj", h))
    found.append(output("logits", add("last", "onnx.Softmax", x)))
    return found
