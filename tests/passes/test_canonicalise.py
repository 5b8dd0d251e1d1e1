"""canonicalise: one spelling, the same bits."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.passes.base import Context
from compiler.passes.canonicalise import Canonicalise, reciprocal
from compiler.passes.cse import Cse
from tests.passes.texts import kinds, module, run, values

SPECIAL = np.array([0.0, -0.0, 1.5, -3.0, 1e-45, 3e38, np.inf, -np.inf, np.nan], np.float32)


def rewritten(body: str, context: Context | None = None, head: str = ""):
    context = context or Context()
    before = module(body, context, head=head)
    after, events = run(Canonicalise(), before, context)
    return before, after, events


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("map.add %c, %x : f32[9]", "map.add %x, %c : f32[9]"),
        ("map.mul %c, %x : f32[9]", "map.mul %x, %c : f32[9]"),
        ("map.max %c, %x : f32[9]", "map.max %x, %c : f32[9]"),
        ("compare.lt %c, %x : bool[9]", "compare.gt %x, %c : bool[9]"),
        ("compare.ge %c, %x : bool[9]", "compare.le %x, %c : bool[9]"),
        ("compare.ne %c, %x : bool[9]", "compare.ne %x, %c : bool[9]"),
        ("map.div %x, %c : f32[9]", "map.mul %x, %h : f32[9]"),
    ],
)
def test_two_spellings_become_one_with_the_same_bits(first: str, second: str) -> None:
    context = Context()
    before = module(
        f"""(%x: f32[9]) -> (%a, %b) {{
            %c = const 2.0 : f32[]
            %h = const 0.5 : f32[]
            %a = {first}
            %b = {second}
        }}""",
        context,
    )
    after, events = run(Canonicalise(), before, context)
    assert len(events) == 1
    merged, _ = run(Cse(), after, context)
    assert merged.graph.outputs[0] == merged.graph.outputs[1]
    old, new = values(before, context, x=SPECIAL), values(merged, context, x=SPECIAL)
    for name, array in old.items():
        np.testing.assert_array_equal(new[name], array)
        assert (np.signbit(new[name]) == np.signbit(array))[~np.isnan(SPECIAL)].all()


@pytest.mark.parametrize("op", ["map.max", "map.min"])
@pytest.mark.parametrize("number", ["0.0", "-0.0", "nan"])
def test_the_side_of_a_zero_may_matter(op: str, number: str) -> None:
    _, after, events = rewritten(
        f"(%x: f32[4]) -> (%y) {{ %c = const {number} : f32[] %y = {op} %c, %x : f32[4] }}"
    )
    assert [e.message for e in events] == ["canonicalise.right.zero"]
    assert after.graph.ops[-1].operands[0] == "c"


@pytest.mark.parametrize("power", [-149, -127, -126, -1, 0, 1, 126, 127])
def test_a_quotient_by_a_power_of_two_is_a_product(power: int) -> None:
    divisor = np.float32(2.0) ** np.float32(power)
    factor = reciprocal(np.asarray(divisor, np.float32))
    assert (factor is not None) == (-126 <= power <= 126)
    if factor is not None:
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(SPECIAL / divisor, SPECIAL * factor)
            assert (np.signbit(SPECIAL / divisor) == np.signbit(SPECIAL * factor)).all()


@pytest.mark.parametrize("number", [3.0, 0.0, np.inf, np.nan, 0.1])
def test_no_other_quotient_is(number: float) -> None:
    assert reciprocal(np.asarray(number, np.float32)) is None


def test_integers_are_divided_as_they_are() -> None:
    _, after, events = rewritten(
        "(%x: i32[4]) -> (%y) { %c = const i32(2) : i32[] %y = map.div %x, %c : i32[4] }"
    )
    assert not events and kinds(after) == ["const", "map.div"]


def test_the_negation_of_an_order_is_one_only_without_nan() -> None:
    body = """(%x: {0}[4], %z: {0}[4]) -> (%y) {{
        %c = compare.lt %x, %z : bool[4]
        %y = map.not %c : bool[4]
    }}"""
    assert kinds(rewritten(body.format("f32"))[1])[-1] == "map.not"
    assert kinds(rewritten(body.format("i32"))[1])[-1] == "compare.ge"


def test_views_of_a_symbolic_shape_become_reshapes() -> None:
    _, after, _ = rewritten(
        """(%x: f32[s,2,3]) -> (%y) {
             %d = dims {values=[2, 3*s]} : i64[2]
             %a = onnx.Flatten %x {axis=1} : f32[s,6]
             %y = onnx.Reshape %a, %d : f32[2,3*s]
           }""",
        head="dims(s)",
    )
    assert kinds(after) == ["dims", "reshape", "reshape"]


def test_a_dropout_whose_mask_is_read_or_that_trains_stays() -> None:
    masked = "(%x: f32[4]) -> (%y, %m) { %y, %m = onnx.Dropout %x : f32[4], bool[4] }"
    training = """(%x: f32[4]) -> (%y) {
        %r = const 0.5 : f32[]
        %t = const b1(1) : bool[]
        %y = onnx.Dropout %x, %r, %t : f32[4]
    }""".replace("b1(1)", "true")
    for body in (masked, training):
        assert not rewritten(body)[2]


def test_a_permutation_that_turns_axes_stays() -> None:
    _, after, events = rewritten(
        "(%x: f32[2,1,3]) -> (%y) { %y = permute %x {perm=[2, 1, 0]} : f32[3,1,2] }"
    )
    assert kinds(after) == ["permute"] and not events
