"""The two panes: what is drawn is what the compiler did, and a reader can ask for it in words.

The canvas is hidden from readers of a screen, so what is drawn is read from the picture that the
page saves, and what is said from roles, names and the live region.
"""

import hashlib
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from compiler.ir.edits import apply
from compiler.ir.module import Module
from compiler.ir.printer import module_lines
from compiler.trace import Trace
from tests.e2e.test_explore import Explorer, hostile_model
from tests.traces import NAMES, compiled, history_of
from ui.routes import version

SVG = "{http://www.w3.org/2000/svg}"


# ---- folding events ------------------------------------------------------------------------------


def states(trace: Trace) -> Iterator[Module]:
    """Before each pass and after each of its events, by `apply` alone."""
    for record in trace.records:
        module = record.before
        yield module
        for event in record.events:
            for edit in event.edits:
                module = apply(module, edit)
            yield module


def digest(found: object) -> str:
    text = json.dumps(found, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def drawn(module: Module) -> tuple[list[str], list[list[str]]]:
    """Lines, and `[from, to, value]` of all edges between ops at the top and inside groups."""
    lines = [line.text for line in module_lines(module)]
    makers: dict[str, str] = {v.name: v.name for v in module.graph.inputs}
    readers: list[tuple[str, str]] = []
    for op in module.graph.ops:
        for inner in op.regions[0].ops if op.kind == "fused" else (op,):
            if inner.kind in ("const", "dims"):
                continue
            makers.update((v.name, inner.key) for v in inner.outputs)
            readers.extend((inner.key, name) for name in dict.fromkeys(inner.operands))
    names = module.graph.names or module.graph.outputs
    readers.extend(
        (f"output {name}", value) for name, value in zip(names, module.graph.outputs, strict=True)
    )
    edges = [[makers[value], key, value] for key, value in readers if value in makers]
    return lines, sorted(edges)


FOLD = """async ([base, name, document]) => {
    const { History } = await import(`${base}/explore/history.mjs`);
    const history = new History(document);
    const hex = async (value) => {
        const bytes = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(JSON.stringify(value)));
        return [...new Uint8Array(bytes)].map((b) => b.toString(16).padStart(2, "0")).join("");
    };
    const order = (a, b) => { for (let k = 0; k < 3; k += 1) if (a[k] !== b[k]) return a[k] < b[k] ? -1 : 1; return 0; };
    const found = [];
    for (let p = 0; p < document.passes.length; p += 1) {
        for (let k = 0; k <= document.passes[p].steps.length; k += 1) {
            const state = history.drawn(p, k);
            const edges = state.edges.map((e) => [e.from, e.to, e.value]).sort(order);
            found.push(await hex([state.lines.map((line) => line.text), edges]));
        }
    }
    // From the back to the front, as a reader may step: the same states.
    const last = document.passes.length - 1;
    const back = history.drawn(last, 0).lines.map((line) => line.text);
    return [found, await hex(back)];
}"""  # noqa: E501


@pytest.mark.parametrize("name", NAMES)
def test_the_kth_state_drawn_is_apply_folded_k_times(page: Page, server: str, name: str) -> None:
    page.goto(f"{server}/_stcore/health")
    base = f"{server}/ui/{version()}/explorer"
    found, back = page.evaluate(FOLD, [base, name, history_of(name)])
    trace = compiled(name)[0]
    wanted = [digest(drawn(module)) for module in states(trace)]
    assert found == wanted
    assert back == digest([line.text for line in module_lines(trace.records[-1].before)])


# ---- what a person does --------------------------------------------------------------------------


class Panes(Explorer):
    """The panes in one language."""

    def goto(self, name: str) -> None:
        self.named(name).last.click()
        expect(self.here).to_contain_text(name)

    @property
    def region(self) -> Locator:
        return self.page.get_by_role("region", name=self.say("panes.title"))

    def wait_for_places(self) -> None:
        """The layout has arrived."""
        expect(self.region.get_by_text(self.say("pane.placing"))).to_have_count(0)
        expect(self.button("picture.title")).to_be_visible()

    def save(self, what: str, kind: str = "SVG") -> Path:
        """The picture that the page saves of what it shows."""
        self.wait_for_places()
        self.button("picture.title").click()
        name = self.say("picture.as", what=self.say(what), kind=kind)
        with self.page.expect_download() as download:
            self.page.get_by_role("button", name=name, exact=True).click()
        expect(self.live).to_have_text(
            self.say("picture.done", name=download.value.suggested_filename)
        )
        return download.value.path()

    def boxes(self, what: str) -> dict[str, ET.Element]:
        """The drawn boxes by the name of their value: their second line, else their first."""
        found: dict[str, ET.Element] = {}
        for group in ET.parse(self.save(what)).iter(f"{SVG}g"):
            texts = [t for t in group.findall(f"{SVG}text") if t.get("text-anchor") == "middle"]
            if texts:
                found[str(texts[min(1, len(texts) - 1)].text).split(": ")[0]] = group
        return found

    def listing(self, message: str, **parameters: str) -> Locator:
        return self.page.get_by_role("listbox", name=self.say(message, **parameters), exact=True)

    def choose_view(self, name: str) -> None:
        self.page.get_by_label(self.say("pane.view"), exact=True).select_option(name)


def rings(box: ET.Element) -> str:
    """How a box is ringed: "" or the width of its ring."""
    first = box.find(f"{SVG}rect")
    assert first is not None
    return str(first.get("stroke-width", "")) if first.get("fill") == "none" else ""


def stroke(box: ET.Element) -> str | None:
    """The dashes of a box's own frame."""
    frames = [r for r in box.findall(f"{SVG}rect") if r.get("stroke") and not rings_only(r)]
    return frames[0].get("stroke-dasharray")


def rings_only(rect: ET.Element) -> bool:
    return rect.get("stroke-width") in ("4", "2") and rect.get("fill") == "none"


@pytest.fixture
def panes(page: Page, language: str) -> Panes:
    return Panes(page, language)


def test_the_panes_follow_what_the_pass_changed(panes: Panes, server: str) -> None:
    page, say = panes.page, panes.say
    panes.open(server, "model=layernorm_residual")
    panes.compiled()
    panes.goto("fuse")
    assert {"n.3", "n.5", "p", "y"} <= set(panes.boxes("pane.after"))

    panes.goto("lower-loops")
    expect(panes.region.get_by_text(say("pane.made", kernel="k0"))).to_be_visible()
    expect(panes.listing("pane.tree.before", kernel="k0")).to_contain_text("= fused")
    expect(panes.listing("pane.tree.after", kernel="k0")).to_contain_text("kernel @k0")

    panes.goto("collapse-axes")
    before = panes.listing("pane.tree.before", kernel="k0")
    expect(before.get_by_role("option", name="par j in r")).to_contain_text(say("mark.changed"))
    expect(panes.listing("pane.tree.after", kernel="k0")).not_to_contain_text("par j")
    page.get_by_label(say("pane.kernel"), exact=True).select_option("k1")
    expect(panes.listing("pane.tree.after", kernel="k1")).to_contain_text("kernel @k1")

    panes.goto("plan-memory")
    for side in ("pane.before", "pane.after"):
        buffers = panes.listing("ranges.list", side=say(side)).get_by_role("option")
        expect(buffers.first).to_be_visible()
    buffers.first.focus()
    page.keyboard.press("Enter")
    expect(buffers.first).to_have_attribute("aria-selected", "true")
    expect(panes.here).to_contain_text("plan-memory")

    tip = panes.region.locator(".pane-tip:visible")
    whole = str(buffers.first.get_attribute("aria-label"))
    expect(tip).to_have_text(whole)
    page.locator("#pane-view").focus()
    expect(tip).to_have_count(0)
    buffers.first.hover()
    expect(tip).to_have_text(whole)
    page.mouse.move(0, 0)
    expect(tip).to_have_count(0)

    panes.goto("emit")
    page.get_by_label(say("pane.kernel"), exact=True).select_option("k1.inplace(p->y)")
    expect(panes.listing("pane.source.of", kernel="k1.inplace(p->y)")).to_contain_text("def ")

    panes.choose_view("graph")
    panes.wait_for_places()
    panes.choose_view("memory")
    expect(panes.listing("ranges.list", side=say("pane.after"))).to_be_visible()
    panes.choose_view("")
    expect(panes.listing("pane.source.of", kernel="k1.inplace(p->y)")).to_be_visible()


def test_a_fused_kernel_rings_its_source_ops_and_they_ring_it(panes: Panes, server: str) -> None:
    page, say = panes.page, panes.say
    panes.open(server, "model=layernorm_residual")
    panes.compiled()
    panes.goto("emit")
    page.get_by_label(say("pane.kernel"), exact=True).select_option("k0")
    panes.goto("infer-shapes")
    ringed = {name for name, box in panes.boxes("pane.after").items() if rings(box)}
    assert ringed == {"n"}, "the one LayerNormalization that the kernel k0 came from"
    panes.goto("fuse")
    ringed = {name for name, box in panes.boxes("pane.after").items() if rings(box)}
    assert {"n.3", "n.5", "n.13", "n"} <= ringed and not ringed & {"p", "y", "x"}

    page.keyboard.press("/")
    page.keyboard.type("map.add")
    page.keyboard.press("Enter")
    expect(panes.live).to_contain_text("map.add")
    page.keyboard.press("Escape")
    panes.goto("infer-shapes")
    page.get_by_label(say("search.title")).fill("LayerNormalization")
    page.get_by_label(say("search.title")).press("Enter")
    panes.goto("emit")
    source = panes.listing("pane.source.of", kernel="k0")
    lit = source.get_by_role("option", selected=True)
    expect(lit.first).to_be_visible()
    assert 5 < lit.count() <= source.get_by_role("option").count()


def test_one_merged_difference_tells_by_shape(panes: Panes, server: str) -> None:
    panes.open(server, "model=mlp")
    panes.compiled()
    panes.goto("decompose")
    before, after = panes.boxes("pane.before"), panes.boxes("pane.after")
    panes.button("pane.merge").click()
    expect(panes.button("pane.merge")).to_have_attribute("aria-pressed", "true")
    merged = panes.boxes("pane.merged")
    assert set(merged) == set(before) | set(after)
    new = set(after) - set(before)
    assert new, "the Softmax becomes several ops"
    for name, box in merged.items():
        marks = {t.text for t in box.findall(f"{SVG}text")} & {"+", "−", "~"}
        assert ("+" in marks) == (name in new)
        assert ("−" in marks) == (name not in after)
        assert (stroke(box) is not None) == (name not in after)
    expect(page_legend(panes)).to_contain_text(panes.say("mark.added"))


def page_legend(panes: Panes) -> Locator:
    return panes.region.locator(".pane-legend")


def test_groups_close_and_open_by_keyboard_and_mouse(panes: Panes, server: str) -> None:
    page, say = panes.page, panes.say
    panes.open(server, "model=five_op_chain")
    panes.compiled()
    panes.goto("fuse")
    assert "T2" in panes.boxes("pane.after")
    panes.button("groups.title", n="1").focus()
    page.keyboard.press("Enter")
    group = page.get_by_role("button", name=re.compile("fused Y"))
    expect(group).to_have_attribute("aria-expanded", "true")
    group.focus()
    page.keyboard.press("Enter")
    expect(panes.live).to_have_text(say("group.closed", name="fused Y", n=6))
    expect(group).to_have_attribute("aria-expanded", "false")
    page.keyboard.press("Escape")
    closed = panes.boxes("pane.after")
    assert say("group.count", n=6) in closed and "T2" not in closed
    assert "T2" in panes.boxes("pane.before"), "what is not fused yet has no group"

    canvas = panes.region.locator("canvas.pane-canvas").last
    box = canvas.bounding_box()
    assert box is not None
    page.get_by_label(say("search.title")).fill("T2")
    page.get_by_label(say("search.title")).press("Enter")
    expect(panes.live).to_contain_text("T2")
    page.mouse.dblclick(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(panes.live).to_have_text(say("group.opened", name="fused Y", n=6))
    assert "T2" in panes.boxes("pane.after")


def test_pictures_hold_names_as_text(panes: Panes, server: str, tmp_path: Path) -> None:
    import onnx

    path = tmp_path / "hostile.onnx"
    onnx.save(hostile_model(), path)
    panes.open(server)
    panes.upload(path)
    panes.compiled()
    panes.goto("fuse")
    picture = panes.save("picture.both")
    root = ET.parse(picture).getroot()
    tags = {e.tag.removeprefix(SVG) for e in root.iter()}
    assert tags <= {"svg", "g", "rect", "text", "path", "polygon"}
    assert any("</style>" in (t.text or "") for t in root.iter(f"{SVG}text"))
    assert "onerror" not in {name for e in root.iter() for name in e.attrib}
    png = panes.save("pane.after", "PNG").read_bytes()
    assert png.startswith(b"\x89PNG") and int.from_bytes(png[16:20], "big") > 200


def test_search_counts_steps_and_centres(panes: Panes, server: str) -> None:
    page, say = panes.page, panes.say
    panes.open(server, "model=tiny_gpt")
    panes.compiled()
    panes.wait_for_places()
    field = page.get_by_label(say("search.title"))
    page.keyboard.press("Control+f")
    expect(field).to_be_focused()
    page.keyboard.type("softmax")
    expect(page.locator("#search-count")).to_have_text(re.compile(r"^\d+"))
    count = int(re.findall(r"\d+", page.locator("#search-count").inner_text())[0])
    assert count > 4
    seen: list[str] = []
    for k in (1, 2):
        page.keyboard.press("Enter")
        expect(page.locator("#search-count")).to_have_text(say("search.place", n=k, of=count))
        seen.append(panes.live.inner_text())
    assert seen[0] != seen[1]
    page.keyboard.press("Shift+Enter")
    expect(page.locator("#search-count")).to_have_text(say("search.place", n=1, of=count))
    expect(panes.live).to_have_text(seen[0])
    ringed = {name for name, box in panes.boxes("pane.after").items() if rings(box) == "4"}
    assert len(ringed) == 1


def test_a_second_compile_stands_beside_the_first(panes: Panes, server: str) -> None:
    page, say = panes.page, panes.say
    panes.open(server, "model=five_op_chain")
    panes.compiled()
    panes.goto("fuse")
    left = page.get_by_label(say("left.title"), exact=True)
    left.select_option("op_by_op")
    expect(panes.region.get_by_role("heading", name=say("pane.op_by_op"))).to_be_visible(
        timeout=60_000
    )
    frames = [t for t in texts(panes.save("pane.op_by_op")) if t.startswith("fused ")]
    assert sorted(frames) == ["fused T1", "fused T2", "fused T3", "fused T4", "fused Y"]
    assert [t for t in texts(panes.save("pane.fused")) if t.startswith("fused ")] == ["fused Y"]


def texts(picture: Path) -> list[str]:
    return [str(t.text) for t in ET.parse(picture).iter(f"{SVG}text")]


def test_overlays_say_what_their_colour_means(panes: Panes, server: str) -> None:
    page, say = panes.page, panes.say
    panes.open(server, "model=five_op_chain")
    panes.compiled()
    panes.goto("fuse")
    choice = page.get_by_label(say("pane.overlay"), exact=True)
    legend = page.locator("#overlay-legend")
    choice.select_option("bytes")
    expect(legend).to_contain_text(say("overlay.bytes.legend"))
    expect(legend).to_contain_text("MiB")
    drawn = ET.parse(panes.save("pane.after"))
    (title,) = (t for t in drawn.iter(f"{SVG}text") if str(t.text).startswith("fused "))
    rects = drawn.iter(f"{SVG}rect")
    figures = [r for r in rects if r.get("rx") == "4" and r.get("height") == "15"]
    assert figures
    for box in figures:
        low = float(title.get("y", "")) - 11
        assert float(box.get("y", "")) + 15 <= low or float(box.get("y", "")) > low + 11
    choice.select_option("time")
    expect(legend).to_have_text(say("overlay.time.missing"))
    choice.select_option("drift")
    expect(legend).to_have_text(say("overlay.drift.missing"))


def test_measured_times_colour_the_kernels(page: Page, server: str, language: str) -> None:
    panes = Panes(page, language)
    say = panes.say
    panes.open(server, "model=mlp")
    panes.compiled()
    page.get_by_role("button", name=say("nav.measure"), exact=True).click()
    page.locator("#ask-measure").click()
    expect(page.get_by_role("complementary", name=say("conditions.title"))).to_be_visible(
        timeout=90_000
    )
    with page.expect_download() as download:
        page.get_by_role("button", name="JSON", exact=True).click()
    report = json.loads(download.value.path().read_text(encoding="utf-8"))
    page.get_by_role("button", name=say("nav.explore"), exact=True).click()
    panes.goto("fuse")
    page.get_by_label(say("pane.overlay"), exact=True).select_option("time")
    expect(page.locator("#overlay-legend")).to_contain_text(say("overlay.time.legend"))
    stated = page.locator("#overlay-conditions")
    for part in (f"batch {report['conditions']['sizes']['batch']}", report["conditions"]["cpu"]):
        expect(stated).to_contain_text(part)
    expect(stated).not_to_contain_text(say("overlay.time.sizes"))

    def words(milliseconds: float) -> str:
        text = f"{milliseconds * 1000:.3g}" if milliseconds < 1 else f"{milliseconds:.3g}"
        text = text.replace(".", "," if language == "vi" else ".")
        return say("figure.microseconds" if milliseconds < 1 else "figure.milliseconds", n=text)

    steps = report["per_kernel"]["fused"]
    picture = texts(panes.save("pane.after"))
    for step in steps:
        assert words(step["p50"]) in picture, step["name"]
    assert any(report["conditions"]["cpu"] in t for t in picture), "conditions go with them"
    panes.goto("plan-memory")
    panes.choose_view("graph")
    launches = texts(panes.save("pane.after"))
    for step in steps:
        assert words(step["p50"]) in launches, step["name"]

    panes.size("batch").fill("3")
    expect(stated).to_contain_text(say("overlay.time.sizes"))


def test_a_very_large_graph_is_an_overview_that_opens(
    panes: Panes, server: str, tmp_path: Path
) -> None:
    import onnx

    from benchmarks.page import towers

    page, say = panes.page, panes.say
    path = tmp_path / "towers.onnx"
    onnx.save(towers(24), path)
    panes.open(server)
    panes.upload(path)
    note = panes.region.locator(".pane-note").last
    expect(note).to_have_text(say("pane.overview"), timeout=60_000)
    panes.button("job.cancel").click()
    expect(panes.button("job.cancel")).to_have_count(0)
    canvas = panes.region.locator("canvas.pane-canvas").last
    sight(panes, server)
    pane = canvas.evaluate(CUT)
    assert pane["drawn"] > 1000 and pane["cut"] == 0, "all of it is in sight"
    picture = texts(panes.save("pane.after"))
    numbers = [t for t in picture if t.startswith("#")]
    assert len(numbers) == len(set(numbers)) == 24, "a box for each tower, each with its numbers"
    assert picture.count(say("group.count.weights", n=250, weights=3)) == 24
    assert not {"w0", "b0", "s0"} & set(picture), "weights are counted, not drawn"

    page.locator("#pane-groups").click()
    page.get_by_role("button", name=re.compile("#26 – 50")).click()
    expect(panes.button("pane.outside")).to_be_visible()
    inside = panes.boxes("pane.after")
    assert {"w1", "b1", "s1"} <= set(inside) and len(inside) == 253
    panes.button("pane.outside").click()
    expect(note).to_have_text(say("pane.overview"))
    sight(panes, server)
    assert canvas.evaluate(CUT)["cut"] == 0


# ---- where the camera stands ---------------------------------------------------------------------

CUT = """(canvas) => {
    const { width, height } = canvas;
    const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
    const pixel = (x, y) => data.slice(4 * (y * width + x), 4 * (y * width + x) + 3).join();
    const ground = pixel(0, 0);
    const found = { drawn: 0, cut: 0 };
    for (let y = 0; y < height; y += 1) for (let x = 0; x < width; x += 1) {
        if (pixel(x, y) === ground) continue;
        found.drawn += 1;
        if (Math.min(x, y, width - 1 - x, height - 1 - y) < 3) found.cut += 1;
    }
    return found;
}"""
READABLE = 11 / 13
"""The least scale of the first picture: labels of 13 px are then 11 px high."""


def sight(panes: Panes, server: str) -> list[dict[str, Any]]:
    """Scale, shift, size and the corners of the picture of each pane, of the last frame."""
    panes.wait_for_places()
    module = f"{server}/ui/{version()}/explorer/explore/graphview.mjs"
    return panes.page.evaluate(
        """async (at) => {
            const { counted } = await import(at);
            for (let k = 0; k < 3; k += 1) await new Promise(requestAnimationFrame);
            return counted.sight;
        }""",
        module,
    )


def camera(panes: Panes, server: str) -> tuple[float, float, float]:
    right = sight(panes, server)[1]
    return right["x"], right["y"], right["k"]


def cut(panes: Panes) -> list[dict[str, int]]:
    """Of each pane how many points are drawn, and how many of them at its edge."""
    canvases = panes.region.locator("canvas.pane-canvas")
    return [canvases.nth(k).evaluate(CUT) for k in range(2)]


@pytest.mark.parametrize(
    ("name", "size"),
    [("five_op_chain", (1366, 768)), ("lstm_cell", (1366, 768)), ("conv_bn_relu", (1920, 1080))],
)
def test_the_first_picture_is_whole_or_starts_at_the_inputs(
    panes: Panes, server: str, name: str, size: tuple[int, int]
) -> None:
    panes.page.set_viewport_size({"width": size[0], "height": size[1]})
    panes.open(server, f"model={name}")
    panes.compiled()
    for place in ("fuse", "infer-shapes"):
        panes.goto(place)
        left, right = sight(panes, server)
        assert left["k"] == right["k"], "one camera"
        x0, y0, x1, y1 = right["box"]
        whole = min(w / s for w, s in zip(right["size"], (x1 - x0, y1 - y0), strict=True))
        assert right["k"] >= READABLE - 0.001
        if whole >= 1:
            for pane in cut(panes):
                assert pane["drawn"] > 1000 and pane["cut"] == 0
        elif place != "fuse":
            assert y0 == pytest.approx(10, abs=1), "the inputs stand at the top"
        if name == "five_op_chain" and place == "fuse":
            assert whole >= 1, "the sample to start with is shown whole"


def test_steps_leave_the_camera_where_it_is(panes: Panes, server: str) -> None:
    page = panes.page
    panes.open(server, "model=five_op_chain")
    panes.compiled()
    history = history_of("five_op_chain")
    seen: dict[str, tuple[float, float, float]] = {}
    for direction in ("ArrowUp", "ArrowDown"):
        for _ in range(21):
            page.keyboard.press(direction)
            place = camera(panes, server)
            at = int(str(panes.here.get_attribute("data-at")))
            level = history["passes"][at]["level"]
            assert seen.setdefault(level, place) == place, f"pass {at}: a level has one picture"
    assert len(seen) == 2


def test_keys_look_along_the_graphs_and_nearer(panes: Panes, server: str) -> None:
    page = panes.page
    panes.open(server, "model=five_op_chain")
    panes.compiled()
    place = str(panes.here.get_attribute("data-at"))
    before = None
    while before != (before := camera(panes, server)):  # until the dock has found its height
        page.keyboard.press("f")
        page.wait_for_timeout(300)
    x, y, k = before
    page.keyboard.press("Shift+ArrowDown")
    assert camera(panes, server) == (x, pytest.approx(y - 80, abs=1), k), "what is below comes up"
    page.keyboard.press("Shift+ArrowRight")
    assert camera(panes, server) == pytest.approx((x - 80, y - 80, k), abs=1)
    page.keyboard.press("+")
    assert camera(panes, server)[2] == pytest.approx(1.3 * k)
    page.keyboard.press("-")
    assert camera(panes, server)[2] == pytest.approx(k)
    page.keyboard.press("f")
    assert camera(panes, server) == pytest.approx((x, y, k), abs=1)
    expect(panes.here).to_have_attribute("data-at", place)
    page.get_by_role("tab", name=panes.say("tab.drift")).focus()  # the dock is as high for the next
    page.keyboard.press("Shift+ArrowRight")
    assert camera(panes, server) == pytest.approx((x, y, k), abs=1), "the tabs have these keys"


def test_a_camera_that_a_reader_moved_keeps_its_scale(panes: Panes, server: str) -> None:
    page = panes.page
    panes.open(server, "model=five_op_chain")
    panes.compiled()
    canvas = panes.region.locator("canvas.pane-canvas").last
    box = canvas.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 60)
    page.mouse.wheel(0, -600)
    zoomed = camera(panes, server)
    assert zoomed[2] > 1
    panes.goto("cse")
    assert camera(panes, server) == zoomed
    panes.goto("infer-shapes")
    assert camera(panes, server)[2] == zoomed[2], "another level, the same scale"

    def middle() -> tuple[float, float]:
        right = sight(panes, server)[1]
        (w, h), k = right["size"], right["k"]
        return (w / 2 - right["x"]) / k, (h / 2 - right["y"]) / k

    before = middle()
    edge = page.get_by_role("separator", name=panes.say("dock.resize"))
    edge.focus()
    for _ in range(3):
        page.keyboard.press("ArrowUp")
    assert middle() == pytest.approx(before, abs=1)


def test_what_is_whole_stays_whole_while_it_can_be_read(panes: Panes, server: str) -> None:
    page = panes.page
    panes.open(server, "model=five_op_chain")
    panes.compiled()
    edge = page.get_by_role("separator", name=panes.say("dock.resize"))
    edge.focus()
    for _ in range(4):
        page.keyboard.press("ArrowUp")
        right = sight(panes, server)[1]
        assert right["k"] >= READABLE - 0.001, "the dock grows: a part of it, and legible"
    for _ in range(4):
        page.keyboard.press("ArrowDown")
    page.set_viewport_size({"width": 1366, "height": 900})
    sight(panes, server)
    assert [pane["cut"] for pane in cut(panes)] == [0, 0], "all of it, since it can be read again"
