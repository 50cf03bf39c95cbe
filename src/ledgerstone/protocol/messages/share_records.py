"""Share records. Pure.

Made from schemas/share_records.txt by tools/codegen.py.
"""

from dataclasses import dataclass, field
from typing import Final

from ledgerstone.protocol.message import ZERO_UUID, Message, Struct


@dataclass(slots=True, eq=False, repr=False)
class ShareSnapshotKey(Message):
    group_id: str = ""
    topic_id: bytes = ZERO_UUID
    partition: int = 0


@dataclass(slots=True, eq=False, repr=False)
class ShareSnapshotStateBatch(Struct):
    first_offset: int = 0
    last_offset: int = 0
    delivery_state: int = 0
    delivery_count: int = 0


@dataclass(slots=True, eq=False, repr=False)
class ShareSnapshotValue(Message):
    snapshot_epoch: int = 0
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = 0
    state_batches: list[ShareSnapshotStateBatch] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class ShareUpdateKey(Message):
    group_id: str = ""
    topic_id: bytes = ZERO_UUID
    partition: int = 0


@dataclass(slots=True, eq=False, repr=False)
class ShareUpdateStateBatch(Struct):
    first_offset: int = 0
    last_offset: int = 0
    delivery_state: int = 0
    delivery_count: int = 0


@dataclass(slots=True, eq=False, repr=False)
class ShareUpdateValue(Message):
    snapshot_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = 0
    state_batches: list[ShareUpdateStateBatch] = field(default_factory=list)


SCHEMA: Final = """\
key ShareSnapshotKey v0-0 rigid
    group_id: str
    topic_id: uuid
    partition: i32
value ShareSnapshotValue v0-0 flexible 0+
    snapshot_epoch: u16
    state_epoch: i32
    leader_epoch: i32
    start_offset: i64
    state_batches: [ShareSnapshotStateBatch]
        first_offset: i64
        last_offset: i64
        delivery_state: i8
        delivery_count: i16
key ShareUpdateKey v1-1 rigid
    group_id: str
    topic_id: uuid
    partition: i32
value ShareUpdateValue v0-0 flexible 0+
    snapshot_epoch: u16
    leader_epoch: i32
    start_offset: i64
    state_batches: [ShareUpdateStateBatch]
        first_offset: i64
        last_offset: i64
        delivery_state: i8
        delivery_count: i16
"""
