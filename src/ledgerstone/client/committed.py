"""A group's committed offset. Pure."""

from typing import NamedTuple

from ledgerstone.types import NO_LEADER_EPOCH


class CommittedOffset(NamedTuple):
    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str | None = None
