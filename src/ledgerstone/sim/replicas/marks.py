"""What must happen sometimes in runs of whole brokers. Part of sim."""

from collections.abc import Mapping
from typing import Final

EXPECTED: Final = (
    "a batch was given up, unknown",
    "a broker left with leave",
    "a broker that had made secrets was lost",
    "a commit met UNKNOWN_MEMBER_ID",
    "a commit met REBALANCE_IN_PROGRESS",
    "a disk was full",
    "a disk was lost",
    "a group rebalanced",
    "a host was down while its partitions moved away",
    "a leader died right after its predecessor",
    "a lost disk was given up",
    "a process halted",
    "a reassignment was asked for",
    "a receipt was issued",
    "a retried batch was acknowledged",
    "a transaction was given up",
    "a wall clock jumped",
    "an unclean election",
    "power loss took the last copy",
    "the last known leader leads again",
)


def missing(counts: Mapping[str, int]) -> list[str]:
    return [name for name in EXPECTED if not counts.get(name)]
