"""Consumer protocol. Pure.

Made from schemas/consumer_protocol.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import Final

from ledgerstone.protocol.message import Message, Struct


@dataclass(slots=True, eq=False, repr=False)
class ConsumerProtocolSubscriptionOwnedPartition(Struct):
    topic: str = ""
    partitions: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ConsumerProtocolSubscription(Message):
    topics: list[str] = field(default_factory=list)
    user_data: bytes | None = None
    owned_partitions: list[ConsumerProtocolSubscriptionOwnedPartition] = field(default_factory=list)
    generation_id: int = -1
    rack_id: str | None = None


@dataclass(slots=True, eq=False, repr=False)
class ConsumerProtocolAssignmentAssignedPartition(Struct):
    topic: str = ""
    partitions: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ConsumerProtocolAssignment(Message):
    assigned_partitions: list[ConsumerProtocolAssignmentAssignedPartition] = field(
        default_factory=list
    )
    user_data: bytes | None = None


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
