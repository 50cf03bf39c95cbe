"""Which broker a request goes to, derived from the request itself. Pure.

Requests that name partitions of several leaders are split before they come here; see `rounds`.
"""

from enum import IntEnum
from typing import Final

from ledgerstone.dataclasses import dataclass
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages import ApiKey
from ledgerstone.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ledgerstone.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from ledgerstone.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ledgerstone.protocol.messages.delete_groups import DeleteGroupsRequest
from ledgerstone.protocol.messages.describe_groups import DescribeGroupsRequest
from ledgerstone.protocol.messages.end_txn import EndTxnRequest
from ledgerstone.protocol.messages.init_producer_id import InitProducerIdRequest
from ledgerstone.protocol.messages.offset_commit import OffsetCommitRequest
from ledgerstone.protocol.messages.offset_delete import OffsetDeleteRequest
from ledgerstone.protocol.messages.offset_fetch import OffsetFetchRequest
from ledgerstone.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest


class KeyType(IntEnum):
    GROUP = 0
    TRANSACTION = 1


@dataclass(frozen=True, slots=True)
class AnyBroker:
    def __str__(self) -> str:
        return "any broker"


@dataclass(frozen=True, slots=True)
class ToController:
    def __str__(self) -> str:
        return "the controller"


@dataclass(frozen=True, slots=True)
class ToBroker:
    node_id: int

    def __str__(self) -> str:
        return f"broker {self.node_id}"


@dataclass(frozen=True, slots=True)
class Coordinator:
    key: str
    key_type: KeyType = KeyType.GROUP

    def __str__(self) -> str:
        return f"the coordinator of {self.key_type.name.lower()} {self.key}"


Target = AnyBroker | ToController | ToBroker | Coordinator

_FOR_CONTROLLER: Final = (
    ApiKey.CREATE_TOPICS,
    ApiKey.DELETE_TOPICS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.ELECT_LEADERS,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS,
    ApiKey.LIST_PARTITION_REASSIGNMENTS,
    ApiKey.ALTER_CLIENT_QUOTAS,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
    ApiKey.UPDATE_FEATURES,
    ApiKey.UNREGISTER_BROKER,
    ApiKey.CREATE_ACLS,
    ApiKey.DELETE_ACLS,
)


def target_of(request: ApiMessage) -> Target:
    """The default target of a request."""
    group = _group_of(request)
    if group is not None:
        return Coordinator(group)
    transactional_id = _transactional_id_of(request)
    if transactional_id is not None:
        return Coordinator(transactional_id, KeyType.TRANSACTION)
    return ToController() if request.api_key in _FOR_CONTROLLER else AnyBroker()


def _group_of(request: ApiMessage) -> str | None:
    match request:
        case OffsetCommitRequest() | OffsetFetchRequest() | OffsetDeleteRequest():
            return request.group_id
        case TxnOffsetCommitRequest():
            return request.group_id
        case DescribeGroupsRequest(groups=[group]):
            return group
        case ConsumerGroupDescribeRequest(group_ids=[group]):
            return group
        case DeleteGroupsRequest(groups_names=[group]):
            return group
        case _:
            return None


def _transactional_id_of(request: ApiMessage) -> str | None:
    match request:
        case InitProducerIdRequest() | AddOffsetsToTxnRequest() | EndTxnRequest():
            return request.transactional_id
        case AddPartitionsToTxnRequest():
            return request.v3_and_below_transactional_id or None
        case _:
            return None
