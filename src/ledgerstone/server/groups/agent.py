"""The group coordinators of this broker: one shard for each partition of __consumer_offsets.

Grade D. The shards decide; `hosted_shard` appends what they want remembered and replays it once it
is committed (at once, with one replica); this module finds the shard, and sends the answers.
Gaining a partition loads its shard, losing it sends everybody to the next coordinator.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from ledgerstone.clock import Clock, Dice
from ledgerstone.config.broker import BrokerConfig
from ledgerstone.coordinator.failures import marker_error
from ledgerstone.coordinator.memory import GroupMemory
from ledgerstone.coordinator.partitioning import partition_for
from ledgerstone.coordinator.shard import GroupShard
from ledgerstone.coordinator.turn import Answer as ShardAnswer
from ledgerstone.coordinator.turn import GroupConfig, Now, RequestContext, TurnOutcome, TxnMarker
from ledgerstone.coordinator.txn_offset_requests import error_of_marker
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    InvalidProducerEpoch,
    InvalidTxnState,
    KafkaError,
    LogStorageError,
    NotCoordinator,
    StorageError,
    TransactionCoordinatorFenced,
)
from ledgerstone.metadata.delta import Delta
from ledgerstone.metadata.image import NO_LEADER, MetadataImage
from ledgerstone.metadata.topic_names import CONSUMER_OFFSETS, auto_creation
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.create_topics import CreateTopicsResponse
from ledgerstone.protocol.messages.write_txn_markers import WriteTxnMarkersResponse
from ledgerstone.replication.leadership import Leadership, LeadershipChanged
from ledgerstone.replication.sliced_replay import SlicedReplays
from ledgerstone.server.effects import Effect
from ledgerstone.server.groups.hosted_shard import HostedShard
from ledgerstone.server.groups.needs import (
    Answers,
    Appends,
    AsksController,
    DiskTrouble,
    HostedLogs,
    HostsTopics,
    WatchesGroups,
)
from ledgerstone.server.groups.no_coordinator import NO_COORDINATOR, refusal_of
from ledgerstone.server.groups.questions import Combine, MarkerToken, Part, Question
from ledgerstone.server.groups.shards import HostedShards
from ledgerstone.server.request import ANSWERED_LATER, Answer, Request
from ledgerstone.server.results import Result
from ledgerstone.server.throttle import LogThrottle, shown
from ledgerstone.storage.verification import TxnTerms
from ledgerstone.types import TopicPartition

_LOG: Final = logging.getLogger(__name__)

_STORAGE_ERROR: Final = LogStorageError.code
# What a log refuses because of the producer, not because of the disk.
_FAULTS_OF_PRODUCER: Final = (InvalidProducerEpoch, InvalidTxnState, TransactionCoordinatorFenced)

Call = Callable[[GroupShard, RequestContext, Now], TurnOutcome]


class ShardPart(NamedTuple):
    """A part of a request, the shard it is for, and how that is asked."""

    number: int
    message: ApiMessage
    call: Call


@dataclass(slots=True, kw_only=True)
class Groups:
    """An agent (`server.agent`)."""

    config: BrokerConfig
    clock: Clock
    dice: Dice
    image: Callable[[], MetadataImage]  # the newest
    partitions: HostedLogs
    controller: AsksController
    shards: HostedShards
    cleaning: WatchesGroups
    disk: DiskTrouble
    answers: Answers
    appends: Appends
    topics: HostsTopics
    memory: GroupMemory = field(init=False)
    _loading: SlicedReplays[HostedShard] = field(init=False)
    _group_config: GroupConfig = field(init=False)
    _throttle: LogThrottle = field(default_factory=LogThrottle)
    _partition_count: int = 0
    # All partitions of the offsets topic that belong here have been made.
    _is_complete: bool = False
    # One request for the topic is on its way to the controller.
    _is_topic_asked: bool = False
    # When each shard wants its next tick. Kept, because every event of the broker asks.
    _deadlines: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        config = self.config
        self._group_config = GroupConfig(
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
        self.memory = GroupMemory(self._group_config)
        self._loading = SlicedReplays(self.clock)

    # -- as an agent --------------------------------------------------------------------------

    @property
    def next_deadline_ms(self) -> int | None:
        if len(self._loading):
            return 0
        return min(self._deadlines.values(), default=None)

    def tick(self) -> list[Effect]:
        self.go_on_loading()
        for number in list(self._deadlines):
            self._tick_if_due(number)
        return []

    def completed(self, effect: Effect, result: Result) -> list[Effect]:
        raise AssertionError(f"groups asked for no {type(effect).__name__}")

    def metadata_changed(self, delta: Delta) -> list[Effect]:
        """Offsets of a deleted topic mean nothing any more."""
        topic = self.image().topics.get(CONSUMER_OFFSETS)
        self._partition_count = 0 if topic is None else len(topic.partitions)
        # Perhaps partitions were added that are not made yet.
        self._is_complete = False
        for deleted in delta.topics_deleted:
            for number, hosted in sorted(self.shards.by_number.items()):
                if hosted.is_loaded:
                    self._forget_topic(number, hosted, deleted.name)
                else:
                    hosted.deleted_meanwhile[deleted.name] = None
        return []

    def _forget_topic(self, number: int, hosted: HostedShard, topic: str) -> None:
        in_flight = hosted.records_in_flight()
        self._settle(number, hosted.shard.topic_deleted(topic, self._now(), in_flight))

    # -- leadership ---------------------------------------------------------------------------

    def leadership_changed(self, event: LeadershipChanged) -> None:
        """Of a partition of the offsets topic."""
        number = event.topic_partition.partition
        if event.kind is Leadership.LOST:
            self._resign(number)
        elif event.kind is Leadership.GAINED:
            self._open_shard(number)
        else:
            self.high_watermark_moved(number)

    def _open_shard(self, number: int) -> None:
        """Of a partition that is offline, or cannot be replayed, the groups have no coordinator
        until somebody has seen to it; the others do."""
        partition = self.partitions.find(TopicPartition(CONSUMER_OFFSETS, number))
        if partition is None or not partition.is_leader or partition.log.damage is not None:
            return
        shard = GroupShard(self._group_config, self.dice, self.memory)
        hosted = self.shards.by_number[number] = HostedShard(shard, partition)
        self._loading.add(number, hosted)

    def go_on_loading(self) -> bool:
        """One slice of what is to be replayed; True if there is more."""
        for number, hosted, is_damaged in self._loading.work_off():
            if is_damaged:
                hosted.shard.table.release()
                del self.shards.by_number[number]
            else:
                self.high_watermark_moved(number)
        return len(self._loading) > 0

    def high_watermark_moved(self, number: int) -> None:
        """More of the partition is committed: answers that waited for it leave, and a shard that
        has replayed it serves."""
        hosted = self.shards.by_number.get(number)
        if hosted is None:
            return
        if hosted.is_loaded:
            self._follow(hosted)
            self._keep_deadline(number, hosted)
        elif hosted.can_serve:
            hosted.is_loaded = True
            self._settle(number, hosted.shard.loaded(self._now()))
            for topic in hosted.deleted_meanwhile:
                self._forget_topic(number, hosted, topic)
            hosted.deleted_meanwhile.clear()

    def _resign(self, number: int) -> None:
        hosted = self.shards.by_number.pop(number, None)
        self._loading.forget(number)
        self._deadlines.pop(number, None)
        if hosted is not None:
            self._deliver(hosted.resign(self._now()))

    # -- finding a shard ----------------------------------------------------------------------

    def _shard(self, number: int) -> HostedShard:
        hosted = self.shards.by_number.get(number)
        if hosted is not None and hosted.is_loaded:
            return hosted
        name = f"{CONSUMER_OFFSETS}-{number}"
        if hosted is not None:
            raise CoordinatorLoadInProgress(f"{name} is not replayed and committed to its end yet")
        state = self.image().partition(CONSUMER_OFFSETS, number)
        if state is not None and state.leader != self.config.node_id:
            raise NotCoordinator(f"{name} is led by {state.leader}")
        raise CoordinatorNotAvailable(f"{name} is offline")

    def ensure_topic(self) -> None:
        """The offsets topic comes into being when the first group asks for its coordinator."""
        if self._is_complete:
            return
        if CONSUMER_OFFSETS not in self.image().topics:
            self._ask_for_topic()
        topic = self.image().topics.get(CONSUMER_OFFSETS)
        if topic is None or not self.partitions.is_complete(topic):
            raise CoordinatorNotAvailable(f"{CONSUMER_OFFSETS} is being created")
        self._partition_count = len(topic.partitions)
        self._is_complete = True

    def _ask_for_topic(self) -> None:
        if self._is_topic_asked:
            return
        self._is_topic_asked = True
        answers: list[ApiMessage] = []

        def answered(answer: ApiMessage) -> None:
            self._is_topic_asked = False
            answers.append(answer)

        try:
            self.controller.ask(auto_creation([CONSUMER_OFFSETS], self.config), answered)
        except BaseException:
            self._is_topic_asked = False
            raise
        for answer in answers:
            assert isinstance(answer, CreateTopicsResponse)
            if answer.topics[0].error_code:
                raise CoordinatorNotAvailable(
                    f"{CONSUMER_OFFSETS} cannot be created: {answer.topics[0].error_message}"
                )

    def _need_topic(self) -> None:
        """For callers that skipped FindCoordinator: there is no answer that says `later`."""
        try:
            self.ensure_topic()
        except CoordinatorNotAvailable:
            self.topics.host_topic(CONSUMER_OFFSETS)
            self.ensure_topic()

    def number_for(self, group_id: str) -> int:
        if not self._is_complete:
            self._need_topic()
        return partition_for(group_id, self._partition_count)

    def coordinator_of(self, group_id: str) -> int:
        """The broker that leads the group's partition; a coordinator error where none serves it."""
        self.ensure_topic()
        number = partition_for(group_id, self._partition_count)
        state = self.image().partition(CONSUMER_OFFSETS, number)
        leader = NO_LEADER if state is None else state.leader
        if leader not in self.image().brokers or self.image().brokers[leader].fenced:
            raise CoordinatorNotAvailable(f"{CONSUMER_OFFSETS}-{number} has no live leader")
        if leader == self.config.node_id and number not in self.shards.by_number:
            raise CoordinatorNotAvailable(f"{CONSUMER_OFFSETS}-{number} is offline")
        return leader

    def by_shard(self, group_ids: Sequence[str]) -> dict[int, list[str]]:
        """Each group once, with those of its shard."""
        self._need_topic()
        found: dict[int, list[str]] = {}
        for group_id in dict.fromkeys(group_ids):
            found.setdefault(partition_for(group_id, self._partition_count), []).append(group_id)
        return found

    # -- asking -------------------------------------------------------------------------------

    def ask(
        self,
        request: Request,
        group_id: str,
        call: Call,
        *,
        from_member: bool = False,
        finish: Callable[[ApiMessage], ApiMessage] | None = None,
        terms: TxnTerms | None = None,
    ) -> Answer:
        """A handler's whole answer for a request about one group; `finish` has the last word on it.

        What a member says is heard before its session is judged: where the broker was busy or
        stood still, the word may have come in time and waited here. `terms` are those on which
        offsets of a transaction are appended."""
        number = self.number_for(group_id)
        question = Question(request, None if finish is None else lambda answers: finish(answers[0]))
        self._call(question, number, call, from_member=from_member, terms=terms)
        return _answer_or_later(question)

    def complete_transaction(
        self, number: int, marker: TxnMarker, on_written: Callable[[int], None]
    ) -> None:
        """The end of a transaction with offsets in this partition; the shard's offsets change when
        the marker is committed."""
        try:
            hosted = self._shard(number)
        except NO_COORDINATOR as error:
            on_written(marker_error(error.code))
            return
        token = MarkerToken(on_written)
        self._settle(number, hosted.shard.complete_transaction(marker, token))

    def ask_shards(self, request: Request, parts: Sequence[ShardPart], combine: Combine) -> Answer:
        """As `ask`, for a request whose parts several shards answer. One that cannot be asked is
        answered for by `refusal_of`."""
        if not parts:
            return combine(())
        question = Question(request, combine)
        for number, message, call in parts:
            try:
                self._call(question, number, call)
            except NO_COORDINATOR as error:
                refusal = refusal_of(message, error.code, request.api_version)
                assert refusal is not None
                question.part().answered(refusal)
        return _answer_or_later(question)

    def _call(
        self,
        question: Question,
        number: int,
        call: Call,
        *,
        from_member: bool = False,
        terms: TxnTerms | None = None,
    ) -> None:
        """Runs one call of a shard.

        Requests from outside see nothing whose time is up: what is due is done before, because the
        tick comes after all requests that wait, and on a busy broker too late."""
        if not from_member:
            self._tick_if_due(number)
        hosted = self._shard(number)
        request = question.request
        context = RequestContext(
            token=question.part(),
            api_version=request.api_version,
            client_id=request.client_id or "",
            client_host=f"/{request.client_host}",
            connection=request.connection,
        )
        outcome = call(hosted.shard, context, self._now())
        if self.memory.refusal is not None:
            self._tell_refusal(request)
        self._settle(number, outcome, terms)

    def _tell_refusal(self, request: Request) -> None:
        """Somebody wanted groups to hold more than they may."""
        reason, self.memory.refusal = self.memory.refusal, None
        limit = (reason or "").partition("=")[0]
        suppressed = self._throttle.admit(limit, self.clock.monotonic_ms())
        if suppressed is not None:
            _LOG.warning(
                "group refused api_key=%d peer=%s client=%r reason=%s suppressed=%d",
                request.api_key, request.client_host, shown(request.client_id), shown(reason),
                suppressed,
            )  # fmt: skip

    def _tick_if_due(self, number: int) -> None:
        due_ms = self._deadlines.get(number)
        if due_ms is not None and due_ms <= self.clock.monotonic_ms():
            hosted, now = self.shards.by_number[number], self._now()
            self._deliver(hosted.overdue(now))
            self._settle(number, hosted.shard.tick(now, hosted.records_in_flight()))

    def check_invariants(self) -> None:
        self.shards.check_invariants()

    def _now(self) -> Now:
        return Now(self.clock.now_ms(), self.clock.monotonic_ms())

    def _settle(self, number: int, outcome: TurnOutcome, terms: TxnTerms | None = None) -> None:
        """Records first, then answers: nothing is said that could still be lost."""
        hosted, now = self.shards.by_number[number], self._now()
        try:
            appended = hosted.take(outcome, now, self.config.offsets_commit_timeout_ms, terms)
        except (KafkaError, StorageError, OSError) as error:
            if not isinstance(error, _FAULTS_OF_PRODUCER):
                self.disk.log_failed(hosted.partition.topic_partition, error, now.monotonic_ms)
            code = error.code if isinstance(error, KafkaError) else _STORAGE_ERROR
            refused = hosted.shard.append_failed(outcome, code, now)
            hosted.take(
                TurnOutcome([], refused.answers), now, self.config.offsets_commit_timeout_ms
            )
        else:
            if appended is not None:
                self.appends.appended(hosted.partition.topic_partition, appended.size)
                if appended.tombstone_count:
                    self.cleaning.appended(hosted.partition.log, appended.tombstone_count)
        self._follow(hosted)
        self._keep_deadline(number, hosted)

    def _follow(self, hosted: HostedShard) -> None:
        """What is committed is true, and told."""
        self._deliver(hosted.committed())
        for topic_partition in hosted.take_decided():
            self.cleaning.offset_committed(topic_partition)

    def _keep_deadline(self, number: int, hosted: HostedShard) -> None:
        due_ms = hosted.next_deadline_ms
        if due_ms is None:
            self._deadlines.pop(number, None)
        else:
            self._deadlines[number] = due_ms

    def _deliver(self, answers: Iterable[ShardAnswer]) -> None:
        for part, response in answers:
            if isinstance(part, MarkerToken):
                assert isinstance(response, WriteTxnMarkersResponse)
                part.on_written(error_of_marker(response))
                continue
            assert isinstance(part, Part)
            question = part.question
            if part.answered(response) and question.is_left:
                self.answers.answer(question.request, question.whole_answer())


def _answer_or_later(question: Question) -> Answer:
    if question.unanswered:
        question.is_left = True
        return ANSWERED_LATER
    return question.whole_answer()
