"""How a broker enters the cluster, and what it draws from it: producer ids. Pure."""

from collections.abc import Sequence
from typing import Final

from ledgerstone.dataclasses import dataclass
from ledgerstone.errors import KafkaError, StaleBrokerEpoch
from ledgerstone.metadata.decision import Decision
from ledgerstone.metadata.features import SUPPORTED_FEATURES
from ledgerstone.metadata.image import BrokerImage, Endpoint, MetadataImage
from ledgerstone.metadata.replay import UNFENCE
from ledgerstone.protocol.message import MetadataRecord
from ledgerstone.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from ledgerstone.protocol.messages.metadata_records import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    ProducerIdsRecord,
    RegisterBrokerEndPoint,
    RegisterBrokerFeature,
    RegisterBrokerRecord,
)

PRODUCER_ID_BLOCK: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What a broker says about itself when it starts."""

    broker_id: int
    incarnation_id: bytes  # Drawn anew by every process.
    endpoints: Sequence[Endpoint]
    rack: str | None = None
    log_dirs: Sequence[bytes] = ()
    stopped_cleanly: bool = True  # Whether its last process wrote everything out.


def register_broker(
    image: MetadataImage, registration: Registration, broker_epoch: int
) -> list[MetadataRecord]:
    """The broker is fenced until `unfence_broker`; its epoch is the offset of the first record.

    Differs from Kafka: a leader that did not stop cleanly gets a new leader epoch, since the end
    of its log may have gone; readers then notice, instead of waiting at an offset that is reused.
    """
    records: list[MetadataRecord] = [
        RegisterBrokerRecord(
            broker_id=registration.broker_id,
            incarnation_id=registration.incarnation_id,
            broker_epoch=broker_epoch,
            end_points=[RegisterBrokerEndPoint(*endpoint) for endpoint in registration.endpoints],
            features=[
                RegisterBrokerFeature(name, first, last)
                for name, (first, last) in SUPPORTED_FEATURES.items()
            ],
            rack=registration.rack,
            fenced=True,
            log_dirs=list(registration.log_dirs),
        )
    ]
    if not registration.stopped_cleanly:
        records += _new_epochs(image, registration.broker_id)
    return records


def _new_epochs(image: MetadataImage, broker_id: int) -> list[MetadataRecord]:
    return [
        PartitionChangeRecord(partition_id=number, topic_id=topic.topic_id, leader=broker_id)
        for _, topic in sorted(image.topics.items())
        for number, partition in sorted(topic.partitions.items())
        if partition.leader == broker_id
    ]


def unfence_broker(image: MetadataImage, broker_id: int, broker_epoch: int) -> list[MetadataRecord]:
    broker = _registered(image, broker_id, broker_epoch)
    if not broker.fenced:
        return []
    return [
        BrokerRegistrationChangeRecord(
            broker_id=broker_id, broker_epoch=broker_epoch, fenced=UNFENCE
        )
    ]


def allocate_producer_ids(
    image: MetadataImage, request: AllocateProducerIdsRequest
) -> Decision[AllocateProducerIdsResponse]:
    try:
        _registered(image, request.broker_id, request.broker_epoch)
    except KafkaError as error:
        return Decision([], AllocateProducerIdsResponse(error_code=error.code))
    start = image.next_producer_id
    record = ProducerIdsRecord(
        broker_id=request.broker_id,
        broker_epoch=request.broker_epoch,
        next_producer_id=start + PRODUCER_ID_BLOCK,
    )
    response = AllocateProducerIdsResponse(
        producer_id_start=start, producer_id_len=PRODUCER_ID_BLOCK
    )
    return Decision([record], response)


def _registered(image: MetadataImage, broker_id: int, broker_epoch: int) -> BrokerImage:
    broker = image.brokers.get(broker_id)
    if broker is None:
        # Kafka says so too: an epoch of no registration is not the present one.
        raise StaleBrokerEpoch(f"broker {broker_id} is not registered")
    if broker.broker_epoch != broker_epoch:
        raise StaleBrokerEpoch(
            f"broker {broker_id} is registered with epoch {broker.broker_epoch}, not {broker_epoch}"
        )
    return broker
