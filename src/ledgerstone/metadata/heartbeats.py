"""BrokerHeartbeat: what a broker wants, what it may have, and the records that make it so. Pure.

| the broker is | and asks for | it becomes |
|---|---|---|
| fenced | a shutdown | shut down |
| fenced | to be unfenced, its metadata at or after its registration | unfenced |
| unfenced | to be fenced, or with it a shutdown | fenced, shut down |
| unfenced | a shutdown, and leads something; or leads nothing | in controlled shutdown; shut down |
| in controlled shutdown | anything, while it leads or an active broker is behind | the same |
| in controlled shutdown | anything after that | shut down |
"""

import enum

from ledgerstone.errors import KafkaError, StaleBrokerEpoch
from ledgerstone.metadata.broker_sessions import BrokerSessions
from ledgerstone.metadata.decision import Decision
from ledgerstone.metadata.image import BrokerImage, MetadataImage
from ledgerstone.metadata.replay import FENCE, UNFENCE
from ledgerstone.protocol.message import MetadataRecord
from ledgerstone.protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from ledgerstone.protocol.messages.metadata_records import BrokerRegistrationChangeRecord


class BrokerState(enum.Enum):
    FENCED = "fenced"
    UNFENCED = "unfenced"
    CONTROLLED_SHUTDOWN = "controlled shutdown"
    SHUTDOWN_NOW = "shut down"


def heartbeat(
    image: MetadataImage,
    sessions: BrokerSessions,
    request: BrokerHeartbeatRequest,
    *,
    now_ms: int,
    next_offset: int,
) -> Decision[BrokerHeartbeatResponse]:
    try:
        broker = _registered(image, request)
    except KafkaError as error:
        return Decision([], BrokerHeartbeatResponse(error_code=error.code))
    sessions.heartbeat(broker.broker_id, broker.broker_epoch, now_ms=now_ms, end_offset=next_offset)
    state = current_state(broker, sessions)
    after = next_state(image, sessions, broker, request)
    records: list[MetadataRecord] = []
    match after:
        case BrokerState.FENCED | BrokerState.SHUTDOWN_NOW:
            records += fencing(image, broker)
            sessions.fenced(broker.broker_id)
        case BrokerState.UNFENCED if state is not after:
            records += unfencing(image, broker)
        case BrokerState.CONTROLLED_SHUTDOWN if state is not after:
            records += _leaving(image, broker)
            sessions.begin_shutdown(broker.broker_id, next_offset + len(records) - 1)
    sessions.applied(broker.broker_id, request.current_metadata_offset)
    response = BrokerHeartbeatResponse(
        is_caught_up=_is_caught_up(sessions, request),
        is_fenced=after in (BrokerState.FENCED, BrokerState.SHUTDOWN_NOW),
        should_shut_down=after is BrokerState.SHUTDOWN_NOW,
    )
    return Decision(records, response, is_atomic=False)


def current_state(broker: BrokerImage, sessions: BrokerSessions) -> BrokerState:
    if broker.fenced:
        return BrokerState.FENCED
    if sessions.shutdown_offset(broker.broker_id) is not None:
        return BrokerState.CONTROLLED_SHUTDOWN
    return BrokerState.UNFENCED


def next_state(
    image: MetadataImage,
    sessions: BrokerSessions,
    broker: BrokerImage,
    request: BrokerHeartbeatRequest,
) -> BrokerState:
    state = current_state(broker, sessions)
    match state:
        case BrokerState.FENCED:
            if request.want_shut_down:
                return BrokerState.SHUTDOWN_NOW
            if not request.want_fence and _is_caught_up(sessions, request):
                return BrokerState.UNFENCED
        case BrokerState.UNFENCED:
            if request.want_fence:
                return BrokerState.SHUTDOWN_NOW if request.want_shut_down else BrokerState.FENCED
            if request.want_shut_down:
                leads = _leads_something(image, broker.broker_id)
                return BrokerState.CONTROLLED_SHUTDOWN if leads else BrokerState.SHUTDOWN_NOW
        case BrokerState.CONTROLLED_SHUTDOWN:
            if _may_stop(image, sessions, broker.broker_id):
                return BrokerState.SHUTDOWN_NOW
    return state


def fencing(image: MetadataImage, broker: BrokerImage) -> list[MetadataRecord]:
    """First the partitions, while the broker is still shown as it was; then the broker."""
    if broker.fenced:
        return []
    return [
        BrokerRegistrationChangeRecord(
            broker_id=broker.broker_id, broker_epoch=broker.broker_epoch, fenced=FENCE
        ),
    ]


def unfencing(image: MetadataImage, broker: BrokerImage) -> list[MetadataRecord]:
    if not broker.fenced:
        return []
    return [
        BrokerRegistrationChangeRecord(
            broker_id=broker.broker_id, broker_epoch=broker.broker_epoch, fenced=UNFENCE
        ),
    ]


def _leaving(image: MetadataImage, broker: BrokerImage) -> list[MetadataRecord]:
    if broker.in_controlled_shutdown:
        return []
    return [
        BrokerRegistrationChangeRecord(
            broker_id=broker.broker_id,
            broker_epoch=broker.broker_epoch,
            in_controlled_shutdown=1,
        )
    ]


def _may_stop(image: MetadataImage, sessions: BrokerSessions, broker_id: int) -> bool:
    """Once its leaders have moved, and every active broker knows that."""
    if _leads_something(image, broker_id):
        return False
    offset, lowest = sessions.shutdown_offset(broker_id), sessions.lowest_offset(image)
    return offset is None or lowest is None or offset <= lowest


def _leads_something(image: MetadataImage, broker_id: int) -> bool:
    return any(
        partition.leader == broker_id
        for topic in image.topics.values()
        for partition in topic.partitions.values()
    )


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
