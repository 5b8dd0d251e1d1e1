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
REPORT = {"latency": {}, "bytes": {}, "launches": {}, "conditions": {"date": "2030-01-01"}}
RUN, ANEW = event("d", "run", REPORT, 7), event("d", "run", {**REPORT, "launches": {"fused": 1}}, 8)
TRY, AGAIN = event("c", "attempt", {"passed": False}, 5), event("c", "attempt", {"passed": True}, 6)
ALL = [A, B, SKIP, LATE, TRY, AGAIN, RUN, ANEW]


def test_the_first_lock_wins_whatever_the_order() -> None:
    for events in (ALL, ALL[::-1], [*ALL, *ALL]):
        found = js(
            "progress",
            f"""(() => {{
            const s = m.fold({json.dumps(events)});
            return {{ lock: s.locks.get("a").value,
              locked: [...s.locks.keys()], skipped: [...s.skips.keys()],
              tries: s.attempts.get("c").map((e) => e.value.passed),
              run: s.runs.get("d").value.launches }};
        }})()""",
        )
        assert found == {
            "lock": 640, "locked": ["a"], "skipped": ["b"], "tries": [False, True],
            "run": {"fused": 1},
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
        {**A, "value": "704"}, {**A, "id": "x" * 300}, {**RUN, "value": None},
        {**RUN, "value": {**REPORT, "conditions": "none"}},
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
        let heard = 0, lasting = [];
        const one = m.openProgress(storage), two = m.openProgress(storage, () => { heard += 1; });
        one.add({ id: "a", kind: "lock", value: 1, time: "2030-01-01T00:00:00Z" });
        two.add({ id: "b", kind: "lock", value: 2, time: "2030-01-01T00:00:01Z" });
        two.add({ id: "a", kind: "lock", value: 3, time: "2030-01-01T00:00:02Z" });
        one.hear("explorer.lessons.1"); two.hear("explorer.lessons.1"); two.hear("other");
        const again = m.openProgress(storage);
        const fail = () => { throw new Error("full"); };
        const full = m.openProgress({ getItem: fail, setItem: fail });
        full.add({ id: "a", kind: "lock", value: 9 });
        lasting = [one.lasting(), full.lasting()];
        return { lasting, one: one.events().length, two: two.events().length,
          again: again.state().locks.get("a").value,
          heard, full: full.state().locks.get("a").value };
    })()""",
    )
    assert found == {
        "lasting": [True, False], "one": 3, "two": 3, "again": 1, "heard": 1, "full": 9,
    }  # fmt: skip


def test_an_import_says_what_was_kept_and_what_was_not() -> None:
    found = js(
        "progress",
        """(() => {
        const kept = new Map();
        let room = Infinity;
        const storage = { getItem: (k) => kept.get(k) ?? null, setItem(k, v) {
          if (v.length > room) throw new Error("full");
          kept.set(k, v);
        } };
        const many = Array.from({ length: m.MOST + 3 }, (_, k) => ({ id: `e${k}`, kind: "skip",
          value: null, conditions: null, time: new Date(k).toISOString() }));
        const one = m.openProgress(storage);
        const first = one.import(many.slice(0, 2));
        room = 2000;
        const full = one.import(many.slice(0, 50));
        const still = m.openProgress(storage).events().length;
        room = Infinity;
        const most = one.import(many);
        const again = one.import(many.slice(0, 5));
        one.add({ id: "late", kind: "skip", value: null });
        return { first, full, still, most, again, all: m.openProgress(storage).events().length };
    })()""",
    )
    most = js("progress", "m.MOST")
    assert found == {
        "first": {"added": 2, "left": 0, "full": False},
        "full": {"added": 0, "left": 48, "full": True}, "still": 2,
        "most": {"added": most - 2, "left": 3, "full": False},
        "again": {"added": 0, "left": 0, "full": False}, "all": most + 1,
    }  # fmt: skip


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


def test_a_measurement_is_kept_while_the_lesson_still_asks_for_it() -> None:
    asked = {"measure": "chain", "sizes": {"r": 2}, "pipeline": None, "numerics": "default"}
    run = {**asked, "label": {"vi": "x", "en": "x"}}
    lesson = {"id": "l", "runs": {"a": run, "b": {**run, "sizes": {"r": 3}}, "c": run}}
    report = {
        "latency": {"fused": {"p50": 1, "quantiles": [1, 2]}}, "memory": {"x": 1},
        "conditions": {"sizes": {"r": 2}},
    }  # fmt: skip
    found = js(
        "values",
        f"""(() => {{
        const value = m.slim({json.dumps(report)});
        const event = {{ value, conditions: m.askedOf({json.dumps(run)}) }};
        const runs = new Map([["l/a", event], ["l/b", event], ["other/c", event]]);
        return m.liveOf({json.dumps(lesson)}, runs);
    }})()""",
    )
    kept = {"latency": {"fused": {"p50": 1}}, "conditions": {"sizes": {"r": 2}}}
    assert found == {"a": kept}


def test_a_guess_is_held_to_what_its_question_asks() -> None:
    """Bytes to the arithmetic, whatever a cache moved; a ratio of times to the clock."""
    lesson = {
        "id": "l", "sizes": {"r": 64 * 2**20}, "runs": {}, "exercises": {},
        "title": {"vi": "t", "en": "t"}, "recorded": STATE["lesson"]["recorded"],
        "predictions": {"bytes": {"expr": "r/2**20", "run": ""}, "ratio": {"expr": "", "run": "x"}},
        "closing": [
            {"label": {"vi": "b", "en": "b"}, "unit": "MiB", "guess": "bytes",
             "computed": "r/2**20", "measured": "y.bytes.fused.simulated/2**20"},
            {"label": {"vi": "q", "en": "q"}, "unit": "x", "guess": "ratio", "computed": "4",
             "measured": "x.latency.op_by_op.p50 / x.latency.fused.p50"},
        ],
    }  # fmt: skip
    state = json.dumps({"live": STATE["live"], "lesson": lesson})
    found = run(f"""
        const text = await import(`${{EXPLORER}}/text.mjs`);
        globalThis.fetch = async () => ({{ json: async () => ({{}}) }});
        await text.speak("en", "http://localhost/");
        const m = await import(`${{EXPLORER}}/lesson/evidence.mjs`);
        const locks = new Map([["l/bytes", {{ value: 64 }}], ["l/ratio", {{ value: 6 }}]]);
        const progress = {{ locks, skips: new Map(), attempts: new Map(), runs: new Map() }};
        const context = {{ progress: () => progress, events: () => [] }};
        const state = {state};
        console.log(JSON.stringify({{
          rows: m.evidence(state, progress).rows.map((row) => [row.ratio, row.against]),
          csv: m.csv(state, context).split("\\n").slice(1, 3)
            .map((row) => row.split(",").slice(-2)),
          json: JSON.parse(m.json(state, context)).figures.map((row) => [row.ratio, row.against]),
        }}));
    """)
    assert found == {
        "rows": [[1, "computed"], [2, "measured"]],
        "csv": [["1", "computed"], ["2", "measured"]],
        "json": [[1, "computed"], [2, "measured"]],
    }


def test_what_can_be_no_answer_is_known() -> None:
    assert js("values", "[-5, 0, 0.1, 704].map(m.isImpossible)") == [True, True, False, False]


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
