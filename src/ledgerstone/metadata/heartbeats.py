"""BrokerHeartbeat: what a broker wants, what it may have, and the records that make it so. Pure.

| the broker is | and asks for | it becomes |
|---|---|---|
| fenced | a shutdown | shut down |
| fenced | to be unfenced, its metadata at or after its registration | unfenced |
| fenced | the same, and names a directory that has failed since | fenced until it asks again |
| unfenced | to be fenced, or with it a shutdown | fenced, shut down |
| unfenced | a shutdown, and leads something; or leads nothing | in controlled shutdown; shut down |
| in controlled shutdown | anything, while it leads or an active broker is behind | the same |
| in controlled shutdown | anything after that | shut down |
"""

import enum
from collections.abc import Sequence

from ledgerstone.errors import KafkaError, StaleBrokerEpoch
from ledgerstone.metadata.broker_sessions import BrokerSessions
from ledgerstone.metadata.decision import Decision
from ledgerstone.metadata.features import CORDONED_DIRECTORIES_FROM, DIRECTORIES_FROM
from ledgerstone.metadata.image import BrokerImage, MetadataImage
from ledgerstone.metadata.partition_changes import (
    changes_for_controlled_shutdown,
    changes_for_fenced,
    changes_for_offline_directories,
    changes_for_unfenced,
)
from ledgerstone.metadata.partitions import Partitions
from ledgerstone.metadata.replay import FENCE, UNFENCE
from ledgerstone.protocol.message import MetadataRecord
from ledgerstone.protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from ledgerstone.protocol.messages.metadata_records import BrokerRegistrationChangeRecord


class BrokerControlState(enum.Enum):
    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    SHUTDOWN_NOW = "shut down"


def heartbeat(
    partitions: Partitions,
    sessions: BrokerSessions,
    request: BrokerHeartbeatRequest,
    *,
    now_ms: int,
    next_offset: int,
) -> Decision[BrokerHeartbeatResponse]:
    try:
        broker = _registered(partitions.image, request)
    except KafkaError as error:
        return Decision([], BrokerHeartbeatResponse(error_code=error.code))
    sessions.heartbeat(broker.broker_id, broker.broker_epoch, now_ms=now_ms, end_offset=next_offset)
    after = next_state(partitions, sessions, broker, request)
    if after is BrokerControlState.UNFENCED and broker.fenced and _failed(partitions, request):
        # Elections must know first what is gone. Its next heartbeat unfences it.
        after = BrokerControlState.FENCED
    records: list[MetadataRecord] = []
    match after:
        case BrokerControlState.FENCED | BrokerControlState.SHUTDOWN_NOW:
            records += fencing(partitions, broker)
        case BrokerControlState.UNFENCED:
            records += unfencing(partitions, broker)
        case BrokerControlState.CONTROLLED_SHUTDOWN:
            records += _leaving(partitions, broker)
            sessions.begin_shutdown(broker.broker_id, next_offset + len(records) - 1)
    records += _directories(partitions, broker, request)
    sessions.applied(broker.broker_id, request.current_metadata_offset)
    if after is BrokerControlState.SHUTDOWN_NOW:
        sessions.let_go(broker.broker_id)
    response = BrokerHeartbeatResponse(
        is_caught_up=_is_caught_up(sessions, request),
        is_fenced=after in (BrokerControlState.FENCED, BrokerControlState.SHUTDOWN_NOW),
        should_shut_down=after is BrokerControlState.SHUTDOWN_NOW,
    )
    return Decision(records, response, is_atomic=False)


def current_state(broker: BrokerImage, sessions: BrokerSessions) -> BrokerControlState:
    if broker.fenced:
        return BrokerControlState.FENCED
    if sessions.shutdown_offset(broker.broker_id) is not None:
        return BrokerControlState.CONTROLLED_SHUTDOWN
    return BrokerControlState.UNFENCED


def next_state(
    partitions: Partitions,
    sessions: BrokerSessions,
    broker: BrokerImage,
    request: BrokerHeartbeatRequest,
) -> BrokerControlState:
    state = current_state(broker, sessions)
    match state:
        case BrokerControlState.FENCED:
            if request.want_shut_down:
                return BrokerControlState.SHUTDOWN_NOW
            # Once it was let go it must register again: nobody may be elected on its way out.
            is_back = not request.want_fence and not broker.in_controlled_shutdown
            if is_back and _is_caught_up(sessions, request):
                return BrokerControlState.UNFENCED
        case BrokerControlState.UNFENCED:
            if request.want_fence:
                return (
                    BrokerControlState.SHUTDOWN_NOW
                    if request.want_shut_down
                    else BrokerControlState.FENCED
                )
            if request.want_shut_down:
                leads = partitions.leads_something(broker.broker_id)
                return (
                    BrokerControlState.CONTROLLED_SHUTDOWN
                    if leads
                    else BrokerControlState.SHUTDOWN_NOW
                )
        case BrokerControlState.CONTROLLED_SHUTDOWN:
            if _may_stop(partitions, sessions, broker.broker_id):
                return BrokerControlState.SHUTDOWN_NOW
    return state


def fencing(partitions: Partitions, broker: BrokerImage) -> list[MetadataRecord]:
    """First the partitions, then the broker: where the batches are cut, it is asked for again."""
    if broker.fenced:
        return []
    changes = changes_for_fenced(partitions, broker.broker_id)
    return [*changes, _change(broker, fenced=FENCE)]


def unfencing(partitions: Partitions, broker: BrokerImage) -> list[MetadataRecord]:
    if not broker.fenced:
        return []
    changes = changes_for_unfenced(partitions, broker.broker_id)
    return [_change(broker, fenced=UNFENCE), *changes]


def _leaving(partitions: Partitions, broker: BrokerImage) -> list[MetadataRecord]:
    """A broker in controlled shutdown is not elected any more, so this is written once; what it
    still leads after a cut is moved by its next heartbeat."""
    changes = changes_for_controlled_shutdown(partitions, broker.broker_id)
    if broker.in_controlled_shutdown:
        return changes
    return [_change(broker, in_controlled_shutdown=1), *changes]


def _directories(
    partitions: Partitions, broker: BrokerImage, request: BrokerHeartbeatRequest
) -> list[MetadataRecord]:
    """What the broker says of its log directories: those that failed, those closed to replicas."""
    level = partitions.image.metadata_version
    records: list[MetadataRecord] = []
    if offline := _failed(partitions, request):
        online = [each for each in broker.log_dirs if each not in offline]
        records += changes_for_offline_directories(partitions, broker.broker_id, offline)
        records.append(_change(broker, log_dirs=online))
    cordoned = request.cordoned_log_dirs
    if cordoned is not None and level >= CORDONED_DIRECTORIES_FROM:
        known = broker.cordoned_log_dirs
        if known is None or set(known) != set(cordoned):
            records.append(_change(broker, cordoned_log_dirs=list(cordoned)))
    return records


def _failed(partitions: Partitions, request: BrokerHeartbeatRequest) -> list[bytes]:
    """Directories that count as online until now."""
    if partitions.image.metadata_version < DIRECTORIES_FROM:
        return []
    log_dirs = partitions.image.brokers[request.broker_id].log_dirs
    return [each for each in log_dirs if each in request.offline_log_dirs]


def _change(
    broker: BrokerImage,
    *,
    fenced: int = 0,
    in_controlled_shutdown: int = 0,
    log_dirs: Sequence[bytes] = (),
    cordoned_log_dirs: list[bytes] | None = None,
) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(
        broker_id=broker.broker_id,
        broker_epoch=broker.broker_epoch,
        fenced=fenced,
        in_controlled_shutdown=in_controlled_shutdown,
        log_dirs=list(log_dirs),
        cordoned_log_dirs=cordoned_log_dirs,
    )


def _may_stop(partitions: Partitions, sessions: BrokerSessions, broker_id: int) -> bool:
    """Once its leaders have moved, and every active broker knows that."""
    if partitions.leads_something(broker_id):
        return False
    offset, lowest = sessions.shutdown_offset(broker_id), sessions.lowest_offset(partitions.image)
    return offset is None or lowest is None or offset <= lowest


def _is_caught_up(sessions: BrokerSessions, request: BrokerHeartbeatRequest) -> bool:
    return request.current_metadata_offset >= sessions.registration_offset(request.broker_id)


def _registered(image: MetadataImage, request: BrokerHeartbeatRequest) -> BrokerImage:
    broker = image.brokers.get(request.broker_id)
    if broker is None:
        raise StaleBrokerEpoch(f"broker {request.broker_id} is not registered")
    if broker.broker_epoch != request.broker_epoch:
        raise StaleBrokerEpoch(
            f"broker {broker.broker_id} is registered with epoch {broker.broker_epoch}, "
            f"not {request.broker_epoch}"
        )
    return broker
