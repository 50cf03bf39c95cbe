"""What must happen sometimes, or the checkers proved nothing. Pure."""

from collections.abc import Mapping
from typing import Final

SOMETIMES: Final = (
    "another controller became active",
    "a controller lost operations in flight",
    "a follower truncated its log",
    "an image was loaded from a snapshot",
    "a snapshot was installed",
    "a snapshot waited for a transaction",
    "an open transaction was aborted",
    "a disk was lost",
    "a broker registered",
    "another incarnation had to wait",
    "a heartbeat had an old epoch",
    "a broker was fenced",
    "a silent broker was fenced",
    "a broker was unfenced",
    "a controlled shutdown began",
    "a broker was let go",
    "a partition lost its leader",
    "a leader was elected from the ELR",
    "an unclean election",
    "a reassignment was completed",
    "AlterPartition was refused: 74",
    "AlterPartition was refused: 77",
    "AlterPartition was refused: 95",
    "AlterPartition was refused: 107",
    "AlterPartition was refused: 108",
    "power loss took data of a replica",
    "without ELR, the last replica lost data",
    "a topic existed already",
    "a client asked again",
)


def missing(counts: Mapping[str, int]) -> list[str]:
    return [name for name in SOMETIMES if not counts.get(name)]
