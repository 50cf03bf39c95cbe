"""TxnOffsetCommit (28). Grade D.

Behaviour: offsets that count once the transaction of their producer is committed. A partition that
does not exist is UNKNOWN_TOPIC_OR_PARTITION, and the others of the request are committed. The
transaction's coordinator is asked first whether the group's partition of `__consumer_offsets`
belongs to it; version 5 has it added. Then the rules are those of coordinator/README.md.
Versions: 0-5. Up to 1, COORDINATOR_LOAD_IN_PROGRESS becomes COORDINATOR_NOT_AVAILABLE: those
clients do not know the former.
"""

from typing import Final

from ledgerstone.coordinator.txn_offset_requests import txn_commit_refused
from ledgerstone.metadata.topic_names import CONSUMER_OFFSETS
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage, replace
from ledgerstone.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ledgerstone.server.broker import Broker
from ledgerstone.server.groups.no_coordinator import NO_COORDINATOR
from ledgerstone.server.handlers.known_partitions import add_answered, split_partitions
from ledgerstone.server.request import Answer, Request
from ledgerstone.server.verification import TxnQuestion, TxnSupport, Verified
from ledgerstone.server.waiting_answer import WaitingAnswer
from ledgerstone.types import NO_SEQUENCE, TopicPartition

_FIRST_VERSION_THAT_KNOWS_LOADING: Final = 2
# What verification says, as group coordinators say it.
_FOR_CLIENTS: Final = {
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
}


def handle(broker: Broker, request: Request, message: TxnOffsetCommitRequest) -> Answer:
    known, response = _split(broker, message.topics)
    if not known:
        return response
    asked = replace(message, topics=known)
    if not message.group_id:
        return _merged(response, txn_commit_refused(asked, ErrorCode.INVALID_GROUP_ID))
    try:
        number = broker.groups.number_for(message.group_id)
    except NO_COORDINATOR as error:
        return _merged(response, txn_commit_refused(asked, error.code))
    place = TopicPartition(CONSUMER_OFFSETS, number)
    question = TxnQuestion(
        message.transactional_id,
        message.producer_id,
        message.producer_epoch,
        {place: NO_SEQUENCE},
        _support(request.api_version),
    )
    waiting = WaitingAnswer(broker, request)

    def finish(answer: ApiMessage) -> ApiMessage:
        assert isinstance(answer, TxnOffsetCommitResponse)
        return _merged(response, _for_version(answer, request.api_version))

    def verified(verified: Verified) -> None:
        code = verified.errors.get(place, ErrorCode.NONE)
        if code:
            code = _FOR_CLIENTS.get(ErrorCode(code), code)
            waiting.answer(finish(txn_commit_refused(asked, code)))
            return
        try:
            answer = broker.groups.ask(
                request,
                message.group_id,
                lambda shard, context, now: shard.handle_txn_offset_commit(asked, context, now),
                from_member=bool(message.member_id),
                finish=finish,
                terms=verified.terms_for(place),
            )
        except NO_COORDINATOR as error:
            answer = finish(txn_commit_refused(asked, error.code))
        waiting.answer(answer)

    broker.verification.verify(question, verified)
    return waiting.now_or_later()


def _support(api_version: int) -> TxnSupport:
    if api_version >= 5:
        return TxnSupport.ADDS_PARTITIONS
    return TxnSupport.ABORTABLE_ERRORS if api_version == 4 else TxnSupport.OLD_ERRORS


def _for_version(answer: TxnOffsetCommitResponse, api_version: int) -> TxnOffsetCommitResponse:
    if api_version < _FIRST_VERSION_THAT_KNOWS_LOADING:
        for topic in answer.topics:
            for partition in topic.partitions:
                if partition.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                    partition.error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    return answer


def _split(
    broker: Broker, topics: list[TxnOffsetCommitRequestTopic]
) -> tuple[list[TxnOffsetCommitRequestTopic], TxnOffsetCommitResponse]:
    """What can be committed, and the answer to the rest."""
    known, missing = split_partitions(broker.image, topics)
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    refused = [
        TxnOffsetCommitResponseTopic(
            name, [TxnOffsetCommitResponsePartition(each, code) for each in numbers]
        )
        for name, numbers in missing
    ]
    asked = [replace(topic, partitions=there) for topic, there in known]
    return asked, TxnOffsetCommitResponse(topics=refused)


def _merged(
    response: TxnOffsetCommitResponse, answer: TxnOffsetCommitResponse
) -> TxnOffsetCommitResponse:
    add_answered(response.topics, answer.topics)
    return response
