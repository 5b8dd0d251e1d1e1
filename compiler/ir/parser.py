"""Read the text form back: recursive descent over one flat list of tokens.

    parse_module(print_module(m)) == m

The grammar stands at the head of `printer`. One rule of the grammar is one method here, named
after it; a method looks one token ahead and never goes back.

Teaches: a small language needs no parser generator.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections import ChainMap
from collections.abc import Callable, MutableMapping
from typing import NoReturn, TypeVar

from .dims import INFINITY, Dim, Guard, Symbol, dim
from .graph import NO_ORIGINS, Graph, Node, Op, Origin, Origins, Param, Value
from .loops import (
    ARG_MODES,
    AXIS_KINDS,
    BINARY,
    COMPARE,
    SPACES,
    UNARY,
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
)
from .module import Module, Source, SourceLine
from .plan import BindStep, Buffer, CallStep, CopyStep, KernelStep, Operand, Plan, Step
from .printer import (
    DTYPES,
    HEADS,
    INFIX,
    LITERALS,
    Names,
    default_extents,
    dim_attribute,
    read_number,
)
from .types import UNKNOWN, Attr, Attrs, DType, KernelRef, ParamRef, Scalar, TensorType

T = TypeVar("T")
Scope = MutableMapping[str, TensorType]

_TOKEN = re.compile(
    r"""[ \t\r\n]*(?:
        (?P<word>[A-Za-z_][A-Za-z0-9_.]*)
      | (?P<number>0x[0-9a-f]+|[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)
      | (?P<text>"(?:[^"\\\n]|\\.)*")
      | (?P<line>\|[^\n]*)
      | (?P<sign>->|//|==|!=|<=|>=|\+=|\*=|[()\[\]{},:;=<>+\-*/%@?])
      | (?P<end>\Z)
      | (?P<other>.)
    )""",
    re.VERBOSE | re.DOTALL,
)
_ORIGIN = re.compile(r"n(?:\d+(?:\.\d+)*)?\Z")
_BY_SIGN = {sign: (function, binding) for function, (sign, binding) in INFIX.items()}


class ParseError(ValueError):
    """Text that is no module: `line` and `column` (from 1), what was expected, what was found."""

    def __init__(self, line: int, column: int, expected: str, found: str) -> None:
        super().__init__(f"line {line}, column {column}: expected {expected}, found {found}")
        self.line, self.column, self.expected, self.found = line, column, expected, found


class _Parser:
    """A position in the list of tokens; every method takes what it names and moves on."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.kinds: list[str] = []
        self.tokens: list[str] = []
        self.starts: list[int] = []
        for found in _TOKEN.finditer(text):
            kind = found.lastgroup or "end"
            self.kinds.append(kind)
            self.tokens.append(found[kind])
            self.starts.append(found.start(kind))
            if kind == "end":
                break
        self.at = 0

    # ---- tokens

    def fail(self, expected: str, at: int | None = None) -> NoReturn:
        at = self.at if at is None else at
        start = self.starts[at]
        breaks = [m.start() for m in re.finditer("\n", self.text)]
        line = bisect_right(breaks, start - 1)
        column = start - (breaks[line - 1] if line else -1)
        token = self.tokens[at]
        shown = token if len(token) <= 40 else token[:40] + "…"
        found = "the end of the text" if self.kinds[at] == "end" else shown
        raise ParseError(line + 1, column, expected, found)

    def peek(self, ahead: int = 0) -> str:
        """The text of a token to come; quoted text keeps its quotes, the end is empty."""
        at = self.at + ahead
        return self.tokens[at] if at < len(self.tokens) else ""

    @property
    def kind(self) -> str:
        return self.kinds[self.at]

    def take(self, token: str) -> bool:
        """Move past `token` if it comes next. (No quoted text equals a word or a sign.)"""
        if self.tokens[self.at] != token:
            return False
        self.at += 1
        return True

    def need(self, token: str) -> None:
        if not self.take(token):
            self.fail(f"'{token}'")

    def name(self, what: str = "a name") -> str:
        """A plain word or quoted text."""
        kind, token = self.kinds[self.at], self.tokens[self.at]
        if kind == "word" and token != "_":
            self.at += 1
            return token
        if kind == "text":
            return self.quoted(what)
        self.fail(what)

    def quoted(self, what: str) -> str:
        if self.kind != "text":
            self.fail(f"{what} in quotes")
        token = self.tokens[self.at]
        try:
            text: str = json.loads(token) if "\\" in token else token[1:-1]
        except ValueError:
            self.fail("text escaped as in JSON")
        self.at += 1
        return text

    def optional_quoted(self, what: str) -> str:
        return self.quoted(what) if self.kind == "text" else ""

    def integer(self) -> int:
        negative = self.take("-")
        token = self.peek()
        if self.kind != "number" or not token.isdigit():
            self.fail("an integer")
        self.at += 1
        return -int(token) if negative else int(token)

    def items(self, item: Callable[[], T], opening: str, closing: str) -> tuple[T, ...]:
        """`opening item, item, … closing`, perhaps empty."""
        self.need(opening)
        found: list[T] = []
        while not self.take(closing):
            if found and not self.take(","):
                self.fail(f"',' or '{closing}'")
            found.append(item())
        return tuple(found)

    def section(self, name: str, item: Callable[[], T]) -> tuple[T, ...]:
        """`name(item, …)`, or nothing."""
        return self.items(item, "(", ")") if self.take(name) else ()

    # ---- dimensions, types, numbers, origins

    def dim(self) -> Dim:
        total = -self._product() if self.take("-") else self._product()
        while self.peek() in ("+", "-"):
            total = total + self._product() if self.take("+") else self._minus(total)
        return total

    def _minus(self, total: Dim) -> Dim:
        self.need("-")
        return total - self._product()

    def _product(self) -> Dim:
        result = self._atom()
        while True:
            if self.take("*"):
                result = result * self._atom()
            elif self.take("//"):
                divisor = self.integer()
                if divisor <= 0:
                    self.fail("a positive divisor", self.at - 1)
                result = result // divisor
            else:
                return result

    def _atom(self) -> Dim:
        if self.take("("):
            inner = self.dim()
            self.need(")")
            return inner
        if self.kind == "number":
            return dim(self.integer())
        return dim(self.name("a dimension"))

    def dims(self) -> tuple[Dim, ...]:
        return self.items(self.dim, "[", "]")

    def dtype(self) -> DType:
        found = DTYPES.get(self.peek())
        if found is None:
            self.fail("an element type such as f32")
        self.at += 1
        return found

    def type(self) -> TensorType:
        if self.take("?"):
            return TensorType(None, self.dims()) if self.peek() == "[" else UNKNOWN
        if self.peek() not in DTYPES:
            self.fail("a type such as f32[8,s]")
        element = self.dtype()
        if self.peek() == "[" and self.peek(1) == "*":
            self.at += 2
            self.need("]")
            return TensorType(element, None)
        return TensorType(element, self.dims())

    def number(self, dtype: DType) -> Scalar:
        """A number whose dtype is known, with an optional sign."""
        start = self.at
        sign = "-" if self.take("-") else ""
        if self.kind != "number" and self.peek() not in ("inf", "nan"):
            self.fail("a number")
        text = sign + self.peek()
        self.at += 1
        try:
            return read_number(dtype, text)
        except (ValueError, OverflowError):
            self.fail(f"a number of type {dtype.value}", start)

    def is_scalar(self) -> bool:
        """Whether a scalar with its dtype comes next (a sign or digits alone do not tell)."""
        return self.peek() in ("true", "false") or (self.peek() in DTYPES and self.peek(1) == "(")

    def scalar(self) -> Scalar:
        """`0.5` of f32, `true`, `i64(3)`."""
        if self.take("true"):
            return Scalar(DType.bool, 1)
        if self.take("false"):
            return Scalar(DType.bool, 0)
        if not self.is_scalar():
            return self.number(DType.f32)
        dtype = self.dtype()
        self.need("(")
        value = self.number(dtype)
        self.need(")")
        return value

    def origin(self) -> Origin:
        token = self.peek()
        if self.kind != "word" or not _ORIGIN.match(token):
            self.fail("the position of a node such as n0")
        self.at += 1
        return tuple(int(i) for i in token[1:].split(".") if i)

    def origins(self, inherited: Origins = NO_ORIGINS) -> Origins:
        """`@[n0, …]`; without it what is inherited."""
        if self.peek() == "@" and self.peek(1) == "[":
            self.need("@")
            return frozenset(self.items(self.origin, "[", "]"))
        return inherited

    def reference(self, what: str) -> str:
        self.need("@")
        return self.name(what)

    # ---- attributes

    def attr(self, dimension: bool) -> Attr:
        token, kind = self.peek(), self.kind
        if kind == "text":
            return self.quoted("text")
        if token == "[":
            return self.items(lambda: self.attr(dimension), "[", "]")
        if token == "@":
            return ParamRef(self.reference("a param"))
        if kind == "word" and self.peek(1) == "(" and token in ("int", "dim", "kernel"):
            self.at += 2
            value = (
                self.integer()
                if token == "int"
                else self.dim()
                if token == "dim"
                else KernelRef(self.reference("a kernel"))
            )
            self.need(")")
            return value
        if self.is_scalar():
            return self.scalar()
        if token in DTYPES:
            return self.dtype()
        number = self.peek(1) if token == "-" else token
        if number in ("inf", "nan") or (number[:1].isdigit() and not number.isdigit()):
            return self.scalar()
        value = self.dim()
        return value if dimension or value.constant is None else value.constant

    def attrs(self, kind: str) -> Attrs:
        """`{name=value, …}`, or nothing. Sorted by name."""
        if self.peek() != "{" or self.peek(2) != "=":
            return ()

        def item() -> tuple[str, Attr]:
            name = self.name("an attribute")
            self.need("=")
            return name, self.attr(dim_attribute(kind, name))

        return tuple(sorted(self.items(item, "{", "}"), key=lambda a: a[0]))

    # ---- graph

    def value(self) -> str:
        if not self.take("%"):
            self.fail("a value such as %x")
        return self.name("the name of a value")

    def operand(self) -> str | None:
        return None if self.take("_") else self.value()

    def typed(self) -> Value:
        name = self.value()
        self.need(":")
        return Value(name, self.type())

    def results(self, named: bool) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Outputs, and their names towards the outside: none, or one each.

        `%y as probs` names one, `%y as _` leaves it without; a plain `%y` is called y when
        `named`, else it has none.
        """

        def result() -> tuple[str, str | None]:
            value = self.value()
            if not self.take("as"):
                return value, value if named else None
            return value, None if self.take("_") else self.name()

        start = self.at
        found = self.items(result, "(", ")")
        names = tuple(name for _, name in found if name is not None)
        if len(names) not in (0, len(found)):
            self.fail("outside names for all outputs or for none", start)
        return tuple(value for value, _ in found), names

    def graph(self) -> Graph:
        self.need("graph")
        inputs = self.items(self.typed, "(", ")")
        self.need("->")
        outputs, names = self.results(named=True)
        scope: Scope = {v.name: v.type for v in inputs}
        return Graph(inputs, outputs, self.ops(scope), names)

    def ops(self, scope: Scope) -> tuple[Op, ...]:
        self.need("{")
        found: list[Op] = []
        while not self.take("}"):
            op = self.op(scope)
            for v in op.outputs:
                scope[v.name] = v.type
            found.append(op)
        return tuple(found)

    def op(self, scope: Scope) -> Op:
        if self.peek() != "%":
            self.fail("an op such as '%y = map.exp %x : f32[8]' or '}'")
        names = [self.value()]
        while self.take(","):
            names.append(self.value())
        self.need("=")
        kind = self.name("the kind of an op")
        head: Attrs = ()
        if kind in HEADS and self.peek() not in ("%", "_", "{", ":", "("):
            head = ((HEADS[kind][0], self._head(kind)),)
        inputs: tuple[str | None, ...] = ()
        if kind == "launch" and self.peek() == "(":
            inputs = self.items(self.operand, "(", ")")
        elif self.peek() in ("%", "_"):
            inputs = (self.operand(),)
            while self.take(","):
                inputs = (*inputs, self.operand())
        attrs = self.attrs(kind)
        regions: list[Graph] = []
        while self.peek() in ("(", "{"):
            regions.append(self.region(kind, inputs, tuple(names), scope))
        self.need(":")
        start = self.at
        types = [self.type()]
        while self.take(","):
            types.append(self.type())
        if len(types) != len(names):
            self.fail(f"{len(names)} types, one for each result", start)
        outputs = tuple(map(Value, names, types))
        merged = tuple(sorted((*head, *attrs), key=lambda a: a[0])) if head else attrs
        return Op(kind, inputs, outputs, merged, tuple(regions), self.origins())

    def _head(self, kind: str) -> Attr:
        if kind == "launch":
            return KernelRef(self.reference("a kernel"))
        return ParamRef(self.reference("a param")) if kind == "param" else self.scalar()

    def region(
        self, kind: str, operands: tuple[str | None, ...], results: tuple[str, ...], scope: Scope
    ) -> Graph:
        if self.peek() == "(":
            inputs = self.items(self.typed, "(", ")")
            self.need("->")
            outputs, names = self.results(named=False)
        else:
            if kind != "fused":
                self.fail("the header of a region such as '(%x: f32[8]) -> (%y)'")
            inputs, outputs, names = self._formals(operands, scope), results, ()
        inner: Scope = ChainMap({v.name: v.type for v in inputs}, scope)
        return Graph(inputs, outputs, self.ops(inner), names)

    def _formals(self, operands: tuple[str | None, ...], scope: Scope) -> tuple[Value, ...]:
        found: list[Value] = []
        for name in operands:
            if name is None or name not in scope:
                shown = "_" if name is None else f"%{name}"
                self.fail(f"the header of a region (no type of operand {shown} is known here)")
            found.append(Value(name, scope[name]))
        return tuple(found)

    # ---- kernels

    def kernel(self) -> Kernel:
        self.need("kernel")
        name = self.reference("the name of a kernel")
        extents = self.items(self.name, "[", "]") if self.peek() == "[" else None
        args = self.items(self.arg, "(", ")")
        if extents is None:
            extents = default_extents(a.type.shape for a in args)
        origins, body = self.block(Names(args), NO_ORIGINS)
        return Kernel(name, extents, args, body, origins)

    def arg(self) -> Arg:
        name = self.name("an argument")
        self.need(":")
        mode = self.peek()
        if mode not in ARG_MODES:
            self.fail("in, out, inout or scratch")
        self.at += 1
        return Arg(name, mode, self.type())

    def block(self, names: Names, around: Origins) -> tuple[Origins, tuple[Stmt, ...]]:
        """The origins of a block, and its statements, which inherit them."""
        self.need("{")
        origins = self.origins(around)
        found: list[Stmt] = []
        while not self.take("}"):
            found.append(self.statement(names, origins))
            self.take(";")
        return origins, tuple(found)

    def statement(self, names: Names, around: Origins) -> Stmt:
        token = self.peek()
        if self.kind == "word":
            if token in AXIS_KINDS:
                self.at += 1
                axis = self.name("an axis")
                self.need("in")
                extent = self.dim()
                origins, body = self.block(names, around)
                return For(token, axis, extent, body, origins)
            if self.take("if"):
                condition = self.expr()
                origins, body = self.block(names, around)
                return If(condition, body, origins)
            if self.take("let"):
                return self.let(names, around)
            if self.take("acc"):
                return self.acc(names, around)
            if self.take("alloc"):
                return self.alloc(names, around)
            if self.take("barrier"):
                return Barrier(self.origins(around))
            if self.take("store"):
                buffer = self.name("a buffer")
                indices = self.dims()
                self.need("=")
                value = self.expr()
                return Store(buffer, indices, value, self.origins(around))
        name = self.name("a statement or '}'")
        if self.take("+="):
            function = "add"
        elif self.take("*="):
            function = "mul"
        else:
            function = self.name("'+=', '*=', 'max=' or 'min='")
            self.need("=")
        if self.take("shuffle"):
            return Shuffle(name, function, self.integer(), self.origins(around))
        value = self.expr()
        return Update(name, function, value, self.origins(around))

    def let(self, names: Names, around: Origins) -> Let:
        start = self.at
        name = self.name("the name of a let")
        declared = self.dtype() if self.take(":") else None
        self.need("=")
        value = self.expr()
        dtype = declared or names.dtype(value)
        if dtype is None:
            self.fail("a let with its dtype (the expression does not tell it)", start)
        names.locals[name] = dtype
        return Let(name, dtype, value, self.origins(around))

    def alloc(self, names: Names, around: Origins) -> Alloc:
        name = self.name("the name of an array")
        self.need(":")
        space = self.peek()
        if space not in SPACES:
            self.fail("local or shared")
        self.at += 1
        type = self.type()
        names.buffers[name] = type.dtype
        return Alloc(name, space, type, self.origins(around))

    def acc(self, names: Names, around: Origins) -> Acc:
        name = self.name("the name of an accumulator")
        self.need(":")
        dtype = self.dtype()
        self.need("=")
        init = self.scalar() if self.is_scalar() else self.number(dtype)
        names.locals[name] = dtype
        return Acc(name, dtype, init, self.origins(around))

    # ---- expressions

    def expr(self, level: int = 1) -> Expr:
        """An expression that binds at least as `level`: 1 compare, 2 add, 3 multiply, 4 atom."""
        if level == 4:
            return self.primary()
        left = self.expr(level + 1)
        while self.peek() in _BY_SIGN and self.kind == "sign":
            function, binding = _BY_SIGN[self.peek()]
            if binding != level:
                break
            self.at += 1
            left = Binary(function, left, self.expr(level + 1))
            if function in COMPARE:
                break
        return left

    def primary(self) -> Expr:
        if self.take("("):
            inner = self.expr()
            if isinstance(inner, Load) and self.take("if"):
                guard = self.expr()
                self.need("else")
                inner = Load(inner.buffer, inner.indices, guard, self.scalar())
            self.need(")")
            return inner
        token = self.peek()
        if token == "-" or self.kind == "number" or token in LITERALS or self.is_scalar():
            return Const(self.scalar())
        if self.kind == "word":
            if self.take("load"):
                return Load(self.name("a buffer"), self.dims())
            if self.take("index"):
                self.need("[")
                value = self.dim()
                self.need("]")
                return Index(value)
            if self.peek(1) == "(":
                return self.call(token)
        return Ref(self.name("an expression"))

    def call(self, function: str) -> Expr:
        start = self.at
        self.at += 2
        if function == "cast":
            dtype = self.dtype()
            self.need(",")
            found: Expr = Cast(dtype, self.expr())
        elif function == "select":
            condition = self.expr()
            self.need(",")
            x = self.expr()
            self.need(",")
            found = Select(condition, x, self.expr())
        elif function == "aligned":
            buffers = [self.name("a buffer")]
            while self.take(","):
                buffers.append(self.name("a buffer"))
            found = Aligned(tuple(buffers))
        elif function in UNARY:
            found = Unary(function, self.expr())
        elif function in BINARY:
            x = self.expr()
            self.need(",")
            found = Binary(function, x, self.expr())
        else:
            self.fail("a scalar function such as exp", start)
        self.need(")")
        return found

    # ---- plan

    def plan(self) -> Plan:
        self.need("plan")
        guards = self.section("guards", self.guard)
        self.need("{")
        buffers: list[Buffer] = []
        while self.peek() == "buffer":
            buffers.append(self.buffer())
        steps: list[Step] = []
        while not self.take("}"):
            if self.peek() != str(len(steps)):
                self.fail(f"step {len(steps)} or '}}'")
            self.at += 1
            self.need(":")
            steps.append(self.step())
        return Plan(tuple(steps), tuple(buffers), guards)

    def buffer(self) -> Buffer:
        self.need("buffer")
        name = self.name("a buffer")
        self.need(":")
        kind = self.name("the kind of a buffer")
        source = self.optional_quoted("the outside name")
        members = self.items(self.value, "[", "]")
        self.need("size")
        size = self.dim()
        self.need("live")
        start, stop = self.bounds()
        return Buffer(name, kind, source, members, size, start, stop)

    def bounds(self) -> tuple[int, int]:
        found = self.items(self.integer, "[", "]")
        if len(found) != 2:
            self.fail("two numbers such as [0,3]", self.at - 1)
        return found[0], found[1]

    def place(self) -> Operand:
        value = self.value()
        buffer = self.name("a buffer") if self.take("in") else value
        self.need(":")
        return Operand(value, buffer, self.type())

    def place_or_absent(self) -> Operand | None:
        return None if self.take("_") else self.place()

    def step(self) -> Step:
        if self.take("kernel"):
            kernel = self.reference("a kernel")
            inputs = self.items(self.place, "(", ")")
            self.need("->")
            outputs = self.items(self.place, "(", ")")
            self.need("extents")
            extents = self.dims()
            scratch = self.dims() if self.take("scratch") else ()
            self.need("parallel")
            parallel = self.dim()
            self.need("work")
            work = self.dim()
            operands = (*inputs, *outputs)
            written = len(outputs)
            return KernelStep(
                kernel, extents, operands, scratch, parallel, work, written, self.origins()
            )
        if self.take("call"):
            function = self.name("a library function")
            arguments = self.items(self.place_or_absent, "(", ")")
            self.need("->")
            results = self.items(self.place, "(", ")")
            return CallStep(function, arguments, results, self.attrs("call"), self.origins())
        if self.take("copy"):
            source = self.place()
            self.need("->")
            return CopyStep(source, self.place(), self.origins())
        if self.take("bind"):
            return BindStep(self.value(), self.items(self.axis, "[", "]"), self.origins())
        self.fail("a step: kernel, call, copy or bind")

    def axis(self) -> tuple[int, str]:
        axis = self.integer()
        self.need(":")
        return axis, self.name("a symbol")

    # ---- sources

    def source(self) -> Source:
        self.need("source")
        kernel = self.reference("a kernel")
        symbol = self.labelled("symbol")
        math = self.labelled("math")
        self.need("{")
        rows: list[str] = []
        while self.kind == "line":
            rows.append(self.peek()[2:] if self.peek()[1:2] == " " else self.peek()[1:])
            self.at += 1
        if not rows:
            self.fail("a line of source behind '|'")
        self.need("}")
        artifacts = self.section("artifacts", self.artifact)
        lines = self.section("lines", self.mark)
        return Source(kernel, symbol, "\n".join(rows), lines, artifacts, math)

    def labelled(self, label: str) -> str:
        """`label("text")`."""
        self.need(label)
        self.need("(")
        text = self.quoted(f"the {label}")
        self.need(")")
        return text

    def artifact(self) -> tuple[str, str]:
        return self.name("the kind of an artifact"), self.quoted("a digest")

    def mark(self) -> SourceLine:
        line = self.integer()
        return SourceLine(line, self.items(self.integer, "[", "]"), self.origins())

    # ---- module

    def symbol(self) -> Symbol:
        name = self.name("a symbol")
        low, high = self.bounds() if self.take("in") else (0, INFINITY)
        return Symbol(name, low, high, self.integer() if self.take("%") else 1)

    def guard(self) -> Guard:
        left = self.dim()
        relation = self.peek()
        if relation not in ("==", "<=", "!="):
            self.fail("'==', '<=' or '!='")
        self.at += 1
        right = self.dim()
        node = self.origin() if self.take("@") else ()
        return Guard(left, relation, right, node, self.optional_quoted("a reason"))

    def opset(self) -> tuple[str, int]:
        return self.name("a domain"), self.integer()

    def node(self) -> Node:
        position = self.origin()
        op = self.name("an operator")
        return Node(position, self.optional_quoted("the name of a node"), op)

    def param(self) -> Param:
        name = self.name("a param")
        self.need(":")
        return Param(name, self.type(), self.quoted("a digest"))

    def module(self) -> Module:
        self.need("module")
        name = self.reference("the name of the module")
        dims = self.section("dims", self.symbol)
        guards = self.section("guards", self.guard)
        opsets = self.section("opsets", self.opset)
        nodes = self.section("nodes", self.node)
        params = self.section("params", self.param)
        self.need("{")
        graph = self.graph() if self.peek() == "graph" else Graph()
        kernels: list[Kernel] = []
        while self.peek() == "kernel":
            kernels.append(self.kernel())
        plan = self.plan() if self.peek() == "plan" else None
        sources: list[Source] = []
        while self.peek() == "source":
            sources.append(self.source())
        self.need("}")
        return Module(
            name, dims, guards, opsets, nodes, params, graph, tuple(kernels), plan, tuple(sources)
        )


def _whole(text: str, rule: Callable[[_Parser], T]) -> T:
    parser = _Parser(text)
    found = rule(parser)
    if parser.kind != "end":
        parser.fail("the end of the text")
    return found


def parse_module(text: str) -> Module:
    """The module that `print_module` printed. ParseError names line, column, what was expected."""
    return _whole(text, _Parser.module)


def parse_kernel(text: str) -> Kernel:
    """The kernel that `print_kernel` printed."""
    return _whole(text, _Parser.kernel)


def parse_plan(text: str) -> Plan:
    """The plan that `print_plan` printed."""
    return _whole(text, _Parser.plan)


def parse_type(text: str) -> TensorType:
    """`f32[8,s]`, `?`."""
    return _whole(text, _Parser.type)


def parse_dim(text: str) -> Dim:
    """`2*s+1`, `(s+1)//2`."""
    return _whole(text, _Parser.dim)
