"""What a leaf stands for: the array behind a `const`, a `param` or a `dims` without symbols."""

from __future__ import annotations

import numpy as np

from .dims import Dim
from .graph import Op
from .module import Module
from .params import ParamStore
from .types import Array, ParamRef, Scalar


def constant_of(op: Op, module: Module, params: ParamStore) -> Array | None:
    """The array that a `const`, `param` or symbol-free `dims` op stands for, else None."""
    if op.kind == "const":
        value = op.get("value")
        assert isinstance(value, Scalar)
        return np.asarray(value.array()).reshape([1] * op.type.rank)
    if op.kind == "param":
        ref = op.get("param")
        assert isinstance(ref, ParamRef)
        return params.get(module.param(ref.name).digest)
    if op.kind == "dims":
        values = op.get("values")
        assert isinstance(values, tuple)
        numbers = [v.constant for v in values if isinstance(v, Dim)]
        known = [n for n in numbers if n is not None]
        if len(known) != len(numbers):
            return None
        return np.array(known, np.int64).reshape(() if op.type.rank == 0 else (-1,))
    return None
