"""What the panes draw, as plain functions: memory, groups, merged difference, scenes, search."""

import json
from pathlib import Path

from compiler.ir.plan import Interval, Plan, assign_offsets
from compiler.listings import plan_listing
from sample_models import sample
from tests.traces import NAMES, compiled, history_of
from tests.ui.histories import film, node, output
from tests.ui.test_modules import run


def call(modules: str, script: str) -> object:
    """The JSON of a function body over modules of the explorer, by their names."""
    imports = "\n".join(
        f"const {name} = await import(`${{EXPLORER}}/explore/{name}.mjs`);"
        for name in modules.split()
    )
    return run(f"""
        globalThis.document = {{ createElement: () => ({{ textContent: "", setAttribute() {{}},
          append(...parts) {{ this.textContent += parts.join(""); }} }}) }};
        globalThis.fetch = async () => ({{ json: async () => ({{}}) }});
        await (await import(`${{EXPLORER}}/text.mjs`)).speak("en", "http://localhost/");
        {imports}
        console.log(JSON.stringify((() => {{ {script} }})()));
    """)


# ---- memory --------------------------------------------------------------------------------------


def test_memory_of_every_sample_is_the_plans(tmp_path: Path) -> None:
    """Offsets at the sample's sizes are the allocator's; before there is a plan, what the graph
    tells needs as much memory as the plan's buffers each in a place of their own."""
    plans: dict[str, Plan] = {}
    given: dict[str, object] = {}
    for name in NAMES:
        final = compiled(name)[0].records[-1].after
        assert final.plan is not None
        plans[name] = final.plan
        given[name] = [history_of(name), plan_listing(final), dict(sample(name).sizes)]
    path = tmp_path / "given.json"
    path.write_text(json.dumps(given), encoding="utf-8")
    found = call(
        "history liveranges",
        f"""
        const {{ readFileSync }} = process.getBuiltinModule("node:fs");
        const given = JSON.parse(readFileSync({json.dumps(str(path))}, "utf8"));
        return Object.fromEntries(Object.entries(given).map(([name, [document, plan, sizes]]) => {{
          const film = new history.History(document);
          const p = document.passes.findIndex((pass) => pass.name === "plan-memory");
          const at = (k) => ({{ state: film.drawn(p, k) }});
          const before = liveranges.memoryOf(at(0), plan, sizes);
          const after = liveranges.memoryOf(at(document.passes[p].steps.length), plan, sizes);
          return [name, [before, after].map((m) => ({{ ...m, buffers: m.buffers.map((b) => [b.name, b.at]) }}))];
        }}));""",  # noqa: E501
    )
    assert isinstance(found, dict)
    for name, plan in plans.items():
        sizes = dict(sample(name).sizes)
        arena = [b for b in plan.buffers if b.kind == "arena"]
        layout = assign_offsets(
            [Interval(b.name, b.size.evaluate(sizes), b.start, b.stop) for b in arena]
        )
        before, after = found[name]
        assert after["packed"] and not before["packed"]
        assert dict(after["buffers"]) == dict(layout.offsets)
        assert after["height"] == layout.peak
        for side in (before, after):
            assert side["naive"] == layout.naive
            assert side["lowerBound"] == layout.lower_bound
            assert side["steps"] == len(plan.steps)
        assert before["height"] == layout.naive
    assert any(found[name][1]["height"] < found[name][0]["height"] for name in found)


# ---- groups, merged difference, scenes -----------------------------------------------------------

CHAIN = [node("x", "input"), node("a", "map.exp", "x"), node("b", "map.neg", "a"),
         node("y", "map.abs", "b"), output("y", "y")]  # fmt: skip
SHORT = [node("x", "input"), node("a", "map.log", "x"), node("z", "map.sin", "a"),
         node("y", "map.abs", "z"), output("y", "y")]  # fmt: skip


def states() -> str:
    """A script that makes `before` and `after` of two states, and places for all their nodes."""
    document = film(CHAIN, SHORT)
    return f"""
        const film = new history.History({json.dumps(document)});
        const [before, after] = [film.drawn(0, 0), film.drawn(0, 1)];
        const keys = ["x", "a", "b", "z", "y", "output y"];
        const places = {{ groups: [], overview: null, routes: new Map(),
          boxes: Object.fromEntries(keys.map((key, k) => [key, [0, 100 * k, 60, 40]])) }};
        const view = {{ marks: new Map(), edgeMarks: null, sizes: {{}}, most: 16, selection: null, hover: null,
          hits: new Set(), closed: new Set(), heat: {{ values: new Map(), most: 0 }} }};
    """  # noqa: E501


def test_a_merged_difference_holds_both_sides() -> None:
    found = call(
        "history merged",
        states()
        + """
        const { state, marks, edges } = merged.mergeStates(before, after);
        return [state.nodes.map((n) => n.key).sort(), Object.fromEntries(marks),
          state.edges.map((e) => [e.from, e.to, merged.edgeMark(edges, e)]).sort()];
    """,
    )
    assert found == [
        ["a", "b", "output y", "x", "y", "z"],
        {"x": "same", "a": "changed", "z": "added", "y": "changed", "output y": "same",
         "b": "removed"},
        [["a", "b", "removed"], ["a", "z", "added"], ["b", "y", "removed"], ["x", "a", "same"],
         ["y", "output y", "same"], ["z", "y", "added"]],
    ]  # fmt: skip


def test_a_closed_group_is_one_box_that_keeps_its_edges() -> None:
    found = call(
        "history scene groups",
        states()
        + """
        places.groups = [{ key: "g", label: "block", members: ["a", "b", "gone"] }];
        const open = scene.sceneOf(before, places, view);
        const closed = scene.sceneOf(before, places, { ...view, closed: new Set(["group g"]) });
        return [open, closed].map((s) => [s.nodes.map((n) => n.key), s.edges.map((e) => [e.from, e.to])])
          .concat([closed.nodes.find((n) => n.group).moved, closed.nodes.find((n) => n.group).bars]);
    """,  # noqa: E501
    )
    assert isinstance(found, list)
    (nodes, edges), (fewer, rest), moved, bars = found
    assert nodes == ["x", "a", "b", "y", "output y"] and len(edges) == 4
    assert sorted(fewer) == ["group g", "output y", "x", "y"]
    assert rest == [["x", "group g"], ["group g", "y"], ["y", "output y"]]
    assert moved == {"reads": 16, "writes": 16} and bars == [1, 1]


def test_an_overview_shows_groups_in_place_of_nodes() -> None:
    found = call(
        "history scene",
        states()
        + """
        const groups = [{ key: "§0", label: "first", members: ["x", "a"] },
          { key: "§1", label: "second", members: ["b", "y", "output y"] }];
        const big = { boxes: { "§0": [0, 0, 90, 50], "§1": [0, 80, 90, 50] }, groups: [],
          overview: { groups }, routes: new Map([["§0\\u0000§1", [1, 2, 3, 4]]]) };
        const made = scene.sceneOf(before, big, { ...view, hits: new Set(["b"]) });
        return [made.nodes.map((n) => [n.key, n.x, n.y, n.hit]), made.edges.map((e) => [e.from, e.to, e.points])];
    """,  # noqa: E501
    )
    assert found == [
        [["group §0", 0, 0, False], ["group §1", 0, 80, True]],
        [["group §0", "group §1", [1, 2, 3, 4]]],
    ]


def test_values_that_no_longer_reach_memory_are_ghost_edges_with_their_bytes() -> None:
    inside = [node("a", "map.exp", "x", group="y"), node("y", "map.abs", "a", group="y")]
    document = film([node("x", "input"), *inside, output("y", "y")])
    group = {"key": "y", "ins": ["x"], "outs": [{"name": "y", "type": "f32[4]", "bytes": "16"}]}
    document["chunks"][1]["groups"] = [group]
    found = call(
        "history scene",
        states()
        + f"""
        const fused = history.expand({json.dumps(document["chunks"])}, {json.dumps(document["first"])});
        const made = scene.sceneOf(fused, places, view);
        return [made.edges.map((e) => [e.from, e.to, e.ghost, e.text]), made.groups.map((g) => [g.label, g.bars])];
    """,  # noqa: E501
    )
    assert found == [
        [["x", "a", False, ""], ["a", "y", True, "16 B"], ["y", "output y", False, ""]],
        [["fused y", [1, 1]]],
    ]


def test_two_scenes_meet_where_the_selection_came_from() -> None:
    found = call(
        "scene",
        """
        const box = (key, x, y, origins) => ({ key, x, y, w: 10, h: 10, of: { origins } });
        const first = { nodes: [box("a", 0, 0, ["n0"]), box("b", 100, 0, ["n1"]), box("c", 0, 900, ["n2"])] };
        const second = { nodes: [box("a", 50, 50, ["n0"]), box("d", 300, 50, ["n1", "n3"])] };
        const seen = (n) => n.y < 500;
        return [scene.meeting(first, second, { origins: ["n1"] }, seen), scene.meeting(first, second, null, seen),
          scene.meeting(first, second, { origins: ["n2"] }, seen),
          scene.meeting({ nodes: [] }, second, null, seen)];
    """,  # noqa: E501
    )
    middle = [{"x": 55, "y": 5}, {"x": 180, "y": 55}]
    assert found == [[{"x": 105, "y": 5}, {"x": 305, "y": 55}], middle, middle, None]


def test_search_finds_each_value_once_and_the_graph_first() -> None:
    found = call(
        "history search",
        states()
        + """
        const hits = (text) => search.find(text, before, after).map((hit) => [hit.key, hit.node !== null]);
        return [hits("map.abs"), hits("NEG"), hits(" "), hits("nowhere")];
    """,  # noqa: E501
    )
    assert found == [[["y", True]], [["b", True]], [], []]


def test_panes_follow_the_unit_of_the_pass() -> None:
    passes = [
        {"name": p.name, "level": p.level, "unit": p.unit} for p in compiled("mlp")[0].records
    ]
    found = call(
        "panes",
        f"return Object.fromEntries({json.dumps(passes)}.map((p) => [p.name, panes.followed(p)]));",
    )
    assert isinstance(found, dict)
    assert {name: found[name] for name in ("import", "fuse", "decompose")} == dict.fromkeys(
        ("import", "fuse", "decompose"), "graph"
    )
    assert (found["lower-loops"], found["order-steps"], found["plan-memory"], found["emit"]) == (
        "kernels", "memory", "memory", "source",
    )  # fmt: skip


# ---- where the camera stands ---------------------------------------------------------------------


def test_a_box_is_shown_whole_or_from_its_start() -> None:
    found = call(
        "sight",
        """
        const room = [440, 300];
        const seen = ({ x, y, k }, b) => [b.x * k + x, b.y * k + y, (b.x + b.w) * k + x, (b.y + b.h) * k + y];
        const small = { x: -50, y: 20, w: 300, h: 320 }, tall = { x: 0, y: 0, w: 300, h: 9000 };
        const wide = { x: 0, y: 0, w: 4000, h: 900 }, held = { x: 2500, y: 0, w: 80, h: 50 };
        const low = { x: 100, y: 4000, w: 80, h: 50 };
        const fits = sight.readable(small, small, room);
        const start = sight.startOf(tall, { x: 100, y: 0, w: 80, h: 50 }, room, true);
        return {
          fits: [seen(fits, small), fits.k >= sight.READABLE],
          tight: sight.readable(tall, small, room) !== null, none: sight.readable(tall, tall, room),
          start: [seen(start, tall), start.k], across: seen(sight.startOf(wide, held, room, true), held),
          middle: seen(sight.startOf(tall, low, room, false), low),
          bottom: seen(sight.startOf(tall, { ...low, y: 8950 }, room, false), tall),
          resized: sight.resized({ x: 10, y: 20, k: 2 }, [440, 300], [400, 340]),
        };""",  # noqa: E501
    )
    assert isinstance(found, dict)
    (x0, y0, x1, y1), readable = found["fits"]
    assert readable and x0 >= 10 and y0 >= 10 and x1 <= 430 and y1 <= 290
    assert found["tight"] and found["none"] is None
    (x0, y0, x1, _), k = found["start"]
    assert y0 == 10 and k == 1, "from the top, at a scale at which it reads"
    assert x0 + x1 == 440, "as wide as there is room for: in the middle"
    x0, y0, x1, _ = found["across"]
    assert (x0 + x1) / 2 == 220 and y0 == 10, "too wide: what is held stands in the middle"
    assert sum(found["middle"][1::2]) / 2 == 150
    assert found["bottom"][3] == 290, "no empty space below the end"
    assert found["resized"] == {"x": -10, "y": 40, "k": 2}


# ---- overlays ------------------------------------------------------------------------------------


def test_a_measured_time_is_that_of_the_step_which_makes_a_value() -> None:
    ops = [
        node("x", "input"),
        node("a", "launch", "x", kernel="k0", origins=["n0"]),
        node("b", "launch", "a", kernel="k0", origins=["n0", "n1"]),
        node("c", "map.exp", "b", origins=["n2"]),
        node("d", "map.exp", "c", origins=["n2"]),
    ]
    plan = {"steps": [{"kind": "bind", "name": "n", "values": []}]}
    plan["steps"] += [{"kind": "kernel", "name": "k0", "values": [v]} for v in "ab"]
    plan["steps"].append({"kind": "kernel", "name": "k1", "values": ["d"]})
    timed = [("k0", 1.0, ["n0"]), ("k0", 2.0, ["n0", "n1"]), ("k1", 4.0, ["n2"])]
    steps = [{"name": name, "p50": p50, "origins": origins} for name, p50, origins in timed]
    report = {
        "per_kernel": {"fused": steps, "op_by_op": [{**steps[0], "p50": 9.0}]},
        "conditions": {"device": "cpu", "cpu": "a CPU", "repetitions": 30, "sizes": {"r": 8}},
    }
    found = call(
        "history overlay",
        f"""
        const {{ chunks, first }} = {json.dumps(film(ops))}, report = {json.dumps(report)};
        const drawn = history.expand(chunks, first);
        const ask = (sizes, plan, variant) => {{
          const made = overlay.overlay("time", drawn, {{ sizes, plan, report, variant }});
          return [[...made.values], [...made.within], made.most, made.conditions, made.missing !== ""];
        }};
        const plan = {json.dumps(plan)};
        return [ask({{ r: 8 }}, plan), ask({{ r: 9 }}, null), ask({{}}, null, "op_by_op"), ask({{}}, null, "")];""",  # noqa: E501
    )
    assert isinstance(found, list)
    values, within, most, conditions, _ = found[0]
    assert dict(values) == {"a": 1, "b": 2, "c": 4, "d": 4} and most == 4
    assert dict(within) == {"c": "k1", "d": "k1"}, "both run in it"
    assert conditions == "a CPU, repetitions 30, r 8"
    by_origins, _, _, other, _ = found[1]
    assert by_origins == values, "before there is a plan"
    assert other.startswith("a CPU, repetitions 30, r 8. ") and len(other) > len(conditions) + 10
    assert dict(found[2][0]) == {"a": 9, "b": 9}
    assert found[3] == [[], [], 0, "", True], "another pipeline was not measured"


# ---- names and figures that lie on nothing -------------------------------------------------------


def test_a_name_stands_in_its_bar_beside_it_or_shortened_in_it() -> None:
    bars = [
        {"name": "wide", "left": 100, "top": 0, "wide": 60, "tall": 30},
        {"name": "narrow_and_long", "left": 100, "top": 40, "wide": 40, "tall": 30},
        {"name": "low", "left": 100, "top": 80, "wide": 200, "tall": 3},
        {"name": "at_the_edge", "left": 350, "top": 110, "wide": 50, "tall": 20},
        {"name": "hemmed_in", "left": 160, "top": 140, "wide": 40, "tall": 20},
        {"name": "before", "left": 70, "top": 140, "wide": 88, "tall": 20},
        {"name": "behind", "left": 202, "top": 140, "wide": 150, "tall": 20},
        {"name": "hidden", "left": 160, "top": 161, "wide": 20, "tall": 2},
        {"name": "too", "left": 182, "top": 161, "wide": 200, "tall": 2},
    ]
    found = call(
        "liveranges",
        f"return liveranges.placeNames({json.dumps(bars)}, 68, 400)"
        ".map((p) => p && [p.text, p.beside, p.x]);",
    )
    assert isinstance(found, list)
    assert found[:2] == [["wide", False, 104], ["narrow_and_long", True, 144]]
    assert found[2] == ["low", True, 304]
    assert found[3][:2] == ["at_the_edge", True] and found[3][2] < 350 - 11 * 7
    assert found[4] == ["hem…", False, 164], "between two others there is no place"
    assert found[7] is None, "a bar that is thin and hemmed in tells its name when it is pointed at"


def test_names_beside_bars_lie_on_no_bar_and_on_no_other_name() -> None:
    bars = [
        {"name": f"value_{k}", "left": 70 + 20 * (k % 9), "top": 13 * k, "wide": 22, "tall": 5}
        for k in range(40)
    ]
    found = call("liveranges", f"return liveranges.placeNames({json.dumps(bars)}, 68, 400);")
    assert isinstance(found, list)
    boxes = [
        (p["x"], p["y"] - 10, p["x"] + 7.8 * len(p["text"]), p["y"] + 2) for p in found if p
    ]
    bodies = [(b["left"], b["top"], b["left"] + b["wide"], b["top"] + b["tall"]) for b in bars]
    assert len(boxes) > 10
    for k, (x0, y0, x1, y1) in enumerate(boxes):
        for a0, b0, a1, b1 in boxes[:k] + bodies:
            assert x1 <= a0 or a1 <= x0 or y1 <= b0 or b1 <= y0


def test_the_figure_of_a_group_is_clear_of_its_title() -> None:
    found = call(
        "canvas",
        """
        const said = [], figures = [];
        const context = new Proxy({}, { get: (_, name) => ({
          measureText: (text) => ({ width: 7 * text.length }),
          fillText: (text, x, y) => said.push([text, y]),
          roundRect: (x, y, w, h) => { if (h === 15) figures.push(y + h); },
        }[name] ?? (() => {})), set: () => true });
        const group = { x: 0, y: 100, w: 80, h: 60, label: "fused T2", figure: "48.01 MiB" };
        const palette = new Proxy({}, { get: () => "" });
        const seen = { x0: 0, y0: 0, x1: 500, y1: 500 };
        canvas.paintScene(context, { nodes: [], edges: [], groups: [group] }, palette, 1, seen);
        return { title: said.find(([text]) => text.includes("fused T2"))[1], figures };
        """,
    )
    assert isinstance(found, dict)
    (bottom,) = found["figures"]
    assert bottom <= found["title"] - 12, "above the letters of a 12 px title"
