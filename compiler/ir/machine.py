"""What the cost model knows of a machine. Measured once, rounded, stored, part of the key."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MachineProfile:
    """`bandwidth` bytes/s of a copy, `peak` float32 operations/s, `launch` seconds a step."""

    name: str
    bandwidth: float
    peak: float
    launch: float
    cache: int = 32 << 20
    """Bytes of the last-level cache."""


TEST_MACHINE = MachineProfile("test", bandwidth=20e9, peak=100e9, launch=2e-6)
"""A fixed profile, so that decisions and golden texts do not depend on where they run."""
