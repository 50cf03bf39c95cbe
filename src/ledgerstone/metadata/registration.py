"""BrokerRegistration, UnregisterBroker, ControllerRegistration: who belongs to the cluster. Pure.

A broker's epoch is the offset that the next record would have had when its registration was
decided. Records that clean up after its last process come first and the registration last: if the
batches in between are cut off by a crash, the broker registers again, and all of it is repeated.
"""

from collections.abc import Mapping, Sequence

from ledgerstone.errors import (
    BrokerIdNotRegistered,
    DuplicateBrokerRegistration,
    InconsistentClusterId,
    InvalidRegistration,
    KafkaError,
    UnsupportedVersion,
)
from ledgerstone.metadata.broker_sessions import BrokerSessions
from ledgerstone.metadata.decision import Decision, reason_of
from ledgerstone.metadata.features import (
    CONTROLLER_REGISTRATION_FROM,
    DIRECTORIES_FROM,
    KRAFT_VERSION_FEATURE,
    METADATA_VERSION_FEATURE,
)
from ledgerstone.metadata.image import BrokerImage, MetadataImage, is_reserved
from ledgerstone.metadata.partition_changes import (
    changes_for_new_incarnation,
    changes_for_unregistered,
)
from ledgerstone.metadata.partitions import Partitions
from ledgerstone.protocol.message import MetadataRecord
from ledgerstone.protocol.messages.broker_registration import (
    BrokerRegistrationFeature,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from ledgerstone.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from ledgerstone.protocol.messages.metadata_records import (
    RegisterBrokerEndPoint,
    RegisterBrokerFeature,
    RegisterBrokerRecord,
    RegisterControllerEndPoint,
    RegisterControllerFeature,
    RegisterControllerRecord,
    UnregisterBrokerRecord,
)
from ledgerstone.protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from ledgerstone.uuid_text import uuid_to_text


def register_broker(
    partitions: Partitions,
    sessions: BrokerSessions,
    request: BrokerRegistrationRequest,
    *,
    now_ms: int,
    next_offset: int,
    kraft_version: int = 0,
) -> Decision[BrokerRegistrationResponse]:
    """`kraft_version` is the quorum's own; a broker must support it like any other feature."""
    image = partitions.image
    before = image.brokers.get(request.broker_id)
    try:
        _check(image, sessions, request, before, now_ms)
        finalized = {**image.features, KRAFT_VERSION_FEATURE: kraft_version}
        _check_features(finalized, request.features)
    except KafkaError as error:
        return Decision([], BrokerRegistrationResponse(error_code=error.code))
    record = _record_of(request)
    records: list[MetadataRecord] = []
    if before is not None and before.incarnation_id == request.incarnation_id:
        # The same process, which has something else to say about itself.
        record.broker_epoch = before.broker_epoch
        record.fenced = before.fenced
        record.in_controlled_shutdown = before.in_controlled_shutdown
    else:
        record.broker_epoch = next_offset
        stopped_cleanly = (
            before is not None and before.broker_epoch == request.previous_broker_epoch
        )
        records += changes_for_new_incarnation(
            partitions, request.broker_id, stopped_cleanly=stopped_cleanly
        )
    records.append(record)
    sessions.register(
        request.broker_id,
        record.broker_epoch,
        registration_offset=next_offset + len(records) - 1,
    )
    response = BrokerRegistrationResponse(broker_epoch=record.broker_epoch)
    return Decision(records, response, is_atomic=False)


def unregister_broker(
    partitions: Partitions, sessions: BrokerSessions, request: UnregisterBrokerRequest
) -> Decision[UnregisterBrokerResponse]:
    """Replica lists keep the id: a broker of that id may come back."""
    broker = partitions.image.brokers.get(request.broker_id)
    if broker is None:
        error = BrokerIdNotRegistered(f"broker {request.broker_id} is not registered")
        return Decision([], UnregisterBrokerResponse(0, error.code, reason_of(error)))
    sessions.forget(request.broker_id)
    records: list[MetadataRecord] = [
        *changes_for_unregistered(partitions, broker.broker_id),
        UnregisterBrokerRecord(broker.broker_id, broker.broker_epoch),
    ]
    return Decision(records, UnregisterBrokerResponse(), is_atomic=False)


def register_controller(
    image: MetadataImage, request: ControllerRegistrationRequest
) -> Decision[ControllerRegistrationResponse]:
    if image.metadata_version < CONTROLLER_REGISTRATION_FROM:
        error = UnsupportedVersion(
            f"controllers are registered from {METADATA_VERSION_FEATURE} "
            f"{CONTROLLER_REGISTRATION_FROM} on; it is {image.metadata_version}"
        )
        return Decision([], ControllerRegistrationResponse(0, error.code, reason_of(error)))
    record = RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        end_points=[
            RegisterControllerEndPoint(each.name, each.host, each.port, each.security_protocol)
            for each in request.listeners
        ],
        features=[
            RegisterControllerFeature(
                each.name, each.min_supported_version, each.max_supported_version
            )
            for each in request.features
        ],
    )
    return Decision([record], ControllerRegistrationResponse())


def _record_of(request: BrokerRegistrationRequest) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        end_points=[
            RegisterBrokerEndPoint(each.name, each.host, each.port, each.security_protocol)
            for each in request.listeners
        ],
        features=[
            RegisterBrokerFeature(each.name, each.min_supported_version, each.max_supported_version)
            for each in request.features
        ],
        rack=request.rack,
        fenced=True,
        log_dirs=list(request.log_dirs),
    )


def _check(
    image: MetadataImage,
    sessions: BrokerSessions,
    request: BrokerRegistrationRequest,
    before: BrokerImage | None,
    now_ms: int,
) -> None:
    if request.cluster_id != image.cluster_id:
        raise InconsistentClusterId(f"this is cluster {image.cluster_id}, not {request.cluster_id}")
    if (
        before is not None
        and before.incarnation_id != request.incarnation_id
        and sessions.is_live(before.broker_id, before.broker_epoch, now_ms)
    ):
        raise DuplicateBrokerRegistration(
            f"another process is registered as broker {before.broker_id}, and its session lasts"
        )
    if request.is_migrating_zk_broker:
        raise BrokerIdNotRegistered("brokers with ZooKeeper are not registered")
    if image.metadata_version >= DIRECTORIES_FROM:
        _check_directories(image, request)


def _check_directories(image: MetadataImage, request: BrokerRegistrationRequest) -> None:
    if not request.log_dirs:
        raise InvalidRegistration("no log directory is named")
    if len(set(request.log_dirs)) != len(request.log_dirs):
        raise InvalidRegistration("a log directory is named twice")
    for directory in request.log_dirs:
        if is_reserved(directory):
            raise InvalidRegistration(f"directory id {uuid_to_text(directory)} is reserved")
    for broker in image.brokers.values():
        if broker.broker_id != request.broker_id and not set(request.log_dirs).isdisjoint(
            broker.log_dirs
        ):
            raise InvalidRegistration(
                f"broker {broker.broker_id} is registered with one of the log directories"
            )


def _check_features(
    finalized: Mapping[str, int], features: Sequence[BrokerRegistrationFeature]
) -> None:
    """Each finalized level must be in the broker's range; 0 is the range of what it does not
    name."""
    ranges = {
        each.name: (each.min_supported_version, each.max_supported_version) for each in features
    }
    for name, (first, last) in ranges.items():
        _check_level(name, finalized.get(name, 0), first, last)
    if METADATA_VERSION_FEATURE not in ranges:
        raise InvalidRegistration(f"the broker does not name {METADATA_VERSION_FEATURE}")
    for name, level in finalized.items():
        if name not in ranges:
            _check_level(name, level, 0, 0)


def _check_level(name: str, level: int, first: int, last: int) -> None:
    if not first <= level <= last:
        raise UnsupportedVersion(
            f"{name} is finalized at {level}, and the broker supports {first} to {last}"
        )
