"""What the dock shows, as plain functions: lines side by side, words, memory, the life of an op."""

import json
import random

from compiler.ir.plan import Interval, assign_offsets
from tests.ui.test_modules import run


def call(module: str, script: str) -> object:
    return run(f"""
        const M = await import(`${{EXPLORER}}/explore/{module}`);
        console.log(JSON.stringify((() => {{ {script} }})()));
    """)


def lines(*texts: tuple[str, str]) -> str:
    return json.dumps([{"key": k, "text": t, "section": "graph"} for k, t in texts])


def test_lines_stand_beside_their_partner() -> None:
    before = lines(("a", "%a = relu %x"), ("b", "%b = add %a"), ("c", "%c = neg %b"))
    after = lines(("a", "%a = relu %x"), ("b", "%b = add %a, %x"), ("d", "%d = exp %b"))
    assert call("align.mjs", f"return M.align({before}, {after});") == [
        {"before": 0, "after": 0, "left": "same", "right": "same"},
        {"before": 1, "after": 1, "left": "changed", "right": "changed"},
        {"before": 2, "after": -1, "left": "removed", "right": "none"},
        {"before": -1, "after": 2, "left": "none", "right": "added"},
    ]


def test_every_line_has_one_row() -> None:
    source = random.Random(3)
    for _ in range(30):
        sides = [
            [(source.choice("abcd"), source.choice(["x", "y", "z", "}"])) for _ in range(n)]
            for n in (source.randrange(9), source.randrange(9))
        ]
        rows = call("align.mjs", f"return M.align({lines(*sides[0])}, {lines(*sides[1])});")
        assert isinstance(rows, list)
        for k, side in enumerate(("before", "after")):
            assert [r[side] for r in rows if r[side] >= 0] == list(range(len(sides[k])))
        for row in rows:
            assert "none" in (row["left"], row["right"]) or row["left"] == row["right"]
            if row["left"] == row["right"] == "same":
                assert sides[0][row["before"]][1] == sides[1][row["after"]][1]


def test_only_changes_counts_what_it_leaves_out() -> None:
    row = '{left: "same", right: "same"}'
    found = call(
        "align.mjs",
        f'return M.onlyChanges([{row}, {row}, {{left: "added", right: "none"}}, {row}]);',
    )
    assert found == [{"skipped": 2}, {"left": "added", "right": "none"}, {"skipped": 1}]


def test_words_of_a_changed_line() -> None:
    found = call("align.mjs", 'return M.words("%T2 = map.add %T1, %b", "%T2 = map.mul %T1, %b.1");')
    assert isinstance(found, list)
    assert ["".join(run["text"] for run in side) for side in found] == [
        "%T2 = map.add %T1, %b", "%T2 = map.mul %T1, %b.1",
    ]  # fmt: skip
    changed = [[r["text"] for r in side if r["mark"] != "same"] for side in found]
    assert changed == [["map.add", "%b"], ["map.mul", "%b.1"]]


def test_memory_is_laid_out_as_the_engine_does() -> None:
    source = random.Random(5)
    cases = [
        [
            (
                f"b{k}",
                source.choice([0, 1, 64, 100, 4096, 5000]),
                start,
                start + source.randrange(4),
            )
            for k in range(source.randrange(12))
            for start in [source.randrange(8)]
        ]
        for _ in range(60)
    ]
    given = json.dumps([[dict(zip(("name", "size", "start", "stop"), i, strict=True)) for i in c]
                        for c in cases])  # fmt: skip
    found = call(
        "offsets.mjs",
        f"""return {given}.map((intervals) => {{
      const made = M.offsets(intervals);
      return {{ ...made, offsets: Object.fromEntries(made.offsets) }};
    }});""",
    )
    assert isinstance(found, list)
    for case, made in zip(cases, found, strict=True):
        layout = assign_offsets([Interval(*item) for item in case])
        assert made["offsets"] == dict(layout.offsets)
        assert (made["peak"], made["naive"], made["lowerBound"]) == (
            layout.peak, layout.naive, layout.lower_bound,
        )  # fmt: skip
        assert max(made["live"], default=0) == layout.lower_bound


def test_the_life_of_an_op() -> None:
    found = call(
        "biography.mjs",
        """
        const line = (text, key, origins) => ({ text, key, origins });
        const history = {
          chunks: [
            { lines: [line("%a = Relu %x", "a", ["n0"])] },
            { lines: [line("%a = map.relu %x", "a", ["n0"])], nodes: [{ key: "a" }] },
            { lines: [line("%b = Neg %x", "b", ["n1"])] },
            { lines: [line("%b = fused {", "b", ["n0", "n1"]), line("  %a = map.relu %x", "a", ["n0"])],
              nodes: [{ key: "a", group: "b" }] },
            { lines: [line("kernel @k0 {", "k0", ["n0", "n1"])] },
          ],
          first: [],
          passes: [
            { steps: [[[0, 0, [0]]], [[1, 0, [2]]]] },
            { steps: [[[0, 1, [1]]], []] },
            { steps: [[[0, 2, [3]]]] },
            { steps: [[[0, 1, [4]]]] },
          ],
        };
        const edit = { edits: 1, where: "" }, refused = { edits: 0, where: "a" };
        const records = [{ events: [edit, edit] }, { events: [edit, refused] }, { events: [edit] }, { events: [edit] }];
        const life = (key, origins) => M.biography(history, records, { key, origins })
          .map((e) => [e.at, e.event, e.how, e.exact]);
        return [life("a", ["n0"]), life("", ["n1"])];
    """,
    )
    assert found == [
        [[0, 0, "made", True], [1, 0, "changed", True], [1, 1, "refused", True],
         [2, 0, "grouped", True], [3, 0, "gone", True]],
        [[0, 1, "made", False], [2, 0, "changed", False], [3, 0, "changed", False]],
    ]  # fmt: skip
