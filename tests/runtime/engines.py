"""Engines put together by hand: plans as values, kernels as LLVM text. No compiler is needed."""

import llvmlite.binding as llvm
import numpy as np

from compiler.ir.dims import Dim, DimLike, Guard, Symbol, dim, product
from compiler.ir.plan import Buffer, KernelStep, Operand, Plan, Signature, Step
from compiler.ir.types import DType, TensorType, tensor
from compiler.runtime.engine import Parts

F32, I64 = DType.f32, DType.i64

_LOOP = """
define void @NAME(ptr %p, i64 %worker, i64 %lo, i64 %hi) {
entry:
  ARGS
  br label %loop
loop:
  %i = phi i64 [%lo, %entry], [%i1, %loop]
  BODY
  %i1 = add i64 %i, 1
  %more = icmp ult i64 %i1, %hi
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""


def kernel(name: str, arguments: int, body: str) -> bytes:
    """An object file: after one extent the params hold `arguments` words, `%v0`, `%v1`, … (and
    `%p0`, … as pointers); `body` runs for each `%i`."""
    lines: list[str] = []
    for k in range(arguments):
        lines += [
            f"%at{k} = getelementptr i64, ptr %p, i64 {k + 1}",
            f"%v{k} = load i64, ptr %at{k}",
            f"%p{k} = inttoptr i64 %v{k} to ptr",
        ]
    text = _LOOP.replace("NAME", name).replace("ARGS", "\n  ".join(lines)).replace("BODY", body)
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(opt=2, jit=True)
    return machine.emit_object(llvm.parse_assembly(text))


def load(name: str, pointer: int) -> str:
    return f"""
    %a{name} = getelementptr float, ptr %p{pointer}, i64 %i
    %{name} = load float, ptr %a{name}
    """


def store(value: str, pointer: int) -> str:
    return f"""
    %to = getelementptr float, ptr %p{pointer}, i64 %i
    store float %{value}, ptr %to
    """


def increment(name: str = "increment", by: float = 1.0) -> bytes:
    """y[i] = x[i] + by."""
    return kernel(name, 2, load("x", 0) + f"%s = fadd float %x, {by!r}\n" + store("s", 1))


def add(name: str = "add") -> bytes:
    """z[i] = x[i] + y[i]."""
    body = load("x", 0) + load("y", 1) + "%s = fadd float %x, %y\n" + store("s", 2)
    return kernel(name, 3, body)


def worker(name: str = "worker") -> bytes:
    """y[i] = x[i] through the worker's scratch: params are x, y, scratch, stride."""
    body = load("x", 0) + """
    %offset = mul i64 %worker, %v3
    %mine = getelementptr i8, ptr %p2, i64 %offset
    store volatile float %x, ptr %mine
    %back = load volatile float, ptr %mine
    """ + store("back", 1)
    return kernel(name, 4, body)


def operand(value: str, type: TensorType, buffer: str = "") -> Operand:
    return Operand(value, buffer or value, type)


def launch(name: str, n: DimLike, *operands: Operand, scratch: tuple[Dim, ...] = ()) -> KernelStep:
    """`kernel` over n elements; its last operand is written."""
    return KernelStep(name, (dim(n),), operands, scratch, dim(n), dim(n), 1)


def buffer(
    name: str, kind: str, type: TensorType, live: tuple[int, int] = (0, 0), source: str = ""
) -> Buffer:
    sized = type.known and type.dtype is not DType.string and kind != "object"
    size = type.nbytes if sized else dim(0)
    source = source or ("" if kind in ("arena", "object") else name)
    return Buffer(name, kind, source, (name,), size, *live)


def parts(
    inputs: dict[str, TensorType],
    outputs: dict[str, TensorType],
    steps: tuple[Step, ...],
    buffers: tuple[Buffer, ...],
    *,
    objects: dict[str, bytes] | None = None,
    params: dict[str, np.ndarray] | None = None,
    library: dict[str, bytes] | None = None,
    symbols: tuple[Symbol, ...] = (),
    guards: tuple[Guard, ...] = (),
    texts: dict[str, bytes] | None = None,
) -> Parts:
    """Kernels are called as their symbols are; inputs and outputs get their buffers."""
    objects, weights = objects or {}, params or {}
    outside = (
        *(buffer(n, "input", t) for n, t in inputs.items()),
        *(buffer(n, "output", t) for n, t in outputs.items()),
        *(buffer(n, "param", tensor(DType.of(a.dtype), *a.shape)) for n, a in weights.items()),
    )
    return Parts(
        "test",
        Signature(tuple(inputs.items()), tuple(outputs.items()), symbols),
        Plan(steps, (*outside, *buffers), guards),
        {name: name for name in objects},
        objects,
        weights,
        library or {},
        texts or {},
        {"key": "k1", "components": {"graph": "g"}},
        {(0,): 'Add "first"'},
    )


def pair() -> Parts:
    """y = x + 1, x: f32[s]: one kernel."""
    t = tensor(F32, "s")
    step = launch("increment", "s", operand("x", t), operand("y", t))
    return parts({"x": t}, {"y": t}, (step,), (), objects={"increment": increment()})


def chain(rows: DimLike = "s", columns: DimLike = "t") -> Parts:
    """y = ((a + b) + 1) + 1, f32[s,t]: three kernels and two values in the arena."""
    t = tensor(F32, rows, columns)
    n = product((rows, columns))
    steps = (
        launch("add", n, operand("a", t), operand("b", t), operand("u", t)),
        launch("increment", n, operand("u", t), operand("v", t)),
        launch("increment", n, operand("v", t), operand("y", t)),
    )
    arena = (buffer("u", "arena", t, (0, 1)), buffer("v", "arena", t, (1, 2)))
    objects = {"add": add(), "increment": increment()}
    symbols = (Symbol("s", 0, 1000), Symbol("t", 0, 4096))
    guard = Guard(dim("s"), "!=", dim(13), (0,), "unlucky")
    texts = {"kernels.py": b"# kernels\n", "ir/00.txt": b"module\n", "trace.json": b"{}"}
    return parts(
        {"a": t, "b": t}, {"y": t}, steps, arena,
        objects=objects, symbols=symbols, guards=(guard,), texts=texts,
    )  # fmt: skip
