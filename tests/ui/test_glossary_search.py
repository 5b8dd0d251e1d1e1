"""The search of the glossary page, run by Node on the terms of the course."""

import json
from functools import cache

import pytest

from tests.ui.test_modules import run
from ui.routes import glossary_json


@cache
def searched(*queries: str) -> dict[str, list[str]]:
    """The ids that each query finds, in order."""
    found = run(f"""
        const {{ find }} = await import(`${{EXPLORER}}/glossary.mjs`);
        const terms = {glossary_json().decode()};
        const ids = (query) => find(terms, query).map((term) => term.id);
        const queries = {json.dumps(queries)};
        console.log(JSON.stringify(Object.fromEntries(queries.map((q) => [q, ids(q)]))));
    """)
    assert isinstance(found, dict)
    return found


def test_folding() -> None:
    assert run("""
        const { fold } = await import(`${EXPLORER}/glossary.mjs`);
        const texts = ["Đồ thị", "ĐỘ TRỄ ĐUÔI", "  memory-bound ", "nghẽn ở bộ nhớ (memory-bound)",
          "Đồ thị".normalize("NFD"), "cache hit / cache miss", "p95", "…"];
        console.log(JSON.stringify(texts.map(fold)));
    """) == [
        "do thi", "do tre duoi", "memory bound", "nghen o bo nho memory bound",
        "do thi", "cache hit cache miss", "p95", "",
    ]  # fmt: skip


QUERIES = (
    "", "   ", "?!", "gộp toán tử", "gop toan tu", "GOP TOAN TU", "operator fusion", "fused",
    "do tre", "ir", "cache", "lõi", "loi", "bo nho", "miss cache", "cach nao",
    "nothing has this name", "memory bound", "broad", "edge (of a graph)", "(",
)  # fmt: skip


@pytest.fixture(scope="module")
def results() -> dict[str, list[str]]:
    return searched(*QUERIES)


def test_an_empty_query_finds_all_in_their_order(results: dict[str, list[str]]) -> None:
    ids = [term["id"] for term in json.loads(glossary_json())]
    assert results[""] == results["   "] == ids
    assert results["?!"] == results["("] == results["nothing has this name"] == []


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("gộp toán tử", "operator-fusion"),
        ("gop toan tu", "operator-fusion"),
        ("GOP TOAN TU", "operator-fusion"),
        ("operator fusion", "operator-fusion"),
        ("fused", "operator-fusion"),
        ("do tre", "latency"),
        ("ir", "intermediate-representation"),
        ("cache", "cache"),
        ("lõi", "core"),
        ("loi", "core"),
        ("memory bound", "memory-bound"),
        ("broad", "broadcast"),
        ("miss cache", "cache-hit-cache-miss"),
        ("edge (of a graph)", "edge"),
    ],
)
def test_the_term_that_is_meant_comes_first(
    results: dict[str, list[str]], query: str, first: str
) -> None:
    assert results[query][0] == first


def test_names_that_begin_with_a_query_come_before_those_that_hold_it(
    results: dict[str, list[str]],
) -> None:
    found = results["bo nho"]
    begins, word, defined = (
        found.index(i) for i in ("global-memory", "memory-bandwidth", "buffer")
    )
    assert begins < word
    assert word < defined, "a definition counts least"


def test_spelling_with_diacritics_decides_among_equals() -> None:
    def only(query: str) -> object:
        return run(f"""
            const {{ find }} = await import(`${{EXPLORER}}/glossary.mjs`);
            const make = (id, name) => ({{ id, name: {{ vi: name }}, means: {{}}, forms: [name] }});
            const terms = [make("error", "lỗi máy"), make("core", "lõi máy"), make("gain", "lợi")];
            console.log(JSON.stringify(find(terms, {json.dumps(query)}).map((t) => t.id)));
        """)

    assert only("loi may") == ["error", "core"]
    assert only("lõi m") == ["core", "error"]
    assert only("lợi") == ["gain", "error", "core"]
