"""The key of an engine: a digest over named components, so that a miss says which one changed.

    key = digest( graph, weights, pins, assumed sizes, pipeline, numerics, target, machine,
                  compiler, libraries )

The graph's text has its inner values renamed: two models that differ only in how their
intermediates are called share an engine. The assumed sizes are what the cost model decided by;
an engine still runs at every size. Threads are a condition of a run and no component.

Teaches: a stored artifact is valid only while everything it was made from is the same.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path

from compiler.ir.edits import rename_op
from compiler.ir.graph import Graph, Op, Value
from compiler.ir.machine import MachineProfile
from compiler.ir.module import Module
from compiler.ir.printer import print_module


@dataclass(frozen=True)
class Key:
    """The components by name, each a short text or a digest, and the digest over all."""

    components: tuple[tuple[str, str], ...]

    @property
    def digest(self) -> str:
        return hashlib.sha256(json.dumps(self.components).encode()).hexdigest()[:32]

    def changed(self, other: Mapping[str, str]) -> tuple[str, ...]:
        """Names of the components that differ from those of another key."""
        return tuple(n for n, v in self.components if other.get(n) != v)


def canonical(module: Module) -> Module:
    """The module with inner values, nodes and itself renamed by position; what a caller sees
    (inputs, output names, symbols) keeps its name."""
    kept = {v.name for v in module.graph.inputs}
    renamed: dict[str, str] = {}
    ops: list[Op] = []
    for k, op in enumerate(module.graph.ops):
        for j, v in enumerate(op.outputs):
            if v.name not in kept:
                renamed[v.name] = f"v{k}.{j}"
        outputs = tuple(Value(renamed.get(v.name, v.name), v.type) for v in op.outputs)
        ops.append(replace(rename_op(op, renamed), outputs=outputs))
    outputs = tuple(renamed.get(n, n) for n in module.graph.outputs)
    graph = Graph(module.graph.inputs, outputs, tuple(ops), module.graph.names)
    nodes = tuple(replace(n, name="") for n in module.nodes)
    return replace(module, name="m", graph=graph, nodes=nodes)


def digest(text: str | bytes) -> str:
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()[:32]


@cache
def compiler_sources() -> str:
    """A digest over the compiler's own source files."""
    root = Path(__file__).parent
    h = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        h.update(path.relative_to(root).as_posix().encode())
        h.update(path.read_bytes())
    return h.hexdigest()[:32]


@cache
def libraries() -> str:
    """The versions of the libraries that make code or results."""
    return ", ".join(f"{n} {version(n)}" for n in ("llvmlite", "numba", "numpy", "onnx"))


def engine_key(
    imported: Module,
    *,
    pin: Mapping[str, int],
    sizes: Mapping[str, int],
    pipeline: str,
    numerics: str,
    target: str,
    features: tuple[str, str],
    machine: MachineProfile,
) -> Key:
    """The key of what compiling the imported module would give."""
    weights = "\n".join(f"{p.type} {p.digest}" for p in imported.params)
    return Key(
        (
            ("graph", digest(print_module(replace(canonical(imported), params=())))),
            ("weights", digest(weights)),
            ("pins", json.dumps(dict(sorted(pin.items())))),
            ("assumed sizes", json.dumps(dict(sorted(sizes.items())))),
            ("pipeline", pipeline),
            ("numerics", numerics),
            ("target", f"{target} {features[0]} {digest(features[1])}"),
            ("machine", repr(machine)),
            ("compiler", compiler_sources()),
            ("libraries", libraries()),
        )
    )
