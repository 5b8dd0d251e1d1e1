"""Compiles of the samples up to machine code, and what a viewer reads of them, made once a run."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from compiler.driver import trace_model
from compiler.history import history
from compiler.passes.base import Context
from compiler.trace import Trace
from sample_models import catalogue, sample

NAMES = [s.name for s in catalogue()]
Document = Mapping[str, Any]


@cache
def compiled(name: str) -> tuple[Trace, Context]:
    """The trace of a sample, with the graph breaks that it is there to show."""
    found = sample(name)
    force = ",".join(found.force)
    pipeline = f"default,partition-fallback{{force=[{force}]}}" if force else None
    return trace_model(found.path, pipeline, until="build")


@cache
def history_of(name: str) -> Document:
    """The history of a sample through JSON and back."""
    return json.loads(json.dumps(history(compiled(name)[0].records), allow_nan=False))
