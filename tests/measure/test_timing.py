"""Percentiles, interleaving, errors, copies, conditions: the parts that a report is made of."""

import itertools
import json
import math

import numpy as np
import pytest

from compiler.measure.accuracy import compare, compare_all
from compiler.measure.conditions import Conditions, cpu_name
from compiler.measure.copies import BLOCK, copies
from compiler.measure.timing import Latency, interleave, percentile
from compiler.runtime.engine import available_threads

f32 = np.float32


def test_percentiles_are_of_the_nearest_rank() -> None:
    values = [float(k) for k in range(1, 101)]
    assert [percentile(values, q) for q in (0, 1, 50, 95, 99, 100)] == [1, 1, 50, 95, 99, 100]
    assert percentile([3.0, 1.0, 2.0], 50) == 2.0
    with pytest.raises(ValueError, match="nothing"):
        percentile([], 50)


@pytest.mark.parametrize(("n", "p95", "p99"), [(99, False, False), (100, True, False),
                                               (999, True, False), (1000, True, True)])
def test_percentiles_need_repetitions(n: int, p95: bool, p99: bool) -> None:
    found = Latency(tuple(float(k) for k in range(n))).to_json()
    assert found["p50"] is not None and found["repetitions"] == n
    assert (found["p95"] is not None, found["p99"] is not None) == (p95, p99)


def test_every_variant_runs_once_a_round_in_changing_order() -> None:
    calls: list[str] = []
    found = interleave(
        {name: (lambda name=name: calls.append(name)) for name in "abc"},
        repetitions=20, warmups=2, slow={"c": 5},
    )  # fmt: skip
    assert {n: t.repetitions for n, t in found.items()} == {"a": 20, "b": 20, "c": 5}
    timed = calls[6:]
    assert calls[:6] == ["a", "a", "b", "b", "c", "c"]
    rounds = [timed[k : k + 3] for k in range(0, 15, 3)]
    assert all(sorted(r) == ["a", "b", "c"] for r in rounds)
    assert len({tuple(r) for r in rounds}) > 1
    assert timed[15:].count("a") == timed[15:].count("b") == 15 and "c" not in timed[15:]


def test_a_run_ends_after_its_time_but_not_before_three_rounds() -> None:
    told: list[int] = []
    found = interleave(
        {"a": lambda: None}, repetitions=1000, seconds=0.0,
        progress=lambda done, of: told.append(done),
    )  # fmt: skip
    assert found["a"].repetitions == 3 and told == [1, 2, 3]


def test_a_check_can_stop_a_run() -> None:
    counter = itertools.count()

    def check() -> None:
        if next(counter) == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interleave({"a": lambda: None}, repetitions=100, check=check)


# ---- accuracy ------------------------------------------------------------------------------------


def test_errors_against_a_reference() -> None:
    wanted = np.array([3.0, 4.0, 0.0, np.nan, np.inf])
    same = compare(wanted.astype(f32), wanted)
    assert (same.max_abs, same.max_rel, same.norm_rel, same.share_above) == (0, 0, 0, 0)
    assert same.allclose
    near = compare(np.array([3.0, 4.5, 0.0, np.nan, np.inf], f32), wanted)
    assert near.max_abs == 0.5 and near.max_rel == 0.125
    assert near.norm_rel == pytest.approx(0.1) and near.share_above == 0.2 and not near.allclose
    broken = compare(np.array([3.0, 4.0, 0.0, 1.0, np.inf], f32), wanted)
    assert broken.max_abs == math.inf and not broken.allclose
    assert broken.to_json()["max_abs"] is None


def test_the_worst_output_counts() -> None:
    wanted = {"a": np.ones(2), "b": np.ones(2), "c": np.zeros((0, 2))}
    actual = {n: x.astype(f32) for n, x in wanted.items()} | {"b": np.array([1.0, 1.25], f32)}
    found = compare_all(actual, wanted)
    assert found.max_abs == 0.25 and not found.allclose
    with pytest.raises(ValueError, match="shape"):
        compare(np.ones(2, f32), np.ones(3))


# ---- copies and conditions -----------------------------------------------------------------------


def test_each_copy_copies() -> None:
    made = copies(3 * BLOCK - 5, threads=2)
    assert made.nbytes == 3 * BLOCK == made.source.nbytes
    assert set(made.calls) == {"library", "plain stores", "non-temporal stores"}
    made.source[...] = np.arange(made.nbytes) % 251
    for call in made.calls.values():
        made.target[...] = 255
        call()
        np.testing.assert_array_equal(made.target, made.source)


def test_conditions_hold_what_the_schema_names() -> None:
    found = Conditions("cpu", 2, "float32", {"n": 3}, 3, 50, notes={"seed": "1"}).to_json()
    schema = {"device", "target", "cpu", "threads", "dtype", "sizes", "warmups", "repetitions",
              "cache", "concurrency", "versions", "date", "fallback"}  # fmt: skip
    assert schema <= found.keys() and found["seed"] == "1"
    assert found["sizes"] == {"n": 3} and found["target"] == "cpu"
    assert json.loads(json.dumps(found)) == found
    assert cpu_name() and available_threads() >= 1
