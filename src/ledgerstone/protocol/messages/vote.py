"""Vote, api key 52. Pure.

Made from schemas/vote.txt by tools/codegen.py.
"""

from typing import ClassVar, Final

from ledgerstone.protocol.message import ABSENT, ZERO_UUID, ApiMessage, Struct


class VoteRequestPartition(Struct):
    __slots__ = (
        "partition_index",
        "replica_epoch",
        "replica_id",
        "replica_directory_id",
        "voter_directory_id",
        "last_offset_epoch",
        "last_offset",
        "pre_vote",
    )

    def __init__(
        self,
        partition_index: int = 0,
        replica_epoch: int = 0,
        replica_id: int = 0,
        replica_directory_id: bytes = ZERO_UUID,
        voter_directory_id: bytes = ZERO_UUID,
        last_offset_epoch: int = 0,
        last_offset: int = 0,
        pre_vote: bool = False,
    ) -> None:
        self.partition_index = partition_index
        self.replica_epoch = replica_epoch
        self.replica_id = replica_id
        self.replica_directory_id = replica_directory_id
        self.voter_directory_id = voter_directory_id
        self.last_offset_epoch = last_offset_epoch
        self.last_offset = last_offset
        self.pre_vote = pre_vote


class VoteRequestTopic(Struct):
    __slots__ = (
        "topic_name",
        "partitions",
    )

    def __init__(
        self,
        topic_name: str = "",
        partitions: list[VoteRequestPartition] = ABSENT,
    ) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is ABSENT else partitions


class VoteRequest(ApiMessage):
    api_key: ClassVar[int] = 52
    name: ClassVar[str] = "Vote"

    __slots__ = (
        "cluster_id",
        "voter_id",
        "topics",
    )

    def __init__(
        self,
        cluster_id: str | None = None,
        voter_id: int = -1,
        topics: list[VoteRequestTopic] = ABSENT,
    ) -> None:
        self.cluster_id = cluster_id
        self.voter_id = voter_id
        self.topics = [] if topics is ABSENT else topics


class VoteResponsePartition(Struct):
    __slots__ = (
        "partition_index",
        "error_code",
        "leader_id",
        "leader_epoch",
        "vote_granted",
    )

    def __init__(
        self,
        partition_index: int = 0,
        error_code: int = 0,
        leader_id: int = 0,
        leader_epoch: int = 0,
        vote_granted: bool = False,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.vote_granted = vote_granted


class VoteResponseTopic(Struct):
    __slots__ = (
        "topic_name",
        "partitions",
    )

    def __init__(
        self,
        topic_name: str = "",
        partitions: list[VoteResponsePartition] = ABSENT,
    ) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is ABSENT else partitions


class VoteNodeEndpoint(Struct):
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


class VoteResponse(ApiMessage):
    api_key: ClassVar[int] = 52
    name: ClassVar[str] = "Vote"

    __slots__ = (
        "error_code",
        "topics",
        "node_endpoints",
    )

    def __init__(
        self,
        error_code: int = 0,
        topics: list[VoteResponseTopic] = ABSENT,
        node_endpoints: list[VoteNodeEndpoint] = ABSENT,
    ) -> None:
        self.error_code = error_code
        self.topics = [] if topics is ABSENT else topics
        self.node_endpoints = [] if node_endpoints is ABSENT else node_endpoints


SCHEMA: Final = """\
api 52 Vote
request v0-2 flexible 0+
    cluster_id: str? = null
    voter_id: i32 = -1 @1+
    topics: [VoteRequestTopic]
        topic_name: str
        partitions: [VoteRequestPartition]
            partition_index: i32
            replica_epoch: i32
            replica_id: i32
            replica_directory_id: uuid @1+
            voter_directory_id: uuid @1+
            last_offset_epoch: i32
            last_offset: i64
            pre_vote: bool @2+
response v0-2 flexible 0+
    error_code: i16
    topics: [VoteResponseTopic]
        topic_name: str
        partitions: [VoteResponsePartition]
            partition_index: i32
            error_code: i16
            leader_id: i32
            leader_epoch: i32
            vote_granted: bool
    node_endpoints: [VoteNodeEndpoint] #0 @1+
        node_id: i32
        host: str
        port: u16
"""
