"""Every term is told in both languages, and found in texts where it is meant."""

import re
from dataclasses import replace

import pytest

from lessons.glossary import (
    LANGUAGES,
    GlossaryProblem,
    Term,
    forms,
    glossary,
    mark,
    plural,
    public,
    read,
    said,
)

GOOD = """
- id: kernel
  vi: kernel
  en: kernel (GPU)
  means: {vi: "Một hàm.", en: "A function."}
  words: {en: [kernel]}
- id: launch
  vi: lần khởi chạy
  en: launch
  means: {vi: "Một lần bắt đầu.", en: "A start."}
  see: [kernel]
"""


# ---- the terms of the course ---------------------------------------------------------------------


def test_there_are_the_terms_of_the_course() -> None:
    terms = {term.id: term for term in glossary()}
    assert len(terms) >= 196
    assert terms["operator-fusion"].name["vi"] == "gộp toán tử (fusion)"
    assert terms["floor"].see == ("touched", "simulated", "measured", "bytes-moved")


@pytest.mark.parametrize("language", LANGUAGES)
def test_definitions_are_short_calm_sentences(language: str) -> None:
    for term in glossary():
        text = term.means[language]
        assert text.endswith(".") and "!" not in text and "  " not in text, term.id
        assert len(text) <= 260 and len(re.findall(r"[.?](?= |$)", text)) <= 3, term.id


def test_no_definition_is_that_of_another_term_or_language() -> None:
    texts = [text for term in glossary() for text in term.means.values()]
    assert len(set(texts)) == len(texts)


def test_every_term_leads_to_another() -> None:
    assert all(term.see for term in glossary())


# Words that the glossary decided against, as its notes tell.
AVOIDED = ("bộ biên dịch", "hạ cấp", "gập hằng", "hình dạng", "dung sai", "bộ đệm", "backend")


def test_definitions_keep_to_the_words_of_the_glossary() -> None:
    for term in glossary():
        text = f"{term.name['vi']} {term.means['vi']}".lower()
        assert not [word for word in AVOIDED if word in text], term.id


# ---- forms and reading ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("node", ("node",)),
        ("biểu diễn trung gian (IR)", ("biểu diễn trung gian", "IR")),
        ("producer / consumer", ("producer", "consumer")),
        (
            "phía CPU (host) / phía GPU (device)",
            ("phía CPU", "host", "phía GPU", "device"),
        ),
    ],
)
def test_forms(name: str, wanted: tuple[str, ...]) -> None:
    assert forms(name) == wanted


def test_a_term_is_read() -> None:
    kernel, launch = read(GOOD)
    assert kernel == Term(
        "kernel",
        {"vi": "kernel", "en": "kernel (GPU)"},
        {"vi": "Một hàm.", "en": "A function."},
        (),
        {"vi": ("kernel",), "en": ("kernel",)},
    )
    assert launch.see == ("kernel",)
    assert read(GOOD.replace("en: launch", "en: launch\n  note: x")) == (
        kernel,
        replace(launch, note="x"),
    )


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("id: launch", "id: kernel", "the id 'kernel' stands twice"),
        ("en: launch", "en: kernel (GPU)", "the en name 'kernel (GPU)' stands twice"),
        ("vi: lần khởi chạy", "vi: Kernel", "the vi word 'kernel' stands twice"),
        ("see: [kernel]", "see: [grid]", "launch: see 'grid' is no other term"),
        ("see: [kernel]", "see: [launch]", "launch: see 'launch' is no other term"),
        ("see: [kernel]", "see: [kernel, kernel]", "launch: see 'kernel' stands twice"),
        ("id: launch", "id: Launch", "an id is small letters"),
        (', en: "A start."', "", "term 2 (launch): means: one text for each of vi, en"),
        ('"A start."', '""', "means.en: a text"),
        ('"A start."', '" A start."', "means.en: a text, without blanks around it"),
        ("  en: launch\n", "", "term 2 (launch): en: a text"),
        ("see: [kernel]", "sea: [kernel]", "unknown key 'sea'"),
        ("see: [kernel]", "see: kernel", "see: a list"),
        ("{en: [kernel]}", "{fr: [noyau]}", "words are by language"),
        ("khởi chạy", "kho\u031b\u0309i chạy", "normal form NFC"),
        ("- id: kernel", "- id: [", "no YAML"),
    ],
)
def test_what_is_not_of_the_form_is_refused_with_its_place(old: str, new: str, said: str) -> None:
    assert old in GOOD
    with pytest.raises(GlossaryProblem, match=re.escape(said)):
        read(GOOD.replace(old, new))


@pytest.mark.parametrize("text", ["a: 1", "- 1", ""])
def test_what_is_no_list_of_terms_is_refused(text: str) -> None:
    with pytest.raises(GlossaryProblem):
        read(text)


def test_a_viewer_gets_no_notes_and_all_forms() -> None:
    kernel, _ = public(read(GOOD))
    assert kernel == {
        "id": "kernel",
        "name": {"vi": "kernel", "en": "kernel (GPU)"},
        "means": {"vi": "Một hàm.", "en": "A function."},
        "see": [],
        "forms": ["kernel", "GPU"],
    }


# ---- where a text uses terms ---------------------------------------------------------------------


def marked(text: str, language: str, **more: set[str]) -> list[tuple[str, str]]:
    return [(text[start:end], term) for start, end, term in mark(text, language, **more)]


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_word_of_a_term_is_found_as_that_term(language: str) -> None:
    words = [(word, term.id) for term in glossary() for word in term.words[language]]
    assert len(words) > 150
    for word, term in words:
        assert mark(word, language) == [(0, len(word), term)]
        assert mark(f"({word}).", language) == [(1, 1 + len(word), term)]
        assert mark(f"x{word}", language) != [(1, 1 + len(word), term)]


def test_the_longest_term_at_a_place_wins() -> None:
    assert marked("Mỗi chuỗi pass gồm nhiều pass.", "vi") == [
        ("chuỗi pass", "pass-pipeline"),
        ("pass", "pass"),
    ]
    assert marked("Bất đồng bộ rồi mới đồng bộ", "vi") == [
        ("Bất đồng bộ", "asynchronous"),
        ("đồng bộ", "synchronize"),
    ]


def test_only_the_first_use_of_a_term_is_marked() -> None:
    text = "A kernel, two kernels and a pass pipeline; again a kernel and a pass pipeline"
    assert marked(text, "en") == [("kernel", "kernel"), ("pass pipeline", "pass-pipeline")]
    assert marked(text, "en", seen={"kernel"}) == [("pass pipeline", "pass-pipeline")]


def test_words_count_whole() -> None:
    assert marked("multikernel, kernel-like, kernel_0, memory-bound", "en") == [
        ("memory-bound", "memory-bound")
    ]
    assert marked("Một buổi chiều, đặt cạnh nhau, nặng đến mức đó", "vi") == []


def test_capitals_count_where_a_word_has_nothing_else() -> None:
    assert marked("ir, sm; the IR of an SM, two SMs", "en") == [
        ("IR", "intermediate-representation"),
        ("SM", "streaming-multiprocessor"),
    ]
    assert marked("TENSOR; Trình Biên Dịch", "vi") == [
        ("TENSOR", "tensor"),
        ("Trình Biên Dịch", "compiler"),
    ]


def test_a_line_may_break_inside_a_term() -> None:
    assert marked("tensor\ntrung gian", "vi") == [("tensor\ntrung gian", "intermediate-tensor")]


def test_plurals_are_english() -> None:
    assert [plural(word) for word in ("kernel", "pass", "boundary", "array", "batch")] == [
        "kernels", "passes", "boundaries", "arrays", "batches",
    ]  # fmt: skip
    assert marked("fusion boundaries of the latencies", "en") == [
        ("fusion boundaries", "fusion-boundary"),
        ("latencies", "latency"),
    ]
    assert marked("tensors", "vi") == []


def test_other_forms_of_a_name_are_said() -> None:
    terms = {term.id: term for term in glossary()}
    assert {"roofline", "mô hình roofline", "mái nhà"} <= set(said(terms["roofline-model"], "vi"))
