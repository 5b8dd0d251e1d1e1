"""The machine's profile: rounded, stored, and measured again only for another machine."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from compiler.ir.machine import TEST_MACHINE
from compiler.measure.conditions import cpu_name
from compiler.measure.machine import FILE, last_level_cache, read_machine, rounded, stored_machine


def test_two_digits_are_kept() -> None:
    assert [rounded(x) for x in (23456.0, 0.0123456, 99.6, 0.0)] == [23000.0, 0.012, 100.0, 0.0]
    assert rounded(12345.0, 3) == 12300.0


def test_a_profile_is_measured_once(tmp_path: Path) -> None:
    first = stored_machine(tmp_path / "store")
    assert first.name.startswith(cpu_name())
    assert first.bandwidth > 1e8 and first.peak > 1e8 and 0 < first.launch < 1e-2
    assert all(x == rounded(x) for x in (first.bandwidth, first.peak, first.launch))
    assert first.cache == last_level_cache()
    kept = replace(first, bandwidth=12e9)
    path = tmp_path / "store" / FILE
    path.write_text(json.dumps(asdict(kept)))
    assert stored_machine(tmp_path / "store") == kept == read_machine(path)
    assert [p.name for p in path.parent.iterdir()] == [FILE]


def test_another_processors_profile_is_measured_again(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(json.dumps(asdict(TEST_MACHINE)))
    assert read_machine(tmp_path / FILE) == TEST_MACHINE
    assert stored_machine(tmp_path).name != TEST_MACHINE.name


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"name": 1}', '{"name": "x", "bandwidth": "a"}'])
def test_a_file_that_is_no_profile_is_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / FILE
    path.write_text(text)
    assert read_machine(path) is None
