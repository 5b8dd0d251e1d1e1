"""Helpers: the same kernels as without them, whoever makes them, and nobody left behind."""

from __future__ import annotations

import pickle
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

import compiler
from compiler.codegen.helpers import ROOT, WORTH, Helpers, Job, helpers_worth
from compiler.codegen.numba_api import CompiledKernel, compile_kernel
from compiler.passes import build
from compiler.passes.base import Cancelled
from sample_models import sample


def job(name: str, value: str = "f32(1.0)") -> Job:
    text = f"def {name}(params, worker, lo, hi):\n"
    text += f"    store(pointer(params[0], f32), lo, {value})\n"
    return Job(name, text, strict=False, math="poly")


def wait_until_claimed(helpers: Helpers, name: str) -> None:
    end = time.monotonic() + 60
    while name not in helpers._claimed:
        assert time.monotonic() < end
        time.sleep(0.01)


def never() -> None:
    pass


def test_helpers_start_at_the_end_and_make_the_same_bytes() -> None:
    first, bad, last = job("k_first"), job("k_bad", "unheard_of(lo)"), job("k_last")
    with Helpers((first, bad, last), 1) as helpers:
        assert helpers.take("k_first", never) is None
        wait_until_claimed(helpers, "k_bad")
        made = helpers.take("k_last", never)
        assert helpers.take("k_bad", never) is None
        processes = helpers._processes
    assert made == compile_kernel("k_last", last.source, strict=False, math="poly")
    assert all(p.returncode is not None for p in processes)


def test_a_kernel_of_a_killed_helper_is_the_callers() -> None:
    with Helpers((job("k_lost"),), 1) as helpers:
        helpers._processes[0].kill()
        helpers._threads[0].join(60)
        assert helpers.take("k_lost", never) is None


class Nonsense:
    """What cannot be read back, as a damaged pickle."""

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return str, (b"\x95", "utf-8")


def test_nonsense_from_a_helper_is_the_callers_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = pickle.dumps(None) + pickle.dumps(Nonsense())
    code = f"import os, time; os.write(1, {answers!r}); time.sleep(60)"
    started = subprocess.Popen

    def popen(command: list[str], **rest: object) -> subprocess.Popen[bytes]:
        return started([command[0], "-c", code], **rest)  # type: ignore[call-overload]

    monkeypatch.setattr(subprocess, "Popen", popen)
    with Helpers((job("k_odd"),), 1) as helpers:
        wait_until_claimed(helpers, "k_odd")
        helpers._threads[0].join(60)
        assert helpers._claimed["k_odd"].done(), "nobody waits for it"
        assert helpers.take("k_odd", never) is None


def test_a_kernel_that_is_waited_for_can_be_cancelled() -> None:
    def cancelled() -> None:
        raise Cancelled

    with pytest.raises(Cancelled), Helpers((job("k_slow"),), 1) as helpers:
        wait_until_claimed(helpers, "k_slow")
        helpers.take("k_slow", cancelled)


def test_a_helper_ends_with_its_input() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "compiler.codegen.helpers"], cwd=ROOT,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None and process.stdin is not None
    assert pickle.load(process.stdout) is None
    process.stdin.close()
    assert process.wait(60) == 0


def test_a_helper_must_be_worth_its_start() -> None:
    short, long = job("k_short"), Job("k_long", " " * WORTH, False, "poly")
    assert helpers_worth((short,) * 9, 8) == 0
    assert helpers_worth((long,), 8) == 0
    assert helpers_worth((long,) * 3, 8) == 2
    assert helpers_worth((long,) * 3, 2) == 1
    assert helpers_worth((long,) * 3, 1) == 0
    assert helpers_worth((), 8) == 0


def test_an_engine_is_the_same_with_helpers(monkeypatch: pytest.MonkeyPatch) -> None:
    path = sample("mlp").path
    alone = compiler.compile(path)
    monkeypatch.setattr(build, "helpers_worth", lambda jobs, cpus: 1)
    monkeypatch.setattr(build, "Helpers", Patient)
    helped = compiler.compile(path)
    assert len(alone.context.built) > 1
    assert helped.context.built == alone.context.built


class Patient(Helpers):
    """Leaves all kernels to the helper."""

    def take(self, name: str, check: Callable[[], None]) -> CompiledKernel | None:
        wait_until_claimed(self, name)
        made = super().take(name, check)
        assert made is not None
        return made
