"""The controller: every change of the cluster's metadata is decided here. Pure.

A request becomes records and a response; nothing changes until the records come back through
`replay`, which is also how the state is built at start. Whoever runs the controller appends the
records of a decision as one batch, waits until they are committed, replays them, and only then
sends the response. Decisions are made one at a time: the records of one are replayed before the
next is asked for. Rules in README.md.
"""

from collections.abc import Iterable, Sequence

from ledgerstone.clock import Dice
from ledgerstone.config.broker import BrokerConfig
from ledgerstone.metadata import broker_life, config_changes, elections, topic_changes
from ledgerstone.metadata.broker_life import Registration
from ledgerstone.metadata.decision import Decision
from ledgerstone.metadata.delta import Delta
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.metadata.replay import apply
from ledgerstone.metadata.topic_creation import create_topics
from ledgerstone.metadata.topic_names import auto_created_topic
from ledgerstone.protocol.message import MetadataRecord
from ledgerstone.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from ledgerstone.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
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


class Controller:
    """Invariant: `image` is what the replayed records say, and nothing else."""

    __slots__ = ("_config", "_dice", "_image")

    def __init__(self, cluster_id: str, config: BrokerConfig, dice: Dice) -> None:
        self._image = MetadataImage(cluster_id=cluster_id)
        self._config = config
        self._dice = dice

    @property
    def image(self) -> MetadataImage:
        return self._image

    def replay(self, records: Iterable[MetadataRecord]) -> Delta:
        """Committed records, in the order of the log; says what a broker must do about them."""
        self._image, delta = apply(self._image, records)
        return delta

    def register_broker(
        self, registration: Registration, *, broker_epoch: int
    ) -> list[MetadataRecord]:
        return broker_life.register_broker(self._image, registration, broker_epoch)

    def unfence_broker(self, broker_id: int, *, broker_epoch: int) -> list[MetadataRecord]:
        return broker_life.unfence_broker(self._image, broker_id, broker_epoch)

    def allocate_producer_ids(
        self, request: AllocateProducerIdsRequest
    ) -> Decision[AllocateProducerIdsResponse]:
        return broker_life.allocate_producer_ids(self._image, request)

    def create_topics(
        self, request: CreateTopicsRequest, *, by_broker: bool = False
    ) -> Decision[CreateTopicsResponse]:
        """`by_broker`: asked for by the broker itself, which may make the journal of erasures."""
        return create_topics(self._image, self._config, request, self._dice, by_broker=by_broker)

    def auto_create_topics(self, names: Sequence[str]) -> Decision[CreateTopicsResponse]:
        """Topics somebody used without creating them; whether that is allowed was asked before."""
        topics = [auto_created_topic(name, self._config) for name in dict.fromkeys(names)]
        return self.create_topics(CreateTopicsRequest(topics=topics))

    def delete_topics(self, request: DeleteTopicsRequest) -> Decision[DeleteTopicsResponse]:
        return topic_changes.delete_topics(self._image, self._config, request)

    def create_partitions(
        self, request: CreatePartitionsRequest
    ) -> Decision[CreatePartitionsResponse]:
        return topic_changes.create_partitions(self._image, request, self._dice)

    def incremental_alter_configs(
        self, request: IncrementalAlterConfigsRequest
    ) -> Decision[IncrementalAlterConfigsResponse]:
        return config_changes.incremental_alter_configs(self._image, self._config, request)

    def alter_configs(self, request: AlterConfigsRequest) -> Decision[AlterConfigsResponse]:
        return config_changes.alter_configs(self._image, self._config, request)

    def elect_leaders(self, request: ElectLeadersRequest) -> Decision[ElectLeadersResponse]:
        return elections.elect_leaders(self._image, request)
