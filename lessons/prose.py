"""Markdown of lessons as a tree of plain nodes, never as HTML.

    {"kind": "paragraph", "children": ["S = ", {"kind": "hole", "expression": "r*c", …}]}

A text is CommonMark with tables, and three things more: a block `::name{#id key="…"}` alone on its
line, a hole `{{…}}` for a figure, and a link `[[slug]]` to a lesson. HTML is text, pictures are
refused, and a link leads to https only, so a viewer needs no filter: it makes elements of the kinds
below and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]
Node = str | dict[str, Json]

HOLE = re.compile(r"\{\{(=?)([^{}]*)\}\}")
LESSON = re.compile(r"\[\[([a-z0-9-]+)\]\]")
BLOCK = re.compile(r"::([a-z]+)(?:\{([^{}]*)\})?\s*")
IDS = re.compile(r"#(\w+(?:\s*,\s*#\w+)*)")
OPTION = re.compile(r'\s*([a-z]+)="([^"]*)"')

CONTAINERS = {
    "paragraph": "paragraph", "bullet_list": "list", "ordered_list": "list", "list_item": "item",
    "blockquote": "quote", "heading": "heading", "table": "table", "thead": "head",
    "tbody": "body", "tr": "row", "th": "header", "td": "cell", "em": "emphasis",
    "strong": "strong", "link": "link",
}  # fmt: skip
"""Kinds of tokens that hold others -> kinds of nodes."""


class ProseProblem(ValueError):
    """A text that is not what this module says, with its line (from 1) where it is known."""

    def __init__(self, text: str, line: int = 0) -> None:
        super().__init__(text)
        self.line = line


@dataclass(frozen=True)
class Directive:
    """`::name{#a,#b key="value"}`: a place where something runs."""

    name: str
    ids: tuple[str, ...]
    options: Mapping[str, str]
    line: int


def read(text: str) -> list[Node | Directive]:
    """The blocks of a text in order. ProseProblem for what a lesson may not hold."""
    tokens = _markdown().parse(text)
    found: list[Node | Directive] = []
    rest = iter(tokens)
    for token in rest:
        if token.type == "directive":
            found.append(_directive(token))
        else:
            found.append(_node(token, rest))
    return found


def holes(node: Json | Directive) -> Iterator[Mapping[str, Json]]:
    """Every hole of a node and of those in it."""
    for each in nodes(node):
        if each["kind"] == "hole":
            yield each


def nodes(node: Json | Directive) -> Iterator[Mapping[str, Json]]:
    """A node and all in it that are no plain text."""
    if isinstance(node, Mapping):
        yield node
        children = node.get("children", ())
        assert isinstance(children, Sequence)
        for child in children:
            yield from nodes(child)


# ---- Markdown ------------------------------------------------------------------------------------


def _markdown() -> MarkdownIt:
    md = MarkdownIt("commonmark", {"html": False}).enable("table")
    md.block.ruler.before("fence", "directive", _block_rule)
    md.inline.ruler.before("link", "hole", _hole_rule)
    md.inline.ruler.before("link", "lesson", _lesson_rule)
    return md


def _block_rule(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    line = state.src[state.bMarks[start] + state.tShift[start] : state.eMarks[start]]
    if state.is_code_block(start) or not line.startswith("::"):
        return False
    if state.level != 0:
        raise ProseProblem(f"{line!r} stands inside a list or a quote", start + 1)
    if silent:
        return True
    token = state.push("directive", "", 0)
    token.content, token.map = line, [start, start + 1]
    state.line = start + 1
    return True


def _hole_rule(state: StateInline, silent: bool) -> bool:
    match = HOLE.match(state.src, state.pos)
    if match is None:
        if state.src.startswith("{{", state.pos):
            raise ProseProblem(f"a figure is not closed: {state.src[state.pos :][:60]!r}")
        return False
    if not silent:
        token = state.push("hole", "", 0)
        token.content = match[0]
    state.pos = match.end()
    return True


def _lesson_rule(state: StateInline, silent: bool) -> bool:
    match = LESSON.match(state.src, state.pos)
    if match is None:
        return False
    if not silent:
        token = state.push("lesson", "", 0)
        token.content = match[1]
    state.pos = match.end()
    return True


# ---- tokens to nodes -----------------------------------------------------------------------------


def _node(token: Token, rest: Iterator[Token]) -> Node:
    if token.nesting == 1:
        name = token.type.removesuffix("_open")
        if name not in CONTAINERS:
            raise ProseProblem(f"a lesson has no {name}", _line(token))
        node: dict[str, Json] = {"kind": CONTAINERS[name], **_attributes(name, token)}
        children: list[Json] = []
        for inner in rest:
            if inner.nesting == -1:
                break
            if inner.type == "inline":
                children += _inline(inner)
            elif not inner.hidden:
                children.append(_node(inner, rest))
            else:  # the paragraph of a tight list: its text belongs to the item
                children += _tight(rest)
        return node | {"children": children}
    match token.type:
        case "fence" | "code_block":
            content = token.content.removesuffix("\n")
            return {"kind": "code", "children": _with_holes(content)}
        case "hr":
            return {"kind": "rule"}
        case "code_inline":
            return {"kind": "literal", "children": [token.content]}
        case "softbreak":
            return " "
        case "hardbreak":
            return {"kind": "break"}
        case "hole":
            return _hole(token.content)
        case "lesson":
            return {"kind": "lesson", "slug": token.content}
        case "text":
            return token.content
        case other:
            raise ProseProblem(f"a lesson has no {other}", _line(token))


def _tight(rest: Iterator[Token]) -> list[Json]:
    found: list[Json] = []
    for inner in rest:
        if inner.nesting == -1:
            break
        found += _inline(inner)
    return found


def _inline(token: Token) -> list[Json]:
    rest = iter(token.children or ())
    found: list[Json] = []
    for child in rest:
        node = _node(child, rest)
        if isinstance(node, str) and found and isinstance(found[-1], str):
            found[-1] += node
        elif node != "":
            found.append(node)
    return found


def _attributes(name: str, token: Token) -> dict[str, Json]:
    match name:
        case "heading":
            return {"level": int(token.tag[1])}
        case "bullet_list" | "ordered_list":
            start = token.attrGet("start")
            return {"ordered": name == "ordered_list", "start": int(start) if start else 1}
        case "th" | "td":
            style = str(token.attrGet("style") or "")
            return {"align": style.removeprefix("text-align:")}
        case "link":
            address = str(token.attrGet("href") or "")
            if not address.startswith("https://"):
                raise ProseProblem(f"a link leads to https, not to {address!r}", _line(token))
            return {"address": address}
        case _:
            return {}


def _with_holes(text: str) -> list[Json]:
    found: list[Json] = []
    at = 0
    for match in HOLE.finditer(text):
        found += [text[at : match.start()], _hole(match[0])]
        at = match.end()
    return [piece for piece in [*found, text[at:]] if piece != ""]


def _hole(source: str) -> dict[str, Json]:
    """`{{path | filter}}` is of runs, `{{= expression | filter}}` of sizes."""
    match = HOLE.fullmatch(source)
    assert match is not None
    expression, bar, shown = match[2].partition("|")
    if bar and not shown.strip():
        raise ProseProblem(f"{source!r} has no filter behind its bar")
    return {
        "kind": "hole",
        "of": "sizes" if match[1] else "runs",
        "expression": expression.strip(),
        "filter": shown.strip() or "so",
    }


def _directive(token: Token) -> Directive:
    line = _line(token)
    match = BLOCK.fullmatch(token.content)
    if match is None:
        raise ProseProblem(f"{token.content!r} is no block", line)
    inside = (match[2] or "").strip()
    ids = IDS.match(inside)
    rest = inside[ids.end() :] if ids else inside
    options = OPTION.findall(rest)
    if OPTION.sub("", rest).strip():
        raise ProseProblem(f"{token.content!r}: {rest.strip()!r} is not understood", line)
    if len(dict(options)) != len(options):
        raise ProseProblem(f"{token.content!r} has an option twice", line)
    named = tuple(w.strip().lstrip("#") for w in ids[1].split(",")) if ids else ()
    return Directive(match[1], named, dict(options), line)


def _line(token: Token) -> int:
    return token.map[0] + 1 if token.map else 0
