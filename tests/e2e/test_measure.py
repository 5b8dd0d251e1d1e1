"""The page Measure, as a reader uses it: measure, read the table behind a chart, export."""

import json
import re
import shutil
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, Route, expect

from sample_models import sample
from tests.e2e.conftest import Watch
from ui.language import sentence


def open_measure(page: Page, server: str, query: str = "") -> None:
    page.goto(f"{server}/?page=measure&model=five_op_chain{query}")
    expect(page.get_by_role("main", name="Đo")).to_be_visible()


def test_a_measurement_shows_figures_with_conditions_and_can_be_exported(
    page: Page, server: str, tmp_path: Path
) -> None:
    open_measure(page, server)
    page.get_by_label("Cỡ r").fill("64")
    page.get_by_label("Cỡ c").fill("96")
    page.locator("#ask-measure").click()
    card = page.get_by_role("complementary", name="Thẻ điều kiện chạy")
    expect(card).to_contain_text("r 64 · c 96", timeout=90_000)
    floor = 4 * 64 * 96
    table = page.get_by_role("group", name="Lưu lượng bộ nhớ chính")
    expect(table).to_contain_text(f"({11 * floor + 8 * 96:,} byte)".replace(",", "."))
    expect(table).to_contain_text(f"({3 * floor + 8 * 96:,} byte)".replace(",", "."))
    expect(page.get_by_role("img", name="Roofline")).to_be_visible()

    def saved(button: str) -> str:
        with page.expect_download(timeout=60_000) as info:
            page.get_by_role("button", name=button, exact=True).click()
        path = tmp_path / info.value.suggested_filename
        info.value.save_as(path)
        return path.read_text(encoding="utf-8")

    report = json.loads(saved("JSON"))
    assert report["conditions"]["sizes"] == {"r": 64, "c": 96}
    assert report["bytes"]["fused"]["floor"] == 3 * floor + 8 * 96
    assert f"bytes.fused.floor,{3 * floor + 8 * 96}" in saved("CSV")
    text = saved("Markdown")
    assert "## Thẻ điều kiện chạy" in text and "| từng toán tử |" in text
    whole = saved("Cả lần biên dịch (HTML)")
    assert "<!doctype html>" in whole and "fuse" in whole and "def " in whole
    assert "http://" not in whole and "https://" not in whole and "<script" not in whole

    page.get_by_role("button", name="English").click()
    expect(page.get_by_role("complementary", name="Condition card")).to_contain_text("r 64 · c 96")


class Reader:
    """The catalogue of one language: `say(message, **parameters)`."""

    def __init__(self, language: str) -> None:
        self.language = language

    def __call__(self, message: str, **parameters: str | int | float) -> str:
        return sentence(self.language, message, **parameters)


def heard(page: Page) -> list[str]:
    """Collects what the live region says from now on."""
    said: list[str] = []
    page.expose_function("heardText", lambda text: said.append(text))  # a method is not taken
    page.evaluate("""() => {
        const inside = (root) => [...root.querySelectorAll("*")].map((e) => e.shadowRoot);
        const find = (root) => root.querySelector("#live")
          ?? inside(root).filter(Boolean).map(find).find(Boolean);
        const live = find(document);
        new MutationObserver(() => heardText(live.textContent)).observe(live, { childList: true });
    }""")
    return said


def focused(page: Page) -> str:
    """The id of what has the focus, "" where nothing has it."""
    return page.evaluate("""() => {
        let at = document.activeElement;
        while (at?.shadowRoot?.activeElement) at = at.shadowRoot.activeElement;
        return at?.id ?? "";
    }""")


def test_the_effect_of_each_pass_is_brought_into_sight_and_exported(
    page: Page, server: str, tmp_path: Path
) -> None:
    open_measure(page, server, "&bind=r%3D64%2Cc%3D64")
    said = heard(page)
    page.locator("#ask-effects").press("Enter")
    assert focused(page) == "ask-effects"
    section = page.get_by_role("region", name="Hiệu quả của từng pass")
    expect(section).to_be_visible(timeout=90_000)
    expect(section.get_by_role("rowheader", name="fuse")).to_be_visible()
    expect(section).to_contain_text("Pass bắt buộc không bỏ được")
    heading = section.get_by_role("heading", name="Hiệu quả của từng pass", exact=True)
    expect(heading).to_be_focused()
    expect(heading).to_be_in_viewport()
    assert said[0] == "Bắt đầu đo hiệu quả từng pass." and said[-1].startswith("Đo xong.")
    found: dict[str, str] = {}
    for kind in ("Markdown", "CSV", "JSON"):
        with page.expect_download() as info:
            section.get_by_role("button", name=f"{kind} (Hiệu quả của từng pass)").click()
        info.value.save_as(tmp_path / kind)
        found[info.value.suggested_filename] = (tmp_path / kind).read_text(encoding="utf-8")
    text, table, record = (found[f"five_op_chain.effects.{end}"] for end in ("md", "csv", "json"))
    assert "## Thẻ điều kiện chạy" in text and "| fuse |" in text and "r 64 · c 64" in text
    assert "rows.1.pass,fuse" in table and "conditions.sizes.r,64" in table
    assert [row["pass"] for row in json.loads(record)["rows"]][:2] == ["", "fuse"]

    # Beside a report, no two things on the page are called alike.
    page.locator("#ask-measure").click()
    expect(page.get_by_role("region", name="Độ trễ")).to_be_visible(timeout=90_000)
    shown = page.get_by_role("main", name="Đo").aria_snapshot()
    named = re.findall(r'- ((?:button|complementary|region|group|img|link) "[^"]+")', shown)
    named += re.findall(r'- (button "[^"]+")', page.get_by_role("navigation").aria_snapshot())
    assert len(named) > 12 and not [name for name in set(named) if named.count(name) > 1]


def test_a_measurement_is_heard_and_leaves_the_focus_where_it_is(page: Page, server: str) -> None:
    open_measure(page, server, "&bind=r%3D64%2Cc%3D64")
    said = heard(page)
    page.locator("#ask-measure").press("Enter")
    assert focused(page) == "ask-measure"
    expect(page.locator("#ask-measure")).to_have_attribute("aria-disabled", "true")
    latency = page.get_by_role("region", name="Độ trễ")
    expect(latency).to_be_visible(timeout=90_000)
    assert focused(page) == "ask-measure"
    assert said[0] == "Bắt đầu đo." and said[-1].startswith("Đo xong. ")
    assert 4 < len(said) == len(set(said)) < 20, said
    expect(latency.get_by_role("list")).to_contain_text("trung vị (p50)")
    steps = page.get_by_role("region", name="Từng bước")
    chart = steps.get_by_role("img").first
    both = re.compile(r"k0 \(từng toán tử\).*k0 \(bản gộp\)")
    expect(chart).to_have_attribute("aria-label", both)
    sums = steps.get_by_role("listitem").filter(has_text="tổng các bước")
    expect(sums).to_have_count(2)
    whole = latency.get_by_role("row").filter(has_text="bản gộp").get_by_role("cell").first
    expect(sums.last).to_contain_text(f"cả lượt {whole.inner_text()} (p50)")
    expect(steps).to_contain_text("tổng các bước khác độ trễ")
    cells = page.get_by_role("region", name="Sai số").get_by_role("cell")
    expect(cells.first).to_have_text(
        re.compile(r"^(0|0,\d+|\d(,\d+)?\s×\s10[⁻⁰-⁹¹²³]+\d\S* nhân 10 mũ trừ \d+)$")
    )
    for region in (steps, page.get_by_role("region", name="Roofline")):
        expect(region.get_by_role("list").last).to_contain_text("từng toán tử")
    report = Axe().run(page)
    serious = [v for v in report.response["violations"] if v["impact"] in ("serious", "critical")]
    assert not serious, report.generate_report()


@pytest.mark.parametrize("kind", ["measure", "effects"])
def test_a_job_that_is_cancelled_says_that_it_stops_and_that_it_did(
    page: Page, server: str, kind: str, language: str
) -> None:
    say = Reader(language)
    lang = "" if language == "vi" else "&lang=en"
    page.goto(f"{server}/?page=measure&model=tiny_gpt{lang}")
    expect(page.locator(f"#ask-{kind}")).to_be_visible()
    said = heard(page)
    page.locator(f"#ask-{kind}").click()
    cancel = page.get_by_role("button", name=say("job.cancel"), exact=True)
    running = page.locator(".progress-text")
    expect(running).not_to_have_text(re.compile(say("job.asked")))  # it has reached the server
    stopping = page.evaluate(
        """(text) => new Promise((resolve) => {
            const find = (root, what) => root.querySelector(what)
              ?? [...root.querySelectorAll("*")].map((e) => e.shadowRoot).filter(Boolean)
                .map((inner) => find(inner, what)).find(Boolean);
            const status = find(document, ".measure-status");
            find(document, "#cancel").click();
            resolve([status.textContent, find(document, "#cancel").ariaDisabled]);
        })""",
        say("job.stopping"),
    )
    assert stopping == [say("job.stopping") + say("job.cancel"), "true"], "at once"
    told = say("measure.stopped" if kind == "measure" else "effects.stopped")
    expect(page.locator(".notice")).to_contain_text(told, timeout=60_000)
    expect(cancel).to_have_count(0)
    expect(page.get_by_role("alert")).to_have_count(0)
    assert said[-2:] == [say("job.stopping"), told] and said.count(told) == 1
    assert focused(page) in ("", "ask-measure", f"ask-{kind}")


def test_who_compiled_to_ptx_is_told_what_is_measured_instead(
    page: Page, server: str, language: str
) -> None:
    say = Reader(language)
    lang = "" if language == "vi" else "&lang=en"
    page.goto(f"{server}/?model=five_op_chain&target=cuda:ptx{lang}")
    expect(
        page.get_by_role("listbox", name=say("strip.title")).get_by_role("option").nth(12)
    ).to_be_visible(timeout=60_000)
    page.get_by_role("button", name=say("nav.measure"), exact=True).click()
    note = page.get_by_role("note")
    expect(note).to_contain_text(say("measure.ptx"))
    expect(page.locator("#live")).to_have_text(say("measure.ptx"))
    expect(page.locator(".measure-bar")).to_contain_text(say("options.target.cpu"))
    page.locator("#nav-explore").click()
    page.wait_for_function("() => new URL(location.href).searchParams.get('target') === 'cuda:ptx'")
    page.goto(f"{server}/?page=measure&model=five_op_chain{lang}")
    expect(page.locator("#ask-measure")).to_be_visible()
    expect(note).to_have_count(0)


def test_a_file_is_called_by_its_name_and_its_sizes_are_asked_for(
    page: Page, server: str, tmp_path: Path
) -> None:
    path = tmp_path / "mạng của tôi.onnx"
    shutil.copy(sample("mlp").path, path)
    page.goto(server)
    page.get_by_label("Tải mô hình của bạn lên").set_input_files(path)
    expect(page.get_by_role("slider").first).to_be_visible(timeout=90_000)
    page.get_by_role("button", name="Đo", exact=True).click()
    model = page.get_by_role("combobox", name="Mô hình")
    expect(model.locator("option:checked")).to_have_text("mạng của tôi")
    size = page.get_by_label("Cỡ batch")
    expect(size).to_have_value("4")
    expect(page.get_by_text("Mặc định 4", exact=True)).to_be_visible()
    size.fill("16")
    page.wait_for_function("() => new URL(location.href).searchParams.get('bind') === 'batch=16'")
    page.locator("#ask-measure").click()
    card = page.get_by_role("complementary", name="Thẻ điều kiện chạy")
    expect(card).to_contain_text("batch 16", timeout=90_000)
    with page.expect_download() as info:
        page.get_by_role("button", name="JSON", exact=True).click()
    assert info.value.suggested_filename == "mạng-của-tôi.json"
    page.reload()
    expect(page.get_by_label("Cỡ batch")).to_have_value("16")
    expect(page.get_by_role("combobox", name="Mô hình").locator("option:checked")).to_have_text(
        "mạng của tôi"
    )


def test_the_address_says_what_is_measured(page: Page, server: str) -> None:
    open_measure(page, server, "&bind=r%3D64&at=3&sel=x")
    expect(page.get_by_label("Cỡ r")).to_have_value("64")
    page.get_by_label("Cỡ c").fill("96")
    page.wait_for_function("() => new URL(location.href).searchParams.get('bind') === 'r=64,c=96'")
    page.get_by_role("combobox", name="Mô hình").select_option("mlp")
    page.wait_for_function("() => new URL(location.href).searchParams.get('model') === 'mlp'")
    address = parse_qs(urlsplit(page.url).query)
    assert address == {"page": ["measure"], "model": ["mlp"]}
    expect(page.get_by_label("Cỡ batch")).to_be_visible()


def test_a_size_out_of_bounds_is_refused_in_words(page: Page, server: str) -> None:
    open_measure(page, server)
    page.get_by_label("Cỡ r").fill("99999999")
    page.locator("#ask-measure").click()
    expect(page.get_by_role("alert")).to_contain_text("r = 99999999")
    page.get_by_label("Cỡ r").fill("2048")


@pytest.mark.parametrize("leave", ["Đo", "English"])
def test_an_old_page_says_that_it_is_to_be_loaded_again(
    page: Page, server: str, watch: Watch, leave: str
) -> None:
    def gone(route: Route) -> None:
        route.fulfill(status=404, body="another version")

    page.goto(server)
    expect(page.get_by_role("heading", name="Khám phá trình biên dịch mô hình")).to_be_visible()
    page.route("**/measure/page.mjs", gone)
    page.route("**/translations/en.json", gone)
    page.get_by_role("button", name=leave, exact=True).click()
    notice = page.get_by_role("alert")
    expect(notice).to_contain_text("Trang này thuộc phiên bản cũ")
    page.unroute_all()
    with page.expect_navigation():
        notice.get_by_role("button", name="Tải lại trang").click()
    page.get_by_role("button", name="Đo", exact=True).click()
    expect(page.get_by_role("main", name="Đo")).to_be_visible()
    expect(page.get_by_role("alert").filter(has_text="Trang này")).to_have_count(0)
    assert all("404" in error for error in watch.errors) and watch.errors
    watch.errors.clear()
