"""What Metadata and DescribeTopicPartitions show to whom. Grade D, through the handlers.

Topics that may not be described are left out where all were asked for. Where one was named, it is
TOPIC_AUTHORIZATION_FAILED, whether it exists or not, without an id; where its id was given, without
its name. A topic that would be made for the asking needs CREATE.
"""

from typing import Final

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ZERO_UUID, replace
from ledgerstone.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsRequestTopic,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
)
from ledgerstone.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from ledgerstone.security.acl import AclOperation, AclResourceType
from ledgerstone.server.authorising.call import GuardedCall
from ledgerstone.server.authorising.cluster_rules import cluster_bits
from ledgerstone.server.authorising.topic_rules import TOPIC_DENIED
from ledgerstone.server.handlers.metadata import not_understood, to_create, wants_all
from ledgerstone.server.request import Answer

# Versions that have a null name for a topic that was asked for by its id.
_FIRST_VERSION_WITH_NULL_NAMES: Final = 12


def metadata(call: GuardedCall) -> Answer:
    message: MetadataRequest = call.message
    if not_understood(call.request, message) is not None:
        return call.pass_on()
    if wants_all(call.request, message):
        return call.pass_on(finish=lambda response: _shown(call, message, response, []))
    allowed, refused = [], []
    for topic in message.topics or ():
        name = _name_of(call, topic)
        if name is None or call.may_on_topic(AclOperation.DESCRIBE, name):
            allowed.append(topic)
        else:
            refused.append(_refused(call, topic))
    rest = replace(message, topics=allowed)
    not_created = _not_to_create(call, rest)
    if not_created:
        rest = replace(rest, topics=[each for each in allowed if each.name not in not_created])
        refused += [MetadataResponseTopic(TOPIC_DENIED, name) for name in not_created]
    if not rest.topics and call.version == 0:
        # Here an empty list would mean all: somebody asks for a name that no topic can have.
        rest = replace(rest, topics=[MetadataRequestTopic(name="")])
        return call.pass_on(rest, lambda response: _nothing_but(call, message, response, refused))
    return call.pass_on(rest, lambda response: _shown(call, message, response, refused))


def _name_of(call: GuardedCall, topic: MetadataRequestTopic) -> str | None:
    """None for an id that nobody has: it is unknown to everybody."""
    return topic.name if topic.topic_id == ZERO_UUID else call.broker.topic_name(topic.topic_id)


def _refused(call: GuardedCall, topic: MetadataRequestTopic) -> MetadataResponseTopic:
    name: str | None = topic.name
    if topic.topic_id != ZERO_UUID:
        name = None if call.version >= _FIRST_VERSION_WITH_NULL_NAMES else ""
    return MetadataResponseTopic(TOPIC_DENIED, name, topic.topic_id)


def _not_to_create(call: GuardedCall, message: MetadataRequest) -> dict[str, None]:
    """Topics that do not exist, would be created, and may not be."""
    missing = to_create(call.broker, call.request, message)
    create = AclOperation.CREATE
    if not missing or call.sees_on_cluster(create):
        return {}
    return {name: None for name in missing if not call.may_on_topic(create, name)}


def _shown(
    call: GuardedCall,
    message: MetadataRequest,
    response: MetadataResponse,
    refused: list[MetadataResponseTopic],
) -> MetadataResponse:
    if wants_all(call.request, message):
        response.topics = [each for each in response.topics if call.sees_topic(each.name or "")]
    if message.include_topic_authorized_operations:
        for topic in response.topics:
            if topic.name is not None:
                topic.topic_authorized_operations = call.rights.shown_bits(
                    AclResourceType.TOPIC, topic.name
                )
    if message.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_bits(call)
    response.topics += refused
    return response


def _nothing_but(
    call: GuardedCall,
    message: MetadataRequest,
    response: MetadataResponse,
    refused: list[MetadataResponseTopic],
) -> MetadataResponse:
    response.topics = []
    return _shown(call, message, response, refused)


def describe_topic_partitions(call: GuardedCall) -> Answer:
    message: DescribeTopicPartitionsRequest = call.message
    if message.cursor is not None and message.cursor.partition_index < 0:
        return call.pass_on()
    names = dict.fromkeys(each.name for each in message.topics)
    describe = AclOperation.DESCRIBE
    refused = sorted(each for each in names if not call.may_on_topic(describe, each))
    allowed = [each for each in names or call.broker.image.topics if call.sees_topic(each)]
    answers = [
        DescribeTopicPartitionsResponseTopic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, each)
        for each in refused
        if message.cursor is None or each >= message.cursor.topic_name
    ]
    if not allowed:
        # An empty list would mean all.
        return DescribeTopicPartitionsResponse(topics=answers)

    def finish(response: DescribeTopicPartitionsResponse) -> DescribeTopicPartitionsResponse:
        for topic in response.topics:
            topic.topic_authorized_operations = call.rights.shown_bits(
                AclResourceType.TOPIC, topic.name or ""
            )
        response.topics += answers
        return response

    topics = [DescribeTopicPartitionsRequestTopic(each) for each in allowed]
    return call.pass_on(replace(message, topics=topics), finish)
