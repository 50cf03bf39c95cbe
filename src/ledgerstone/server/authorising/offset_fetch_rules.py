"""What OffsetFetch shows to whom: DESCRIBE on the group, then DESCRIBE on each topic. Grade D,
through the handler.

Where all offsets of a group were asked for, topics that may not be described are left out.
"""

from typing import Final

from ledgerstone.protocol.message import replace
from ledgerstone.protocol.messages.offset_fetch import (
    OffsetFetchGroupPartition,
    OffsetFetchPartition,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestGroupTopic,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponseGroupTopic,
    OffsetFetchResponseTopic,
)
from ledgerstone.security.acl import AclOperation
from ledgerstone.server.authorising.call import GuardedCall
from ledgerstone.server.authorising.group_rules import GROUP_DENIED
from ledgerstone.server.authorising.topic_rules import TOPIC_DENIED
from ledgerstone.server.request import Answer

_FIRST_VERSION_WITH_GROUPS: Final = 8
_FIRST_VERSION_WITH_ERROR: Final = 2


def offset_fetch(call: GuardedCall) -> Answer:
    if call.version >= _FIRST_VERSION_WITH_GROUPS:
        return _groups(call, call.message)
    return _one_group(call, call.message)


# -- several groups ---------------------------------------------------------------------------


def _groups(call: GuardedCall, message: OffsetFetchRequest) -> Answer:
    asked: list[OffsetFetchRequestGroup] = []
    denied: list[OffsetFetchResponseGroup] = []
    # Topics to be added to what a group says, refused.
    hidden: dict[str, list[OffsetFetchResponseGroupTopic]] = {}
    for group in {each.group_id: each for each in message.groups}.values():
        if not call.may_on_group(AclOperation.DESCRIBE, group.group_id):
            denied.append(OffsetFetchResponseGroup(group.group_id, error_code=GROUP_DENIED))
            continue
        topics = group.topics
        if topics is not None:
            topics, refused = call.split(topics, AclOperation.DESCRIBE, lambda each: each.name)
            hidden[group.group_id] = [_refused(each) for each in refused]
        asked.append(replace(group, topics=topics))

    def finish(response: OffsetFetchResponse) -> OffsetFetchResponse:
        for group in response.groups:
            if group.error_code:
                continue
            if group.group_id in hidden:
                group.topics += hidden[group.group_id]
            else:
                group.topics = [each for each in group.topics if call.sees_topic(each.name)]
        response.groups += denied
        return response

    if not asked:
        return OffsetFetchResponse(groups=denied)
    return call.pass_on(replace(message, groups=asked), finish)


def _refused(topic: OffsetFetchRequestGroupTopic) -> OffsetFetchResponseGroupTopic:
    return OffsetFetchResponseGroupTopic(
        name=topic.name,
        partitions=[
            OffsetFetchGroupPartition(each, -1, -1, "", TOPIC_DENIED)
            for each in topic.partition_indexes
        ],
    )


# -- older versions ---------------------------------------------------------------------------


def _one_group(call: GuardedCall, message: OffsetFetchRequest) -> Answer:
    if not call.may_on_group(AclOperation.DESCRIBE, message.group_id):
        return _group_refused(call, message)
    if message.topics is None:
        return call.pass_on(finish=lambda response: _without_hidden(call, response))
    allowed, refused = call.split(message.topics, AclOperation.DESCRIBE, lambda each: each.name)
    hidden = [_refused_topic(each, TOPIC_DENIED) for each in refused]
    if not hidden:
        return call.pass_on()

    def finish(response: OffsetFetchResponse) -> OffsetFetchResponse:
        if not response.error_code:
            response.topics += hidden
        return response

    return call.pass_on(replace(message, topics=allowed), finish)


def _group_refused(call: GuardedCall, message: OffsetFetchRequest) -> OffsetFetchResponse:
    if call.version >= _FIRST_VERSION_WITH_ERROR:
        return OffsetFetchResponse(error_code=GROUP_DENIED)
    topics = [_refused_topic(each, GROUP_DENIED) for each in message.topics or ()]
    return OffsetFetchResponse(topics=topics)


def _without_hidden(call: GuardedCall, response: OffsetFetchResponse) -> OffsetFetchResponse:
    response.topics = [each for each in response.topics if call.sees_topic(each.name)]
    return response


def _refused_topic(topic: OffsetFetchRequestTopic, code: int) -> OffsetFetchResponseTopic:
    return OffsetFetchResponseTopic(
        topic.name,
        [OffsetFetchPartition(each, -1, -1, "", code) for each in topic.partition_indexes],
    )
