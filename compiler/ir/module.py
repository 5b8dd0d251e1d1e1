"""The module: one snapshot of a model on its way down. Frozen; unchanged parts are shared."""

from __future__ import annotations

from dataclasses import dataclass

from .dims import Guard, Symbol
from .graph import Graph, Node, Op, Origins, Param
from .loops import Kernel
from .plan import Plan
from .types import KernelRef


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of emitted source (1-based), the path of the loop statement it came from, origins.

    `path` holds indices into nested bodies: `(0, 2)` is the third statement of the first loop.
    """

    line: int
    path: tuple[int, ...]
    origins: Origins


@dataclass(frozen=True)
class Source:
    """The Numba source of one kernel and the digests of what was built from it.

    `math`: what its functions are made of, `poly` (vector polynomials) or `libm`.
    `symbol`: the kernel's name in the object file, a digest of its canonical text, helper
    texts, flags. `artifacts`: (kind, digest) with kind in `object llvm assembly ptx`; empty
    until `build`.
    """

    kernel: str
    symbol: str
    text: str
    lines: tuple[SourceLine, ...]
    artifacts: tuple[tuple[str, str], ...] = ()
    math: str = "poly"


EMPTY_GRAPH = Graph()


@dataclass(frozen=True)
class Module:
    """Everything the compiler knows at one moment.

    `dims`: symbols with bounds; `guards`: what must hold of them; `opsets`: (domain, version);
    `nodes`: the ONNX nodes that origins refer to; `kernels`, `plan` and `sources` are empty
    until lowering, planning and emission.
    """

    name: str = "empty"
    dims: tuple[Symbol, ...] = ()
    guards: tuple[Guard, ...] = ()
    opsets: tuple[tuple[str, int], ...] = ()
    nodes: tuple[Node, ...] = ()
    params: tuple[Param, ...] = ()
    graph: Graph = EMPTY_GRAPH
    kernels: tuple[Kernel, ...] = ()
    plan: Plan | None = None
    sources: tuple[Source, ...] = ()

    @property
    def data_symbols(self) -> frozenset[str]:
        """Symbols that no input carries: sizes that only the data of a run tell."""
        if not self.dims:
            return frozenset()
        given = {name for v in self.graph.inputs for name in v.type.symbols()}
        return frozenset(s.name for s in self.dims if s.name not in given)

    def param(self, name: str) -> Param:
        for p in self.params:
            if p.name == name:
                return p
        raise KeyError(name)

    def kernel(self, name: str) -> Kernel:
        for k in self.kernels:
            if k.name == name:
                return k
        raise KeyError(name)

    def source(self, kernel: str) -> Source:
        for s in self.sources:
            if s.kernel == kernel:
                return s
        raise KeyError(kernel)

    def node(self, position: tuple[int, ...]) -> Node | None:
        for n in self.nodes:
            if n.position == position:
                return n
        return None

    @property
    def writes_over(self) -> bool:
        """Whether a kernel writes a result over an operand."""
        return any(a.mode == "inout" for k in self.kernels for a in k.args)

    def written_over(self, launch: Op) -> dict[str, str]:
        """Results of a launch that lie over an operand, with that operand: `inout` arguments."""
        ref = launch.get("kernel")
        assert isinstance(ref, KernelRef)
        given, results = iter(launch.operands), iter(launch.outputs)
        found: dict[str, str] = {}
        for arg in self.kernel(ref.name).args:
            operand = next(given) if arg.mode in ("in", "inout") else ""
            result = next(results).name if arg.mode in ("out", "inout") else ""
            if arg.mode == "inout":
                found[result] = operand
        return found

    @property
    def level(self) -> str:
        """`onnx`, `tensor`, `loops` or `source`: the lowest level that the module has reached."""
        if self.sources:
            return "source"
        if self.kernels:
            return "loops"
        onnx_left = any(op.family == "onnx" for op in self.graph.ops)
        return "onnx" if onnx_left or not self.graph.ops else "tensor"


EMPTY = Module()
