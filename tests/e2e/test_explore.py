"""What a person does on the Explore page, through roles and names, by mouse and by keyboard."""

import hashlib
import json
import os
import re
import signal
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import onnx
import pytest
from axe_playwright_python.sync_playwright import Axe
from onnx import TensorProto, helper
from playwright.sync_api import Browser, Locator, Page, expect

from compiler.driver import trace_model
from compiler.pipeline import DEFAULT, print_pipeline
from sample_models import catalogue, sample
from ui.language import LANGUAGES, sentence

COMPILE_MS = 90_000
FORCED = "default,partition-fallback{force=[nowhere]}"


class Explorer:
    """The page in one language, by what its parts are called there."""

    def __init__(self, page: Page, language: str) -> None:
        self.page, self.language = page, language

    def say(self, message: str, **parameters: str | int | float) -> str:
        return sentence(self.language, message, **parameters)

    def open(self, server: str, query: str = "") -> None:
        lang = "" if self.language == "vi" else f"lang={self.language}&"
        self.page.goto(f"{server}/?{lang}{query}")
        expect(self.page.get_by_role("heading", name=self.say("page.title"))).to_be_visible()

    def button(self, message: str, **parameters: str) -> Locator:
        return self.page.get_by_role("button", name=self.say(message, **parameters), exact=True)

    def choose(self, name: str) -> None:
        """Press a sample's card and wait for the whole compile."""
        title = sample(name).title[self.language]
        self.page.get_by_role("button", name=re.compile(f"^{re.escape(title)}")).click()
        self.compiled()

    def compiled(self) -> None:
        """The compile has arrived: its last pass is there and nothing runs."""
        last = self.passes.filter(has_text=re.compile(r"\bbuild\b"))
        expect(last).to_have_count(1, timeout=COMPILE_MS)
        expect(self.button("job.cancel")).to_have_count(0, timeout=COMPILE_MS)

    @property
    def strip(self) -> Locator:
        return self.page.get_by_role("listbox", name=self.say("strip.title"))

    @property
    def passes(self) -> Locator:
        return self.strip.get_by_role("option")

    def named(self, name: str) -> Locator:
        """The passes of that name."""
        return self.passes.filter(has=self.page.get_by_text(name, exact=True))

    @property
    def here(self) -> Locator:
        return self.strip.get_by_role("option", selected=True)

    @property
    def live(self) -> Locator:
        return self.page.locator("#live")

    @property
    def title(self) -> Locator:
        return self.page.locator("#model-title")

    def total(self, message: str) -> Locator:
        """What the toolbar says of launches, kernels or bytes."""
        bar = self.page.get_by_role("group", name=self.say("toolbar.title"), exact=True)
        name = re.compile(f"^{re.escape(self.say(message))}$")
        term = self.page.get_by_role("term").filter(has_text=name)
        return bar.locator("dl > div").filter(has=term).get_by_role("definition")

    def size(self, name: str) -> Locator:
        return self.page.get_by_role("textbox", name=self.say("sizes.field", name=name))

    def upload(self, path: Path) -> None:
        field = self.page.get_by_label(re.compile(re.escape(self.say("upload.title"))))
        field.set_input_files(path)

    @property
    def problem(self) -> Locator:
        return self.page.get_by_role("alert").filter(has_text=self.say("problem.title"))

    def key(self, name: str) -> str:
        """A key of the address."""
        return parse_qs(urlsplit(self.page.url).query).get(name, [""])[0]

    def wait_for(self, name: str, value: str) -> None:
        """Until the address says so: it is written a moment after the state."""
        self.page.wait_for_url(
            lambda url: parse_qs(urlsplit(url).query).get(name, [""])[0] == value
        )


def focused(page: Page) -> str:
    """The id of the element with the focus, inside the component too."""
    return page.evaluate("""() => {
        let at = document.activeElement;
        while (at && at.shadowRoot) at = at.shadowRoot.activeElement;
        return at ? at.id : "";
    }""")


@pytest.fixture
def explorer(page: Page, language: str) -> Explorer:
    """The page in each language."""
    return Explorer(page, language)


class Traffic:
    """What a page asks the server for: requests, and messages on its socket."""

    def __init__(self, page: Page) -> None:
        self.asked: list[str] = []
        page.on("request", lambda r: self.asked.append(urlsplit(r.url).path))
        page.on("websocket", lambda s: s.on("framesent", lambda _: self.asked.append("message")))

    def since(self, start: int) -> list[str]:
        """But for the picture of the browser's tab, and places of a level seen first."""
        alone = ("/favicon", "/layout/")
        return [path for path in self.asked[start:] if not path.startswith(alone)]


@pytest.fixture
def traffic(page: Page) -> Traffic:
    return Traffic(page)


# ---- from the door to one kernel -----------------------------------------------------------------


@pytest.mark.every_language
def test_a_newcomer_comes_to_one_fused_kernel(explorer: Explorer, server: str) -> None:
    page, say = explorer.page, explorer.say
    explorer.open(server)
    expect(page.locator("html")).to_have_attribute("lang", explorer.language)
    expect(page).to_have_title(say("page.title"))
    start = page.get_by_role("button").filter(has_text=say("choose.start"))
    expect(start).to_have_count(1)
    start.click()
    explorer.compiled()

    expect(explorer.here).to_contain_text("fuse")
    expect(explorer.here).to_contain_text(
        say("delta.changed", unit=say("unit.ops"), before=6, after=1)
    )
    expect(page.get_by_text(say("hint.fuse", before=6, after=1))).to_be_visible()
    for total in ("launches", "kernels"):
        expect(explorer.total(f"totals.{total}")).to_have_text(
            say("totals.pair", before=5, after=1)
        )
    assert focused(page) == "model-title", "the keys work at once"
    page.keyboard.press("ArrowDown")
    expect(explorer.here).to_contain_text("lower-loops")
    expect(page.get_by_text(say("hint.fuse", before=6, after=1))).to_have_count(0)
    explorer.button("hint.close").click()
    expect(page.get_by_text(say("hint.keys"))).to_have_count(0)

    explorer.button("toolbar.models").click()
    expect(page.get_by_role("heading", name=say("choose.title"))).to_be_visible()
    explorer.wait_for("model", "")
    start.click()
    explorer.compiled()
    expect(page.get_by_text(say("hint.keys"))).to_have_count(0)


def test_the_language_changes_under_the_result(page: Page, server: str) -> None:
    english = Explorer(page, "en")
    english.open(server)
    english.choose("softmax_spelled_out")
    page.keyboard.press("Home")
    page.get_by_role("button", name="Tiếng Việt").click()
    expect(page.locator("html")).to_have_attribute("lang", "vi")
    vietnamese = Explorer(page, "vi")
    expect(vietnamese.here).to_contain_text("import")
    expect(vietnamese.here).to_contain_text(vietnamese.say("state.changed"))
    expect(vietnamese.title).to_have_text(sample("softmax_spelled_out").title["vi"])
    expect(page).to_have_title(vietnamese.say("page.title"))
    vietnamese.wait_for("lang", "")


# ---- stepping ------------------------------------------------------------------------------------


def steps(name: str) -> list[tuple[str, int]]:
    """(name, number of events) of each pass that a sample goes through."""
    found = sample(name)
    force = f"default,partition-fallback{{force=[{','.join(found.force)}]}}"
    trace, _ = trace_model(found.path, force if found.force else None, until="build")
    return [(r.name, len(r.events)) for r in trace.records]


@pytest.mark.parametrize("name", [s.name for s in catalogue()])
def test_every_pass_and_rewrite_of_a_sample_is_reached_by_keyboard(
    page: Page, server: str, traffic: Traffic, name: str
) -> None:
    explorer = Explorer(page, LANGUAGES[len(name) % 2])
    explorer.open(server, f"model={name}")
    explorer.compiled()
    wanted = steps(name)
    expect(explorer.passes).to_have_count(len(wanted) + 1)  # and build
    page.keyboard.press("Home")
    expect(explorer.here).to_contain_text("import")
    start = len(traffic.asked)
    for k, (pass_name, events) in enumerate(wanted):
        expect(explorer.live).to_contain_text(
            explorer.say(
                "pass.announce",
                number=k + 1,
                of=len(wanted) + 1,
                name=pass_name,
                state="",
                delta="",
            ).rstrip(", ")
        )
        expect(explorer.here).to_have_attribute("data-at", str(k))
        for _ in range(events):
            page.keyboard.press("ArrowRight")
        if events:
            said = explorer.say("event.announce", number=events, of=events)
            expect(explorer.live).to_contain_text(said)
            page.keyboard.press("ArrowRight")
            expect(explorer.live).to_contain_text(said)
        page.keyboard.press("ArrowDown")
    expect(explorer.here).to_contain_text("build")
    page.keyboard.press("ArrowDown")
    expect(explorer.here).to_contain_text("build")
    assert not traffic.since(start), "what was sent is not asked for again"


def test_n_and_p_jump_between_passes_that_changed_something(
    explorer: Explorer, server: str
) -> None:
    explorer.open(server)
    explorer.choose("softmax_spelled_out")
    explorer.page.keyboard.press("Home")
    texts = [explorer.passes.nth(k).inner_text() for k in range(explorer.passes.count())]
    changed = [k for k, text in enumerate(texts) if explorer.say("state.changed") in text]
    assert changed[0] == 0 and len(changed) > 5
    for k in changed[1:]:
        explorer.page.keyboard.press("n")
        expect(explorer.here).to_have_attribute("data-at", str(k))
    explorer.page.keyboard.press("Shift+P")
    expect(explorer.here).to_have_attribute("data-at", str(changed[-2]))
    explorer.page.keyboard.press("End")
    expect(explorer.here).to_contain_text("build")


def test_keys_act_inside_and_nowhere_else(
    explorer: Explorer, server: str, traffic: Traffic
) -> None:
    explorer.open(server)
    explorer.choose("five_op_chain")
    page = explorer.page
    place = str(explorer.here.get_attribute("data-at"))
    start = len(traffic.asked)
    for key in ("r", "c", "Control+ArrowDown", "Alt+ArrowDown", "Shift+ArrowDown", "x"):
        page.keyboard.press(key)
    field = page.get_by_role("textbox", name=explorer.say("strip.find"))
    field.fill("fu")
    for key in ("ArrowLeft", "n", "Backspace", "?", "Backspace", "ArrowUp"):
        page.keyboard.press(key)
    expect(field).to_have_value("fu")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(explorer.here).to_have_attribute("data-at", place)
    page.keyboard.press("Escape")
    page.keyboard.press("ArrowDown")  # out of the field, and still inside
    expect(explorer.here).to_have_attribute("data-at", str(int(place) + 1))
    assert not traffic.since(start), "no key reaches the host page"


def test_escape_clears_the_selection_and_says_so(explorer: Explorer, server: str) -> None:
    explorer.open(server, "model=five_op_chain&sel=T3")
    explorer.compiled()
    page = explorer.page
    explorer.wait_for("sel", "T3")
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name=explorer.say("help.title"))
    expect(dialog).to_contain_text(explorer.say("keys.leave"))
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    menu = page.locator("#pane-export")
    menu.click()
    page.keyboard.press("Escape")
    expect(menu).to_have_attribute("aria-expanded", "false")
    page.keyboard.press("/")
    page.keyboard.type("T1")
    page.keyboard.press("Escape")  # empties the search
    page.keyboard.press("Escape")  # leaves the field
    expect(page.locator("#search")).to_have_value("")
    expect(page.locator("#search")).not_to_be_focused()
    life = page.locator("#inspector-life")
    expect(life).to_be_visible()
    assert explorer.key("sel") == "T3", "whatever is open is closed first"
    life.focus()
    page.keyboard.press("Escape")
    explorer.wait_for("sel", "")
    expect(page.get_by_text(explorer.say("inspector.none"))).to_be_visible()
    expect(explorer.live).to_have_text(explorer.say("selection.cleared"))
    page.keyboard.press("?")  # the focus is still inside
    expect(dialog).to_be_visible()


def test_search_is_caught_from_the_browser(explorer: Explorer, server: str) -> None:
    explorer.open(server)
    explorer.choose("five_op_chain")
    for key in ("/", "Control+f"):
        explorer.title.focus()
        explorer.page.keyboard.press(key)
        assert focused(explorer.page) == "search"


def test_help_keeps_the_focus_and_gives_it_back(explorer: Explorer, server: str) -> None:
    explorer.open(server)
    explorer.choose("five_op_chain")
    page = explorer.page
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name=explorer.say("help.title"))
    expect(dialog).to_contain_text(explorer.say("keys.rewrite"))
    place = str(explorer.strip.locator("[aria-selected=true]").get_attribute("data-at"))
    for key in ("Tab", "Tab", "ArrowDown"):
        page.keyboard.press(key)
    expect(explorer.strip.locator("[aria-selected=true]")).to_have_attribute("data-at", place)
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    assert focused(page) == "model-title"
    page.get_by_role("button", name=explorer.say("toolbar.help")).click()
    explorer.button("help.close").click()
    expect(dialog).to_have_count(0)
    assert focused(page) == "help"


def test_the_strip_is_filtered(explorer: Explorer, server: str) -> None:
    explorer.open(server)
    explorer.choose("softmax_spelled_out")
    count = explorer.passes.count()
    choose = explorer.page.get_by_role("combobox", name=explorer.say("strip.filter"))
    choose.select_option("changed")
    changed = explorer.passes.count()
    assert 5 < changed < count
    page, say = explorer.page, explorer.say
    expect(page.get_by_text(say("strip.hidden", n=count - changed))).to_be_visible()
    find = page.get_by_role("textbox", name=explorer.say("strip.find"))
    find.fill("lower")
    expect(explorer.passes).to_have_count(2)  # and the one that is open
    expect(explorer.named("lower-loops")).to_have_count(1)
    find.fill("")
    choose.select_option("all")
    expect(explorer.passes).to_have_count(count)


# ---- sizes ---------------------------------------------------------------------------------------


def mebibytes(explorer: Explorer, count: int) -> str:
    text = f"{count / 2**20:.4g}"
    return f"{text.replace('.', ',') if explorer.language == 'vi' else text} MiB"


def test_a_size_is_bound_without_a_compile(
    explorer: Explorer, server: str, traffic: Traffic
) -> None:
    explorer.open(server)
    explorer.choose("five_op_chain")
    page, say = explorer.page, explorer.say

    def floors(r: int, c: int) -> None:
        before, after = (k * r * c * 4 + 2 * c * 4 for k in (11, 3))
        expect(explorer.total("totals.floor")).to_have_text(
            say("totals.pair", before=mebibytes(explorer, before), after=mebibytes(explorer, after))
        )

    floors(2048, 2048)
    start = len(traffic.asked)
    slider = page.get_by_role("slider", name=say("sizes.slider", name="r"))
    slider.focus()
    for key, size in (("ArrowLeft", 1024), ("ArrowDown", 512), ("ArrowUp", 1024), ("End", 4096)):
        page.keyboard.press(key)
        expect(explorer.size("r")).to_have_value(str(size))
        floors(size, 2048)
    expect(explorer.live).to_contain_text("r = 4096, c = 2048")
    box = slider.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] - 4, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, steps=5)
    page.mouse.up()
    dragged = int(explorer.size("r").input_value())
    assert 16 < dragged < 256, "the middle of a logarithmic scale"
    explorer.size("r").fill("777")
    floors(777, 2048)
    explorer.size("r").fill("many")
    expect(explorer.size("r")).to_have_attribute("aria-invalid", "true")
    floors(777, 2048)
    explorer.size("c").focus()
    expect(explorer.size("r")).to_have_value("777")
    explorer.wait_for("bind", "r=777")
    assert not traffic.since(start), "no request, no message"


def test_a_pin_compiles_for_that_size(explorer: Explorer, server: str) -> None:
    explorer.open(server, "model=five_op_chain&bind=r%3D512")
    explorer.compiled()
    explorer.button("sizes.pin", name="r").click()
    explorer.wait_for("pin", "r=512")
    expect(explorer.named("bind-dims")).to_contain_text(explorer.say("state.changed"))
    pin = explorer.button("sizes.pin", name="r")
    expect(pin).to_have_attribute("aria-pressed", "true")
    expect(explorer.size("r")).to_be_disabled()
    after = mebibytes(explorer, 3 * 512 * 2048 * 4 + 2 * 2048 * 4)
    expect(explorer.total("totals.floor")).to_contain_text(after)
    pin.click()
    explorer.wait_for("pin", "")
    expect(explorer.size("r")).to_have_value("512")


# ---- the pipeline --------------------------------------------------------------------------------


def test_passes_are_switched_off_moved_and_repeated(explorer: Explorer, server: str) -> None:
    explorer.open(server)
    explorer.choose("softmax_spelled_out")
    page, count = explorer.page, len(DEFAULT)
    expect(explorer.passes).to_have_count(count)

    explorer.named("cse").first.click()
    explorer.button("passes.off").focus()
    page.keyboard.press("Enter")
    explorer.wait_for("passes", "default,-cse")
    page.keyboard.press("Home")
    expect(explorer.here).to_contain_text("import")
    expect(explorer.passes).to_have_count(count - 2)
    explorer.button("passes.on.name", name="cse").click()
    explorer.wait_for("passes", "")
    expect(explorer.passes).to_have_count(count)

    explorer.named("fuse").click()
    explorer.button("passes.off").click()
    explorer.wait_for("passes", "default,fuse{by=origin}")
    expect(explorer.total("totals.launches")).not_to_contain_text("→ 1")
    explorer.button("passes.on").click()
    explorer.wait_for("passes", "")
    expect(explorer.total("totals.launches")).to_contain_text("→ 1")

    explorer.named("decompose").click()
    expect(page.get_by_text(explorer.say("passes.locked"))).to_be_visible()
    expect(explorer.button("passes.off")).to_have_count(0)

    explorer.named("order-steps").click()
    explorer.button("passes.down").click()
    names = [p.name for p in DEFAULT]
    at = names.index("order-steps")
    names[at : at + 2] = reversed(names[at : at + 2])
    explorer.wait_for("passes", ",".join(names))
    expect(explorer.here).to_contain_text("order-steps")
    expect(explorer.here).to_have_attribute("data-at", str(at + 1))
    explorer.button("passes.repeat").click()
    expect(explorer.named("order-steps")).to_have_count(2)
    explorer.button("passes.one").click()
    expect(explorer.named("order-steps")).to_have_count(1)
    explorer.button("passes.usual").click()
    explorer.wait_for("passes", "")


def test_a_switch_keeps_the_focus_for_the_one_that_takes_it_back(
    explorer: Explorer, server: str
) -> None:
    explorer.open(server)
    explorer.choose("softmax_spelled_out")
    page = explorer.page
    for name, gone, off, on in (
        ("cse", "default,-cse", "passes-off", "on-cse"),
        ("fuse", "default,fuse{by=origin}", "passes-off", "passes-on"),
    ):
        first = explorer.named(name).first
        place = str(first.get_attribute("data-at"))
        first.click()
        expect(explorer.here).to_have_attribute("data-at", place)
        page.locator(f"#{off}").focus()
        page.keyboard.press("Enter")
        explorer.wait_for("passes", gone)
        expect(page.locator(f"#{on}")).to_be_focused()
        expect(explorer.here).to_have_attribute("data-at", place)
        page.keyboard.press("Enter")
        explorer.wait_for("passes", "")
        expect(page.locator(f"#{off}")).to_be_focused()
        expect(explorer.here).to_contain_text(name)
        expect(explorer.here).to_have_attribute("data-at", place)


def test_a_title_that_got_the_focus_by_keyboard_shows_it(explorer: Explorer, server: str) -> None:
    explorer.open(server)
    page = explorer.page
    page.locator("#model-five_op_chain").focus()
    page.keyboard.press("Enter")
    expect(explorer.title).to_be_focused()
    expect(explorer.title).to_have_css("outline-style", "solid")
    explorer.button("toolbar.models").click()
    page.locator("#model-five_op_chain").click()
    expect(explorer.title).to_be_focused()
    expect(explorer.title).to_have_css("outline-style", "none")


def test_a_default_pipeline_in_full_is_the_default(explorer: Explorer, server: str) -> None:
    written = print_pipeline(DEFAULT)
    explorer.open(server, f"model=softmax_spelled_out&passes={written}")
    explorer.compiled()
    explorer.wait_for("passes", "")
    expect(explorer.button("passes.usual")).to_have_count(0)
    page, names = explorer.page, [p.name for p in DEFAULT]
    at = names.index("order-steps")
    names[at : at + 2] = reversed(names[at : at + 2])
    explorer.named("order-steps").click()
    explorer.button("passes.down").click()
    explorer.wait_for("passes", ",".join(names))
    expect(explorer.button("passes.usual")).to_be_visible()
    expect(page.locator("#passes-up")).not_to_have_attribute("aria-disabled", "true")
    explorer.button("passes.up").click()
    explorer.wait_for("passes", "")
    expect(explorer.button("passes.usual")).to_have_count(0)
    expect(explorer.here).to_have_attribute("data-at", str(at))


def test_a_pass_that_needs_another_before_it_is_refused_in_words(
    explorer: Explorer, server: str
) -> None:
    explorer.open(server)
    explorer.choose("softmax_spelled_out")
    explorer.named("collapse-axes").click()
    explorer.button("passes.up").click()
    told = explorer.say("pipeline.before", name="collapse-axes", needed="lower-loops")
    expect(explorer.problem).to_contain_text(told)
    expect(explorer.problem).to_contain_text(
        explorer.say("pipeline.before.remedy", name="collapse-axes", needed="lower-loops")
    )
    expect(explorer.passes).to_have_count(len(DEFAULT))
    expect(explorer.here).to_contain_text("collapse-axes")
    assert explorer.key("passes") == "", "what is shown stays"
    explorer.button("problem.close").click()
    expect(explorer.problem).to_have_count(0)


def test_a_compile_that_fails_shows_how_far_it_got(explorer: Explorer, server: str) -> None:
    explorer.open(server, f"model=mlp&passes={FORCED}")
    expect(explorer.problem).to_contain_text("nowhere", timeout=COMPILE_MS)
    expect(explorer.passes).to_have_count(4)
    expect(explorer.here).to_contain_text("partition-fallback")
    expect(explorer.here).to_contain_text(explorer.say("state.failed"))
    explorer.page.keyboard.press("ArrowUp")
    expect(explorer.here).to_contain_text("infer-shapes")
    explorer.button("passes.usual").click()
    explorer.compiled()
    expect(explorer.problem).to_have_count(0)


def options(explorer: Explorer) -> Locator:
    """Open the panel of options."""
    button = explorer.page.get_by_role(
        "button", name=re.compile(f"^{explorer.say('options.title')}")
    )
    button.click()
    expect(button).to_have_attribute("aria-expanded", "true")
    return explorer.page.get_by_role("form", name=explorer.say("options.title"))


def test_options_are_set_in_a_panel(explorer: Explorer, server: str) -> None:
    explorer.open(server)
    explorer.choose("softmax_spelled_out")
    page, say = explorer.page, explorer.say
    panel = options(explorer)
    target = panel.get_by_label(say("options.target"))
    expect(target.get_by_role("option")).to_have_count(3)
    cuda = target.get_by_role("option", name=say("options.target.cuda"))
    if cuda.is_disabled():
        name = say("options.target.cuda")
        expect(panel).to_contain_text(say("options.target.missing", name=name))
    page.keyboard.press("Escape")
    assert focused(page) == "options"
    panel = options(explorer)
    panel.get_by_label(say("options.numerics")).select_option("strict")
    panel.get_by_label(say("options.pipeline")).fill("default,-nonsense")
    explorer.button("options.compile").click()
    expect(explorer.problem).to_contain_text("nonsense", timeout=COMPILE_MS)
    expect(explorer.passes).to_have_count(len(DEFAULT))
    panel = options(explorer)
    expect(panel.get_by_label(say("options.pipeline"))).to_have_value("default,-nonsense")
    panel.get_by_label(say("options.pipeline")).fill("default,-dce")
    explorer.button("options.compile").click()
    explorer.wait_for("passes", "default,-dce")
    explorer.wait_for("numerics", "strict")
    expect(explorer.named("dce")).to_have_count(0)


def test_ptx_is_there_to_read_without_a_gpu(explorer: Explorer, server: str) -> None:
    explorer.open(server)
    explorer.choose("softmax_spelled_out")
    page, say = explorer.page, explorer.say
    panel = options(explorer)
    choice = panel.get_by_label(say("options.target"))
    choice.select_option(label=say("options.target.cuda-ptx"))
    expect(panel).to_contain_text(say("options.target.ptx"))
    explorer.button("options.compile").click()
    explorer.wait_for("target", "cuda:ptx")
    expect(explorer.named("map-gpu")).to_have_count(1, timeout=COMPILE_MS)
    expect(explorer.named("stream-stores")).to_have_count(0)

    page.get_by_role("tab", name=re.compile(re.escape(say("tab.kernels")))).click()
    page.get_by_role("tab", name=say("listing.ptx"), exact=True).click()
    ptx = page.get_by_role("listbox", name=f"k0, {say('listing.ptx')}")
    expect(ptx).to_contain_text("NVVM")
    with page.expect_download() as download:
        page.get_by_role("button", name=re.compile(r"k0\.ptx")).click()
    text = download.value.path().read_text(encoding="utf-8")
    assert ".visible .entry k_" in text and "\t.loc\t1 " in text

    # An instruction selects the ops that it came from, and they are what is lit from then on.
    expect(page.get_by_text(say("kernels.ptx.hint"))).to_be_visible()
    at = next(k for k, line in enumerate(text.split("\n")) if "ld.global.v4.f32" in line)
    ptx.evaluate("(list, at) => { list.scrollTop = 20 * at; }", at - 1)
    instruction = ptx.get_by_role("option").filter(has_text="ld.global.v4.f32").first
    instruction.click()
    expect(instruction).to_have_attribute("aria-selected", "true")
    inspector = page.get_by_role("complementary", name=say("inspector.title"))
    expect(inspector).to_contain_text("ReduceMax")
    explorer.named("fuse").click()
    page.get_by_role("tab", name=say("tab.text"), exact=True).click()
    lit = page.get_by_role("tabpanel").get_by_role("option", selected=True)
    expect(lit.filter(has_text="reduce.max").first).to_be_visible()


def test_another_compile_stands_in_the_left_pane(explorer: Explorer, server: str) -> None:
    explorer.open(server)
    explorer.choose("five_op_chain")
    left = explorer.page.get_by_role("combobox", name=explorer.say("left.title"))
    left.select_option("op_by_op")
    names = [explorer.say(f"pane.{name}") for name in ("op_by_op", "left")]
    titles = explorer.page.get_by_role("heading", name=re.compile(f"^({'|'.join(names)})$"))
    expect(titles).to_have_text(names[0], timeout=COMPILE_MS)
    left.select_option("other")
    pipeline = explorer.page.get_by_role("textbox", name=explorer.say("left.pipeline"))
    pipeline.fill("default,-nonsense")
    explorer.button("left.compile").click()
    expect(explorer.problem).to_contain_text("nonsense", timeout=COMPILE_MS)
    expect(explorer.passes).to_have_count(len(DEFAULT))
    left.select_option("")
    expect(titles).to_have_count(0)


# ---- files ---------------------------------------------------------------------------------------


def test_a_broken_file_gives_the_problem_and_the_way_out(
    explorer: Explorer, server: str, tmp_path: Path
) -> None:
    explorer.open(server)
    path = tmp_path / "mô hình hỏng.onnx"
    whole = sample("mlp").path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    explorer.upload(path)
    expect(explorer.problem).to_be_visible(timeout=COMPILE_MS)
    expect(explorer.problem).to_contain_text(path.name)
    expect(explorer.problem).to_contain_text(explorer.say("model.truncated.remedy"))
    explorer.button("toolbar.models").click()
    explorer.upload(sample("softmax_spelled_out").path)
    explorer.compiled()
    expect(explorer.problem).to_have_count(0)
    expect(explorer.title).to_have_text("softmax_spelled_out.onnx")


def reshaped_at_run_time() -> onnx.ModelProto:
    """The shape of what `Exp` makes is an input: no rank, no bytes after it."""
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4]),
        helper.make_tensor_value_info("s", TensorProto.INT64, ["q"]),
    ]
    nodes = [
        helper.make_node("Exp", ["x"], ["h"]),
        helper.make_node("Reshape", ["h", "s"], ["y"], name="fits"),
    ]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", inputs, [output])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_a_model_of_shapes_that_only_a_run_tells_opens(
    explorer: Explorer, server: str, tmp_path: Path
) -> None:
    path = tmp_path / "reshaped.onnx"
    path.write_bytes(reshaped_at_run_time().SerializeToString())
    explorer.open(server)
    explorer.upload(path)
    explorer.compiled()
    page, say = explorer.page, explorer.say
    expect(explorer.total("totals.floor")).to_have_text(say("totals.unknown"))
    explorer.size("n").fill("7")
    expect(explorer.total("totals.floor")).to_have_text(say("totals.unknown"))
    dock = page.get_by_role("region", name=say("dock.title"), exact=True)
    for tab in dock.get_by_role("tab").all():
        tab.click()
        expect(tab).to_have_attribute("aria-selected", "true")
        expect(dock.get_by_role("tabpanel")).not_to_be_empty()
    page.get_by_role("tab", name=re.compile(f"^{say('tab.decisions')}")).click()
    row = page.get_by_role("row").filter(has_text="R1")
    expect(row.get_by_text(say("bytes.unknown"), exact=True)).to_have_count(2)
    page.get_by_role("button", name=say("nav.measure"), exact=True).click()
    page.locator("#ask-measure").click()  # the way to the page is called the same
    expect(explorer.problem).to_contain_text("Reshape", timeout=COMPILE_MS)
    expect(explorer.problem).to_contain_text("--inputs X.npz")


def test_no_rows_move_no_bytes_and_a_bound_is_said_as_one(explorer: Explorer, server: str) -> None:
    explorer.open(server, "model=five_op_chain&bind=r%3D0")
    explorer.compiled()
    expect(explorer.total("totals.floor")).to_have_text("0 B → 0 B")
    explorer.open(server, "model=lstm_cell")
    explorer.compiled()
    floor = explorer.total("totals.floor")
    expect(floor).to_have_text(re.compile(r"^≤ .* → ≤ "))
    explorer.page.get_by_role("tab", name=re.compile(f"^{explorer.say('tab.kernels')}")).click()
    panel = explorer.page.get_by_role("tabpanel")
    expect(panel).to_contain_text(explorer.say("kernels.reads.most"))
    expect(panel).not_to_contain_text(explorer.say("kernels.reads"))
    expect(panel).to_contain_text(explorer.say("kernels.most.hint"))


def test_what_is_no_model_is_refused_at_once(
    explorer: Explorer, server: str, tmp_path: Path, traffic: Traffic
) -> None:
    explorer.open(server)
    start = len(traffic.asked)
    for name, content, message in (("weights.pt", b"PK", "kind"), ("leer.onnx", b"", "empty")):
        path = tmp_path / name
        path.write_bytes(content)
        explorer.upload(path)
        expect(explorer.problem).to_contain_text(explorer.say(f"upload.{message}", name=name))
        expect(explorer.problem).to_contain_text(explorer.say(f"upload.{message}.remedy"))
    assert "/upload" not in traffic.since(start)


def drag(page: Page, path: Path, events: tuple[str, ...]) -> None:
    """A file over the page, as the system's file manager drags it."""
    data = page.evaluate_handle(
        """([bytes, name]) => {
            const data = new DataTransfer();
            data.items.add(new File([new Uint8Array(bytes)], name));
            return data;
        }""",
        [list(path.read_bytes()), path.name],
    )
    for event in events:
        page.dispatch_event("body", event, {"dataTransfer": data})


def test_a_file_is_dropped_anywhere(explorer: Explorer, server: str) -> None:
    explorer.open(server)
    page, path = explorer.page, sample("softmax_spelled_out").path
    sheet = page.get_by_text(explorer.say("upload.drop"))
    drag(page, path, ("dragenter", "dragover"))
    expect(sheet).to_be_visible()
    drag(page, path, ("dragleave",))
    expect(sheet).to_be_hidden()
    drag(page, path, ("dragenter", "drop"))
    expect(sheet).to_be_hidden()
    explorer.compiled()
    page.wait_for_url(re.compile("model=sha256"))
    drag(page, sample("diamond").path, ("dragenter", "drop"))
    expect(explorer.title).to_have_text("diamond.onnx")
    explorer.compiled()


def hostile_model() -> onnx.ModelProto:
    """A model whose names are markup, in HTML and in Markdown."""
    image = '<img src="http://outside.invalid/x.png" onerror="document.title=1">'
    link = "![x](http://outside.invalid/y.png) $z$ :red[w]"
    x = helper.make_tensor_value_info(image, TensorProto.FLOAT, ["n"])
    y = helper.make_tensor_value_info(link, TensorProto.FLOAT, ["n"])
    nodes = [
        helper.make_node("Relu", [image], ["</style>"], name=f"{image} node"),
        helper.make_node("Sin", ["</style>"], ["</script>"], name=link),
        helper.make_node("Sqrt", ["</script>"], [link]),
    ]
    graph = helper.make_graph(nodes, "<b>graph</b>", [x], [y])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_names_are_text_whatever_they_hold(explorer: Explorer, server: str, tmp_path: Path) -> None:
    explorer.open(server)
    page = explorer.page
    path = tmp_path / "<img src=x onerror=alert(1)> $x$ :red[x].onnx"
    onnx.save(hostile_model(), path)
    explorer.upload(path)
    explorer.compiled()
    expect(explorer.title).to_have_text(path.name)
    page.keyboard.press("Home")
    for _ in range(explorer.passes.count()):
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowDown")
    page.get_by_role("tab", name=explorer.say("tab.text")).click()
    expect(page.get_by_role("tabpanel").first).to_contain_text("<img src=")
    explorer.button("toolbar.models").click()
    broken = tmp_path / "![x](outside.invalid) <b>.onnx"
    broken.write_bytes(b"no model")
    explorer.upload(broken)
    expect(explorer.problem).to_contain_text(broken.name, timeout=COMPILE_MS)
    assert page.locator(".app img, .app script, .app b").count() == 0
    expect(page).to_have_title(explorer.say("page.title"))


# ---- addresses -----------------------------------------------------------------------------------


def test_an_address_shows_the_same_in_a_fresh_browser(
    explorer: Explorer, fresh: Page, server: str
) -> None:
    explorer.open(server, "kept=1")
    explorer.choose("layernorm_residual")
    page = explorer.page
    explorer.named("dedup-params").click()
    explorer.button("passes.off").click()
    explorer.wait_for("passes", "default,-dedup-params")
    expect(explorer.named("dedup-params")).to_have_count(0)
    explorer.size("batch").fill("3")
    explorer.named("decompose").click()
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    page.get_by_role("tab", name=explorer.say("tab.text")).click()
    line = page.get_by_role("tabpanel").get_by_role("option").filter(has_text="%").last
    line.click()
    at = explorer.here.get_attribute("data-at")
    explorer.wait_for("at", f"{at}.1")
    explorer.wait_for("tab", "text")
    explorer.wait_for("bind", "batch=3")
    page.wait_for_url(re.compile("sel="))
    inspector = page.get_by_role("complementary", name=explorer.say("inspector.title"))
    chosen = inspector.inner_text()
    said = explorer.live.inner_text()

    other = Explorer(fresh, explorer.language)
    fresh.goto(page.url)
    other.compiled()
    expect(other.here).to_have_attribute("data-at", str(at))
    expect(other.live).to_have_text(said)
    expect(other.named("dedup-params")).to_have_count(0)
    expect(other.size("batch")).to_have_value("3")
    expect(fresh.get_by_role("tab", selected=True).first).to_have_text(explorer.say("tab.text"))
    there = fresh.get_by_role("complementary", name=explorer.say("inspector.title"))
    expect(there).to_contain_text(chosen.splitlines()[2])
    for key in ("model", "passes", "at", "sel", "tab", "bind", "lang", "kept"):
        assert other.key(key) == explorer.key(key), key


def test_an_address_holds_what_the_panes_show(
    explorer: Explorer, fresh: Page, server: str
) -> None:
    page, say = explorer.page, explorer.say
    explorer.open(server, "model=five_op_chain&left=op_by_op&colour=bytes")
    explorer.compiled()
    other = page.get_by_role("heading", name=say("pane.op_by_op"), exact=True)
    expect(other).to_be_visible(timeout=COMPILE_MS)
    expect(page.get_by_role("combobox", name=say("pane.overlay"))).to_have_value("bytes")
    page.get_by_role("combobox", name=say("pane.view")).select_option("kernels")
    explorer.wait_for("view", "kernels")
    fresh.goto(page.url)
    there = fresh.get_by_role("heading", name=say("pane.op_by_op"), exact=True)
    expect(there).to_be_visible(timeout=COMPILE_MS)
    expect(fresh.get_by_role("combobox", name=say("pane.view"))).to_have_value("kernels")
    Explorer(fresh, "en").wait_for("colour", "bytes")


def test_an_event_that_a_pass_does_not_have(explorer: Explorer, server: str) -> None:
    explorer.open(server, "model=five_op_chain&at=22.3")
    explorer.compiled()
    expect(explorer.here).to_have_attribute("data-at", "22")
    page = explorer.page
    page.get_by_role("tab", name=explorer.say("tab.text")).click()
    expect(page.get_by_role("tabpanel").get_by_role("option").first).to_be_visible()


def test_another_model_on_measure_is_the_model_of_explore(
    explorer: Explorer, server: str
) -> None:
    page = explorer.page
    explorer.open(server)
    explorer.choose("five_op_chain")
    explorer.button("nav.measure").click()
    page.get_by_role("combobox").first.select_option("bias_relu")
    explorer.button("nav.explore").click()
    expect(explorer.title).to_have_text(sample("bias_relu").title[explorer.language])
    explorer.compiled()
    explorer.wait_for("model", "bias_relu")


def test_a_size_as_people_write_it(explorer: Explorer, server: str) -> None:
    explorer.open(server, "model=five_op_chain")
    explorer.compiled()
    for text in ("4.096", "4,096", "4 096"):
        explorer.size("r").fill("7")
        explorer.wait_for("bind", "r=7")
        explorer.size("r").fill(text)
        explorer.wait_for("bind", "r=4096")
    explorer.size("r").fill("4.09")
    wrong = explorer.say("sizes.wrong", low="0", high="").strip()
    expect(explorer.page.get_by_text(wrong)).to_be_visible()
    explorer.wait_for("bind", "r=4096")


@pytest.mark.parametrize("width", [1366, 900])
def test_a_size_that_is_wrong_says_so_and_moves_nothing(
    explorer: Explorer, server: str, width: int
) -> None:
    page = explorer.page
    page.set_viewport_size({"width": width, "height": 768})
    explorer.open(server, "model=tiny_gpt")
    explorer.compiled()
    parts = page.locator(".toolbar > *:visible, .panes, .dock, .size")
    before = [part.bounding_box() for part in parts.all()]
    for name in ("batch", "seq"):
        field = explorer.size(name)
        field.fill("none")
        expect(field).to_have_attribute("aria-invalid", "true")
        wrong = page.locator("#size-wrong")
        expect(wrong).to_be_visible()
        expect(field).to_have_accessible_description(wrong.inner_text())
        box, below = wrong.bounding_box(), field.bounding_box()
        assert box is not None and below is not None
        assert box["y"] >= below["y"] + below["height"] and box["x"] + box["width"] <= width
        assert [part.bounding_box() for part in parts.all()] == before
        explorer.button("toolbar.models").focus()
        expect(field).to_have_attribute("aria-invalid", "false")
        expect(wrong).to_be_empty()


def test_fuse_that_is_off_says_so(explorer: Explorer, server: str) -> None:
    explorer.open(server, "model=five_op_chain&passes=default,fuse{by=origin}")
    explorer.compiled()
    explorer.named("fuse").click()
    expect(explorer.here).to_contain_text(explorer.say("passes.fuse.off"))
    expect(explorer.page.get_by_text("intermediates inside a group")).to_have_count(0)


def test_back_and_forward_lead_from_place_to_place(explorer: Explorer, server: str) -> None:
    """A model and a page are places; a pass is not, and comes back with the model."""
    page = explorer.page
    explorer.open(server)
    explorer.choose("softmax_spelled_out")
    explorer.wait_for("model", "softmax_spelled_out")
    places = page.evaluate("history.length")
    page.keyboard.press("End")
    last = str(explorer.passes.count() - 1)
    explorer.wait_for("at", last)
    assert page.evaluate("history.length") == places, "a step through passes is no place"
    explorer.button("nav.measure").click()
    explorer.wait_for("page", "measure")
    expect(page).to_have_title(f"{explorer.say('nav.measure')} · {explorer.say('page.title')}")
    page.go_back()
    expect(explorer.title).to_be_visible()
    expect(page).to_have_title(explorer.say("page.title"))
    explorer.wait_for("at", last)
    page.go_back()
    expect(page.get_by_role("heading", name=explorer.say("choose.title"))).to_be_visible()
    page.go_forward()
    expect(explorer.title).to_have_text(sample("softmax_spelled_out").title[explorer.language])
    explorer.wait_for("at", last)


def test_nothing_of_the_host_page_takes_the_focus(explorer: Explorer, server: str) -> None:
    explorer.open(server)
    page = explorer.page
    page.keyboard.press("Tab")
    assert focused(page) == "nav-explore"
    expect(page.get_by_role("main")).to_have_count(1)
    explorer.choose("softmax_spelled_out")
    page.keyboard.press("/")
    assert focused(page) == "search"
    page.keyboard.press("Escape")
    page.keyboard.press("Home")
    expect(explorer.here).to_contain_text("import")


def test_a_model_that_an_address_names_in_vain_is_said(explorer: Explorer, server: str) -> None:
    explorer.open(server, "model=nosuch")
    expect(explorer.problem).to_contain_text(explorer.say("request.sample", name="nosuch"))
    explorer.choose("softmax_spelled_out")
    expect(explorer.problem).to_have_count(0)


def test_an_upload_that_is_gone_is_asked_for_again(
    explorer: Explorer, server: str, tmp_path: Path
) -> None:
    model = onnx.load(sample("softmax_spelled_out").path)
    model.doc_string = f"brought again, {explorer.language}"
    path = tmp_path / "again.onnx"
    onnx.save(model, path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    explorer.open(server, f"model=sha256:{digest}&at=9&tab=text")
    expect(explorer.page.get_by_role("heading", name=explorer.say("gone.title"))).to_be_visible()
    explorer.upload(sample("diamond").path)
    expect(explorer.problem).to_contain_text(explorer.say("upload.other", name="diamond.onnx"))
    explorer.upload(path)
    explorer.compiled()
    expect(explorer.title).to_have_text("again.onnx")
    expect(explorer.here).to_have_attribute("data-at", "9")
    expect(explorer.page.get_by_role("tab", name=explorer.say("tab.text"))).to_have_attribute(
        "aria-selected", "true"
    )


# ---- jobs ----------------------------------------------------------------------------------------


def test_a_compile_shows_its_graph_early_and_can_be_cancelled(
    explorer: Explorer, server: str
) -> None:
    size = 3 + LANGUAGES.index(explorer.language)  # which nobody compiled before
    explorer.open(server, f"model=resnet_tiny&numerics=strict&pin=batch%3D{size}")
    expect(explorer.passes).to_have_count(1)
    expect(explorer.here).to_contain_text("import")
    explorer.button("job.cancel").click()
    expect(explorer.page.locator(".notice")).to_contain_text(explorer.say("compile.stopped"))
    expect(explorer.button("job.cancel")).to_have_count(0)
    expect(explorer.passes).to_have_count(1)
    explorer.button("compile.again").click()
    explorer.compiled()


def test_a_tab_closed_in_the_middle_leaves_the_page_alive(
    browser: Browser, page: Page, server: str
) -> None:
    gone = browser.new_page()
    gone.goto(f"{server}/?model=resnet_tiny&numerics=strict&pin=batch%3D7")
    first = Explorer(gone, "vi")
    expect(first.button("job.cancel")).to_be_visible(timeout=COMPILE_MS)
    gone.close()
    explorer = Explorer(page, "en")
    explorer.open(server)
    explorer.choose("five_op_chain")
    expect(explorer.here).to_contain_text("fuse")


def workers(server: str) -> list[int]:
    """The processes of the page that compile."""
    port = str(urlsplit(server).port)
    parents: dict[int, int] = {}
    commands: dict[int, list[str]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            commands[int(folder.name)] = (folder / "cmdline").read_text().split("\0")
            parents[int(folder.name)] = int(
                (folder / "stat").read_text().rpartition(")")[2].split()[1]
            )
        except OSError:
            continue
    (page,) = (pid for pid, command in commands.items() if port in command and "run" in command)
    found = [pid for pid, parent in parents.items() if parent == page]
    found = [pid for pid in found if any("worker" in word for word in commands[pid])]
    assert found, "the page has a worker"
    return found


@pytest.mark.parametrize("how", ["dies", "hangs"])
def test_a_compile_that_dies_or_hangs_leaves_the_page_alive(
    explorer: Explorer, fresh: Page, server: str, how: str
) -> None:
    size = 11 + len(how) + 10 * LANGUAGES.index(explorer.language)
    explorer.open(server, f"model=resnet_tiny&numerics=strict&pin=batch%3D{size}")
    expect(explorer.button("job.cancel")).to_be_visible()
    expect(explorer.passes).to_have_count(1)
    for pid in workers(server):
        os.kill(pid, signal.SIGKILL if how == "dies" else signal.SIGSTOP)
    if how == "hangs":
        explorer.button("job.cancel").click()
        expect(explorer.page.locator("#live")).to_have_text(explorer.say("job.stopping"))
        expect(explorer.page.locator(".progress-text")).to_have_text(explorer.say("job.stopping"))
        expect(explorer.page.locator(".notice")).to_contain_text(explorer.say("compile.stopped"))
        expect(explorer.page.locator("#live")).to_have_text(explorer.say("compile.stopped"))
        for pid in workers(server):
            os.kill(pid, signal.SIGCONT)  # the one that stood by
    else:
        told = explorer.say("job.died", how="SIGKILL")
        expect(explorer.problem).to_contain_text(told)
    other = Explorer(fresh, "vi")
    other.open(server)
    other.choose("five_op_chain")
    explorer.button("toolbar.models").click()
    explorer.choose("five_op_chain")
    expect(explorer.here).to_contain_text("fuse")


# ---- for everybody -------------------------------------------------------------------------------


def serious(page: Page) -> list[str]:
    """What axe finds serious or worse."""
    found = Axe().run(page).response["violations"]
    return [
        f"{v['id']}: {json.dumps([n['target'] for n in v['nodes']])}"
        for v in found
        if v["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_serious_bars_anybody(explorer: Explorer, server: str, scheme: str) -> None:
    page = explorer.page
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    explorer.open(server)
    expect(page.locator(".app")).to_have_attribute("data-theme", scheme)
    assert not serious(page)
    explorer.choose("five_op_chain")
    assert not serious(page)
    options(explorer)
    assert not serious(page)
    page.keyboard.press("Escape")
    page.get_by_role("button", name=explorer.say("toolbar.help")).click()
    assert not serious(page)
    explorer.button("help.close").click()
    explorer.named("collapse-axes").click()
    explorer.button("passes.up").click()
    expect(explorer.problem).to_be_visible()
    assert not serious(page)
    page.get_by_role("button", name=explorer.say("theme.dark")).click()
    expect(page.locator(".app")).to_have_attribute(
        "data-theme", "light" if scheme == "dark" else "dark"
    )


def test_the_toolbar_of_a_small_model_stays_in_one_row(explorer: Explorer, server: str) -> None:
    """At 1366 pixels, beside the hint: the graphs below need the height."""
    explorer.open(server, "model=five_op_chain")
    explorer.compiled()
    rows = explorer.page.locator(".toolbar > :is(#model-title, .totals, .toolbar-end)")
    boxes = [row.bounding_box() for row in rows.all()]
    assert len(boxes) == 3
    middles = [box["y"] + box["height"] / 2 for box in boxes if box is not None]
    assert max(middles) - min(middles) < 8
