"""The group coordinators of this broker: one shard for each partition of __consumer_offsets.

Grade D. The shards decide; this module appends what they want remembered, replays it once it is
committed (at once, with one replica), and sends the answers. A start rebuilds them by replay.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ledgerstone.clock import Dice
from ledgerstone.config.broker import BrokerConfig
from ledgerstone.coordinator.group_state import State
from ledgerstone.coordinator.group_table import GroupTable
from ledgerstone.coordinator.memory import GroupMemory
from ledgerstone.coordinator.offsets import CommittedOffset
from ledgerstone.coordinator.partitioning import partition_for
from ledgerstone.coordinator.shard import GroupShard
from ledgerstone.coordinator.turn import GroupConfig, Now, Outcome, RequestContext
from ledgerstone.errors import (
    CoordinatorNotAvailable,
    CorruptRecord,
    Damage,
    KafkaError,
    LogStorageError,
    StorageError,
)
from ledgerstone.metadata.delta import Delta
from ledgerstone.metadata.topic_names import CONSUMER_OFFSETS
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.records.batch import iter_headers, verify_crc
from ledgerstone.records.builder import build_batch
from ledgerstone.records.record import iter_records
from ledgerstone.records.validation import Origin
from ledgerstone.server.groups.no_coordinator import refusal_of
from ledgerstone.server.request import ANSWERED_LATER, Answer, Request
from ledgerstone.server.throttle import Throttle, shown
from ledgerstone.storage.filenames import Kind
from ledgerstone.storage.log import PartitionLog
from ledgerstone.storage.log_reader import read
from ledgerstone.types import TopicPartition

if TYPE_CHECKING:
    from ledgerstone.server.broker import Broker

_LOG: Final = logging.getLogger(__name__)

_READ_BYTES: Final = 4 << 20
_STORAGE_ERROR: Final = LogStorageError.code

Call = Callable[[GroupShard, RequestContext, Now], Outcome]


class Groups:
    def __init__(self, config: BrokerConfig, dice: Dice) -> None:
        self._dice = dice
        self._config = GroupConfig(
            group_min_session_timeout_ms=config.group_min_session_timeout_ms,
            group_max_session_timeout_ms=config.group_max_session_timeout_ms,
            group_initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
            group_max_size=config.group_max_size,
            ledgerstone_groups_max_bytes=config.ledgerstone_groups_max_bytes,
            ledgerstone_group_max_bytes=config.ledgerstone_group_max_bytes,
            ledgerstone_group_connection_max_bytes=config.ledgerstone_group_connection_max_bytes,
            ledgerstone_offsets_max_bytes=config.ledgerstone_offsets_max_bytes,
            offset_metadata_max_bytes=config.offset_metadata_max_bytes,
            offsets_retention_ms=config.offsets_retention_minutes * 60_000,
            offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
        )
        self.memory = GroupMemory(self._config)
        self._throttle = Throttle()
        self._shards: dict[int, GroupShard] = {}
        # Also those whose shard could not be loaded: groups must not move to others.
        self._partition_count = 0
        # When each shard wants its next tick. Kept, because every event of the broker asks.
        self._deadlines: dict[int, int] = {}

    def load(self, broker: "Broker") -> None:
        """Replays every partition of the offsets topic; does nothing before it exists."""
        topic = broker.image.topics.get(CONSUMER_OFFSETS)
        self._partition_count = 0 if topic is None else len(topic.partitions)
        for number in () if topic is None else sorted(topic.partitions):
            if number not in self._shards:
                self._load_shard(broker, number)

    def _load_shard(self, broker: "Broker", number: int) -> None:
        """Of a partition that is offline, or cannot be replayed, the groups have no coordinator
        until somebody has seen to it; the others do."""
        topic_partition = TopicPartition(CONSUMER_OFFSETS, number)
        partition = broker.partitions.find(topic_partition)
        if partition is None or partition.log.damage is not None:
            return
        shard = GroupShard(self._config, self._dice, self.memory)
        log, last = partition.log, partition.log.log_start_offset
        try:
            for offset, key, value in _records(log):
                last = offset
                shard.replay(key, value)
        except (CorruptRecord, StorageError, ValueError, KeyError) as error:
            path = (log.segments.floor(last) or log.segments.first).path(Kind.LOG)
            reason = f"after offset {last} it cannot be replayed: {error}"
            log.damaged([Damage(path, 0, 0, reason)])
            shard.table.release()
            return
        self._shards[number] = shard
        self._settle(broker, number, shard.loaded(_now(broker)))

    def reload(self, broker: "Broker", number: int) -> None:
        """The partition was opened anew: its groups are what can be read of it."""
        former = self._shards.get(number)
        if former is not None:
            self._settle(broker, number, former.resign(_now(broker)))
            del self._shards[number]
        self._deadlines.pop(number, None)
        self._load_shard(broker, number)

    def _shard(self, number: int) -> GroupShard:
        shard = self._shards.get(number)
        if shard is None:
            raise CoordinatorNotAvailable(f"{CONSUMER_OFFSETS}-{number} is offline")
        return shard

    def ensure_topic(self, broker: "Broker") -> None:
        """The offsets topic comes into being when the first group asks for its coordinator."""
        if CONSUMER_OFFSETS not in broker.image.topics:
            decision = broker.controller.auto_create_topics([CONSUMER_OFFSETS])
            refusal = decision.response.topics[0]
            if refusal.error_code:
                raise CoordinatorNotAvailable(
                    f"{CONSUMER_OFFSETS} cannot be created: {refusal.error_message}"
                )
            broker.commit_metadata(decision.records)
        if not broker.partitions.is_complete(broker.image.topics[CONSUMER_OFFSETS]):
            raise CoordinatorNotAvailable(f"{CONSUMER_OFFSETS} is being created")
        self.load(broker)

    def _need_topic(self, broker: "Broker") -> None:
        """For who did not ask for a coordinator first: there is no answer that says `later`."""
        try:
            self.ensure_topic(broker)
        except CoordinatorNotAvailable:
            for partition in broker.partitions.work_off_topic(CONSUMER_OFFSETS):
                broker.cleaning.hosted(partition)
            self.ensure_topic(broker)

    def number_for(self, broker: "Broker", group_id: str) -> int:
        self._need_topic(broker)
        return partition_for(group_id, self._partition_count)

    def check_available(self, group_id: str) -> None:
        """CoordinatorNotAvailable where the group's partition is offline."""
        self._shard(partition_for(group_id, self._partition_count))

    def by_shard(self, broker: "Broker", group_ids: Sequence[str]) -> dict[int, list[str]]:
        """Each group once, with those of its shard."""
        self._need_topic(broker)
        found: dict[int, list[str]] = {}
        for group_id in dict.fromkeys(group_ids):
            found.setdefault(partition_for(group_id, self._partition_count), []).append(group_id)
        return found

    def shard_numbers(self) -> list[int]:
        """None before the first group: who only looks does not bring the topic into being."""
        return sorted(self._shards)

    def tables(self) -> list[GroupTable]:
        """For who only looks: the groups and offsets of every shard that is loaded."""
        return [self._shards[number].table for number in sorted(self._shards)]

    def count_by_state(self) -> dict[State, int]:
        """Every state, also those no group is in."""
        counts = dict.fromkeys(State, 0)
        for shard in self._shards.values():
            for group in shard.table.groups.values():
                counts[group.state] += 1
        return counts

    def count_offsets(self) -> int:
        tables = [shard.table for shard in self._shards.values()]
        return sum(table.offsets.count_of(each) for table in tables for each in table.groups)

    def committed_on(self, topic: str) -> dict[str, Mapping[int, CommittedOffset]]:
        """What each group has committed for the topic, by partition; others are not in it."""
        found: dict[str, Mapping[int, CommittedOffset]] = {}
        for number in sorted(self._shards):
            found.update(self._shards[number].table.offsets.groups_with(topic))
        return found

    def are_loaded(self, broker: "Broker") -> bool:
        """Whether every group that ever committed something is known."""
        topic = broker.image.topics.get(CONSUMER_OFFSETS)
        return topic is None or len(self._shards) == len(topic.partitions)

    def ask(
        self,
        broker: "Broker",
        request: Request,
        group_id: str,
        call: Call,
        *,
        from_member: bool = False,
    ) -> Answer:
        """A handler's whole answer for a request about one group.

        What a member says is heard before its session is judged: where the broker was busy or
        stood still, the word may have come in time and waited here."""
        number = self.number_for(broker, group_id)
        answer = self.call(broker, request, number, call, from_member=from_member)
        return ANSWERED_LATER if answer is None else answer

    def call_one_of_many(
        self, broker: "Broker", request: Request, number: int, message: ApiMessage, call: Call
    ) -> ApiMessage | None:
        """As `call`, for a part of a request, whose other parts other shards answer."""
        try:
            return self.call(broker, request, number, call)
        except CoordinatorNotAvailable as error:
            return refusal_of(message, error.code)

    def call(
        self,
        broker: "Broker",
        request: Request,
        number: int,
        call: Call,
        *,
        from_member: bool = False,
    ) -> ApiMessage | None:
        """Runs one call of a shard; its answer to this request, or None if that comes later.

        Whoever asks from outside sees nothing whose time is up: what is due is done before,
        because the tick comes after all requests that wait, and on a busy broker too late."""
        if not from_member:
            self._tick_if_due(broker, number)
        context = RequestContext(
            token=request,
            api_version=request.api_version,
            client_id=request.client_id or "",
            client_host=f"/{request.client_host}",
            connection=request.connection,
        )
        outcome = call(self._shard(number), context, _now(broker))
        if self.memory.refusal is not None:
            self._tell_refusal(broker, request)
        return self._settle(broker, number, outcome, request)

    def _tell_refusal(self, broker: "Broker", request: Request) -> None:
        """Somebody wanted groups to hold more than they may."""
        reason, self.memory.refusal = self.memory.refusal, None
        limit = (reason or "").partition("=")[0]
        suppressed = self._throttle.admit(limit, broker.clock.monotonic_ms())
        if suppressed is not None:
            _LOG.warning(
                "group refused api_key=%d peer=%s client=%r reason=%s suppressed=%d",
                request.api_key, request.client_host, shown(request.client_id), shown(reason),
                suppressed,
            )  # fmt: skip

    def tick(self, broker: "Broker") -> None:
        for number in list(self._deadlines):
            self._tick_if_due(broker, number)

    def _tick_if_due(self, broker: "Broker", number: int) -> None:
        due_ms = self._deadlines.get(number)
        if due_ms is not None and due_ms <= broker.clock.monotonic_ms():
            self._settle(broker, number, self._shards[number].tick(_now(broker)))

    @property
    def next_deadline_ms(self) -> int | None:
        return min(self._deadlines.values(), default=None)

    def metadata_changed(self, broker: "Broker", delta: Delta) -> None:
        """Offsets of a deleted topic mean nothing any more, and without a log no group lives on."""
        for topic in delta.topics_deleted:
            if topic.name == CONSUMER_OFFSETS:
                for number, shard in self._shards.items():
                    self._settle(broker, number, shard.resign(_now(broker)))
                self._shards.clear()
                self._partition_count = 0
            for number, shard in self._shards.items():
                self._settle(broker, number, shard.topic_deleted(topic.name, _now(broker)))

    def check_invariants(self) -> None:
        for shard in self._shards.values():
            shard.check_invariants()

    def _settle(
        self, broker: "Broker", number: int, outcome: Outcome, asking: Request | None = None
    ) -> ApiMessage | None:
        """Records first, then answers: nobody is told what could still be lost."""
        shard = self._shards[number]
        if outcome.records:
            try:
                self._append(broker, number, outcome)
            except (KafkaError, StorageError, OSError) as error:
                topic_partition = TopicPartition(CONSUMER_OFFSETS, number)
                broker.log_failed(topic_partition, error)
                code = error.code if isinstance(error, KafkaError) else _STORAGE_ERROR
                outcome = shard.append_failed(outcome, code, _now(broker))
            else:
                for record in outcome.records:
                    shard.replay(record.key, record.value)
        due_ms = shard.next_deadline_ms
        if due_ms is None:
            self._deadlines.pop(number, None)
        else:
            self._deadlines[number] = due_ms
        own = None
        for token, response in outcome.answers:
            if token is asking:
                own = response
            else:
                assert isinstance(token, Request)
                broker.answer(token, response)
        return own

    def _append(self, broker: "Broker", number: int, outcome: Outcome) -> None:
        topic_partition = TopicPartition(CONSUMER_OFFSETS, number)
        now_ms = broker.clock.now_ms()
        batch = build_batch([(now_ms, key, value, ()) for key, value in outcome.records])
        partition = broker.partitions.get(topic_partition)
        result = partition.append(batch, acks=-1, origin=Origin.COORDINATOR)
        broker.appended(topic_partition, len(batch))
        if result.tombstone_count:
            broker.cleaning.appended(partition.log, result.tombstone_count)


def _now(broker: "Broker") -> Now:
    return Now(broker.clock.now_ms(), broker.clock.monotonic_ms())


def _records(log: PartitionLog) -> Iterator[tuple[int, bytes, bytes | None]]:
    """Offset, key and value of each record; every batch is checked before it is believed."""
    offset = log.log_start_offset
    while (piece := read(log, offset, max_bytes=_READ_BYTES).slice) is not None:
        batches = piece.read()
        for position, header in iter_headers(batches):
            verify_crc(batches, position, header)
            if not offset <= header.last_offset < log.log_end_offset:
                raise CorruptRecord(f"a batch ends at {header.last_offset}, {offset} was due")
            if not header.is_control:
                for record in iter_records(batches, position):
                    if record.key is not None:
                        yield record.offset, record.key, record.value
            offset = header.next_offset
