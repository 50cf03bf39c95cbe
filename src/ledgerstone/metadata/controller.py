"""The controller: every change of the cluster's metadata is decided here. Pure.

A request becomes records and a response; nothing changes until the records come back. There are two
images. Decisions are made on what is decided: all that was appended, committed or not. Everybody
else sees what is committed. Whoever runs the controller appends the records of a decision as one
batch (`decided_on`), waits until they are committed (`committed_to`), and only then sends the
response. Losing leadership throws away what is decided and not committed. Rules in README.md.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from ledgerstone.clock import Dice
from ledgerstone.config.broker import BrokerConfig
from ledgerstone.errors import InvariantViolation
from ledgerstone.metadata import (
    acl_changes,
    broker_life,
    config_changes,
    elections,
    feature_updates,
    heartbeats,
    quota_changes,
    reassignments,
    registration,
    scram_changes,
    topic_changes,
)
from ledgerstone.metadata.activation import activation_records
from ledgerstone.metadata.alter_partition import alter_partition
from ledgerstone.metadata.broker_life import Registration
from ledgerstone.metadata.broker_sessions import DEFAULT_SESSION_TIMEOUT_MS, BrokerSessions
from ledgerstone.metadata.decision import Decision
from ledgerstone.metadata.delta import Delta
from ledgerstone.metadata.directory_changes import assign_replicas_to_dirs
from ledgerstone.metadata.feature_updates import QuorumFacts
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.metadata.leader_passes import LeaderPasses
from ledgerstone.metadata.partition_changes import affects_leaders, changes_for_configs
from ledgerstone.metadata.partition_index import PartitionIndex
from ledgerstone.metadata.partitions import Partitions
from ledgerstone.metadata.replay import Replayed, apply
from ledgerstone.metadata.topic_creation import create_topics
from ledgerstone.protocol.message import ApiMessage, MetadataRecord
from ledgerstone.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from ledgerstone.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from ledgerstone.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from ledgerstone.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
)
from ledgerstone.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from ledgerstone.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
)
from ledgerstone.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)
from ledgerstone.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from ledgerstone.protocol.messages.broker_registration import BrokerRegistrationRequest
from ledgerstone.protocol.messages.controller_registration import ControllerRegistrationRequest
from ledgerstone.protocol.messages.create_acls import CreateAclsRequest
from ledgerstone.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
)
from ledgerstone.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from ledgerstone.protocol.messages.delete_acls import DeleteAclsRequest
from ledgerstone.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ledgerstone.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from ledgerstone.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ledgerstone.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from ledgerstone.protocol.messages.metadata_records import ConfigRecord
from ledgerstone.protocol.messages.unregister_broker import UnregisterBrokerRequest
from ledgerstone.protocol.messages.update_features import (
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from ledgerstone.quotas.mutations import MutationQuota

R = TypeVar("R")


class Controller:
    """Invariant: `committed` is what the committed records say, `decided` what all of them say."""

    __slots__ = (
        "_config",
        "_dice",
        "_index",
        "_passes",
        "committed",
        "decided",
        "quorum",
        "sessions",
    )

    def __init__(
        self,
        cluster_id: str,
        config: BrokerConfig,
        dice: Dice,
        *,
        session_timeout_ms: int = DEFAULT_SESSION_TIMEOUT_MS,
        disconnect_grace_ms: int | None = None,
        passes: LeaderPasses | None = None,
    ) -> None:
        self.committed = MetadataImage(cluster_id=cluster_id)
        self.decided = self.committed
        self.sessions = BrokerSessions(
            own_id=config.node_id, timeout_ms=session_timeout_ms, grace_ms=disconnect_grace_ms
        )
        # Asked for when a decision depends on it; whoever runs the controller knows the quorum.
        self.quorum: Callable[[], QuorumFacts] = QuorumFacts
        self._config = config
        self._dice = dice
        # Of `decided`, from the first decision that needs it on.
        self._index: PartitionIndex | None = None
        self._passes = LeaderPasses() if passes is None else passes

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

    def lead(self, *, now_ms: int, next_offset: int, last_controller_id: int | None = None) -> None:
        """This node decides from now on; all that others have decided is committed here."""
        self.sessions.start(
            self.decided,
            now_ms=now_ms,
            end_offset=next_offset,
            last_controller_id=last_controller_id,
        )
        self._passes.start(now_ms)

    def activation(self, bootstrap: Sequence[MetadataRecord]) -> list[MetadataRecord]:
        """What a new leader writes before anything else; often nothing."""
        return activation_records(self.decided, bootstrap, min_insync_replicas=self._static_min_isr)

    def resign(self) -> None:
        self.decided = self.committed
        self.sessions.clear()
        self._passes.clear()
        self._index = None

    @property
    def next_deadline_ms(self) -> int | None:
        """When `due` may have something to do, by the monotonic clock."""
        deadlines = (self.sessions.next_deadline_ms, self._passes.next_deadline_ms)
        return min((each for each in deadlines if each is not None), default=None)

    def due(self, now_ms: int) -> Decision[None] | None:
        """What time alone brings about, one thing at a time: call it again until there is nothing.
        The next decision must see what this one has done."""
        while (expired := self.sessions.take_expired(now_ms)) is not None:
            broker = self.decided.brokers.get(expired)
            if broker is not None and (records := heartbeats.fencing(self.partitions, broker)):
                return Decision(records, None, is_atomic=False)
        if self._passes.is_due(now_ms) and (records := self._passes.run(self.partitions, now_ms)):
            return Decision(records, None, is_atomic=False)
        return None

    def decide(
        self,
        request: ApiMessage,
        *,
        now_ms: int,
        next_offset: int,
        by_broker: bool = False,
        quota: MutationQuota | None = None,
    ) -> Decision[Any]:
        """`next_offset`: where the first record will be. `by_broker`: asked for by a broker itself,
        which may make the journal of erasures. `quota`: how much the client may change."""
        match request:
            case CreateTopicsRequest():
                return self.create_topics(request, by_broker=by_broker, quota=quota)
            case DeleteTopicsRequest():
                return self.delete_topics(request, quota)
            case CreatePartitionsRequest():
                return self.create_partitions(request, quota)
            case IncrementalAlterConfigsRequest():
                return self.incremental_alter_configs(request)
            case AlterConfigsRequest():
                return self.alter_configs(request)
            case ElectLeadersRequest():
                return self.elect_leaders(request)
            case AlterPartitionRequest():
                return self.alter_partition(request)
            case AlterPartitionReassignmentsRequest():
                return self.alter_reassignments(request)
            case ListPartitionReassignmentsRequest():
                return self.list_reassignments(request)
            case AssignReplicasToDirsRequest():
                return self.assign_replicas_to_dirs(request)
            case AllocateProducerIdsRequest():
                return self.allocate_producer_ids(request)
            case BrokerHeartbeatRequest():
                return heartbeats.heartbeat(
                    self.partitions, self.sessions, request, now_ms=now_ms, next_offset=next_offset
                )
            case BrokerRegistrationRequest():
                return registration.register_broker(
                    self.partitions,
                    self.sessions,
                    request,
                    now_ms=now_ms,
                    next_offset=next_offset,
                    kraft_version=self.quorum().kraft_version,
                )
            case UnregisterBrokerRequest():
                return registration.unregister_broker(self.partitions, self.sessions, request)
            case ControllerRegistrationRequest():
                return registration.register_controller(self.decided, request)
            case AlterClientQuotasRequest():
                return quota_changes.alter_client_quotas(self.decided, request)
            case UpdateFeaturesRequest():
                return self.update_features(request)
            case AlterUserScramCredentialsRequest():
                return scram_changes.alter_scram_credentials(self.decided, request)
            case CreateAclsRequest():
                return acl_changes.create_acls(self.decided, request, self._dice)
            case DeleteAclsRequest():
                return acl_changes.delete_acls(self.decided, request)
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

    def update_features(self, request: UpdateFeaturesRequest) -> Decision[UpdateFeaturesResponse]:
        return feature_updates.update_features(
            self.decided,
            request,
            own_id=self._config.node_id,
            quorum=self.quorum(),
            min_insync_replicas=self._static_min_isr,
        )

    @property
    def _static_min_isr(self) -> str:
        return self._config.raw.get("min.insync.replicas", "1")

    def create_topics(
        self,
        request: CreateTopicsRequest,
        *,
        by_broker: bool = False,
        quota: MutationQuota | None = None,
    ) -> Decision[CreateTopicsResponse]:
        return create_topics(
            self.decided, self._config, request, self._dice, by_broker=by_broker, quota=quota
        )

    def delete_topics(
        self, request: DeleteTopicsRequest, quota: MutationQuota | None = None
    ) -> Decision[DeleteTopicsResponse]:
        return topic_changes.delete_topics(self.decided, self._config, request, quota)

    def create_partitions(
        self, request: CreatePartitionsRequest, quota: MutationQuota | None = None
    ) -> Decision[CreatePartitionsResponse]:
        return topic_changes.create_partitions(self.decided, request, self._dice, quota)

    def incremental_alter_configs(
        self, request: IncrementalAlterConfigsRequest
    ) -> Decision[IncrementalAlterConfigsResponse]:
        decision = config_changes.incremental_alter_configs(self.decided, self._config, request)
        return self._with_consequences(decision)

    def alter_configs(self, request: AlterConfigsRequest) -> Decision[AlterConfigsResponse]:
        decision = config_changes.alter_configs(self.decided, self._config, request)
        return self._with_consequences(decision)

    def _with_consequences(self, decision: Decision[R]) -> Decision[R]:
        """Settings that say who may lead: partitions follow in the same batch."""
        changes = [each for each in decision.records if isinstance(each, ConfigRecord)]
        if not affects_leaders(changes):
            return decision
        partitions = self.partitions
        after = Partitions(self.preview(changes).image, self._config)
        follow = changes_for_configs(after, changes, partitions.index.leaderless)
        return decision._replace(records=[*decision.records, *follow])

    def elect_leaders(self, request: ElectLeadersRequest) -> Decision[ElectLeadersResponse]:
        return elections.elect_leaders(self.partitions, request)

    def alter_partition(self, request: AlterPartitionRequest) -> Decision[AlterPartitionResponse]:
        return alter_partition(self.partitions, request)

    def alter_reassignments(
        self, request: AlterPartitionReassignmentsRequest
    ) -> Decision[AlterPartitionReassignmentsResponse]:
        return reassignments.alter_reassignments(self.partitions, request)

    def list_reassignments(
        self, request: ListPartitionReassignmentsRequest
    ) -> Decision[ListPartitionReassignmentsResponse]:
        """Of what is committed: what is only decided may still be lost."""
        partitions = self.partitions
        if self.committed is not self.decided:
            partitions = Partitions(self.committed, self._config)
        running = partitions.index.reassigning
        return Decision([], reassignments.list_reassignments(self.committed, request, running))

    def assign_replicas_to_dirs(
        self, request: AssignReplicasToDirsRequest
    ) -> Decision[AssignReplicasToDirsResponse]:
        return assign_replicas_to_dirs(self.partitions, request)
