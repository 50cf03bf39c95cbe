"""AddPartitionsToTxn, api key 24. Pure.

Made from schemas/add_partitions_to_txn.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ApiMessage, Struct


class AddPartitionsToTxnTopic(Struct):
    __slots__ = (
        "name",
        "partitions",
    )

    def __init__(
        self,
        name: str = "",
        partitions: list[int] = ABSENT,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is ABSENT else partitions


class AddPartitionsToTxnTransaction(Struct):
    __slots__ = (
        "transactional_id",
        "producer_id",
        "producer_epoch",
        "verify_only",
        "topics",
    )

    def __init__(
        self,
        transactional_id: str = "",
        producer_id: int = 0,
        producer_epoch: int = 0,
        verify_only: bool = False,
        topics: list[AddPartitionsToTxnTopic] = ABSENT,
    ) -> None:
        self.transactional_id = transactional_id
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.verify_only = verify_only
        self.topics = [] if topics is ABSENT else topics


class AddPartitionsToTxnRequest(ApiMessage):
    api_key: ClassVar[int] = 24
    name: ClassVar[str] = "AddPartitionsToTxn"

    __slots__ = (
        "v3_and_below_transactional_id",
        "v3_and_below_producer_id",
        "v3_and_below_producer_epoch",
        "v3_and_below_topics",
        "transactions",
    )

    def __init__(
        self,
        v3_and_below_transactional_id: str = "",
        v3_and_below_producer_id: int = 0,
        v3_and_below_producer_epoch: int = 0,
        v3_and_below_topics: list[AddPartitionsToTxnTopic] = ABSENT,
        transactions: list[AddPartitionsToTxnTransaction] = ABSENT,
    ) -> None:
        self.v3_and_below_transactional_id = v3_and_below_transactional_id
        self.v3_and_below_producer_id = v3_and_below_producer_id
        self.v3_and_below_producer_epoch = v3_and_below_producer_epoch
        self.v3_and_below_topics = [] if v3_and_below_topics is ABSENT else v3_and_below_topics
        self.transactions = [] if transactions is ABSENT else transactions


class AddPartitionsToTxnPartitionResult(Struct):
    __slots__ = (
        "partition_index",
        "partition_error_code",
    )

    def __init__(
        self,
        partition_index: int = 0,
        partition_error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.partition_error_code = partition_error_code


class AddPartitionsToTxnTopicResult(Struct):
    __slots__ = (
        "name",
        "results_by_partition",
    )

    def __init__(
        self,
        name: str = "",
        results_by_partition: list[AddPartitionsToTxnPartitionResult] = ABSENT,
    ) -> None:
        self.name = name
        self.results_by_partition = [] if results_by_partition is ABSENT else results_by_partition


class AddPartitionsToTxnTransactionResult(Struct):
    __slots__ = (
        "transactional_id",
        "topic_results",
    )

    def __init__(
        self,
        transactional_id: str = "",
        topic_results: list[AddPartitionsToTxnTopicResult] = ABSENT,
    ) -> None:
        self.transactional_id = transactional_id
        self.topic_results = [] if topic_results is ABSENT else topic_results


class AddPartitionsToTxnResponse(ApiMessage):
    api_key: ClassVar[int] = 24
    name: ClassVar[str] = "AddPartitionsToTxn"

    __slots__ = (
        "throttle_time_ms",
        "results_by_topic_v3_and_below",
        "error_code",
        "results_by_transaction",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = ABSENT,
        error_code: int = 0,
        results_by_transaction: list[AddPartitionsToTxnTransactionResult] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results_by_topic_v3_and_below = (
            [] if results_by_topic_v3_and_below is ABSENT else results_by_topic_v3_and_below
        )
        self.error_code = error_code
        self.results_by_transaction = (
            [] if results_by_transaction is ABSENT else results_by_transaction
        )


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
