"""The Lessons page as a learner uses it, with wrong and right answers, in both languages."""

import json
import re
from pathlib import Path
from typing import Any, cast

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, Locator, Page, Route, expect

from lessons import figures
from lessons.form import Directive, lesson
from lessons.glossary import glossary
from lessons.prose import nodes
from lessons.terms import with_terms
from sample_models import sample
from ui.language import sentence

INTRO, FUSION = "gioi-thieu", "gop-toan-tu"
JOB_MS = 90_000


class Learner:
    """The page in one language, by what its parts are called there."""

    def __init__(self, page: Page, language: str) -> None:
        self.page, self.language = page, language

    def say(self, message: str, **parameters: str | int) -> str:
        return sentence(self.language, message, **parameters)

    def open(self, server: str, slug: str = "") -> None:
        lang = "" if self.language == "vi" else "&lang=en"
        self.page.goto(f"{server}/?page=lessons{lang}&lesson={slug}".removesuffix("&lesson="))
        title = lesson(slug).title[self.language] if slug else self.say("course.title")
        expect(self.heading(title)).to_be_visible()

    def heading(self, name: str) -> Locator:
        return self.page.get_by_role("heading", name=name, exact=True)

    def button(self, message: str, **parameters: str | int) -> Locator:
        name = self.say(message, **parameters)
        return self.page.get_by_role("button", name=name, exact=True)

    def question(self, slug: str, name: str) -> Locator:
        """The field of a prediction."""
        asked = lesson(slug).predictions[name].ask[self.language]
        return self.page.get_by_role("textbox", name=asked)

    def text(self, text: str) -> Locator:
        """A text of the page itself; the live region says some of them too."""
        return self.page.get_by_role("main").get_by_text(text)

    def guess(self, slug: str, name: str, text: str) -> None:
        field = self.question(slug, name)
        field.fill(text)
        field.press("Enter")

    def answered(self, slug: str, name: str) -> Locator:
        """A prediction that is locked or skipped, with what is said of it."""
        asked = lesson(slug).predictions[name].ask[self.language]
        return self.page.locator(".question.done").filter(has_text=asked)

    def lock(self, slug: str, name: str, message: str = "lesson.lock") -> Locator:
        """The button of a question, named by it."""
        asked = lesson(slug).predictions[name].ask[self.language]
        return self.page.get_by_role("button", name=f"{self.say(message)}: {asked}", exact=True)

    def run(self, slug: str, *names: str, nth: int = 1) -> Locator:
        """A table of runs; the second of the same runs has a 2 behind its name."""
        labels = "; ".join(lesson(slug).runs[name].label[self.language] for name in names)
        name = self.say("lesson.run", names=labels) + (f" ({nth})" if nth > 1 else "")
        return self.page.get_by_role("region", name=name, exact=True)

    def view(self, name: str) -> Locator:
        return self.button("lesson.view", label=lesson(FUSION).views[name].label[self.language])

    @property
    def explorer(self) -> Locator:
        return self.page.get_by_role("region", name=self.say("explore.title"))

    @property
    def told(self) -> Locator:
        """What a screen reader was told last."""
        return self.page.locator("#live")

    @property
    def closing(self) -> Locator:
        return self.page.get_by_role("region", name=self.say("lesson.closing"), exact=True)

    @property
    def exercise(self) -> Locator:
        return self.page.get_by_role("region", name=self.say("lesson.exercise"), exact=True)

    def export(self, name: str) -> str:
        with self.page.expect_download() as saved:
            self.closing.get_by_role("button", name=name, exact=True).click()
        return Path(saved.value.path()).read_text(encoding="utf-8")

    def skip_all(self) -> None:
        """Skip every question that is open, until the text ends."""
        for block in lesson(FUSION).texts["vi"]:
            if isinstance(block, Directive) and block.name == "predict":
                self.button("lesson.skip", n=len(block.ids)).click()
        expect(self.closing).to_be_attached()


def terms_of(slug: str, language: str, until: str) -> list[tuple[str, str]]:
    """Ids and words of the terms that a text marks before its first block of a kind."""
    found: list[tuple[str, str]] = []
    for block in with_terms(lesson(slug).texts[language], language):
        if isinstance(block, Directive):
            if block.name == until:
                break
            continue
        for node in nodes(block):
            if node["kind"] == "term":
                (text,) = cast(list[str], node["children"])
                found.append((str(node["id"]), text))
    return found


def meaning(term: str, language: str) -> str:
    return next(each for each in glossary() if each.id == term).means[language]


@pytest.fixture
def learner(page: Page, language: str) -> Learner:
    return Learner(page, language)


@pytest.mark.every_language
def test_the_introduction_with_wrong_and_right_answers(learner: Learner, server: str) -> None:
    page, say = learner.page, learner.say
    learner.open(server)
    title = lesson(INTRO).title[learner.language]
    page.get_by_role("button", name=title).click()
    expect(learner.heading(title)).to_be_visible()
    expect(page).to_have_url(re.compile(f"lesson={INTRO}"))

    first = learner.run(INTRO, "chuoi").get_by_role("table")
    expect(first).to_contain_text(say("kind.recorded"))
    expect(first.get_by_role("row").nth(1)).to_contain_text("?")
    expect(learner.closing).to_have_count(0)

    learner.guess(INTRO, "mot_tensor", "abc")
    expect(learner.text(say("lesson.predict.wrong"))).to_be_visible()
    expect(learner.question(INTRO, "mot_tensor")).to_be_focused()
    learner.guess(INTRO, "mot_tensor", "64,0")
    right = learner.answered(INTRO, "mot_tensor")
    expect(right).to_contain_text(say("lesson.right"))
    expect(right).to_contain_text("64 MiB")
    expect(learner.question(INTRO, "mot_tensor")).to_have_count(0)
    expect(learner.question(INTRO, "tung_phep")).to_be_focused()

    learner.guess(INTRO, "tung_phep", "640")
    near = learner.answered(INTRO, "tung_phep")
    expect(near).to_contain_text(say("lesson.off"))
    hints = [n.hint[learner.language] for n in lesson(INTRO).predictions["tung_phep"].near]
    expect(near).to_contain_text(hints[0])
    expect(learner.closing).to_have_count(0)

    learner.guess(INTRO, "gop_mot", "1.234")
    expect(learner.text("“1.234”")).to_be_visible()
    learner.question(INTRO, "gop_mot").fill("777")
    expect(learner.text("“1.234”")).to_have_count(0)
    learner.lock(INTRO, "gop_mot").click()
    far = learner.answered(INTRO, "gop_mot")
    expect(far).to_contain_text("777 MiB")
    expect(far).not_to_contain_text(say("lesson.hint"))

    expect(learner.closing).to_be_attached()
    expect(first.get_by_role("row").nth(1)).not_to_contain_text("?")
    rows = learner.closing.get_by_role("row")
    expect(rows.nth(1)).to_contain_text("640 MiB")
    expect(rows.nth(1)).to_contain_text("704 MiB")
    expect(rows.nth(1)).to_contain_text(say("kind.simulated"))
    expect(rows.nth(3)).to_contain_text(say("lesson.closing.unasked"))


def test_an_ambiguous_number_is_echoed_and_locked_as_it_was_read(
    learner: Learner, server: str
) -> None:
    learner.open(server, INTRO)
    vietnamese = learner.language == "vi"
    learner.guess(INTRO, "mot_tensor", "1.234")
    key = "lesson.reading.whole" if vietnamese else "lesson.reading.decimal"
    digits = "1234" if vietnamese else "1.234"
    expect(learner.text(learner.say(key, text="1.234", digits=digits))).to_be_visible()
    learner.lock(INTRO, "mot_tensor", "lesson.lock.again").click()
    shown = "1.234 MiB" if vietnamese else "1.23 MiB"
    expect(learner.answered(INTRO, "mot_tensor")).to_contain_text(shown)


def test_a_lock_lasts_over_a_closed_tab_and_a_second_one_changes_nothing(
    learner: Learner, server: str
) -> None:
    learner.open(server, INTRO)
    learner.guess(INTRO, "mot_tensor", "64")
    learner.guess(INTRO, "tung_phep", "320")
    context: BrowserContext = learner.page.context
    second = Learner(context.new_page(), learner.language)
    second.open(server, INTRO)
    expect(second.answered(INTRO, "tung_phep")).to_contain_text("320 MiB")
    second.guess(INTRO, "gop_mot", "128")
    expect(learner.answered(INTRO, "gop_mot")).to_contain_text("128 MiB")
    expect(learner.closing).to_be_attached()
    second.page.close()
    learner.page.reload()
    expect(learner.answered(INTRO, "mot_tensor")).to_contain_text("64 MiB")
    expect(learner.closing.get_by_role("row").nth(2)).to_contain_text("128 MiB")


def test_progress_goes_out_and_comes_in_as_a_union(
    learner: Learner, server: str, tmp_path: Path
) -> None:
    learner.open(server, INTRO)
    learner.guess(INTRO, "mot_tensor", "64")
    learner.button("course.back").click()
    page = learner.page
    expect(page.get_by_text(learner.say("course.predictions", done=1, of=3))).to_be_visible()
    with page.expect_download() as saved:
        learner.button("course.export").click()
    exported: Any = json.loads(Path(saved.value.path()).read_text(encoding="utf-8"))
    assert [(e["id"], e["value"]) for e in exported["events"]] == [(f"{INTRO}/mot_tensor", 64)]
    (one,) = exported["events"]
    early = {**one, "value": 16, "time": "2001-01-01T00:00:00.000Z"}
    other = {**one, "id": f"{INTRO}/tung_phep", "value": 704}
    path = tmp_path / "progress.json"
    path.write_text(json.dumps({"schema": 1, "events": [early, other, {"id": 3}]}))
    chooser = page.get_by_label(learner.say("course.import"))
    chooser.set_input_files(path)
    expect(learner.text(learner.say("course.imported", n=2))).to_be_visible()
    expect(page.get_by_text(learner.say("course.predictions", done=2, of=3))).to_be_visible()
    path.write_text("<b>no progress</b>")
    chooser.set_input_files(path)
    expect(learner.text(learner.say("course.import.wrong"))).to_be_visible()
    learner.open(server, INTRO)
    expect(learner.answered(INTRO, "mot_tensor")).to_contain_text("16 MiB")


def test_the_fusion_lesson_measures_grades_and_keeps_evidence(
    learner: Learner, server: str
) -> None:
    page, say = learner.page, learner.say
    learner.open(server, FUSION)
    expect(page.get_by_role("heading", level=3)).to_have_count(1)
    learner.guess(FUSION, "tung_phep", "240")
    learner.guess(FUSION, "gop", "72")
    learner.guess(FUSION, "ti_so", "5")
    expect(learner.answered(FUSION, "tung_phep")).to_contain_text(say("lesson.hint"))
    expect(learner.answered(FUSION, "gop")).to_contain_text(say("lesson.right"))
    ratio = learner.answered(FUSION, "ti_so")
    expect(ratio).to_contain_text(say("kind.recorded"))
    expect(ratio).not_to_contain_text(say("lesson.off"))

    kept = figures.recorded()[FUSION]["listings"]["sau"]
    name = say("lesson.listing.after", model="five_op_chain", **{"pass": "fuse"})
    listing = page.get_by_role("region", name=name)
    assert "".join(listing.inner_text().split()) == "".join(str(kept).split())

    run = learner.run(FUSION, "chuoi")
    table = run.get_by_role("table")
    expect(table).to_contain_text(say("kind.recorded"))
    run.get_by_role("button", name=say("lesson.run.start")).click()
    expect(table).not_to_contain_text(say("kind.recorded"), timeout=JOB_MS)
    run.locator("summary").click()
    expect(run.get_by_role("complementary", name=say("conditions.title"))).to_be_visible()
    expect(ratio).not_to_contain_text(say("kind.recorded"))

    learner.button("lesson.skip", n=1).click()
    errors = learner.run(FUSION, "chuoi", nth=2).get_by_role("row").last
    expect(errors).to_contain_text(re.compile(r"\d[,.]\d+\s×\s10⁻"))
    box = learner.exercise
    run_it = box.get_by_role("button", name=say("lesson.exercise.run"), exact=True)
    switch = box.get_by_role("switch")
    expect(switch).to_have_attribute("aria-checked", "true")
    submit = box.get_by_role("button", name=say("lesson.submit"), exact=True)
    submit.click()
    expect(box.get_by_text(say("exercise.absent.off")).first).to_be_visible(timeout=JOB_MS)
    expect(box.get_by_text(say("lesson.not-yet"))).to_be_visible()
    ledger = box.get_by_role("table").first.get_by_role("row")
    run_it.click()
    expect(ledger.nth(2).get_by_role("cell").first).to_have_text("1", timeout=JOB_MS)
    switch.click()
    expect(switch).to_have_attribute("aria-checked", "false")
    run_it.click()
    expect(ledger.nth(1).get_by_role("cell").first).to_have_text("5", timeout=JOB_MS)

    shapes = ((512, 768), (1000, 1024), (2048, 300))
    for k, (r, c) in enumerate(shapes, start=1):
        for name, size in (("r", r), ("c", c)):
            box.get_by_label(say("lesson.cell.size", row=k, size=name)).fill(str(size))
        box.get_by_label(say("lesson.cell.off", row=k)).fill(decimal(learner, 10 * r * c * 4))
        box.get_by_label(say("lesson.cell.on", row=k)).fill(decimal(learner, 3 * r * c * 4))
    submit.click()
    checks = box.get_by_role("listitem")
    expect(checks).to_have_count(3, timeout=JOB_MS)
    expect(checks.nth(0)).to_contain_text(say("lesson.check.passed"))
    expect(checks.nth(1)).to_contain_text(say("lesson.check.failed"))
    for k, (r, c) in enumerate(shapes, start=1):
        box.get_by_label(say("lesson.cell.off", row=k)).fill(decimal(learner, 11 * r * c * 4))
    submit.click()
    expect(box.get_by_text(say("lesson.passed"))).to_be_visible(timeout=JOB_MS)
    expect(checks.filter(has_text=say("lesson.check.passed"))).to_have_count(3)

    rows = learner.closing.get_by_role("row")
    expect(rows.nth(3)).to_contain_text(say("kind.measured"))
    expect(rows.nth(3)).not_to_contain_text(say("kind.recorded"))
    evidence = json.loads(learner.export("JSON"))
    guesses = [f["guess"] for f in evidence["figures"]]
    assert guesses == [240, 72, 5]
    assert evidence["figures"][2]["recorded"] is False
    assert evidence["exercises"] == [{"exercise": "bat_tat", "attempts": 3, "passed": True}]
    assert evidence["conditions"][0]["conditions"]["cpu"]
    lines = learner.export("CSV").splitlines()
    assert lines[0].startswith("lesson,figure,unit,guess,computed,measured")
    assert re.match(rf"{FUSION},[^,]*,MiB,240,264,384\.\d+,simulated,false,", lines[1])
    assert lines[0].endswith(",ratio,against") and lines[1].endswith(f",{240 / 264},computed")
    text = learner.export("Markdown")
    assert text.startswith(f"# {lesson(FUSION).title[learner.language]}\n")
    assert "| 240 MiB |" in text

    page.reload()
    expect(learner.exercise.get_by_text(say("lesson.passed"))).to_be_visible()
    first = learner.exercise.get_by_label(say("lesson.cell.size", row=1, size="r"))
    expect(first).to_have_value("512")


def written(learner: Learner, text: str) -> str:
    """Whole numbers of thousands as the language writes them."""
    return re.sub(r"(?<=\d),(?=\d)", ".", text) if learner.language == "vi" else text


def decimal(learner: Learner, nbytes: int) -> str:
    """MiB with four decimals, as the language writes them: never ambiguous."""
    text = f"{nbytes / 2**20:.4f}"
    return text.replace(".", ",") if learner.language == "vi" else text


def test_the_explorer_stands_as_the_view_says(learner: Learner, server: str) -> None:
    """Whatever stood there before: a view shows what it names, and nothing of the one before."""
    say = learner.say
    learner.open(server, FUSION)
    learner.skip_all()
    explorer = learner.explorer
    strip = explorer.get_by_role("listbox", name=say("strip.title"))
    opened = strip.get_by_role("option", selected=True)

    bars = learner.view("luu_luong")
    bars.click()
    expect(bars).to_have_attribute("aria-pressed", "true")
    plain = explorer.get_by_role("heading", level=2, name=say("pane.op_by_op"))
    expect(plain).to_be_visible(timeout=JOB_MS)
    expect(opened).to_contain_text("fuse")
    expect(explorer.locator("#overlay-legend")).to_be_visible()

    one_row_each(learner)

    loops = learner.view("vong_lap")
    loops.click()
    expect(bars).to_have_attribute("aria-pressed", "false")
    expect(opened).to_contain_text("lower-loops")
    left, right = (
        explorer.get_by_role("listbox", name=say(f"pane.tree.{side}", kernel="k0"))
        for side in ("before", "after")
    )
    for kernel in ("@k0", "@k4"):
        expect(left.get_by_role("option").filter(has_text=f"kernel {kernel}")).to_have_count(1)
        left.press("End")
    expect(right.get_by_role("option").filter(has_text="kernel @")).to_have_count(1)

    before = learner.view("truoc_sau")
    before.click()
    expect(opened).to_contain_text("fuse")
    title = explorer.get_by_role("heading", level=2, name=say("pane.before"), exact=True)
    expect(title).to_be_visible()
    expect(explorer.locator("#overlay-legend")).to_have_count(0)
    bar = explorer.get_by_role("toolbar", name=say("pane.bar"))
    expect(bar.locator("#pane-merged")).to_be_visible()
    assert bar.evaluate("(bar) => bar.getBoundingClientRect().height") < 44, "one row"


def one_row_each(learner: Learner) -> None:
    """Tabs and legend: the chosen tab is in sight, a button shows the whole legend."""
    explorer, page = learner.explorer, learner.page
    tabs = explorer.get_by_role("tab")
    expect(tabs).to_have_count(9)
    last = explorer.get_by_role("tab", name=learner.say("tab.breaks"))
    last.click()
    expect(last).to_have_attribute("aria-selected", "true")
    expect(last).to_be_in_viewport(ratio=1)
    boxes = [tab.bounding_box() for tab in tabs.all()]
    assert len({box["y"] for box in boxes if box}) == 1
    tabs.first.click()

    keys, more = explorer.locator("#legend-keys"), explorer.locator("#legend-all")
    low = "(keys) => keys.getBoundingClientRect().height"
    assert keys.evaluate(low) < 30
    expect(more).to_have_text(learner.say("legend.all"))
    more.click()
    expect(more).to_have_attribute("aria-expanded", "true")
    cut = """(keys) => [...keys.children].filter((key) => {
        const [a, b] = [key.getBoundingClientRect(), keys.getBoundingClientRect()];
        return a.bottom > b.bottom + 1 || a.top < b.top || key.scrollWidth > key.clientWidth + 1;
    }).length"""
    assert keys.evaluate(cut) == 0
    page.keyboard.press("Escape")
    expect(more).to_have_attribute("aria-expanded", "false")
    assert keys.evaluate(low) < 30


def test_another_language_keeps_what_was_typed_and_measured(page: Page, server: str) -> None:
    vietnamese = Learner(page, "vi")
    vietnamese.open(server, INTRO)
    vietnamese.guess(INTRO, "mot_tensor", "64")
    vietnamese.question(INTRO, "tung_phep").fill("7")
    page.get_by_role("button", name="English").click()
    english = Learner(page, "en")
    expect(english.heading(lesson(INTRO).title["en"])).to_be_visible()
    expect(english.answered(INTRO, "mot_tensor")).to_contain_text("64 MiB")
    expect(english.question(INTRO, "tung_phep")).to_have_value("7")


def test_figures_say_where_they_come_from(learner: Learner, server: str) -> None:
    learner.open(server, FUSION)
    page = learner.page
    figure = page.get_by_role("button", name=re.compile("24 MiB"))
    figure.first.click()
    card = page.get_by_role("group", name=learner.say("lesson.where"))
    expect(card).to_contain_text("r*c*4/2**20")
    sizes = "r = 2,048, c = 3,072"
    expect(card).to_contain_text(written(learner, sizes))
    figure.first.click()
    expect(card).to_have_count(0)


def test_terms_tell_their_meaning_and_lead_to_the_glossary_and_back(
    learner: Learner, server: str
) -> None:
    page, language = learner.page, learner.language
    learner.open(server, INTRO)
    text = page.locator(".lesson-body")
    links = text.get_by_role("link").filter(visible=True).and_(text.locator(".term-link"))
    shown = links.evaluate_all("all => all.map((a) => [a.getAttribute('href'), a.textContent])")
    lang = "" if language == "vi" else "&lang=en"
    assert shown == [
        [f"?page=glossary&term={id}{lang}", words]
        for id, words in terms_of(INTRO, language, until="predict")
    ]
    inside = text.locator(":is(h2, h3, h4, th, pre, code, button, label)")
    expect(inside.get_by_role("link")).to_have_count(0)

    link = links.filter(has_text=re.compile("^Runtime$"))
    means = meaning("runtime", language)
    tip = page.get_by_role("tooltip")
    link.hover()
    expect(tip).to_have_text(means)
    page.keyboard.press("Escape")
    expect(tip).to_have_count(0)
    link.focus()
    expect(tip).to_be_in_viewport(ratio=1)
    expect(link).to_have_accessible_description(means)
    page.keyboard.press("Tab")
    expect(tip).not_to_have_text(means)
    expect(tip).to_have_count(1)
    learner.guess(INTRO, "mot_tensor", "64")
    link.focus()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("page=glossary"))
    expect(page.locator("#term-runtime")).to_have_attribute("aria-current", "true")
    page.get_by_role("navigation").get_by_role("button", name=learner.say("nav.lessons")).click()
    expect(link).to_be_in_viewport()
    expect(tip).to_have_count(0)
    expect(learner.answered(INTRO, "mot_tensor")).to_be_attached()


def test_nothing_beside_a_question_tells_its_answer(learner: Learner, server: str) -> None:
    """No explorer before the first view, none of its totals after it."""
    asked: list[str] = []
    learner.page.on("request", lambda request: asked.append(request.url))
    learner.open(server, FUSION)
    shown = learner.page.locator(".app-body")
    expect(shown).to_contain_text(learner.say("lesson.beside.later", model=title_of(learner)))
    learner.guess(FUSION, "tung_phep", "240")
    learner.guess(FUSION, "gop", "48")
    expect(learner.explorer).to_have_count(0)
    expect(shown).not_to_contain_text("5 → 1")
    assert not [url for url in asked if "/job/" in url or "/explore/explorer.mjs" in url]
    learner.guess(FUSION, "ti_so", "5")
    tab = learner.explorer.get_by_role("tab", selected=True)
    expect(tab).to_be_visible(timeout=JOB_MS)
    expect(learner.view("truoc_sau")).to_have_attribute("aria-pressed", "true")
    expect(learner.explorer).not_to_contain_text(learner.say("totals.floor"))


def title_of(learner: Learner) -> str:
    return sample(lesson(FUSION).model).title[learner.language]


def test_a_view_opens_on_the_explore_page_where_there_is_no_room(
    learner: Learner, server: str
) -> None:
    page = learner.page
    page.set_viewport_size({"width": 900, "height": 700})
    learner.open(server, FUSION)
    learner.skip_all()
    expect(learner.view("erf_libm")).to_be_hidden()
    expect(learner.explorer).to_have_count(0)
    label = lesson(FUSION).views["erf_libm"].label[learner.language]
    link = page.get_by_role("link", name=f"{learner.say('lesson.view.explore')}: {label}")
    expect(link).to_have_attribute("href", re.compile("model=bias_gelu&passes=.*math%3Dlibm"))
    link.click()
    opened = learner.explorer.get_by_role("option", selected=True).filter(has_text="emit")
    expect(opened).to_be_visible(timeout=JOB_MS)
    expect(page).to_have_url(re.compile("model=bias_gelu.*libm"))
    page.get_by_role("navigation").get_by_role("button", name=learner.say("nav.lessons")).click()
    expect(link).to_be_in_viewport()


def test_what_can_be_no_answer_is_asked_first_and_the_caret_stays(
    learner: Learner, server: str
) -> None:
    learner.open(server, INTRO)
    field = learner.question(INTRO, "mot_tensor")
    learner.guess(INTRO, "mot_tensor", "-5")
    said = learner.say("lesson.reading.impossible", text="-5")
    expect(learner.text(said)).to_be_visible()
    expect(learner.told).to_have_text(said)
    expect(field).to_be_focused()
    field.fill("1.234")
    field.press("Enter")
    expect(learner.lock(INTRO, "mot_tensor", "lesson.lock.again")).to_be_visible()
    field.press("Home")
    field.press_sequentially("98")
    expect(field).to_have_value("981.234")
    expect(learner.lock(INTRO, "mot_tensor")).to_be_visible()
    field.fill("-5")
    learner.lock(INTRO, "mot_tensor").click()
    still = learner.lock(INTRO, "mot_tensor", "lesson.lock.still")
    expect(still).to_be_focused()
    still.click()
    expect(learner.answered(INTRO, "mot_tensor")).to_contain_text("-5 MiB")


def test_focus_and_live_region_follow_what_happens(learner: Learner, server: str) -> None:
    page, say = learner.page, learner.say
    learner.open(server)
    page.get_by_role("button", name=lesson(FUSION).title[learner.language]).click()
    expect(learner.heading(lesson(FUSION).title[learner.language])).to_be_focused()
    learner.guess(FUSION, "tung_phep", "240")
    expect(learner.question(FUSION, "gop")).to_be_focused()
    near = lesson(FUSION).predictions["tung_phep"].near[0].hint[learner.language]
    for part in (say("lesson.off"), near):
        expect(learner.told).to_contain_text(part)
    learner.button("lesson.skip", n=2).click()
    expect(learner.answered(FUSION, "gop")).to_be_focused()
    expect(learner.told).to_contain_text(say("lesson.opened"))

    run = learner.run(FUSION, "chuoi")
    start = run.get_by_role("button", name=say("lesson.run.start"))
    start.click()
    expect(run.get_by_role("button", name=say("job.cancel"))).to_be_focused()
    expect(learner.told).to_contain_text(say("lesson.started", what=label_of(learner, "chuoi")))
    expect(start).to_be_focused(timeout=JOB_MS)
    expect(learner.told).to_have_text(say("lesson.run.done"))
    shown = run.get_by_role("table").inner_text()
    assert say("kind.recorded") not in shown

    learner.button("course.back").click()
    expect(page.get_by_role("button", name=lesson(FUSION).title[learner.language])).to_be_focused()
    page.reload()
    learner.open(server, FUSION)
    expect(learner.run(FUSION, "chuoi").get_by_role("table")).to_be_attached()
    assert learner.run(FUSION, "chuoi").get_by_role("table").inner_text() == shown


def label_of(learner: Learner, run: str) -> str:
    return lesson(FUSION).runs[run].label[learner.language]


def test_an_exercise_reads_numbers_as_the_page_writes_them(learner: Learner, server: str) -> None:
    say = learner.say
    learner.open(server, FUSION)
    learner.skip_all()
    box = learner.exercise
    size = box.get_by_label(say("lesson.cell.size", row=1, size="r"))
    submit = box.get_by_role("button", name=say("lesson.submit"), exact=True)
    grouped, other = ("2.048", "2,048") if learner.language == "vi" else ("2,048", "2.048")
    size.fill(other)
    submit.click()
    expect(size).to_be_focused()
    expect(size).to_have_attribute("aria-invalid", "true")
    expect(learner.told).to_contain_text(grouped.replace("2", "4").replace("048", "096"))
    size.fill(grouped)
    expect(size).not_to_have_attribute("aria-invalid", "true")
    box.get_by_label(say("lesson.cell.size", row=1, size="c")).fill("1024")
    submit.click()
    again = box.get_by_role("button", name=say("lesson.submit.again"), exact=True)
    expect(again).to_be_focused()
    expect(learner.told).to_have_text(say("lesson.reading.whole", text=grouped, digits="2048"))
    again.click()
    expect(box.get_by_role("listitem").first).to_be_visible(timeout=JOB_MS)
    results = box.locator("[id^=results-]")
    expect(results).to_be_focused(timeout=JOB_MS)
    expect(learner.told).to_contain_text(say("lesson.not-yet"))


def test_a_reader_keeps_their_place(learner: Learner, server: str) -> None:
    page = learner.page
    learner.open(server, FUSION)
    learner.skip_all()
    there = learner.heading(headings(learner)[7])
    there.evaluate("e => e.scrollIntoView()")
    expect(there).to_be_in_viewport()
    learner.button("theme.dark").click()
    expect(page.locator(".app[data-theme=dark]")).to_be_visible()
    expect(there).to_be_in_viewport()
    nav = learner.button("nav.lessons")
    nav.click()
    expect(there).to_be_in_viewport()
    learner.button("nav.measure").click()
    expect(there).to_have_count(0)
    nav.click()
    expect(there).to_be_in_viewport()
    learner.button("course.back").click()
    page.get_by_role("button", name=lesson(FUSION).title[learner.language]).click()
    expect(there).to_be_in_viewport()
    other = Learner(page, "en" if learner.language == "vi" else "vi")
    page.locator(f"#language-{other.language}").click()
    expect(other.heading(headings(other)[7])).to_be_in_viewport()


def headings(learner: Learner) -> list[str]:
    """The headings of the fusion lesson, in order."""
    texts = [b for b in lesson(FUSION).texts[learner.language] if isinstance(b, dict)]
    return [str(cast(list[str], b["children"])[0]) for b in texts if b["kind"] == "heading"]


def test_goals_and_needs_stand_at_the_top(learner: Learner, server: str) -> None:
    learner.open(server, FUSION)
    top = learner.page.locator(".lesson-goals")
    for goal in lesson(FUSION).goals[learner.language]:
        expect(top).to_contain_text(goal)
    expect(top).to_contain_text(f"({learner.say('course.later')})")


def test_regions_and_questions_have_names_of_their_own(learner: Learner, server: str) -> None:
    learner.open(server, FUSION)
    locks = learner.page.get_by_role("button", name=re.compile(f"^{learner.say('lesson.lock')}: "))
    names = locks.evaluate_all("all => all.map((e) => e.getAttribute('aria-label'))")
    assert len(names) == len(set(names)) == 3
    learner.skip_all()
    results = Axe().run(learner.page, options={"runOnly": ["landmark-unique"]})
    found = [n["target"] for v in results.response["violations"] for n in v["nodes"]]
    assert not found
    starts = learner.page.locator("[id^=run-]")
    said = starts.evaluate_all("all => all.map((e) => e.getAttribute('aria-label'))")
    assert len(said) == 4 and len(set(said)) == 3, "the two tables of one run share its name"


def test_a_lesson_leads_to_a_lesson(learner: Learner, server: str) -> None:
    learner.open(server, INTRO)
    for name in lesson(INTRO).predictions:
        learner.guess(INTRO, name, "5")
    title = lesson(FUSION).title[learner.language]
    learner.page.get_by_role("link", name=title).last.click()
    expect(learner.heading(title)).to_be_visible()


def test_a_lesson_that_is_not_there_is_said(learner: Learner, server: str) -> None:
    lang = "" if learner.language == "vi" else "&lang=en"
    learner.page.goto(f"{server}/?page=lessons{lang}&lesson=nowhere")
    expect(learner.page.get_by_role("alert")).to_contain_text(learner.say("lesson.gone"))
    learner.button("course.back").click()
    expect(learner.heading(learner.say("course.title"))).to_be_visible()


def test_a_measurement_that_takes_too_long_leaves_the_recorded_figures_and_says_so(
    learner: Learner, server: str
) -> None:
    page, say = learner.page, learner.say
    learner.open(server, INTRO)
    over = {"event": "error", "error": {"message": "job.time", "parameters": {"seconds": 120}}}
    page.route("**/job/*", lambda route: route.fulfill(
        content_type="text/event-stream", body=f"data: {json.dumps(over)}\n\n"
    ))  # fmt: skip
    run = learner.run(INTRO, "chuoi")
    before = run.get_by_role("table").inner_text()
    run.get_by_role("button", name=say("lesson.run.start")).click()
    problem = run.get_by_role("alert")
    label = lesson(INTRO).runs["chuoi"].label[learner.language]
    expect(problem).to_contain_text(say("job.time", seconds=120))
    expect(problem).to_contain_text(say("lesson.run.failed", name=label))
    expect(problem).to_contain_text(say("lesson.run.recorded"))
    expect(problem).not_to_contain_text(say("job.time.remedy"))
    assert say("kind.recorded") in before and run.get_by_role("table").inner_text() == before
    expect(run.get_by_role("button", name=say("lesson.run.start"))).to_be_enabled()


def test_a_measurement_can_be_cancelled(learner: Learner, server: str) -> None:
    learner.open(server, INTRO)
    run = learner.run(INTRO, "chuoi")
    run.get_by_role("button", name=learner.say("lesson.run.start")).click()
    run.get_by_role("button", name=learner.say("job.cancel")).click()
    start = run.get_by_role("button", name=learner.say("lesson.run.start"))
    expect(start).to_be_enabled(timeout=JOB_MS)
    expect(run.get_by_role("table")).to_contain_text(learner.say("kind.recorded"))


def test_tables_in_the_text_are_told_apart(learner: Learner, server: str) -> None:
    learner.open(server, FUSION)
    learner.button("lesson.skip", n=3).click()
    tables = learner.page.get_by_role(
        "group", name=re.compile(re.escape(learner.say("lesson.table", heads="")))
    )
    expect(tables.nth(1)).to_be_attached()
    names = [str(table.get_attribute("aria-label")) for table in tables.all()]
    assert len(names) == len(set(names)) > 1


@pytest.mark.parametrize("slug", ["", INTRO, FUSION])
def test_nothing_stands_in_the_way_of_a_screen_reader(
    learner: Learner, server: str, slug: str
) -> None:
    """In both themes; with the explorer beside the text, while it loads and when it is there."""
    page = learner.page
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/job/*", hold)
    learner.open(server, slug)
    if slug == FUSION:
        assert not serious_in_both_themes(learner)
        learner.button("lesson.skip", n=3).click()
        explorer = learner.explorer
        expect(explorer.get_by_role("button", name=learner.say("job.cancel"))).to_be_visible()
        assert not serious_in_both_themes(learner)
        for route in held:
            route.continue_()
        page.unroute("**/job/*", hold)
        tabs = explorer.get_by_role("tab", selected=True)
        expect(tabs).to_be_visible(timeout=JOB_MS)
        learner.button("lesson.skip", n=1).click()
        expect(learner.closing).to_be_attached()
    assert not serious_in_both_themes(learner)


def serious_in_both_themes(learner: Learner) -> list[Any]:
    found: list[Any] = []
    for theme in ("light", "dark"):
        if learner.page.locator(f".app[data-theme={theme}]").count() == 0:
            learner.button("theme.dark").click()
        expect(learner.page.locator(f".app[data-theme={theme}]")).to_be_visible()
        results = Axe().run(learner.page, options={"resultTypes": ["violations"]})
        found += [
            (theme, v["id"], [n["target"] for n in v["nodes"]])
            for v in results.response["violations"]
            if v["impact"] in ("serious", "critical")
        ]
    return found
