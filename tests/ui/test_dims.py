"""Bytes as the page works them out of the compiler's texts, held to the compiler's own numbers."""

import json
from dataclasses import replace

import pytest

from compiler.measure.bytes import StepBytes, step_bytes, total_floor
from tests.measure.models import NAMES, traced
from tests.ui.test_modules import run


def page(script: str) -> object:
    return run(f"""
        const D = await import(`${{EXPLORER}}/dims.mjs`);
        console.log(JSON.stringify({script}));
    """)


def page_floor(steps: tuple[StepBytes, ...], sizes: dict[str, int]) -> object:
    told = json.dumps([step.to_json() for step in steps])
    return page(f"D.totalFloor({told}, {json.dumps(sizes)})")


@pytest.mark.parametrize("size", [0, 1, 7])
def test_the_page_and_the_compiler_count_alike(size: int) -> None:
    plans = [step_bytes(traced(name)[0].final) for name in NAMES]
    every = [(p, dict.fromkeys({s for b in p for d in (b.floor, b.domain) if d is not None
                                for s in d.symbols()}, size)) for p in plans]  # fmt: skip
    told = [[[step.to_json() for step in plan], sizes] for plan, sizes in every]
    found = page(f"{json.dumps(told)}.map(([steps, sizes]) => D.totalFloor(steps, sizes).bytes)")
    assert found == [total_floor(plan, sizes) for plan, sizes in every]


def test_where_nothing_is_to_do_nothing_moves() -> None:
    steps = step_bytes(traced("five_op_chain")[0].final)
    assert page_floor(steps, {"r": 0, "c": 2048}) == {"bytes": 0, "exact": True}
    assert page_floor(steps, {"r": 2048, "c": 0}) == {"bytes": 0, "exact": True}


def test_a_bound_is_known_as_one_and_a_part_that_is_unknown_leaves_no_sum() -> None:
    (step,) = step_bytes(traced("five_op_chain")[0].final)
    bound, unknown = replace(step, exact=False), replace(step, reads=None)
    sizes = {"r": 2, "c": 3}
    assert page_floor((step, bound), sizes) == {"bytes": 2 * (12 * 6 + 8 * 3), "exact": False}
    assert page_floor((step, bound), {"r": 0, "c": 3}) == {"bytes": 0, "exact": True}
    assert page_floor((step, unknown), sizes) == {"bytes": None, "exact": False}
    assert page_floor((step,), {"r": 2}) == {"bytes": None, "exact": False}


def test_a_text_that_is_no_dimension_is_an_error() -> None:
    said = """["2*r+1", null, "0 + ?"].map((text) => {
        try { return D.evaluate(text, {r: 3}); } catch (error) { return error.name; }
    })"""
    assert page(said) == [7, None, "SyntaxError"]


def test_a_dimension_may_be_called_as_objects_call_their_own() -> None:
    """`{}` has a `constructor`, and takes no number as its `__proto__`."""
    names = ["__proto__", "constructor", "toString", "hasOwnProperty"]
    found = run(f"""
        const D = await import(`${{EXPLORER}}/dims.mjs`);
        const {{ Compile }} = await import(`${{EXPLORER}}/explore/compile.mjs`);
        const {{ readSizes }} = await import(`${{EXPLORER}}/explore/page.mjs`);
        const S = await import(`${{EXPLORER}}/measure/subject.mjs`);
        const names = {json.dumps(names)};
        const given = readSizes(names.slice(0, 2).map((name, k) => `${{name}}=${{k + 5}}`).join());
        const symbols = names.map((name) => ({{ name, low: 0 }}));
        const made = new Compile({{}}, {{ symbols }}, null, "", null);
        const sizes = made.sizes(given, undefined);
        const asked = names.map((name) => ({{ name, usual: 3, low: 0, most: 99 }}));
        const one = Object.fromEntries([["__proto__", "8"]]);
        console.log(JSON.stringify([
          names.map((name) => D.evaluate(`2*${{name}}+1`, sizes)),
          names.map((name) => D.evaluate(name, {{}})), Object.entries(sizes),
          Object.entries(S.chosenSizes(asked, one).sizes), S.printSizes(one),
          S.symbolsOfSample({{ sizes: sizes, maximum: {{}} }}, "").map(({{ most }}) => most),
        ]));
    """)
    assert found == [
        [11, 13, 9, 9], [None] * 4, [list(p) for p in zip(names, (5, 6, 4, 4), strict=True)],
        [list(p) for p in zip(names, (8, 3, 3, 3), strict=True)], "__proto__=8", [2**31] * 4,
    ]  # fmt: skip
