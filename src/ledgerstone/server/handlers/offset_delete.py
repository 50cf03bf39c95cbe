"""OffsetDelete (47). Grade D.

Behaviour: removes committed offsets of topics nobody is subscribed to. A partition that does not
exist is UNKNOWN_TOPIC_OR_PARTITION, as in Kafka; what is wrong with the group comes before.
The rules are the coordinator's: coordinator/README.md.
Versions: 0.
"""

from functools import partial

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage, replace
from ledgerstone.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from ledgerstone.server.broker import Broker
from ledgerstone.server.handlers.known_partitions import add_answered, split_partitions
from ledgerstone.server.request import Answer, Request


def handle(broker: Broker, request: Request, message: OffsetDeleteRequest) -> Answer:
    known, response = _split(broker, message.topics)
    asked = replace(message, topics=known)
    return broker.groups.ask(
        request,
        message.group_id,
        lambda shard, context, now: shard.handle_offset_delete(asked, context, now),
        finish=partial(_merged, response),
    )


def _merged(response: OffsetDeleteResponse, answer: ApiMessage) -> OffsetDeleteResponse:
    assert isinstance(answer, OffsetDeleteResponse)
    if answer.error_code:
        return answer
    add_answered(response.topics, answer.topics)
    return response


def _split(
    broker: Broker, topics: list[OffsetDeleteRequestTopic]
) -> tuple[list[OffsetDeleteRequestTopic], OffsetDeleteResponse]:
    """What the group is asked about, and the answer to the rest."""
    known, missing = split_partitions(broker.image, topics)
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    refused = [
        OffsetDeleteResponseTopic(
            name, partitions=[OffsetDeleteResponsePartition(each, code) for each in numbers]
        )
        for name, numbers in missing
    ]
    asked = [replace(topic, partitions=there) for topic, there in known]
    return asked, OffsetDeleteResponse(topics=refused)
