"""FetchSnapshot, api key 59. Pure.

Made from schemas/fetch_snapshot.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ZERO_UUID, ApiMessage, Struct
from ledgerstone.protocol.pieces import Records


@dataclass(slots=True, eq=False, repr=False)
class FetchSnapshotSnapshotId(Struct):
    end_offset: int = 0
    epoch: int = 0


@dataclass(slots=True, eq=False, repr=False)
class FetchSnapshotRequestPartition(Struct):
    partition: int = 0
    current_leader_epoch: int = 0
    snapshot_id: FetchSnapshotSnapshotId = field(default_factory=FetchSnapshotSnapshotId)
    position: int = 0
    replica_directory_id: bytes = ZERO_UUID


@dataclass(slots=True, eq=False, repr=False)
class FetchSnapshotRequestTopic(Struct):
    name: str = ""
    partitions: list[FetchSnapshotRequestPartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class FetchSnapshotRequest(ApiMessage):
    api_key: ClassVar[int] = 59
    name: ClassVar[str] = "FetchSnapshot"

    cluster_id: str | None = None
    replica_id: int = -1
    max_bytes: int = 2147483647
    topics: list[FetchSnapshotRequestTopic] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class FetchSnapshotCurrentLeader(Struct):
    leader_id: int = 0
    leader_epoch: int = 0


@dataclass(slots=True, eq=False, repr=False)
class FetchSnapshotResponsePartition(Struct):
    index: int = 0
    error_code: int = 0
    snapshot_id: FetchSnapshotSnapshotId = field(default_factory=FetchSnapshotSnapshotId)
    current_leader: FetchSnapshotCurrentLeader | None = None
    size: int = 0
    position: int = 0
    unaligned_records: Records = None


@dataclass(slots=True, eq=False, repr=False)
class FetchSnapshotResponseTopic(Struct):
    name: str = ""
    partitions: list[FetchSnapshotResponsePartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class FetchSnapshotNodeEndpoint(Struct):
    node_id: int = 0
    host: str = ""
    port: int = 0


@dataclass(slots=True, eq=False, repr=False)
class FetchSnapshotResponse(ApiMessage):
    api_key: ClassVar[int] = 59
    name: ClassVar[str] = "FetchSnapshot"

    throttle_time_ms: int = 0
    error_code: int = 0
    topics: list[FetchSnapshotResponseTopic] = field(default_factory=list)
    node_endpoints: list[FetchSnapshotNodeEndpoint] = field(default_factory=list)


SCHEMA: Final = """\
api 59 FetchSnapshot
request v0-1 flexible 0+
    cluster_id: str? #0 = null
    replica_id: i32 = -1
    max_bytes: i32 = 2147483647
    topics: [FetchSnapshotRequestTopic]
        name: str
        partitions: [FetchSnapshotRequestPartition]
            partition: i32
            current_leader_epoch: i32
            snapshot_id: FetchSnapshotSnapshotId
                end_offset: i64
                epoch: i32
            position: i64
            replica_directory_id: uuid #0 @1+
response v0-1 flexible 0+
    throttle_time_ms: i32
    error_code: i16
    topics: [FetchSnapshotResponseTopic]
        name: str
        partitions: [FetchSnapshotResponsePartition]
            index: i32
            error_code: i16
            snapshot_id: FetchSnapshotSnapshotId
            current_leader: FetchSnapshotCurrentLeader #0
                leader_id: i32
                leader_epoch: i32
            size: i64
            position: i64
            unaligned_records: records
    node_endpoints: [FetchSnapshotNodeEndpoint] #0 @1+
        node_id: i32
        host: str
        port: u16
"""
