"""WriteTxnMarkers, api key 27. Pure.

Made from schemas/write_txn_markers.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ApiMessage, Struct


class WriteTxnMarkersRequestTopic(Struct):
    __slots__ = (
        "name",
        "partition_indexes",
    )

    def __init__(
        self,
        name: str = "",
        partition_indexes: list[int] = ABSENT,
    ) -> None:
        self.name = name
        self.partition_indexes = [] if partition_indexes is ABSENT else partition_indexes


class WriteTxnMarkersRequestMarker(Struct):
    __slots__ = (
        "producer_id",
        "producer_epoch",
        "transaction_result",
        "topics",
        "coordinator_epoch",
        "transaction_version",
    )

    def __init__(
        self,
        producer_id: int = 0,
        producer_epoch: int = 0,
        transaction_result: bool = False,
        topics: list[WriteTxnMarkersRequestTopic] = ABSENT,
        coordinator_epoch: int = 0,
        transaction_version: int = 0,
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.transaction_result = transaction_result
        self.topics = [] if topics is ABSENT else topics
        self.coordinator_epoch = coordinator_epoch
        self.transaction_version = transaction_version


class WriteTxnMarkersRequest(ApiMessage):
    api_key: ClassVar[int] = 27
    name: ClassVar[str] = "WriteTxnMarkers"

    __slots__ = ("markers",)

    def __init__(
        self,
        markers: list[WriteTxnMarkersRequestMarker] = ABSENT,
    ) -> None:
        self.markers = [] if markers is ABSENT else markers


class WriteTxnMarkersPartition(Struct):
    __slots__ = (
        "partition_index",
        "error_code",
    )

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code


class WriteTxnMarkersResponseTopic(Struct):
    __slots__ = (
        "name",
        "partitions",
    )

    def __init__(
        self,
        name: str = "",
        partitions: list[WriteTxnMarkersPartition] = ABSENT,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is ABSENT else partitions


class WriteTxnMarkersResponseMarker(Struct):
    __slots__ = (
        "producer_id",
        "topics",
    )

    def __init__(
        self,
        producer_id: int = 0,
        topics: list[WriteTxnMarkersResponseTopic] = ABSENT,
    ) -> None:
        self.producer_id = producer_id
        self.topics = [] if topics is ABSENT else topics


class WriteTxnMarkersResponse(ApiMessage):
    api_key: ClassVar[int] = 27
    name: ClassVar[str] = "WriteTxnMarkers"

    __slots__ = ("markers",)

    def __init__(
        self,
        markers: list[WriteTxnMarkersResponseMarker] = ABSENT,
    ) -> None:
        self.markers = [] if markers is ABSENT else markers


SCHEMA: Final = """\
api 27 WriteTxnMarkers
request v1-2 flexible 1+
    markers: [WriteTxnMarkersRequestMarker]
        producer_id: i64
        producer_epoch: i16
        transaction_result: bool
        topics: [WriteTxnMarkersRequestTopic]
            name: str
            partition_indexes: [i32]
        coordinator_epoch: i32
        transaction_version: i8 @2+
response v1-2 flexible 1+
    markers: [WriteTxnMarkersResponseMarker]
        producer_id: i64
        topics: [WriteTxnMarkersResponseTopic]
            name: str
            partitions: [WriteTxnMarkersPartition]
                partition_index: i32
                error_code: i16
"""
