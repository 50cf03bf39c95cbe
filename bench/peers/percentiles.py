"""Latencies as three figures. Pure."""

from collections.abc import Sequence
from typing import NamedTuple


class Percentiles(NamedTuple):
    """In the unit of the samples."""

    p50: float
    p99: float
    p999: float


def percentiles(samples: Sequence[float]) -> Percentiles:
    """The smallest sample that at least this share of all does not exceed."""
    if not samples:
        raise ValueError("percentiles of no samples")
    ordered = sorted(samples)

    def at(per_mille: int) -> float:
        rank = -(-per_mille * len(ordered) // 1000)
        return ordered[max(rank, 1) - 1]

    return Percentiles(at(500), at(990), at(999))
