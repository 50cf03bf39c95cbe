"""Rules about groups and their offsets. Grade D, through the handlers.

The right on the group comes first, and its code is for the whole request; then each topic whose
offsets it is about.
"""

from collections.abc import Callable
from typing import Any, Final, TypeVar

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage, replace
from ledgerstone.protocol.messages.delete_groups import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DeleteGroupsResult,
)
from ledgerstone.protocol.messages.describe_groups import (
    DescribeGroupsGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from ledgerstone.protocol.messages.find_coordinator import (
    FindCoordinatorCoordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ledgerstone.protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ledgerstone.protocol.messages.offset_delete import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from ledgerstone.security.acl import AclOperation, AclResourceType
from ledgerstone.server.authorising.call import GuardedCall, Rule
from ledgerstone.server.authorising.cluster_rules import open_to_all
from ledgerstone.server.authorising.topic_rules import TOPIC_DENIED
from ledgerstone.server.groups.no_coordinator import refusal_of
from ledgerstone.server.handlers.known_partitions import TopicOfOffsets, add_answered
from ledgerstone.server.request import Answer

T = TypeVar("T")

GROUP_DENIED: Final = ErrorCode.GROUP_AUTHORIZATION_FAILED
TRANSACTIONS_DENIED: Final = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
_GROUPS, _TRANSACTIONS, _SHARE = range(3)
_FIRST_VERSION_WITH_KEYS: Final = 4


def group_needs(operation: AclOperation, rest: Rule = open_to_all) -> Rule:
    def rule(call: GuardedCall) -> Answer:
        if call.may_on_group(operation, call.message.group_id):
            return rest(call)
        answer = refusal_of(call.message, GROUP_DENIED, call.version)
        assert answer is not None, call.message
        return answer

    return rule


def each_topic_of_offsets_needs(
    operation: AclOperation,
    answer_of: type[Any],
    topic_of: type[Any],
    partition_of: Callable[[int, int], Any],
    *,
    asks_with_none: bool = False,
) -> Rule:
    """`asks_with_none`: the group is asked though no topic is left, for what it says of itself."""

    def rule(call: GuardedCall) -> Answer:
        allowed, refused = call.split(call.message.topics, operation, lambda each: each.name)
        if not refused:
            return call.pass_on()
        answers = [_refused(each, topic_of, partition_of) for each in refused]
        if not allowed and not asks_with_none:
            whole: ApiMessage = answer_of(topics=answers)
            return whole

        def finish(response: ApiMessage) -> ApiMessage:
            if not getattr(response, "error_code", 0):
                add_answered(response.topics, answers)  # type: ignore[attr-defined]
            return response

        return call.pass_on(replace(call.message, topics=allowed), finish)

    return rule


def _refused(
    topic: TopicOfOffsets, topic_of: type[T], partition_of: Callable[[int, int], Any]
) -> T:
    partitions = [partition_of(each.partition_index, TOPIC_DENIED) for each in topic.partitions]
    return topic_of(name=topic.name, partitions=partitions)  # type: ignore[call-arg]


OFFSET_COMMIT: Final = group_needs(
    AclOperation.READ,
    each_topic_of_offsets_needs(
        AclOperation.READ,
        OffsetCommitResponse,
        OffsetCommitResponseTopic,
        OffsetCommitResponsePartition,
    ),
)
OFFSET_DELETE: Final = group_needs(
    AclOperation.DELETE,
    each_topic_of_offsets_needs(
        AclOperation.READ,
        OffsetDeleteResponse,
        OffsetDeleteResponseTopic,
        OffsetDeleteResponsePartition,
        asks_with_none=True,
    ),
)


def find_coordinator(call: GuardedCall) -> Answer:
    message: FindCoordinatorRequest = call.message
    if call.version < _FIRST_VERSION_WITH_KEYS:
        code = _coordinator_code(call, message.key)
        if not code:
            return call.pass_on()
        words = ErrorCode(code).name
        return FindCoordinatorResponse(
            error_code=code, error_message=words, node_id=-1, host="", port=-1
        )
    codes = {key: _coordinator_code(call, key) for key in message.coordinator_keys}
    if not any(codes.values()):
        return call.pass_on()
    rest = replace(
        message, coordinator_keys=[each for each in message.coordinator_keys if not codes[each]]
    )

    def finish(response: FindCoordinatorResponse) -> FindCoordinatorResponse:
        found = iter(response.coordinators)
        response.coordinators = [
            FindCoordinatorCoordinator(key, -1, "", -1, codes[key], "")
            if codes[key]
            else next(found)
            for key in message.coordinator_keys
        ]
        return response

    return call.pass_on(rest, finish)


def _coordinator_code(call: GuardedCall, key: str) -> int:
    describe, key_type = AclOperation.DESCRIBE, call.message.key_type
    if key_type == _GROUPS and not call.may_on_group(describe, key):
        return GROUP_DENIED
    if key_type == _TRANSACTIONS and not call.may_on_transactions_of(describe, key):
        return TRANSACTIONS_DENIED
    if key_type == _SHARE and not call.may_on_cluster(AclOperation.CLUSTER_ACTION):
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return 0


def describe_groups(call: GuardedCall) -> Answer:
    message: DescribeGroupsRequest = call.message
    describe = AclOperation.DESCRIBE
    refused = {
        each: None
        for each in dict.fromkeys(message.groups)
        if not call.may_on_group(describe, each)
    }

    def finish(response: DescribeGroupsResponse) -> DescribeGroupsResponse:
        if message.include_authorized_operations:
            for group in response.groups:
                if not group.error_code:
                    group.authorized_operations = call.rights.shown_bits(
                        AclResourceType.GROUP, group.group_id
                    )
        response.groups += [DescribeGroupsGroup(GROUP_DENIED, group_id=each) for each in refused]
        return response

    rest = replace(message, groups=[each for each in message.groups if each not in refused])
    if not rest.groups:
        return finish(DescribeGroupsResponse())
    return call.pass_on(rest, finish)


def delete_groups(call: GuardedCall) -> Answer:
    message: DeleteGroupsRequest = call.message
    delete = AclOperation.DELETE
    refused = {
        each: None
        for each in dict.fromkeys(message.groups_names)
        if not call.may_on_group(delete, each)
    }
    if not refused:
        return call.pass_on()

    def finish(response: DeleteGroupsResponse) -> DeleteGroupsResponse:
        response.results += [DeleteGroupsResult(each, GROUP_DENIED) for each in refused]
        return response

    rest = [each for each in message.groups_names if each not in refused]
    if not rest:
        return finish(DeleteGroupsResponse())
    return call.pass_on(replace(message, groups_names=rest), finish)
