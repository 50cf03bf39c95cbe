"""WriteTxnMarkers, api key 27. Pure.

Made from schemas/write_txn_markers.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class WriteTxnMarkersRequestTopic(Struct):
    name: str = ""
    partition_indexes: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class WriteTxnMarkersRequestMarker(Struct):
    producer_id: int = 0
    producer_epoch: int = 0
    transaction_result: bool = False
    topics: list[WriteTxnMarkersRequestTopic] = field(default_factory=list)
    coordinator_epoch: int = 0
    transaction_version: int = 0


@dataclass(slots=True, eq=False, repr=False)
class WriteTxnMarkersRequest(ApiMessage):
    api_key: ClassVar[int] = 27
    name: ClassVar[str] = "WriteTxnMarkers"

    markers: list[WriteTxnMarkersRequestMarker] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class WriteTxnMarkersPartition(Struct):
    partition_index: int = 0
    error_code: int = 0


@dataclass(slots=True, eq=False, repr=False)
class WriteTxnMarkersResponseTopic(Struct):
    name: str = ""
    partitions: list[WriteTxnMarkersPartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class WriteTxnMarkersResponseMarker(Struct):
    producer_id: int = 0
    topics: list[WriteTxnMarkersResponseTopic] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class WriteTxnMarkersResponse(ApiMessage):
    api_key: ClassVar[int] = 27
    name: ClassVar[str] = "WriteTxnMarkers"

    markers: list[WriteTxnMarkersResponseMarker] = field(default_factory=list)


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
