"""The external names that a kernel's object file may leave open.

An object file is a closed piece of code apart from its undefined symbols. MCJIT resolves them all
at once, and where a single one is missing it silently resolves none: every call then jumps to
address 0. So the set of names is closed, and both `build` and `load` check against it.

Teaches: "machine code" is not finished code; who fills the holes decides what runs.
"""

from typing import Final

# Numba wraps every cfunc in code that would report a Python exception. Our kernels never raise, so
# these names stand only on paths that are never taken; the runner object gives each a trap.
NEVER_TAKEN: Final[frozenset[str]] = frozenset(
    {
        "NRT_MemInfo_call_dtor",
        "numba_gil_ensure",
        "numba_gil_release",
        "PyErr_Clear",
        "PyErr_SetNone",
        "PyErr_SetString",
        "PyErr_WriteUnraisable",
        "PyExc_StopIteration",
        "PyExc_SystemError",
        "PyUnicode_FromString",
        "Py_DecRef",
    }
)

# What LLVM makes out of loops that copy or fill.
MEMORY_SYMBOLS: Final[frozenset[str]] = frozenset({"memcpy", "memmove", "memset"})

# The C mathematics library, in double and (with the suffix f) single precision.
LIBM_SYMBOLS: Final[frozenset[str]] = frozenset(
    name + suffix
    for name in (
        *("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "pow", "sqrt", "cbrt"),
        *("sin", "cos", "sincos", "tan", "asin", "acos", "atan", "atan2"),
        *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh"),
        *("erf", "erfc", "fmod", "fma", "fmin", "fmax", "hypot", "ldexp", "copysign"),
        *("floor", "ceil", "trunc", "round", "rint", "nearbyint", "roundeven"),
    )
    for suffix in ("", "f")
)

ALLOWED_SYMBOLS: Final[frozenset[str]] = NEVER_TAKEN | MEMORY_SYMBOLS | LIBM_SYMBOLS
