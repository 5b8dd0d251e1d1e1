"""Sizes and arrays for a run that brings none.

    size(symbol) = what was asked for, else the pin, else the sample's own, else 4

Teaches: a symbolic dimension needs a number before anything can run; where it came from is a
condition of the run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast
from zipfile import BadZipFile

import numpy as np

from compiler.errors import InputsError, ModelError
from compiler.frontend.inputs import default_size, make_inputs
from compiler.ir.module import Module
from compiler.ir.types import Array

if TYPE_CHECKING:
    from compiler.driver import Built

CATALOGUE = "samples.json"


def default_sizes(
    built: Built, model: str | Path | None, given: Mapping[str, int]
) -> dict[str, int]:
    """A size for every symbol that the inputs' shapes hold, and the pinned ones.

    `model` is the file that was compiled: a sample's sizes stand beside it. InputsError for a name
    in `given` that the model lacks, for a size out of bounds, and for one that differs from its
    pin.
    """
    return sizes_of(built.module, built.context.pin, model, given)


def sizes_of(
    module: Module, pin: Mapping[str, int], model: str | Path | None, given: Mapping[str, int]
) -> dict[str, int]:
    """As `default_sizes`, from the module and its pins."""
    used = frozenset[str]().union(*(v.type.symbols() for v in module.graph.inputs))
    symbols = {s.name: s for s in module.dims if s.name in used}
    known = ", ".join((*symbols, *pin)) or "none"
    for name, value in given.items():
        if name in pin:
            if value != pin[name]:
                raise InputsError("size.pinned", name=name, value=value, pin=pin[name])
        elif name not in symbols:
            raise InputsError("size.unknown", name=name, known=known)
        elif not symbols[name].admits(value):
            s = symbols[name]
            raise InputsError(
                "size.bounds", name=name, value=value, low=s.low, high=s.high, divisor=s.divisor
            )
    own = sample_sizes(model) if model is not None else {}
    found = dict(pin)
    for name, symbol in symbols.items():
        fallback = own.get(name, default_size(symbol))
        if not symbol.admits(fallback):
            fallback = default_size(symbol)
        found[name] = given.get(name, fallback)
    return found


def sample_sizes(model: str | Path) -> dict[str, int]:
    """The default sizes that the catalogue beside a sample gives it; empty for other models."""
    path = Path(model)
    try:
        rows: object = json.loads((path.parent / CATALOGUE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    for row in cast(list[object], rows) if isinstance(rows, list) else ():
        if not isinstance(row, dict):
            continue
        entry = cast(dict[str, object], row)
        sizes = entry.get("sizes")
        if entry.get("file") == path.name and isinstance(sizes, dict):
            pairs = cast(dict[str, object], sizes).items()
            return {name: size for name, size in pairs if isinstance(size, int)}
    return {}


def assumed_sizes(
    model: str | Path | None, pin: Mapping[str, int], given: Mapping[str, int]
) -> dict[str, int]:
    """What the cost model is told: the sizes asked for, else the sample's own, so that a gain is
    estimated for the sizes that are shown and measured. Pinned symbols are no longer there."""
    own = sample_sizes(model) if model is not None else {}
    return {name: size for name, size in own.items() if name not in pin} | dict(given)


def made_inputs(built: Built, sizes: Mapping[str, int], seed: int = 0) -> dict[str, Array]:
    """One array an input, the same for the same model, sizes and seed. InputsError for an input
    of unknown rank."""
    return make_inputs(built.trace.module_after("infer-shapes"), sizes, seed)


def read_inputs(path: str | Path) -> dict[str, Array]:
    """The arrays of an `.npz` file. ModelError names the file and what is wrong with it."""
    try:
        data = np.load(path, allow_pickle=False)
        if isinstance(data, np.ndarray):
            raise ValueError("it holds one array, which has no name")
        with data:
            return {name: data[name] for name in data.files}
    except (OSError, ValueError, EOFError, BadZipFile) as error:
        raise ModelError("inputs.unreadable", file=str(path), reason=str(error)) from error
