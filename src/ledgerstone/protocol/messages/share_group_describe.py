"""ShareGroupDescribe, api key 77. Pure.

Made from schemas/share_group_describe.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Final

from ledgerstone.protocol.message import ZERO_UUID, ApiMessage, Struct


@dataclass(slots=True, eq=False, repr=False)
class ShareGroupDescribeRequest(ApiMessage):
    api_key: ClassVar[int] = 77
    name: ClassVar[str] = "ShareGroupDescribe"

    group_ids: list[str] = field(default_factory=list)
    include_authorized_operations: bool = False


@dataclass(slots=True, eq=False, repr=False)
class ShareGroupDescribeTopicPartition(Struct):
    topic_id: bytes = ZERO_UUID
    topic_name: str = ""
    partitions: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ShareGroupDescribeAssignment(Struct):
    topic_partitions: list[ShareGroupDescribeTopicPartition] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ShareGroupDescribeMember(Struct):
    member_id: str = ""
    rack_id: str | None = None
    member_epoch: int = 0
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = field(default_factory=list)
    assignment: ShareGroupDescribeAssignment = field(default_factory=ShareGroupDescribeAssignment)


@dataclass(slots=True, eq=False, repr=False)
class ShareGroupDescribeGroup(Struct):
    error_code: int = 0
    error_message: str | None = None
    group_id: str = ""
    group_state: str = ""
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor_name: str = ""
    members: list[ShareGroupDescribeMember] = field(default_factory=list)
    authorized_operations: int = -2147483648


@dataclass(slots=True, eq=False, repr=False)
class ShareGroupDescribeResponse(ApiMessage):
    api_key: ClassVar[int] = 77
    name: ClassVar[str] = "ShareGroupDescribe"

    throttle_time_ms: int = 0
    groups: list[ShareGroupDescribeGroup] = field(default_factory=list)


SCHEMA: Final = """\
api 77 ShareGroupDescribe
request v1-1 flexible 1+
    group_ids: [str]
    include_authorized_operations: bool
response v1-1 flexible 1+
    throttle_time_ms: i32
    groups: [ShareGroupDescribeGroup]
        error_code: i16
        error_message: str? = null
        group_id: str
        group_state: str
        group_epoch: i32
        assignment_epoch: i32
        assignor_name: str
        members: [ShareGroupDescribeMember]
            member_id: str
            rack_id: str? = null
            member_epoch: i32
            client_id: str
            client_host: str
            subscribed_topic_names: [str]
            assignment: ShareGroupDescribeAssignment
                topic_partitions: [ShareGroupDescribeTopicPartition]
                    topic_id: uuid
                    topic_name: str
                    partitions: [i32]
        authorized_operations: i32 = -2147483648
"""
