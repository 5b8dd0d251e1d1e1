"""The form of lessons: what is written is of it, and what is not is refused with its place."""

import re
import shutil
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest

from lessons import figures, public
from lessons.form import FOLDER, LANGUAGES, LessonError, course, lesson, written
from lessons.prose import Directive, holes, nodes, read

SLUG = "gop-toan-tu"
EACH = pytest.mark.parametrize("slug", written())


@pytest.fixture
def copy(tmp_path: Path) -> Callable[[str, str, str], None]:
    """Change a text in a copy of the lesson, then read the copy."""

    def changed(file: str, old: str, new: str) -> None:
        folder = tmp_path / "lessons"
        shutil.copytree(FOLDER, folder, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
        path = folder / file
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new, 1), encoding="utf-8")
        lesson(SLUG, folder)

    return changed


def test_the_course_has_the_introduction_and_the_lesson_on_fusion() -> None:
    assert written() == ("gioi-thieu", SLUG)
    assert [e.number for e in course()] == list(range(13))
    with pytest.raises(KeyError):
        lesson("bon-muc")


@EACH
def test_every_lesson_is_whole(slug: str) -> None:
    data = lesson(slug)
    for language in LANGUAGES:
        title = next(b for b in data.texts[language] if isinstance(b, dict))
        assert title["kind"] == "heading" and title["children"] == [data.title[language]]
        assert (FOLDER / slug / f"trainer.{language}.md").is_file()
    used = {name for b in data.texts["vi"] if isinstance(b, Directive) for name in b.ids}
    homes = (data.views, data.listings, data.predictions, data.exercises)
    assert used - set(data.runs) == {name for home in homes for name in home}, "nothing is unused"
    activities = [b for b in data.texts["vi"] if isinstance(b, Directive) and b.name == "exercise"]
    assert len(activities) <= 3
    assert next(data.blocks("closing"), None) is not None


@EACH
@pytest.mark.parametrize("language", LANGUAGES)
def test_texts_are_calm_normal_and_cite_no_number(slug: str, language: str) -> None:
    text = (FOLDER / slug / f"lesson.{language}.md").read_text(encoding="utf-8")
    assert unicodedata.is_normalized("NFC", text) and "!" not in text
    assert not re.search(r"\b([Bb]ài|[Ll]esson) \d", text)
    for word in ("hạt nhân", "hình dạng", "hiệu suất", "cường độ tính toán"):
        assert word not in text


@EACH
@pytest.mark.parametrize("language", LANGUAGES)
def test_no_figure_before_a_prediction_is_its_answer(slug: str, language: str) -> None:
    shown: set[str] = set()
    asked = 0
    for block in lesson(slug).texts[language]:
        if isinstance(block, Directive) and block.name == "predict":
            predictions = [lesson(slug).predictions[name] for name in block.ids]
            assert not shown & {p.expr or p.run for p in predictions}
            asked += len(predictions)
        shown |= {str(hole["expression"]) for hole in holes(block)}
    assert asked == len(lesson(slug).predictions) and shown


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ("minutes: 40", "minute: 40", "minutes: is missing"),
        ("minutes: 40", "minutes: 40\ncolour: red", "colour: is no key"),
        ("id: gop-toan-tu", "id: gop", "id: is the name of the folder"),
        ("model: five_op_chain\n", "model: nothing\n", "model: "),
        ("sizes: {r: 2048, c: 3072}", "sizes: {r: 2048}", "sizes: five_op_chain has the sizes"),
        ("sizes: {r: 2048, c: 3072}", "sizes: {r: 2048, c: 9999}", "sizes.c: is at most 4096"),
        ("sizes: {r: 2048, c: 3072}", "sizes: {r: 2048, c: x}", "sizes.c: is a whole number"),
        ("needs: [doc-ir", "needs: [nothing", "needs: the course has no lesson"),
        ("luu_luong: {label:", "luu_luong: {name:", "views.luu_luong.label: is missing"),
        ("dock: text", "dock: nowhere", "views.truoc_sau.dock: is one of"),
        ("before: op_by_op", "before: never", "views.vong_lap.before: is one of"),
        ("measure: bias_relu", "measure: nothing", "runs.bias_relu.measure: "),
        ("rows: 4096", "r: 4096", "runs.bias_relu.sizes: bias_relu has the sizes rows, cols"),
        ("after: fused, pass: lower-loops", "after: fused", "views.vong_lap.pass: two versions"),
        ("side: before", "side: left", "listings.truoc.side: is one of"),
        ('{expr: "11*r*c*4/2**20"}', '{expr: "11*q"}', "predictions.tung_phep.answer.expr: 'q'"),
        ('{expr: "11*r*c*4/2**20"}', '{expr: "11*"}', "is no expression"),
        ('{expr: "11*r*c*4/2**20"}', '{expr: "1/(r-r)"}', "has no value"),
        ('{expr: "11*r*c*4/2**20"}', '{}', "is either expr or run"),
        ('value: "10*r*c*4/2**20"', 'value: "11*r*c*4/2**20"', "near.0.value: is within"),
        ("unit: x", "unit: times", "predictions.ti_so.unit: is one of"),
        ("    graded: false\n", "", "a measured answer is not graded"),
        ("low: 2.2, high: 4.6", "low: 4.6, high: 2.2", "bands.chuoi.low: lies below high"),
        ("chuoi.launches.op_by_op,", "nothing.launches,", "is no run of this lesson"),
        ("kind: switch_pass", "kind: essay", "exercises.bat_tat.kind: is one of"),
        ("{launches: {off: 5, on: 1}}", "{launches: {off: 5}}", "launches.on: is missing"),
        ("{launches: {off: 5, on: 1}}", "{speed: {off: 5}}", "a check is one of"),
        ("guess: ti_so", "guess: nothing", "closing.2.guess: there is no prediction"),
        ('en: "The progressive die: operator fusion and HBM traffic"', 'de: "x"', "title.en: is"),
        ("views:\n", "views:\n  Wrong: {}\n", "'Wrong' is no id"),
    ],
)  # fmt: skip
def test_data_that_is_not_of_the_form_is_refused(
    copy: Callable[[str, str, str], None], old: str, new: str, where: str
) -> None:
    with pytest.raises(LessonError, match=re.escape(where)) as caught:
        copy(f"{SLUG}/lesson.yaml", old, new)
    assert caught.value.file == f"{SLUG}/lesson.yaml"


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ("::predict{#gelu}", "::predict{#nothing}", "no predict 'nothing'"),
        ("::predict{#gelu}", "::ask{#gelu}", "a block is one of"),
        ("::predict{#gelu}", "::predict{#gelu until=\"x\"}", "no option 'until'"),
        ("::view{#truoc_sau}", "::view{#truoc_sau,#luu_luong}", "view names one #id"),
        ("::closing", "::closing{#x}", "closing names nothing"),
        ('table="launches bytes.floor', 'table="launch bytes.floor', "'launch' is no column"),
        ("bytes.floor.ratio latency.p50.ratio", "bytes.floor", "the rows are runs"),
        ("latency.p50 bandwidth\"", "latency.p50.ratio\"", "the rows are variants"),
        ("latency.p50 bandwidth\"", "latency.p50\" hide=\"launches\"", "hide goes with until"),
        ("::exercise{#bat_tat}", "- ::exercise{#bat_tat}", "inside a list"),
        ("[[sinh-ma]]", "[[nothing]]", "no lesson 'nothing'"),
        ("{{= r*c*4/2**20 | MiB}}", "{{= r*q | MiB}}", "'q' is no size"),
        ("{{= r*c*4/2**20 | MiB}}", "{{= r*c | km}}", "a filter is one of"),
        ("{{= r*c*4/2**20 | MiB}}", "{{= r*c |}}", "no filter behind its bar"),
        ("{{= r*c*4/2**20 | MiB}}", "{{= r*c", "is not closed"),
        ("{{= r*c*4/2**20 | MiB}}", "{{nothing.latency}}", "no run of this lesson"),
        ("## 1. Đoán", "![x](https://x.invalid/y.png)", "a lesson has no image"),
        ("## 1. Đoán", "[x](http://x.invalid)", "a link leads to https"),
    ],
)  # fmt: skip
def test_texts_that_are_not_of_the_form_are_refused(
    copy: Callable[[str, str, str], None], old: str, new: str, where: str
) -> None:
    with pytest.raises(LessonError, match=re.escape(where)):
        copy(f"{SLUG}/lesson.vi.md", old, new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("::listing{#truoc}\n\n::listing{#sau}", "::listing{#sau}\n\n::listing{#truoc}"),
        ("::predict{#gelu}\n\n", ""), ("{{= r*c*4/2**20 | MiB}}", "48 MiB"),
        ("[[sinh-ma]]", "[[do-cho-dung]]"), ("## 8.", "Eighth.\n\n## 8."),
    ],
)  # fmt: skip
def test_languages_have_the_same_blocks(
    copy: Callable[[str, str, str], None], old: str, new: str
) -> None:
    with pytest.raises(LessonError, match="has other blocks than"):
        copy(f"{SLUG}/lesson.en.md", old, new)


def test_markdown_becomes_plain_nodes() -> None:
    text = "# <b>a</b>\n\n- *x* `{{y}}`\n\n```\n{{= 1+1}} z\n```\n\n"
    text += "| a |\n|--:|\n| **b** |\n\n> q\n"
    blocks = read(text)
    assert blocks[0] == {"kind": "heading", "level": 1, "children": ["<b>a</b>"]}
    kinds = {str(node["kind"]) for block in blocks for node in nodes(block)}
    assert kinds == {
        "heading", "list", "item", "emphasis", "literal", "code", "hole", "table", "head", "body",
        "row", "header", "cell", "strong", "quote", "paragraph",
    }  # fmt: skip
    assert [h["expression"] for block in blocks for h in holes(block)] == ["1+1"]
    assert read('::run{#a, #b table="x y" rows="z"}') == [
        Directive("run", ("a", "b"), {"table": "x y", "rows": "z"}, 1)
    ]
    assert read("a ::b c") == [{"kind": "paragraph", "children": ["a ::b c"]}]


# ---- recorded figures ----------------------------------------------------------------------------


@EACH
def test_what_is_recorded_fits_the_texts(slug: str) -> None:
    data, kept = lesson(slug), figures.recorded()[slug]
    runs = kept["runs"]
    assert set(runs) == set(data.runs) and set(kept["listings"]) == set(data.listings)
    assert not figures.missing(data, runs)
    assert not figures.broken_claims(data, runs)
    assert not figures.broken_bands(data, runs)
    for name, run in data.runs.items():
        conditions = runs[name]["conditions"]
        assert conditions["sizes"] == run.sizes and conditions["date"] and conditions["cpu"]


@EACH
def test_the_compiler_still_says_what_is_recorded(slug: str) -> None:
    """Listings word for word; launches and floors from a compile, without a clock."""
    data, kept = lesson(slug), figures.recorded()[slug]
    for name, listing in data.listings.items():
        assert figures.listing_text(listing) == kept["listings"][name]
    for view in data.views.values():
        assert figures.view_problem(view) == ""
    for name, run in data.runs.items():
        found, was = figures.formulas(run), kept["runs"][name]
        assert found["launches"] == was["launches"]
        for variant, value in found["bytes"].items():
            assert value["floor"] == was["bytes"][variant]["floor"]


def test_what_is_wrong_with_figures_is_found() -> None:
    data, runs = lesson(SLUG), dict(figures.recorded()[SLUG]["runs"])
    slow = {**runs["chuoi"], "latency": {
        **runs["chuoi"]["latency"], "fused": runs["chuoi"]["latency"]["op_by_op"],
    }}  # fmt: skip
    assert any("band chuoi" in p for p in figures.broken_bands(data, {**runs, "chuoi": slow}))
    other = {**runs["chuoi"], "launches": {"op_by_op": 6, "fused": 1}}
    assert any("launches" in p for p in figures.broken_claims(data, {**runs, "chuoi": other}))
    without = {k: v for k, v in runs["chuoi"].items() if k != "error"}
    assert any("error" in p for p in figures.missing(data, {**runs, "chuoi": without}))
    assert figures.broken_claims(data, {}) and figures.broken_bands(data, {})


# ---- as JSON -------------------------------------------------------------------------------------


@EACH
def test_a_page_gets_all_languages_and_no_notes(slug: str) -> None:
    found = public.lesson_json(slug)
    assert set(found["texts"]) == set(LANGUAGES)
    text = str(found)
    notes = (FOLDER / slug / "trainer.vi.md").read_text(encoding="utf-8")
    assert all(line not in text for line in notes.splitlines() if len(line) > 20)
    rows = {row["id"]: row for row in public.course_json()}
    assert rows[slug]["minutes"] and rows["bon-muc"]["minutes"] is None


def test_lessons_know_only_the_compilers_public_face() -> None:
    for path in FOLDER.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"^\s*(?:from|import) (?:compiler\.|ui|streamlit)", text, re.M), path
