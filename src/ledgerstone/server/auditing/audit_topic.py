"""The topic `__audit`: made on demand, with settings of its own, and written by its leader alone.

Grade D, through its partition. Every line is a record whose key is node, chain and number, so that
a line that came twice is there once after a compaction, and a redacted copy takes the place of the
line it was made of. Contract: security/README.md.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from ledgerstone.dataclasses import dataclass
from ledgerstone.errors import InvalidRequest, NotLeaderOrFollower
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.metadata.topic_names import AUDIT
from ledgerstone.records.builder import RecordParts, build_batch
from ledgerstone.records.validation import Origin
from ledgerstone.replication.hosted_partitions import HostedPartitions
from ledgerstone.replication.partition import Partition
from ledgerstone.security.audit_chain import BrokenChain, checked
from ledgerstone.server.auditing.audit_file import DAY_MS
from ledgerstone.server.erasing.needs import Appends, AsksController, HostsTopics
from ledgerstone.server.guarded_topic import GuardedTopic
from ledgerstone.types import INT64_MAX, TopicPartition

AUDIT_PARTITION: Final = TopicPartition(AUDIT, 0)
MOST_LINES: Final = 500
_CONFIGS: Final = {
    "cleanup.policy": "compact,delete",
    "compression.type": "zstd",
    "segment.bytes": str(100 << 20),
    # Names that were redacted go, also where nothing else is written.
    "max.compaction.lag.ms": "3600000",
    "file.delete.delay.ms": "0",
    "message.timestamp.type": "CreateTime",
    # Clocks of nodes differ, and a line says what its own node's clock said.
    "message.timestamp.before.max.ms": str(INT64_MAX),
    "message.timestamp.after.max.ms": str(INT64_MAX),
}


class WrittenLines(NamedTuple):
    """Lines in the log of the topic that replicas may not have yet."""

    partition: Partition
    leader_epoch: int
    end_offset: int

    @property
    def is_committed(self) -> bool:
        """NotLeaderOrFollower where that will not be known here any more."""
        if not self.partition.is_leader or self.partition.leader_epoch != self.leader_epoch:
            raise NotLeaderOrFollower(f"{AUDIT_PARTITION} is led by another broker by now")
        return self.partition.log.high_watermark >= self.end_offset


class TakesLines(Appends, HostsTopics, Protocol):
    """The broker, as far as lines are appended."""


def append_lines(
    partitions: HostedPartitions, turn: TakesLines, lines: Sequence[bytes], *, node: int, chain: str
) -> WrittenLines:
    """As the leader of the topic. KafkaError; InvalidRequest for what is no line of that node."""
    turn.host_topic(AUDIT)
    partition = partitions.get(AUDIT_PARTITION)
    partition.check_leader()
    batch = build_batch([_record(each, node, chain) for each in lines])
    result = partition.append(batch, acks=-1, origin=Origin.COORDINATOR)
    turn.appended(AUDIT_PARTITION, len(batch))
    return WrittenLines(partition, partition.leader_epoch, result.last_offset + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditTopic:
    image: Callable[[], MetadataImage]  # the newest
    partitions: HostedPartitions
    controller: AsksController
    turn: "TakesLines"
    replication_factor: int
    retention_days: int | None

    @property
    def _wanted(self) -> GuardedTopic:
        days = self.retention_days
        retention = {"retention.ms": "-1" if days is None else str(days * DAY_MS)}
        configs = {**_CONFIGS, **retention}
        return GuardedTopic(name=AUDIT, configs=configs, replication_factor=self.replication_factor)

    @property
    def leader(self) -> int | None:
        """None before the topic is made."""
        state = self.image().partition(*AUDIT_PARTITION)
        return None if state is None else state.leader

    def lacks_brokers(self) -> str | None:
        """Why the topic would have fewer replicas than it should."""
        brokers = self.image().brokers.values()
        alive = sum(not each.fenced for each in brokers)
        if alive >= self.replication_factor:
            return None
        return f"{AUDIT} waits for {self.replication_factor} brokers, {alive} are there"

    def ask_for_topic(self, on_answer: Callable[[str | None], None]) -> None:
        """Told why it is not there; in a later turn where the controller is another node."""
        self._wanted.ask_for(self.controller, self.image(), on_answer)

    def append(self, lines: Sequence[bytes], *, node: int, chain: str) -> WrittenLines:
        return append_lines(self.partitions, self.turn, lines, node=node, chain=chain)


def _record(data: bytes, node: int, chain: str) -> RecordParts:
    try:
        line, link = checked(data, None)
    except BrokenChain as broken:
        raise InvalidRequest(str(broken)) from None
    if line["node"] != node:
        raise InvalidRequest(f"a line of node {line['node']}, from node {node}")
    return int(line["ts_ms"]), record_key(node, chain, link.seq), data, ()


def record_key(node: int, chain: str, seq: int) -> bytes:
    return f"{node}/{chain}/{seq}".encode("ascii")


def lines_in(content: Mapping[str, Any]) -> tuple[str, list[bytes]]:
    """The chain's name and lines, as another broker sends them. InvalidRequest."""
    chain, lines = content.get("chain"), content.get("lines")
    if type(chain) is not str or len(chain) != 16 or not chain.isalnum() or not chain.isascii():
        raise InvalidRequest("a chain without its name")
    if not isinstance(lines, list) or not 0 < len(lines) <= MOST_LINES:
        raise InvalidRequest(f"lines must be 1 to {MOST_LINES}")
    if not all(type(each) is str and each.isascii() for each in lines):
        raise InvalidRequest("lines must be texts")
    return chain, [each.encode("ascii") for each in lines]
