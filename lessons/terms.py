"""The terms of the glossary in the text of a lesson, as nodes that a viewer makes links of.

    "A kernel or two kernels." -> "A ", {"kind": "term", "id": "kernel", "children": ["kernel"]}, …

The first use of each term in a lesson is marked and no other: a link that comes again tells nothing
new, and stands in the way of whoever goes from link to link. Headings, code, figures (which can be
pressed) and links stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from lessons.glossary import glossary, mark, said
from lessons.prose import Directive, Json, Node

BARE = frozenset({"heading", "header", "code", "literal", "hole", "link", "lesson"})
"""Kinds of nodes whose text is no prose, or that lead or do something themselves."""


def with_terms(blocks: Sequence[Node | Directive], language: str) -> list[Node | Directive]:
    """The blocks of a text with the first use of each term as a node of its own."""
    seen: set[str] = set()
    found: list[Node | Directive] = []
    for block in blocks:
        if isinstance(block, Directive):
            found.append(block)
        else:
            found += _marked(block, language, seen)
    return found


def _marked(node: Json, language: str, seen: set[str]) -> Iterator[Node]:
    """A node in pieces: text parts where terms stand in it. `seen` grows."""
    if isinstance(node, str):
        yield from _text(node, language, seen)
        return
    assert isinstance(node, Mapping)
    children = node.get("children", ())
    assert isinstance(children, Sequence)
    if node["kind"] in BARE:
        yield dict(node)
    elif node["kind"] == "strong" and (term := _named(children, language)) is not None:
        yield dict(node) if term in seen else {**node, "children": [_term(term, str(children[0]))]}
        seen.add(term)
    else:
        found = [piece for child in children for piece in _marked(child, language, seen)]
        yield {**node, "children": found} if "children" in node else dict(node)


def _text(text: str, language: str, seen: set[str]) -> Iterator[Node]:
    at = 0
    for start, end, term in mark(text, language, seen):
        seen.add(term)
        if start > at:
            yield text[at:start]
        yield _term(term, text[start:end])
        at = end
    if at < len(text):
        yield text[at:]


def _term(term: str, text: str) -> dict[str, Json]:
    return {"kind": "term", "id": term, "children": [text]}


def _named(children: Sequence[Json], language: str) -> str | None:
    """The term that bold text is a name of: where a text introduces a term, a word of every day may
    be one."""
    if len(children) != 1 or not isinstance(children[0], str):
        return None
    return _names(language).get(children[0].lower())


@cache
def _names(language: str) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for term in glossary():
        for word in said(term, language):
            found.setdefault(word.lower(), term.id)
    return found
