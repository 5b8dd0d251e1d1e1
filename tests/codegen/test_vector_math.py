"""float32 functions against float64, over the whole range of bit patterns.

An error is counted in units in the last place of the correctly rounded float32 result. What has no
such unit (NaN, the infinities, results of exactly 0) must be equal.
"""

import math

import numpy as np
import pytest

from compiler.codegen import vector_math
from compiler.codegen.numba_api import compile_kernel
from tests.codegen.native_kernel import link, source

NAMES = tuple(vector_math.FUNCTIONS)
STEP = 997  # of 2**32 patterns every so many: prime, so that all low bits occur


def patterns() -> np.ndarray:
    """A dense sweep of float32, and 513 neighbours of every place where a function changes case."""
    edges = [
        *(0.0, 2.0**-149, 2.0**-126, 1.0, np.inf),
        *(88.72284, 89.0, 87.33655, 103.27893, 103.97208, 104.0, 20.0, 17.32868),  # exp, sigmoid
        *(0.55, 9.010913, 9.5, 0.921875, 3.919206, 4.0),  # tanh, erf
        *(2.0 / 3.0, 4.0 / 3.0, 0.70710677, 1.4142135, 2.0**-125, 3.4028235e38),  # log
        *(math.log(2) * (k + 0.5) for k in range(-151, 129)),  # where n of exp changes
    ]
    near = np.array([np.float32(abs(e)).view(np.uint32) for e in edges], np.int64)
    around = (near[:, None] + np.arange(-256, 257)).ravel() % 2**31
    sweep = np.arange(0, 2**32, STEP, dtype=np.int64)
    bits = np.concatenate([sweep, around, around + 2**31])
    return bits.astype(np.uint32).view(np.float32)


def true_value(name: str, x: np.ndarray) -> np.ndarray:
    """In float64; sigmoid is written so that nothing cancels and no result is lost."""
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        if name == "erf":
            return np.frompyfunc(math.erf, 1, 1)(wide).astype(np.float64)
        if name == "sigmoid":
            e = np.exp(-np.abs(wide))
            return np.where(wide < 0, e, 1) / (1 + e)
        return getattr(np, name)(wide)


def units_off(got: np.ndarray, true: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        rounded = true.astype(np.float32)
        exact = ~np.isfinite(rounded)
        unit = np.spacing(np.where(exact, np.float32(1), np.abs(rounded)))
        off = np.abs(got.astype(np.float64) - true) / unit.astype(np.float64)
        same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
        return np.where(exact, np.where(same, 0.0, np.inf), np.where(np.isnan(off), np.inf, off))


@pytest.fixture(scope="module")
def sweep() -> np.ndarray:
    return patterns()


@pytest.fixture(scope="module")
def truth(sweep: np.ndarray) -> dict[str, np.ndarray]:
    return {name: true_value(name, sweep) for name in NAMES}


@pytest.mark.parametrize("strict", [False, True], ids=["default", "strict"])
@pytest.mark.parametrize("name", NAMES)
def test_within_two_units_of_float64(name, strict, sweep, truth):
    kernel = compile_kernel("k", source("k", "f32 f32", f"{name}(a)"), strict=strict, math="poly")
    assert kernel.undefined == ()
    call = link(kernel)

    vector = np.empty_like(sweep)
    call((1, sweep.size), sweep, vector)
    off = units_off(vector, truth[name])
    worst = int(off.argmax())
    assert off[worst] <= 2.0, (sweep[worst], vector[worst], truth[name][worst])

    # One column: the vector loop is never entered, every element is done by the scalar one.
    scalar = np.empty_like(sweep)
    call((sweep.size, 1), sweep, scalar)
    assert same_bits(scalar, vector)


@pytest.mark.parametrize("name", NAMES)
def test_numpy_computes_the_bits_of_strict_numerics(name, sweep):
    kernel = compile_kernel("k", source("k", "f32 f32", f"{name}(a)"), strict=True, math="poly")
    x = sweep[::7].copy()
    native = np.empty_like(x)
    link(kernel)((1, x.size), x, native)
    assert same_bits(vector_math.on_array(vector_math.FUNCTIONS[name], x), native)


@pytest.mark.parametrize("math", ["poly", "libm"])
@pytest.mark.parametrize(
    ("name", "at", "expected"),
    [
        ("exp", [0, -0.0, np.inf, -np.inf, np.nan, 89, -104], [1, 1, np.inf, 0, np.nan, np.inf, 0]),
        ("exp", [-103.5, 1e-45, -1e-45, 3e38, -3e38], [1e-45, 1, 1, np.inf, 0]),
        (
            "log",
            [0, -0.0, np.inf, -np.inf, np.nan, 1],
            [-np.inf, -np.inf, np.inf, np.nan, np.nan, 0],
        ),
        ("log", [-1e-45, -1], [np.nan, np.nan]),
        ("tanh", [0, -0.0, np.inf, -np.inf, np.nan], [0, -0.0, 1, -1, np.nan]),
        ("tanh", [1e-45, -1e-45, 3e38, -3e38], [1e-45, -1e-45, 1, -1]),
        ("erf", [0, -0.0, np.inf, -np.inf, np.nan], [0, -0.0, 1, -1, np.nan]),
        ("erf", [4, -4, 3e38, -3e38], [1, -1, 1, -1]),
        ("sigmoid", [0, -0.0, np.inf, -np.inf, np.nan], [0.5, 0.5, 1, 0, np.nan]),
        ("sigmoid", [-103.5, 3e38, -3e38], [1e-45, 1, 0]),
    ],
)
def test_special_values(name, at, expected, math):
    kernel = compile_kernel("k", source("k", "f32 f32", f"{name}(a)"), strict=False, math=math)
    x, y = np.array(at, np.float32), np.empty(len(at), np.float32)
    link(kernel)((1, x.size), x, y)
    wanted = np.array(expected, np.float32)
    assert np.array_equal(y, wanted, equal_nan=True), (y, wanted)
    numbers = ~np.isnan(wanted)
    assert np.array_equal(np.signbit(y[numbers]), np.signbit(wanted[numbers]))


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal bit for bit; any NaN equals any NaN."""
    return bool(np.all((a.view(np.uint32) == b.view(np.uint32)) | (np.isnan(a) & np.isnan(b))))
