"""What a person does on the page, through roles and names, in both languages."""

import re
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper
from playwright.sync_api import Locator, Page, expect

from sample_models import sample
from ui.language import LANGUAGES, sentence

COMPILE_MS = 60_000
MEASURE_MS = 90_000


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

    def button(self, message: str) -> Locator:
        return self.page.get_by_role("button", name=self.say(message), exact=True)

    def choose(self, name: str) -> None:
        self.page.get_by_role("radio", name=sample(name).title[self.language]).check()

    def compile(self) -> None:
        self.button("compile.start").click()
        expect(self.passes.first).to_be_visible(timeout=COMPILE_MS)
        expect(self.button("compile.start")).to_be_enabled()

    @property
    def passes(self) -> Locator:
        strip = self.page.get_by_role("listbox", name=self.say("strip.title"))
        return strip.get_by_role("option")

    @property
    def announced(self) -> Locator:
        return self.page.get_by_role("status").filter(has_text=re.compile("pass|Pass"))

    def part(self, message: str) -> Locator:
        return self.page.get_by_role("group", name=self.say(message), exact=True)

    def tab(self, message: str) -> Locator:
        self.page.get_by_role("tab", name=self.say(message)).click()
        return self.page.get_by_role("tabpanel").first

    def upload(self, path: Path) -> None:
        self.page.get_by_label(re.compile(re.escape(self.say("upload.title")))).set_input_files(
            path
        )

    @property
    def problem(self) -> Locator:
        return self.page.get_by_role("alert").filter(has_text=self.say("problem.title"))


@pytest.fixture(params=LANGUAGES)
def explorer(page: Page, request: pytest.FixtureRequest) -> Explorer:
    """The page in each language."""
    return Explorer(page, request.param)


@pytest.fixture
def english(page: Page) -> Explorer:
    return Explorer(page, "en")


def test_a_sample_from_choice_to_measured_figures(explorer: Explorer, server: str) -> None:
    page, say = explorer.page, explorer.say
    explorer.open(server)
    expect(page.locator("html")).to_have_attribute("lang", explorer.language)
    expect(page).to_have_title(say("page.title"))
    expect(explorer.button("compile.start")).to_be_disabled()

    explorer.choose("five_op_chain")
    explorer.compile()

    title = sample("five_op_chain").title[explorer.language]
    expect(page.get_by_role("heading", name=f"{say('result.title')} {title}")).to_be_visible()

    # Step through all passes with the keyboard; both sides show the graph and the text.
    count = explorer.passes.count()
    assert count >= 18
    explorer.passes.first.click()
    seen: list[str] = []
    for k in range(count):
        option = explorer.passes.nth(k)
        expect(option).to_have_attribute("aria-selected", "true")
        expect(option).to_be_focused()
        expect(explorer.announced).to_contain_text(f"{k + 1}/{count}")
        for side in ("before", "after"):
            expect(explorer.part(f"pane.{side}.text")).to_contain_text("module @")
        seen.append(option.inner_text())
        page.keyboard.press("ArrowDown")
    fuse = next(k for k, text in enumerate(seen) if re.search(r"\d fuse\b", text))
    assert say("delta.changed", unit=say("unit.ops"), before=6, after=1) in seen[fuse]
    assert any(say("state.nothing") in text for text in seen)

    # The fuse pass: the group is boxed, and its lines are marked in words.
    explorer.passes.nth(fuse).click()
    expect(explorer.part("pane.after.text")).to_contain_text(f"{say('mark.added')}:")
    drawing = explorer.part("pane.after.graph").get_by_role("img")
    expect(drawing).to_contain_text("fused Y")
    expect(explorer.part("pane.before.graph").get_by_role("img")).not_to_contain_text("fused")

    panel = explorer.tab("tab.kernels")
    expect(panel).to_contain_text("def ")
    for form, text in (("tree", "kernel @"), ("llvm", "define"), ("assembly", "ret")):
        panel.get_by_role("tab", name=say(f"listing.{form}")).click()
        expect(panel.get_by_role("tabpanel")).to_contain_text(text)

    decisions = explorer.tab("tab.decisions").get_by_role("table")
    expect(decisions.get_by_role("row")).to_have_count(6)
    expect(decisions).to_contain_text(say("verdict.merged"))
    expect(explorer.tab("tab.breaks")).to_contain_text(say("breaks.none"))

    panel = explorer.tab("tab.measure")
    expect(panel).to_contain_text(say("measure.none"))
    for name in ("r", "c"):
        panel.get_by_label(say("measure.size", name=name)).fill("256")
    panel.get_by_role("button", name=say("measure.start")).click()
    conditions = page.get_by_role("complementary", name=say("conditions.title"))
    expect(conditions).to_be_visible(timeout=MEASURE_MS)
    expect(conditions).to_contain_text(re.compile("r 256.*c 256"))
    latency = panel.get_by_role("table", name=say("measure.latency"))
    for run in ("reference", "op_by_op", "fused"):
        row = latency.get_by_role("row").filter(has_text=say(f"run.{run}"))
        expect(row).to_contain_text(re.compile(r"\d (ms|µs|s)"))
    bytes_table = panel.get_by_role("table", name=say("measure.bytes"))
    expect(bytes_table).to_contain_text(say("word.floor"))
    size = 256 * 256 * 4
    for multiple in (11, 3):
        exact = f"{multiple * size + 2 * 256 * 4:,}"
        expect(bytes_table).to_contain_text(
            exact.replace(",", "." if explorer.language == "vi" else ",")
        )
    launches = panel.get_by_role("table", name=say("measure.launches"))
    expect(launches.get_by_role("row").nth(1)).to_contain_text("5")
    expect(launches.get_by_role("row").nth(2)).to_contain_text("1")
    expect(panel.get_by_role("table", name=say("measure.error"))).to_contain_text(say("answer.yes"))


def test_a_broken_file_gives_the_problem_and_the_way_out(
    explorer: Explorer, server: str, tmp_path: Path
) -> None:
    explorer.open(server)
    path = tmp_path / "mô hình hỏng.onnx"
    whole = sample("mlp").path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    explorer.upload(path)
    expect(explorer.page.get_by_role("radio", name=path.name)).to_be_checked()
    explorer.button("compile.start").click()
    expect(explorer.problem).to_be_visible(timeout=COMPILE_MS)
    expect(explorer.problem).to_contain_text(path.name)
    expect(explorer.problem).to_contain_text(explorer.say("model.truncated.remedy"))
    expect(explorer.button("compile.start")).to_be_enabled()

    explorer.upload(sample("softmax_spelled_out").path)
    expect(explorer.problem).to_have_count(0)
    explorer.compile()
    expect(explorer.tab("tab.kernels")).to_contain_text("def ")


def test_a_file_of_another_kind_is_refused_at_once(
    explorer: Explorer, server: str, tmp_path: Path
) -> None:
    explorer.open(server)
    path = tmp_path / "weights.pt"
    path.write_bytes(b"PK")
    explorer.upload(path)
    expect(explorer.problem).to_contain_text(explorer.say("upload.kind", name=path.name))
    expect(explorer.problem).to_contain_text(explorer.say("upload.kind.remedy"))


def test_a_wrong_pipeline_is_answered_and_the_page_goes_on(explorer: Explorer, server: str) -> None:
    explorer.open(server)
    explorer.choose("mlp")
    explorer.page.get_by_text(explorer.say("options.title")).click()
    field = explorer.page.get_by_label(explorer.say("options.pipeline"))
    expect(field).to_have_value("default")
    field.fill("default,-nonsense")
    explorer.button("compile.start").click()
    expect(explorer.problem).to_contain_text("nonsense", timeout=COMPILE_MS)
    expect(explorer.problem).to_contain_text(explorer.say("problem.remedy"))
    explorer.page.get_by_label(explorer.say("options.pipeline")).fill("default,-fuse")
    explorer.compile()
    fuse = explorer.passes.filter(has_text=re.compile(r"\d fuse\b"))
    fuse.click()
    heading = explorer.page.get_by_role("heading", name="fuse{by=origin}")
    expect(heading).to_be_visible()


def test_the_diamond_is_refused_by_rule_two(english: Explorer, server: str) -> None:
    english.open(server)
    english.choose("diamond")
    english.compile()
    refused = english.tab("tab.decisions").get_by_role("row").filter(has_text="R2")
    expect(refused.first).to_contain_text("refused")
    breaks = english.tab("tab.breaks").get_by_role("table")
    expect(breaks.get_by_role("row")).to_have_count(2)


def test_an_address_opens_what_it_names(english: Explorer, server: str) -> None:
    english.open(server, "model=softmax_spelled_out&at=9&tab=decisions&passes=default,-cse&kept=1")
    expect(english.passes.nth(9)).to_have_attribute("aria-selected", "true", timeout=COMPILE_MS)
    expect(english.passes.filter(has_text=re.compile(r"\d cse\b"))).to_have_count(0)
    expect(english.page.get_by_role("tab", name="Fusion decisions")).to_have_attribute(
        "aria-selected", "true"
    )
    english.passes.nth(9).click()
    english.page.keyboard.press("ArrowDown")
    english.page.wait_for_url(re.compile(r"at=10.*"))
    for kept in ("kept=1", "lang=en", "model=softmax_spelled_out", "tab=decisions"):
        assert kept in english.page.url


def test_the_language_changes_under_the_result(english: Explorer, server: str) -> None:
    english.open(server)
    english.choose("softmax_spelled_out")
    english.compile()
    english.passes.nth(9).click()
    page = english.page
    page.get_by_role("button", name="Tiếng Việt").click()
    expect(page.locator("html")).to_have_attribute("lang", "vi")
    vietnamese = Explorer(page, "vi")
    expect(vietnamese.passes.nth(9)).to_have_attribute("aria-selected", "true")
    expect(page).to_have_title(vietnamese.say("page.title"))
    page.wait_for_url(re.compile(r"^(?!.*lang=).*$"))


def test_n_and_p_jump_between_passes_that_changed_something(english: Explorer, server: str) -> None:
    english.open(server)
    english.choose("softmax_spelled_out")
    english.compile()
    english.passes.first.click()
    texts = [english.passes.nth(k).inner_text() for k in range(english.passes.count())]
    changed = [k for k, text in enumerate(texts) if "changed" in text]
    assert changed[0] == 0 and len(changed) > 5
    for k in changed[1:]:
        english.page.keyboard.press("n")
        expect(english.passes.nth(k)).to_have_attribute("aria-selected", "true")
    english.page.keyboard.press("p")
    expect(english.passes.nth(changed[-2])).to_have_attribute("aria-selected", "true")
    english.page.keyboard.press("r")
    english.page.keyboard.press("c")
    expect(english.page.get_by_role("dialog")).to_have_count(0)


def test_a_compile_by_keyboard_leads_to_its_result(english: Explorer, server: str) -> None:
    english.open(server)
    english.choose("softmax_spelled_out")
    english.button("compile.start").focus()
    english.page.keyboard.press("Enter")
    title = english.page.get_by_role("heading", name=english.say("result.title"))
    expect(title).to_be_focused(timeout=COMPILE_MS)
    expect(title).to_be_in_viewport()
    english.page.keyboard.press("ArrowDown")
    expect(english.passes.nth(1)).to_have_attribute("aria-selected", "true")
    expect(english.passes.nth(1)).to_be_in_viewport()
    english.page.keyboard.press("Tab")
    expect(english.passes.nth(1)).to_be_focused()


def test_a_model_that_an_address_names_in_vain_is_said(english: Explorer, server: str) -> None:
    english.open(server, "model=nosuch")
    expect(english.problem).to_contain_text(english.say("request.model.remedy"))


def test_a_running_measurement_can_be_cancelled(english: Explorer, server: str) -> None:
    english.open(server)
    english.choose("five_op_chain")
    english.compile()
    panel = english.tab("tab.measure")
    panel.get_by_role("button", name="Measure").click()
    panel.get_by_role("button", name="Cancel").click()
    expect(english.problem).to_contain_text(english.say("job.cancelled"))
    expect(panel.get_by_role("button", name="Measure")).to_be_enabled()


def test_a_size_out_of_range_is_named_before_anything_runs(explorer: Explorer, server: str) -> None:
    explorer.open(server)
    explorer.choose("softmax_spelled_out")
    explorer.compile()
    panel = explorer.tab("tab.measure")
    panel.get_by_label(explorer.say("measure.size", name="rows")).fill("1.5")
    panel.get_by_role("button", name=explorer.say("measure.start")).click()
    expect(explorer.problem).to_contain_text("rows = 1.5")
    expect(explorer.problem).to_contain_text(explorer.say("request.size.range.remedy"))


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


def test_names_are_text_whatever_they_hold(english: Explorer, server: str, tmp_path: Path) -> None:
    english.open(server)
    page = english.page
    path = tmp_path / "<img src=x onerror=alert(1)>.onnx"
    onnx.save(hostile_model(), path)
    english.upload(path)
    english.compile()
    english.passes.first.click()
    for k in range(english.passes.count()):
        expect(english.passes.nth(k)).to_have_attribute("aria-selected", "true")
        expect(english.part("pane.after.text")).to_contain_text("module @")
        page.keyboard.press("ArrowDown")
    expect(english.part("pane.after.text")).to_contain_text("<img src=")
    for tab in ("kernels", "decisions", "breaks", "measure"):
        expect(english.tab(f"tab.{tab}")).to_be_visible()
    assert page.locator(".explorer img, .explorer script, .explorer b").count() == 0
    expect(page).to_have_title(english.say("page.title"))


def test_dark_and_light_follow_the_readers_choice(english: Explorer, server: str) -> None:
    page = english.page
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        english.open(server)
        expect(page.locator(".explorer")).to_have_attribute("data-theme", scheme)
