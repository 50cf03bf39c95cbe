"""The group coordinators of this broker: one shard for each partition of __consumer_offsets.

Grade D. The shards decide; `hosted_shard` appends what they want remembered and replays it once it
is committed (at once, with one replica); this module finds the shard, and sends the answers.
Gaining a partition loads its shard, losing it sends everybody to the next coordinator.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from ledgerstone.clock import Dice
from ledgerstone.config.broker import BrokerConfig
from ledgerstone.coordinator.group_state import State
from ledgerstone.coordinator.group_table import GroupTable
from ledgerstone.coordinator.memory import GroupMemory
from ledgerstone.coordinator.offsets import CommittedOffset
from ledgerstone.coordinator.partitioning import partition_for
from ledgerstone.coordinator.shard import GroupShard
from ledgerstone.coordinator.turn import Answer as ShardAnswer
from ledgerstone.coordinator.turn import GroupConfig, Now, Outcome, RequestContext
from ledgerstone.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    CorruptRecord,
    Damage,
    KafkaError,
    LogStorageError,
    NotCoordinator,
    StorageError,
)
from ledgerstone.metadata.delta import Delta
from ledgerstone.metadata.image import NO_LEADER
from ledgerstone.metadata.topic_names import CONSUMER_OFFSETS, auto_creation
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.create_topics import CreateTopicsResponse
from ledgerstone.replication.leadership import Leadership, LeadershipChanged
from ledgerstone.server.groups.hosted_shard import HostedShard
from ledgerstone.server.groups.no_coordinator import NO_COORDINATOR, refusal_of
from ledgerstone.server.groups.questions import Combine, Part, Question
from ledgerstone.server.request import ANSWERED_LATER, Answer, Request
from ledgerstone.server.throttle import Throttle, shown
from ledgerstone.storage.filenames import Kind
from ledgerstone.types import TopicPartition

if TYPE_CHECKING:
    from ledgerstone.server.broker import Broker

_LOG: Final = logging.getLogger(__name__)

_STORAGE_ERROR: Final = LogStorageError.code

Call = Callable[[GroupShard, RequestContext, Now], Outcome]


class ShardPart(NamedTuple):
    """A part of a request, the shard it is for, and how that is asked."""

    number: int
    message: ApiMessage
    call: Call


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
        self._commit_timeout_ms = config.offsets_commit_timeout_ms
        # Of partitions led here; the others have their coordinator elsewhere, or none.
        self._shards: dict[int, HostedShard] = {}
        self._partition_count = 0
        # All partitions of the offsets topic that belong here have been made.
        self._is_complete = False
        # When each shard wants its next tick. Kept, because every event of the broker asks.
        self._deadlines: dict[int, int] = {}

    # -- leadership ---------------------------------------------------------------------------

    def leadership_changed(self, broker: "Broker", event: LeadershipChanged) -> None:
        """Of a partition of the offsets topic."""
        number = event.topic_partition.partition
        if event.kind is Leadership.LOST:
            self._resign(broker, number)
        elif event.kind is Leadership.GAINED:
            self._open_shard(broker, number)
        else:
            self.high_watermark_moved(broker, number)

    def _open_shard(self, broker: "Broker", number: int) -> None:
        """Of a partition that is offline, or cannot be replayed, the groups have no coordinator
        until somebody has seen to it; the others do."""
        partition = broker.partitions.find(TopicPartition(CONSUMER_OFFSETS, number))
        if partition is None or not partition.is_leader or partition.log.damage is not None:
            return
        shard = GroupShard(self._config, self._dice, self.memory)
        self._shards[number] = HostedShard(shard, partition)
        self.high_watermark_moved(broker, number)

    def high_watermark_moved(self, broker: "Broker", number: int) -> None:
        """More of the partition is committed: a shard that waited for it loads, and answers that
        waited for it leave."""
        hosted = self._shards.get(number)
        if hosted is None:
            return
        if hosted.is_loaded:
            self._deliver(broker, hosted.committed())
            self._keep_deadline(number, hosted)
        elif hosted.can_load:
            self._load(broker, number, hosted)

    def _load(self, broker: "Broker", number: int, hosted: HostedShard) -> None:
        log = hosted.partition.log
        last = log.log_start_offset
        try:
            for offset in hosted.load():
                last = offset
        except (CorruptRecord, StorageError, ValueError, KeyError) as error:
            path = (log.segments.floor(last) or log.segments.first).path(Kind.LOG)
            reason = f"after offset {last} it cannot be replayed: {error}"
            log.damaged([Damage(path, 0, 0, reason)])
            hosted.shard.table.release()
            del self._shards[number]
            return
        self._settle(broker, number, hosted.shard.loaded(_now(broker)))

    def _resign(self, broker: "Broker", number: int) -> None:
        hosted = self._shards.pop(number, None)
        self._deadlines.pop(number, None)
        if hosted is not None:
            self._deliver(broker, hosted.resign(_now(broker)))

    # -- finding a shard ----------------------------------------------------------------------

    def _shard(self, broker: "Broker", number: int) -> HostedShard:
        hosted = self._shards.get(number)
        if hosted is not None and hosted.is_loaded:
            return hosted
        name = f"{CONSUMER_OFFSETS}-{number}"
        if hosted is not None:
            raise CoordinatorLoadInProgress(f"{name} is not committed to its end yet")
        state = broker.image.partition(CONSUMER_OFFSETS, number)
        if state is not None and state.leader != broker.config.node_id:
            raise NotCoordinator(f"{name} is led by {state.leader}")
        raise CoordinatorNotAvailable(f"{name} is offline")

    def ensure_topic(self, broker: "Broker") -> None:
        """The offsets topic comes into being when the first group asks for its coordinator."""
        if self._is_complete:
            return
        if CONSUMER_OFFSETS not in broker.image.topics:
            self._ask_for_topic(broker)
        topic = broker.image.topics.get(CONSUMER_OFFSETS)
        if topic is None or not broker.partitions.is_complete(topic):
            raise CoordinatorNotAvailable(f"{CONSUMER_OFFSETS} is being created")
        self._partition_count = len(topic.partitions)
        self._is_complete = True

    def _ask_for_topic(self, broker: "Broker") -> None:
        answers: list[ApiMessage] = []
        request = auto_creation([CONSUMER_OFFSETS], broker.config)
        broker.controller_link.ask(request, answers.append)
        for answer in answers:
            assert isinstance(answer, CreateTopicsResponse)
            if answer.topics[0].error_code:
                raise CoordinatorNotAvailable(
                    f"{CONSUMER_OFFSETS} cannot be created: {answer.topics[0].error_message}"
                )

    def _need_topic(self, broker: "Broker") -> None:
        """For callers that skipped FindCoordinator: there is no answer that says `later`."""
        try:
            self.ensure_topic(broker)
        except CoordinatorNotAvailable:
            broker.following.host_topic(CONSUMER_OFFSETS)
            self.ensure_topic(broker)

    def number_for(self, broker: "Broker", group_id: str) -> int:
        if not self._is_complete:
            self._need_topic(broker)
        return partition_for(group_id, self._partition_count)

    def coordinator_of(self, broker: "Broker", group_id: str) -> int:
        """The broker that leads the group's partition; a coordinator error where none serves it."""
        self.ensure_topic(broker)
        number = partition_for(group_id, self._partition_count)
        state = broker.image.partition(CONSUMER_OFFSETS, number)
        leader = NO_LEADER if state is None else state.leader
        if leader not in broker.image.brokers or broker.image.brokers[leader].fenced:
            raise CoordinatorNotAvailable(f"{CONSUMER_OFFSETS}-{number} has no live leader")
        if leader == broker.config.node_id and number not in self._shards:
            raise CoordinatorNotAvailable(f"{CONSUMER_OFFSETS}-{number} is offline")
        return leader

    def by_shard(self, broker: "Broker", group_ids: Sequence[str]) -> dict[int, list[str]]:
        """Each group once, with those of its shard."""
        self._need_topic(broker)
        found: dict[int, list[str]] = {}
        for group_id in dict.fromkeys(group_ids):
            found.setdefault(partition_for(group_id, self._partition_count), []).append(group_id)
        return found

    # -- for who only looks: offsets are committed ones ---------------------------------------

    def shard_numbers(self) -> list[int]:
        """None before the first group: looking does not bring the topic into being."""
        return sorted(number for number, each in self._shards.items() if each.is_loaded)

    def tables(self) -> list[GroupTable]:
        """The groups and offsets of every shard that is loaded."""
        return [self._shards[number].shard.table for number in self.shard_numbers()]

    def count_by_state(self) -> dict[State, int]:
        """Every state, also those no group is in."""
        counts = dict.fromkeys(State, 0)
        for table in self.tables():
            for group in table.groups.values():
                counts[group.state] += 1
        return counts

    def count_offsets(self) -> int:
        tables = self.tables()
        return sum(table.offsets.count_of(each) for table in tables for each in table.groups)

    def committed_on(self, topic: str) -> dict[str, Mapping[int, CommittedOffset]]:
        """What each group has committed for the topic, by partition; others are not in it."""
        found: dict[str, Mapping[int, CommittedOffset]] = {}
        for table in self.tables():
            found.update(table.offsets.groups_with(topic))
        return found

    def are_loaded(self, broker: "Broker") -> bool:
        """Whether every group that ever committed something is known."""
        topic = broker.image.topics.get(CONSUMER_OFFSETS)
        return topic is None or len(self.shard_numbers()) == len(topic.partitions)

    # -- asking -------------------------------------------------------------------------------

    def ask(
        self,
        broker: "Broker",
        request: Request,
        group_id: str,
        call: Call,
        *,
        from_member: bool = False,
        finish: Callable[[ApiMessage], ApiMessage] | None = None,
    ) -> Answer:
        """A handler's whole answer for a request about one group; `finish` has the last word on it.

        What a member says is heard before its session is judged: where the broker was busy or
        stood still, the word may have come in time and waited here."""
        number = self.number_for(broker, group_id)
        question = Question(request, None if finish is None else lambda answers: finish(answers[0]))
        self._call(broker, question, number, call, from_member=from_member)
        return _answer_or_later(question)

    def ask_shards(
        self, broker: "Broker", request: Request, parts: Sequence[ShardPart], combine: Combine
    ) -> Answer:
        """As `ask`, for a request whose parts several shards answer. One that cannot be asked is
        answered for by `refusal_of`."""
        if not parts:
            return combine(())
        question = Question(request, combine)
        for number, message, call in parts:
            try:
                self._call(broker, question, number, call)
            except NO_COORDINATOR as error:
                refusal = refusal_of(message, error.code)
                assert refusal is not None
                question.part().answered(refusal)
        return _answer_or_later(question)

    def _call(
        self,
        broker: "Broker",
        question: Question,
        number: int,
        call: Call,
        *,
        from_member: bool = False,
    ) -> None:
        """Runs one call of a shard.

        Requests from outside see nothing whose time is up: what is due is done before, because the
        tick comes after all requests that wait, and on a busy broker too late."""
        if not from_member:
            self._tick_if_due(broker, number)
        hosted = self._shard(broker, number)
        request = question.request
        context = RequestContext(
            token=question.part(),
            api_version=request.api_version,
            client_id=request.client_id or "",
            client_host=f"/{request.client_host}",
            connection=request.connection,
        )
        outcome = call(hosted.shard, context, _now(broker))
        if self.memory.refusal is not None:
            self._tell_refusal(broker, request)
        self._settle(broker, number, outcome)

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
            hosted, now = self._shards[number], _now(broker)
            self._deliver(broker, hosted.overdue(now))
            self._settle(broker, number, hosted.shard.tick(now))

    @property
    def next_deadline_ms(self) -> int | None:
        return min(self._deadlines.values(), default=None)

    def metadata_changed(self, broker: "Broker", delta: Delta) -> None:
        """Offsets of a deleted topic mean nothing any more."""
        topic = broker.image.topics.get(CONSUMER_OFFSETS)
        self._partition_count = 0 if topic is None else len(topic.partitions)
        # Perhaps partitions were added that are not made yet.
        self._is_complete = False
        for deleted in delta.topics_deleted:
            for number in self.shard_numbers():
                shard = self._shards[number].shard
                self._settle(broker, number, shard.topic_deleted(deleted.name, _now(broker)))

    def check_invariants(self) -> None:
        for hosted in self._shards.values():
            hosted.shard.check_invariants()
            assert hosted.partition.is_leader, hosted.partition.topic_partition

    def _settle(self, broker: "Broker", number: int, outcome: Outcome) -> None:
        """Records first, then answers: nothing is said that could still be lost."""
        hosted, now = self._shards[number], _now(broker)
        try:
            appended = hosted.take(outcome, now, self._commit_timeout_ms)
        except (KafkaError, StorageError, OSError) as error:
            broker.log_failed(hosted.partition.topic_partition, error)
            code = error.code if isinstance(error, KafkaError) else _STORAGE_ERROR
            refused = hosted.shard.append_failed(outcome, code, now)
            hosted.take(Outcome([], refused.answers), now, self._commit_timeout_ms)
        else:
            if appended is not None:
                broker.appended(hosted.partition.topic_partition, appended.size)
                if appended.tombstone_count:
                    broker.cleaning.appended(hosted.partition.log, appended.tombstone_count)
        self._deliver(broker, hosted.committed())
        self._keep_deadline(number, hosted)

    def _keep_deadline(self, number: int, hosted: HostedShard) -> None:
        due_ms = hosted.next_deadline_ms
        if due_ms is None:
            self._deadlines.pop(number, None)
        else:
            self._deadlines[number] = due_ms

    def _deliver(self, broker: "Broker", answers: Iterable[ShardAnswer]) -> None:
        for part, response in answers:
            assert isinstance(part, Part)
            question = part.question
            if part.answered(response) and question.is_left:
                broker.answer(question.request, question.whole_answer())


def _answer_or_later(question: Question) -> Answer:
    if question.unanswered:
        question.is_left = True
        return ANSWERED_LATER
    return question.whole_answer()


def _now(broker: "Broker") -> Now:
    return Now(broker.clock.now_ms(), broker.clock.monotonic_ms())
