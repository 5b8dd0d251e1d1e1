"""The interpreters: what every level means, in NumPy and plain Python, slow and obviously right."""

from .loops import Counter, Counts, KernelError, poison, run_kernel
from .plan import run_plan
from .scalars import Precision
from .tensor import ExternRunner, InterpretError, captured, run_graph, run_op

__all__ = [
    "Counter",
    "Counts",
    "ExternRunner",
    "InterpretError",
    "KernelError",
    "Precision",
    "captured",
    "poison",
    "run_graph",
    "run_kernel",
    "run_op",
    "run_plan",
]
