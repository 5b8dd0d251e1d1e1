"""CUDA kernels as text: the source that a person reads, and the PTX that it becomes, without a GPU.

PTX is compiled in a process that may touch no CUDA of the system: whatever opens a file or a
library outside Python's own packages is noted there.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from compiler.codegen.cpu import emit_kernel
from compiler.codegen.cuda import emit_cuda_kernel
from compiler.codegen.numba_api import KernelSourceError
from compiler.codegen.numba_cuda_api import compile_ptx, helper_digest, link_cubin
from compiler.ir.parser import parse_kernel
from compiler.lower.cuda import Options, schedule

ROOT = Path(__file__).parents[2]

CHILD = """
import json, sys
touched = []
def watch(event, arguments):
    if event in ("open", "ctypes.dlopen") and arguments[0]:
        touched.append(str(arguments[0]))
sys.addaudithook(watch)
import compiler
from sample_models import sample
pins = {"five_op_chain": {}, "softmax_spelled_out": {"cols": 512}, "layernorm_residual": {}}
found = {}
for name, pin in pins.items():
    built = compiler.compile(sample(name).path, target="cuda:ptx", pin=pin)
    parts = built.engine.parts
    found[name] = {
        "ptx": [v.decode() for k, v in sorted(parts.texts.items()) if k.startswith("ptx/")],
        "source": [s.text for s in built.module.sources],
        "artifacts": [[kind for kind, _ in s.artifacts] for s in built.module.sources],
        "cubins": [len(v) for v in parts.objects.values()],
        "elf": all(v[:4] == b"\\x7fELF" for v in parts.objects.values()),
    }
maps = [line.split()[-1] for line in open("/proc/self/maps") if "/" in line]
json.dump({"found": found, "touched": touched + maps}, sys.stdout)
"""


@pytest.fixture(scope="module")
def compiled() -> Mapping[str, Any]:
    """What compiling samples for `cuda:ptx` gives, and every file that it touched."""
    hidden = ("CUDA_HOME", "CUDA_PATH", "LD_LIBRARY_PATH", "NUMBAPRO_NVVM", "NUMBAPRO_LIBDEVICE")
    env = {k: v for k, v in os.environ.items() if k not in hidden}
    env["PATH"] = os.pathsep.join(p for p in env["PATH"].split(os.pathsep) if "cuda" not in p)
    out = subprocess.run(
        [sys.executable, "-c", CHILD], cwd=ROOT, env=env, capture_output=True, text=True
    )
    assert out.returncode == 0, out.stderr
    return json.loads(out.stdout)


def one(compiled: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return compiled["found"][name]


def test_no_cuda_of_the_system_is_touched(compiled: Mapping[str, Any]) -> None:
    packages = [p for p in compiled["touched"] if re.search(r"lib(nvvm|nvJitLink)\.so", p)]
    assert any("libnvvm" in p for p in packages) and any("nvJitLink" in p for p in packages)
    assert all("site-packages/nvidia" in p for p in packages if "/" in p), packages
    toolkit = [
        p
        for p in compiled["touched"]
        if "cuda" in p.lower()
        and "site-packages" not in p
        and os.sep in p
        and not Path(p).is_relative_to(ROOT)
        and not Path(p).name.startswith("libcuda.so")
    ]
    assert not toolkit, "only the driver's own library may be looked for"


@pytest.mark.parametrize("name", ["five_op_chain", "softmax_spelled_out", "layernorm_residual"])
def test_wide_accesses_and_no_remainder(compiled: Mapping[str, Any], name: str) -> None:
    for ptx in one(compiled, name)["ptx"]:
        assert ".target sm_90" in ptx and ptx.count(".entry") == 1
        assert "ld.global.v4.f32" in ptx and "st.global.cs.v4.f32" in ptx
        assert not re.search(r"\brem\.|\bdiv\.[us]\d", ptx), "integer division"
        assert not re.search(r"\.local|ld\.f32|st\.f32|\bcall", ptx), "memory of a thread"
    assert one(compiled, name)["elf"] and min(one(compiled, name)["cubins"]) > 1000
    for kinds in one(compiled, name)["artifacts"]:
        assert kinds == ["object", "llvm", "ptx"]


def test_a_row_stays_in_registers(compiled: Mapping[str, Any]) -> None:
    (ptx,) = one(compiled, "softmax_spelled_out")["ptx"]
    assert ptx.count("ld.global.v4.f32") == ptx.count("st.global.cs.v4.f32") == 4
    assert ptx.count("shfl.sync.bfly.b32") == 20
    assert "max.NaN.f32" in ptx and "bar.sync" not in ptx


def test_the_chain_reads_its_vectors_once_for_two_rows(compiled: Mapping[str, Any]) -> None:
    (ptx,) = one(compiled, "five_op_chain")["ptx"]
    assert ptx.count("ld.global.v4.f32") == 6 and ptx.count("st.global.cs.v4.f32") == 2
    assert {"%ctaid.x", "%ctaid.y", "%nctaid.y"} <= set(re.findall(r"%n?ctaid\.[xy]", ptx))


SCALE = """kernel @k (x: in f32[r,c], s: in f32[c], y: out f32[r,c]) {
  par i in r { vec j in c { let v = load x[i,j] * load s[j]  store y[i,j] = max(v, 0.0) } }
}"""

SOURCE = """\
def k(params):
    r = extent(params, 0)
    c = extent(params, 1)
    x = pointer(params[2], f32)
    s = pointer(params[3], f32)
    y = pointer(params[4], f32)
    by = block_y()
    while by < r:
        bx = block_x()
        t = thread()
        if u64(1024) * bx + u64(4) * t < c:
            x_4_0 = four(f32(0), f32(0), f32(0), f32(0))
            s_4 = four(f32(0), f32(0), f32(0), f32(0))
            y_4 = four(f32(0), f32(0), f32(0), f32(0))
            s_4 = load4(s, u64(1024) * bx + u64(4) * t)
            if by < r:
                x_4_0 = load4(x, by * c + u64(1024) * bx + u64(4) * t)
            if by < r:
                v = x_4_0 * s_4
                y_4 = maximum(v, f32(0.0))
                stream4(y, by * c + u64(1024) * bx + u64(4) * t, y_4)
        by = by + blocks_y()
"""


def test_the_source_is_readable() -> None:
    """The wide path of a product by a vector, one row a thread."""
    kernel = schedule(parse_kernel(SCALE), {"c": 1024}, {}, Options(rows=1)).kernel
    lines = emit_cuda_kernel(kernel, "k").text.splitlines()
    whole = next(k for k, line in enumerate(lines) if line.strip().startswith("whole ="))
    assert lines[whole].strip() == (
        "whole = logical_and(logical_and(aligned(x), aligned(s)), aligned(y))"
    )
    end = next(k for k, line in enumerate(lines) if line.strip() == "if logical_not(whole):")
    wide = [line[4:] for line in lines[whole + 2 : end]]
    assert "\n".join([*lines[:whole], *wide, lines[-1]]) + "\n" == SOURCE


def test_lines_lead_to_statements() -> None:
    kernel = schedule(parse_kernel(SCALE), {}, {}).kernel
    emitted = emit_cuda_kernel(kernel, "k")
    assert {m.line for m in emitted.lines} <= set(range(1, emitted.text.count("\n") + 1))
    loads = [m.path for m in emitted.lines if "load4(x" in emitted.text.splitlines()[m.line - 1]]
    assert len(loads) == 4 and len(set(loads)) == 1, "four rows, one statement"


PAIRS = """kernel @k (x: in f32[n], y: out f32[n]) {
  par i in n { let v = load x[i] * 3.0 + 1.0  store y[i] = exp(v) / v }
}"""


@pytest.fixture(scope="module")
def pairs() -> str:
    return emit_cuda_kernel(schedule(parse_kernel(PAIRS), {}, {}, Options(rows=1)).kernel, "k").text


def test_strict_numerics_contract_nothing(pairs: str) -> None:
    strict = compile_ptx("k", pairs, strict=True, math="poly", capability=(9, 0)).ptx
    loose = compile_ptx("k", pairs, strict=False, math="poly", capability=(9, 0)).ptx
    assert "fma.rn.f32" in loose and "fma" not in strict
    assert "div.rn.f32" in strict and "div.rn.f32" in loose
    assert helper_digest(True, "poly") != helper_digest(False, "poly")


def test_lines_of_the_source_are_named_where_they_are_asked_for(pairs: str) -> None:
    plain = compile_ptx("k", pairs, strict=False, math="poly", capability=(9, 0))
    told = compile_ptx("k", pairs, strict=False, math="poly", capability=(9, 0), lines=True)
    assert ".loc" not in plain.ptx and '.file\t1 "k.py"' in told.ptx
    named = {int(n) for n in re.findall(r"\.loc\s+1 (\d+)", told.ptx)} - {0}
    stores = {n for n, line in enumerate(pairs.split("\n"), 1) if "store" in line}
    assert stores & named and max(named) <= pairs.count("\n") + 1
    assert link_cubin("k", told.ptx, (9, 0))[:4] == b"\x7fELF"


COPY = """\
def k(params):
    n = extent(params, 0)
    d = pointer(params[1], f32)
    r = pointer(params[2], f32)
    at = u64(4096) * block_x() + u64(4) * thread()
    whole = logical_and(aligned(r), u64(4) * (n // u64(4)) == n)
    if whole:
        f = four(load(d, at), load(d, at + u64(1)), load(d, at + u64(2)), load(d, at + u64(3)))
        stream4(r, at, f)
    if logical_not(whole):
        for e in range(u64(4)):
            if u64(4096) * block_x() + u64(256) * e + thread() < n:
                one = u64(4096) * block_x() + u64(256) * e + thread()
                store(r, one, load(d, one))
"""


def test_nvvm_can_write_down_the_lines_of_every_kernel() -> None:
    """Where variables lie, NVVM can't: of this one it says that a symbol has no name."""
    told = compile_ptx("k", COPY, strict=False, math="poly", capability=(9, 0), lines=True)
    assert ".loc" in told.ptx


def test_libm_is_the_library_of_the_device(pairs: str) -> None:
    ptx = compile_ptx("k", pairs, strict=False, math="libm", capability=(9, 0)).ptx
    assert "ex2.approx" in ptx


EVERYTHING = """kernel @k (x: in f32[n], h: in f16[n], b: in bf16[n], m: in bool[n], i: in i64[n],
                           w: in i32[n], d: in f64[n], y: out f32[n], z: out f16[n], q: out bool[n],
                           j: out i64[n], g: out f64[n], v: out i32[n]) {
  par a in n {
    let s = load x[a]
    let t = sin(s) + cos(s) + tanh(s) + erf(s) + log(abs(s)) + sigmoid(s) + pow(abs(s), s)
    let u = floor(t) + ceil(t) + rint(t) + sqrt(abs(t)) + neg(t) + sign(t) + min(t, s) + max(t, s)
    let c = mod(u, s) + load h[a] + load b[a]
    store y[a] = select(load m[a], c, select(isnan(u), s, t))
    store z[a] = c
    store q[a] = xor(and(s < t, or(s >= t, s == t)), not(s != t))
    store j[a] = max(load i[a] / index[a+1], mod(load i[a], index[3])) + cast(i64, t)
    store g[a] = exp(load d[a]) + max(load d[a], cast(f64, s)) + mod(load d[a], f64(3.0))
    store v[a] = load w[a] * i32(3) - abs(load w[a])
  }
}"""


def test_the_whole_vocabulary_compiles() -> None:
    """Four elements at once and one, of every type, to machine code."""
    kernel = schedule(parse_kernel(EVERYTHING), {}, {}, Options(rows=1)).kernel
    text = emit_cuda_kernel(kernel, "k").text
    made = compile_ptx("k", text, strict=False, math="poly", capability=(9, 0))
    assert link_cubin("k", made.ptx, (9, 0))[:4] == b"\x7fELF"
    for wide in ("ld.global.v4.f32", "ld.global.v4.u32", "ld.global.v2.f64", "ld.global.v2.u64"):
        assert wide in made.ptx, wide


def test_errors_name_the_kernel() -> None:
    with pytest.raises(KernelSourceError, match="'k'"):
        compile_ptx("k", "def k(params): x = maximum(1, f32(2))", strict=True, math="poly",
                    capability=(9, 0))  # fmt: skip
    with pytest.raises(KernelSourceError, match="'k'"):
        link_cubin("k", "no PTX", (9, 0))
    with pytest.raises(ValueError, match="for a GPU"):
        emit_kernel(schedule(parse_kernel(SCALE), {}, {}).kernel, "k")
    with pytest.raises(ValueError, match="block loops"):
        emit_cuda_kernel(parse_kernel(SCALE), "k")
