"""An engine bound to sizes and run: results, checks, threads, memory, steps of every kind."""

import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from compiler.ir.binding import GuardError, InputError, ShapeError
from compiler.ir.dims import Guard, Symbol, dim
from compiler.ir.plan import BindStep, CallStep, CopyStep
from compiler.ir.types import UNKNOWN, DType, TensorType, attrs, tensor
from compiler.runtime import binding, engine
from compiler.runtime.addresses import address_of
from compiler.runtime.engine import Engine, EngineError, LibraryError, OutputError, RunEvent
from compiler.runtime.library import matmul
from tests.runtime.engines import (
    F32,
    I64,
    add,
    buffer,
    chain,
    increment,
    launch,
    operand,
    pair,
    parts,
    worker,
)


@pytest.fixture(scope="module")
def chained() -> Engine:
    return Engine.assemble(chain(), threads=2)


@pytest.fixture(scope="module")
def single() -> Engine:
    return Engine.assemble(pair(), threads=2)


def ab(*shape: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    return {name: rng.random(shape, np.float32) for name in "ab"}


def expected(inputs: dict[str, np.ndarray]) -> np.ndarray:
    return inputs["a"] + inputs["b"] + np.float32(1) + np.float32(1)


# ---- sizes


@pytest.mark.parametrize("shape", [(3, 5), (1, 1), (0, 4), (4, 0), (300, 400)])
def test_one_engine_serves_every_size(chained: Engine, shape: tuple[int, int]) -> None:
    inputs = ab(*shape)
    result = chained.run(inputs)
    assert list(result) == ["y"]
    assert np.array_equal(result["y"], expected(inputs))
    assert np.array_equal(chained.bind(inputs)()["y"], expected(inputs))


def test_a_step_is_split_over_threads_only_when_it_is_large() -> None:
    """A worker's scratch is its own: with one shared place the results would be mixed."""
    t = tensor(F32, "s")
    step = launch("worker", "s", operand("x", t), operand("y", t), scratch=(dim(4),))
    made = parts({"x": t}, {"y": t}, (step,), (), objects={"worker": worker()})
    eight = Engine.assemble(made, threads=8)
    for n in (0, 1, 100, binding.PARALLEL_WORK, 200_001):
        x = np.arange(n, dtype=np.float32)
        assert np.array_equal(eight.run({"x": x})["y"], x)
    for n, workers in ((binding.PARALLEL_WORK - 1, 1), (binding.PARALLEL_WORK, 8)):
        bound = eight._binding({"x": np.empty(n, np.float32)}, None)
        assert bound.arena_bytes == workers * 64


def test_threads_of_a_run_are_the_callers_choice(chained: Engine) -> None:
    inputs = ab(300, 400)
    for threads in (1, 2, 5):
        assert np.array_equal(chained.run(inputs, threads=threads)["y"], expected(inputs))
    with pytest.raises(ValueError, match="at least 1"):
        chained.run(inputs, threads=0)
    assert chained.conditions["threads"] == 2


def test_a_binding_is_made_once_for_a_set_of_sizes(chained: Engine, monkeypatch) -> None:
    fresh = Engine.assemble(chain(), threads=1)
    made: list[dict[str, int]] = []
    real = binding.Binding

    class Counted(real):
        def __init__(self, program, sizes, threads):
            made.append(dict(sizes))
            super().__init__(program, sizes, threads)

    monkeypatch.setattr(engine, "Binding", Counted)
    for _ in range(3):
        fresh.run(ab(2, 3))
        fresh.run(ab(4, 3))
    assert made == [{"s": 2, "t": 3}, {"s": 4, "t": 3}]
    for n in range(engine.BINDINGS + 4):
        fresh.run(ab(20 + n, 1))
    assert len(fresh._bindings) == engine.BINDINGS
    fresh.run(ab(2, 3))
    assert made[-1] == {"s": 2, "t": 3}


def test_memory_is_told_for_any_size(chained: Engine) -> None:
    layout = chained.memory({"s": 16, "t": 16})
    assert (layout.naive, layout.peak, layout.lower_bound) == (2048, 2048, 2048)
    assert chained.memory({"s": 0, "t": 16}).peak == 0
    with pytest.raises(ValueError, match="'t'"):
        chained.memory({"s": 3})


# ---- inputs


def test_unknown_and_missing_inputs_are_named(chained: Engine) -> None:
    x = np.zeros((2, 2), np.float32)
    with pytest.raises(InputError, match="'b' is missing; inputs: a, b"):
        chained.run({"a": x})
    with pytest.raises(InputError, match="no input 'c'; inputs: a, b"):
        chained.run({"a": x, "b": x, "c": x})
    with pytest.raises(InputError):
        chained.bind({})


@pytest.mark.parametrize("wrong", [np.float64, np.int32, np.bool_, np.complex64, "M8[s]", "U3"])
def test_nothing_is_cast(chained: Engine, wrong: object) -> None:
    x = np.zeros((2, 2), np.float32)
    with pytest.raises(InputError, match=r"input 'b'.*float32"):
        chained.run({"a": x, "b": np.zeros((2, 2), wrong)})
    with pytest.raises(InputError, match="float64"):
        chained.run({"a": x, "b": [[1.0, 2.0], [3.0, 4.0]]})


def test_shapes_that_do_not_fit_are_refused(chained: Engine) -> None:
    x = np.zeros((2, 3), np.float32)
    with pytest.raises(ShapeError, match="rank 1"):
        chained.run({"a": np.zeros(3, np.float32), "b": x})
    with pytest.raises(ShapeError, match="axis 0 of input 'b' has extent 4, expected 2"):
        chained.run({"a": x, "b": np.zeros((4, 3), np.float32)})
    with pytest.raises(ShapeError, match="0 to 1000"):
        chained.run(ab(1001, 1))


def test_a_failing_guard_is_raised_each_time_and_names_its_node(chained: Engine) -> None:
    for _ in range(2):
        with pytest.raises(GuardError, match='Add "first"') as caught:
            chained.run(ab(13, 2))
        assert caught.value.sizes == {"s": 13}
    assert np.array_equal(chained.run(ab(12, 2))["y"], expected(ab(12, 2)))


def misaligned(array: np.ndarray) -> np.ndarray:
    raw = np.empty(array.nbytes + 1, np.uint8)
    view = np.ndarray(array.shape, array.dtype, raw, 1)
    view[...] = array
    return view


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda a: np.asfortranarray(a), "non-contiguous"),
        (lambda a: np.repeat(a, 2, axis=1)[:, ::2], "non-contiguous"),
        (lambda a: a[::-1].copy()[::-1], "non-contiguous"),
        (misaligned, "misaligned"),
        (lambda a: a.astype(">f4"), "byte-swapped"),
    ],
)
def test_inputs_that_no_kernel_can_read_are_copied_with_an_event(change, reason) -> None:
    fresh = Engine.assemble(chain(), threads=1)
    inputs = ab(3, 5)
    given = {"a": change(inputs["a"]), "b": inputs["b"]}
    before = given["a"].copy()
    assert np.array_equal(fresh.run(given)["y"], expected(inputs))
    assert fresh.events == (RunEvent("copy", "a", reason),)
    assert np.array_equal(given["a"], before)
    call = fresh.bind(given)
    assert np.array_equal(call()["y"], expected(inputs))
    given["a"] += np.float32(2)  # a bound call sees it, though it works on a copy
    changed = {"a": inputs["a"] + np.float32(2), "b": inputs["b"]}
    assert np.array_equal(call()["y"], expected(changed))


def test_usable_inputs_are_not_copied_and_may_be_read_only(chained: Engine) -> None:
    inputs = ab(3, 5)
    for array in inputs.values():
        array.flags.writeable = False
    count = len(chained.events)
    assert np.array_equal(chained.run(inputs)["y"], expected(inputs))
    assert len(chained.events) == count


def test_the_same_array_twice_is_fine(chained: Engine) -> None:
    x = ab(300, 400)["a"]
    assert np.array_equal(chained.run({"a": x, "b": x})["y"], x + x + np.float32(1) + np.float32(1))


def test_scalars() -> None:
    t = tensor(F32)
    step = launch("increment", 1, operand("x", t), operand("y", t))
    made = parts({"x": t}, {"y": t}, (step,), (), objects={"increment": increment()})
    scalar = Engine.assemble(made)
    result = scalar.run({"x": np.array(2.5, np.float32)})["y"]
    assert result.shape == () and result == 3.5
    assert scalar.run({"x": np.float32(4)})["y"] == 5


# ---- outputs


def test_results_go_where_out_says(chained: Engine) -> None:
    inputs, y = ab(3, 5), np.zeros((3, 5), np.float32)
    result = chained.run(inputs, out={"y": y})
    assert result["y"] is y
    assert np.array_equal(y, expected(inputs))
    assert chained.run(inputs)["y"] is not chained.run(inputs)["y"]


def read_only() -> np.ndarray:
    array = np.empty((3, 5), np.float32)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ({"z": np.empty((3, 5), np.float32)}, "no output 'z'; outputs: y"),
        ({"y": np.empty((3, 4), np.float32)}, r"float32\[3,4\], the result is float32\[3,5\]"),
        ({"y": np.empty((3, 5), np.float64)}, "float64"),
        ({"y": np.empty((3, 5), ">f4")}, "the result is float32"),
        ({"y": np.empty((5, 3), np.float32).T}, "not C-contiguous"),
        ({"y": misaligned(np.zeros((3, 5), np.float32))}, "not aligned"),
        ({"y": read_only()}, "read-only"),
        ({"y": [[0.0] * 5] * 3}, "a list, expected an array"),
    ],
)
def test_an_out_that_does_not_fit_is_refused(chained: Engine, out, message: str) -> None:
    for use in (chained.run, chained.bind):
        with pytest.raises(OutputError, match=message):
            use(ab(3, 5), out)


def test_out_must_not_overlap_an_input_or_another_out(chained: Engine) -> None:
    memory = np.zeros(40, np.float32)
    x, near, apart = memory[:15].reshape(3, 5), memory[14:29], memory[15:30]
    with pytest.raises(OutputError, match="'y' shares memory with input 'b'"):
        chained.run({"a": ab(3, 5)["a"], "b": x}, {"y": near.reshape(3, 5)})
    with pytest.raises(OutputError):
        chained.bind({"a": x, "b": x}, {"y": x})
    chained.run({"a": x, "b": x}, {"y": apart.reshape(3, 5)})
    empty = memory[:0].reshape(0, 5)
    assert chained.run({"a": empty, "b": empty}, {"y": empty})["y"].size == 0
    t = tensor(F32, "s")
    steps = tuple(launch("increment", "s", operand("x", t), operand(n, t)) for n in "yz")
    two = Engine.assemble(
        parts({"x": t}, {"y": t, "z": t}, steps, (), objects={"increment": increment()})
    )
    with pytest.raises(OutputError, match="out 'z' shares memory with out 'y'"):
        two.run({"x": np.zeros(4, np.float32)}, {"y": memory[:4], "z": memory[3:7]})
    result = two.run({"x": np.zeros(4, np.float32)}, {"z": memory[:4]})
    assert {name: array.tolist() for name, array in result.items()} == {"y": [1] * 4, "z": [1] * 4}
    assert list(result) == ["y", "z"]


# ---- bound calls, threads, lifetime


def test_a_bound_call_works_on_the_same_memory_and_keeps_it(single: Engine) -> None:
    x, y = np.zeros(100, np.float32), np.zeros(100, np.float32)
    call = single.bind({"x": x}, {"y": y})
    for k in range(3):
        x[...] = k
        assert call()["y"] is y
        assert (y == k + 1).all()
    gone = weakref.ref(x)
    del x
    gc.collect()
    assert gone() is not None
    assert (call()["y"] == 3).all()
    del call
    gc.collect()
    assert gone() is None


def test_a_bound_call_outlives_its_engine() -> None:
    call = Engine.assemble(pair()).bind({"x": np.arange(9, dtype=np.float32)})
    gc.collect()
    assert np.array_equal(call()["y"], np.arange(1, 10))


def test_a_plan_of_kernels_alone_is_one_step_into_c(chained: Engine) -> None:
    assert len(chained.bind(ab(3, 5))._actions) == 1


def test_eight_threads_share_an_engine(chained: Engine) -> None:
    start = threading.Barrier(8)

    def work(seed: int) -> bool:
        rng = np.random.default_rng(seed)
        start.wait()
        for _ in range(30):
            shape = int(rng.integers(14, 60)), int(rng.integers(0, 900))
            inputs = {n: rng.random(shape, np.float32) for n in "ab"}
            if not np.array_equal(chained.run(inputs)["y"], expected(inputs)):
                return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))
    assert 1 <= len(chained._arenas._idle) <= 9


def test_an_engine_keeps_one_arena_for_all_sizes() -> None:
    fresh = Engine.assemble(chain(), threads=1)
    for n in (1, 50, 3, 100, 2):
        fresh.run(ab(n, 40))
    (arena,) = fresh._arenas._idle
    assert arena.nbytes == fresh.memory({"s": 100, "t": 40}).peak
    assert address_of(arena) % 64 == 0


def test_every_step_can_be_timed(chained: Engine) -> None:
    times = chained.per_step(ab(3, 5), repetitions=4)
    assert [len(t) for t in times] == [4, 4, 4]
    assert all(t > 0 for step in times for t in step)


# ---- library steps


def one_node(op: str, inputs: int = 1, outputs: int = 1, **attributes: object) -> bytes:
    """As the compiler writes it: inputs i0, i1, …, outputs o0, …"""
    ins, outs = [f"i{k}" for k in range(inputs)], [f"o{k}" for k in range(outputs)]
    node = helper.make_node(op, ins, outs, **attributes)
    untyped = onnx.ValueInfoProto
    graph = helper.make_graph([node], "node", [untyped(name=n) for n in ins],
                              [untyped(name=n) for n in outs])  # fmt: skip
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, ir_version=8, opset_imports=opsets).SerializeToString()


def linear() -> engine.Parts:
    """y = (x w + 1), softmax of it as p: a product, a kernel, a library step."""
    x, w, y = tensor(F32, "m", 4), tensor(F32, 4, 3), tensor(F32, "m", 3)
    weight = np.arange(12, dtype=np.float32).reshape(4, 3)
    weight.flags.writeable = False
    product = attrs(spec="mk,kn->mn")
    steps = (
        CallStep("matmul", (operand("x", x), operand("w", w)), (operand("t", y),), product),
        launch("increment", dim("m") * 3, operand("t", y), operand("y", y)),
        CallStep("reference", (operand("y", y),), (operand("p", y),), attrs(op="onnx.Softmax")),
    )
    return parts(
        {"x": x}, {"y": y, "p": y}, steps, (buffer("t", "arena", y, (0, 1)),),
        objects={"increment": increment()}, params={"w": weight},
        library={"p": one_node("Softmax", axis=-1)},
    )  # fmt: skip


@pytest.mark.parametrize("m", [0, 1, 7])
def test_products_kernels_and_reference_steps_work_together(m: int) -> None:
    made = Engine.assemble(linear())
    x = np.random.default_rng(3).random((m, 4), np.float32)
    y = x @ made.parts.params["w"] + np.float32(1)
    p = np.exp(y - y.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    for result in (made.run({"x": x}), made.bind({"x": x})()):
        np.testing.assert_allclose(result["y"], y, rtol=1e-6)
        np.testing.assert_allclose(result["p"], p, rtol=1e-6)
    assert made.phases["library"] > 0
    assert [len(t) for t in made.per_step({"x": x})] == [1, 1, 1]


def test_a_bound_product_sees_new_inputs() -> None:
    made = Engine.assemble(linear())
    x = np.zeros((2, 4), np.float32)
    call = made.bind({"x": x})
    assert (call()["y"] == 1).all()
    x[0] = 1
    assert call()["y"].tolist() == [[19, 23, 27], [1, 1, 1]]


SPECS = [
    "mk,kn->mn", "bmk,kn->bmn", "bmk,bkn->bmn", "km,kn->mn", "mk,nk->mn", "k,k->", "mk,k->m",
    "k,kn->n", "mk,kn->nm", "mk,bkn->bmn", "abmk,bkn->abmn", "abmk,acbkn->acbmn", "m,n->mn",
    "qbhd,kbhd->bhqk", "abk,bkc->acb", "b,b->b", "mk,bkn->mbn",
]  # fmt: skip


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int64])
def test_a_product_is_what_einsum_says(spec: str, dtype: type) -> None:
    letters = dict(zip("abcmnkhqd", (2, 3, 4, 5, 6, 7, 2, 3, 5), strict=True))
    left, right, result = spec.replace("->", ",").split(",")
    rng = np.random.default_rng(1)
    zero_sum = {c: 0 if c in left and c in right and c not in result else n
                for c, n in letters.items()}  # fmt: skip
    ones, none = dict.fromkeys(letters, 1), dict.fromkeys(letters, 0)
    for size in (letters, zero_sum, ones, none):
        a, b = (rng.integers(-9, 9, [size[c] for c in t]).astype(dtype) for t in (left, right))
        out = np.full([size[c] for c in result], 77, dtype)
        matmul(spec, a, b, out)()
        assert np.array_equal(out, np.einsum(spec, a, b)), size


@pytest.mark.parametrize("spec", ["mk,kn->mnk", "mk,kn->m", "mk,kn", "mm,mn->mn", "mk,jn->mn"])
def test_a_spec_that_is_no_product_is_refused(spec: str) -> None:
    with pytest.raises(ValueError, match=r"product|fit"):
        matmul(spec, np.zeros((2, 2)), np.zeros((2, 2)), np.zeros((2, 2)))
    with pytest.raises(ValueError, match="both 2 and 3"):
        matmul("mk,kn->mn", np.zeros((2, 2)), np.zeros((3, 2)), np.zeros((2, 2)))


def test_a_reference_step_never_gets_to_write_its_inputs(monkeypatch) -> None:
    made = Engine.assemble(linear())
    x = np.ones((2, 4), np.float32)
    made.run({"x": x})
    (node,) = made._library._nodes.values()
    seen: list[np.ndarray] = []

    class Spy:
        def run(self, names, feeds):
            seen.extend(feeds.values())
            return [np.zeros((2, 3), np.float64)]

    object.__setattr__(node, "evaluator", Spy())
    with pytest.raises(LibraryError, match=r"%p as float64\[2,3\], the model means float32\[2,3\]"):
        made.run({"x": x})
    assert [a.flags.writeable for a in seen] == [False]


def test_a_failing_reference_step_names_its_value() -> None:
    t = tensor(F32, "s")
    step = CallStep("reference", (operand("x", t),), (operand("y", t),), attrs())
    made = parts({"x": t}, {"y": t}, (step,), (), library={"y": one_node("Reshape", inputs=1)})
    with pytest.raises(LibraryError, match="makes %y"):
        Engine.assemble(made).run({"x": np.zeros(3, np.float32)})


def test_an_absent_input_and_one_given_twice() -> None:
    """Clip(x, _, x.max): the model has the values that are there, each once."""
    t, one = tensor(F32, "s"), tensor(F32)
    node = helper.make_node("Clip", ["i0", "", "i1"], ["o0"])
    ins = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in ("i0", "i1")]
    outs = [helper.make_tensor_value_info("o0", TensorProto.FLOAT, None)]
    graph = helper.make_graph([node], "node", ins, outs)
    clip = helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])
    steps = (
        CallStep(
            "reference", (operand("x", t), None, operand("h", one)), (operand("c", t),), attrs()
        ),
        CallStep("reference", (operand("c", t), operand("c", t)), (operand("y", t),), attrs()),
    )
    sum_node = helper.make_node("Add", ["i0", "i0"], ["o0"])
    double = helper.make_model(
        helper.make_graph([sum_node], "node", ins[:1], outs),
        ir_version=8, opset_imports=[helper.make_opsetid("", 17)],
    )  # fmt: skip
    made = parts(
        {"x": t, "h": one}, {"y": t}, steps, (buffer("c", "arena", t, (0, 1)),),
        library={"c": clip.SerializeToString(), "y": double.SerializeToString()},
    )  # fmt: skip
    x, h = np.array([-3, 1, 9], np.float32), np.array(4, np.float32)
    assert Engine.assemble(made).run({"x": x, "h": h})["y"].tolist() == [-6, 2, 8]


def test_a_copy_step_gives_an_input_as_an_output() -> None:
    t = tensor(I64, "s", 2)
    made = parts({"x": t}, {"y": t}, (CopyStep(operand("x", t), operand("y", t)),), ())
    x = np.arange(6).reshape(3, 2)
    result = Engine.assemble(made).run({"x": x})["y"]
    assert np.array_equal(result, x) and not np.shares_memory(result, x)


# ---- sizes from data


def nonzero(guards: tuple[Guard, ...] = ()) -> engine.Parts:
    """i = NonZero(x): i64[1,n]; f = Cast(i): f32[1,n]; y = f + 1: f32[1,n], n from data."""
    x, i, f = tensor(F32, "s"), tensor(I64, 1, "n"), tensor(F32, 1, "n")
    steps = (
        CallStep("reference", (operand("x", x),), (operand("i", i),), attrs()),
        BindStep("i", ((1, "n"),)),
        CallStep("reference", (operand("i", i),), (operand("f", f),), attrs()),
        launch("increment", "n", operand("f", f), operand("y", f)),
    )
    return parts(
        {"x": x}, {"y": f}, steps,
        (buffer("i", "arena", i, (0, 2)), buffer("f", "arena", f, (2, 3))),
        objects={"increment": increment()}, symbols=(Symbol("s"), Symbol("n", 0, 5)), guards=guards,
        library={"i": one_node("NonZero"), "f": one_node("Cast", to=TensorProto.FLOAT)},
    )  # fmt: skip


def test_sizes_may_come_from_data() -> None:
    made = Engine.assemble(nonzero())
    for x, y in (([0, 1, 0, 2], [[2, 4]]), ([0, 0], [[]]), ([3], [[1]]), ([], [[]])):
        result = made.run({"x": np.array(x, np.float32)})["y"]
        assert result.dtype == np.float32 and result.tolist() == y
    x = np.array([0, 5, 0], np.float32)
    call = made.bind({"x": x})
    assert call()["y"].tolist() == [[2]]
    x[0] = 1
    assert call()["y"].tolist() == [[1, 2]] and call.outputs["y"].shape == (1, 2)
    assert [len(t) for t in made.per_step({"x": x})] == [1, 1, 1, 1]


def test_out_of_a_size_from_data_is_checked_when_it_is_known() -> None:
    made = Engine.assemble(nonzero())
    x, y = np.array([0, 5, 0], np.float32), np.zeros((1, 1), np.float32)
    assert made.run({"x": x}, {"y": y})["y"] is y and y.tolist() == [[2]]
    with pytest.raises(OutputError, match="out 'y'"):
        made.run({"x": np.ones(2, np.float32)}, {"y": y})
    with pytest.raises(OutputError, match=r"float32\[1\], the result is float32\[1,1\]"):
        made.run({"x": x}, {"y": y[0]})


def test_bounds_and_guards_of_sizes_from_data_are_checked() -> None:
    guard = Guard(dim("n"), "<=", dim("s") + -1, (0,), "some zero")
    made = Engine.assemble(nonzero((guard,)))
    assert made.run({"x": np.array([0, 1], np.float32)})["y"].size == 1
    with pytest.raises(GuardError, match="n=2, s=2"):
        made.run({"x": np.ones(2, np.float32)})
    with pytest.raises(ShapeError, match="expected 0 to 5"):
        made.run({"x": np.concatenate([np.zeros(3), np.ones(6)]).astype(np.float32)})


def test_values_without_a_type_live_as_arrays() -> None:
    """Text goes through the library, and a value of unknown type is given out as it was made."""
    text = TensorType(DType.string, (dim("s"),))
    steps = (
        CallStep("reference", (operand("x", text),), (operand("u", UNKNOWN),), attrs()),
        CopyStep(operand("u", UNKNOWN), operand("y", UNKNOWN)),
    )
    made = parts(
        {"x": text}, {"y": UNKNOWN}, steps, (buffer("u", "object", UNKNOWN, (0, 1)),),
        library={"u": one_node("Identity")},
    )  # fmt: skip
    x = np.array(["a", "được", ""], np.object_)
    result = Engine.assemble(made).run({"x": x})["y"]
    assert result.tolist() == x.tolist() and result is not x


def test_results_of_another_shape_than_declared_are_refused() -> None:
    x, i = tensor(F32, "s"), tensor(I64, 2, "n")
    steps = (
        CallStep("reference", (operand("x", x),), (operand("y", i),), attrs()),
        BindStep("y", ((1, "n"),)),
    )
    made = parts({"x": x}, {"y": i}, steps, (), library={"y": one_node("NonZero")})
    with pytest.raises(ShapeError, match="%y"):
        Engine.assemble(made).run({"x": np.ones(3, np.float32)})


# ---- parts that do not fit together


def test_parts_that_do_not_fit_are_refused() -> None:
    t = tensor(F32, "s")
    step = launch("increment", "s", operand("x", t), operand("y", t))
    with pytest.raises(EngineError, match="kernel 'increment' of 'test' was not built"):
        Engine.assemble(parts({"x": t}, {"y": t}, (step,), (), objects={"add": add()}))
    call = CallStep("reference", (operand("x", t),), (operand("y", t),), attrs())
    with pytest.raises(EngineError, match="library step that makes %y"):
        Engine.assemble(parts({"x": t}, {"y": t}, (call,), ()))
    copy = CopyStep(operand("w", t), operand("y", t))
    lonely = parts({"x": t}, {"y": t}, (copy,), (buffer("w", "param", t),))
    with pytest.raises(EngineError, match="weight 'w'"):
        Engine.assemble(lonely)


def test_a_value_larger_than_its_buffer_is_refused_before_anything_runs() -> None:
    t, half = tensor(F32, dim("s") * 2), tensor(F32, "s")
    steps = (
        launch("increment", dim("s") * 2, operand("x", t), operand("u", t)),
        launch("increment", dim("s") * 2, operand("u", t), operand("y", t)),
    )
    made = parts(
        {"x": t}, {"y": t}, steps, (buffer("u", "arena", half, (0, 1)),),
        objects={"increment": increment()},
    )  # fmt: skip
    with pytest.raises(ValueError, match="%u takes 32 bytes, its buffer 'u' has 16"):
        Engine.assemble(made).run({"x": np.zeros(8, np.float32)})


def test_weights_are_copied_only_to_be_aligned() -> None:
    t = tensor(F32, 5)
    step = launch("add", 5, operand("x", t), operand("w", t), operand("y", t))
    odd = misaligned(np.arange(5, dtype=np.float32))
    made = Engine.assemble(
        parts({"x": t}, {"y": t}, (step,), (), objects={"add": add()}, params={"w": odd})
    )
    assert made.run({"x": np.ones(5, np.float32)})["y"].tolist() == [1, 2, 3, 4, 5]
    aligned = made._program.params["w"]
    again = engine._aligned(aligned)
    assert again is aligned and address_of(aligned) % 64 == 0
