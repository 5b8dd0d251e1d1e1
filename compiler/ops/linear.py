"""Matrix products.

    MatMul: y[…, i, j] = Σ_k a[…, i, k] b[…, k, j]        Gemm: Y = α A' B' + β C

A product is one `contract`: an Einstein sum whose letters say which axes meet. Transposed operands
and batches need no copy, only other letters. `library="matmul"` asks for the library's kernel.

Teaches: the work of a network is here, the trips through memory are everywhere else.
"""

from __future__ import annotations

import string
from dataclasses import replace

from compiler.ir.builder import Builder
from compiler.ir.dims import ONE
from compiler.ir.graph import Value
from compiler.ir.shapes import Shape, broadcast, same
from compiler.ir.types import DType, TensorType

from .base import NodeView, Operator, Unsupported
from .rules import Inputs, present, require_fits, require_one_dtype

_BATCH = [c for c in string.ascii_lowercase if c not in "kmn"]


def product(b: Builder, x: Value, y: Value, spec: str) -> Value:
    """`contract` that the library computes; Unsupported for bool and for mixed dtypes."""
    require_one_dtype(x, y)
    if x.type.element is DType.bool:
        raise Unsupported("break.dtype", dtype="bool")
    z = b.contract(x, y, spec)
    b.ops[-1] = b.ops[-1].with_attrs(library="matmul")
    return z


# ---- MatMul ------------------------------------------------------------------------------------


def matmul_type(v: NodeView) -> tuple[TensorType, ...]:
    """NumPy's rule: a vector gains an axis of extent 1 for the product and loses it again."""
    x, y = v.type(0), v.type(1)
    if not x.rank or not y.rank:
        raise Unsupported("break.matmul-scalar")
    inner = y.dims[-2] if y.rank > 1 else y.dims[-1]
    v.guards += same(x.dims[-1], inner, v.position, "guard.contract")
    batch, guards = broadcast([x.dims[:-2], y.dims[:-2]], v.position, "guard.contract")
    v.guards += guards
    rows = x.dims[-2:-1]
    columns = y.dims[-1:] if y.rank > 1 else ()
    return (replace(x, shape=(*batch, *rows, *columns)),)


def matmul(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
    """One `contract`. A batch axis of extent 1 that meets a longer one is left out of its spec."""
    x, y = present(xs, 0), present(xs, 1)
    (result,) = matmul_type(v)
    batch = result.rank - min(x.type.rank - 1, 1) - min(y.type.rank - 1, 1)
    if batch > len(_BATCH):
        raise Unsupported("break.rank", rank=result.rank)
    letters = _BATCH[:batch]
    x, left = _without_ones(b, x, letters, result.dims, "mk")
    y, right = _without_ones(b, y, letters, result.dims, "kn")
    rows = "m" if "m" in left else ""
    columns = "n" if "n" in right else ""
    z = product(b, x, y, f"{left},{right}->{''.join(letters)}{rows}{columns}")
    return (z,)


def _without_ones(
    b: Builder, x: Value, letters: list[str], result: Shape, matrix: str
) -> tuple[Value, str]:
    """The operand without batch axes of extent 1 that the result has longer, and its letters."""
    if x.type.rank == 1:
        return x, "k"
    batch = x.type.dims[:-2]
    first = len(letters) - len(batch)
    kept = [
        k for k, d in enumerate(batch) if d != ONE or result[first + k] == ONE
    ]
    spec = "".join(letters[first + k] for k in kept) + matrix
    if len(kept) == len(batch):
        return x, spec
    return b.reshape(x, (*(batch[k] for k in kept), *x.type.dims[-2:])), spec


# ---- Gemm --------------------------------------------------------------------------------------


def _matrices(v: NodeView) -> tuple[TensorType, TensorType]:
    a, w = v.type(0), v.type(1)
    if a.rank != 2 or w.rank != 2:
        raise Unsupported("break.gemm-rank", left=a.rank, right=w.rank)
    return a, w


def gemm_type(v: NodeView) -> tuple[TensorType, ...]:
    a, w = _matrices(v)
    rows, left = a.dims[::-1] if v.op.int("transA", 0) else a.dims
    right, columns = w.dims[::-1] if v.op.int("transB", 0) else w.dims
    v.guards += same(left, right, v.position, "guard.contract")
    return (replace(a, shape=(rows, columns)),)


def gemm(b: Builder, v: NodeView, xs: Inputs) -> tuple[Value, ...]:
    """α A' B' + β C. Factors of 1 cost nothing; with β = 0 or no C there is no sum.

    C broadcasts to the product and never grows it. Integer products take whole α and β only.
    """
    _matrices(v)
    left = "km" if v.op.int("transA", 0) else "mk"
    right = "nk" if v.op.int("transB", 0) else "kn"
    y = product(b, present(xs, 0), present(xs, 1), f"{left},{right}->mn")
    alpha, beta = v.op.float("alpha", 1.0), v.op.float("beta", 1.0)
    if not y.type.element.is_float and not (alpha.is_integer() and beta.is_integer()):
        raise Unsupported("break.dtype", dtype=y.type.element.value)
    if alpha != 1:
        y = b.mul(y, b.like(alpha, y))
    c = xs[2] if len(xs) > 2 else None
    if c is None or beta == 0:
        return (y,)
    require_one_dtype(y, c)
    require_fits(b, c, y.type.dims)
    return (b.add(y, c if beta == 1 else b.mul(c, b.like(beta, c))),)


OPERATORS = (
    Operator("MatMul", (1, 9, 13), matmul_type, matmul),
    Operator("Gemm", (1, 6, 7, 9, 11, 13), gemm_type, gemm),
)
