"""The dock and the inspector as a reader uses them: what each tab says, and where it leads."""

from __future__ import annotations

import re

import onnx
import pytest
from axe_playwright_python.sync_playwright import Axe
from onnx import TensorProto, helper
from playwright.sync_api import Locator, Page, expect

from tests.e2e.test_routes import call
from ui.language import sentence

COMPILE_MS = 60_000
TABS = (
    "rewrite", "text", "decisions", "kernels", "memory", "drift", "biography", "pipeline", "breaks",
)  # fmt: skip


class Dock:
    """The explorer in one language, by what its parts are called there."""

    def __init__(self, page: Page, language: str) -> None:
        self.page, self.language = page, language

    def say(self, message: str, **parameters: str | int | float) -> str:
        return sentence(self.language, message, **parameters)

    def open(self, server: str, query: str) -> None:
        lang = "" if self.language == "vi" else "&lang=en"
        self.page.goto(f"{server}/?{query}{lang}")
        expect(self.passes.nth(12)).to_be_visible(timeout=COMPILE_MS)

    @property
    def passes(self) -> Locator:
        return self.page.get_by_role("listbox", name=self.say("strip.title")).get_by_role("option")

    @property
    def here(self) -> Locator:
        return self.passes.and_(self.page.locator("[aria-selected=true]"))

    @property
    def region(self) -> Locator:
        return self.page.get_by_role("region", name=self.say("dock.title"), exact=True)

    @property
    def inspector(self) -> Locator:
        return self.page.get_by_role("complementary", name=self.say("inspector.title"))

    def tab(self, name: str) -> Locator:
        """Open a tab; its panel."""
        self.page.get_by_role("tab", name=re.compile(re.escape(self.say(f"tab.{name}")))).click()
        return self.page.get_by_role("tabpanel").and_(self.page.locator("#dock-panel"))

    def button(self, message: str, **parameters: str) -> Locator:
        return self.page.get_by_role("button", name=self.say(message, **parameters), exact=True)

    def row(self, a: str, b: str) -> Locator:
        table = self.page.get_by_role("group", name=self.say("tab.decisions"))
        cell = self.page.get_by_role("rowheader", name=f"{a} {b}", exact=True)
        return table.get_by_role("row").filter(has=cell)

    def text(self, side: str) -> Locator:
        return self.page.get_by_role("listbox", name=self.say(f"pane.{side}.text"))


@pytest.fixture
def dock(page: Page, language: str) -> Dock:
    return Dock(page, language)


def test_forbid_and_force_a_merge(dock: Dock, server: str) -> None:
    page, say = dock.page, dock.say
    dock.open(server, "model=five_op_chain&tab=decisions")
    expect(dock.row("T2", "T3")).to_contain_text(say("verdict.merged"))
    kernels = page.get_by_role("tab", name=re.compile(say("tab.kernels")))
    expect(kernels).to_contain_text("(1)")

    dock.button("decisions.forbid.of", a="T2", b="T3").press("Enter")
    overruled = page.get_by_role("list", name=say("decisions.overruled"))
    expect(overruled).to_contain_text("T2+T3", timeout=COMPILE_MS)
    expect(kernels).to_contain_text("(2)", timeout=COMPILE_MS)
    expect(dock.button("decisions.remove.of", pair="T2+T3")).to_be_focused()
    apart = dock.row("T2", "Y")
    expect(apart).to_contain_text(say("verdict.refused"))
    expect(apart).to_contain_text(say("fuse.forbid", a="T2", b="Y"))
    expect(page).to_have_url(re.compile(r"passes=default.*forbid"))

    # Forcing the same pair takes the prohibition back; any two values may be named.
    page.locator("summary").filter(has_text=say("decisions.pair")).click()
    force = dock.button("decisions.force").last
    expect(force).to_be_disabled()
    page.get_by_label(say("decisions.a")).last.fill("T2")
    page.get_by_label(say("decisions.b")).last.fill("T3")
    force.click()
    expect(kernels).to_contain_text("(1)", timeout=COMPILE_MS)
    expect(overruled).to_contain_text(say("decisions.force.now"))
    expect(overruled.get_by_role("listitem")).to_have_count(1)
    dock.tab("pipeline")
    expect(page.get_by_role("group", name=say("pipeline.asked"))).to_have_text(
        "default,fuse{force=[T2+T3]}"
    )
    dock.tab("decisions")
    dock.button("decisions.remove.of", pair="T2+T3").click()
    expect(overruled).to_have_count(0, timeout=COMPILE_MS)


def test_a_selection_is_looked_up_again_after_a_compile(dock: Dock, server: str) -> None:
    """The kernel that is selected has fewer ops in the next compile, and says so."""
    page, say = dock.page, dock.say
    dock.open(server, "model=five_op_chain&tab=decisions&sel=kernel:k0")
    expect(dock.inspector).to_contain_text("n4")
    dock.button("decisions.forbid.of", a="T1", b="T2").click()
    kernels = page.get_by_role("tab", name=re.compile(say("tab.kernels")))
    expect(kernels).to_contain_text("(2)", timeout=COMPILE_MS)
    expect(dock.inspector).to_contain_text("n0")
    expect(dock.inspector).not_to_contain_text("n4")
    expect(page).to_have_url(re.compile("sel=kernel"))


def test_force_never_overrules_a_rule(dock: Dock, server: str) -> None:
    dock.open(server, "model=fork_reduce&tab=decisions")
    row = dock.row("d", "y")
    expect(row).to_contain_text("R4")
    dock.button("decisions.force.of", a="d", b="y").click()
    overruled = dock.page.get_by_role("list", name=dock.say("decisions.overruled"))
    expect(overruled).to_contain_text("d+y", timeout=COMPILE_MS)
    expect(row).to_contain_text(dock.say("decisions.force.now"), timeout=COMPILE_MS)
    expect(overruled).to_contain_text(dock.say("decisions.force.still", rule="R4"))
    expect(row).to_contain_text(dock.say("verdict.refused"))
    dock.passes.filter(has=dock.page.get_by_text("fuse", exact=True)).click()
    expect(dock.tab("rewrite")).to_contain_text(
        dock.say("fuse.option.refused", a="d", b="y", rule="R4")
    )


def test_the_decisions_of_the_selection_alone(dock: Dock, server: str) -> None:
    dock.open(server, "model=five_op_chain&tab=decisions&sel=T4&at=20")
    expect(dock.inspector).to_contain_text("T4")
    dock.button("inspector.why").click()
    expect(
        dock.page.get_by_role("checkbox", name=re.compile(dock.say("decisions.only")))
    ).to_be_checked()
    table = dock.page.get_by_role("group", name=dock.say("tab.decisions"))
    for row in table.get_by_role("row").all()[1:]:
        expect(row).to_contain_text(re.compile("T4|Y"))
    expect(dock.row("T1", "T2")).to_have_count(0)
    # The polynomial stands beside the bytes at the sizes at hand.
    expect(dock.row("T3", "T4")).to_contain_text(re.compile(r"MiB.*12\*c\*r\+8\*c"))


def test_a_kernel_marks_its_ops_and_a_line_its_own(dock: Dock, server: str) -> None:
    dock.open(server, "model=layernorm_residual&at=21&tab=kernels")
    panel = dock.tab("kernels")
    source = dock.page.get_by_role("listbox", name=f"k0, {dock.say('listing.source')}")
    tree = dock.page.get_by_role("listbox", name=f"k0, {dock.say('listing.tree')}")
    expect(source).to_contain_text("def k_")
    expect(tree).to_contain_text("kernel @k0")
    expect(panel).to_contain_text(
        re.compile(rf"{dock.say('kernels.reads')} .*256\*batch\*seq\+512")
    )
    dock.button("kernels.select").click()
    expect(dock.inspector).to_contain_text("LayerNormalization")

    dock.tab("text")
    marked = dock.text("after").get_by_role("option", selected=True)
    expect(marked.first).to_contain_text("%n = fused")
    inside = marked.filter(has_text="=")
    for line in inside.all()[1:]:
        expect(line).to_contain_text("@[n0]")

    # A line of the other kernel selects its ops, and the kernel that holds them is shown.
    dock.text("after").get_by_role("option").filter(has_text="%y = map.add").click()
    dock.tab("kernels")
    choice = dock.page.get_by_role("combobox", name=dock.say("kernels.choose"))
    expect(choice).to_have_value(re.compile("k1"))
    dock.page.get_by_role("tab", name=dock.say("listing.assembly")).click()
    expect(dock.page.get_by_role("listbox", name=re.compile(r"^k1.*"))).to_contain_text(".globl")


def test_hovering_a_line_lights_its_ops_without_selecting(dock: Dock, server: str) -> None:
    dock.open(server, "model=layernorm_residual&at=21&tab=text")
    line = dock.text("after").get_by_role("option").filter(has_text="%h = ")
    line.hover()
    expect(line).to_have_class(re.compile(r"\blit\b"))
    expect(line).to_have_attribute("aria-selected", "false")
    dock.text("before").get_by_role("option").first.hover()
    expect(line).not_to_have_class(re.compile(r"\blit\b"))


def test_words_of_changed_lines_are_told(dock: Dock, server: str) -> None:
    dock.open(server, "model=five_op_chain&at=12&tab=text")
    changed = (
        dock.text("after").get_by_role("option").filter(has_text=f"{dock.say('mark.changed')}:")
    )
    expect(changed.first).to_contain_text(f"[{dock.say('mark.added')}: ")
    before, after = (dock.text(side).get_by_role("option") for side in ("before", "after"))
    everything = after.count()
    dock.page.get_by_role("checkbox", name=dock.say("pane.only")).check()
    assert 0 < after.count() < everything
    for line in [*before.all(), *after.all()]:
        expect(line).to_contain_text(":")
    # Both sides scroll as one.
    dock.page.get_by_role("checkbox", name=dock.say("pane.only")).uncheck()
    dock.text("after").evaluate("e => { e.scrollTop = 60 }")
    expect(dock.text("before")).to_have_js_property("scrollTop", 60)


def test_two_compiles_stand_side_by_side(dock: Dock, server: str) -> None:
    dock.open(server, "model=five_op_chain&at=21&tab=text")
    left = dock.page.get_by_role("combobox", name=dock.say("left.title"), exact=True)
    left.select_option(index=1)
    sides = [
        dock.page.get_by_role("listbox", name=dock.say(name), exact=True)
        for name in ("pane.op_by_op", "pane.fused")
    ]
    for side, groups in zip(sides, (5, 1), strict=True):
        expect(side).to_contain_text("= fused", timeout=COMPILE_MS)
        assert len(re.findall("= fused", side.inner_text())) == groups


def test_the_life_of_an_op_is_a_way_through_the_passes(dock: Dock, server: str) -> None:
    dock.open(server, "model=layernorm_residual&at=12&sel=h")
    dock.button("inspector.life").click()
    steps = dock.page.get_by_role("list", name=dock.say("biography.title")).get_by_role("button")
    expect(steps.first).to_be_visible()
    told = [step.inner_text() for step in steps.all()]
    names = [re.sub(r"^\d+ ", "", text).split()[0] for text in told]
    assert names[0] == "import"
    for name in ("infer-shapes", "decompose", "fuse", "lower-loops", "emit"):
        assert name in names, told
    assert dock.say("biography.grouped") in told[names.index("fuse")]
    steps.nth(names.index("fuse")).click()
    expect(dock.here).to_contain_text("fuse")
    expect(dock.inspector).to_contain_text("fused y")


def test_events_are_stepped_and_notes_are_no_refusals(dock: Dock, server: str) -> None:
    dock.open(server, "model=layernorm_residual&at=12")
    events = dock.page.get_by_role("list", name=dock.say("events.label"))
    items = events.get_by_role("listitem")
    expect(items).to_have_count(4)
    items.nth(1).get_by_role("button").click()
    expect(items.nth(1)).to_have_attribute("aria-current", "step")
    dock.page.keyboard.press("ArrowRight")
    expect(items.nth(2)).to_have_attribute("aria-current", "step")
    expect(items.nth(2).get_by_role("button")).to_be_focused()
    dce = dock.passes.filter(has_text="dce").first
    expect(dce).not_to_contain_text(dock.say("state.refused"))


def test_the_numbers_of_rewrites_have_room(dock: Dock, server: str) -> None:
    """However many digits: the room grows with the longest number."""
    dock.open(server, "model=tiny_gpt&at=2")
    panel = dock.tab("rewrite")
    rows = panel.get_by_role("list", name=dock.say("events.label")).get_by_role("listitem")
    expect(rows.nth(99)).to_be_attached()
    room = panel.locator("ol.events").evaluate("""(list) => {
        const paint = document.createElement("canvas").getContext("2d");
        const { fontFamily, fontSize } = getComputedStyle(list);
        const digits = list.style.getPropertyValue("--digits").trim();
        const left = [1, 2, 3, 4, 5].map((n) => {
            list.style.setProperty("--digits", n);
            paint.font = `600 ${fontSize} ${fontFamily}`;
            return parseFloat(getComputedStyle(list).paddingLeft)
                - paint.measureText(`${"8".repeat(n)}. `).width;
        });
        list.style.setProperty("--digits", digits);
        return { digits, left };
    }""")
    assert room["digits"] == "3"
    assert min(room["left"]) > 4, room


def test_a_graph_break_is_called_by_its_name(dock: Dock, server: str) -> None:
    forced = "default,partition-fallback{force=[b]}"
    dock.open(server, f"model=diamond&passes={forced}&tab=breaks")
    panel = dock.tab("breaks")
    expect(panel).to_contain_text("Exp")
    panel.get_by_role("button", name="exp", exact=True).click()
    name = dock.inspector.locator('[data-fact="name"]')
    expect(name).to_have_text("exp")
    expect(dock.inspector.locator('[data-fact="origins"]')).to_have_text(re.compile("n1 Exp exp"))


def test_memory_follows_the_sizes(dock: Dock, server: str) -> None:
    dock.open(server, "model=digits&tab=memory&bind=batch=64")
    panel = dock.tab("memory")
    bars = panel.get_by_role("img", name=re.compile(dock.say("memory.title")))
    expect(bars).to_have_attribute("aria-label", re.compile("16 KiB.*16 KiB|24 KiB.*24 KiB"))
    table = dock.page.get_by_role("group", name=dock.say("memory.table"))
    row = table.get_by_role("row").filter(has_text="scaled")
    expect(row).to_contain_text(re.compile(r"16 KiB\s*256\*batch"))
    table.get_by_role("button", name="image", exact=True).focus()
    dock.page.keyboard.press("ArrowDown")
    expect(table.get_by_role("button", name="W1", exact=True)).to_be_focused()
    dock.page.keyboard.press("Enter")
    expect(dock.inspector).to_contain_text(dock.say("inspector.weight"))
    expect(dock.inspector.get_by_role("img")).to_be_visible()


def test_buffers_that_planning_decides_about_come_first(dock: Dock, server: str) -> None:
    dock.open(server, "model=tiny_gpt&tab=memory")
    table = dock.page.get_by_role("group", name=dock.say("memory.table"))
    expect(table.locator("th.column-bytes")).to_have_attribute("aria-sort", "descending")

    def groups() -> list[list[str]]:
        rows = table.locator("tbody").all()
        return [body.get_by_role("rowheader").all_inner_texts() for body in rows]

    found = groups()
    told = [dock.say(f"memory.group.{kind}") for kind in ("arena", "output", "input", "param")]
    assert [names[0].rpartition(" ")[0] for names in found] == told
    assert [names[0].rpartition(" ")[2] for names in found] == [f"({len(n) - 1})" for n in found]
    offsets = table.locator("tbody").first.locator("td.column-at").all_inner_texts()
    assert "–" not in offsets and len(offsets) == len(found[0]) - 1
    sizes = (
        table.locator("tbody")
        .first.locator(".amount")
        .evaluate_all("found => found.map((e) => Number(e.title.replace(/\\D/g, '')))")
    )
    assert sizes == sorted(sizes, reverse=True) and sizes[0] > sizes[-1]
    # A header sorts within the groups.
    table.get_by_role("button", name=dock.say("memory.buffer")).click()
    by_name = groups()
    assert [names[0] for names in by_name] == [names[0] for names in found]
    assert [sorted(names[1:]) for names in found] == [names[1:] for names in by_name]


def test_refusals_are_one_press_away(dock: Dock, server: str) -> None:
    dock.open(server, "model=fork_reduce&tab=decisions")
    say = dock.say
    group = dock.page.get_by_role("group", name=say("decisions.filter"))
    table = dock.page.get_by_role("group", name=say("tab.decisions"))

    def count(name: str) -> int:
        text = group.locator(f"#decisions-{name}").inner_text()
        return int(text.rpartition("(")[2].rstrip(")"))

    whole = count("all")
    assert count("merged") + count("refused") == whole and count("refused") > 0
    live = dock.page.locator("#live")
    for name in ("refused", "merged"):
        button = group.locator(f"#decisions-{name}")
        button.press("Enter")
        expect(button).to_be_focused()
        expect(button).to_have_attribute("aria-pressed", "true")
        expect(live).to_have_text(say("decisions.count", n=count(name), of=whole))
        rows = table.get_by_role("row").all()[1:]
        assert len(rows) == count(name)
        for row in rows:
            expect(row).to_contain_text(say(f"verdict.{name}"))
    # The figures of the buttons are those of the selection where that alone is shown.
    group.locator("#decisions-all").click()
    table.get_by_role("button", name="y", exact=True).first.click()
    dock.page.get_by_role("checkbox", name=re.compile(say("decisions.only"))).check()
    expect(group.locator("#decisions-all")).not_to_contain_text(f"({whole})")
    assert count("merged") + count("refused") == count("all")
    expect(table.get_by_role("row")).to_have_count(1 + count("all"))


def test_kernels_are_counted_alike_or_it_is_said_what_is_counted(dock: Dock, server: str) -> None:
    dock.open(server, "model=tiny_gpt&tab=kernels")
    kernels = dock.page.get_by_role("tab", name=re.compile(dock.say("tab.kernels")))
    found = re.search(r"\((\d+), (\d+) ", kernels.inner_text())
    assert found is not None and int(found[2]) < int(found[1])
    expect(kernels).to_contain_text(dock.say("tab.distinct", n=found[1], distinct=found[2]))
    totals = dock.page.locator(".totals > div").filter(has_text=dock.say("totals.kernels"))
    expect(totals).to_contain_text(f"→ {found[2]}")
    options = dock.page.get_by_role("combobox", name=dock.say("kernels.choose")).locator("option")
    expect(options).to_have_count(int(found[1]))


def test_drift_is_computed_when_asked_for(dock: Dock, server: str) -> None:
    dock.open(server, "model=layernorm_residual&tab=drift")
    dock.button("drift.start").click()
    table = dock.page.get_by_role("group", name=dock.say("tab.drift"))
    row = table.get_by_role("row").filter(has_text="decompose")
    expect(row).to_contain_text(re.compile(r"\d\s×\s10⁻[⁰¹²³⁴-⁹]"), timeout=COMPILE_MS)
    power = re.escape(dock.say("figure.minus", n=0)[:-1])
    expect(row.get_by_role("cell").first).to_contain_text(re.compile(rf" 10 .*{power}\d"))
    expect(dock.tab("drift")).to_contain_text(re.compile("batch=.*seq="))
    row.get_by_role("button", name="n", exact=True).click()
    expect(dock.here).to_contain_text("decompose")
    expect(dock.inspector).to_contain_text("LayerNormalization")


def test_what_is_drawn_between_press_and_release_loses_no_click(dock: Dock, server: str) -> None:
    dock.open(server, "model=five_op_chain")
    page = dock.page
    tab = page.locator("#tab-memory")
    tab.hover()
    page.mouse.down()
    page.keyboard.press("ArrowRight")  # the tabs are drawn again
    expect(page.get_by_role("tabpanel")).to_have_attribute("aria-labelledby", "tab-drift")
    page.mouse.up()
    expect(tab).to_have_attribute("aria-selected", "true")
    expect(page.get_by_role("tabpanel")).to_have_attribute("aria-labelledby", "tab-memory")
    expect(page.get_by_role("tab", selected=True)).to_have_count(1)


def test_the_height_is_set_by_keys_and_kept(dock: Dock, server: str) -> None:
    dock.open(server, "model=five_op_chain")
    edge = dock.page.get_by_role("separator", name=dock.say("dock.resize"))
    now = int(str(edge.get_attribute("aria-valuenow")))
    edge.focus()
    dock.page.keyboard.press("ArrowUp")
    expect(edge).to_have_attribute("aria-valuenow", str(now + 24))
    box = dock.region.bounding_box()
    assert box is not None and abs(box["height"] - (now + 24)) < 2
    dock.page.reload()
    expect(edge).to_have_attribute("aria-valuenow", str(now + 24), timeout=COMPILE_MS)
    # Tabs are one stop; arrows go from one to the next.
    dock.page.get_by_role("tab", selected=True).first.focus()
    dock.page.keyboard.press("ArrowRight")
    expect(dock.page.get_by_role("tab", name=dock.say("tab.text"), exact=True)).to_be_focused()
    dock.page.keyboard.press("End")
    expect(dock.page.get_by_role("tab", name=re.compile(dock.say("tab.breaks")))).to_be_focused()


HOSTILE = '<img src=x onerror="alert(1)">'
MARKUP = "![x](http://example.org/x), [a]=b+c {d}"


def hostile() -> bytes:
    shape = ("rows", 8)
    graph = helper.make_graph(
        [
            helper.make_node("Relu", ["x"], [HOSTILE], name="</script><b>n</b>"),
            helper.make_node("Neg", [HOSTILE], [MARKUP], name=":red[n]"),
            helper.make_node("Exp", [MARKUP], ["y"], name="$n$"),
        ],
        "hostile",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    onnx.checker.check_model(model)
    return model.SerializeToString()


def test_names_that_are_markup_are_shown_as_text(dock: Dock, server: str) -> None:
    status, _, body = call(server, "POST", "/upload?name=hostile.onnx", hostile())
    assert status == 200
    digest = re.findall(rb'"digest": ?"(\w+)"', body)[0].decode()
    dock.open(server, f"model=sha256:{digest}&at=0&tab=text")
    expect(dock.text("after")).to_contain_text(HOSTILE.replace('"', '\\"'))
    dock.tab("decisions")
    expect(dock.row(HOSTILE, MARKUP)).to_contain_text(dock.say("verdict.merged"))
    # Such names go through the pipeline's text to the compiler and back.
    dock.button("decisions.forbid.of", a=HOSTILE, b=MARKUP).click()
    overruled = dock.page.get_by_role("list", name=dock.say("decisions.overruled"))
    expect(overruled).to_contain_text(f"{HOSTILE}+{MARKUP}", timeout=COMPILE_MS)
    row = dock.row(HOSTILE, "y")
    expect(row).to_contain_text(dock.say("verdict.refused"), timeout=COMPILE_MS)
    row.get_by_role("button", name=HOSTILE, exact=True).click()
    expect(dock.inspector).to_contain_text(HOSTILE)
    expect(dock.inspector).to_contain_text("</script><b>n</b>")
    for name in TABS:
        dock.tab(name)
    expect(dock.page.locator("img, .katex")).to_have_count(0)


def inherited() -> bytes:
    """A model whose names are those of what every JavaScript object has."""
    shape = ("__proto__", "constructor")
    graph = helper.make_graph(
        [
            helper.make_node("Softmax", ["toString"], ["valueOf"], axis=0, name="__proto__"),
            helper.make_node("Softmax", ["valueOf"], ["hasOwnProperty"], axis=1, name="isFrozen"),
        ],
        "inherited",
        [helper.make_tensor_value_info("toString", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("hasOwnProperty", TensorProto.FLOAT, shape)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()


def test_names_that_objects_have_are_names_like_others(dock: Dock, server: str) -> None:
    status, _, body = call(server, "POST", "/upload?name=inherited.onnx", inherited())
    assert status == 200
    digest = re.findall(rb'"digest": ?"(\w+)"', body)[0].decode()
    dock.open(server, f"model=sha256:{digest}&tab=memory&bind=__proto__%3D32")
    page, say = dock.page, dock.say
    field = page.get_by_role("textbox", name=say("sizes.field", name="constructor"))
    expect(page.get_by_role("textbox", name=say("sizes.field", name="__proto__"))).to_have_value(
        "32"
    )
    field.fill("16")
    table = page.get_by_role("group", name=say("memory.table"))
    given = page.get_by_role("button", name="toString", exact=True)
    expect(table.get_by_role("row").filter(has=given)).to_contain_text("2 KiB")
    expect(page.locator(".totals")).to_contain_text("KiB")
    for name in ("memory", "decisions", "kernels"):
        expect(dock.tab(name)).not_to_contain_text(say("pane.loading"))
        expect(page.locator(".explore")).not_to_contain_text(say("bytes.unknown"))
    dock.tab("memory")
    table.get_by_role("button", name="toString", exact=True).click()
    expect(dock.inspector.locator('[data-fact="bytes"]')).to_contain_text("2 KiB")
    page.wait_for_function(
        "() => new URL(location.href).searchParams.get('bind') === '__proto__=32,constructor=16'"
    )
    page.locator("#nav-measure").click()
    expect(page.locator("#measure-size-__proto__")).to_have_value("32")
    page.locator("#measure-size-constructor").fill("8")
    page.locator("#ask-measure").click()
    card = page.get_by_role("complementary", name=say("conditions.title"))
    expect(card).to_contain_text("__proto__ 32 · constructor 8", timeout=COMPILE_MS)


def test_axe_finds_nothing_serious(page: Page, server: str, language: str) -> None:
    dock = Dock(page, language)
    dock.open(server, "model=digits&at=20&sel=W1")
    if language == "en":
        dock.button("theme.dark").click()
    host = "[data-testid=stBidiComponentIsolated]"
    part = {"include": [{"fromShadowDom": [host, name]} for name in (".dock", ".inspector")]}
    found: list[tuple[str, str, str]] = []
    for name in TABS:
        panel = dock.tab(name)
        expect(panel).not_to_contain_text(dock.say("pane.loading"))
        expect(panel).not_to_be_empty()
        results = Axe().run(page, context=part, options={"resultTypes": ["violations"]})
        assert results.response["passes"]
        found += [
            (name, v["id"], str([n["html"][:160] for n in v["nodes"]][:3]))
            for v in results.response["violations"]
            if v["impact"] in ("serious", "critical")
        ]
    assert not found
