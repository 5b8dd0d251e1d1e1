"""map-gpu beyond its golden texts: where it stands, what it is told of sizes, what it refuses."""

import pytest

from compiler.driver import trace_model
from compiler.errors import PipelineError
from compiler.ir.loops import For, walk_statements
from compiler.passes.base import Context, Result
from compiler.passes.map_gpu import MapGpu
from compiler.pipeline import DEFAULT, for_target, parse_pipeline, print_pipeline
from sample_models import sample


def mapped(name: str, context: Context, p: MapGpu) -> Result:
    pin = {"cols": context.pin["cols"]} if context.pin else None
    trace, _ = trace_model(
        sample(name).path, "default,-stream-stores", pin=pin, until="plan-memory"
    )
    return p.run(trace.final, context)


def warps(found: Result) -> int:
    (kernel,) = found.module.kernels
    loops = [s for s in walk_statements(kernel.body) if isinstance(s, For) and s.kind == "warp"]
    return loops[0].extent.evaluate({}) if loops else 1


def test_for_a_cpu_it_refuses() -> None:
    found = mapped("softmax_spelled_out", Context(), MapGpu())
    assert [(e.message, e.edits) for e in found.events] == [("gpu.target", ())]
    assert all(not k.grid()[0] for k in found.module.kernels)


def test_assumed_sizes_and_pins_choose_the_warps_of_a_row() -> None:
    p = MapGpu(chunks=2, block=1)
    for columns, wanted in ((256, 1), (1024, 4), (100_000, 32)):
        gpu = Context(target="cuda:ptx", sizes={"rows": 8, "cols": columns})
        assert warps(mapped("softmax_spelled_out", gpu, p)) == wanted
        gpu = Context(target="cuda:ptx", pin={"cols": columns})
        assert warps(mapped("softmax_spelled_out", gpu, p)) == wanted


def test_events_say_which_way_each_kernel_went() -> None:
    gpu = Context(target="cuda:ptx")
    messages = [
        e.message
        for name in ("layernorm_residual", "mlp", "diamond")
        for e in mapped(name, gpu, MapGpu()).events
        if e.edits
    ]
    assert set(messages) == {"gpu.row", "gpu.pointwise", "gpu.small"}


def test_it_takes_the_place_of_stream_stores() -> None:
    assert for_target(DEFAULT, "cpu") is DEFAULT
    text = print_pipeline(for_target(DEFAULT, "cuda"))
    assert text == print_pipeline(DEFAULT).replace("stream-stores", "map-gpu")
    without = for_target(parse_pipeline("default,-stream-stores"), "cuda:ptx")
    assert [p.name for p in without].count("map-gpu") == 1
    assert print_pipeline(for_target(without, "cuda")) == print_pipeline(without)


@pytest.mark.parametrize(
    "options", ["threads=100", "warps=3", "rows=17", "chunks=64", "block=33", "stream=perhaps"]
)
def test_wrong_options(options: str) -> None:
    before = "import,bind-dims,infer-shapes,partition-fallback,decompose,fuse,lower-loops"
    with pytest.raises(PipelineError):
        parse_pipeline(f"{before},map-gpu{{{options}}},plan-memory,emit,build")
