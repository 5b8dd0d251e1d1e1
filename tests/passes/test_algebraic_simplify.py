"""algebraic-simplify: every identity holds for every value; those that do not, are not applied."""

from __future__ import annotations

import numpy as np
import pytest

from compiler.ir.types import DType
from compiler.passes.algebraic_simplify import AlgebraicSimplify, holds
from compiler.passes.base import Context
from tests.passes.texts import kinds, module, run, values

SPECIAL = np.array([0.0, -0.0, 1.5, -3.0, 1e-45, 3e38, np.inf, -np.inf, np.nan], np.float32)
CONSTANTS = """%one = const 1.0 : f32[] %zero = const 0.0 : f32[] %minus = const -0.0 : f32[]
    %wide = const 1.0 : f32[1,1] %three = const 3.0 : f32[]"""


def simplified(body: str, p: AlgebraicSimplify | None = None, context: Context | None = None):
    context = context or Context()
    before = module(body, context)
    after, events = run(p or AlgebraicSimplify(), before, context)
    return before, after, events, context


IDENTITIES = [
    "%y = map.mul %x, %one : f32[9]", "%y = map.mul %one, %x : f32[9]",
    "%y = map.div %x, %one : f32[9]", "%y = map.sub %x, %zero : f32[9]",
    "%y = map.add %x, %minus : f32[9]", "%y = map.pow %x, %one : f32[9]",
    "%y = map.max %x, %x : f32[9]", "%y = map.min %x, %x : f32[9]",
    "%a = map.max %x, %three : f32[9] %y = map.max %a, %three : f32[9]",
    "%a = map.abs %x : f32[9] %y = map.abs %a : f32[9]",
    "%a = map.neg %x : f32[9] %y = map.abs %a : f32[9]",
    "%a = map.neg %x : f32[9] %y = map.sub %three, %a : f32[9]",
    "%a = map.neg %x : f32[9] %y = map.add %x, %a : f32[9]",
]  # fmt: skip


@pytest.mark.parametrize("ops", IDENTITIES)
def test_identities_hold_bit_for_bit(ops: str) -> None:
    before, after, events, context = simplified(f"(%x: f32[9]) -> (%y) {{ {CONSTANTS} {ops} }}")
    assert [e.refused for e in events] == [False]
    (old,) = values(before, context, x=SPECIAL).values()
    (new,) = values(after, context, x=SPECIAL).values()
    np.testing.assert_array_equal(old, new)
    number = ~np.isnan(old)
    assert (np.signbit(old) == np.signbit(new))[number].all()


@pytest.mark.parametrize(
    "ops",
    [
        "%y = map.add %x, %zero : f32[9]", "%y = map.sub %x, %minus : f32[9]",
        "%y = map.sub %zero, %x : f32[9]", "%y = map.div %one, %x : f32[9]",
        "%y = map.mul %x, %zero : f32[9]", "%y = map.sub %x, %x : f32[9]",
        "%y = map.pow %one, %x : f32[9]",
    ],
)  # fmt: skip
def test_what_is_no_identity_stays(ops: str) -> None:
    _, after, events, _ = simplified(f"(%x: f32[9]) -> (%y) {{ {CONSTANTS} {ops} }}")
    assert all(e.refused for e in events)
    assert kinds(after)[-1].startswith("map.")


def test_a_broadcast_is_no_identity() -> None:
    _, after, events, _ = simplified(
        f"(%x: f32[9]) -> (%y) {{ {CONSTANTS} %y = map.mul %x, %wide : f32[1,9] }}"
    )
    assert not events and kinds(after)[-1] == "map.mul"


def test_x_plus_zero_is_refused_with_the_reason() -> None:
    _, _, events, _ = simplified(
        f"(%x: f32[9]) -> (%y) {{ {CONSTANTS} %y = map.add %x, %zero : f32[9] }}"
    )
    assert [e.message for e in events] == ["algebraic-simplify.zero"]


def test_select_of_a_known_condition() -> None:
    body = """(%x: f32[4], %z: f32[4]) -> (%y) {{
        %c = const {} : bool[]
        %y = select %c, %x, %z : f32[4]
    }}"""
    for condition, taken in (("true", "x"), ("false", "z")):
        assert simplified(body.format(condition))[1].graph.outputs == (taken,)


NAMES = [d for d in DType if d not in (DType.string, DType.c64, DType.c128)]


@pytest.mark.parametrize("wide", NAMES)
@pytest.mark.parametrize("narrow", NAMES)
def test_which_types_hold_which(wide: DType, narrow: DType) -> None:
    """Against NumPy's own table, and for bfloat16 by its bits."""
    if DType.bf16 in (wide, narrow):
        expected = {
            DType.bf16: narrow in (DType.bf16, DType.bool, DType.i8, DType.u8),
            DType.f32: narrow is DType.bf16, DType.f64: narrow is DType.bf16,
        }.get(wide, False)  # fmt: skip
        if wide is not DType.bf16 and narrow is not DType.bf16:
            return
        assert holds(wide, narrow) == expected
        return
    # NumPy lets float64 stand for 64-bit integers, which it does not hold.
    expected = np.can_cast(narrow.numpy(), wide.numpy())
    if narrow in (DType.i64, DType.u64) and wide is DType.f64:
        expected = False
    assert holds(wide, narrow) == expected


@pytest.mark.parametrize(
    ("chain", "left"),
    [(("i64", "f32"), ["cast"]), (("i64", "i32"), []), (("f32", "i32"), ["cast", "cast"])],
)
def test_casts_that_lose_nothing_vanish(chain: tuple[str, str], left: list[str]) -> None:
    a, b = chain
    before, after, _, context = simplified(
        f"""(%x: i32[3]) -> (%y) {{
            %a = cast %x {{to={a}}} : {a}[3]
            %y = cast %a {{to={b}}} : {b}[3]
        }}"""
    )
    used = [k for op, k in zip(after.graph.ops, kinds(after), strict=True)
            if after.graph.users()[op.key] or op.key in after.graph.outputs]  # fmt: skip
    assert used == left
    x = np.array([2**31 - 1, -(2**31), 16_777_217], np.int32)
    (old,), (new,) = (values(m, context, x=x).values() for m in (before, after))
    np.testing.assert_array_equal(old, new)


PRODUCT = """(%x: f32[3]) -> (%y) {
    %c = const 0.1 : f32[]
    %d = param @d : f32[3]
    %a = map.mul %x, %c : f32[3]
    %y = map.mul %a, %d : f32[3]
}"""


def test_reassociation_is_asked_for_and_never_strict() -> None:
    def after(reassoc: bool, numerics: str) -> tuple[int, list[str]]:
        context = Context(numerics=numerics)
        before = module(PRODUCT, context, {"d": np.array([3, 5, 7], np.float32)})
        result, events = run(AlgebraicSimplify(reassoc=reassoc), before, context)
        (old,), (new,) = (
            values(m, context, x=np.ones(3, np.float32)).values() for m in (before, result)
        )
        np.testing.assert_allclose(new, old, rtol=1e-6)
        return len(result.params), [e.message for e in events]

    assert after(True, "default") == (2, ["algebraic-simplify.reassociated"])
    assert after(False, "default") == (1, ["algebraic-simplify.reassoc.off"])
    assert after(True, "strict") == (1, ["algebraic-simplify.reassoc.strict"])


def test_integers_wrap_the_same_way() -> None:
    before, after, events, context = simplified(
        """(%x: i32[3]) -> (%y) {
            %c = const i32(100000) : i32[]
            %d = const i32(300000) : i32[]
            %a = map.mul %x, %c : i32[3]
            %y = map.mul %a, %d : i32[3]
        }"""
    )
    assert [e.message for e in events] == ["algebraic-simplify.reassociated"]
    x = np.array([1, -7, 2**31 - 1], np.int32)
    (old,), (new,) = (values(m, context, x=x).values() for m in (before, after))
    np.testing.assert_array_equal(old, new)
