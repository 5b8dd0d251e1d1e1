"""The Glossary page as a reader uses it, in both languages, and the links that texts have to it."""

import re
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, Route, expect

from lessons.glossary import glossary
from ui.language import LANGUAGES, sentence

TERMS = {term.id: term for term in glossary()}


class Reader:
    """The page in one language, by what its parts are called there."""

    def __init__(self, page: Page, language: str) -> None:
        self.page, self.language = page, language
        self.other = next(each for each in LANGUAGES if each != language)

    def say(self, message: str, **parameters: str | int) -> str:
        return sentence(self.language, message, **parameters)

    def open(self, server: str, query: str = "") -> None:
        lang = "" if self.language == "vi" else "&lang=en"
        self.page.goto(f"{server}/?page=glossary{lang}{query}")
        expect(self.terms.first).to_be_visible()

    @property
    def region(self) -> Locator:
        return self.page.get_by_role("region", name=self.say("glossary.title"))

    @property
    def box(self) -> Locator:
        return self.page.get_by_role("searchbox", name=self.say("glossary.search"))

    @property
    def terms(self) -> Locator:
        return self.page.get_by_role("list", name=self.say("glossary.title")).get_by_role(
            "listitem"
        )

    def term(self, name: str) -> Locator:
        return self.terms.filter(has=self.name(name))

    def name(self, name: str) -> Locator:
        title = TERMS[name].name[self.language]
        return self.page.get_by_role("heading", level=3).get_by_role("link", name=title, exact=True)

    def expect_found(self, count: int) -> None:
        """So many terms are there, and the live region says so."""
        expect(self.terms).to_have_count(count)
        expect(self.page.get_by_role("status").filter(visible=True).first).to_have_text(
            self.say("glossary.count", n=count)
        )

    def expect_term(self, name: str) -> None:
        """The address speaks of a term, and that term is marked and in sight."""
        expect(self.page).to_have_url(re.compile(rf"[?&]term={name}(&|$)"))
        expect(self.term(name)).to_have_attribute("aria-current", "true")
        expect(self.term(name)).to_be_in_viewport()


@pytest.fixture
def reader(page: Page, language: str) -> Reader:
    return Reader(page, language)


def test_every_term_is_there_with_the_readers_language_first(reader: Reader, server: str) -> None:
    reader.open(server)
    expect(reader.terms).to_have_count(len(TERMS))
    guard = reader.term("guard")
    first, second = guard.locator("p").nth(0), guard.locator("p").nth(1)
    expect(first).to_have_text(TERMS["guard"].means[reader.language])
    expect(second).to_have_text(TERMS["guard"].means[reader.other])
    expect(second).to_have_attribute("lang", reader.other)
    shown = guard.get_by_role("heading")
    expect(shown).to_have_text({"vi": "điều kiện canh (guard)", "en": "guard điều kiện canh"}[
        reader.language
    ])  # fmt: skip


def test_search_without_diacritics_in_both_directions(reader: Reader, server: str) -> None:
    reader.open(server)
    for query in ("gop toan tu", "Gộp toán tử", "operator fusion"):
        reader.box.fill(query)
        expect(reader.terms.first).to_have_id("term-operator-fusion")
    reader.box.fill("đỉnh núi lửa")
    expect(reader.terms).to_have_count(0)
    expect(reader.page.get_by_role("status")).to_have_text(reader.say("glossary.none"))
    reader.box.fill("roofline")
    expect(reader.terms.first).to_have_id("term-roofline-model")
    reader.expect_found(reader.terms.count())


def test_the_list_is_in_the_order_of_the_language(page: Page, server: str) -> None:
    for language, first, later in (("vi", "biên dịch lại", "đồ thị"), ("en", "absolute", "axis")):
        Reader(page, language).open(server)
        names = page.get_by_role("heading", level=3).all_inner_texts()
        places = [next(k for k, n in enumerate(names) if n.startswith(w)) for w in (first, later)]
        assert places == sorted(places)


def test_by_keyboard_alone(reader: Reader, server: str) -> None:
    reader.open(server)
    keys = reader.page.keyboard
    reader.name("guard").focus()
    keys.press("/")
    expect(reader.box).to_be_focused()
    keys.type("cache")
    expect(reader.terms.first).to_have_id("term-cache")
    keys.press("ArrowDown")
    expect(reader.name("cache")).to_be_focused()
    keys.press("ArrowDown")
    second = reader.terms.nth(1).get_by_role("heading").get_by_role("link")
    expect(second).to_be_focused()
    keys.press("End")
    expect(reader.terms.last.get_by_role("heading").get_by_role("link")).to_be_focused()
    keys.press("Home")
    expect(reader.name("cache")).to_be_focused()
    keys.press("Enter")
    reader.expect_term("cache")
    keys.press("ArrowUp")
    expect(reader.box).to_be_focused()
    keys.press("Enter")
    expect(reader.name("cache")).to_be_focused()
    keys.press("Escape")
    expect(reader.box).to_be_focused()
    keys.press("Escape")
    expect(reader.box).to_have_value("")
    reader.expect_found(len(TERMS))


def test_a_permalink_shows_its_term(reader: Reader, server: str) -> None:
    reader.open(server, "&term=warp-divergence")
    reader.expect_term("warp-divergence")


def test_a_related_term_is_one_click_away_whatever_was_searched(
    reader: Reader, server: str
) -> None:
    reader.open(server)
    reader.box.fill(TERMS["tolerance"].name[reader.language])
    expect(reader.term("rounding-error")).to_have_count(0)
    related = TERMS["rounding-error"].name[reader.language]
    reader.term("tolerance").get_by_role("link", name=related, exact=True).click()
    reader.expect_term("rounding-error")
    expect(reader.name("rounding-error")).to_be_focused()
    expect(reader.box).to_have_value("")


def test_an_unknown_term_is_said_and_all_others_are_there(reader: Reader, server: str) -> None:
    reader.open(server, "&term=no-such-term")
    said = reader.say("glossary.unknown", term="no-such-term")
    expect(reader.region).to_contain_text(said)
    expect(reader.page.get_by_role("status")).to_have_text(said)
    expect(reader.terms).to_have_count(len(TERMS))


def test_the_other_language_keeps_query_and_term(reader: Reader, server: str) -> None:
    reader.open(server)
    reader.box.fill("do tre")
    reader.name("tail-latency").click()
    reader.expect_term("tail-latency")
    name = {"vi": "English", "en": "Tiếng Việt"}[reader.language]
    reader.page.get_by_role("button", name=name).click()
    turned = Reader(reader.page, reader.other)
    expect(turned.box).to_have_value("do tre")
    turned.expect_term("tail-latency")


def test_leaving_takes_the_term_out_of_the_address(reader: Reader, server: str) -> None:
    reader.open(server, "&term=kernel")
    reader.expect_term("kernel")
    reader.page.get_by_role("navigation").get_by_role("button").first.click()
    expect(reader.page).not_to_have_url(re.compile("term="))
    pages = reader.page.get_by_role("navigation")
    pages.get_by_role("button", name=reader.say("nav.glossary")).click()
    expect(reader.page.locator("[aria-current=true]")).to_have_count(0)
    expect(reader.terms).to_have_count(len(TERMS))


def test_terms_that_do_not_come_can_be_asked_for_again(
    reader: Reader, server: str, watch: Any
) -> None:
    page = reader.page
    broken = re.compile(r"/glossary\.json$")

    def refuse(route: Route) -> None:
        route.fulfill(status=503)

    page.route(broken, refuse)
    page.goto(f"{server}/?page=glossary" + ("" if reader.language == "vi" else "&lang=en"))
    expect(page.get_by_role("alert")).to_contain_text(reader.say("glossary.failed"))
    page.unroute(broken)
    page.get_by_role("button", name=reader.say("glossary.retry")).click()
    expect(reader.terms).to_have_count(len(TERMS))
    assert all("503" in error for error in watch.errors)
    watch.errors.clear()


LINK = """
async (region, id) => {
  const loaded = performance.getEntriesByType("resource").map((entry) => entry.name);
  const { termLink } = await import(loaded.find((name) => name.endsWith("/glossary.mjs")));
  const shell = { go: (page, params) => { window.went = [page, params]; } };
  const text = document.createElement("p");
  text.append("1 ", termLink(shell, id, "kernel"), ".");
  region.prepend(text);
}
"""


def test_a_link_of_a_text_tells_the_meaning_and_leads_to_the_term(
    reader: Reader, server: str
) -> None:
    page = reader.page
    reader.open(server)
    reader.region.evaluate(LINK, "kernel")
    link = page.get_by_role("paragraph").get_by_role("link", name="kernel", exact=True).first
    tip = page.get_by_role("tooltip")
    link.hover()
    expect(tip).to_have_text(TERMS["kernel"].means[reader.language])
    expect(tip).to_be_in_viewport(ratio=1)
    page.mouse.move(5, 400)
    expect(tip).to_have_count(0)
    link.focus()
    expect(link).to_have_accessible_description(TERMS["kernel"].means[reader.language])
    page.keyboard.press("Escape")
    expect(tip).to_have_count(0)
    assert page.evaluate("window.went") is None
    link.click()
    assert page.evaluate("window.went") == ["glossary", {"term": "kernel"}]
    wanted = "?page=glossary&term=kernel" + ("" if reader.language == "vi" else "&lang=en")
    expect(link).to_have_attribute("href", wanted)


def test_axe_finds_nothing_serious(reader: Reader, server: str) -> None:
    reader.open(server, "&term=guard")
    for theme in ("light", "dark"):
        if theme == "dark":
            reader.page.get_by_role("button", name=reader.say("theme.dark"), exact=True).click()
        expect(reader.page.locator(f".app[data-theme={theme}]")).to_be_visible()
        reader.name("guard").focus()
        results = Axe().run(reader.page, options={"resultTypes": ["violations"]})
        serious = [
            (v["id"], [n["target"] for n in v["nodes"]])
            for v in results.response["violations"]
            if v["impact"] in ("serious", "critical")
        ]
        assert not serious, theme


def test_the_terms_are_a_file_of_the_version(reader: Reader, server: str) -> None:
    with reader.page.expect_response(re.compile(r"/ui/[0-9a-f]+/glossary\.json$")) as came:
        reader.open(server)
    assert "immutable" in came.value.headers["cache-control"]
    assert [row["id"] for row in came.value.json()] == list(TERMS)
    notes = [term.note for term in TERMS.values() if term.note]
    assert notes and not [note for note in notes if note in came.value.text()]
