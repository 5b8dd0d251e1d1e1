"""The command line: the same answers as the page, without a browser.

    python -m compiler compile|run|explain|measure|passes MODEL [options]
    python -m compiler worker
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict
from zipfile import ZipFile

if TYPE_CHECKING:
    from compiler.driver import Built
    from compiler.ir.edits import Event
    from compiler.ir.machine import MachineProfile
    from compiler.ir.types import Array
    from compiler.trace import Json, Trace

MOST_DIGITS = 30
"""Of the number in an option: enough for every size, and for a message about one too large."""


def assignments(values: Sequence[str] | None, option: str) -> dict[str, int]:
    """`["batch=32"]` -> `{"batch": 32}`; OptionError says what is wrong."""
    from compiler.errors import OptionError

    found: dict[str, int] = {}
    for value in values or ():
        name, sign, number = value.rpartition("=")
        if not sign or not name or not number.isdecimal() or len(number) > MOST_DIGITS:
            raise OptionError(f"{option} is NAME=NUMBER, not {value!r}")
        found[name] = int(number)
    return found


def at_least_one(text: str) -> int:
    """A whole number from 1 on; argparse says so for anything else."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("it is at least 1")
    return number


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        prog="python -m compiler",
        description="Compile, run, explain and measure machine-learning models.",
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("model", metavar="MODEL", help="an .onnx file, or the name of a sample")
    common.add_argument("--pin", action="append", metavar="DIM=N", help="bind at compile time")
    common.add_argument("--size", action="append", metavar="DIM=N", help="bind at run time")
    common.add_argument("--pipeline", metavar="TEXT", help="for example default,fuse{by=origin}")
    common.add_argument("--target", default="cpu", help="cpu, cuda or cuda:ptx")
    common.add_argument("--numerics", default="default", choices=("default", "strict"))
    common.add_argument(
        "--threads", type=at_least_one, metavar="N", help="default: all cores"
    )
    common.add_argument("--store", metavar="FOLDER", help="keep engines here and reuse them")
    common.add_argument("--json", action="store_true", help="print JSON (docs/json.md)")
    common.add_argument("--lang", default="en", choices=("en", "vi"), help="language of sentences")
    about = {
        "compile": "compile, and say what came out",
        "run": "compile and run once",
        "explain": "print every pass with what it changed, and every decision",
        "measure": "compare reference, op by op and fused in one run",
        "passes": "print the IR after every pass that changed it",
    }
    for name, text in about.items():
        sub = commands.add_parser(name, help=text, description=text, parents=[common])
        if name in ("run", "measure"):
            sub.add_argument("--inputs", metavar="X.npz", help="else inputs are made")
            sub.add_argument("--seed", type=int, default=0, help="of made inputs")
        if name == "run":
            sub.add_argument("--output", metavar="Y.npz", help="write the outputs here")
        if name == "measure":
            sub.add_argument(
                "--repetitions", type=at_least_one, metavar="N", help="of each variant"
            )
        if name == "explain":
            sub.add_argument("--drift", action="store_true", help="how far each pass moves results")
    commands.add_parser("worker", help="serve compile and measure as JSON lines")
    return top


def find_model(name: str) -> Path:
    """A path, or the name of a sample."""
    path = Path(name)
    if path.exists() or path.suffix == ".onnx":
        return path
    sample = Path(__file__).parent.parent / "sample_models" / f"{name}.onnx"
    return sample if sample.exists() else path


class Options(TypedDict):
    """What compile and measure take alike."""

    model: Path
    target: str
    pin: dict[str, int]
    pipeline: str | None
    numerics: str
    machine: MachineProfile | None
    threads: int | None
    store: str | None
    sizes: dict[str, int]


def options_of(args: argparse.Namespace) -> Options:
    """The options that all commands share. A store keeps the profile of its machine too.

    `run` binds its sizes to the engine that serves all of them; the other commands also tell the
    cost model. It knows a sample's own sizes by itself.
    """
    from compiler.measure.inputs import assumed_sizes
    from compiler.measure.machine import stored_machine

    model, pin = find_model(args.model), assignments(args.pin, "--pin")
    sizes = {} if args.command == "run" else assignments(args.size, "--size")
    if args.command != "measure":
        sizes = assumed_sizes(model, pin, sizes)
    return Options(
        model=model,
        target=args.target,
        pin=pin,
        pipeline=args.pipeline,
        numerics=args.numerics,
        machine=stored_machine(args.store) if args.store else None,
        threads=args.threads,
        store=args.store,
        sizes=sizes,
    )


def compile_model(args: argparse.Namespace) -> Built:
    from compiler.driver import compile

    return compile(**options_of(args))


def inputs_of(args: argparse.Namespace, built: Built) -> dict[str, Array]:
    """The arrays of `--inputs`, else made ones at `--size`."""
    from compiler.measure.inputs import default_sizes, made_inputs, read_inputs

    sizes = default_sizes(built, find_model(args.model), assignments(args.size, "--size"))
    if args.inputs:
        return read_inputs(args.inputs)
    return made_inputs(built, sizes, args.seed)


def sentence(event: Event, lang: str) -> str:
    from compiler.messages import say

    return say(event.message, dict(event.parameters), lang)


def print_explanation(trace: Trace, lang: str) -> None:
    from compiler.messages import say
    from compiler.trace import count

    print(f"{trace.name}  target={trace.target}  numerics={trace.numerics}")
    print(f"pipeline: {trace.pipeline}")
    if trace.assumed:
        sizes = ", ".join(f"{name}={size}" for name, size in trace.assumed.items())
        print(f"gains are estimated at {sizes}")
    for k, r in enumerate(trace.records, 1):
        before, after = count(r.before, r.unit), count(r.after, r.unit)
        state = f"{r.unit} {before} -> {after}" if r.changed else "did nothing"
        head = f"{k:2d}/{len(trace.records)} {r.text}  [{r.level}]"
        print(f"\n{head}  {state}  {r.milliseconds:.1f} ms")
        if r.drift is not None:
            print(
                f"    drift: max abs {r.drift.max_abs:.3g}, relative to the norm "
                f"{r.drift.norm_rel:.3g}, {r.drift.max_ulp:.3g} ULP"
                + (f", first at {r.drift.first}" if r.drift.first else "")
            )
        for e in r.events:
            mark = "-" if e.edits else "refused:"
            where = f"{e.where}: " if e.where else ""
            print(f"    {mark} {where}{sentence(e, lang)}")
        for d in r.decisions:
            text = say(d.message, dict(d.parameters), lang)
            print(
                f"    {d.verdict} {d.a} + {d.b} [{d.tier}] {d.rule}: {text} "
                f"(bytes {d.bytes_before or 'not known'} -> {d.bytes_after or 'not known'}; "
                f"estimated gain {d.gain * 1e6:.2f} us)"
            )
    breaks = trace.breaks()
    if breaks:
        print("\nGraph breaks")
    for b in breaks:
        print(f"    {b.node} ({b.op}): {say(b.message, dict(b.parameters), lang)}")


def command_compile(args: argparse.Namespace) -> None:
    built = compile_model(args)
    if args.json:
        print(json.dumps({**built.trace.to_json(), "key": built.key.digest, "hit": built.hit}))
        return
    module = built.module
    assert module.plan is not None
    distinct = len({s.symbol for s in module.sources})
    print(f"{built.trace.name}: {module.plan.launches()} launches, {distinct} kernels")
    print(f"key {built.key.digest}" + (" (from the store)" if built.hit else ""))
    if built.changed:
        print("changed since the last engine of this model: " + ", ".join(built.changed))
    for phase, milliseconds in built.phases.items():
        print(f"  {phase:8s} {milliseconds:9.1f} ms")
    if breaks := built.trace.breaks():
        print("graph breaks: " + ", ".join(f"{b.node} ({b.op})" for b in breaks))


def write_arrays(path: str, arrays: Mapping[str, Array]) -> None:
    """An `.npz` file that `--inputs` and `numpy.load` read; a name may be any text."""
    import numpy as np

    with ZipFile(path, "w") as file:
        for name, array in arrays.items():
            plain = array.astype(np.str_) if array.dtype.hasobject else array
            with file.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, plain, allow_pickle=False)


def first_values(array: Array, count: int) -> Json:
    """The first elements in row-major order; what JSON has no number for as text."""
    found: list[Json] = array.reshape(-1)[:count].tolist()
    return [x if isinstance(x, bool | int | float | str) else str(x) for x in found]


def command_run(args: argparse.Namespace) -> None:
    import numpy as np

    from compiler.worker import finite

    built = compile_model(args)
    outputs = built.engine.run(inputs_of(args, built))
    if args.output:
        write_arrays(args.output, outputs)
    if args.json:
        found = {
            name: {
                "shape": list(array.shape),
                "dtype": str(array.dtype),
                "values": finite(first_values(array, 16)),
            }
            for name, array in outputs.items()
        }
        print(json.dumps({"outputs": found, "output": args.output}))
        return
    for name, array in outputs.items():
        print(f"{name}: {array.dtype}{list(array.shape)}")
        print(np.array2string(array, threshold=40, edgeitems=3))


def command_explain(args: argparse.Namespace) -> None:
    built = compile_model(args)
    trace = built.trace
    if args.drift:
        from compiler.measure.drift import with_drift

        trace = with_drift(built)
    if args.json:
        from compiler.measure.report import explanation

        print(json.dumps({**trace.to_json(), **explanation(built)}))
    else:
        print_explanation(trace, args.lang)


def command_passes(args: argparse.Namespace) -> None:
    from compiler.ir.printer import print_module

    trace = compile_model(args).trace
    if args.json:
        texts = [print_module(m) for m in trace.snapshots()]
        print(json.dumps({**trace.to_json(), "snapshots": texts}))
        return
    for r in trace.records:
        if r.changed:
            print(f"// after {r.text}\n{print_module(r.after)}")


def command_measure(args: argparse.Namespace) -> None:
    from compiler.measure.report import measure, print_report

    report = measure(
        **options_of(args),
        inputs=args.inputs,
        seed=args.seed,
        repetitions=args.repetitions,
    )
    print(json.dumps(report.to_json()) if args.json else print_report(report))


def main(argv: Sequence[str] | None = None) -> int:
    args = parser().parse_args(argv)
    if args.command == "worker":
        from compiler.worker import main as work

        return work()
    from compiler.errors import CompilerError
    from compiler.ir.binding import BindingError
    from compiler.passes.base import PassError
    from compiler.runtime.engine import ArtifactError, EngineError, LibraryError
    from compiler.runtime.native import NativeError

    failures = (
        CompilerError, BindingError, PassError, EngineError, ArtifactError, LibraryError,
        NativeError, OSError,
    )  # fmt: skip
    run: Mapping[str, Callable[[argparse.Namespace], None]] = {
        "compile": command_compile,
        "run": command_run,
        "explain": command_explain,
        "measure": command_measure,
        "passes": command_passes,
    }
    try:
        run[args.command](args)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read the answer has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except MemoryError as error:
        print(f"error: not enough memory: {error}. Choose smaller sizes.", file=sys.stderr)
        return 1
    except failures as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except KeyboardInterrupt:
        raise SystemExit(130) from None
