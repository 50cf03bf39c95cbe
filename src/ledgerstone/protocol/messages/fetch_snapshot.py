"""FetchSnapshot, api key 59. Pure.

Made from schemas/fetch_snapshot.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ZERO_UUID, ApiMessage, Struct
from ledgerstone.protocol.pieces import Records


class FetchSnapshotSnapshotId(Struct):
    __slots__ = (
        "end_offset",
        "epoch",
    )

    def __init__(
        self,
        end_offset: int = 0,
        epoch: int = 0,
    ) -> None:
        self.end_offset = end_offset
        self.epoch = epoch


class FetchSnapshotRequestPartition(Struct):
    __slots__ = (
        "partition",
        "current_leader_epoch",
        "snapshot_id",
        "position",
        "replica_directory_id",
    )

    def __init__(
        self,
        partition: int = 0,
        current_leader_epoch: int = 0,
        snapshot_id: FetchSnapshotSnapshotId = ABSENT,
        position: int = 0,
        replica_directory_id: bytes = ZERO_UUID,
    ) -> None:
        self.partition = partition
        self.current_leader_epoch = current_leader_epoch
        self.snapshot_id = FetchSnapshotSnapshotId() if snapshot_id is ABSENT else snapshot_id
        self.position = position
        self.replica_directory_id = replica_directory_id


class FetchSnapshotRequestTopic(Struct):
    __slots__ = (
        "name",
        "partitions",
    )

    def __init__(
        self,
        name: str = "",
        partitions: list[FetchSnapshotRequestPartition] = ABSENT,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is ABSENT else partitions


class FetchSnapshotRequest(ApiMessage):
    api_key: ClassVar[int] = 59
    name: ClassVar[str] = "FetchSnapshot"

    __slots__ = (
        "cluster_id",
        "replica_id",
        "max_bytes",
        "topics",
    )

    def __init__(
        self,
        cluster_id: str | None = None,
        replica_id: int = -1,
        max_bytes: int = 2147483647,
        topics: list[FetchSnapshotRequestTopic] = ABSENT,
    ) -> None:
        self.cluster_id = cluster_id
        self.replica_id = replica_id
        self.max_bytes = max_bytes
        self.topics = [] if topics is ABSENT else topics


class FetchSnapshotCurrentLeader(Struct):
    __slots__ = (
        "leader_id",
        "leader_epoch",
    )

    def __init__(
        self,
        leader_id: int = 0,
        leader_epoch: int = 0,
    ) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class FetchSnapshotResponsePartition(Struct):
    __slots__ = (
        "index",
        "error_code",
        "snapshot_id",
        "current_leader",
        "size",
        "position",
        "unaligned_records",
    )

    def __init__(
        self,
        index: int = 0,
        error_code: int = 0,
        snapshot_id: FetchSnapshotSnapshotId = ABSENT,
        current_leader: FetchSnapshotCurrentLeader | None = None,
        size: int = 0,
        position: int = 0,
        unaligned_records: Records = None,
    ) -> None:
        self.index = index
        self.error_code = error_code
        self.snapshot_id = FetchSnapshotSnapshotId() if snapshot_id is ABSENT else snapshot_id
        self.current_leader = current_leader
        self.size = size
        self.position = position
        self.unaligned_records = unaligned_records


class FetchSnapshotResponseTopic(Struct):
    __slots__ = (
        "name",
        "partitions",
    )

    def __init__(
        self,
        name: str = "",
        partitions: list[FetchSnapshotResponsePartition] = ABSENT,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is ABSENT else partitions


class FetchSnapshotNodeEndpoint(Struct):
    __slots__ = (
        "node_id",
        "host",
        "port",
    )

    def __init__(
        self,
        node_id: int = 0,
        host: str = "",
        port: int = 0,
    ) -> None:
        self.node_id = node_id
        self.host = host
        self.port = port


class FetchSnapshotResponse(ApiMessage):
    api_key: ClassVar[int] = 59
    name: ClassVar[str] = "FetchSnapshot"

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "topics",
        "node_endpoints",
    )

    def __init__(
        self,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        topics: list[FetchSnapshotResponseTopic] = ABSENT,
        node_endpoints: list[FetchSnapshotNodeEndpoint] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.topics = [] if topics is ABSENT else topics
        self.node_endpoints = [] if node_endpoints is ABSENT else node_endpoints


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
