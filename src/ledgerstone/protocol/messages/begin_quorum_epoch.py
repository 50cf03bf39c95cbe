"""BeginQuorumEpoch, api key 53. Pure.

Made from schemas/begin_quorum_epoch.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ZERO_UUID, ApiMessage, Struct


class BeginQuorumEpochRequestPartition(Struct):
    __slots__ = (
        "partition_index",
        "voter_directory_id",
        "leader_id",
        "leader_epoch",
    )

    def __init__(
        self,
        partition_index: int = 0,
        voter_directory_id: bytes = ZERO_UUID,
        leader_id: int = 0,
        leader_epoch: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.voter_directory_id = voter_directory_id
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class BeginQuorumEpochRequestTopic(Struct):
    __slots__ = (
        "topic_name",
        "partitions",
    )

    def __init__(
        self,
        topic_name: str = "",
        partitions: list[BeginQuorumEpochRequestPartition] = ABSENT,
    ) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is ABSENT else partitions


class BeginQuorumEpochLeaderEndpoint(Struct):
    __slots__ = (
        "name",
        "host",
        "port",
    )

    def __init__(
        self,
        name: str = "",
        host: str = "",
        port: int = 0,
    ) -> None:
        self.name = name
        self.host = host
        self.port = port


class BeginQuorumEpochRequest(ApiMessage):
    api_key: ClassVar[int] = 53
    name: ClassVar[str] = "BeginQuorumEpoch"

    __slots__ = (
        "cluster_id",
        "voter_id",
        "topics",
        "leader_endpoints",
    )

    def __init__(
        self,
        cluster_id: str | None = None,
        voter_id: int = -1,
        topics: list[BeginQuorumEpochRequestTopic] = ABSENT,
        leader_endpoints: list[BeginQuorumEpochLeaderEndpoint] = ABSENT,
    ) -> None:
        self.cluster_id = cluster_id
        self.voter_id = voter_id
        self.topics = [] if topics is ABSENT else topics
        self.leader_endpoints = [] if leader_endpoints is ABSENT else leader_endpoints


class BeginQuorumEpochResponsePartition(Struct):
    __slots__ = (
        "partition_index",
        "error_code",
        "leader_id",
        "leader_epoch",
    )

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        leader_id: int = 0,
        leader_epoch: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch


class BeginQuorumEpochResponseTopic(Struct):
    __slots__ = (
        "topic_name",
        "partitions",
    )

    def __init__(
        self,
        topic_name: str = "",
        partitions: list[BeginQuorumEpochResponsePartition] = ABSENT,
    ) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is ABSENT else partitions


class BeginQuorumEpochNodeEndpoint(Struct):
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


class BeginQuorumEpochResponse(ApiMessage):
    api_key: ClassVar[int] = 53
    name: ClassVar[str] = "BeginQuorumEpoch"

    __slots__ = (
        "error_code",
        "topics",
        "node_endpoints",
    )

    def __init__(
        self,
        error_code: int = 0,
        topics: list[BeginQuorumEpochResponseTopic] = ABSENT,
        node_endpoints: list[BeginQuorumEpochNodeEndpoint] = ABSENT,
    ) -> None:
        self.error_code = error_code
        self.topics = [] if topics is ABSENT else topics
        self.node_endpoints = [] if node_endpoints is ABSENT else node_endpoints


SCHEMA: Final = """\
api 53 BeginQuorumEpoch
request v0-1 flexible 1+
    cluster_id: str? = null
    voter_id: i32 = -1 @1+
    topics: [BeginQuorumEpochRequestTopic]
        topic_name: str
        partitions: [BeginQuorumEpochRequestPartition]
            partition_index: i32
            voter_directory_id: uuid @1+
            leader_id: i32
            leader_epoch: i32
    leader_endpoints: [BeginQuorumEpochLeaderEndpoint] @1+
        name: str
        host: str
        port: u16
response v0-1 flexible 1+
    error_code: i16
    topics: [BeginQuorumEpochResponseTopic]
        topic_name: str
        partitions: [BeginQuorumEpochResponsePartition]
            partition_index: i32
            error_code: i16
            leader_id: i32
            leader_epoch: i32
    node_endpoints: [BeginQuorumEpochNodeEndpoint] #0 @1+
        node_id: i32
        host: str
        port: u16
"""
