"""Terms in the texts of lessons: the first use of each, and only in prose."""

from collections import Counter
from collections.abc import Mapping, Sequence

import pytest

from lessons.form import lesson, written
from lessons.glossary import LANGUAGES, glossary
from lessons.prose import Directive, Json, nodes, read
from lessons.terms import BARE, with_terms


def marked(text: str, language: str = "en") -> list[tuple[str, str]]:
    """`(id, words)` of every term of a text, in order."""
    return [
        (str(node["id"]), words(node))
        for block in with_terms(read(text), language)
        for node in nodes(block)
        if node["kind"] == "term"
    ]


def words(node: Json | Directive) -> str:
    """All that a node says."""
    if isinstance(node, str):
        return node
    if not isinstance(node, Mapping):
        return ""
    children = node.get("children", ())
    assert isinstance(children, Sequence)
    return "".join(words(child) for child in children)


def test_the_first_use_is_a_node_among_text() -> None:
    (paragraph,) = with_terms(read("A kernel and two kernels."), "en")
    assert paragraph == {
        "kind": "paragraph",
        "children": [
            "A ", {"kind": "term", "id": "kernel", "children": ["kernel"]}, " and two kernels.",
        ],
    }  # fmt: skip


def test_a_term_counts_once_in_a_lesson_whatever_stands_between() -> None:
    text = "A kernel.\n\n## Again\n\n- *A* **kernel** and `x`\n\n::closing\n\nA kernel, a pass."
    assert marked(text) == [("kernel", "kernel"), ("pass", "pass")]


@pytest.mark.parametrize(
    "text",
    [
        "# The kernel", "`kernel`", "```\nkernel\n```", "[the kernel](https://a.b)",
        "| kernel |\n|---|", "{{= kernel | so}}", "[[kernel]]", "multikernel",
    ],
)  # fmt: skip
def test_what_is_no_prose_is_left_as_it_is_and_counts_as_no_use(text: str) -> None:
    assert marked(text) == []
    assert marked(f"{text}\n\nA kernel.") == [("kernel", "kernel")]


def test_prose_of_every_kind_is_looked_through() -> None:
    for text in ("- a kernel", "1. a kernel", "> a kernel", "*a kernel*", "**a kernel**",
                 "| a |\n|---|\n| kernel |"):  # fmt: skip
        assert marked(text) == [("kernel", "kernel")]


def test_bold_text_that_is_a_name_is_that_term_though_the_word_is_too_common() -> None:
    assert marked("Ta đo. **đo** là thế.", "vi") == [("measured", "đo")]
    assert marked("**đo**, rồi **đo**", "vi") == [("measured", "đo")]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("slug", sorted(written()))
def test_lessons_say_what_they_said_and_mark_a_term_once(slug: str, language: str) -> None:
    blocks = lesson(slug).texts[language]
    found = with_terms(blocks, language)
    assert [words(block) for block in found] == [words(block) for block in blocks]
    terms = [str(n["id"]) for block in found for n in nodes(block) if n["kind"] == "term"]
    assert len(terms) > 20 and max(Counter(terms).values()) == 1
    assert set(terms) <= {term.id for term in glossary()}
    for block in found:
        for node in nodes(block):
            if node["kind"] in BARE:
                assert not [n for n in nodes(node) if n["kind"] == "term"]
