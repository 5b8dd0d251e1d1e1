"""The plan interpreter: right plans give the graph's results, wrong ones give wrong results."""

from dataclasses import replace

import numpy as np
import pytest

from compiler.ir.binding import GuardError, ShapeError
from compiler.ir.interpret import InterpretError, run_graph, run_plan
from compiler.ir.params import ParamStore
from compiler.ir.parser import parse_module

CHAIN = """module @chain dims(s in [0,1024]) {
  graph (%x: f32[s]) -> (%d as result) {
    %a = launch @double (%x) {n=s} : f32[s]
    %b = launch @double (%a) {n=s} : f32[s]
    %c = launch @add (%a, %b) {n=s} : f32[s]
    %d = launch @double (%c) {n=s} : f32[s]
  }
  kernel @double (x: in f32[n], y: out f32[n]) { par i in n { store y[i] = load x[i] * 2.0 } }
  kernel @add (x: in f32[n], z: in f32[n], y: out f32[n]) {
    par i in n { store y[i] = load x[i] + load z[i] }
  }
  plan {
    buffer x: input "x" [%x] size 4*s live [0, 3]
    buffer a: arena [%a] size 4*s live [0, 2]
    buffer b: arena [%b] size 4*s live [1, 2]
    buffer c: arena [%c] size 4*s live [2, 3]
    buffer d: output "result" [%d] size 4*s live [3, 3]
    0: kernel @double (%x: f32[s]) -> (%a: f32[s]) extents [s] parallel s work 2*s
    1: kernel @double (%a: f32[s]) -> (%b: f32[s]) extents [s] parallel s work 2*s
    2: kernel @add (%a: f32[s], %b: f32[s]) -> (%c: f32[s]) extents [s] parallel s work 3*s
    3: kernel @double (%c: f32[s]) -> (%d: f32[s]) extents [s] parallel s work 2*s
  }
}"""


def change(text, *pairs):
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return parse_module(text)


@pytest.mark.parametrize("s", [0, 1, 5, 100])
def test_the_plan_gives_what_the_graph_gives(s):
    module = parse_module(CHAIN)
    x = np.random.default_rng(0).standard_normal(s).astype(np.float32)
    kept = x.copy()
    graph = run_graph(module, {"x": x}, ParamStore())
    plan = run_plan(module, {"x": x}, ParamStore())
    assert plan.keys() == {"result"}
    np.testing.assert_array_equal(plan["result"], graph["result"])
    np.testing.assert_array_equal(plan["result"], kept * 12)
    np.testing.assert_array_equal(x, kept)


@pytest.mark.parametrize("old, new", [
    ("[%a] size 4*s live [0, 2]", "[%a] size 4*s live [0, 1]"),  # forgotten too early
    ("[%b] size 4*s live [1, 2]", "[%b] size 4*s live [2, 2]"),  # made before it exists
    ("[%c] size 4*s live [2, 3]", "[%c] size 4*s live [2, 2]"),
])  # fmt: skip
def test_a_wrong_live_range_is_seen_as_a_wrong_result(old, new):
    result = run_plan(change(CHAIN, (old, new)), {"x": np.ones(5, np.float32)}, ParamStore())
    assert np.isnan(result["result"]).all()


def test_two_live_values_in_one_buffer_are_seen_as_a_wrong_result():
    module = change(
        CHAIN,
        ("    buffer b: arena [%b] size 4*s live [1, 2]\n", ""),
        ("a: arena [%a]", "a: arena [%a, %b]"),
        ("-> (%b: f32[s])", "-> (%b in a: f32[s])"),
        ("%a: f32[s], %b: f32[s])", "%a: f32[s], %b in a: f32[s])"),
    )
    result = run_plan(module, {"x": np.ones(5, np.float32)}, ParamStore())["result"]
    assert result.tolist() == [16] * 5  # a was overwritten by b: (4 + 4) * 2 instead of 12


def test_an_element_that_no_kernel_writes_is_poison():
    module = change(CHAIN, ("store y[i] = load x[i] * 2.0",
                            "if index[i] < i64(2) { store y[i] = load x[i] * 2.0 }"))  # fmt: skip
    result = run_plan(module, {"x": np.ones(4, np.float32)}, ParamStore())["result"]
    assert result[:2].tolist() == [12, 12] and np.isnan(result[2:]).all()


@pytest.mark.parametrize("where", ["x", "w"])
def test_inputs_and_weights_cannot_be_written(where):
    store = ParamStore()
    digest = store.add(np.ones(3, np.float32))
    module = parse_module(f"""module @m params(w: f32[3] "{digest}") {{
      graph (%x: f32[3]) -> (%y) {{
        %w = param @w : f32[3]
        %y = copy %x : f32[3]
      }}
      kernel @fill (y: out f32[n]) {{ par i in n {{ store y[i] = 0.0 }} }}
      plan {{
        buffer x: input "x" [%x] size 12 live [0, 0]
        buffer w: param "w" [%w] size 12 live [0, 0]
        buffer y: output "y" [%y] size 12 live [0, 0]
        0: kernel @fill () -> (%{where}: f32[3]) extents [3] parallel 3 work 3
      }}
    }}""")
    with pytest.raises(ValueError, match="read-only"):
        run_plan(module, {"x": np.ones(3, np.float32)}, store)


WHOLE = """module @whole dims(r, k) guards(k <= 2 @n1 "few") params(w: f32[4,3] "DIGEST") {
  graph (%x: f32[r,4]) -> (%p, %n as count, %q) {
    %w = param @w : f32[4,3]
    %m = call.matmul %x, %w {spec="mk,kn->mn"} : f32[r,3]
    %f = reshape %m : f32[3*r]
    %p = copy %f : f32[3*r]
    %z = call.reference %x, _ {op="onnx.NonZero"} : i64[2,k]
    %v = permute %z {perm=[1,0]} : i64[k,2]
    %n = dims {values=[k]} : i64[1]
    %q = copy %v : i64[k,2]
  }
  kernel @transpose (x: in i64[r,c], y: out i64[c,r]) {
    par i in c { vec j in r { store y[i,j] = load x[j,i] } }
  }
  kernel @dims [n] (y: out i64[1]) { store y[0] = index[n] }
  plan {
    buffer x: input "x" [%x] size 16*r live [0, 2]
    buffer w: param "w" [%w] size 48 live [0, 0]
    buffer m: arena [%m, %f] size 12*r live [0, 1]
    buffer p: output "p" [%p] size 12*r live [1, 1]
    buffer z: KIND [%z] size ZSIZE live [2, 4]
    buffer v: arena [%v] size 16*k live [4, 6]
    buffer n: output "count" [%n] size 8 live [5, 5]
    buffer q: output "q" [%q] size 16*k live [6, 6]
    0: call matmul (%x: f32[r,4], %w: f32[4,3]) -> (%m: f32[r,3]) {spec="mk,kn->mn"}
    1: copy %f in m: f32[3*r] -> %p: f32[3*r]
    2: call reference (%x: f32[r,4], _) -> (%z: i64[2,k])
    3: bind %z [1: k]
    4: kernel @transpose (%z: i64[2,k]) -> (%v: i64[k,2]) extents [2, k] parallel k work 2*k
    5: kernel @dims () -> (%n: i64[1]) extents [k] parallel 1 work 1
    6: copy %v: i64[k,2] -> %q: i64[k,2]
  }
}"""


class Library:
    def run(self, op, inputs, types):
        assert op.str("op") == "onnx.NonZero" and inputs[1] is None
        return [np.array(np.nonzero(inputs[0]))]


def whole(kind, size):
    store = ParamStore()
    weight = np.arange(12, dtype=np.float32).reshape(4, 3)
    text = WHOLE.replace("DIGEST", store.add(weight)).replace("KIND", kind)
    return parse_module(text.replace("ZSIZE", size)), store, weight


@pytest.mark.parametrize("kind, size", [("object", "0"), ("arena", "16*k")])
def test_calls_views_copies_and_sizes_from_data(kind, size):
    module, store, weight = whole(kind, size)
    x = np.array([[0, 1, 0, 0], [0, 0, 0, 2]], np.float32)
    found = run_plan(module, {"x": x}, store, Library())
    assert found["p"].tolist() == (x @ weight).reshape(-1).tolist()
    assert found["count"].tolist() == [2]
    assert found["q"].tolist() == [[0, 1], [1, 3]]
    for name, array in run_graph(module, {"x": x}, store, externs=Library()).items():
        np.testing.assert_array_equal(found[name], array)


def test_values_of_unknown_type_live_as_objects_up_to_the_output():
    module = parse_module("""module @m {
      graph (%x: f32[s]) -> (%z as places) {
        %z = call.reference %x, _ {op="onnx.NonZero"} : ?
      }
      plan {
        buffer x: input "x" [%x] size 4*s live [0, 0]
        buffer z: object [%z] size 0 live [0, 1]
        buffer "z:out": output "places" [%"z:out"] size 0 live [1, 1]
        0: call reference (%x: f32[s], _) -> (%z: ?)
        1: copy %z: ? -> %"z:out": ?
      }
    }""")
    x = np.array([0, 2, 3], np.float32)
    assert run_plan(module, {"x": x}, ParamStore(), Library())["places"].tolist() == [[1, 2]]


def test_a_guard_over_a_size_from_data():
    module, store, _ = whole("object", "0")
    with pytest.raises(GuardError, match="node n1 needs k <= 2"):
        run_plan(module, {"x": np.ones((2, 4), np.float32)}, store, Library())


def test_errors():
    module = parse_module(CHAIN)
    x = {"x": np.ones(3, np.float32)}
    with pytest.raises(InterpretError, match="no plan"):
        run_plan(replace(module, plan=None), x, ParamStore())
    with pytest.raises(ShapeError, match="rank"):
        run_plan(module, {"x": np.ones((3, 1), np.float32)}, ParamStore())
    small = change(CHAIN, ("[%b] size 4*s", "[%b] size 3*s"))
    with pytest.raises(InterpretError, match="step 1: %b takes 12 bytes, buffer b has 9"):
        run_plan(small, x, ParamStore())
    whole_module, store, _ = whole("object", "0")
    with pytest.raises(InterpretError, match="step 2: a library step"):
        run_plan(whole_module, {"x": np.ones((2, 4), np.float32)}, store)
