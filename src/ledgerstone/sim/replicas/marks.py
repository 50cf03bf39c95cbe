"""What must happen sometimes in runs of whole brokers. Part of sim."""

from collections.abc import Mapping
from typing import Final

EXPECTED: Final = (
    "a batch was given up, unknown",
    "a broker left with leave",
    "a disk was full",
    "a process halted",
    "a reassignment was asked for",
    "a retried batch was acknowledged",
    "a transaction was given up",
    "a wall clock jumped",
    "power loss took the last copy",
)


def missing(counts: Mapping[str, int]) -> list[str]:
    return [name for name in EXPECTED if not counts.get(name)]
