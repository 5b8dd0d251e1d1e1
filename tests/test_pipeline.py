"""The pipeline's text: what is printed is parsed back, and what is wrong is said where."""

import pytest

from compiler.errors import PipelineError
from compiler.passes.cse import Cse
from compiler.passes.fuse import Fuse
from compiler.pipeline import DEFAULT, OP_BY_OP, PASSES, parse_pipeline, print_pipeline


@pytest.mark.parametrize("pipeline", [DEFAULT, OP_BY_OP], ids=["default", "op-by-op"])
def test_round_trip(pipeline: tuple[object, ...]) -> None:
    assert parse_pipeline(print_pipeline(pipeline)) == pipeline  # pyright: ignore


def test_names() -> None:
    assert parse_pipeline("default") == DEFAULT
    assert parse_pipeline(" op-by-op ") == OP_BY_OP
    assert len({p.name for p in PASSES}) == len(PASSES)


def test_options_and_drops() -> None:
    made = parse_pipeline('default,fuse{max_ops=8,force=[a+b,"x y+z"]},-cse')
    assert Fuse(max_ops=8, force=("a+b", "x y+z")) in made
    assert not any(isinstance(p, Cse) for p in made)
    assert parse_pipeline(print_pipeline(made)) == made


def test_dropping_fuse_is_op_by_op_grouping() -> None:
    assert Fuse(by="origin") in parse_pipeline("default,-fuse")
    without = ",".join(p for p in print_pipeline(DEFAULT).split(",") if p != "fuse")
    assert Fuse(by="origin") in parse_pipeline(without)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("default,fuze", "no pass is called 'fuze'"),
        ("default,-decompose", "decompose is required"),
        ("default,fuse{depth=3}", "fuse has no option 'depth'"),
        ("default,fuse{max_ops=many}", "max_ops is a whole number"),
        ("default,fuse{max_ops=3", r"character \d+: expected ','"),
        ("default,emit{math=fast}", "math is one of poly, libm"),
        ("default,,cse", "expected a word"),
        ("cse,import", "is required exactly once"),
        ("-cse", "follows `default,`"),
        ("default,", "expected a pass after the comma"),
    ],
)
def test_errors_say_where(text: str, said: str) -> None:
    with pytest.raises(PipelineError, match=said):
        parse_pipeline(text)


def test_a_pass_before_what_it_needs() -> None:
    names = print_pipeline(DEFAULT).split(",")
    at = names.index("plan-memory")
    moved = [names[at], *names[:at], *names[at + 1 :]]
    with pytest.raises(PipelineError, match="plan-memory needs lower-loops before it"):
        parse_pipeline(",".join(moved))
