"""Every sentence exists in both languages, with the same placeholders, and is used somewhere."""

import ast
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from compiler import messages
from compiler.driver import trace_model
from compiler.measure.bytes import step_bytes
from compiler.pipeline import PASSES
from compiler.trace import Trace
from sample_models import catalogue
from ui.language import LANGUAGES, PLACEHOLDER, number, sentence, sentences

ROOT = Path(__file__).resolve().parents[2]
UI = ROOT / "ui"
ID = re.compile(r"[a-z][a-z_-]*(\.[A-Za-z0-9_-]+)+")


def own(language: str) -> dict[str, str]:
    """The page's sentences without those of the compiler."""
    return json.loads((UI / "translations" / f"{language}.json").read_text(encoding="utf-8"))


def strings(path: Path) -> Iterator[str]:
    """The text constants of a Python file; the variable parts of an f-string become `*`."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.JoinedStr):
            parts = (str(p.value) if isinstance(p, ast.Constant) else "*" for p in node.values)
            yield "".join(parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


@cache
def compiler_strings() -> set[str]:
    return {s for path in (ROOT / "compiler").rglob("*.py") for s in strings(path)}


@cache
def page_patterns() -> set[str]:
    """What the page looks up: literals, and templates with `*` for their variable parts."""
    rooms = (UI, ROOT / "lessons")
    found = {s for room in rooms for path in room.rglob("*.py") for s in strings(path)}
    for path in (UI / "explorer").rglob("*.mjs"):
        text = path.read_text(encoding="utf-8")
        found |= set(re.findall(r'"([^"\n]*)"', text))
        found |= {re.sub(r"\$\{[^}]*\}", "*", s) for s in re.findall(r"`([^`\n]*)`", text)}
    return found


def unused(keys: Iterable[str], patterns: set[str]) -> list[str]:
    """Keys that are no literal and that no template gives. `*` stands for one word or more.

    A key's way out, `KEY.remedy`, is looked up wherever the key is.
    """
    templates = [
        re.compile(re.escape(p).replace(r"\*", r"[\w-]+"))
        for p in patterns
        if "*" in p and not p.startswith("*") and ID.fullmatch(p.replace("*", "x"))
    ]

    def used(key: str) -> bool:
        return key in patterns or any(t.fullmatch(key) for t in templates)

    return [k for k in keys if not used(k) and not used(k.removesuffix(".remedy"))]


def test_both_languages_have_the_same_keys_and_placeholders() -> None:
    vi, en = sentences("vi"), sentences("en")
    assert sorted(vi) == sorted(en)
    different = [
        k for k in vi if set(PLACEHOLDER.findall(vi[k])) != set(PLACEHOLDER.findall(en[k]))
    ]
    assert not different


@pytest.mark.parametrize("language", LANGUAGES)
def test_sentences_are_normal_calm_and_not_empty(language: str) -> None:
    for key, text in sentences(language).items():
        assert text.strip() == text and text, key
        assert unicodedata.is_normalized("NFC", text), key
        assert "!" not in text, key


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_files_hold_sorted_keys_and_no_key_of_the_compiler(language: str) -> None:
    keys = list(own(language))
    assert keys == sorted(keys)
    assert not set(keys) & set(messages.catalogue(language))


def test_every_key_of_the_page_is_used() -> None:
    assert not unused(own("vi"), page_patterns() | compiler_strings())


def test_every_key_of_the_compiler_is_used() -> None:
    assert not unused(messages.catalogue("vi"), compiler_strings())


def test_every_key_the_page_looks_up_exists() -> None:
    calls: set[str] = set()
    for path in (UI / "explorer").rglob("*.mjs"):
        calls |= set(re.findall(r'\bt\(\s*"([^"]+)"', path.read_text(encoding="utf-8")))
        calls |= set(re.findall(r'message: "([^"]+)"', path.read_text(encoding="utf-8")))
    for path in UI.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        calls |= set(re.findall(r'\b(?:failure|Refused|sentence)\(\s*"([^"]+)"', text))
        calls |= set(re.findall(r'\brefused\(\s*\d+,\s*"([^"]+)"', text))
    assert len(calls) > 100, "the scan finds the calls"
    assert not calls - set(sentences("vi"))


def test_every_error_of_the_page_names_a_way_out() -> None:
    errors = [
        k for k in own("vi")
        if k.split(".")[0] in ("job", "request", "upload", "blob", "layout", "error")
        and f"{k}.remedy" in own("vi")
    ]  # fmt: skip
    shown = {
        "job.gone", "job.busy", "job.died", "job.time", "job.memory", "job.cancelled",
        "request.pin", "request.size", "request.size.range", "request.kind", "request.model",
        "request.sample",
        "request.pipeline", "upload.kind", "upload.large", "upload.empty", "upload.failed",
        "upload.elsewhere", "blob.gone", "layout.large", "error.internal", "error.memory",
        "error.request", "request.exercise", "request.submission", "upload.other",
    }  # fmt: skip
    assert set(errors) == shown


def compiler_ids() -> set[str]:
    """Dotted words in the compiler whose first word is that of a message."""
    first = {k.split(".")[0] for k in messages.catalogue("vi")}
    return {
        s
        for s in compiler_strings()
        if ID.fullmatch(s) and s.split(".")[0] in first and not s.endswith((".json", ".onnx"))
    }


def test_every_message_id_in_the_compiler_has_a_sentence() -> None:
    known = sentences("vi")
    names = {"error.request", "error.memory", "error.internal"}
    missing = {s for s in compiler_ids() if s not in known} - names
    assert not missing


def said(trace: Trace) -> Iterator[tuple[str, dict[str, object]]]:
    """Every message of a trace with its parameters."""
    for record in trace.records:
        for event in record.events:
            yield event.message, dict(event.parameters)
    for decision in trace.decisions:
        yield decision.message, dict(decision.parameters)
    for broken in trace.breaks():
        yield broken.message, dict(broken.parameters)


@pytest.mark.parametrize("name", [s.name for s in catalogue()])
def test_all_that_a_sample_makes_the_compiler_say_can_be_said(name: str) -> None:
    sample = next(s for s in catalogue() if s.name == name)
    force = f"default,partition-fallback{{force=[{','.join(sample.force)}]}}"
    trace, _ = trace_model(sample.path, force if sample.force else None, until="build")
    found = list(said(trace))
    assert found
    for message, parameters in found:
        for language in LANGUAGES:
            needed = set(PLACEHOLDER.findall(sentences(language)[message]))
            assert needed <= set(parameters), message


RULES = re.compile(r"R[1-8]")


@pytest.mark.parametrize("name", [s.name for s in catalogue()])
def test_what_decides_and_what_runs_has_a_word(name: str) -> None:
    """Rules and ways to merge, kinds of steps, buffers and nodes: no table shows the code's own."""
    trace, _ = trace_model(next(s for s in catalogue() if s.name == name).path, until="build")
    module = trace.final
    assert module.plan is not None
    words = {f"tier.{d.tier}" for d in trace.decisions}
    words |= {f"rule.{d.rule}" for d in trace.decisions if not RULES.fullmatch(d.rule)}
    words |= {f"memory.group.{buffer.kind}" for buffer in module.plan.buffers}
    words |= {f"step.{step.kind}" for step in step_bytes(module)}
    assert words <= set(sentences("vi"))


@pytest.mark.parametrize(
    ("name", "option", "rule"),
    [("five_op_chain", "forbid=[T1+T2]", "forbid"), ("layernorm_residual", "by=origin", "origin")],
)
def test_what_a_reader_decided_has_a_word(name: str, option: str, rule: str) -> None:
    path = next(s for s in catalogue() if s.name == name).path
    trace, _ = trace_model(path, f"default,fuse{{{option}}}")
    assert rule in {d.rule for d in trace.decisions}
    assert {f"rule.{rule}", "rule.force"} <= set(sentences("vi"))


def test_every_pass_and_level_has_its_sentence() -> None:
    for kind in PASSES:
        assert f"pass.{kind.name}" in sentences("vi"), kind.name
        assert f"level.{kind.level}" in sentences("vi"), kind.level
        assert f"unit.{kind.unit}" in sentences("vi"), kind.unit


def test_every_sample_speaks_both_languages() -> None:
    for sample in catalogue():
        assert set(sample.title) == set(sample.teaches) == set(LANGUAGES), sample.name


def test_numbers_are_written_as_the_language_writes_them() -> None:
    assert number("vi", 1234567.891) == "1.234.567,891"
    assert number("en", 1234567.891) == "1,234,567.891"
    assert sentence("vi", "job.time", seconds=1200).startswith("Việc này chạy quá 1.200 giây")
    with pytest.raises(KeyError):
        sentence("vi", "job.time")
