"""What the page Measure computes: sizes of a model, what is worth hearing, ticks in one unit."""

import json

import pytest

from tests.ui.test_modules import EXPLORER, run


def js(text: str) -> object:
    """The value of an expression, or of a block that returns it."""
    body = text if text.startswith("{") else f"{{ return {text.strip()}; }}"
    return run(f"""
        globalThis.fetch = async () => ({{ json: async () => ({{
          "figure.microseconds": "{{n}} us", "figure.milliseconds": "{{n}} ms",
          "figure.seconds": "{{n}} s" }}) }});
        const subject = await import(`${{EXPLORER}}/measure/subject.mjs`);
        const text = await import(`${{EXPLORER}}/text.mjs`);
        const {{ news }} = await import(`${{EXPLORER}}/measure/spoken.mjs`);
        console.log(JSON.stringify(await (async () => {body})()));
    """)


def test_the_symbols_of_a_graph_are_those_of_its_inputs() -> None:
    found = js("""subject.symbolsOfGraph([
        { name: "batch", low: 0, high: 2 ** 40, divisor: 1 },
        { name: "n", low: 7, high: 16, divisor: 6 },
        { name: "made", low: 0, high: null, divisor: 1 },
      ], [
        { kind: "input", outs: [{ bytes: "4*batch*n" }] },
        { kind: "op", outs: [{ bytes: "made" }] },
      ])""")
    assert found == [
        {"name": "batch", "usual": 4, "low": 0, "most": 2**31, "divisor": 1},
        {"name": "n", "usual": 12, "low": 7, "most": 16, "divisor": 6},
    ]


def test_a_pinned_size_of_a_sample_is_not_asked_for() -> None:
    found = js("""
        subject.symbolsOfSample({ sizes: { r: 2048, c: 64 }, maximum: { c: 128 } }, "r=8")""")
    assert found == [{"name": "c", "usual": 64, "low": 0, "most": 128, "divisor": 1}]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({}, {"sizes": {"r": 2048, "n": 12}}),
        ({"r": " 64 ", "n": "", "other": "1"}, {"sizes": {"r": 64, "n": 12}}),
        ({"r": "0"}, {"sizes": {"r": 0, "n": 12}}),
    ],
)
def test_a_size_is_what_was_given_or_the_usual_one(
    given: dict[str, str], wanted: dict[str, object]
) -> None:
    assert choose(given) == wanted


@pytest.mark.parametrize("given", [{"r": "4097"}, {"n": "13"}, {"n": "6"}, {"r": "-1"}, {"r": "x"}])
def test_what_is_no_size_is_named(given: dict[str, str]) -> None:
    found = choose(given)
    assert isinstance(found, dict)
    [(name, value)] = given.items()
    told = found["wrong"]["parameters"]
    assert found["wrong"]["message"] == "request.size.range"
    assert (told["name"], told["value"]) == (name, value)


def choose(given: dict[str, str]) -> object:
    return js(f"""subject.chosenSizes([
        {{ name: "r", usual: 2048, low: 0, most: 4096, divisor: 1 }},
        {{ name: "n", usual: 12, low: 7, most: 18, divisor: 6 }}], {given})""")


def test_an_address_has_the_sizes_that_were_given() -> None:
    assert js("""subject.printSizes({ r: " 064", c: "", s: "x", n: "8" })""") == "r=64,n=8"


def test_each_phase_is_heard_once_and_long_ones_each_quarter() -> None:
    heard = js("""{
        const isNews = news();
        const events = [
          ...[1, 1, 0].map((position) => ({ event: "queued", position })), { event: "started" },
          ...[["pass", 3], ["measure", 100]].flatMap(([phase, of]) =>
            Array.from({ length: of + 1 }, (_, done) => ({ event: "progress", phase, done, of })))];
        return events.filter(isNews).map((e) => [e.phase ?? e.position, e.done ?? 0]);
      }""")
    assert heard == [
        [1, 0], [0, 0], ["pass", 0],
        ["measure", 0], ["measure", 25], ["measure", 50], ["measure", 75], ["measure", 100],
    ]  # fmt: skip


def test_an_axis_has_one_unit() -> None:
    found = js("""{
        await text.speak("vi", "http://localhost/");
        return [[0, 25, 50], [0, 0.5], [0, 500, 1500]].map((ticks) =>
          ticks.map(text.durations(ticks.at(-1))));
      }""")
    assert found == [["0 ms", "25 ms", "50 ms"], ["0 us", "500 us"], ["0 s", "0,5 s", "1,5 s"]]


def test_names_are_text_in_markdown_too() -> None:
    """What a file calls its symbols makes no picture, no link and no element."""
    name = "![x](http://evil.example/x.png) <img> $x$ `c` | *b*"
    found = run(f"""
        globalThis.fetch = async () => ({{ json: async () => ({{}}) }});
        const {{ markdown }} = await import(`${{EXPLORER}}/measure/exports.mjs`);
        const name = {json.dumps(name)};
        const conditions = {{ sizes: {{ [name]: "n" }} }};
        const report = {{ model: name, pipeline: "default`", conditions }};
        console.log(JSON.stringify(
          markdown(report, "lead", [{{ title: "bytes", head: ["run"], rows: [[name]] }}])));
    """)
    escaped = (
        r"!\[x\](http://evil.example/x.png) \<img\> \$x\$ \`c\` \| \*b\*"
    )
    text = str(found)
    assert text.count(escaped) == 3, "title, condition and cell"
    assert "![x]" not in text and "<img>" not in text and "`default'`" in text


@pytest.mark.parametrize("language", ["vi", "en"])
def test_conditions_with_figures_in_them_are_said_in_the_language(language: str) -> None:
    told = {
        "device": "cpu", "inputs": "made, seed 7", "bytes": "main memory", "cache": "warm",
        "cache_model": "LRU, 32 MiB, 16 ways, write-allocate",
        "reference": "onnx ReferenceEvaluator, declared (not in float64: TypeError: no)",
        "counters": "the driver keeps its counters closed (denied): an administrator opens them",
    }  # fmt: skip
    sentences = (EXPLORER.parent / "translations" / f"{language}.json").read_text("utf-8")
    found = run(f"""
        globalThis.fetch = async () => ({{ json: async () => ({sentences}) }});
        globalThis.document = {{ createElement: () => {{ throw new Error("as it is"); }} }};
        const text = await import(`${{EXPLORER}}/text.mjs`);
        await text.speak("{language}", "http://localhost/");
        const {{ rows }} = await import(`${{EXPLORER}}/measure/conditions.mjs`);
        console.log(JSON.stringify(rows({json.dumps(told)})));
    """)
    assert isinstance(found, list) and len(found) == len(told)
    said = " | ".join(value for _, value in found)
    for part in ("7", "32 MiB", "16", "(not in float64: TypeError: no)", "(denied)"):
        assert part in said
    assert "{" not in said
    if language == "vi":
        for word in ("seed", "ways", "allocate", "declared", "driver", "main"):
            assert word not in said
