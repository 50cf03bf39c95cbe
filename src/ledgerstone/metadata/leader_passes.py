"""When the controller looks for better leaders by itself. Pure; the time is handed in.

Every so often partitions are given back to their preferred leaders, and partitions without a leader
get an unclean one where their topic allows it. A pass changes a bounded number; a full one is
followed by the next at once, so that a large cluster is balanced without one long pause.
"""

from typing import Final

from ledgerstone.metadata.elections import balance_leaders, elect_unclean_leaders
from ledgerstone.metadata.partitions import Partitions
from ledgerstone.protocol.message import MetadataRecord

DEFAULT_BALANCE_MS: Final = 300_000
DEFAULT_UNCLEAN_MS: Final = 300_000


class LeaderPasses:
    """Soft state of the active controller: made anew with every leadership."""

    __slots__ = ("_balance_at_ms", "_balance_ms", "_unclean_at_ms", "_unclean_ms")

    def __init__(
        self, *, balance_ms: int | None = DEFAULT_BALANCE_MS, unclean_ms: int = DEFAULT_UNCLEAN_MS
    ) -> None:
        """`balance_ms` None: leaders stay where they are."""
        self._balance_ms = balance_ms
        self._unclean_ms = unclean_ms
        self._balance_at_ms: int | None = None
        self._unclean_at_ms: int | None = None

    def start(self, now_ms: int) -> None:
        """A new controller waits a whole interval: brokers have to come back first."""
        self._balance_at_ms = None if self._balance_ms is None else now_ms + self._balance_ms
        self._unclean_at_ms = now_ms + self._unclean_ms

    def clear(self) -> None:
        self._balance_at_ms = self._unclean_at_ms = None

    @property
    def next_deadline_ms(self) -> int | None:
        deadlines = [
            each for each in (self._balance_at_ms, self._unclean_at_ms) if each is not None
        ]
        return min(deadlines, default=None)

    def is_due(self, now_ms: int) -> bool:
        deadline_ms = self.next_deadline_ms
        return deadline_ms is not None and now_ms >= deadline_ms

    def run(self, partitions: Partitions, now_ms: int) -> list[MetadataRecord]:
        """The records of one pass, none where there is nothing to do now."""
        if self._balance_at_ms is not None and now_ms >= self._balance_at_ms:
            assert self._balance_ms is not None
            found = balance_leaders(partitions)
            self._balance_at_ms = now_ms if found.is_full else now_ms + self._balance_ms
            if found.records:
                return found.records
        if self._unclean_at_ms is not None and now_ms >= self._unclean_at_ms:
            found = elect_unclean_leaders(partitions, partitions.index.leaderless)
            self._unclean_at_ms = now_ms if found.is_full else now_ms + self._unclean_ms
            return found.records
        return []
