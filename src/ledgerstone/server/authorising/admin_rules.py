"""Rules about topics as a whole, and about settings. Grade D, through the handlers.

What is wrong with a request in itself, such as a topic that it names twice, comes first, as in
Kafka. After that nothing is said about a topic that may not be described.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final, Protocol

from ledgerstone.metadata.image import ResourceType
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ZERO_UUID, ApiMessage, replace
from ledgerstone.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsResult,
)
from ledgerstone.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    CreateTopicsResponseTopic,
)
from ledgerstone.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicsResult,
    DeleteTopicsTopic,
)
from ledgerstone.security.acl import CLUSTER_NAME, AclOperation, AclResourceType
from ledgerstone.server.authorising.call import GuardedCall, Rule
from ledgerstone.server.authorising.topic_rules import TOPIC_DENIED
from ledgerstone.server.request import Answer

_REASON: Final = "Topic authorization failed."

# -- topics -----------------------------------------------------------------------------------


def create_topics(call: GuardedCall) -> Answer:
    """CREATE on the cluster or on the topic; what a topic was made with needs DESCRIBE_CONFIGS."""
    message: CreateTopicsRequest = call.message
    create = AclOperation.CREATE
    times = Counter(each.name for each in message.topics)
    refused: dict[str, None] = {}
    if not call.sees_on_cluster(create):
        refused = {
            name: None
            for name, count in times.items()
            if count == 1 and not call.may_on_topic(create, name)
        }
    answers = [
        CreateTopicsResponseTopic(name, error_code=TOPIC_DENIED, error_message=_REASON, configs=[])
        for name in refused
    ]
    rest = replace(message, topics=[each for each in message.topics if each.name not in refused])
    if message.topics and not rest.topics:
        return CreateTopicsResponse(topics=answers)

    def finish(response: CreateTopicsResponse) -> CreateTopicsResponse:
        for topic in response.topics:
            if not topic.error_code and not call.sees(
                AclOperation.DESCRIBE_CONFIGS, AclResourceType.TOPIC, topic.name
            ):
                topic.topic_config_error_code = TOPIC_DENIED
                topic.num_partitions = topic.replication_factor = -1
                topic.configs = []
        response.topics += answers
        return response

    return call.pass_on(rest, finish)


def delete_topics(call: GuardedCall) -> Answer:
    """DELETE on the cluster, or DESCRIBE and DELETE on the topic."""
    if call.sees_on_cluster(AclOperation.DELETE) or not call.broker.config.delete_topic_enable:
        return call.pass_on()
    message: DeleteTopicsRequest = call.message
    # As the handler counts them: what is let pass as repeated must be refused there as such.
    wanted = [*message.topics, *(DeleteTopicsTopic(each) for each in message.topic_names)]
    times = Counter((each.name, each.topic_id) for each in wanted)
    answers: list[DeleteTopicsResult] = []

    def is_refused(topic: DeleteTopicsTopic) -> bool:
        is_misnamed = (topic.name is None) == (topic.topic_id == ZERO_UUID)
        if is_misnamed or times[topic.name, topic.topic_id] > 1:
            return False  # the handler says what is wrong
        answer = _not_deletable(call, topic)
        if answer is not None:
            answers.append(answer)
        return answer is not None

    rest = replace(
        message,
        topics=[each for each in message.topics if not is_refused(each)],
        topic_names=[
            each for each in message.topic_names if not is_refused(DeleteTopicsTopic(each))
        ],
    )
    if answers and not rest.topics and not rest.topic_names:
        return DeleteTopicsResponse(responses=answers)

    def finish(response: DeleteTopicsResponse) -> DeleteTopicsResponse:
        response.responses += answers
        return response

    return call.pass_on(rest, finish)


def _not_deletable(call: GuardedCall, topic: DeleteTopicsTopic) -> DeleteTopicsResult | None:
    """None: the topic may be deleted, or may be known not to exist."""
    image = call.broker.image
    name = topic.name if topic.name is not None else image.topic_names.get(topic.topic_id)
    if name is None:
        return None
    is_described = call.may_on_topic(AclOperation.DESCRIBE, name)
    if is_described and (name not in image.topics or call.may_on_topic(AclOperation.DELETE, name)):
        return None
    # Who gave an id and may not describe the topic does not learn its name.
    shown = name if topic.name is not None or is_described else None
    return DeleteTopicsResult(shown, topic.topic_id, TOPIC_DENIED, _REASON)


def create_partitions(call: GuardedCall) -> Answer:
    message: CreatePartitionsRequest = call.message
    times = Counter(each.name for each in message.topics)
    refused = {
        name: None
        for name, count in times.items()
        if count == 1 and not call.may_on_topic(AclOperation.ALTER, name)
    }
    answers = [CreatePartitionsResult(name, TOPIC_DENIED, _REASON) for name in refused]
    if not answers:
        return call.pass_on()
    rest = [each for each in message.topics if each.name not in refused]
    if not rest:
        return CreatePartitionsResponse(results=answers)

    def finish(response: CreatePartitionsResponse) -> CreatePartitionsResponse:
        response.results += answers
        return response

    return call.pass_on(replace(message, topics=rest), finish)


# -- settings ---------------------------------------------------------------------------------

# Whose right a setting is, and the code without it.
_OWNERS: Final[Mapping[int, tuple[AclResourceType, ErrorCode]]] = {
    ResourceType.TOPIC: (AclResourceType.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ResourceType.GROUP: (AclResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
    **dict.fromkeys(
        (ResourceType.BROKER, ResourceType.BROKER_LOGGER, ResourceType.CLIENT_METRICS),
        (AclResourceType.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    ),
}


def each_resource_needs(
    operation: AclOperation,
    answer_of: type[Any],
    result_of: type[Any],
    results: str,
    *,
    refuses_repeated: bool,
) -> Rule:
    """For requests with `resources`. `result_of` makes a code, a reason, a type and a name; they
    stand in `results` of the answer. `refuses_repeated`: the handler says what is wrong with one
    that is named twice; else it answers once, and so does this."""

    def rule(call: GuardedCall) -> Answer:
        resources = call.message.resources
        if not refuses_repeated:
            resources = {_key(each): each for each in resources}.values()
        times = Counter(map(_key, resources))
        allowed, answers = [], []
        for each in resources:
            code = _code(call, operation, each) if times[_key(each)] == 1 else 0
            if code:
                answers.append(result_of(code, "", *_key(each)))
            else:
                allowed.append(each)
        if not answers:
            return call.pass_on()
        if not allowed:
            whole: ApiMessage = answer_of(**{results: answers})
            return whole

        def finish(response: ApiMessage) -> ApiMessage:
            getattr(response, results).extend(answers)
            return response

        return call.pass_on(replace(call.message, resources=allowed), finish)

    return rule


class OwnerOfSettings(Protocol):
    resource_type: int
    resource_name: str


def _key(resource: OwnerOfSettings) -> tuple[int, str]:
    return resource.resource_type, resource.resource_name


def _code(call: GuardedCall, operation: AclOperation, resource: OwnerOfSettings) -> int:
    owner = _OWNERS.get(resource.resource_type)
    if owner is None:
        return 0  # the handler says what is wrong
    resource_type, code = owner
    is_cluster = resource_type == AclResourceType.CLUSTER
    name = CLUSTER_NAME if is_cluster else resource.resource_name
    return 0 if call.may(operation, resource_type, name) else code
