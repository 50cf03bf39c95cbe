"""How much memory groups hold, and who may make them hold more. Pure.

Whoever can connect can join groups and commit offsets, and what they say is kept: for as long as a
session of their choice, or for the retention of offsets. So all of it is counted, by what it costs
here and not by what it was on the wire, and who asks for more than there is room for is refused.

Two accounts, because what they hold lives for minutes and for days: a broker that is full of
offsets still has room for members. Whoever has a place keeps it: a member that joins again and a
group that commits again are refused only what they want in addition. What is replayed from the log
is counted and never refused.
"""

from typing import Final

from ledgerstone.coordinator.turn import GroupConfig
from ledgerstone.errors import (
    CoordinatorLoadInProgress,
    GroupMaxSizeReached,
    KafkaError,
    PolicyViolation,
)

# What CPython needs for the objects themselves, with their places in dicts and timers; measured by
# tests/unit/coordinator/test_memory.py and rounded up.
GROUP_BYTES: Final = 1280
MEMBER_BYTES: Final = 1024
PENDING_BYTES: Final = 512
PROTOCOL_BYTES: Final = 192
OFFSET_BYTES: Final = 288
TOPIC_BYTES: Final = 320
# A connection that nobody can be asked about: the member came from the log.
NO_CONNECTION: Final = -1


def text_bytes(text: str | None) -> int:
    """At most what the text takes; asking for the exact size would have to look at every letter."""
    if text is None:
        return 0
    return len(text) if text.isascii() else 4 * len(text)


class GroupMemory:
    """One for all shards of a broker.

    Invariant: the sums are those of what the rosters and offset stores that use it hold."""

    __slots__ = ("_by_connection", "_config", "members_bytes", "offsets_bytes", "refusal")

    def __init__(self, config: GroupConfig) -> None:
        self._config = config
        # Groups that were ever joined, their members, and ids handed out.
        self.members_bytes = 0
        # Committed offsets, and groups that have some.
        self.offsets_bytes = 0
        # Why somebody was last refused; whoever reports it sets it back.
        self.refusal: str | None = None
        self._by_connection: dict[int, int] = {}

    # -- counting -----------------------------------------------------------------------------

    def count_members(self, change: int, connection: int = NO_CONNECTION) -> None:
        self.members_bytes += change
        if connection == NO_CONNECTION:
            return
        held = self._by_connection.get(connection, 0) + change
        if held:
            self._by_connection[connection] = held
        else:
            self._by_connection.pop(connection, None)

    def count_offsets(self, change: int) -> None:
        self.offsets_bytes += change

    def held_by(self, connection: int) -> int:
        return self._by_connection.get(connection, 0)

    # -- refusing -----------------------------------------------------------------------------

    def check_group(self, group_id: str, held: int, more: int) -> None:
        """The group's own limit: it is full, as with group.max.size, and stays so."""
        limit = self._config.ledgerstone_group_max_bytes
        if more > 0 and held + more > limit:
            reason = (
                f"ledgerstone.group.max.bytes={limit}: group {group_id[:64]!r} holds {held} bytes"
            )
            self.refusal = reason
            raise GroupMaxSizeReached(f"{reason}, {more} more are asked for")

    def check_connection(self, connection: int, more: int) -> None:
        """A program that asks for more through one connection is not a consumer; it is told so."""
        limit = self._config.ledgerstone_group_connection_max_bytes
        held = self.held_by(connection)
        if more > 0 and held + more > limit:
            reason = (
                f"ledgerstone.group.connection.max.bytes={limit}: "
                f"members of one connection hold {held} bytes"
            )
            self.refusal = reason
            raise PolicyViolation(f"{reason}, {more} more are asked for")

    def check_members(self, more: int, error: type[KafkaError] = CoordinatorLoadInProgress) -> None:
        """Room for all groups together comes back as sessions end: consumers try again."""
        limit = self._config.ledgerstone_groups_max_bytes
        if more > 0 and self.members_bytes + more > limit:
            reason = (
                f"ledgerstone.groups.max.bytes={limit}: "
                f"members of all groups hold {self.members_bytes} bytes"
            )
            self.refusal = reason
            raise error(f"{reason}, {more} more are asked for")

    def has_room_for_offsets(self, more: int) -> bool:
        limit = self._config.ledgerstone_offsets_max_bytes
        if more <= 0 or self.offsets_bytes + more <= limit:
            return True
        self.refusal = (
            f"ledgerstone.offsets.max.bytes={limit}: "
            f"offsets of all groups hold {self.offsets_bytes} bytes"
        )
        return False
