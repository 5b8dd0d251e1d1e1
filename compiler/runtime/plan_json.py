"""What an engine is made of besides bytes, as JSON and back: `plan.json` of an artifact.

    decode(encode(contents)) == contents

A dimension is a number, a symbol's name, or a sum of terms: `2*s*t + 1` is
`{"sum": [[2, "s", "t"], [1]]}`, and `s // 8` stands among the factors as `{"of": "s", "by": 8}`.
So nothing has to be parsed, and loading an engine needs no parser. Decoding calculates the
dimensions again, hence they come out in their canonical form.

Teaches: a closed set of values needs no pickle to be stored.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from compiler.ir.dims import ONE, ZERO, Dim, FloorDiv, Guard, Symbol, dim
from compiler.ir.graph import Origin, Origins
from compiler.ir.plan import (
    BindStep,
    Buffer,
    CallStep,
    CopyStep,
    KernelStep,
    Operand,
    Plan,
    Signature,
    Step,
)
from compiler.ir.types import Attr, Attrs, DType, KernelRef, ParamRef, Scalar, TensorType
from compiler.runtime.store import Json

PLAN_FORMAT: Final = 1

T = TypeVar("T")
Object = dict[str, Json]


@dataclass(frozen=True)
class ParamEntry:
    """Where a weight's elements are: the digest that names its file, its NumPy type and shape.

    The type `str` means text, kept as a JSON list.
    """

    digest: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Contents:
    """What `plan.json` says.

    `kernels`: kernel -> symbol of its object file; `params`: weight -> file; `library`: first
    result of a reference step -> digest of its one-node model; `labels`: node position -> what to
    call the node in messages.
    """

    name: str
    signature: Signature
    plan: Plan
    kernels: Mapping[str, str]
    params: Mapping[str, ParamEntry]
    library: Mapping[str, str]
    labels: Mapping[Origin, str]


def encode(contents: Contents) -> bytes:
    """The JSON text of an engine's contents: equal contents give equal bytes."""
    signature, plan = contents.signature, contents.plan
    document: Object = {
        "format": PLAN_FORMAT,
        "name": contents.name,
        "symbols": [_symbol(s) for s in signature.symbols],
        "inputs": [_named_type(name, type) for name, type in signature.inputs],
        "outputs": [_named_type(name, type) for name, type in signature.outputs],
        "guards": [_guard(g) for g in plan.guards],
        "buffers": [_buffer(b) for b in plan.buffers],
        "steps": [_step(s) for s in plan.steps],
        "kernels": dict(contents.kernels),
        "params": {
            name: {"digest": p.digest, "dtype": p.dtype, "shape": list(p.shape)}
            for name, p in contents.params.items()
        },
        "library": dict(contents.library),
        "labels": [[list(node), label] for node, label in contents.labels.items()],
    }
    return (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode()


def decode(data: bytes) -> Contents:
    """The contents that `encode` wrote. ValueError for anything else."""
    try:
        document = _object(json.loads(data))
        if document["format"] != PLAN_FORMAT:
            raise ValueError(f"format {document['format']}, expected {PLAN_FORMAT}")
        return Contents(
            _text(document["name"]),
            Signature(
                _many(document["inputs"], _as_named_type),
                _many(document["outputs"], _as_named_type),
                _many(document["symbols"], _as_symbol),
            ),
            Plan(
                _many(document["steps"], _as_step),
                _many(document["buffers"], _as_buffer),
                _many(document["guards"], _as_guard),
            ),
            _table(document["kernels"], _text),
            _table(document["params"], _as_param),
            _table(document["library"], _text),
            dict(_many(document["labels"], _as_label)),
        )
    except KeyError as error:
        raise ValueError(f"{error} is missing") from error


# ---- values to JSON


def _symbol(symbol: Symbol) -> Json:
    return {
        "name": symbol.name,
        "low": symbol.low,
        "high": symbol.high,
        "divisor": symbol.divisor,
    }


def _guard(guard: Guard) -> Json:
    return {
        "left": _dim(guard.left),
        "relation": guard.relation,
        "right": _dim(guard.right),
        "node": list(guard.node),
        "reason": guard.reason,
    }


def _buffer(buffer: Buffer) -> Json:
    return {
        "name": buffer.name,
        "kind": buffer.kind,
        "source": buffer.source,
        "members": list(buffer.members),
        "size": _dim(buffer.size),
        "live": [buffer.start, buffer.stop],
    }


def _step(step: Step) -> Json:
    match step:
        case KernelStep():
            return {
                "step": "kernel",
                "kernel": step.kernel,
                "extents": [_dim(d) for d in step.extents],
                "operands": [_operand(o) for o in step.operands],
                "scratch": [_dim(d) for d in step.scratch],
                "parallel": _dim(step.parallel),
                "work": _dim(step.work),
                "outputs": step.outputs,
                "origins": _origins(step.origins),
            }
        case CallStep():
            return {
                "step": "call",
                "function": step.function,
                "inputs": [None if o is None else _operand(o) for o in step.inputs],
                "outputs": [_operand(o) for o in step.outputs],
                "attrs": {name: _attr(value) for name, value in step.attrs},
                "origins": _origins(step.origins),
            }
        case CopyStep():
            return {
                "step": "copy",
                "source": _operand(step.source),
                "target": _operand(step.target),
                "origins": _origins(step.origins),
            }
        case BindStep():
            return {
                "step": "bind",
                "value": step.value,
                "symbols": [[axis, symbol] for axis, symbol in step.symbols],
                "origins": _origins(step.origins),
            }


def _operand(operand: Operand) -> Json:
    return {"value": operand.value, "buffer": operand.buffer, **_type(operand.type)}


def _named_type(name: str, type: TensorType) -> Json:
    return {"name": name, **_type(type)}


def _type(type: TensorType) -> Object:
    return {
        "dtype": None if type.dtype is None else type.dtype.value,
        "shape": None if type.shape is None else [_dim(d) for d in type.shape],
    }


def _origins(origins: Origins) -> Json:
    return [list(origin) for origin in sorted(origins)]


def _attr(value: Attr) -> Json:
    match value:
        case int() | str():
            return value
        case tuple():
            return [_attr(v) for v in value]
        case DType():
            return {"dtype": value.value}
        case Dim():
            return {"dim": _dim(value)}
        case Scalar():
            return {"scalar": [value.dtype.value, value.bits]}
        case ParamRef():
            return {"param": value.name}
        case KernelRef():
            return {"kernel": value.name}


def _dim(value: Dim) -> Json:
    constant = value.constant
    if constant is not None:
        return constant
    if value.symbol is not None:
        return value.symbol
    return {"sum": [[factor, *(_atom(a) for a in atoms)] for atoms, factor in value.terms]}


def _atom(atom: str | FloorDiv) -> Json:
    return atom if isinstance(atom, str) else {"of": _dim(atom.numerator), "by": atom.divisor}


# ---- JSON to values


def _as_symbol(value: Json) -> Symbol:
    o = _object(value)
    return Symbol(_text(o["name"]), _int(o["low"]), _int(o["high"]), _int(o["divisor"]))


def _as_guard(value: Json) -> Guard:
    o = _object(value)
    return Guard(
        _as_dim(o["left"]),
        _text(o["relation"]),
        _as_dim(o["right"]),
        _many(o["node"], _int),
        _text(o["reason"]),
    )


def _as_buffer(value: Json) -> Buffer:
    o = _object(value)
    start, stop = _many(o["live"], _int)
    return Buffer(
        _text(o["name"]),
        _text(o["kind"]),
        _text(o["source"]),
        _many(o["members"], _text),
        _as_dim(o["size"]),
        start,
        stop,
    )


def _as_step(value: Json) -> Step:
    o = _object(value)
    origins = frozenset(_many(o["origins"], _as_origin))
    match o["step"]:
        case "kernel":
            return KernelStep(
                _text(o["kernel"]),
                _many(o["extents"], _as_dim),
                _many(o["operands"], _as_operand),
                _many(o["scratch"], _as_dim),
                _as_dim(o["parallel"]),
                _as_dim(o["work"]),
                _int(o["outputs"]),
                origins,
            )
        case "call":
            attrs: Attrs = tuple((k, _as_attr(v)) for k, v in _object(o["attrs"]).items())
            return CallStep(
                _text(o["function"]),
                tuple(None if v is None else _as_operand(v) for v in _list(o["inputs"])),
                _many(o["outputs"], _as_operand),
                attrs,
                origins,
            )
        case "copy":
            return CopyStep(_as_operand(o["source"]), _as_operand(o["target"]), origins)
        case "bind":
            return BindStep(_text(o["value"]), _many(o["symbols"], _as_axis), origins)
        case other:
            raise ValueError(f"no step is called {other!r}")


def _as_axis(value: Json) -> tuple[int, str]:
    axis, symbol = _list(value)
    return _int(axis), _text(symbol)


def _as_operand(value: Json) -> Operand:
    o = _object(value)
    return Operand(_text(o["value"]), _text(o["buffer"]), _as_type(o))


def _as_named_type(value: Json) -> tuple[str, TensorType]:
    o = _object(value)
    return _text(o["name"]), _as_type(o)


def _as_type(o: Mapping[str, Json]) -> TensorType:
    dtype, shape = o["dtype"], o["shape"]
    return TensorType(
        None if dtype is None else DType(dtype),
        None if shape is None else _many(shape, _as_dim),
    )


def _as_origin(value: Json) -> Origin:
    return _many(value, _int)


def _as_label(value: Json) -> tuple[Origin, str]:
    node, label = _list(value)
    return _as_origin(node), _text(label)


def _as_param(value: Json) -> ParamEntry:
    o = _object(value)
    return ParamEntry(_text(o["digest"]), _text(o["dtype"]), _many(o["shape"], _int))


def _as_attr(value: Json) -> Attr:
    match value:
        case int() | str():
            return value
        case list():
            return tuple(_as_attr(v) for v in _list(value))
        case _:
            ((kind, inner),) = _object(value).items()
    match kind:
        case "dtype":
            return DType(inner)
        case "dim":
            return _as_dim(inner)
        case "scalar":
            dtype, bits = _list(inner)
            return Scalar(DType(dtype), _int(bits))
        case "param":
            return ParamRef(_text(inner))
        case "kernel":
            return KernelRef(_text(inner))
        case other:
            raise ValueError(f"no attribute is a {other!r}")


def _as_dim(value: Json) -> Dim:
    if isinstance(value, (int, str)):
        return dim(value)
    total = ZERO
    for term in _list(_object(value)["sum"]):
        factor, *atoms = _list(term)
        product = ONE * _int(factor)
        for atom in atoms:
            product = product * _as_atom(atom)
        total = total + product
    return total


def _as_atom(value: Json) -> Dim:
    if isinstance(value, str):
        return dim(value)
    o = _object(value)
    return _as_dim(o["of"]) // _int(o["by"])


def _object(value: Json) -> Mapping[str, Json]:
    if not isinstance(value, dict):
        raise ValueError(f"expected an object, found {value!r}")
    return value


def _list(value: Json) -> list[Json]:
    if not isinstance(value, list):
        raise ValueError(f"expected a list, found {value!r}")
    return value


def _text(value: Json) -> str:
    if not isinstance(value, str):
        raise ValueError(f"expected text, found {value!r}")
    return value


def _int(value: Json) -> int:
    if not isinstance(value, int):
        raise ValueError(f"expected a whole number, found {value!r}")
    return value


def _many(value: Json, read: Callable[[Json], T]) -> tuple[T, ...]:
    items: Iterable[Json] = _list(value)
    return tuple(read(item) for item in items)


def _table(value: Json, read: Callable[[Json], T]) -> dict[str, T]:
    return {name: read(item) for name, item in _object(value).items()}
