"""What a history says as a whole: where each record lies, and how each transaction ended. Pure."""

import enum
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from ledgerstone.sim.history.operations import (
    Assigned,
    ClientHistory,
    LogRead,
    OffsetCommitted,
    OffsetFetched,
    OpOutcome,
    RecordsRead,
    Seen,
    Sent,
    TopicFacts,
    Trimmed,
    TxnEnded,
)
from ledgerstone.types import TopicPartition


class Anomaly(NamedTuple):
    """Something that a log must not do. `text` names the operations that show it."""

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


class TxnFate(enum.Enum):
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


class HistoryFacts:
    """An index of a history. Offsets are those that clients were told or that readers met."""

    def __init__(self, history: ClientHistory) -> None:
        self.topics: dict[str, TopicFacts] = {}
        self.sent: dict[str, Sent] = {}
        self.sent_twice: list[Sent] = []
        self.ended: dict[str, TxnEnded] = {}
        self.reads: list[RecordsRead | LogRead] = []
        self.logs: list[LogRead] = []
        self.moves: dict[tuple[str, TopicPartition], list[Assigned | RecordsRead]] = defaultdict(
            list
        )
        self.commits: dict[tuple[str, TopicPartition], list[OffsetCommitted]] = defaultdict(list)
        self.fetches: list[OffsetFetched] = []
        self._trimmed: dict[TopicPartition, int] = {}
        for operation in history.operations:
            self._take(operation)
        # Ids by offset, and offsets by id: more than one of either is an anomaly.
        self.ids_at: dict[TopicPartition, dict[int, set[str]]] = defaultdict(
            lambda: defaultdict(set)
        )
        self.offsets_of: dict[str, set[tuple[TopicPartition, int]]] = defaultdict(set)
        # Ids that a reader of committed records met.
        self.seen_committed: set[str] = set()
        self.seen: set[str] = set()
        for place, seen, read in self._placed():
            self.ids_at[place][seen.offset].add(seen.id)
            self.offsets_of[seen.id].add((place, seen.offset))
            if read is not None:
                self.seen.add(seen.id)
                if read.committed:
                    self.seen_committed.add(seen.id)
        self._sorted = {place: sorted(offsets) for place, offsets in self.ids_at.items()}

    def is_compacted(self, place: TopicPartition) -> bool:
        facts = self.topics.get(place.topic)
        return facts is not None and facts.compacted

    def trimmed_to(self, place: TopicPartition) -> int:
        """Nothing below this is promised."""
        return self._trimmed.get(place, 0)

    def fate(self, txn: str | None) -> TxnFate:
        """A record outside of transactions counts as committed."""
        if txn is None:
            return TxnFate.COMMITTED
        ended = self.ended.get(txn)
        if ended is None or ended.outcome is OpOutcome.UNKNOWN:
            return TxnFate.UNKNOWN
        if ended.commits and ended.outcome is OpOutcome.OK:
            return TxnFate.COMMITTED
        return TxnFate.ABORTED

    def is_promised(self, sent: Sent) -> bool:
        """Acknowledged, and committed where it is part of a transaction."""
        return sent.outcome is OpOutcome.OK and self.fate(sent.txn) is TxnFate.COMMITTED

    def known_between(
        self, place: TopicPartition, low: int, high: int
    ) -> Iterator[tuple[int, str]]:
        """Ids that are known to lie at offsets from `low` up to and without `high`."""
        offsets = self._sorted.get(place, [])
        for index in range(bisect_left(offsets, low), len(offsets)):
            offset = offsets[index]
            if offset >= high:
                return
            for id_ in sorted(self.ids_at[place][offset]):
                yield offset, id_

    def final_logs(self) -> Iterator[LogRead]:
        return (each for each in self.logs if each.final)

    def _take(self, operation: object) -> None:
        match operation:
            case TopicFacts():
                self.topics[operation.topic] = operation
            case Sent():
                if operation.id in self.sent:
                    self.sent_twice.append(operation)
                self.sent[operation.id] = operation
            case TxnEnded():
                self._take_end(operation)
            case Assigned():
                self.moves[operation.client, operation.place].append(operation)
            case RecordsRead():
                self.moves[operation.client, operation.place].append(operation)
                self.reads.append(operation)
            case OffsetCommitted():
                self.commits[operation.group, operation.place].append(operation)
            case OffsetFetched():
                self.fetches.append(operation)
            case Trimmed():
                place = operation.place
                self._trimmed[place] = max(self._trimmed.get(place, 0), operation.offset)
            case LogRead():
                self.reads.append(operation)
                self.logs.append(operation)

    def _take_end(self, ended: TxnEnded) -> None:
        """The last word that is known counts: an unknown commit may be followed by an abort."""
        before = self.ended.get(ended.txn)
        if before is None or ended.outcome is not OpOutcome.UNKNOWN:
            self.ended[ended.txn] = ended

    def _placed(self) -> Iterator[tuple[TopicPartition, Seen, RecordsRead | LogRead | None]]:
        for sent in self.sent.values():
            if sent.offset is not None and sent.outcome is OpOutcome.OK:
                yield sent.place, Seen(sent.offset, sent.id), None
        for read in self.reads:
            for seen in read.records:
                yield read.place, seen, read
