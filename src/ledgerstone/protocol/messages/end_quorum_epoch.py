"""EndQuorumEpoch, api key 54. Pure.

Made from schemas/end_quorum_epoch.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ZERO_UUID, ApiMessage, Struct


class EndQuorumEpochPreferredCandidate(Struct):
    __slots__ = (
        "candidate_id",
        "candidate_directory_id",
    )

    def __init__(
        self,
        candidate_id: int = 0,
        candidate_directory_id: bytes = ZERO_UUID,
    ) -> None:
        self.candidate_id = candidate_id
        self.candidate_directory_id = candidate_directory_id


class EndQuorumEpochRequestPartition(Struct):
    __slots__ = (
        "partition_index",
        "leader_id",
        "leader_epoch",
        "preferred_successors",
        "preferred_candidates",
    )

    def __init__(
        self,
        partition_index: int = 0,
        leader_id: int = 0,
        leader_epoch: int = 0,
        preferred_successors: list[int] = ABSENT,
        preferred_candidates: list[EndQuorumEpochPreferredCandidate] = ABSENT,
    ) -> None:
        self.partition_index = partition_index
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.preferred_successors = [] if preferred_successors is ABSENT else preferred_successors
        self.preferred_candidates = [] if preferred_candidates is ABSENT else preferred_candidates


class EndQuorumEpochRequestTopic(Struct):
    __slots__ = (
        "topic_name",
        "partitions",
    )

    def __init__(
        self,
        topic_name: str = "",
        partitions: list[EndQuorumEpochRequestPartition] = ABSENT,
    ) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is ABSENT else partitions


class EndQuorumEpochLeaderEndpoint(Struct):
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


class EndQuorumEpochRequest(ApiMessage):
    api_key: ClassVar[int] = 54
    name: ClassVar[str] = "EndQuorumEpoch"

    __slots__ = (
        "cluster_id",
        "topics",
        "leader_endpoints",
    )

    def __init__(
        self,
        cluster_id: str | None = None,
        topics: list[EndQuorumEpochRequestTopic] = ABSENT,
        leader_endpoints: list[EndQuorumEpochLeaderEndpoint] = ABSENT,
    ) -> None:
        self.cluster_id = cluster_id
        self.topics = [] if topics is ABSENT else topics
        self.leader_endpoints = [] if leader_endpoints is ABSENT else leader_endpoints


class EndQuorumEpochResponsePartition(Struct):
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


class EndQuorumEpochResponseTopic(Struct):
    __slots__ = (
        "topic_name",
        "partitions",
    )

    def __init__(
        self,
        topic_name: str = "",
        partitions: list[EndQuorumEpochResponsePartition] = ABSENT,
    ) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is ABSENT else partitions


class EndQuorumEpochNodeEndpoint(Struct):
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


class EndQuorumEpochResponse(ApiMessage):
    api_key: ClassVar[int] = 54
    name: ClassVar[str] = "EndQuorumEpoch"

    __slots__ = (
        "error_code",
        "topics",
        "node_endpoints",
    )

    def __init__(
        self,
        error_code: int = 0,
        topics: list[EndQuorumEpochResponseTopic] = ABSENT,
        node_endpoints: list[EndQuorumEpochNodeEndpoint] = ABSENT,
    ) -> None:
        self.error_code = error_code
        self.topics = [] if topics is ABSENT else topics
        self.node_endpoints = [] if node_endpoints is ABSENT else node_endpoints


SCHEMA: Final = """\
api 54 EndQuorumEpoch
request v0-1 flexible 1+
    cluster_id: str? = null
    topics: [EndQuorumEpochRequestTopic]
        topic_name: str
        partitions: [EndQuorumEpochRequestPartition]
            partition_index: i32
            leader_id: i32
            leader_epoch: i32
            preferred_successors: [i32] @0
            preferred_candidates: [EndQuorumEpochPreferredCandidate] @1+
                candidate_id: i32
                candidate_directory_id: uuid
    leader_endpoints: [EndQuorumEpochLeaderEndpoint] @1+
        name: str
        host: str
        port: u16
response v0-1 flexible 1+
    error_code: i16
    topics: [EndQuorumEpochResponseTopic]
        topic_name: str
        partitions: [EndQuorumEpochResponsePartition]
            partition_index: i32
            error_code: i16
            leader_id: i32
            leader_epoch: i32
    node_endpoints: [EndQuorumEpochNodeEndpoint] #0 @1+
        node_id: i32
        host: str
        port: u16
"""
