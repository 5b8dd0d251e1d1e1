"""The verifier: well-formed modules pass, a broken one is refused by a message that names it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from compiler.ir.dims import Guard, dim
from compiler.ir.graph import Op, Value
from compiler.ir.module import EMPTY, Module
from compiler.ir.parser import parse_module
from compiler.ir.types import DType, tensor
from compiler.ir.verify import ROWS, Equalities, VerifyError, verify

from .strategies import dimensions

TENSOR = """
module @all
  dims(s in [0,1024], t, u)
  guards(s == t @n0 "broadcast", 2*u == 3*s @n1)
  params(w: f32[4] "00")
{
  graph (%x: f32[2,s], %y: f32[2,t], %i: i64[s], %c: bool[2,s]) -> (%m as out, %e2) {
    %k = const 0.5 : f32[]
    %w = param @w : f32[4]
    %d = dims {values=[2, s, s*t]} : i64[3]
    %d0 = dims {values=[s]} : i64[]
    %m = map.add %x, %y : f32[2,s]  @[n0]
    %n = map.isnan %x : bool[2,s]
    %l = map.and %n, %c : bool[2,s]
    %q = compare.lt %x, %k : bool[2,s]
    %sel = select %q, %x, %k : f32[2,s]
    %j = cast %x {to=i32} : i32[2,s]
    %io = iota {axis=1} : i64[2,s]
    %r = reduce.sum %x {axes=[0]} : f32[1,s]
    %v = reshape %x : f32[s,2]
    %v2 = reshape %x : f32[2*t]
    %p = permute %x {perm=[1, 0]} : f32[s,2]
    %e = expand %r : f32[3,2,s]
    %e2 = expand %i : i64[t]
    %f = slice %x {starts=[0, s-1], steps=[1, 1]} : f32[2,1]
    %mm = contract %x, %p {library="matmul", spec="mk,kn->mn"} : f32[2,2]
    %cp = copy %x : f32[2,t]
    %cat = concat %x, %y, %r {axis=0} : f32[5,s]
    %pad = pad %x, %k {before=[1, 0], after=[0, u]} : f32[3,s+u]
    %rev = reverse %x {axes=[0, 1]} : f32[2,s]
    %g = gather %x, %d {axis=0} : f32[3,s]
    %ge = gather_elements %x, %io {axis=1} : f32[2,s]
    %sc = scatter_elements %x, %io, %y {axis=0} : f32[2,s]
    %ar = argreduce.max %x {axis=1, last=0} : i64[2,1]
    %wi = window %x, %k {
      after=[1], axes=[1], before=[1], dilations=[1], sizes=[3], strides=[1]
    } : f32[2,s,3]
    %ext = extern %x, _ {op="onnx.Foo", opset=17, axis=1} : ?
    %ext2, %ext3 = call.reference %ext {op="onnx.Bar", opset=17} : ?, f32[s]
    %cm = call.matmul %x, %p {spec="mk,kn->mn"} : f32[2,2]
    %fu = fused %x, %y {group="row"} {
      %fu.1 = reduce.max %x {axes=[1]} : f32[2,1]
      %fu = map.sub %x, %fu.1 : f32[2,s]
    } : f32[2,s]
    %if = onnx.If %c {then_branch_region=0} () -> (%th) {
      %th = onnx.Foo %x : ?
    } : ?
  }
}
"""

LOOPS = """
module @loops dims(s, t) guards(s == t) params(b: f32[s] "00") {
  graph (%x: f32[8,s], %h: f32[8,t]) -> (%y) {
    %b = param @b : f32[s]
    %y.1 = launch @k0 (%x, %h) {r=8, c=s} : f32[8,s]  @[n0]
    %y = launch @k1 (%y.1) {n=8*s} : f32[8,t]
  }
  kernel @k0 (x: in f32[r,c], h: in f32[r,c], y: out f32[r,c], q: scratch f32[c]) {
    par i in r {
      acc m: f32 = -inf
      red j in c { m max= load x[i,j] }
      vec j in c { let e = load x[i,j] - m; store q[j] = e }
      vec j in c {
        if load h[i,j] < 0.0 { store y[i,j] = load q[j] }
        store y[i,j] = cast(f32, index[i*c+j])
      }
    }
  }
  kernel @k1 (x: in f32[n], y: out f32[n]) {
    par i in n { store y[i] = neg(load x[i]) }
  }
  plan {
    buffer x: input "x" [%x] size 32*s live [0, 1]
    buffer h: input "h" [%h] size 32*s live [0, 1]
    buffer b: param "b" [%b] size 4*s live [0, 1]
    buffer y.1: arena [%y.1] size 32*s live [0, 1]
    buffer y: output "y" [%y, %y.r] size 32*s live [1, 4]
    0: kernel @k0 (%x: f32[8,s], %h: f32[8,t]) -> (%y.1: f32[8,s]) extents [8, s]
      scratch [4*s] parallel 8 work 8*s
    1: kernel @k1 (%y.1: f32[8,s]) -> (%y: f32[8,t]) extents [8*s] parallel 8*s work 8*s
    2: copy %y: f32[8,t] -> %y.r in y: f32[8,t]
    3: call matmul (%y: f32[8,t], _) -> (%y: f32[8,t])
    4: bind %y [1: t]
  }
  source @k0 symbol("a") math("poly") {
    | def a():
    |   pass
  } lines(1 [0], 2 [])
}
"""


def broken(text: str, old: str, new: str) -> Module:
    assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times"
    return parse_module(text.replace(old, new))


@pytest.mark.parametrize("text", [TENSOR, LOOPS], ids=["tensor", "loops"])
def test_well_formed_modules_pass(text):
    verify(parse_module(text))


def test_the_empty_module_passes():
    verify(EMPTY)


def test_every_row_stands_in_a_module_that_passes():
    kinds = {op.kind for text in (TENSOR, LOOPS) for op in parse_module(text).graph.walk()}
    families = {kind.partition(".")[0] for kind in kinds}
    assert set(ROWS) <= kinds | families


GRAPH = [
    # movement
    ("%y, %r {axis=0} : f32[5,s]", "%y, %r {axis=0} : f32[6,s]", "%cat = concat", "gives [5,"),
    ("%x, %y, %r {axis=0}", "%x, %y, %w {axis=0}", "%cat = concat", "rank 2 and 1"),
    ("%y, %r {axis=0}", "%y, %r {axis=2}", "%cat = concat", "axis 2 of an operand of rank 2"),
    ("pad %x, %k", "pad %x, %w", "%pad = pad", "the padding value is no scalar"),
    ("before=[1, 0]", "before=[-1, 0]", "%pad = pad", "a padding of -1"),
    ("before=[1, 0]", "before=[1]", "%pad = pad", "has not one dimension an axis"),
    ("reverse %x {axes=[0, 1]}", "reverse %x {axes=[1, 0]}", "%rev = reverse", "not sorted axes"),
    ("gather %x, %d", "gather %x, %w", "%g = gather", "indices of f32, not i32 or i64"),
    ("%d {axis=0} : f32[3,s]", "%d {axis=1} : f32[3,s]", "%g = gather", "gives [2,3]"),
    ("gather_elements %x, %io", "gather_elements %x, %i", "%ge = gather", "indices of rank 1"),
    ("%io, %y {axis=0}", "%io, %k {axis=0}", "%sc = scatter", "updates []"),
    ("argreduce.max", "argreduce.sum", "%ar = argreduce.sum", "no place of a 'sum'"),
    ("last=0}", "last=2}", "%ar = argreduce.max", "'last' is not 0 or 1"),
    # single assignment and operands
    ("%n = map.isnan", "%m = map.isnan", "%m = map.isnan", "defined twice"),
    ("map.add %x, %y", "map.add %x, %sel", "%m = map.add", "operand %sel is not defined before"),
    ("map.add %x, %y", "map.add %x, _", "%m = map.add", "an operand is absent"),
    ("map.add %x, %y", "map.add %x, %y, %y", "%m = map.add", "3 operands"),
    ("map.isnan %x", "map.isnan %if", "%n = map.isnan", "operand %if is not defined"),
    ("copy %x", "copy %x, %x", "%cp = copy", "2 operands, expected 1"),
    ("-> (%m as out, %e2)", "-> (%m as out, %zz)", "module @all", "output %zz is not defined"),
    ("-> (%m as out, %e2)", "-> (%m as e2, %e2)", "module @all", "two of the name 'e2'"),
    ("%x: f32[2,s], %y", "%x: f32[2,s], %x: f32[], %y", "module @all", "%x is defined twice"),
    # kinds and attributes
    ("copy %x", "cpoy %x", "%cp = cpoy", "no kind of op is called 'cpoy'"),
    ("copy %x", "copy.deep %x", "%cp = copy.deep", "no kind of op"),
    ("reduce.sum %x {axes=[0]}", "reduce.sum %x", "%r = reduce.sum", "'axes' is missing"),
    ("{axes=[0]}", "{axes=[0], keepdims=1}", "%r = reduce.sum", "no attribute 'keepdims'"),
    ("{axes=[0]}", '{axes="0"}', "%r = reduce.sum", "'axes' is no list"),
    ("{axes=[0]}", '{axes=["0"]}', "%r = reduce.sum", "something else than integers"),
    # one rule each
    ("const 0.5 : f32[]", "const i64(5) : f32[]", "%k = const", "result is f32"),
    ("const 0.5 : f32[]", "const 0.5 : f32[2]", "%k = const", "more than one element"),
    ("const 0.5 : f32[]", "const {value=1} : f32[]", "%k = const", "no scalar"),
    ("param @w : f32[4]", "param @v : f32[4]", "%w = param", "no param 'v'"),
    ("param @w : f32[4]", "param @w : f32[5]", "%w = param", "differs from that of param"),
    (": i64[3]", ": i64[4]", "%d = dims", "the result is [4], the rule gives [3]"),
    (": i64[3]", ": f32[3]", "%d = dims", "the result is f32"),
    ("s*t]}", '"s"]}', "%d = dims", "something else than dimensions"),
    ("%d0 = dims {values=[s]}", "%d0 = dims {values=[s, 2]}", "%d0 = dims", "result is []"),
    ("map.add %x, %y : f32[2,s]", "map.foo %x, %y : f32[2,s]", "map.foo", "no scalar function"),
    ("map.add %x, %y : f32[2,s]", "map.exp %x, %y : f32[2,s]", "map.exp", "no scalar function"),
    ("map.add %x, %y : f32[2,s]", "map.add %x, %y : f32[2,u]", "%m = map.add", "axis 1 is u"),
    ("map.add %x, %y : f32[2,s]", "map.add %x, %y : f32[s]", "%m = map.add", "rank 1"),
    ("map.add %x, %y : f32[2,s]", "map.add %x, %y : f64[2,s]", "%m = map.add", "result is f64"),
    ("map.add %x, %y : f32[2,s]", "map.add %x, %y : ?", "%m = map.add", "%m is unknown"),
    ("map.add %x, %y", "map.add %x, %c", "%m = map.add", "operands of f32 and bool"),
    ("map.add %x, %y", "map.and %x, %y", "%m = map.and", "and is not defined on f32"),
    ("map.and %n, %c", "map.add %n, %c", "%l = map.add", "add is not defined on bool"),
    ("map.isnan %x", "map.isnan %i", "%n = map.isnan", "isnan is not defined on i64"),
    ("map.isnan %x : bool", "map.isnan %x : f32", "%n = map.isnan", "the result is f32"),
    ("compare.lt", "compare.less", "%q = compare.less", "no comparison 'less'"),
    ("compare.lt %x, %k : bool", "compare.lt %x, %k : f32", "%q = compare.lt", "result is f32"),
    ("select %q", "select %x", "%sel = select", "the condition is f32"),
    ("select %q, %x, %k", "select %q, %x, %q", "%sel = select", "operands of f32 and bool"),
    ("{to=i32}", "{to=i64}", "%j = cast", "the result is i32"),
    ("i32[2,s]", "i32[s,2]", "%j = cast", "the result is [s,2]"),
    ("iota {axis=1}", "iota {axis=2}", "%io = iota", "axis 2 of a result of rank 2"),
    ("reduce.sum %x", "reduce.mean %x", "%r = reduce.mean", "no reduction 'mean'"),
    ("{axes=[0]}", "{axes=[1, 0]}", "%r = reduce.sum", "not sorted axes"),
    ("{axes=[0]}", "{axes=[2]}", "%r = reduce.sum", "not sorted axes"),
    (": f32[1,s]", ": f32[s]", "%r = reduce.sum", "the rule gives [1,s]"),
    ("%v2 = reshape %x : f32[2*t]", "%v2 = reshape %x : f32[3*t]", "%v2 = reshape", "3*t elements"),
    ("{perm=[1, 0]}", "{perm=[1, 1]}", "%p = permute", "no permutation"),
    ("permute %x {perm=[1, 0]} : f32[s,2]", "permute %x {perm=[1, 0]} : f32[2,s]", "%p = permute",
     "the rule gives [s,2]"),
    ("expand %r : f32[3,2,s]", "expand %r : f32[3,2,u]", "%e = expand", "axis 1 of s"),
    ("expand %r : f32[3,2,s]", "expand %r : f32[s]", "%e = expand", "not expanded to rank 1"),
    ("starts=[0, s-1]", "starts=[0]", "%f = slice", "'starts' has not one dimension an axis"),
    ("steps=[1, 1]", "steps=[1, 0]", "%f = slice", "a step of 0"),
    (": f32[2,1]\n    %mm", ": f32[2]\n    %mm", "%f = slice", "rank 1, its operand 2"),
    ('{library="matmul", spec="mk,kn->mn"}', '{spec="mk,nk->mn"}', "%mm = contract", "is s and 2"),
    ('{library="matmul", spec="mk,kn->mn"}', '{spec="mk->mn"}', "%mm = contract", "no contraction"),
    ('{library="matmul", spec="mk,kn->mn"}', '{spec="mk,k->mn"}', "%mm = contract", "the axes"),
    ('{library="matmul", spec="mk,kn->mn"}', '{spec="mk,kn->mz"}', "%mm = contract", "other axes"),
    ('%cm = call.matmul %x, %p {spec="mk,kn->mn"} : f32[2,2]',
     '%cm = call.matmul %x, %p {spec="mk,kn->mn"} : f32[2,s]', "%cm = call.matmul", "[2,2]"),
    ("copy %x : f32[2,t]", "copy %x : f32[2,u]", "%cp = copy", "the rule gives [2,s]"),
    ('op="onnx.Foo", ', "", "%ext = extern", "attribute 'op' is missing"),
    ('op="onnx.Bar"', "op=1", "%ext2 = call.reference", "'op' (text)"),
    ("{then_branch_region=0}", "{then_branch_region=1}", "%if = onnx.If", "names no region"),
    ("%th = onnx.Foo %x", "%th = onnx.Foo %zz", "%th = onnx.Foo", "operand %zz"),
    # regions of groups
    ('group="row"', 'group="column"', "%fu = fused", "no group 'column'"),
    ("%fu = map.sub %x, %fu.1", "%fu = map.sub %x, %m", "%fu = map.sub", "operand %m is not"),
    ("%fu = map.sub %x, %fu.1", "%fu = extern %x {op=\"onnx.A\", opset=1}", "%fu = fused",
     "can't stand in a group"),
    ("%fu = map.sub %x, %fu.1 : f32[2,s]", "%fu = map.sub %x, %fu.1 : f32[2,t]", "%fu = fused",
     "%fu has another type inside"),
    ('{group="row"} {', '{group="row"} (%x: f32[2,s]) -> (%fu) {', "%fu = fused", "formals (x)"),
    ('{group="row"} {', '{group="row"} (%x: f32[2,s], %y: f32[2,s]) -> (%fu) {', "%fu = fused",
     "formal %y has another type"),
    ('{group="row"} {', '{group="row"} (%x: f32[2,s], %y: f32[2,t]) -> (%fu.1) {', "%fu = fused",
     "results (fu.1)"),
    # header
    ("dims(s in [0,1024], t, u)", "dims(s in [9,1], t, u)", "module @all", "admits no value"),
    ("dims(s in [0,1024], t, u)", "dims(t, u)", "module @all", "undeclared dimensions: s"),
    ("copy %x : f32[2,t]", "copy %x : f32[2,z]", "%cp = copy", "the rule gives [2,s]"),
    ("axis=1} : ?", "axis=1} : f32[z]", "%ext = extern", "undeclared dimensions: z"),
    ("dims(s in [0,1024], t, u)", "dims(s, t, s)", "module @all", "two of the name 's'"),
    ('w: f32[4] "00"', 'w: f32[4] "00", w: f32[4] "00"', "module @all", "two of the name 'w'"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "key", "message"), GRAPH)
def test_a_broken_graph_is_refused_by_name(old, new, key, message):
    with pytest.raises(VerifyError) as caught:
        verify(broken(TENSOR, old, new))
    assert key in caught.value.key
    assert message in caught.value.message
    assert caught.value.key in str(caught.value)


LOWERED = [
    # launches
    ("launch @k1 (%y.1)", "launch @k9 (%y.1)", "%y = launch", "no kernel 'k9'"),
    ("{n=8*s}", "{m=8*s}", "%y = launch", "has the extents (n), given (m)"),
    ("{n=8*s}", '{n="8"}', "%y = launch", "extent 'n' is no dimension"),
    ("{n=8*s}", "{n=8}", "%y = launch", "is [8], given [8,s]"),
    ("launch @k1 (%y.1)", "launch @k1 (%y.1, %x)", "%y = launch", "takes 1 operands, given 2"),
    ("kernel @k1 (x: in f32[n]", "kernel @k1 (x: in i32[n]", "@k1", "is f32, its expression i32"),
    ("kernel @k1 (x: in f32[n]", "kernel @k1 (x: in f16[n]", "%y = launch", "'x' of @k1 is f16"),
    # kernels
    ("r,c], y: out", "r,d], y: out", "%y.1 = launch", "(r, c, d), given (c, r)"),
    ("kernel @k1 (x", "kernel @k1 [n, n] (x", "@k1", "two of the name 'n'"),
    ("kernel @k1 (x", "kernel @k1 [m] (x", "@k1", "symbols that are no extents"),
    ("y: out f32[n]", "x: out f32[n]", "@k1", "two of the name 'x'"),
    ("(x: in f32[n], y: out f32[n])", "(y: out f32[n], x: in f32[n])", "@k1", "inputs, then"),
    ("y: out f32[n]", "y: out f32[*]", "@k1", "type of argument 'y' is unknown"),
    ("load x[i])", "load z[i])", "@k1", "no argument 'z'"),
    ("load x[i])", "load x[i,i])", "@k1", "'x' has rank 1 and 2 indices"),
    ("load x[i])", "load x[k])", "@k1", "an index of 'x' uses k"),
    ("store y[i] = neg(", "store x[i] = neg(", "@k1", "store to 'x', which is no output"),
    ("neg(load x[i])", "neg(load y[i])", "@k1", "'y' is loaded before a store to it"),
    ("neg(load x[i])", "cast(i32, load x[i])", "@k1", "is f32, its expression i32"),
    ("neg(load x[i])", "not(load x[i])", "@k1", "not of f32 and bool"),
    ("{ m max= load x[i,j] }", "{ e max= load x[i,j] }", "@k0", "'e' is updated and no acc"),
    ("{ m max= load x[i,j] }", "{ m max= index[j] }", "@k0", "is f32, its expression i64"),
    ("{ m max= load x[i,j] }", "{ m sub= load x[i,j] }", "@k0", "updated with 'sub'"),
    ("{ m max= load x[i,j] }", "{ acc m: f32 = 0 }", "@k0", "'m' is defined twice"),
    ("let e = load x[i,j] - m", "let e: f32 = load x[i,j] - f", "@k0", "'f' is read before"),
    ("let e = load", "let m = load", "@k0", "'m' is defined twice"),
    ("let e = load", "let e: i64 = load", "@k0", "is i64, its expression f32"),
    ("acc m: f32 = -inf", "acc m: f32 = i64(0)", "@k0", "starts as i64"),
    ("red j in c", "par j in c", "@k0", "par 'j' is not outermost"),
    ("red j in c", "red i in c", "@k0", "axis 'i' is defined twice"),
    ("red j in c", "red j in d", "@k0", "the extent of 'j' uses d"),
    ("if load h[i,j] < 0.0", "if load h[i,j]", "@k0", "the condition is bool, its expression f32"),
    ("index[i*c+j]", "index[i*c+k]", "@k0", "an index uses k"),
    # plan
    ("-> (%y.1: f32[8,s]) extents", "-> (%y.1 in q: f32[8,s]) extents", "step 0", "no buffer 'q'"),
    ("-> (%y.1: f32[8,s]) extents", "-> (%y.2 in y.1: f32[8,s]) extents", "step 0", "no member"),
    ("0: kernel @k0", "0: kernel @k9", "step 0", "no kernel @k9"),
    ("extents [8, s]", "extents [8]", "step 0", "1 extents, expected 2"),
    ("scratch [4*s] ", "", "step 0", "0 scratch sizes, expected 1"),
    ("(%x: f32[8,s], %h: f32[8,t]) -> (%y.1: f32[8,s])",
     "(%x: f32[8,s]) -> (%h: f32[8,t], %y.1: f32[8,s])", "step 0", "2 written operands"),
    ("1: kernel @k1 (%y.1: f32[8,s])", "1: kernel @k1 (%y.1: f16[8,s])", "step 1", "element type"),
    ("[%y.1] size 32*s live [0, 1]", "[%y.1] size 32*s live [0, 0]", "step 1", "lives from 0 to 0"),
    ("[%y, %y.r] size 32*s live [1, 4]", "[%y, %y.r] size 32*s live [2, 4]", "step 1", "lives"),
    ("-> %y.r in y: f32[8,t]", "-> %x: f32[8,t]", "step 2", "lives from 0 to 1"),
    ("buffer x: input", "buffer x: caller", "buffer 'x'", "no kind of buffer"),
    ("buffer h: input", "buffer x: input", "module @loops", "two of the name 'x'"),
    ('param "b"', 'param "q"', "buffer 'b'", "no param 'q'"),
    ("4: bind %y [", "4: bind %q [", "step 4", "%q is in no buffer"),
    # sources
    ("source @k0", "source @k9", "source @k9", "no kernel @k9"),
    ("lines(1 [0], 2 [])", "lines(1 [0], 3 [])", "source @k0", "line 3 of a text of 2 lines"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "key", "message"), LOWERED)
def test_broken_kernels_plans_and_sources_are_refused_by_name(old, new, key, message):
    with pytest.raises(VerifyError) as caught:
        verify(broken(LOOPS, old, new))
    assert caught.value.key.startswith(key)
    assert message in caught.value.message


def test_a_step_may_not_write_what_belongs_to_the_caller():
    text = LOOPS.replace("[%x] size 32*s live [0, 1]", "[%x] size 32*s live [0, 4]")
    with pytest.raises(VerifyError, match="step 2: writes buffer 'x'"):
        verify(broken(text, "-> %y.r in y: f32[8,t]", "-> %x: f32[8,t]"))


def test_the_message_names_the_origins():
    with pytest.raises(VerifyError) as caught:
        verify(broken(TENSOR, "map.add %x, %y", "map.exp %x, %y"))
    assert str(caught.value).startswith("%m = map.exp [n0]: ")
    assert caught.value.origins == {(0,)}


def test_attributes_are_sorted_and_closed():
    op = Op("onnx.A", (), (Value("y", tensor(DType.f32)),))
    for attrs, message in (
        ((("b", 1), ("a", 1)), "not sorted"),
        ((("a", 1), ("a", 1)), "there twice"),
        ((("a", (1, 0.5)),), "holds a tuple"),
        ((("a", None),), "holds a NoneType"),
    ):
        graph = replace(EMPTY.graph, ops=(replace(op, attrs=attrs),))
        with pytest.raises(VerifyError, match=message):
            verify(replace(EMPTY, graph=graph))


def test_outputs_have_one_outside_name_each_or_none():
    module = parse_module("module @m { graph (%x: f32[]) -> (%x as _) { } }")
    verify(module)
    graph = replace(module.graph, names=("a", "b"))
    with pytest.raises(VerifyError, match="1 outputs have 2 outside names"):
        verify(replace(module, graph=graph))


def test_guards_make_dimensions_equal():
    s, t, u = dim("s"), dim("t"), dim("u")

    def given_that(*pairs):
        return Equalities(Guard(a, "==", b, (), "") for a, b in pairs)

    known = given_that((s, t), (2 * u, 3 * s))
    assert known.equal(s * 4, 4 * t)
    assert known.equal(u * t * 2, s * s * 3)
    assert not known.equal(u, s)
    assert given_that((s, t), (t, u)).equal(s, u)
    assert given_that((s * t, dim(64))).equal(s * t * u, 64 * u)
    assert not given_that((s * t, dim(64))).equal(s, t)
    assert given_that((s, 2 * s)).equal(s * t, dim(0))
    third = (s + 2) // 3
    assert given_that((third, dim(1))).equal((t - 5) * third, t - 5)
    assert given_that((dim(2), third)).equal((t - u) * third * third, 4 * t - 4 * u)
    assert not given_that((third, dim(1))).equal((t - 5) * third, t - 4)
    assert given_that((s * t, dim(6)), (third, dim(1))).equal(s * t * u * third + s * t, 6 * u + 6)
    other = Equalities([Guard(s, "<=", t, (), ""), Guard(s, "!=", t, (), "")])
    assert not other.equal(s, t)


SIZES = [{"s": a, "t": b, "batch": c} for a in range(4) for b in range(4) for c in range(4)]


@given(dimensions, dimensions, dimensions, dimensions)
def test_equalities_follow_from_their_guards(a, b, c, d):
    """What is called equal is equal at every size at which the guard holds."""
    guard = Guard(a, "==", b, (), "")
    if Equalities([guard]).equal(c, d):
        for sizes in SIZES:
            every = {**sizes, "a b": 1, "": 2, "f32": 3, "inf": 0}
            assert not guard.holds(every) or c.evaluate(every) == d.evaluate(every)
