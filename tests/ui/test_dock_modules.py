"""What the dock shows, as plain functions: lines side by side, words, memory, the life of an op."""

import json
import random
import shlex

from compiler.__main__ import assignments, parser
from compiler.ir.plan import Interval, assign_offsets
from compiler.messages import catalogue
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
            { lines: [line("%b = fused {", "b", ["n0", "n1"]),
                      line("  %a = map.relu %x", "a", ["n0"])],
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
        const edit = { edits: 1, where: "" };
        const refused = { edits: 0, where: "a" };
        const records = [[edit, edit], [edit, refused], [edit], [edit]]
          .map((events) => ({ events }));
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


def test_notes_of_passes_exist_and_are_no_refusals() -> None:
    found = call(
        "events.mjs",
        """
        const edit = { edits: 2, message: "cse.done" };
        const refused = { edits: 0, message: "cse.attributes" };
        const notes = [...M.NOTES].map((message) => ({ edits: 0, message }));
        return [[...M.NOTES], [edit, refused, ...notes].map(M.kindOf),
                M.refusals({ events: [edit, refused, ...notes] })];
    """,
    )
    assert isinstance(found, list)
    assert set(found[0]) <= catalogue("en").keys()
    assert found[1:] == [["edit", "refused", *["note"] * len(found[0])], 1]


def test_the_commands_are_those_of_the_command_line() -> None:
    asked = {
        "target": "cpu", "numerics": "strict", "pin": "batch=32, seq=8",
        "pipeline": "default,fuse{force=[\"it's a\"+b]},-cse",
    }  # fmt: skip
    given = f'return M.commands({json.dumps(asked)}, "my model.onnx", {{rows: 3, "a b": 4}});'
    found = call("commands.mjs", given)
    assert isinstance(found, list)
    assert [each["name"] for each in found] == ["explain", "passes", "compile", "measure"]
    for each in found:
        words = shlex.split(each["text"])
        assert words[:3] == ["python", "-m", "compiler"]
        options = parser().parse_args(words[3:])
        assert options.command == each["name"] and options.model == "my model.onnx"
        assert options.numerics == "strict" and options.pipeline == asked["pipeline"]
        assert assignments(options.pin, "--pin") == {"batch": 32, "seq": 8}
        if each["name"] == "measure":
            assert assignments(options.size, "--size") == {"rows": 3, "a b": 4}
    plain = {"target": "cpu", "numerics": "default", "pin": "", "pipeline": "default"}
    found = call("commands.mjs", f'return M.commands({json.dumps(plain)}, "mlp", {{}})[0].text;')
    assert found == "python -m compiler explain mlp"


def test_what_is_forced_is_not_forbidden() -> None:
    found = call(
        "decide.mjs",
        """
        const print = ({ base, items }) => [base, ...items.map((i) => [i.name, ...i.options])];
        const forced = M.overrule("default,fuse{forbid=[a+b,c+d]}", "", "force", "a+b");
        const full = M.overrule("import,cse", "import,cse,fuse{by=origin}", "forbid", "x+y");
        const freed = M.letBe("default,fuse{force=[a+b]}", "", "force", "a+b");
        const about = (a, b, selection, members = []) =>
          M.about({ a, b }, selection, members, (name) => [name[0]]);
        return [print(forced), print(full), print(freed),
          M.overruled("default,fuse{force=a+b}"), M.overruled("fuse{"),
          about("a1", "b1", null), about("a1", "b1", { key: "b1", origins: [] }),
          about("a1", "b1", { key: "g", origins: [] }, ["a1"]),
          about("a1", "b1", { key: "z", origins: ["a"] }),
          about("a1", "b1", { key: "z", origins: ["q"] })];
    """,
    )
    assert found == [
        ["default", ["fuse", ["forbid", ["c+d"]], ["force", ["a+b"]]]],
        ["", ["import"], ["cse"], ["fuse", ["by", "origin"], ["forbid", ["x+y"]]]],
        ["default"],
        {"force": ["a+b"], "forbid": []}, {"force": [], "forbid": []},
        "", "picked", "picked", "related", "",
    ]  # fmt: skip
