"""Proposes changes of in-sync replicas to the controller. Grade D.

Rules in README.md. What to propose, and what an answer means, is decided in `replication.isr`.
"""

import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from ledgerstone.clock import Clock
from ledgerstone.config.broker import BrokerConfig
from ledgerstone.errors import KafkaError, StorageError
from ledgerstone.metadata.delta import Delta
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.alter_partition import (
    AlterPartitionNewIsrWithEpoch,
    AlterPartitionRequest,
    AlterPartitionRequestPartition,
    AlterPartitionRequestTopic,
    AlterPartitionResponse,
    AlterPartitionResponsePartition,
)
from ledgerstone.replication.hosted_partitions import HostedPartitions
from ledgerstone.replication.isr import IsrChange, IsrOutcome
from ledgerstone.replication.leader import Leader
from ledgerstone.replication.partition import Partition
from ledgerstone.replication.throttle import ReplicationThrottle
from ledgerstone.server.effects import Effect
from ledgerstone.server.metrics import Counters
from ledgerstone.server.results import Result
from ledgerstone.types import TopicPartition

_LOG: Final = logging.getLogger(__name__)
_RETRY_MS: Final = 50
_DISK_REFUSED: Final = (KafkaError, StorageError, OSError)

AskController = Callable[[ApiMessage, Callable[[ApiMessage], None]], None]


class _Key(NamedTuple):
    topic_id: bytes
    partition: int


class _Proposal(NamedTuple):
    partition: Partition
    change: IsrChange


class IsrAgent:
    """`Agent`. `moved` is called for each partition whose high watermark moved."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        clock: Clock,
        partitions: HostedPartitions,
        image: Callable[[], MetadataImage],
        ask: AskController,
        counters: Counters,
        moved: Callable[[TopicPartition], None],
    ) -> None:
        cluster = config.cluster
        # Of followers that are not in sync.
        self.throttle = ReplicationThrottle(
            config.node_id,
            windows=cluster.replication_quota_window_num,
            window_ms=cluster.replication_quota_window_size_seconds * 1000,
        )
        self._node_id = config.node_id
        self._static_values = config.raw
        self._clock = clock
        self._partitions = partitions
        self._image = image
        self._ask = ask
        self._counters = counters
        self._moved = moved
        self._check_every_ms = max(config.replica_lag_time_max_ms // 2, 1)
        self._check_ms: int | None = None
        self._retry_ms: int | None = None
        # Without an answer; those of `_in_flight` have been sent.
        self._waiting: dict[_Key, _Proposal] = {}
        self._in_flight: dict[_Key, _Proposal] | None = None

    def start(self) -> None:
        """Of a broker in a cluster: followers may lag from now on."""
        self._check_ms = self._clock.monotonic_ms() + self._check_every_ms

    def offer(self, partition: Partition) -> None:
        """Takes what a partition proposes, if anything; `send` sends it."""
        role = partition.role
        if isinstance(role, Leader) and (change := role.take_change()) is not None:
            key = _Key(partition.topic_id, partition.topic_partition.partition)
            self._waiting[key] = _Proposal(partition, change)

    def send(self) -> None:
        """What waits leaves in one request, unless one is under way."""
        if not self._waiting or self._in_flight is not None or self._retry_ms is not None:
            return
        # Metadata may have ended a proposal that waited.
        self._waiting = {key: each for key, each in self._waiting.items() if _is_pending(each)}
        if not self._waiting:
            return
        # Copied: the answer may come in this very call.
        self._in_flight = dict(self._waiting)
        try:
            self._ask(self._request(self._in_flight), self._answered)
        except _DISK_REFUSED as error:
            # This node is the controller, and its disk takes nothing.
            self._try_later(str(error))

    # -- as an agent --------------------------------------------------------------------------

    @property
    def next_deadline_ms(self) -> int | None:
        # Asked after every request that had to wait.
        if self._retry_ms is None or self._check_ms is None:
            return self._check_ms if self._retry_ms is None else self._retry_ms
        return min(self._check_ms, self._retry_ms)

    def tick(self) -> list[Effect]:
        now_ms = self._clock.monotonic_ms()
        if self._retry_ms is not None and now_ms >= self._retry_ms:
            self._retry_ms = None
        if self._check_ms is not None and now_ms >= self._check_ms:
            self._check_ms = now_ms + self._check_every_ms
            self._check_lag(now_ms)
        self.send()
        return []

    def completed(self, effect: Effect, result: Result) -> list[Effect]:
        raise AssertionError(f"no effect is asked for here: {effect} {result}")

    def metadata_changed(self, delta: Delta) -> list[Effect]:
        """Which followers may join, and so are waited for, depends on brokers; how many have to be
        in sync, on settings. With a lower min.insync.replicas there may be nobody left who fetches:
        nothing else would move what was written."""
        if (delta.brokers_changed or delta.configs_changed) and self._check_ms is not None:
            for partition in self._led():
                assert isinstance(partition.role, Leader)
                if partition.role.advance_high_watermark():
                    self._moved(partition.topic_partition)
        if delta.configs_changed or delta.topics_created:
            self.throttle.follow_settings(self._image(), "leader", self._static_values)
        return []

    # -- lag ----------------------------------------------------------------------------------

    def _led(self) -> list[Partition]:
        """Those with followers."""
        return [
            each
            for each in self._partitions
            if isinstance(each.role, Leader) and each.role.in_sync.followers
        ]

    def _check_lag(self, now_ms: int) -> None:
        for partition in self._led():
            assert isinstance(partition.role, Leader)
            if partition.role.check_lag(now_ms):
                self._moved(partition.topic_partition)
            self.offer(partition)

    # -- asking -------------------------------------------------------------------------------

    def _request(self, proposals: dict[_Key, _Proposal]) -> AlterPartitionRequest:
        own = self._image().brokers.get(self._node_id)
        request = AlterPartitionRequest(
            broker_id=self._node_id, broker_epoch=-1 if own is None else own.broker_epoch
        )
        topics: dict[bytes, AlterPartitionRequestTopic] = {}
        for key, (_, change) in proposals.items():
            members = [AlterPartitionNewIsrWithEpoch(*each) for each in change.isr]
            topic = topics.get(key.topic_id)
            if topic is None:
                topic = topics[key.topic_id] = AlterPartitionRequestTopic(topic_id=key.topic_id)
                request.topics.append(topic)
            topic.partitions.append(
                AlterPartitionRequestPartition(
                    partition_index=key.partition,
                    leader_epoch=change.leader_epoch,
                    new_isr_with_epochs=members,
                    partition_epoch=change.partition_epoch,
                )
            )
        return request

    def _answered(self, answer: ApiMessage) -> None:
        assert isinstance(answer, AlterPartitionResponse), answer
        if answer.error_code:
            self._try_later(ErrorCode(answer.error_code).name)
            return
        sent, self._in_flight = self._in_flight, None
        assert sent is not None
        for topic in answer.topics:
            for each in topic.partitions:
                key = _Key(topic.topic_id, each.partition_index)
                proposal = sent.get(key)
                if proposal is not None:
                    self._settle(key, proposal, each)
        if any(self._waiting.get(key) is each for key, each in sent.items()):
            # To be sent again, or left out of the answer.
            self._retry_ms = self._clock.monotonic_ms() + _RETRY_MS
        self.send()

    def _try_later(self, reason: str) -> None:
        self._in_flight = None
        self._retry_ms = self._clock.monotonic_ms() + _RETRY_MS
        _LOG.debug("in-sync replicas not changed reason=%s", reason)

    def _settle(
        self, key: _Key, proposal: _Proposal, answer: AlterPartitionResponsePartition
    ) -> None:
        partition, change = proposal
        if answer.error_code:
            outcome = partition.isr_refused(change, answer.error_code)
            self._counters.isr_updates_failed += 1
        else:
            self._count(partition, change, answer)
            outcome = partition.isr_agreed(
                change,
                tuple(answer.isr),
                leader_epoch=answer.leader_epoch,
                partition_epoch=answer.partition_epoch,
            )
        if (
            outcome is not IsrOutcome.RETRY
            and key in self._waiting
            and (self._waiting[key].change is change)
        ):
            del self._waiting[key]
        if outcome is IsrOutcome.CHANGED:
            assert isinstance(partition.role, Leader)
            partition.role.advance_high_watermark()
            # Also where it did not move: acks=all may have too few replicas now, or enough.
            self._moved(partition.topic_partition)

    def _count(
        self, partition: Partition, change: IsrChange, answer: AlterPartitionResponsePartition
    ) -> None:
        """Also where the metadata came before the answer."""
        if answer.partition_epoch == change.partition_epoch:
            return
        if change.joining is None:
            self._counters.isr_shrinks += 1
        else:
            self._counters.isr_expands += 1
        _LOG.info(
            "in-sync replicas changed partition=%s isr=%s partition_epoch=%d",
            partition.topic_partition, answer.isr, answer.partition_epoch,
        )  # fmt: skip


def _is_pending(proposal: _Proposal) -> bool:
    role = proposal.partition.role
    return isinstance(role, Leader) and role.in_sync.pending is proposal.change
