"""What Produce asks for: WRITE on the transactional id of a transactional batch, then WRITE on each
topic. Grade D, through the handler.

An idempotent producer needs no more than that; its id was given to it by InitProducerId.
"""

from typing import Final

from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import replace
from ledgerstone.protocol.messages.produce import (
    ProducePartitionResponse,
    ProduceRequest,
    ProduceResponse,
    ProduceTopicData,
    ProduceTopicResponse,
)
from ledgerstone.protocol.single_produce import SingleProduce
from ledgerstone.records.batch import is_transactional_batch
from ledgerstone.security.acl import AclOperation
from ledgerstone.server.authorising.call import GuardedCall
from ledgerstone.server.authorising.topic_rules import TOPIC_DENIED
from ledgerstone.server.handlers.produce import as_request, transactional
from ledgerstone.server.handlers.produce_answers import refused_whole
from ledgerstone.server.request import Answer, Disconnect

_FIRST_VERSION_WITH_TOPIC_IDS: Final = 13


def produce(call: GuardedCall) -> Answer:
    message = call.message
    if type(message) is SingleProduce:
        name = call.broker.topic_name(message.topic_id) if message.topic_id else message.topic
        is_allowed = name is None or call.may_on_topic(AclOperation.WRITE, name)
        if is_allowed and not is_transactional_batch(message.records):
            return call.pass_on()
        message = as_request(message)
    assert isinstance(message, ProduceRequest)
    if any(transactional(message)) and not _may_use_transactional_id(call, message):
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return refused_whole(call.broker, call.request, message, code)
    allowed: list[ProduceTopicData] = []
    refused: list[ProduceTopicData] = []
    for topic in message.topic_data:
        (allowed if _may_write(call, topic) else refused).append(topic)
    if not refused:
        return call.pass_on(message)
    answers = [_refused(topic) for topic in refused]
    if message.acks == 0:
        if allowed:
            call.pass_on(replace(message, topic_data=allowed))
        # There is no other way to tell.
        raise Disconnect(f"acks=0, and {len(refused)} topics may not be written to")
    if not allowed:
        return ProduceResponse(responses=answers)

    def finish(response: ProduceResponse) -> ProduceResponse:
        response.responses += answers
        return response

    return call.pass_on(replace(message, topic_data=allowed), finish)


def _may_use_transactional_id(call: GuardedCall, message: ProduceRequest) -> bool:
    name = message.transactional_id
    return name is not None and call.may_on_transactions_of(AclOperation.WRITE, name)


def _may_write(call: GuardedCall, topic: ProduceTopicData) -> bool:
    name: str | None = topic.name
    if call.version >= _FIRST_VERSION_WITH_TOPIC_IDS:
        name = call.broker.topic_name(topic.topic_id)
    # An id that nobody has is unknown to everybody.
    return name is None or call.may_on_topic(AclOperation.WRITE, name)


def _refused(topic: ProduceTopicData) -> ProduceTopicResponse:
    return ProduceTopicResponse(
        name=topic.name,
        topic_id=topic.topic_id,
        partition_responses=[
            ProducePartitionResponse(each.index, TOPIC_DENIED, base_offset=-1)
            for each in topic.partition_data
        ],
    )
