"""Arithmetic of lessons: numbers, names, + - * / ** and brackets, read by a parser of its own.

    11*r*c*4/2**20                                       names are sizes
    a.latency.op_by_op.p50 / a.latency.fused.p50         names are paths into runs

Precedence is that of Python. Everything is a float; what has no finite value (a missing name, a
division by zero, an overflow) is None, which a reader sees as "not measured".
`ui/explorer/lesson/arith.mjs` gives the same values; `tests/lessons/arithmetic.json` holds both to
them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)"
    r"|(?P<name>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)|(?P<sign>\*\*|[-+*/()]))",
    re.ASCII,
)
LONGEST = 400
"""Characters of an expression."""
DEEPEST = 50
"""Brackets and signs within each other."""

Lookup = Callable[[str], float | None]
"""The value of a name; None where there is none."""


class ArithmeticProblem(ValueError):
    """A text that is no expression."""


@dataclass(frozen=True)
class Number:
    value: float


@dataclass(frozen=True)
class Name:
    """A size, or a path of words with dots between."""

    path: str


@dataclass(frozen=True)
class Minus:
    operand: Expression


@dataclass(frozen=True)
class Binary:
    """`sign` is one of + - * / **."""

    sign: str
    left: Expression
    right: Expression


Expression = Number | Name | Minus | Binary


def parse(text: str) -> Expression:
    """The expression in `text`. ArithmeticProblem says where it ends to be one."""
    if len(text) > LONGEST:
        raise ArithmeticProblem(f"longer than {LONGEST} characters")
    return _Parser(text).whole()


def names(expression: Expression) -> Iterator[str]:
    """Every name in order, as often as it stands there."""
    match expression:
        case Name(path):
            yield path
        case Minus(operand):
            yield from names(operand)
        case Binary(_, left, right):
            yield from names(left)
            yield from names(right)
        case Number():
            return


def evaluate(expression: Expression, lookup: Lookup) -> float | None:
    """The value; None where a name has none or the result is not finite."""
    match expression:
        case Number(value):
            return value
        case Name(path):
            found = lookup(path)
            return None if found is None else float(found)
        case Minus(operand):
            inner = evaluate(operand, lookup)
            return None if inner is None else -inner
        case Binary(sign, left, right):
            a, b = evaluate(left, lookup), evaluate(right, lookup)
            return None if a is None or b is None else _finite(sign, a, b)


def value_of(text: str, sizes: Mapping[str, float]) -> float | None:
    """`text` evaluated where names are sizes."""
    return evaluate(parse(text), sizes.get)


def _finite(sign: str, a: float, b: float) -> float | None:
    try:
        match sign:
            case "+":
                found = a + b
            case "-":
                found = a - b
            case "*":
                found = a * b
            case "/":
                found = a / b
            case _:
                found = a**b
    except (OverflowError, ZeroDivisionError):
        return None
    return found if isinstance(found, float) and math.isfinite(found) else None


class _Parser:
    """Recursive descent over the tokens of one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._deep = 0
        self._kind, self._token = "", ""
        self._next()

    def whole(self) -> Expression:
        found = self._sum()
        if self._kind:
            raise self._problem()
        return found

    def _next(self) -> None:
        match = TOKEN.match(self._text, self._at)
        if match is None:
            if self._text[self._at :].strip():
                raise self._problem()
            self._kind, self._token = "", ""
            return
        self._at = match.end()
        self._kind = str(match.lastgroup)
        self._token = match[self._kind]

    def _problem(self) -> ArithmeticProblem:
        rest = self._token or self._text[self._at :].strip() or "the end"
        return ArithmeticProblem(f"{self._text!r} is no expression: {rest!r} is out of place")

    def _takes(self, *signs: str) -> str:
        if self._kind != "sign" or self._token not in signs:
            return ""
        sign = self._token
        self._next()
        return sign

    def _sum(self) -> Expression:
        self._deep += 1
        if self._deep > DEEPEST:
            raise ArithmeticProblem(f"more than {DEEPEST} levels deep")
        left = self._product()
        while sign := self._takes("+", "-"):
            left = Binary(sign, left, self._product())
        self._deep -= 1
        return left

    def _product(self) -> Expression:
        left = self._signed()
        while sign := self._takes("*", "/"):
            left = Binary(sign, left, self._signed())
        return left

    def _signed(self) -> Expression:
        if not self._takes("-"):
            return self._power()
        self._deep += 1
        if self._deep > DEEPEST:
            raise ArithmeticProblem(f"more than {DEEPEST} levels deep")
        found = Minus(self._signed())
        self._deep -= 1
        return found

    def _power(self) -> Expression:
        base = self._atom()
        return Binary("**", base, self._signed()) if self._takes("**") else base

    def _atom(self) -> Expression:
        kind, token = self._kind, self._token
        if kind == "number":
            self._next()
            return Number(float(token))
        if kind == "name":
            self._next()
            return Name(token)
        if self._takes("("):
            found = self._sum()
            if not self._takes(")"):
                raise self._problem()
            return found
        raise self._problem()
