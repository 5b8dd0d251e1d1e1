"""Numbers as people write them, progress as events, and the figures of a lesson, run by Node."""

import json
from typing import Any

import pytest

from tests.ui.test_modules import run


def js(module: str, expression: str) -> Any:
    """The value of an expression over what a module of lessons exports."""
    return run(f"""
        const m = await import(`${{EXPLORER}}/lesson/{module}.mjs`);
        console.log(JSON.stringify({expression} ?? null));
    """)


def read(text: str, language: str, unit: str = "") -> Any:
    return js("decimal", f"m.readNumber({json.dumps(text)}, {language!r}, {unit!r})")


@pytest.mark.parametrize("language", ["vi", "en"])
def test_numbers_that_have_one_reading(language: str) -> None:
    cases = {
        "3,67": 3.67, "3.67": 3.67, " 704 ": 704, "704 MiB": 704, "704mib": 704, "-2": -2,
        "−2,5": -2.5,
        "0.125": 0.125, "0,125": 0.125, "0.375": 0.375, "1.234.567": 1234567, "1,234,567": 1234567,
        "1.234,5": 1234.5, "1,234.5": 1234.5, "12345.678": 12345.678, "1 024": 1024, "１２": 12,
        "3,6667": 3.6667, "+5": 5,
    }  # fmt: skip
    found = js(
        "decimal",
        f"{json.dumps(list(cases))}.map((x) => m.readNumber(x, '{language}', 'MiB'))",
    )
    assert [f and f["value"] for f in found] == list(cases.values())
    assert not any(f["ambiguous"] for f in found)


def test_one_separator_before_three_digits_is_read_as_the_language_writes_and_said() -> None:
    assert read("1.234", "vi") == {"value": 1234, "ambiguous": True, "digits": "1234"}
    assert read("1,234", "vi") == {"value": 1.234, "ambiguous": True, "digits": "1,234"}
    assert read("1.234", "en") == {"value": 1.234, "ambiguous": True, "digits": "1.234"}
    assert read("1,234", "en") == {"value": 1234, "ambiguous": True, "digits": "1234"}
    assert read("-264.000", "vi") == {"value": -264000, "ambiguous": True, "digits": "-264000"}


def test_what_is_no_number_is_refused() -> None:
    wrong = [
        "", " ", "abc", "1,2,3", "1.2.3", "1..2", "1e5", "0x10", "--1", "1-", "NaN", "Infinity",
        "1.234.56", "1,234,56", "3 / 2", "11/3", "," , ".5", "5.", "9" * 30, "1.234.567.8",
    ]  # fmt: skip
    assert js("decimal", f"{json.dumps(wrong)}.map((x) => m.readNumber(x, 'vi', 'MiB'))") == [
        None
    ] * len(wrong)


# ---- progress ------------------------------------------------------------------------------------


def event(id: str, kind: str, value: object, minute: int) -> dict[str, object]:
    return {
        "id": id, "kind": kind, "value": value, "conditions": None,
        "time": f"2030-01-01T00:{minute:02d}:00.000Z",
    }  # fmt: skip


A, B = event("a", "lock", 640, 1), event("a", "lock", 704, 2)
SKIP, LATE = event("b", "skip", None, 3), event("b", "lock", 5, 4)
TRY, AGAIN = event("c", "attempt", {"passed": False}, 5), event("c", "attempt", {"passed": True}, 6)
ALL = [A, B, SKIP, LATE, TRY, AGAIN]


def test_the_first_lock_wins_whatever_the_order() -> None:
    for events in (ALL, ALL[::-1], [*ALL, *ALL]):
        found = js(
            "progress",
            f"""(() => {{
            const s = m.fold({json.dumps(events)});
            return {{ lock: s.locks.get("a").value,
              locked: [...s.locks.keys()], skipped: [...s.skips.keys()],
              tries: s.attempts.get("c").map((e) => e.value.passed) }};
        }})()""",
        )
        assert found == {
            "lock": 640, "locked": ["a"], "skipped": ["b"], "tries": [False, True],
        }  # fmt: skip


def test_a_union_is_the_same_from_both_sides_and_adds_nothing_twice() -> None:
    one, two = [A, SKIP, TRY], [B, SKIP, AGAIN]
    left = js("progress", f"m.union({json.dumps(one)}, {json.dumps(two)})")
    right = js("progress", f"m.union({json.dumps(two)}, {json.dumps(one)})")
    assert left == right == [A, B, SKIP, TRY, AGAIN]
    assert js("progress", f"m.union({json.dumps(left)}, {json.dumps(left)})") == left


def test_what_is_no_event_is_left_out() -> None:
    wrong = [
        None, 3, {}, {**A, "kind": "erase"}, {**A, "time": "yesterday"}, {**A, "id": 3},
        {**A, "value": "704"}, {**A, "id": "x" * 300},
    ]  # fmt: skip
    text = json.dumps({"schema": 1, "events": [*wrong, A]})
    assert js("progress", f"m.readEvents({json.dumps(text)})") == [A]
    assert js("progress", f"m.readEvents({json.dumps(json.dumps([A]))})") == [A]
    for broken in ("", "{", "3", "{}", "null"):
        assert js("progress", f"m.readEvents({json.dumps(broken)})") is None
    written = f"m.readEvents(m.writeEvents({json.dumps(ALL)}))"
    assert js("progress", written) == ALL


def test_two_tabs_and_a_full_storage() -> None:
    found = js(
        "progress",
        """(() => {
        const kept = new Map();
        const storage = { getItem: (k) => kept.get(k) ?? null, setItem: (k, v) => kept.set(k, v) };
        let heard = 0;
        const one = m.openProgress(storage), two = m.openProgress(storage, () => { heard += 1; });
        one.add({ id: "a", kind: "lock", value: 1, time: "2030-01-01T00:00:00Z" });
        two.add({ id: "b", kind: "lock", value: 2, time: "2030-01-01T00:00:01Z" });
        two.add({ id: "a", kind: "lock", value: 3, time: "2030-01-01T00:00:02Z" });
        one.hear("explorer.lessons.1"); two.hear("explorer.lessons.1"); two.hear("other");
        const again = m.openProgress(storage);
        const fail = () => { throw new Error("full"); };
        const full = m.openProgress({ getItem: fail, setItem: fail });
        full.add({ id: "a", kind: "lock", value: 9 });
        return { one: one.events().length, two: two.events().length,
          again: again.state().locks.get("a").value,
          heard, full: full.state().locks.get("a").value };
    })()""",
    )
    assert found == {"one": 3, "two": 3, "again": 1, "heard": 1, "full": 9}


# ---- figures -------------------------------------------------------------------------------------

STATE = {
    "live": {"x": {"latency": {"op_by_op": {"p50": 9.0}, "fused": {"p50": 3.0}}}},
    "lesson": {
        "sizes": {"r": 2048, "c": 3072},
        "recorded": {"runs": {
            "x": {"latency": {"op_by_op": {"p50": 1.0}, "fused": {"p50": 1.0}}},
            "y": {"bytes": {"fused": {"simulated": 96 * 2**20, "measured": None}}},
        }},
    },
}  # fmt: skip


def test_a_figure_is_of_this_visit_before_it_is_recorded() -> None:
    state = json.dumps(STATE)
    ratio = "x.latency.op_by_op.p50 / x.latency.fused.p50"
    assert js("values", f"m.figure({state}, {ratio!r})") == {
        "value": 3.0, "kind": "measured", "recorded": False, "runs": ["x"],
    }  # fmt: skip
    assert js("values", f"m.figure({state}, 'y.bytes.fused.simulated/2**20')") == {
        "value": 96, "kind": "simulated", "recorded": True, "runs": ["y"],
    }  # fmt: skip
    for missing in ("y.bytes.fused.measured", "z.latency", "x.constructor.name", "x.latency"):
        assert js("values", f"m.figure({state}, {missing!r}).value") is None


def test_kinds_say_where_a_number_comes_from() -> None:
    kinds = {
        "x.launches.fused": "computed", "x.bytes.fused.floor": "computed",
        "x.bytes.fused.touched": "computed", "x.bytes.fused.simulated": "simulated",
        "x.bytes.fused.measured": "measured", "x.latency.fused.p50": "measured",
        "x.error.fused.max_abs": "measured", "x.bandwidth.fused": "measured",
        "conditions.sizes": "computed", "launches": "computed", "bytes.floor": "computed",
    }  # fmt: skip
    found = js("values", f"{json.dumps(list(kinds))}.map((path) => m.kindOf([path]))")
    assert found == list(kinds.values())
    assert js("values", "m.kindOf(['a.launches.fused', 'a.latency.fused.p50'])") == "measured"


def test_a_hint_speaks_only_on_a_known_mistake() -> None:
    prediction = {
        "expr": "11*r*c*4/2**20", "run": "", "tolerance": 0.02, "accept": None,
        "near": [
            {"value": "10*r*c*4/2**20", "hint": "ten"}, {"value": "5*r*c*4/2**20", "hint": "five"},
        ],
    }  # fmt: skip
    sizes = json.dumps(STATE["lesson"]["sizes"])
    hints = js(
        "values",
        f"[240, 241, 120, 264, 200, 0, -240].map("
        f"(v) => m.hintOf({json.dumps(prediction)}, v, {sizes}))",
    )
    assert hints == ["ten", "ten", "five", None, None, None, None]
    right = js(
        "values",
        f"[264, 269, 258.8, 270, 240].map((v) => m.isRight({json.dumps(prediction)}, v, 264))",
    )
    assert right == [True, True, True, False, False]
    closed = {**prediction, "accept": [3, 4]}
    assert js("values", f"[3, 4, 2.9].map((v) => m.isRight({json.dumps(closed)}, v, 9))") == [
        True, True, False,
    ]  # fmt: skip


def test_a_column_names_a_metric_and_which_of_it() -> None:
    columns = ["launches", "bytes.floor", "latency.p50.ratio", "bandwidth.fused"]
    assert js("values", f"{columns}.map(m.columnOf)") == [
        {"metric": "launches", "which": ""}, {"metric": "bytes.floor", "which": ""},
        {"metric": "latency.p50", "which": "ratio"}, {"metric": "bandwidth", "which": "fused"},
    ]  # fmt: skip
    paths = "['bytes.floor', 'launches'].map((metric) => m.variantPath(metric, 'fused'))"
    assert js("values", paths) == [
        "bytes.fused.floor", "launches.fused",
    ]  # fmt: skip
