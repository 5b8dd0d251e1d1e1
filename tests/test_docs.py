"""The documentation says what is so: its texts parse, its tables are those of the code."""

import argparse
import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import compiler
from compiler.__main__ import parser
from compiler.driver import trace_model
from compiler.history import history
from compiler.ir.edits import Edit
from compiler.ir.loops import ARG_MODES, AXIS_KINDS, BINARY, COMBINE, COMPARE, UNARY
from compiler.ir.parser import parse_kernel, parse_module
from compiler.ir.plan import BUFFER_KINDS
from compiler.ir.printer import print_kernel, print_module
from compiler.ir.verify import ROWS, verify
from compiler.listings import BINS, kernel_listings, param_listing, plan_listing
from compiler.measure.cold import LOAD_PHASES, PHASES
from compiler.measure.drift import with_drift
from compiler.measure.report import explanation
from compiler.ops.table import OPERATORS
from compiler.pipeline import DEFAULT, OP_BY_OP, PASSES, parse_pipeline, print_pipeline
from compiler.worker import Options, error_json
from sample_models import sample
from tests.pages import read, table, words
from tests.test_arrows import MAY
from tests.traces import history_of
from ui import layout as room
from ui.grouping import BOXES

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = sorted((ROOT / "docs").glob("*.md"))
FORCED = "default,partition-fallback{force=[b]}"


def blocks(text: str, language: str = "") -> list[str]:
    """The fenced blocks of a language, without their fences."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def named(cell: str) -> list[str]:
    """The names in the first braces of a cell: `{a, b}`."""
    return re.findall(r"\w+", re.findall(r"\{([^}]*)\}", cell)[0])


# ---- ir.md ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", blocks(read("ir.md"), "ir"))
def test_texts_parse_verify_and_print_again(text: str) -> None:
    if text.startswith("kernel"):
        assert print_kernel(parse_kernel(text)).strip() == text.strip()
    else:
        module = parse_module(text)
        verify(module)
        assert print_module(module).strip() == text.strip()


def test_every_level_has_a_text() -> None:
    modules = [parse_module(t) for t in blocks(read("ir.md"), "ir") if t.startswith("module")]
    assert {m.level for m in modules} == {"onnx", "tensor", "loops", "source"}
    assert any(m.plan for m in modules) and any(m.guards for m in modules)


def test_tensor_table() -> None:
    rows = table(read("ir.md"), "Kind")
    assert sorted(words(r[0])[0] for r in rows) == sorted(ROWS)
    for kind, operands, attributes, _ in rows:
        row = ROWS[words(kind)[0]]
        required, _, optional = attributes.partition("(")
        assert set(words(required)) == set(row.required), kind
        assert set(words(optional)) == set(row.optional), kind
        assert ("(more)" in attributes) == row.open, kind
        low, high = row.operands
        wanted = str(low) if low == high else "1 or 2" if high == 2 else "any"
        assert operands == wanted, kind


def test_vocabulary() -> None:
    rows = {name: set(words(cell)[0].split()) for name, cell in table(read("ir.md"), "Vocabulary")}
    assert rows == {
        "functions of one operand": UNARY,
        "functions of two operands": BINARY,
        "comparisons": COMPARE,
        "accumulator updates": COMBINE,
        "axis kinds": set(AXIS_KINDS),
        "argument modes": set(ARG_MODES),
        "buffer kinds": set(BUFFER_KINDS),
    }


def test_edits() -> None:
    rows = [words(r[0])[0] for r in table(read("ir.md"), "Edit")]
    assert rows == [kind.__name__ for kind in Edit.__args__]


# ---- architecture.md -----------------------------------------------------------------------------


def test_arrows() -> None:
    rows = {words(room)[0]: set(words(may)) for room, may in table(read("architecture.md"), "Room")}
    assert rows == MAY


def test_rooms_exist() -> None:
    named = [w for r in table(read("architecture.md"), "Where") for w in words(r[0])]
    assert all((ROOT / name).exists() for name in named)
    there = {f"compiler/{p.name}" for p in (ROOT / "compiler").iterdir() if p.name[0] != "_"}
    assert there <= {name.rstrip("/") for name in named}


# ---- passes.md -----------------------------------------------------------------------------------


def test_every_pass_has_a_section_and_every_section_a_pass() -> None:
    sections = re.findall(r"^### `(.*)`$", read("passes.md"), re.MULTILINE)
    assert sections == [p.name for p in PASSES]


def test_pass_table() -> None:
    rows = table(read("passes.md"), "Pass")
    assert [words(r[0])[0] for r in rows] == [p.name for p in PASSES]
    for p, (_, options, required, inexact, unit, after) in zip(PASSES, rows, strict=True):
        assert words(options) == [f.name for f in fields(p)]
        assert (required, inexact) == ("yes" * p.required, "yes" * p.inexact)
        assert unit == p.unit
        assert words(after) == list(p.after)


def test_options_are_told_in_their_section() -> None:
    sections = re.split(r"^### ", read("passes.md"), flags=re.MULTILINE)[1:]
    for p, text in zip(PASSES, sections, strict=True):
        for option in fields(p):
            assert re.search(rf"`(\w+{{)?{option.name}\b", text), (p.name, option.name)


def test_orders() -> None:
    shown = [text.replace("\n", "") for text in blocks(read("passes.md"), "pipeline")]
    assert shown == [print_pipeline(DEFAULT), print_pipeline(OP_BY_OP)]


def test_operators() -> None:
    (shown,) = blocks(read("passes.md"), "operators")
    assert shown.split() == sorted(o.name for o in OPERATORS)


# ---- cli.md, and every command in the documentation ----------------------------------------------


def subcommands() -> Mapping[str, argparse.ArgumentParser]:
    for action in parser()._actions:
        if isinstance(action, argparse._SubParsersAction):
            return action.choices
    raise AssertionError("the command line has no commands")


def test_options() -> None:
    told: dict[str, set[str]] = {name: set() for name in subcommands()}
    for option, commands, _ in table(read("cli.md"), "Option"):
        every = commands == "all but worker"
        for name in told if every else commands.split():
            if not (every and name == "worker"):
                told[name].add(words(option)[0].split()[0])
    there = {
        name: {o for o in sub._option_string_actions if o not in ("-h", "--help")}
        for name, sub in subcommands().items()
    }
    assert told == there


def test_every_command_has_a_section() -> None:
    sections = re.findall(r"^## (.*)$", read("cli.md"), re.MULTILINE)
    assert sorted(sections) == sorted(["Options", *subcommands()])


def command_lines() -> Iterator[str]:
    for page in (README, *PAGES):
        for line in page.read_text(encoding="utf-8").splitlines():
            found = re.match(r"(?:\$ )?python -m compiler (\w+(?: .*)?)$", line)
            if found:
                yield found[1]


@pytest.mark.parametrize("line", sorted(set(command_lines())))
def test_commands_are_understood(line: str) -> None:
    args = parser().parse_args(shlex.split(line))
    if getattr(args, "pipeline", None):
        parse_pipeline(args.pipeline)
    if hasattr(args, "model"):
        assert sample(args.model)


# ---- json.md -------------------------------------------------------------------------------------


@cache
def diamond() -> Any:
    return compiler.compile(sample("diamond").path, pipeline=FORCED)


def keys_of(rows: list[list[str]], key: str) -> set[str]:
    return set(named(next(text for name, text in rows if f"`{key}`" in name)))


def test_keys_of_a_compile() -> None:
    rows = table(read("json.md"), "Key")
    built = diamond()
    found = built.trace.to_json()
    told = [w.partition("[")[0] for r in rows for w in words(r[0]) if "." not in w]
    assert told == list(found)
    for key in ("nodes", "symbols", "passes", "decisions", "breaks"):
        assert keys_of(rows, f"{key}[]") == set(found[key][0]), key
    events = [e for p in found["passes"] for e in p["events"]]
    assert keys_of(rows, "passes[].events[]") == set(events[0])
    drifts = [p["drift"] for p in with_drift(built).to_json()["passes"]]
    assert keys_of(rows, "passes[].drift") == set(next(d for d in drifts if d))
    added = {row[0]: named(row[1]) for row in table(read("json.md"), "Answer")}
    more = explanation(built)
    assert added["`explain --json`, and the trace that a worker writes"][:4] == list(more)
    assert all(list(v) == ["op_by_op", "fused"] for v in more.values())


def test_keys_of_a_measurement() -> None:
    text = read("json.md")
    rows = table(text[text.index("## From a measurement") :], "Key")
    found = compiler.measure_model(
        sample("diamond").path, pipeline=FORCED, sizes={"rows": 3, "cols": 5}, repetitions=2,
        cold=False,
    ).to_json()  # fmt: skip
    told = [w for r in rows for w in words(r[0]) if "." not in w]
    assert sorted(told) == sorted(found)
    for key in ("latency", "bytes", "bandwidth", "launches", "error", "per_kernel", "memory",
                "conditions"):  # fmt: skip
        assert keys_of(rows, key) == set(found[key]), key
    for key in ("latency", "bytes", "error"):
        assert keys_of(rows, f"{key}.fused") == set(found[key]["fused"]), key
    assert keys_of(rows, "per_kernel.fused[]") == set(found["per_kernel"]["fused"][0])
    assert keys_of(rows, "cold_start") == {*PHASES, "total", "load"}
    assert keys_of(rows, "cold_start.load") == {*LOAD_PHASES, "total"}


def every(rows: Iterable[Any]) -> list[str]:
    """The keys that any of the rows has."""
    return sorted({key for row in rows for key in row})


def test_keys_of_blobs() -> None:
    rows = [[kind.replace(" `", " ").replace("`", ""), text]
            for kind, text in table(read("json.md"), "Blob")]  # fmt: skip
    told = {kind: sorted(named(text)) for kind, text in rows}
    traces = [trace_model(sample(name).path, FORCED if name == "diamond" else None)
              for name in ("diamond", "digits", "five_op_chain")]  # fmt: skip
    film: list[Any] = [history(trace.records) for trace, _ in traces]
    chunks = [c for found in film for c in found["chunks"]]
    nodes = [n for c in chunks for n in c.get("nodes", ())]
    kernels: list[Any] = [k for trace, _ in traces for k in kernel_listings(trace.final, {})]
    plans: list[Any] = [plan_listing(trace.final) for trace, _ in traces]
    params = [p for trace, context in traces for p in param_listing(trace.final, context.params)]
    assert told == {
        "history": every(film),
        "history chunks[]": every(chunks),
        "history lines[]": every(line for c in chunks for line in c["lines"]),
        "history nodes[]": every(nodes),
        "history outs[]": every(v for n in nodes for v in n.get("outs", ())),
        "history groups[]": every(g for c in chunks for g in c.get("groups", ())),
        "history passes[]": every(p for found in film for p in found["passes"]),
        "kernel": every(kernels),
        "kernel tree[]": every(line for k in kernels for line in k["tree"]),
        "kernel source[]": every(line for k in kernels for line in k["source"]),
        "plan": every(plans),
        "plan steps[]": every(s for p in plans for s in p["steps"]),
        "plan buffers[]": every(b for p in plans for b in p["buffers"]),
        "params": ["params"],
        "params params[]": every(params),
    }
    assert f"{BINS} equal steps" in dict(rows)["params params[]"]


def test_keys_of_a_layout(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [[kind.replace(" `", " ").replace("`", ""), text]
            for kind, text in table(read("json.md"), "Layout")]  # fmt: skip
    told = {kind: named(text) for kind, text in rows}
    document = history_of("tiny_gpt")
    small = room.layout(document, 0)
    monkeypatch.setattr(room, "LARGE", 10)
    large = room.layout(document, 0)
    assert told == {
        "layout": list(small),
        "layout groups[]": list(small["groups"][0]),
        "layout overview": list(large["overview"]),
        "layout overview.groups[]": list(large["overview"]["groups"][0]),
    }
    assert small["overview"] is None and list(large) == list(small)


def test_numbers_of_layouts() -> None:
    text = read("page.md")
    for number in (room.DOT, room.BENDS, room.BENDS // 2, room.LARGE, BOXES):
        assert f"{number:,}" in text[text.index("## Layouts") :]


def test_keys_of_errors_and_requests() -> None:
    text = read("json.md")
    errors = text[text.index("## Errors") :]
    assert set(named(errors)) == set(error_json(RuntimeError("no"), {}))
    options = re.search(r"`options` of a request: `(\{[^}]*\})`", text)
    assert options and set(named(options[1])) == {f.name for f in fields(Options)}


# ---- README --------------------------------------------------------------------------------------


def test_python_of_the_readme_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = blocks(README.read_text(encoding="utf-8"), "python")
    assert code.count('"engines/digits"') == 2
    monkeypatch.chdir(ROOT)
    exec(code.replace("engines/digits", str(tmp_path / "digits")), {})
    about = json.loads((tmp_path / "digits" / "manifest.json").read_text(encoding="utf-8"))["about"]
    assert about["model"] == "digits"


@pytest.mark.parametrize("page", [README, *PAGES], ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in re.findall(r"(?<!!)\[[^\]]+\]\(([^)]+)\)", text):
        path, _, anchor = target.partition("#")
        to = (page.parent / path) if path else page
        assert to.exists(), target
        if anchor:
            heads = re.findall(r"^#+ (.*)$", to.read_text(encoding="utf-8"), re.MULTILINE)
            slugs = {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in heads}
            assert anchor in slugs, target
