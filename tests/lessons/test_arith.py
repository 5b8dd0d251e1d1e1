"""The arithmetic of lessons, in Python and in JavaScript: one table, the same values."""

import json
from pathlib import Path
from typing import Any

import pytest

from lessons.arith import DEEPEST, LONGEST, ArithmeticProblem, names, parse, value_of
from tests.ui.test_modules import run

TABLE: dict[str, Any] = json.loads(
    (Path(__file__).parent / "arithmetic.json").read_text(encoding="utf-8")
)
DEEP = ["(" * DEEPEST + "1" + ")" * DEEPEST, "-" * (DEEPEST + 1) + "1", "1+" * LONGEST + "1"]


@pytest.mark.parametrize("text", TABLE["values"])
def test_values(text: str) -> None:
    assert value_of(text, TABLE["sizes"]) == TABLE["values"][text]


@pytest.mark.parametrize("text", [*TABLE["wrong"], *DEEP], ids=range(len([*TABLE["wrong"], *DEEP])))
def test_what_is_no_expression_is_refused(text: str) -> None:
    with pytest.raises(ArithmeticProblem):
        parse(text)


def test_names_are_found_in_order() -> None:
    assert list(names(parse("a.b / (c - a.b) ** -d"))) == ["a.b", "c", "a.b", "d"]


def test_javascript_gives_the_same() -> None:
    found = run(f"""
        const {{ parse, valueOf, names }} = await import(`${{EXPLORER}}/lesson/arith.mjs`);
        const table = {json.dumps(TABLE)};
        const values = Object.keys(table.values).map((text) => valueOf(text, table.sizes));
        const refused = [...table.wrong, ...{json.dumps(DEEP)}].map((text) => {{
          try {{ parse(text); return text; }} catch {{ return null; }}
        }}).filter((text) => text !== null);
        const found = names(parse("a.b / (c - a.b) ** -d"));
        console.log(JSON.stringify({{ values, refused, names: found }}));
    """)
    assert found == {
        "values": list(TABLE["values"].values()), "refused": [], "names": ["a.b", "c", "a.b", "d"],
    }  # fmt: skip
