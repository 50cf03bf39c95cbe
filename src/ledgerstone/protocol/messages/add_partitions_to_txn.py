"""AddPartitionsToTxn, api key 24. Pure.

Made from schemas/add_partitions_to_txn.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class AddPartitionsToTxnTopic(Struct):
    name: str = ""
    partitions: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class AddPartitionsToTxnTransaction(Struct):
    transactional_id: str = ""
    producer_id: int = 0
    producer_epoch: int = 0
    verify_only: bool = False
    topics: list[AddPartitionsToTxnTopic] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class AddPartitionsToTxnRequest(ApiMessage):
    api_key: ClassVar[int] = 24
    name: ClassVar[str] = "AddPartitionsToTxn"

    v3_and_below_transactional_id: str = ""
    v3_and_below_producer_id: int = 0
    v3_and_below_producer_epoch: int = 0
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field(default_factory=list)
    transactions: list[AddPartitionsToTxnTransaction] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: int = 0
    partition_error_code: int = 0


@dataclass(slots=True, eq=False, repr=False)
class AddPartitionsToTxnTopicResult(Struct):
    name: str = ""
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class AddPartitionsToTxnTransactionResult(Struct):
    transactional_id: str = ""
    topic_results: list[AddPartitionsToTxnTopicResult] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class AddPartitionsToTxnResponse(ApiMessage):
    api_key: ClassVar[int] = 24
    name: ClassVar[str] = "AddPartitionsToTxn"

    throttle_time_ms: int = 0
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field(default_factory=list)
    error_code: int = 0
    results_by_transaction: list[AddPartitionsToTxnTransactionResult] = field(default_factory=list)


SCHEMA: Final = """\
api 24 AddPartitionsToTxn
request v0-5 flexible 3+
    v3_and_below_transactional_id: str @0-3
    v3_and_below_producer_id: i64 @0-3
    v3_and_below_producer_epoch: i16 @0-3
    v3_and_below_topics: [AddPartitionsToTxnTopic] @0-3
        name: str
        partitions: [i32]
    transactions: [AddPartitionsToTxnTransaction] @4+
        transactional_id: str
        producer_id: i64
        producer_epoch: i16
        verify_only: bool
        topics: [AddPartitionsToTxnTopic]
response v0-5 flexible 3+
    throttle_time_ms: i32
    results_by_topic_v3_and_below: [AddPartitionsToTxnTopicResult] @0-3
        name: str
        results_by_partition: [AddPartitionsToTxnPartitionResult]
            partition_index: i32
            partition_error_code: i16
    error_code: i16 @4+
    results_by_transaction: [AddPartitionsToTxnTransactionResult] @4+
        transactional_id: str
        topic_results: [AddPartitionsToTxnTopicResult]
"""
