"""Rules about transactions. Grade D, through the handlers."""

from ledgerstone.coordinator.txn_offset_requests import txn_commit_refused
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import replace
from ledgerstone.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from ledgerstone.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
)
from ledgerstone.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    DescribeTransactionsTransactionState,
)
from ledgerstone.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from ledgerstone.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from ledgerstone.protocol.messages.list_transactions import ListTransactionsResponse
from ledgerstone.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ledgerstone.security.acl import AclOperation, AclResourceType
from ledgerstone.server.authorising.call import GuardedCall
from ledgerstone.server.authorising.group_rules import (
    GROUP_DENIED,
    TRANSACTIONS_DENIED,
    each_topic_of_offsets_needs,
)
from ledgerstone.server.authorising.topic_rules import TOPIC_DENIED
from ledgerstone.server.request import Answer
from ledgerstone.server.transactions.adding import (
    partitions_of,
    refused_partitions,
    topic_results,
)
from ledgerstone.types import NO_PRODUCER_EPOCH

_FIRST_ADD_OF_BROKERS = 4


def init_producer_id(call: GuardedCall) -> Answer:
    """WRITE on the transactional id; without one IDEMPOTENT_WRITE on the cluster, or WRITE on some
    topic: who may write may do so idempotently."""
    message: InitProducerIdRequest = call.message
    write = AclOperation.WRITE
    if message.transactional_id is not None:
        code = TRANSACTIONS_DENIED
        is_allowed = call.may_on_transactions_of(write, message.transactional_id)
    else:
        code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        is_allowed = call.rights.may_on_some(write, AclResourceType.TOPIC) or call.may_on_cluster(
            AclOperation.IDEMPOTENT_WRITE
        )
    if is_allowed:
        return call.pass_on()
    return InitProducerIdResponse(error_code=code, producer_epoch=NO_PRODUCER_EPOCH)


def add_partitions_to_txn(call: GuardedCall) -> Answer:
    """Brokers ask for several transactions at once, and need CLUSTER_ACTION."""
    message: AddPartitionsToTxnRequest = call.message
    if call.version >= _FIRST_ADD_OF_BROKERS:
        if call.may_on_cluster(AclOperation.CLUSTER_ACTION):
            return call.pass_on()
        return AddPartitionsToTxnResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    partitions = partitions_of(message.v3_and_below_topics)
    write, name = AclOperation.WRITE, message.v3_and_below_transactional_id
    if not call.may_on_transactions_of(write, name):
        results = topic_results(dict.fromkeys(partitions, TRANSACTIONS_DENIED))
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)
    hidden = {each: None for each in partitions if not call.may_on_topic(write, each.topic)}
    if not hidden:
        return call.pass_on()
    others = [each for each in partitions if each not in hidden]
    codes = dict.fromkeys(others, ErrorCode.OPERATION_NOT_ATTEMPTED) | dict(
        refused_partitions(others, call.broker.image, by_client=True) or {}
    )
    codes |= dict.fromkeys(hidden, TOPIC_DENIED)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=topic_results(codes))


def add_offsets_to_txn(call: GuardedCall) -> Answer:
    message: AddOffsetsToTxnRequest = call.message
    if not call.may_on_transactions_of(AclOperation.WRITE, message.transactional_id):
        return AddOffsetsToTxnResponse(error_code=TRANSACTIONS_DENIED)
    if not call.may_on_group(AclOperation.READ, message.group_id):
        return AddOffsetsToTxnResponse(error_code=GROUP_DENIED)
    return call.pass_on()


def end_txn(call: GuardedCall) -> Answer:
    message: EndTxnRequest = call.message
    if call.may_on_transactions_of(AclOperation.WRITE, message.transactional_id):
        return call.pass_on()
    return EndTxnResponse(error_code=TRANSACTIONS_DENIED)


_EACH_TOPIC = each_topic_of_offsets_needs(
    AclOperation.READ,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponseTopic,
    TxnOffsetCommitResponsePartition,
)


def txn_offset_commit(call: GuardedCall) -> Answer:
    message: TxnOffsetCommitRequest = call.message
    if not call.may_on_transactions_of(AclOperation.WRITE, message.transactional_id):
        return txn_commit_refused(message, TRANSACTIONS_DENIED)
    if not call.may_on_group(AclOperation.READ, message.group_id):
        return txn_commit_refused(message, GROUP_DENIED)
    return _EACH_TOPIC(call)


def describe_transactions(call: GuardedCall) -> Answer:
    """DESCRIBE on each id; of its topics, those that may be described."""
    message: DescribeTransactionsRequest = call.message
    describe = AclOperation.DESCRIBE

    # The empty one is refused for what it is.
    hidden = {
        each: None
        for each in dict.fromkeys(message.transactional_ids)
        if each and not call.may_on_transactions_of(describe, each)
    }
    # One that is named again is refused again, as in Kafka: that costs no more than to ask it.
    answers = [
        DescribeTransactionsTransactionState(TRANSACTIONS_DENIED, each)
        for each in message.transactional_ids
        if each in hidden
    ]

    def finish(response: DescribeTransactionsResponse) -> DescribeTransactionsResponse:
        for state in response.transaction_states:
            state.topics = [each for each in state.topics if call.sees_topic(each.topic)]
        response.transaction_states += answers
        return response

    rest = [each for each in message.transactional_ids if each not in hidden]
    return call.pass_on(replace(message, transactional_ids=rest), finish)


def list_transactions(call: GuardedCall) -> Answer:
    def finish(response: ListTransactionsResponse) -> ListTransactionsResponse:
        response.transaction_states = [
            each
            for each in response.transaction_states
            if call.sees(
                AclOperation.DESCRIBE, AclResourceType.TRANSACTIONAL_ID, each.transactional_id
            )
        ]
        return response

    return call.pass_on(finish=finish)
