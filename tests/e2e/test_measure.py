"""The page Measure, as a reader uses it: measure, read the table behind a chart, export."""

import json
from pathlib import Path

from playwright.sync_api import Page, expect


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


def test_the_effect_of_each_pass_is_measured_in_one_run(page: Page, server: str) -> None:
    open_measure(page, server, "&bind=r%3D64%2Cc%3D64")
    page.locator("#ask-effects").click()
    section = page.get_by_role("region", name="Hiệu quả của từng pass")
    expect(section).to_be_visible(timeout=90_000)
    expect(section.get_by_role("rowheader", name="fuse")).to_be_visible()


def test_a_size_out_of_bounds_is_refused_in_words(page: Page, server: str) -> None:
    open_measure(page, server)
    page.get_by_label("Cỡ r").fill("99999999")
    page.locator("#ask-measure").click()
    expect(page.get_by_role("alert")).to_contain_text("r = 99999999")
    page.get_by_label("Cỡ r").fill("2048")
