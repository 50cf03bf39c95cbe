"""What clients know, and what therefore must be true of the logs.

Every record carries a serial number in a header, so it is known wherever it is found. A fact is a
serial at an offset that a broker has acknowledged or shown to a reader: from then on it stays. Only
power loss may take facts back, and only those above what the log called durable; in a run where
every append is synced, none.
"""

from functools import lru_cache
from typing import NamedTuple

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.records.batch import iter_headers
from ledgerstone.records.record import iter_records
from ledgerstone.sim.node import Node
from ledgerstone.sim.platter import PowerLoss
from ledgerstone.sim.world import Violation, World
from ledgerstone.storage.log import PartitionLog
from ledgerstone.storage.log_reader import read
from ledgerstone.types import TopicPartition

SERIAL_HEADER = "s"
_READ_BYTES = 1 << 20
_REMEMBERED_BATCHES = 4096


class WrittenRecord(NamedTuple):
    """One record as its producer made it."""

    topic_partition: TopicPartition
    key: bytes
    value: bytes | None
    producer: str
    sent_ms: int


class FoundRecord(NamedTuple):
    """One record as a log holds it."""

    offset: int
    serial: int
    key: bytes
    value: bytes | None


@dataclass(slots=True)
class CommitModel:
    """Of one group and partition. `attempts` have been sent since the last acknowledged one was."""

    acked: int = -1
    attempts: list[int] = field(default_factory=list)
    # Never answered: it may be on its way for as long as a cut lasts, and come last.
    unanswered: list[int] = field(default_factory=list)
    # Power loss may have brought an older one back.
    is_open: bool = False

    def allows(self, offset: int) -> bool:
        if self.is_open or offset == self.acked:
            return True
        return offset in self.attempts or offset in self.unanswered


@dataclass(slots=True)
class NodeModel:
    """Everything that one node has promised."""

    node: Node
    world: World
    is_durable: bool
    delete_retention_ms: int
    written: list[WrittenRecord] = field(default_factory=list)
    facts: dict[TopicPartition, dict[int, int]] = field(default_factory=dict)
    commits: dict[tuple[str, TopicPartition], CommitModel] = field(default_factory=dict)
    # Topics by name: True once acknowledged, False once their deletion was.
    topics: dict[str, bool] = field(default_factory=dict)
    producer_ids: dict[tuple[int, int], str] = field(default_factory=dict)
    # Records that power loss took, of which nothing is open any more.
    lost: dict[int, None] = field(default_factory=dict)
    # Records whose producer was forgotten while they were on their way: sent under a new id, too.
    may_repeat: dict[int, None] = field(default_factory=dict)
    # Keys that somebody wants erased: no longer written, and not looked after as others are.
    doomed: dict[bytes, None] = field(default_factory=dict)
    # Keys by the id of the erasure that was promised.
    asked: dict[str, bytes] = field(default_factory=dict)
    # Keys of erasures whose receipt was seen, by erasure id.
    erased: dict[str, bytes] = field(default_factory=dict)
    # By power loss: how far each log was durable. None: the page cache survived.
    _floors: dict[TopicPartition, int] | None = None
    _points: dict[TopicPartition, int] = field(default_factory=dict)
    # Producers may find their state gone only after this.
    losses: int = 0

    def __post_init__(self) -> None:
        self.node.on_death.append(self._died)
        self.node.on_up.append(self._is_up)

    # -- what clients tell --------------------------------------------------------------------

    def write(self, tp: TopicPartition, key: bytes, value: bytes | None, producer: str) -> int:
        """The serial of a record that is about to be sent."""
        self.written.append(WrittenRecord(tp, key, value, producer, self.world.now_ms))
        return len(self.written) - 1

    def learn(self, tp: TopicPartition, offset: int, serial: int) -> None:
        """A broker has acknowledged it, or shown it."""
        known = self.facts.setdefault(tp, {}).setdefault(offset, serial)
        if known != serial:
            raise Violation(
                "OffsetsAreStable", f"{tp} offset {offset} was record {known}, is {serial}"
            )

    def keys_in_doubt(self, tp: TopicPartition) -> set[bytes]:
        """Of records that were sent and not answered: one may be there, and a pass may have taken
        it, and what it superseded, before anybody saw it."""
        known = {*self.facts.get(tp, {}).values(), *self.lost}
        return {
            each.key
            for serial, each in enumerate(self.written)
            if each.topic_partition == tp and serial not in known
        }

    def commit_of(self, group: str, tp: TopicPartition) -> CommitModel:
        return self.commits.setdefault((group, tp), CommitModel())

    def end_offset_of(self, tp: TopicPartition) -> int:
        """As it is at this moment, which no client can know; 0 while the node is down."""
        broker = self.node.broker
        partition = None if broker is None else broker.partitions.find(tp)
        return 0 if partition is None else partition.log.log_end_offset

    def drew_producer_id(self, producer_id: int, epoch: int, producer: str) -> None:
        first = self.producer_ids.get((producer_id, epoch))
        if first is not None:
            raise Violation("ProducerIdsAreUnique", f"{producer_id} for {first} and {producer}")
        self.producer_ids[producer_id, epoch] = producer

    # -- deaths -------------------------------------------------------------------------------

    def _died(self, node: Node, death: PowerLoss | None) -> None:
        if node.broker is not None:
            self._points = node.recovery_points()
        if death is not None and death != "all":
            self._floors = dict(self._points)

    def _is_up(self, node: Node) -> None:
        floors, self._floors = self._floors, None
        if floors is not None:
            self._take_back(floors)

    def _take_back(self, floors: dict[TopicPartition, int]) -> None:
        """Facts that power loss was allowed to take, and took."""
        assert self.node.broker is not None
        for partition in self.node.broker.partitions:
            tp, end_offset = partition.topic_partition, partition.log.log_end_offset
            floor = floors.get(tp, 0)
            if end_offset < floor:
                raise Violation(
                    "SyncedRecordsStay", f"{tp} was durable up to {floor}, ends at {end_offset}"
                )
            facts = self.facts.get(tp, {})
            gone = [offset for offset in facts if offset >= end_offset]
            if gone and self.is_durable:
                raise Violation("AckedRecordsStay", f"{tp} ends at {end_offset}, lost {gone}")
            for offset in gone:
                self.lost[facts.pop(offset)] = None
                self.world.mark("power loss took an unsynced record")
        if not self.is_durable:
            self.losses += 1
            for commit in self.commits.values():
                commit.is_open = True


@lru_cache(_REMEMBERED_BATCHES)
def records_of(batch: bytes) -> tuple[FoundRecord, ...]:
    """The records of a data batch. Checkers read the same bytes over and over."""
    found = []
    for record in iter_records(batch):
        serial = int(bytes(dict(record.headers).get(SERIAL_HEADER) or b"-1"))
        value = None if record.value is None else bytes(record.value)
        found.append(FoundRecord(record.offset, serial, bytes(record.key or b""), value))
    return tuple(found)


def read_records(log: PartitionLog) -> list[FoundRecord]:
    """Everything below the high watermark, as a reader from the start would get it."""
    found: list[FoundRecord] = []
    offset = log.log_start_offset
    # What a failed append has left behind the end is no part of the log.
    while offset < log.log_end_offset:
        piece = read(log, offset, max_bytes=_READ_BYTES).slice
        if piece is None:
            break
        batches = piece.read()
        for position, header in iter_headers(batches):
            if not header.is_control:
                for record in records_of(batches[position : position + header.size]):
                    if record.offset >= log.high_watermark:
                        return found
                    found.append(record)
            offset = header.next_offset
    return found
