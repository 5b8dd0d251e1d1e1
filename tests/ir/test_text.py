"""The text form: printing, reading back, the words of its errors, canonical kernels."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from compiler.ir.dims import dim
from compiler.ir.graph import Graph, Node, Op, Value
from compiler.ir.loops import (
    Acc,
    Arg,
    Binary,
    Const,
    For,
    Index,
    Kernel,
    Let,
    Load,
    Ref,
    Store,
    Unary,
    Update,
    infer_dtype,
)
from compiler.ir.module import EMPTY, Module
from compiler.ir.parser import (
    ParseError,
    parse_dim,
    parse_kernel,
    parse_module,
    parse_plan,
    parse_type,
)
from compiler.ir.printer import (
    WIDTH,
    canonical_kernel,
    module_lines,
    print_expr,
    print_kernel,
    print_module,
    print_number,
    print_op,
    print_plan,
    print_scalar,
    print_type,
    read_number,
)
from compiler.ir.types import UNKNOWN, DType, KernelRef, ParamRef, Scalar, TensorType, attrs, tensor

from .strategies import kernels, modules, plans, scalars, types

RANDOM = settings(max_examples=80, suppress_health_check=list(HealthCheck))

ONNX = """\
module @"mlp v1"
  dims(batch in [0,64] % 8)
  opsets("" 17, ai.onnx.ml 3)
  nodes(n0 MatMul "dense/matmul", n1 Add, n2 If, n2.0 Relu, n3 com.microsoft.Gelu)
  params(
    W: f32[784,10] "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "b 0": f32[10] "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
  )
{
  graph (%x: f32[batch,784], %c: bool[]) -> (%y as probs, %"5" as "out put") {
    %W = param @W : f32[784,10]
    %b = param @"b 0" : f32[10]
    %"5" = onnx.MatMul %x, %W : f32[batch,10]  @[n0]
    %a = onnx.Add %"5", %b : f32[batch,10]  @[n1]
    %i = onnx.If %c {else_branch_region=1, then_branch_region=0} () -> (%t) {
      %t = onnx.Relu %a : f32[batch,10]  @[n2.0]
    } () -> (%e) {
      %e = onnx.Clip %a, _, %b {alpha=0.5, axes=[0, -1], mode="li\\u000ane"} : ?
    } : ?  @[n2]
    %y, %mask = "onnx.com.microsoft:Gelu" %i {value=@W} : f32[batch,10], ?  @[n1, n3]
  }
}
"""

TENSOR = """\
module @softmax dims(s in [0,1024]) nodes(n0 Softmax "probs") {
  graph (%x: f32[8,s]) -> (%y) {
    %y = fused %x {
      %y.1 = reduce.max %x {axes=[1]} : f32[8,1]  @[n0]
      %y.2 = map.sub %x, %y.1         : f32[8,s]  @[n0]
      %y.3 = map.exp %y.2             : f32[8,s]  @[n0]
      %y.4 = reduce.sum %y.3 {axes=[1]} : f32[8,1]  @[n0]
      %y   = map.div %y.3, %y.4       : f32[8,s]  @[n0]
    } : f32[8,s]  @[n0]
  }
}
"""

LOOPS = """\
module @softmax dims(s in [0,1024]) nodes(n0 Softmax "probs") {
  graph (%x: f32[8,s]) -> (%y) {
    %y = launch @k0 (%x) {r=8, c=s} : f32[8,s]  @[n0]
  }
  kernel @k0 (x: in f32[r,c], y: out f32[r,c]) {
    par i in r {
      acc m: f32 = -inf
      red j in c { m max= load x[i,j] }
      acc z: f32 = 0
      red j in c { let e = exp(load x[i,j] - m); store y[i,j] = e; z += e }
      vec j in c { store y[i,j] = load y[i,j] / z }
    }
  }
  plan guards(s <= 1024 @n0 "guard.bounds") {
    buffer x: input "x" [%x] size 32*s live [0, 0]
    buffer y: output "y" [%y, %y.v] size 32*s live [0, 0]
    0: kernel @k0 (%x: f32[8,s]) -> (%y.v in y: f32[8,s]) extents [8, s] parallel 8 work 24*s  @[n0]
    1: call matmul (%x: f32[8,s], _) -> (%y: f32[8,8]) {spec="mk,nk->mn"}
    2: copy %y: f32[8,s] -> %z in out: f32[8,s]
    3: bind %y [0: u, 1: v]  @[n0]
  }
}
"""

SOURCE = """\
module @one {
  graph () -> () {
  }
  kernel @k0 [n, m] (x: in f16[n,4], t: scratch f32[4], y: out f32[n,4]) {  @[n0, n2]
    par i in n {
      vec j in 4 {
        let h: f16 = load x[i,j]
        let a = load x[i,j]
        let b = select(a < 0.5, cast(f32, index[4*i+j]), max(a, f32(0x7fc00001)))  @[n0]
        store t[j] = (a - (b - 1.0)) * 2.0 / b
        if load t[j] != nan {  @[]
          store y[i,j] = load t[j]
        }
      }
    }
  }
  source @k0 symbol("k_12ab") math("libm") {
    | def k_12ab(params, worker, lo, hi):
    |     for i in range(lo, hi):
    |
    |         store(y, i, "quoted | text")
    |
  } artifacts(object "0011", llvm "2233") lines(1 [] @[n0, n2], 2 [0], 4 [0, 0, 3] @[n0])
}
"""


def squeezed(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


TEXTS = {"onnx": ONNX, "tensor": TENSOR, "loops": LOOPS, "source": SOURCE}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_hand_written_text_prints_as_it_was_read(text):
    module = parse_module(text)
    printed = print_module(module)
    assert squeezed(printed) == squeezed(text)
    assert parse_module(printed) == module


def test_what_the_onnx_text_means():
    m = parse_module(ONNX)
    assert m.name == "mlp v1"
    assert m.dims[0].divisor == 8
    assert m.opsets == (("", 17), ("ai.onnx.ml", 3))
    assert m.nodes[3] == Node((2, 0), "", "Relu")
    assert m.param("b 0").type == tensor(DType.f32, 10)
    assert m.graph.outputs == ("y", "5")
    assert m.graph.names == ("probs", "out put")
    branch = m.graph.ops[4]
    assert branch.regions[0] == Graph(
        (), ("t",), (Op("onnx.Relu", ("a",), (Value("t", tensor(DType.f32, "batch", 10)),),
                        origins=frozenset({(2, 0)})),),
    )  # fmt: skip
    clip = branch.regions[1].ops[0]
    assert clip.inputs == ("a", None, "b")
    assert clip.attrs == attrs(alpha=Scalar.of(DType.f32, 0.5), axes=(0, -1), mode="li\nne")
    assert clip.type == UNKNOWN
    assert m.graph.ops[5].origins == {(1,), (3,)}
    assert m.graph.ops[5].attrs == attrs(value=ParamRef("W"))
    assert m.level == "onnx"


def test_what_the_softmax_means():
    m = parse_module(TENSOR)
    (fused,) = m.graph.ops
    assert fused.regions[0].inputs == (Value("x", tensor(DType.f32, 8, "s")),)
    assert fused.regions[0].outputs == ("y",)
    assert [op.kind for op in fused.regions[0].ops] == [
        "reduce.max", "map.sub", "map.exp", "reduce.sum", "map.div",
    ]  # fmt: skip
    (launch,) = parse_module(LOOPS).graph.ops
    assert launch.attrs == attrs(kernel=KernelRef("k0"), r=dim(8), c=dim("s"))


def test_what_the_kernel_means():
    (kernel,) = parse_module(LOOPS).kernels
    x, y = (Arg(n, mode, tensor(DType.f32, "r", "c")) for n, mode in (("x", "in"), ("y", "out")))
    i, j, at = dim("i"), dim("j"), (dim("i"), dim("j"))
    assert kernel == Kernel(
        "k0",
        ("r", "c"),
        (x, y),
        (
            For("par", "i", dim("r"), (
                Acc("m", DType.f32, Scalar.of(DType.f32, -np.inf)),
                For("red", "j", dim("c"), (Update("m", "max", Load("x", (i, j))),)),
                Acc("z", DType.f32, Scalar.of(DType.f32, 0)),
                For("red", "j", dim("c"), (
                    Let("e", DType.f32, Unary("exp", Binary("sub", Load("x", at), Ref("m")))),
                    Store("y", at, Ref("e")),
                    Update("z", "add", Ref("e")),
                )),
                For("vec", "j", dim("c"), (
                    Store("y", at, Binary("div", Load("y", at), Ref("z"))),
                )),
            )),
        ),
    )  # fmt: skip


def test_origins_of_statements_are_those_of_the_block_unless_they_say_otherwise():
    (kernel,) = parse_module(SOURCE).kernels
    both = frozenset({(0,), (2,)})
    assert kernel.origins == both
    loop = kernel.body[0]
    assert isinstance(loop, For) and loop.origins == both
    inner = loop.body[0]
    assert isinstance(inner, For)
    assert [s.origins for s in inner.body] == [both, both, {(0,)}, both, frozenset()]
    assert inner.body[4].body[0].origins == frozenset()


def test_the_empty_module():
    assert print_module(EMPTY) == "module @empty {\n  graph () -> () {\n  }\n}\n"
    assert parse_module(print_module(EMPTY)) == EMPTY
    assert parse_module("module @empty {}") == EMPTY


@RANDOM
@given(modules)
def test_modules_read_back(module):
    text = print_module(module)
    assert parse_module(text) == module
    lines = module_lines(module)
    assert "".join(line.text + "\n" for line in lines) == text
    assert all("\n" not in line.text for line in lines)


@RANDOM
@given(kernels())
def test_kernels_read_back(kernel):
    assert parse_kernel(print_kernel(kernel)) == kernel


@RANDOM
@given(plans)
def test_plans_read_back(plan):
    assert parse_plan(print_plan(plan)) == plan


@given(types)
def test_types_read_back(type):
    assert parse_type(print_type(type)) == type


@given(scalars())
def test_numbers_read_back(value):
    assert read_number(value.dtype, print_number(value)) == value


def test_numbers():
    f32, bf16 = DType.f32, DType.bf16
    for value, text in (
        (Scalar.of(f32, 0.1), "0.1"),
        (Scalar.of(f32, -0.0), "-0.0"),
        (Scalar.of(f32, 1e20), "1e+20"),
        (Scalar(f32, 0x7FC00000), "nan"),
        (Scalar(f32, 0x7FC00001), "f32(0x7fc00001)"),
        (Scalar(f32, 0xFF800000), "-inf"),
        (Scalar.of(bf16, 1.5), "bf16(1.5)"),
        (Scalar.of(DType.f16, 0.1), "f16(0.1)"),
        (Scalar.of(DType.f64, 0.1), "f64(0.1)"),
        (Scalar.of(DType.i64, -3), "i64(-3)"),
        (Scalar(DType.u64, 2**64 - 1), "u64(18446744073709551615)"),
        (Scalar(DType.bool, 1), "true"),
        (Scalar(DType.c64, 1 << 40), "c64(0x10000000000)"),
    ):
        assert print_scalar(value) == text
    for dtype, text in ((DType.u8, "256"), (DType.i8, "-129"), (DType.i32, "0.5")):
        with pytest.raises(ValueError):
            read_number(dtype, text)


def test_types():
    for type, text in (
        (tensor(DType.f32, 8, "s"), "f32[8,s]"),
        (tensor(DType.i64), "i64[]"),
        (UNKNOWN, "?"),
        (TensorType(DType.f32, None), "f32[*]"),
        (TensorType(None, (dim("s"),)), "?[s]"),
    ):
        assert print_type(type) == text
        assert parse_type(text) == type


def test_a_region_that_differs_from_its_op_keeps_its_header():
    (fused,) = parse_module(TENSOR).graph.ops
    region = replace(fused.regions[0], inputs=(Value("x", tensor(DType.f32, 8, 4)),))
    module = Module(
        graph=Graph(
            (Value("x", tensor(DType.f32, 8, "s")),),
            ("y",),
            (replace(fused, regions=(region,)),),
            ("y",),
        )
    )
    assert "fused %x (%x: f32[8,4]) -> (%y) {" in print_module(module)
    assert parse_module(print_module(module)) == module


def test_integers_and_dimensions_stay_apart():
    op = Op(
        "slice",
        ("x",),
        (Value("y", tensor(DType.f32, 4)),),
        attrs(starts=(dim(0), 0, dim("s"), dim("f32")), steps=(1, dim(1), dim("s") // 2)),
    )
    assert print_op(op) == (
        "%y = slice %x {starts=[0, int(0), s, dim(f32)], steps=[1, dim(1), s//2]} : f32[4]"
    )


def test_expressions_bracket_what_binds_less():
    a, b, c = Ref("a"), Ref("b"), Ref("c")
    for expr, text in (
        (Binary("sub", a, Binary("sub", b, c)), "a - (b - c)"),
        (Binary("sub", Binary("sub", a, b), c), "a - b - c"),
        (Binary("mul", Binary("add", a, b), c), "(a + b) * c"),
        (Binary("lt", Binary("lt", a, b), c), "(a < b) < c"),
        (Unary("neg", Const(Scalar.of(DType.f32, 1))), "neg(1.0)"),
        (Binary("add", a, Const(Scalar.of(DType.f32, -1))), "a + -1.0"),
        (Binary("and", Binary("ge", a, b), Index(dim("i") * 4)), "and(a >= b, index[4*i])"),
        (Ref("load"), '"load"'),
    ):
        assert print_expr(expr) == text


# ---- lines


def test_lines_know_what_they_belong_to():
    lines = module_lines(parse_module(LOOPS))
    at = {line.text.strip(): line for line in lines}
    launch = at["%y = launch @k0 (%x) {r=8, c=s} : f32[8,s]  @[n0]"]
    assert (launch.key, launch.section, launch.origins) == ("y", "graph", {(0,)})
    assert at["acc m: f32 = -inf"].key == "k0"
    assert at["acc m: f32 = -inf"].section == "kernel"
    assert at["3: bind %y [0: u, 1: v]  @[n0]"].key == "3"
    assert {line.section for line in lines} == {"module", "graph", "kernel", "plan"}
    source = [line for line in module_lines(parse_module(SOURCE)) if line.section == "source"]
    assert {line.key for line in source} == {"k0"}
    assert source[1].origins == {(0,), (2,)}
    fused = [line for line in module_lines(parse_module(TENSOR)) if line.key == "y.3"]
    assert [line.text for line in fused] == ["      %y.3 = map.exp %y.2 : f32[8,s]  @[n0]"]


def test_long_headers_stand_one_item_a_line():
    nodes = tuple(Node((k,), f"layer{k}/add", "Add") for k in range(40))
    lines = module_lines(Module("long", nodes=nodes))
    node = next(line for line in lines if line.key == "layer7/add")
    assert node.text == '    n7 Add "layer7/add",'
    assert node.origins == {(7,)}
    assert max(len(line.text) for line in lines) <= WIDTH


# ---- errors


@pytest.mark.parametrize(
    ("text", "line", "column", "expected"),
    [
        ("", 1, 1, "'module'"),
        ("module softmax {}", 1, 8, "'@'"),
        ("module @m {\n  graph (%x f32[]) -> () {}\n}", 2, 13, "':'"),
        ("module @m {\n  graph (%x: f33[]) -> () {}\n}", 2, 14, "a type"),
        ("module @m {\n  graph (%x: f32[8) -> () {}\n}", 2, 19, "']'"),
        ("module @m {\n  graph () -> () {\n    %y = map.exp : \n  }\n}", 4, 3, "a type"),
        ("module @m { graph () -> () { %y, %z = onnx.A : ? } }", 1, 48, "2 types"),
        ("module @m { graph () -> () { %y = fused %x { } : ? } }", 1, 44, "header of a region"),
        ("module @m { graph () -> () { %y = onnx.A { %z = onnx.B : ? } : ? } }", 1, 42, "header"),
        ("module @m { kernel @k (x: into f32[]) { } }", 1, 27, "in, out, inout or scratch"),
        ("module @m { kernel @k () { let a = b } }", 1, 32, "a let with its dtype"),
        ("module @m { kernel @k () { let a = foo(1.0) } }", 1, 36, "a scalar function"),
        ("module @m { kernel @k () { acc a: i8 = 300 } }", 1, 40, "a number of type i8"),
        ("module @m { plan { 1: copy %x: ? -> %y: ? } }", 1, 20, "step 0"),
        ('module @m dims("\\q") {}', 1, 16, "text escaped as in JSON"),
        ("module @m dims(s // 0) {}", 1, 18, "',' or ')'"),
        ("module @m guards(s // 0 == 1) {}", 1, 23, "a positive divisor"),
        ("module @m {} extra", 1, 14, "the end of the text"),
        ("module @m { source @k symbol(\"\") math(\"\") { } }", 1, 45, "a line of source"),
    ],
)
def test_errors_name_place_and_expectation(text, line, column, expected):
    with pytest.raises(ParseError) as caught:
        parse_module(text)
    error = caught.value
    assert (error.line, error.column) == (line, column)
    assert expected in error.expected
    assert f"line {line}, column {column}" in str(error)


@RANDOM
@given(st.sampled_from(tuple(TEXTS.values())), st.integers(0, 2500), st.integers(0, 30))
def test_damaged_text_is_refused_with_a_place_or_read(text, start, length):
    damaged = text[:start] + text[start + length :]
    try:
        parse_module(damaged)
    except ParseError as error:
        assert 1 <= error.line <= damaged.count("\n") + 1
        assert error.column >= 1


def test_dimensions_divide_as_in_python():
    assert parse_dim("2*s//2") == dim("s")
    assert parse_dim("-(s-1)") == 1 - dim("s")


# ---- dtypes of expressions


def test_dtypes_of_expressions():
    buffers = {"x": DType.f16, "b": DType.bool}
    names = {"v": DType.i64}
    for expr, dtype in (
        (Load("x", ()), DType.f32),
        (Load("b", ()), DType.bool),
        (Unary("isnan", Load("x", ())), DType.bool),
        (Binary("add", Ref("v"), Index(dim("i"))), DType.i64),
        (Binary("lt", Ref("v"), Index(dim("i"))), DType.bool),
    ):
        assert infer_dtype(expr, buffers, names) is dtype
    for expr in (
        Ref("u"),
        Load("z", ()),
        Unary("not", Ref("v")),
        Binary("add", Ref("v"), Load("x", ())),
    ):
        with pytest.raises(ValueError):
            infer_dtype(expr, buffers, names)


# ---- canonical kernels


def renamed(kernel: Kernel, suffix: str) -> Kernel:
    """The same kernel with other names everywhere, read from replaced text."""
    text = print_kernel(replace(kernel, origins=frozenset()))
    for old in ("k0", "r", "c", "i", "j", "m", "z", "e", "x", "y"):
        text = re.sub(rf"(?<![\w\"]){old}(?![\w\"(])", old + suffix, text)
    return parse_kernel(text)


def test_equal_kernels_have_equal_canonical_text():
    (kernel,) = parse_module(LOOPS).kernels
    other = renamed(kernel, "_2")
    assert other != kernel and other.extents == ("r_2", "c_2")
    assert canonical_kernel(other) == canonical_kernel(kernel)
    marked = replace(kernel, origins=frozenset({(3,)}))
    assert canonical_kernel(marked) == canonical_kernel(kernel)
    assert canonical_kernel(kernel) == """\
kernel @k (a0: in f32[e0,e1], a1: out f32[e0,e1]) {
  par i0 in e0 {
    acc t0: f32 = -inf
    red i1 in e1 { t0 max= load a0[i0,i1] }
    acc t1: f32 = 0
    red i2 in e1 { let t2 = exp(load a0[i0,i2] - t0); store a1[i0,i2] = t2; t1 += t2 }
    vec i3 in e1 { store a1[i0,i3] = load a1[i0,i3] / t1 }
  }
}"""


def test_different_kernels_have_different_canonical_text():
    (kernel,) = parse_module(LOOPS).kernels
    text = print_kernel(kernel)
    seen = {canonical_kernel(kernel)}
    for old, new in (
        ("out f32", "inout f32"),
        ("x: in f32[r,c]", "x: in f16[r,c]"),
        ("par i", "seq i"),
        ("z += e", "z += m"),
        ("-inf", "0"),
        ("m max=", "m min="),
        ("load x[i,j] - m", "load x[i,0] - m"),
        ("exp(", "abs("),
        ("x: in f32[r,c], y", "x: in f32[c,r], y"),
    ):
        assert old in text
        found = canonical_kernel(parse_kernel(text.replace(old, new, 1)))
        assert found not in seen
        seen.add(found)


@RANDOM
@given(kernels())
def test_canonical_text_is_its_own_canonical_text(kernel):
    names = [a.name for a in kernel.args]
    if len(set(names)) == len(names) and len(set(kernel.extents)) == len(kernel.extents):
        once = canonical_kernel(kernel)
        assert canonical_kernel(parse_kernel(once)) == once
