"""Tracks transactions while a pass walks over the log. Pure.

A pass makes two walks, one to build the map and one to copy. Each has its own tracker, which sees
every transactional and every control batch in log order. The tracker says which data was aborted,
and which markers have no data left before them. Rules in README.md.
"""

import heapq
from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar

from ledgerstone.records.control import ControlType


class IndexedTxn(Protocol):
    """An entry of a transaction index: an aborted transaction and its marker's offset."""

    @property
    def producer_id(self) -> int: ...

    @property
    def first_offset(self) -> int: ...

    @property
    def last_offset(self) -> int: ...


Entry = TypeVar("Entry", bound=IndexedTxn)


class _Ongoing(Generic[Entry]):
    """An aborted transaction that the walk is inside."""

    __slots__ = ("data_seen", "entry")

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.data_seen = False


class AbortedTxns(Generic[Entry]):
    """One walk's view. `entries` are those whose marker lies at or behind the walk's start."""

    __slots__ = ("_committing", "_kept", "_ongoing", "_waiting")

    def __init__(self, entries: Iterable[Entry]) -> None:
        # By first offset; the number prevents comparing entries themselves.
        self._waiting = [(entry.first_offset, n, entry) for n, entry in enumerate(entries)]
        heapq.heapify(self._waiting)
        self._ongoing: dict[int, _Ongoing[Entry]] = {}
        # Producers with data that is not aborted, since their last marker.
        self._committing: set[int] = set()
        self._kept: list[Entry] = []

    def on_data(self, producer_id: int, last_offset: int) -> bool:
        """Whether a transactional data batch was aborted. An empty one counts as data too."""
        self._begin_up_to(last_offset)
        ongoing = self._ongoing.get(producer_id)
        if ongoing is None:
            self._committing.add(producer_id)
            return False
        ongoing.data_seen = True
        return True

    def on_marker(self, producer_id: int, last_offset: int, kind: ControlType | None) -> bool:
        """Whether a control batch has no data of its transaction left in the log.

        `kind` is None for a batch that was emptied by an earlier pass. Controls that end no
        transaction are not ours to judge and stay."""
        self._begin_up_to(last_offset)
        if kind is None:
            return True
        if kind is ControlType.COMMIT:
            had_data = producer_id in self._committing
            self._committing.discard(producer_id)
            return not had_data
        if kind is not ControlType.ABORT:
            return False
        ended = self._ongoing.pop(producer_id, None)
        if ended is None or not ended.data_seen:
            return True
        # Readers must keep skipping the rest of it, even if only an emptied batch.
        self._kept.append(ended.entry)
        return False

    def take_kept(self) -> list[Entry]:
        """Aborted transactions with data that ended since the last call, in order."""
        kept, self._kept = self._kept, []
        return kept

    def _begin_up_to(self, last_offset: int) -> None:
        while self._waiting and self._waiting[0][0] <= last_offset:
            _, _, entry = heapq.heappop(self._waiting)
            # An ongoing transaction keeps what was seen of it.
            if entry.producer_id not in self._ongoing:
                self._ongoing[entry.producer_id] = _Ongoing(entry)
