"""Metadata (3). Grade D, because it may create topics.

Behaviour: brokers, controller and topics with their partitions; null topics (an empty list in
version 0) means all. A topic that does not exist is created if the client and the broker allow it.
Versions: 0-13; by topic id from 10.
Brokers have the addresses of the listener that the client came in on; the controller is a live
broker, since admin requests are forwarded.
Differs from Kafka: where this node is the controller, a topic it creates is ready at once and
answered so. Elsewhere it is UNKNOWN_TOPIC_OR_PARTITION until the metadata has come, as in Kafka.
"""

from collections import Counter
from typing import Final

from ledgerstone.errors import InvalidTopic
from ledgerstone.metadata.image import PartitionImage, TopicImage
from ledgerstone.metadata.reachable import PartitionView, broker_for_admin, live_brokers
from ledgerstone.metadata.topic_names import INTERNAL_TOPICS, auto_creation, check_topic_name
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ZERO_UUID, ApiMessage
from ledgerstone.protocol.messages.create_topics import CreateTopicsResponse
from ledgerstone.protocol.messages.metadata import (
    MetadataBroker,
    MetadataPartition,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import ANSWERED_LATER, Answer, Request

# In the audit log, as for CreateTopics.
_KIND: Final = "topic.create"
_FIRST_VERSION_WITH_AUTO_CREATION_FLAG: Final = 4
_FIRST_VERSION_WITH_LISTENER_NOT_FOUND: Final = 6
_FIRST_VERSION_WITH_NULL_NAMES: Final = 12
# Bits are the codes of ACL operations. Nobody is refused anything yet, so everything is allowed:
# read, write, create, delete, alter, describe, describe and alter configs.
ALL_TOPIC_OPERATIONS: Final = sum(1 << code for code in (3, 4, 5, 6, 7, 8, 10, 11))
# Create, alter, describe, cluster action, describe and alter configs, idempotent write.
ALL_CLUSTER_OPERATIONS: Final = sum(1 << code for code in (5, 7, 8, 9, 10, 11, 12))


def handle(broker: Broker, request: Request, message: MetadataRequest) -> Answer:
    refusal = not_understood(request, message)
    if refusal is not None:
        return refusal
    missing = to_create(broker, request, message)
    if missing and broker.controller_link.forwards(request):
        _ask_elsewhere(broker, request, missing)
        missing = []
    if not missing:
        return _response(broker, request, message)
    try:
        is_written = _written_down(broker, request, missing)
    except OSError as error:
        broker.log_failed(None, error)
        return _response(broker, request, message)

    def created(answer: ApiMessage) -> None:
        if is_written and broker.auditor is not None:
            assert isinstance(answer, CreateTopicsResponse)
            codes = Counter(each.error_code for each in answer.topics)
            broker.auditor.answered(request, _KIND, codes)
        # Those that could not be created are answered as unknown.
        broker.answer(request, _response(broker, request, message))

    broker.controller_link.ask(auto_creation(missing, broker.config), created, client=request)
    return ANSWERED_LATER


def _ask_elsewhere(broker: Broker, request: Request, missing: list[str]) -> None:
    """As in Kafka nobody waits for it: there may be no controller for a while, and the topics that
    are there are led all the same. Who asks again meanwhile makes no second request of it."""
    under_way = broker.auto_creating
    wanted = [each for each in dict.fromkeys(missing) if each not in under_way]
    if not wanted:
        return
    under_way |= dict.fromkeys(wanted)

    def ended(answer: ApiMessage) -> None:
        for each in wanted:
            del under_way[each]

    broker.controller_link.ask(auto_creation(wanted, broker.config), ended, client=request)


def _written_down(broker: Broker, request: Request, missing: list[str]) -> bool:
    """In the audit log, before it is done: this node is the controller. One elsewhere is asked by a
    CreateTopics, which is written down there. OSError: nothing must be made."""
    if broker.auditor is None:
        return False
    possible = [each for each in missing if _can_be_topic(each)]
    if possible:
        broker.auditor.asked(request, _KIND, possible)
    return bool(possible)


def _can_be_topic(name: str) -> bool:
    try:
        check_topic_name(name)
    except InvalidTopic:
        return False
    return True


def _response(broker: Broker, request: Request, message: MetadataRequest) -> MetadataResponse:
    image, version = broker.image, request.api_version
    names_listener = version >= _FIRST_VERSION_WITH_LISTENER_NOT_FOUND
    listener = request.session.listener
    view = PartitionView(image, listener, names_listener=names_listener)
    if wants_all(request, message):
        topics = [_describe(view, request, topic) for topic in image.topics.values()]
    else:
        assert message.topics is not None
        # Each topic once, as in Kafka.
        distinct = {(each.topic_id, each.name): each for each in message.topics}
        topics = [_lookup(broker, view, request, each) for each in distinct.values()]
    response = MetadataResponse(
        brokers=[
            MetadataBroker(each.broker_id, endpoint.host, endpoint.port, rack=each.rack)
            for each, endpoint in live_brokers(image, listener)
        ],
        cluster_id=image.cluster_id,
        controller_id=broker_for_admin(
            image, listener, broker.controller_link.controller_id, broker.config.node_id
        ),
        topics=topics,
    )
    if message.include_topic_authorized_operations:
        for topic in topics:
            topic.topic_authorized_operations = ALL_TOPIC_OPERATIONS
    if message.include_cluster_authorized_operations:
        response.cluster_authorized_operations = ALL_CLUSTER_OPERATIONS
    return response


def not_understood(request: Request, message: MetadataRequest) -> MetadataResponse | None:
    """A null name needs an id, and ids count from version 12 on. Kafka then says nothing else."""
    asked = message.topics or []
    nameless = [each for each in asked if each.name is None]
    if request.api_version < _FIRST_VERSION_WITH_NULL_NAMES:
        code = ErrorCode.INVALID_REQUEST
        is_bad = bool(nameless) or any(each.topic_id != ZERO_UUID for each in asked)
    else:
        code = ErrorCode.UNKNOWN_SERVER_ERROR
        is_bad = any(each.topic_id == ZERO_UUID for each in nameless)
    if not is_bad:
        return None
    return MetadataResponse(
        error_code=code,
        topics=[MetadataResponseTopic(code, each.name or "", each.topic_id) for each in asked],
    )


def wants_all(request: Request, message: MetadataRequest) -> bool:
    return message.topics is None or (request.api_version == 0 and not message.topics)


def to_create(broker: Broker, request: Request, message: MetadataRequest) -> list[str]:
    """Topics that are asked for, do not exist, and may be created for the asking."""
    allowed = (
        message.allow_auto_topic_creation
        or request.api_version < _FIRST_VERSION_WITH_AUTO_CREATION_FLAG
    )
    if not allowed or not broker.config.auto_create_topics_enable:
        return []
    return [
        topic.name
        for topic in message.topics or ()
        # Who gives an id means a topic that is there: a name beside it is asked for nothing.
        if topic.name and topic.topic_id == ZERO_UUID and topic.name not in broker.image.topics
    ]


def _lookup(
    broker: Broker, view: PartitionView, request: Request, wanted: MetadataRequestTopic
) -> MetadataResponseTopic:
    image = broker.image
    if wanted.topic_id != ZERO_UUID:
        found = image.topic_by_id(wanted.topic_id)
        if found is None:
            error = ErrorCode.UNKNOWN_TOPIC_ID
            # Null only from version 12 on, and then only where the request had it.
            has_null_names = request.api_version >= _FIRST_VERSION_WITH_NULL_NAMES
            name = wanted.name if has_null_names else ""
            return MetadataResponseTopic(error, name, wanted.topic_id)
        return _describe(view, request, found)
    name = wanted.name or ""
    found = image.topics.get(name)
    if found is not None:
        return _describe(view, request, found)
    if not _can_be_topic(name):
        return MetadataResponseTopic(ErrorCode.INVALID_TOPIC_EXCEPTION, name)
    return MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name)


def _describe(view: PartitionView, request: Request, topic: TopicImage) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[
            _partition(view, request.api_version, number, state)
            for number, state in topic.partitions.items()
        ],
    )


def _partition(
    view: PartitionView, version: int, number: int, state: PartitionImage
) -> MetadataPartition:
    leader, error = view.leader_and_error(state)
    offline = view.offline_replicas(state)
    replicas, isr = list(state.replicas), list(state.isr)
    if version == 0 and offline:
        # Clients of this version cannot be told of replicas that they cannot reach.
        replicas = [each for each in replicas if each not in offline]
        isr = [each for each in isr if each not in offline]
        error = error or ErrorCode.REPLICA_NOT_AVAILABLE
    # By position: an answer may have thousands.
    return MetadataPartition(error, number, leader, state.leader_epoch, replicas, isr, offline)
