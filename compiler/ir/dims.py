"""Dimensions: integer polynomials over symbols, in one canonical form.

    d  ::=  integer  |  symbol  |  d + d  |  d * d  |  d // k      (k a positive integer)

Two dimensions are *provably equal* when their canonical forms are the same object structure:
like terms are collected, monomials and terms are sorted, and the numerator of `d // k` keeps only
coefficients from 1 to k - 1 without a divisor in common with k, because
(a*k + b) // k = a + b // k and (a*g + c) // (k*g) = (a + c // g) // k. What cannot be proved
becomes a guard (see `Guard`), checked once per binding of the symbols to numbers.

Teaches: a compiler that keeps sizes symbolic compiles once for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import gcd

INFINITY = 2**40
"""The default upper bound of a symbol: large enough for any tensor that fits in memory."""


@dataclass(frozen=True, slots=True)
class FloorDiv:
    """The atom `numerator // divisor` with a positive constant divisor (rounds toward -inf)."""

    numerator: Dim
    divisor: int


Atom = str | FloorDiv
Monomial = tuple[Atom, ...]
"""A product of atoms with repetition, sorted; the empty product is 1."""


def _atom_key(atom: Atom) -> tuple[int, str]:
    return (0, atom) if isinstance(atom, str) else (1, format_atom(atom))


def _monomial_key(monomial: Monomial) -> tuple[int, tuple[tuple[int, str], ...]]:
    return (-len(monomial), tuple(_atom_key(a) for a in monomial))


@dataclass(frozen=True, slots=True)
class Dim:
    """A canonical polynomial: sorted `(monomial, coefficient)` terms, no coefficient is 0.

    Build with `dim(...)` and arithmetic, never with the constructor.
    """

    terms: tuple[tuple[Monomial, int], ...]

    @property
    def constant(self) -> int | None:
        """The integer this dimension is, or None when it holds symbols."""
        if not self.terms:
            return 0
        if len(self.terms) == 1 and not self.terms[0][0]:
            return self.terms[0][1]
        return None

    @property
    def symbol(self) -> str | None:
        """The symbol's name when this dimension is exactly one symbol."""
        if len(self.terms) == 1:
            (monomial, coefficient), = self.terms
            if coefficient == 1 and len(monomial) == 1 and isinstance(monomial[0], str):
                return monomial[0]
        return None

    def symbols(self) -> frozenset[str]:
        """Every symbol that occurs, also inside floor divisions."""
        found: set[str] = set()
        for monomial, _ in self.terms:
            for atom in monomial:
                found |= {atom} if isinstance(atom, str) else atom.numerator.symbols()
        return frozenset(found)

    def evaluate(self, sizes: Mapping[str, int]) -> int:
        """The value under `sizes`; KeyError names the first symbol that has none."""
        total = 0
        for monomial, coefficient in self.terms:
            product = coefficient
            for atom in monomial:
                product *= (
                    sizes[atom]
                    if isinstance(atom, str)
                    else atom.numerator.evaluate(sizes) // atom.divisor
                )
            total += product
        return total

    def substitute(self, sizes: Mapping[str, Dim | int]) -> Dim:
        """Replace symbols by dimensions; symbols not in `sizes` stay."""
        total = ZERO
        for monomial, coefficient in self.terms:
            product = dim(coefficient)
            for atom in monomial:
                if isinstance(atom, str):
                    product = product * sizes.get(atom, dim(atom))
                else:
                    product = product * (atom.numerator.substitute(sizes) // atom.divisor)
            total = total + product
        return total

    def __add__(self, other: Dim | int) -> Dim:
        return _collect((*self.terms, *dim(other).terms))

    def __radd__(self, other: int) -> Dim:
        return dim(other) + self

    def __neg__(self) -> Dim:
        return Dim(tuple((m, -c) for m, c in self.terms))

    def __sub__(self, other: Dim | int) -> Dim:
        return self + -dim(other)

    def __rsub__(self, other: int) -> Dim:
        return dim(other) - self

    def __mul__(self, other: Dim | int) -> Dim:
        return _collect(
            (tuple(sorted((*m, *n), key=_atom_key)), c * d)
            for m, c in self.terms
            for n, d in dim(other).terms
        )

    def __rmul__(self, other: int) -> Dim:
        return dim(other) * self

    def __floordiv__(self, divisor: int) -> Dim:
        if divisor <= 0:
            raise ValueError(f"a dimension is divided by a positive constant, not by {divisor}")
        whole = tuple((m, c // divisor) for m, c in self.terms)
        rest = Dim(tuple((m, c % divisor) for m, c in self.terms if c % divisor))
        if rest.constant is not None:
            return _collect(whole)
        common = gcd(divisor, *(c for m, c in rest.terms if m))
        rest = Dim(tuple((m, c // common) for m, c in rest.terms if c >= common))
        return _collect((*whole, ((FloorDiv(rest, divisor // common),), 1)))

    def exact_div(self, other: Dim | int) -> Dim | None:
        """`self / other` when `other` is one term that divides every term, else None."""
        divisor = dim(other)
        if len(divisor.terms) != 1:
            return ONE if divisor.terms and divisor == self else None
        (monomial, coefficient), = divisor.terms
        result: list[tuple[Monomial, int]] = []
        for term, c in self.terms:
            atoms = list(term)
            for atom in monomial:
                if atom not in atoms:
                    return None
                atoms.remove(atom)
            if c % coefficient:
                return None
            result.append((tuple(atoms), c // coefficient))
        return _collect(result)

    def __str__(self) -> str:
        return format_dim(self)


DimLike = Dim | int | str


def dim(value: DimLike) -> Dim:
    """A dimension from an int, a symbol's name, or a dimension."""
    if isinstance(value, Dim):
        return value
    if isinstance(value, str):
        return Dim((((value,), 1),))
    return Dim((((), value),)) if value else ZERO


def dims(values: Iterable[DimLike]) -> tuple[Dim, ...]:
    return tuple(dim(v) for v in values)


def product(values: Iterable[DimLike]) -> Dim:
    """The product of dimensions: the number of elements of a shape (1 for a scalar)."""
    total = ONE
    for value in values:
        total = total * dim(value)
    return total


def at_most(a: Dim, b: Dim) -> bool:
    """Whether `a <= b` for all sizes, as far as the form tells: b - a subtracts nothing."""
    return all(
        coefficient >= 0
        and all(isinstance(atom, str) or at_most(ZERO, atom.numerator) for atom in monomial)
        for monomial, coefficient in (b - a).terms
    )


def ceil_div(value: Dim, divisor: int) -> Dim:
    """The smallest q with q * divisor >= value."""
    return (value + (divisor - 1)) // divisor


def _collect(terms: Iterable[tuple[Monomial, int]]) -> Dim:
    total: dict[Monomial, int] = {}
    for monomial, coefficient in terms:
        total[monomial] = total.get(monomial, 0) + coefficient
    kept = [(m, c) for m, c in total.items() if c]
    if len(kept) > 1:
        kept.sort(key=lambda t: _monomial_key(t[0]))
    return Dim(tuple(kept))


ZERO = Dim(())
ONE = Dim((((), 1),))


def plain_word(name: str) -> bool:
    """Whether a name prints without quotes: a letter or `_`, then letters, digits, `_`, `.`."""
    return (
        name.isascii()
        and bool(name)
        and (name[0].isalpha() or name[0] == "_")
        and name != "_"
        and all(ch.isalnum() or ch in "_." for ch in name)
    )


def quote(name: str) -> str:
    """A name as it stands in text: itself when a plain word, else quoted and escaped (JSON)."""
    if plain_word(name):
        return name
    out = ['"']
    for ch in name:
        if ch in '"\\':
            out.append("\\" + ch)
        elif ch.isprintable():
            out.append(ch)
        else:
            code = ord(ch)
            if code < 0x10000:
                out.append(f"\\u{code:04x}")
            else:
                code -= 0x10000
                out.append(f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}")
    return "".join(out) + '"'


def format_atom(atom: Atom) -> str:
    if isinstance(atom, str):
        return quote(atom)
    inner = format_dim(atom.numerator)
    single = len(atom.numerator.terms) == 1 and atom.numerator.symbol is not None
    return f"{inner}//{atom.divisor}" if single else f"({inner})//{atom.divisor}"


def format_dim(value: Dim) -> str:
    """The canonical text: `2*s+1`, `s*s`, `(s+1)//2`; a floor division as a factor is bracketed."""
    if not value.terms:
        return "0"
    parts: list[str] = []
    for monomial, coefficient in value.terms:
        factors = [
            f"({format_atom(a)})" if isinstance(a, FloorDiv) else format_atom(a) for a in monomial
        ]
        if len(value.terms) == 1 and len(factors) == 1 and coefficient == 1:
            factors = [format_atom(monomial[0])]
        if abs(coefficient) != 1 or not factors:
            factors.insert(0, str(abs(coefficient)))
        sign = "-" if coefficient < 0 else "+" if parts else ""
        parts.append(sign + "*".join(factors))
    return "".join(parts)


@dataclass(frozen=True, slots=True)
class Symbol:
    """A symbolic dimension: inclusive bounds, and a divisor of every value."""

    name: str
    low: int = 0
    high: int = INFINITY
    divisor: int = 1

    def admits(self, value: int) -> bool:
        return self.low <= value <= self.high and value % self.divisor == 0


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition on dimensions that could not be proved: `left relation right`.

    `relation` is one of `==`, `<=`, `!=`; `node` is the position of the ONNX node that needs it;
    `reason` is a message id. A binding checks every guard once and raises `GuardError` on failure.
    """

    left: Dim
    relation: str
    right: Dim
    node: tuple[int, ...]
    reason: str

    def holds(self, sizes: Mapping[str, int]) -> bool:
        a, b = self.left.evaluate(sizes), self.right.evaluate(sizes)
        return a == b if self.relation == "==" else a <= b if self.relation == "<=" else a != b

    def symbols(self) -> frozenset[str]:
        return self.left.symbols() | self.right.symbols()

    def __str__(self) -> str:
        """The condition with nothing subtracted: `256 <= s` for `256-s <= 0`."""
        difference = (self.left - self.right).terms
        left, right = (Dim(tuple((m, abs(c)) for m, c in difference if sign * c > 0))
                       for sign in (1, -1))  # fmt: skip
        return f"{left} {self.relation} {right}"
