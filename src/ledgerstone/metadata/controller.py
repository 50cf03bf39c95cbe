"""The controller: every change of the cluster's metadata is decided here. Pure.

A request becomes records and a response; nothing changes until the records come back. There are two
images. Decisions are made on what is decided: all that was appended, committed or not. Everybody
else sees what is committed. Whoever runs the controller appends the records of a decision as one
batch (`decided_on`), waits until they are committed (`committed_to`), and only then sends the
response. Losing leadership throws away what is decided and not committed. Rules in README.md.
"""

from collections.abc import Iterable
from typing import Any

from ledgerstone.clock import Dice
from ledgerstone.config.broker import BrokerConfig
from ledgerstone.errors import InvariantViolation
from ledgerstone.metadata import (
    broker_life,
    config_changes,
    elections,
    heartbeats,
    registration,
    topic_changes,
)
from ledgerstone.metadata.broker_life import Registration
from ledgerstone.metadata.broker_sessions import DEFAULT_SESSION_TIMEOUT_MS, BrokerSessions
from ledgerstone.metadata.decision import Decision
from ledgerstone.metadata.delta import Delta
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.metadata.partition_index import PartitionIndex
from ledgerstone.metadata.partitions import Partitions
from ledgerstone.metadata.replay import Replayed, apply
from ledgerstone.metadata.topic_creation import create_topics
from ledgerstone.protocol.message import ApiMessage, MetadataRecord
from ledgerstone.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from ledgerstone.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from ledgerstone.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from ledgerstone.protocol.messages.broker_registration import BrokerRegistrationRequest
from ledgerstone.protocol.messages.controller_registration import ControllerRegistrationRequest
from ledgerstone.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
)
from ledgerstone.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from ledgerstone.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ledgerstone.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from ledgerstone.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ledgerstone.protocol.messages.unregister_broker import UnregisterBrokerRequest


class Controller:
    """Invariant: `committed` is what the committed records say, `decided` what all of them say."""

    __slots__ = ("_config", "_dice", "_index", "committed", "decided", "sessions")

    def __init__(
        self,
        cluster_id: str,
        config: BrokerConfig,
        dice: Dice,
        *,
        session_timeout_ms: int = DEFAULT_SESSION_TIMEOUT_MS,
    ) -> None:
        self.committed = MetadataImage(cluster_id=cluster_id)
        self.decided = self.committed
        self.sessions = BrokerSessions(own_id=config.node_id, timeout_ms=session_timeout_ms)
        self._config = config
        self._dice = dice
        # Of `decided`, from the first decision that needs it on.
        self._index: PartitionIndex | None = None

    @property
    def partitions(self) -> Partitions:
        """What is decided, as decisions about partitions see it."""
        if self._index is None or self._index.image is not self.decided:
            self._index = PartitionIndex(self.decided)
        return Partitions(self.decided, self._config, self._index)

    def replay(self, records: Iterable[MetadataRecord]) -> Delta:
        """Committed records, in the order of the log; says what a broker must do about them."""
        applied = apply(self.committed, records)
        self.decided_on(applied)
        self.committed_to(applied)
        return applied.delta

    def preview(self, records: Iterable[MetadataRecord]) -> Replayed:
        """What the records of a decision will have done once they are committed. Applied once, for
        the next decision and for every broker that follows."""
        return apply(self.decided, records)

    def decided_on(self, applied: Replayed) -> None:
        """The records are in the log: the next decision is made on top of them."""
        if self._index is not None and self._index.image is self.decided:
            self._index.follow(applied.delta, applied.image)
        self.decided = applied.image

    def committed_to(self, applied: Replayed) -> None:
        """In the order in which they were decided."""
        self.committed = applied.image

    def lead(self, *, now_ms: int, next_offset: int) -> None:
        """This node decides from now on; all that others have decided is committed here."""
        self.sessions.start(self.decided, now_ms=now_ms, end_offset=next_offset)

    def resign(self) -> None:
        self.decided = self.committed
        self._index = None
        self.sessions.clear()

    @property
    def next_deadline_ms(self) -> int | None:
        """When `due` may have something to do, by the monotonic clock."""
        return self.sessions.next_deadline_ms

    def due(self, now_ms: int) -> Decision[None] | None:
        """What time alone brings about, one thing at a time: call it again until there is nothing.
        The next decision must see what this one has done."""
        while (expired := self.sessions.take_expired(now_ms)) is not None:
            broker = self.decided.brokers.get(expired)
            if broker is not None and (records := heartbeats.fencing(self.decided, broker)):
                self.sessions.fenced(expired)
                return Decision(records, None, is_atomic=False)
        return None

    def decide(
        self, request: ApiMessage, *, now_ms: int, next_offset: int, by_broker: bool = False
    ) -> Decision[Any]:
        """`next_offset`: where the first record will be. `by_broker`: asked for by a broker itself,
        which may make the journal of erasures."""
        match request:
            case CreateTopicsRequest():
                return self.create_topics(request, by_broker=by_broker)
            case DeleteTopicsRequest():
                return self.delete_topics(request)
            case CreatePartitionsRequest():
                return self.create_partitions(request)
            case IncrementalAlterConfigsRequest():
                return self.incremental_alter_configs(request)
            case AlterConfigsRequest():
                return self.alter_configs(request)
            case ElectLeadersRequest():
                return self.elect_leaders(request)
            case AllocateProducerIdsRequest():
                return self.allocate_producer_ids(request)
            case BrokerHeartbeatRequest():
                return heartbeats.heartbeat(
                    self.decided, self.sessions, request, now_ms=now_ms, next_offset=next_offset
                )
            case BrokerRegistrationRequest():
                return registration.register_broker(
                    self.decided, self.sessions, request, now_ms=now_ms, next_offset=next_offset
                )
            case UnregisterBrokerRequest():
                return registration.unregister_broker(self.decided, self.sessions, request)
            case ControllerRegistrationRequest():
                return registration.register_controller(self.decided, request)
            case _:
                raise InvariantViolation(f"{request.name} is not for the controller")

    def register_broker(self, broker: Registration, *, broker_epoch: int) -> list[MetadataRecord]:
        return broker_life.register_broker(self.decided, broker, broker_epoch)

    def unfence_broker(self, broker_id: int, *, broker_epoch: int) -> list[MetadataRecord]:
        return broker_life.unfence_broker(self.decided, broker_id, broker_epoch)

    def allocate_producer_ids(
        self, request: AllocateProducerIdsRequest
    ) -> Decision[AllocateProducerIdsResponse]:
        return broker_life.allocate_producer_ids(self.decided, request)

    def create_topics(
        self, request: CreateTopicsRequest, *, by_broker: bool = False
    ) -> Decision[CreateTopicsResponse]:
        return create_topics(self.decided, self._config, request, self._dice, by_broker=by_broker)

    def delete_topics(self, request: DeleteTopicsRequest) -> Decision[DeleteTopicsResponse]:
        return topic_changes.delete_topics(self.decided, self._config, request)

    def create_partitions(
        self, request: CreatePartitionsRequest
    ) -> Decision[CreatePartitionsResponse]:
        return topic_changes.create_partitions(self.decided, request, self._dice)

    def incremental_alter_configs(
        self, request: IncrementalAlterConfigsRequest
    ) -> Decision[IncrementalAlterConfigsResponse]:
        return config_changes.incremental_alter_configs(self.decided, self._config, request)

    def alter_configs(self, request: AlterConfigsRequest) -> Decision[AlterConfigsResponse]:
        return config_changes.alter_configs(self.decided, self._config, request)

    def elect_leaders(self, request: ElectLeadersRequest) -> Decision[ElectLeadersResponse]:
        return elections.elect_leaders(self.decided, request)
