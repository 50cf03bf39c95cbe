"""What must happen sometimes, or the checkers proved nothing. Pure."""

from collections.abc import Mapping
from typing import Final

SOMETIMES: Final = (
    "a follower truncated its log",
    "a snapshot was installed",
    "a snapshot was deleted while it was fetched",
    "old snapshots were cleaned",
    "a leader resigned",
    "a leader was removed from the voters",
    "a voter was removed",
    "a voter was added",
    "a change of voters was refused",
    "a change of voters was undone",
    "a disk was lost",
    "kraft.version became 1",
    "two leaders at once",
    "a pre-vote was refused",
    "a pre-vote was granted",
    "an election was lost",
    "a vote met another vote",
    "a node knew no pre-vote",
    "a fetch was fenced",
    "an epoch race",
    "power loss took unsynced records",
    "died while storing the vote",
    "fsync failed",
    "a request came twice",
    "a restart found itself leader",
    "a restart found its own vote",
    "a proposal was lost with its leader",
)


def missing(counts: Mapping[str, int]) -> list[str]:
    return [name for name in SOMETIMES if not counts.get(name)]
