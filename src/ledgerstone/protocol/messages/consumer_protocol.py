"""Consumer protocol. Pure.

Made from schemas/consumer_protocol.txt by tools/codegen.py.
"""

from typing import Final

from ledgerstone.protocol.message import ABSENT, Message, Struct


class ConsumerProtocolSubscriptionOwnedPartition(Struct):
    __slots__ = (
        "topic",
        "partitions",
    )

    def __init__(
        self,
        topic: str = "",
        partitions: list[int] = ABSENT,
    ) -> None:
        self.topic = topic
        self.partitions = [] if partitions is ABSENT else partitions


class ConsumerProtocolSubscription(Message):
    __slots__ = (
        "topics",
        "user_data",
        "owned_partitions",
        "generation_id",
        "rack_id",
    )

    def __init__(
        self,
        topics: list[str] = ABSENT,
        user_data: bytes | None = None,
        owned_partitions: list[ConsumerProtocolSubscriptionOwnedPartition] = ABSENT,
        generation_id: int = -1,
        rack_id: str | None = None,
    ) -> None:
        self.topics = [] if topics is ABSENT else topics
        self.user_data = user_data
        self.owned_partitions = [] if owned_partitions is ABSENT else owned_partitions
        self.generation_id = generation_id
        self.rack_id = rack_id


class ConsumerProtocolAssignmentAssignedPartition(Struct):
    __slots__ = (
        "topic",
        "partitions",
    )

    def __init__(
        self,
        topic: str = "",
        partitions: list[int] = ABSENT,
    ) -> None:
        self.topic = topic
        self.partitions = [] if partitions is ABSENT else partitions


class ConsumerProtocolAssignment(Message):
    __slots__ = (
        "assigned_partitions",
        "user_data",
    )

    def __init__(
        self,
        assigned_partitions: list[ConsumerProtocolAssignmentAssignedPartition] = ABSENT,
        user_data: bytes | None = None,
    ) -> None:
        self.assigned_partitions = [] if assigned_partitions is ABSENT else assigned_partitions
        self.user_data = user_data


SCHEMA: Final = """\
data ConsumerProtocolSubscription v0-3 rigid
    topics: [str]
    user_data: bytes? = null
    owned_partitions: [ConsumerProtocolSubscriptionOwnedPartition] @1+
        topic: str
        partitions: [i32]
    generation_id: i32 = -1 @2+
    rack_id: str? = null @3+
data ConsumerProtocolAssignment v0-3 rigid
    assigned_partitions: [ConsumerProtocolAssignmentAssignedPartition]
        topic: str
        partitions: [i32]
    user_data: bytes? = null
"""
