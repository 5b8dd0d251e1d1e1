"""The one text form of a module, at every level; `parser.parse_module` reads it back.

    parse_module(print_module(m)) == m      for every well-formed module

The grammar (`[x]` optional, `x, …` a list; white space is free except inside `| source` lines):

    module  = "module" @name [dims(…)] [guards(…)] [opsets(…)] [nodes(…)] [params(…)]
              "{" graph kernel… [plan] source… "}"
    graph   = "graph" (%x: type, …) -> (%y [as name], …) "{" op… "}"
    op      = %y, … "=" kind [head] [%x, _, …] [{name=value, …}] region… ":" type, … [@[n0, …]]
    region  = [(%x: type, …) -> (%y, …)] "{" op… "}"
    kernel  = "kernel" @name ["[" extent, … "]"] (x: mode type, …) block
    block   = "{" [@[n0, …]] stmt… "}"
    stmt    = kind i in extent block | let e[: dtype] = expr | acc m: dtype = number
            | m += expr | m max= expr | store y[i, j] = expr | if expr block
            | alloc x: space type | m max= shuffle 16 | barrier
    plan    = "plan" [guards(…)] "{" buffer… step… "}"
    source  = "source" @kernel symbol(name) math(name) "{" |line… "}" [artifacts(…)] [lines(…)]

What a reader can see is left out: the header of a `fused` region (its formals are the operands,
its results the outputs), the extents of a kernel when the argument shapes name them in their
order, the dtype of a `let` when its expression tells, and the origins of a statement when they
are those of the block that holds it (`@[]`: none).

Attribute values: `3` an int, `"s"` text, `f32` a dtype, `0.5` a Scalar of f32, `i64(3)` a Scalar,
`2*s+1` a dimension, `@w` a param, `[…]` a tuple; `int(3)`, `dim(3)`, `kernel(@k)` where the plain
form would be read otherwise (in `launch`, `dims`, the starts of a `slice` and the widths of a `pad`
a bare integer is a dimension).

Teaches: a text form that loses nothing makes every snapshot of a compiler a test.
"""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import compress, count
from operator import is_not

import numpy as np

from .dims import Dim, Guard, Symbol, dim, format_dim, plain_word, quote
from .graph import NO_ORIGINS, Graph, Node, Op, Origin, Origins, Param, Value, format_origin
from .loops import (
    COMPARE,
    Acc,
    Aligned,
    Alloc,
    Arg,
    Barrier,
    Binary,
    Cast,
    Const,
    Expr,
    For,
    If,
    Index,
    Kernel,
    Let,
    Load,
    Ref,
    Select,
    Shuffle,
    Stmt,
    Store,
    Unary,
    Update,
    infer_dtype,
    map_expr,
)
from .module import EMPTY, Module, Source
from .plan import BindStep, Buffer, CallStep, CopyStep, KernelStep, Operand, Plan, Step
from .types import Attr, Attrs, DType, KernelRef, ParamRef, Scalar, TensorType

WIDTH = 100
"""Lists longer than a line of this many characters are broken."""

HEADS: Mapping[str, tuple[str, type[Scalar] | type[ParamRef] | type[KernelRef]]] = {
    "const": ("value", Scalar),
    "param": ("param", ParamRef),
    "launch": ("kernel", KernelRef),
}
"""Kinds whose main attribute stands right behind the kind, without its name."""

DTYPES: Mapping[str, DType] = {d.value: d for d in DType}
LITERALS = frozenset({"inf", "nan", "true", "false"})
KEYWORDS = LITERALS | {
    "par", "seq", "red", "vec", "stream", "block", "warp", "lane", "let", "acc", "store", "if",
    "load", "index", "else", "unroll", "wide", "alloc", "barrier", "shuffle",
}  # fmt: skip
"""Words that a `let` or an accumulator of the same name is quoted for."""

INFIX = {
    "eq": ("==", 1), "ne": ("!=", 1), "lt": ("<", 1), "le": ("<=", 1), "gt": (">", 1),
    "ge": (">=", 1), "add": ("+", 2), "sub": ("-", 2), "mul": ("*", 3), "div": ("/", 3),
}  # fmt: skip
"""Binary functions with a sign of their own: sign and precedence."""


def dim_attribute(kind: str, name: str) -> bool:
    """Whether a bare integer in this attribute is a dimension, not an int."""
    return kind in ("launch", "dims") or (kind, name) in _DIM_LISTS


_DIM_LISTS = frozenset({("slice", "starts"), ("pad", "before"), ("pad", "after")})


@dataclass(frozen=True, slots=True)
class Line:
    """One printed line. `key`: the value, kernel, buffer or step that it belongs to, or empty.

    `section` is one of `module`, `graph`, `kernel`, `plan`, `source`.
    """

    text: str
    key: str
    origins: Origins
    section: str


# ---- names, numbers, types ---------------------------------------------------------------------

_name = lru_cache(1 << 14)(quote)
_UNPLAIN = re.compile(r'[^ -!#-\[\]-~]')


def quoted(text: str) -> str:
    """Text in quotes, escaped as in JSON."""
    if not _UNPLAIN.search(text):
        return f'"{text}"'
    return _name(text)


def _word(name: str) -> str:
    """A name in a kernel's expressions, quoted where it would read as a keyword."""
    return f'"{name}"' if name in KEYWORDS else _name(name)


@lru_cache(1 << 12)
def print_number(value: Scalar) -> str:
    """A scalar without its dtype: the shortest decimal that reads back as the same bits.

    Bits that no decimal stands for (NaN payloads, complex numbers) print as `0x…`.
    """
    try:
        number = value.value()
        if value.dtype is DType.f64:
            text = repr(number)
        elif value.dtype.is_float:
            text = str(np.float16(number) if value.dtype is DType.f16 else np.float32(number))
        else:
            text = str(int(number))
        if read_number(value.dtype, text) == value:
            return text
    except (ValueError, OverflowError, TypeError):
        pass
    return f"{value.bits:#x}"


def read_number(dtype: DType, text: str) -> Scalar:
    """The scalar that `print_number` printed. ValueError where the text is no such number."""
    if text.startswith("0x"):
        return Scalar(dtype, int(text, 16))
    if dtype.is_float:
        with np.errstate(over="ignore", under="ignore"):
            return Scalar.of(dtype, float(text))
    number = int(text)
    if dtype is not DType.bool and not dtype.is_integer:
        raise ValueError(f"{text} is no {dtype.value}")
    low, high = (0, 1) if dtype is DType.bool else _range(dtype)
    if not low <= number <= high:
        raise ValueError(f"{text} is out of the range of {dtype.value}")
    return Scalar.of(dtype, number)


def _range(dtype: DType) -> tuple[int, int]:
    bits = 8 * dtype.itemsize
    return (0, 2**bits - 1) if dtype.value[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def print_scalar(value: Scalar) -> str:
    """A scalar with its dtype: `0.5` is f32, `true` is bool, `i64(3)`, `f16(0x7e01)`."""
    text = print_number(value)
    if text[0:2] != "0x":
        if value.dtype is DType.f32:
            return text
        if value.dtype is DType.bool:
            return "true" if value.bits else "false"
    return f"{value.dtype.value}({text})"


@lru_cache(1 << 12)
def print_type(type: TensorType) -> str:
    """`f32[8,s]`; `f32[]` a scalar; `f32[*]` of unknown rank; `?` and `?[8,s]` of unknown dtype."""
    element = "?" if type.dtype is None else type.dtype.value
    if type.shape is None:
        return element if type.dtype is None else f"{element}[*]"
    return f"{element}[{','.join(map(format_dim, type.shape))}]"


def print_origins(origins: Origins) -> str:
    """`@[n0, n3.1]`, sorted; `@[]` for none."""
    return f"@[{', '.join(map(format_origin, sorted(origins)))}]"


def _suffix(origins: Origins) -> str:
    return f"  {print_origins(origins)}" if origins else ""


def _value(name: str | None) -> str:
    return "_" if name is None else "%" + _name(name)


def _values(names: Iterable[str | None]) -> str:
    return ", ".join(map(_value, names))


def _typed(values: Iterable[Value]) -> str:
    return ", ".join(f"%{_name(v.name)}: {print_type(v.type)}" for v in values)


def _dims(values: Iterable[Dim]) -> str:
    return ", ".join(map(format_dim, values))


# ---- attributes --------------------------------------------------------------------------------


def print_attr(value: Attr, dimension: bool = False) -> str:
    """An attribute's value. `dimension`: a bare integer stands for a `Dim`, not for an int."""
    match value:
        case int():
            return f"int({int(value)})" if dimension else str(int(value))
        case str():
            return quoted(value)
        case Dim():
            text = format_dim(value)
            bare = dimension if value.constant is not None else _bare(value)
            return text if bare else f"dim({text})"
        case tuple():
            return f"[{', '.join(print_attr(v, dimension) for v in value)}]"
        case Scalar():
            return print_scalar(value)
        case DType():
            return value.value
        case ParamRef():
            return f"@{_name(value.name)}"
        case KernelRef():
            return f"kernel(@{_name(value.name)})"


def _bare(value: Dim) -> bool:
    """Whether a dimension with symbols can't be taken for text, a dtype or a number."""
    return all(plain_word(s) and s not in LITERALS and s not in DTYPES for s in value.symbols())


def print_attrs(attrs: Attrs, kind: str = "") -> str:
    """`{axes=[1], keepdims=1}`, or nothing."""
    if not attrs:
        return ""
    items = [f"{_name(k)}={print_attr(v, dim_attribute(kind, k))}" for k, v in attrs]
    return f"{{{', '.join(items)}}}"


# ---- graph -------------------------------------------------------------------------------------

Scope = MutableMapping[str, TensorType]
Extents = Mapping[str, tuple[str, ...]]


def _split_head(op: Op) -> tuple[str, Attrs]:
    """The text of the main attribute (empty: none), and the other attributes."""
    head = HEADS.get(op.kind)
    if head is None:
        return "", op.attrs
    name, wanted = head
    for attr, value in op.attrs:
        if attr == name and isinstance(value, wanted):
            text = f"@{_name(value.name)}" if isinstance(value, KernelRef) else print_attr(value)
            return " " + text, tuple(a for a in op.attrs if a[0] != name)
    return "", op.attrs


def _op_start(op: Op, extents: Extents) -> str:
    """The text of an op up to its regions or types."""
    head, rest = _split_head(op)
    parts = [f"{_values(v.name for v in op.outputs)} = {_name(op.kind)}{head}"]
    if op.kind == "launch":
        parts.append(f"({_values(op.inputs)})")
        kernel = op.get("kernel")
        if rest and isinstance(kernel, KernelRef):
            order = {name: k for k, name in enumerate(extents.get(kernel.name, ()))}
            rest = tuple(sorted(rest, key=lambda a: order.get(a[0], len(order))))
    elif op.inputs:
        parts.append(_values(op.inputs))
    if rest:
        parts.append(print_attrs(rest, op.kind))
    return " ".join(parts)


def _op_end(op: Op) -> str:
    return f": {', '.join(print_type(v.type) for v in op.outputs)}{_suffix(op.origins)}"


def _headless(op: Op, scope: Scope | None) -> bool:
    """Whether the region of a `fused` repeats its operands and outputs, so that it needs no head.

    Without a scope the types of the operands are taken for those of the formals.
    """
    if op.kind != "fused" or len(op.regions) != 1:
        return False
    region = op.regions[0]
    return (
        tuple(v.name for v in region.inputs) == op.inputs
        and (scope is None or all(scope.get(v.name) == v.type for v in region.inputs))
        and region.outputs == tuple(v.name for v in op.outputs)
        and not region.names
    )


def _results(outputs: tuple[str, ...], names: tuple[str, ...], default: tuple[str, ...]) -> str:
    if names == default:
        return f"({_values(outputs)})"
    shown = [_name(n) for n in names] or ["_"] * len(outputs)
    return f"({', '.join(f'{_value(o)} as {n}' for o, n in zip(outputs, shown, strict=False))})"


def _graph_lines(
    ops: Iterable[Op], indent: str, scope: Scope | None, extents: Extents
) -> Iterable[Line]:
    for op in ops:
        start = indent + _op_start(op, extents)
        if not op.regions:
            yield Line(f"{start} {_op_end(op)}", op.key, op.origins, "graph")
        else:
            headless = _headless(op, scope)
            for region in op.regions:
                if not headless:
                    results = _results(region.outputs, region.names, ())
                    start += f" ({_typed(region.inputs)}) -> {results}"
                yield Line(start + " {", op.key, op.origins, "graph")
                inner: Scope | None = None
                if scope is not None:
                    inner = ChainMap({v.name: v.type for v in region.inputs}, scope)
                yield from _graph_lines(region.ops, indent + "  ", inner, extents)
                start = indent + "}"
            yield Line(f"{start} {_op_end(op)}", op.key, op.origins, "graph")
        if scope is not None:
            for v in op.outputs:
                scope[v.name] = v.type


def print_op(op: Op, extents: Extents | None = None) -> str:
    """One op, on several lines when it holds regions. `extents`: kernel -> its extents' order."""
    return "\n".join(line.text for line in _graph_lines((op,), "", None, extents or {}))


# ---- kernels -----------------------------------------------------------------------------------


def print_expr(expr: Expr, level: int = 0) -> str:
    """An expression of the loop level, bracketed when it binds less than `level` (0 to 4)."""
    match expr:
        case Const(value):
            return print_scalar(value)
        case Index(value):
            return f"index[{format_dim(value)}]"
        case Ref(name):
            return _word(name)
        case Load(buffer, indices, guard, other):
            text = f"load {_name(buffer)}[{','.join(map(format_dim, indices))}]"
            if guard is None or other is None:
                return text
            rest = print_scalar(other).removesuffix(".0")
            return f"({text} if {print_expr(guard)} else {rest})"
        case Unary(function, x):
            return f"{function}({print_expr(x)})"
        case Binary(function, x, y):
            if function not in INFIX:
                return f"{function}({print_expr(x)}, {print_expr(y)})"
            sign, binding = INFIX[function]
            left = binding + (function in COMPARE)
            text = f"{print_expr(x, left)} {sign} {print_expr(y, binding + 1)}"
            return f"({text})" if binding < level else text
        case Select(c, x, y):
            return f"select({print_expr(c)}, {print_expr(x)}, {print_expr(y)})"
        case Cast(dtype, x):
            return f"cast({dtype.value}, {print_expr(x)})"
        case Aligned(buffers):
            return f"aligned({', '.join(map(_name, buffers))})"


class Names:
    """The dtypes of buffers, lets and accumulators, gathered in the order of the text."""

    def __init__(self, args: Iterable[Arg]) -> None:
        self.buffers = {a.name: a.type.dtype for a in args}
        self.locals: dict[str, DType] = {}

    def copy(self) -> Names:
        other = Names(())
        other.buffers, other.locals = self.buffers, dict(self.locals)
        return other

    def dtype(self, expr: Expr) -> DType | None:
        """The dtype of an expression, None where it does not tell."""
        try:
            return infer_dtype(expr, self.buffers, self.locals)
        except ValueError:
            return None


def _simple(
    stmt: Let | Acc | Update | Store | Alloc | Shuffle | Barrier, names: Names
) -> str:
    match stmt:
        case Alloc(name, space, type):
            names.buffers[name] = type.dtype
            return f"alloc {_name(name)}: {space} {print_type(type)}"
        case Shuffle(name, function, xor):
            sign = {"add": "+", "mul": "*"}.get(function, function)
            return f"{_word(name)} {sign}= shuffle {xor}"
        case Barrier():
            return "barrier"
        case Let(name, dtype, value):
            shown = "" if names.dtype(value) is dtype else f": {dtype.value}"
            names.locals[name] = dtype
            return f"let {_word(name)}{shown} = {print_expr(value)}"
        case Acc(name, dtype, init):
            names.locals[name] = dtype
            return f"acc {_word(name)}: {dtype.value} = {print_literal(init, dtype)}"
        case Update(name, function, value):
            sign = {"add": "+", "mul": "*"}.get(function, function)
            return f"{_word(name)} {sign}= {print_expr(value)}"
        case Store(buffer, indices, value):
            at = ",".join(map(format_dim, indices))
            return f"store {_name(buffer)}[{at}] = {print_expr(value)}"


def print_literal(value: Scalar, dtype: DType) -> str:
    """A scalar where its dtype is known: `0`, `-inf`, `true`."""
    text = print_number(value)
    if value.dtype is not dtype:
        return f"{value.dtype.value}({text})"
    return print_scalar(value) if dtype is DType.bool else text.removesuffix(".0")


def _inline(stmt: For | If, indent: str, names: Names) -> str | None:
    """A loop over simple statements of the same origins, on one line where that fits."""
    trial = names.copy()
    parts: list[str] = []
    for inner in stmt.body:
        if isinstance(inner, For | If) or inner.origins != stmt.origins:
            return None
        parts.append(_simple(inner, trial))
    text = f"{indent}{_block_start(stmt)} {{ {'; '.join(parts)} }}"
    if not parts or len(text) > WIDTH:
        return None
    names.locals = trial.locals
    return text


def _block_start(stmt: For | If) -> str:
    if isinstance(stmt, If):
        return f"if {print_expr(stmt.condition)}"
    return f"{stmt.kind} {_name(stmt.axis)} in {format_dim(stmt.extent)}"


def _body_lines(
    body: Sequence[Stmt], key: str, around: Origins, indent: str, names: Names
) -> Iterable[Line]:
    for stmt in body:
        origins = "" if stmt.origins == around else f"  {print_origins(stmt.origins)}"
        if not isinstance(stmt, For | If):
            text = f"{indent}{_simple(stmt, names)}{origins}"
            yield Line(text, key, stmt.origins, "kernel")
            continue
        short = None if origins else _inline(stmt, indent, names)
        if short is not None:
            yield Line(short, key, stmt.origins, "kernel")
            continue
        text = f"{indent}{_block_start(stmt)} {{{origins}"
        yield Line(text, key, stmt.origins, "kernel")
        yield from _body_lines(stmt.body, key, stmt.origins, indent + "  ", names)
        yield Line(indent + "}", key, stmt.origins, "kernel")


def default_extents(shapes: Iterable[tuple[Dim, ...] | None]) -> tuple[str, ...]:
    """The symbols of argument shapes in the order in which they first stand in the text."""
    found: dict[str, None] = {}

    def visit(value: Dim) -> None:
        for monomial, _ in value.terms:
            for atom in monomial:
                if isinstance(atom, str):
                    found.setdefault(atom)
                else:
                    visit(atom.numerator)

    for shape in shapes:
        for value in shape or ():
            visit(value)
    return tuple(found)


def _kernel_lines(kernel: Kernel, indent: str) -> Iterable[Line]:
    args = ", ".join(f"{_name(a.name)}: {a.mode} {print_type(a.type)}" for a in kernel.args)
    extents = ""
    if kernel.extents != default_extents(a.type.shape for a in kernel.args):
        extents = f" [{', '.join(map(_name, kernel.extents))}]"
    start = f"{indent}kernel @{_name(kernel.name)}{extents} ({args}) {{{_suffix(kernel.origins)}"
    key, origins = kernel.name, kernel.origins
    yield Line(start, key, origins, "kernel")
    yield from _body_lines(kernel.body, key, origins, indent + "  ", Names(kernel.args))
    yield Line(indent + "}", key, origins, "kernel")


def kernel_lines(kernel: Kernel) -> tuple[Line, ...]:
    """The lines of a kernel, each with its origins."""
    return tuple(_kernel_lines(kernel, ""))


def print_kernel(kernel: Kernel) -> str:
    """A kernel with argument modes and origins; `parse_kernel` reads it back."""
    return "\n".join(line.text for line in _kernel_lines(kernel, ""))


def canonical_kernel(kernel: Kernel) -> str:
    """Text that two kernels share exactly when they differ in names and origins alone.

    Extents become `e0, e1, …`, arguments `a0, …`, axes `i0, …`, lets and accumulators `t0, …`,
    each by its position; the name and all origins go.
    """
    extents = {name: f"e{k}" for k, name in enumerate(kernel.extents)}
    buffers = {arg.name: f"a{k}" for k, arg in enumerate(kernel.args)}
    axes = 0
    locals_ = 0

    def body(stmts: Sequence[Stmt], sizes: dict[str, Dim], names: dict[str, str]) -> list[Stmt]:
        nonlocal axes, locals_
        sizes, names = dict(sizes), dict(names)

        def expr(e: Expr) -> Expr:
            match e:
                case Ref(name):
                    return Ref(names.get(name, name))
                case Load(buffer, indices):
                    return replace(e, buffer=buffers.get(buffer, buffer), indices=at(indices))
                case Index(value):
                    return Index(value.substitute(sizes))
                case Aligned(given):
                    return Aligned(tuple(buffers.get(b, b) for b in given))
                case _:
                    return e

        def at(indices: tuple[Dim, ...]) -> tuple[Dim, ...]:
            return tuple(i.substitute(sizes) for i in indices)

        def fresh(name: str) -> str:
            nonlocal locals_
            names[name] = f"t{locals_}"
            locals_ += 1
            return names[name]

        out: list[Stmt] = []
        for s in stmts:
            match s:
                case For():
                    axis = f"i{axes}"
                    axes += 1
                    inner = body(s.body, {**sizes, s.axis: dim(axis)}, names)
                    out.append(For(s.kind, axis, s.extent.substitute(sizes), tuple(inner)))
                case If():
                    condition = map_expr(s.condition, expr)
                    out.append(If(condition, tuple(body(s.body, sizes, names))))
                case Let():
                    value = map_expr(s.value, expr)
                    out.append(Let(fresh(s.name), s.dtype, value))
                    if s.dtype is DType.i64:
                        sizes[s.name] = dim(names[s.name])
                case Acc():
                    out.append(Acc(fresh(s.name), s.dtype, s.init))
                case Update():
                    value = map_expr(s.value, expr)
                    out.append(Update(names.get(s.name, s.name), s.function, value))
                case Store():
                    value = map_expr(s.value, expr)
                    out.append(Store(buffers.get(s.buffer, s.buffer), at(s.indices), value))
                case Alloc():
                    buffers[s.name] = f"r{len(buffers)}"
                    out.append(Alloc(buffers[s.name], s.space, s.type))
                case Shuffle():
                    out.append(Shuffle(names.get(s.name, s.name), s.function, s.xor))
                case Barrier():
                    out.append(Barrier())
        return out

    sizes = {old: dim(new) for old, new in extents.items()}
    args = tuple(
        type(a)(buffers[a.name], a.mode, _substitute(a.type, sizes)) for a in kernel.args
    )
    stmts = tuple(body(kernel.body, sizes, {}))
    return print_kernel(Kernel("k", tuple(extents.values()), args, stmts))


def _substitute(type: TensorType, sizes: Mapping[str, Dim]) -> TensorType:
    if type.shape is None:
        return type
    return TensorType(type.dtype, tuple(d.substitute(sizes) for d in type.shape))


# ---- plan --------------------------------------------------------------------------------------


def _operand(operand: Operand | None) -> str:
    if operand is None:
        return "_"
    where = "" if operand.buffer == operand.value else f" in {_name(operand.buffer)}"
    return f"%{_name(operand.value)}{where}: {print_type(operand.type)}"


def _operands(operands: Iterable[Operand | None]) -> str:
    return f"({', '.join(map(_operand, operands))})"


def print_step(step: Step) -> str:
    """One step of a plan."""
    match step:
        case KernelStep():
            written = len(step.operands) - step.outputs
            text = f"kernel @{_name(step.kernel)} {_operands(step.operands[:written])}"
            text += f" -> {_operands(step.operands[written:])}"
            text += f" extents [{_dims(step.extents)}]"
            if step.scratch:
                text += f" scratch [{_dims(step.scratch)}]"
            text += f" parallel {format_dim(step.parallel)} work {format_dim(step.work)}"
        case CallStep():
            text = f"call {_name(step.function)} {_operands(step.inputs)}"
            text += f" -> {_operands(step.outputs)}"
            if step.attrs:
                text += " " + print_attrs(step.attrs)
        case CopyStep():
            text = f"copy {_operand(step.source)} -> {_operand(step.target)}"
        case BindStep():
            at = ", ".join(f"{axis}: {_name(symbol)}" for axis, symbol in step.symbols)
            text = f"bind %{_name(step.value)} [{at}]"
    return text + _suffix(step.origins)


def print_buffer(buffer: Buffer) -> str:
    """One alias class of a plan."""
    source = f" {quoted(buffer.source)}" if buffer.source else ""
    text = f"buffer {_name(buffer.name)}: {_name(buffer.kind)}{source} [{_values(buffer.members)}]"
    return f"{text} size {format_dim(buffer.size)} live [{buffer.start}, {buffer.stop}]"


def _plan_lines(plan: Plan, indent: str) -> Iterable[Line]:
    *above, start = _listed("guards", map(print_guard, plan.guards), f"{indent}plan", indent)
    for text in (*above, start + " {"):
        yield Line(text, "", NO_ORIGINS, "plan")
    for buffer in plan.buffers:
        yield Line(f"{indent}  {print_buffer(buffer)}", buffer.name, NO_ORIGINS, "plan")
    for k, step in enumerate(plan.steps):
        yield Line(f"{indent}  {k}: {print_step(step)}", str(k), step.origins, "plan")
    yield Line(indent + "}", "", NO_ORIGINS, "plan")


def print_plan(plan: Plan) -> str:
    """A plan: guards, buffers, numbered steps."""
    return "\n".join(line.text for line in _plan_lines(plan, ""))


# ---- sources -----------------------------------------------------------------------------------


def _source_lines(source: Source, indent: str) -> Iterable[Line]:
    key = source.kernel
    origins: dict[int, Origins] = {}
    for mark in source.lines:
        origins[mark.line] = origins.get(mark.line, NO_ORIGINS) | mark.origins
    start = f"{indent}source @{_name(key)} symbol({quoted(source.symbol)})"
    yield Line(f"{start} math({quoted(source.math)}) {{", key, NO_ORIGINS, "source")
    for k, line in enumerate(source.text.split("\n"), 1):
        text = f"{indent}  | {line}" if line else f"{indent}  |"
        yield Line(text, key, origins.get(k, NO_ORIGINS), "source")
    text = indent + "}"
    artifacts = (f"{_name(kind)} {quoted(digest)}" for kind, digest in source.artifacts)
    marks = (
        f"{m.line} [{', '.join(map(str, m.path))}]{_suffix(m.origins)[1:]}" for m in source.lines
    )
    for name, items in (("artifacts", artifacts), ("lines", marks)):
        *above, text = _listed(name, items, text, indent)
        for line in above:
            yield Line(line, key, NO_ORIGINS, "source")
    yield Line(text, key, NO_ORIGINS, "source")


# ---- module ------------------------------------------------------------------------------------


def _listed(name: str, items: Iterable[str], start: str, indent: str) -> list[str]:
    """`start name(a, b)` on one line when it fits, else rows filled below; `start` for no items."""
    found = list(items)
    if not found:
        return [start]
    short = f"{start} {name}({', '.join(found)})"
    if len(short) + 2 <= WIDTH:
        return [short]
    rows = [f"{indent}  {found[0]}"]
    for item in found[1:]:
        if len(rows[-1]) + len(item) + 3 <= WIDTH:
            rows[-1] += f", {item}"
        else:
            rows[-1] += ","
            rows.append(f"{indent}  {item}")
    return [f"{start} {name}(", *rows, f"{indent})"]


def print_symbol(symbol: Symbol) -> str:
    """`s in [0,1024] % 8`; default bounds and divisor are left out."""
    plain = Symbol(symbol.name)
    text = _name(symbol.name)
    if (symbol.low, symbol.high) != (plain.low, plain.high):
        text += f" in [{symbol.low},{symbol.high}]"
    return text if symbol.divisor == 1 else f"{text} % {symbol.divisor}"


def print_guard(guard: Guard) -> str:
    """`s == 2*t @n3 "guard.broadcast"`."""
    node = f" @{format_origin(guard.node)}" if guard.node else ""
    reason = f" {quoted(guard.reason)}" if guard.reason else ""
    return f"{guard.left} {guard.relation} {guard.right}{node}{reason}"


def _node(node: Node) -> str:
    name = f" {quoted(node.name)}" if node.name else ""
    return f"{format_origin(node.position)} {_name(node.op)}{name}"


def _param(param: Param) -> str:
    return f"{_name(param.name)}: {print_type(param.type)} {quoted(param.digest)}"


def _header_lines(module: Module) -> Iterable[Line]:
    sections: tuple[tuple[str, list[tuple[str, str, Origins]]], ...] = (
        ("dims", [(print_symbol(s), s.name, NO_ORIGINS) for s in module.dims]),
        ("guards", [(print_guard(g), "", _at(g.node)) for g in module.guards]),
        ("opsets", [(f"{_name(d)} {v}", "", NO_ORIGINS) for d, v in module.opsets]),
        ("nodes", [(_node(n), n.name, _at(n.position)) for n in module.nodes]),
        ("params", [(_param(p), p.name, NO_ORIGINS) for p in module.params]),
    )
    start = f"module @{_name(module.name)}"
    shown = [(name, items) for name, items in sections if items]
    short = [f"{name}({', '.join(text for text, _, _ in items)})" for name, items in shown]
    whole = " ".join((start, *short, "{"))
    if len(whole) <= WIDTH:
        yield Line(whole, "", NO_ORIGINS, "module")
        return
    yield Line(start, "", NO_ORIGINS, "module")
    for (name, items), text in zip(shown, short, strict=True):
        if len(text) + 2 <= WIDTH:
            yield Line(f"  {text}", "", NO_ORIGINS, "module")
            continue
        yield Line(f"  {name}(", "", NO_ORIGINS, "module")
        for k, (item, key, origins) in enumerate(items, 1):
            yield Line(f"    {item}{',' if k < len(items) else ''}", key, origins, "module")
        yield Line("  )", "", NO_ORIGINS, "module")
    yield Line("{", "", NO_ORIGINS, "module")


def _at(position: Origin) -> Origins:
    return frozenset({position})


def _head_lines(graph: Graph) -> Iterable[Line]:
    start = f"  graph ({_typed(graph.inputs)}) -> "
    results = _results(graph.outputs, graph.names, graph.outputs)
    if len(start) + len(results) + 2 <= WIDTH or not graph.inputs:
        yield Line(f"{start}{results} {{", "", NO_ORIGINS, "graph")
        return
    yield Line("  graph (", "", NO_ORIGINS, "graph")
    for k, v in enumerate(graph.inputs, 1):
        comma = "," if k < len(graph.inputs) else ""
        yield Line(f"    {_typed((v,))}{comma}", v.name, NO_ORIGINS, "graph")
    yield Line(f"  ) -> {results} {{", "", NO_ORIGINS, "graph")


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of a module's text that changes as one: `of` is what it prints.

    The header (Module), the graph's head (Graph) and its end (None), an op of the top level, a
    kernel, the plan, a source, and the last bracket (None).
    """

    of: Module | Graph | Op | Kernel | Plan | Source | None
    section: str
    lines: tuple[Line, ...]


class PartPrinter:
    """Prints modules part by part; what two modules share is printed once.

    A compile has about as many states as rewrites, and each is nearly the one before it: ops that
    stand at both ends of both are passed over by identity.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[object, ...], tuple[object, Part]] = {}
        self._last = EMPTY
        self._ops: tuple[Part, ...] = ()
        """The parts of the last module's ops."""
        self._bound: dict[int, Op] = {}
        """By id: its ops whose text rests on more than themselves."""

    def parts(self, module: Module) -> tuple[Part, ...]:
        """All parts of the text in order."""
        graph = module.graph
        header = (module.dims, module.guards, module.opsets, module.nodes, module.params)
        ends = (graph.inputs, graph.outputs, graph.names)
        found = [
            self._part(module, "module", (module.name, *map(id, header)),
                       lambda: _header_lines(module), by=header),
            self._part(graph, "graph", tuple(map(id, ends)), lambda: _head_lines(graph), by=ends),
        ]  # fmt: skip
        self._ops = self._op_parts(module)
        self._last = module
        found += self._ops
        found.append(_END_OF_GRAPH)
        for kernel in module.kernels:
            found.append(self._part(kernel, "kernel", (), lambda k=kernel: _kernel_lines(k, "  ")))
        plan = module.plan
        if plan is not None:
            found.append(self._part(plan, "plan", (), lambda: _plan_lines(plan, "  ")))
        for source in module.sources:
            found.append(self._part(source, "source", (), lambda s=source: _source_lines(s, "  ")))
        return (*found, _END)

    def _op_parts(self, module: Module) -> tuple[Part, ...]:
        """Those of the last module, but for what changed between the ends that both share.

        Where a type or a kernel changed that an op at the ends is printed by, all are looked up.
        """
        last, graph = self._last, module.graph
        old, new = last.graph.ops, graph.ops
        if old is new and last.kernels is module.kernels and last.graph.inputs is graph.inputs:
            return self._ops
        start, end = common_ends(old, new)
        stop, until = len(old) - end, len(new) - end
        types = _changed(
            {v.name: v.type for v in (*last.graph.inputs, *_results_of(old[start:stop]))},
            {v.name: v.type for v in (*graph.inputs, *_results_of(new[start:until]))},
        )
        before, after = _extents(last), _extents(module)
        kernels = _changed(before, after)
        for op in old[start:stop]:
            self._bound.pop(id(op), None)
        if any(_printed_by(op, types, kernels) for op in self._bound.values()):
            start, until, stop = 0, len(new), len(old)
        between = new[start:until]
        bound = {id(op): op for op in between if op.regions or op.get("kernel")}
        self._bound |= bound
        moved = {id(p.of): p for p in self._ops[start:stop] if id(p.of) not in bound}
        scope: dict[str, TensorType] = {}
        if any(op.regions for op in between):
            scope |= {v.name: v.type for v in (*graph.inputs, *_results_of(new))}
        made = (moved.get(id(op)) or self._op(op, scope, after) for op in between)
        return (*self._ops[:start], *made, *self._ops[stop:])

    def _op(self, op: Op, scope: Scope, extents: Extents) -> Part:
        """Types of operands matter to a region's head, the order of extents to a launch."""
        ref = op.get("kernel")
        seen = extents.get(ref.name, ()) if isinstance(ref, KernelRef) else ()
        types = tuple(scope.get(n) for n in op.operands) if op.regions else ()
        inner = ChainMap[str, TensorType]({}, scope)
        return self._part(
            op, "graph", (seen, types), lambda: _graph_lines((op,), "    ", inner, extents)
        )

    def _part(
        self,
        of: Module | Graph | Op | Kernel | Plan | Source,
        section: str,
        context: tuple[object, ...],
        lines: Callable[[], Iterable[Line]],
        by: tuple[object, ...] = (),
    ) -> Part:
        """The part of `of` in a context; told by the fields `by` where it is not by itself."""
        key = (section, *context) if by else (id(of), *context)
        kept = self._kept.get(key)
        if kept is None:
            part = Part(of, section, tuple(lines()))
            self._kept[key] = (by or of, part)  # held, so that their ids stay their own
            return part
        return kept[1]


def common_ends(a: Sequence[object], b: Sequence[object]) -> tuple[int, int]:
    """How many items two sequences share at their starts and, behind those, at their ends.

    Told by identity, so it costs little more than a look at each.
    """
    most = min(len(a), len(b))
    start = next(compress(count(), map(is_not, a, b)), most)
    end = next(compress(count(), map(is_not, reversed(a), reversed(b))), most)
    return start, min(end, most - start)


def _results_of(ops: Iterable[Op]) -> Iterable[Value]:
    return (v for op in ops for v in op.outputs)


def _extents(module: Module) -> Extents:
    return {k.name: k.extents for k in module.kernels}


def _changed(before: Mapping[str, object], after: Mapping[str, object]) -> frozenset[str]:
    """Names that do not mean the same in both."""
    return frozenset(n for n in {**before, **after} if before.get(n) != after.get(n))


def _printed_by(op: Op, types: frozenset[str], kernels: frozenset[str]) -> bool:
    """Whether the op's text depends on one of these values' types or kernels."""
    ref = op.get("kernel")
    if isinstance(ref, KernelRef) and ref.name in kernels:
        return True
    return bool(op.regions) and not types.isdisjoint(op.operands)


_END_OF_GRAPH = Part(None, "graph", (Line("  }", "", NO_ORIGINS, "graph"),))
_END = Part(None, "module", (Line("}", "", NO_ORIGINS, "module"),))


def module_lines(module: Module) -> tuple[Line, ...]:
    """Every line of the text, with the value, kernel, buffer or step that it belongs to."""
    return tuple(line for part in PartPrinter().parts(module) for line in part.lines)


def print_module(module: Module) -> str:
    """The whole module; every line ends with a newline."""
    return "".join(f"{line.text}\n" for line in module_lines(module))
