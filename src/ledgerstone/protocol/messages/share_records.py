"""Share records. Pure.

Made from schemas/share_records.txt by tools/codegen.py.
"""

from typing import Final

from ledgerstone.protocol.message import ABSENT, ZERO_UUID, Message, Struct


class ShareSnapshotKey(Message):
    __slots__ = (
        "group_id",
        "topic_id",
        "partition",
    )

    def __init__(
        self,
        group_id: str = "",
        topic_id: bytes = ZERO_UUID,
        partition: int = 0,
    ) -> None:
        self.group_id = group_id
        self.topic_id = topic_id
        self.partition = partition


class ShareSnapshotStateBatch(Struct):
    __slots__ = (
        "first_offset",
        "last_offset",
        "delivery_state",
        "delivery_count",
    )

    def __init__(
        self,
        first_offset: int = 0,
        last_offset: int = 0,
        delivery_state: int = 0,
        delivery_count: int = 0,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.delivery_state = delivery_state
        self.delivery_count = delivery_count


class ShareSnapshotValue(Message):
    __slots__ = (
        "snapshot_epoch",
        "state_epoch",
        "leader_epoch",
        "start_offset",
        "state_batches",
    )

    def __init__(
        self,
        snapshot_epoch: int = 0,
        state_epoch: int = 0,
        leader_epoch: int = 0,
        start_offset: int = 0,
        state_batches: list[ShareSnapshotStateBatch] = ABSENT,
    ) -> None:
        self.snapshot_epoch = snapshot_epoch
        self.state_epoch = state_epoch
        self.leader_epoch = leader_epoch
        self.start_offset = start_offset
        self.state_batches = [] if state_batches is ABSENT else state_batches


class ShareUpdateKey(Message):
    __slots__ = (
        "group_id",
        "topic_id",
        "partition",
    )

    def __init__(
        self,
        group_id: str = "",
        topic_id: bytes = ZERO_UUID,
        partition: int = 0,
    ) -> None:
        self.group_id = group_id
        self.topic_id = topic_id
        self.partition = partition


class ShareUpdateStateBatch(Struct):
    __slots__ = (
        "first_offset",
        "last_offset",
        "delivery_state",
        "delivery_count",
    )

    def __init__(
        self,
        first_offset: int = 0,
        last_offset: int = 0,
        delivery_state: int = 0,
        delivery_count: int = 0,
    ) -> None:
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.delivery_state = delivery_state
        self.delivery_count = delivery_count


class ShareUpdateValue(Message):
    __slots__ = (
        "snapshot_epoch",
        "leader_epoch",
        "start_offset",
        "state_batches",
    )

    def __init__(
        self,
        snapshot_epoch: int = 0,
        leader_epoch: int = 0,
        start_offset: int = 0,
        state_batches: list[ShareUpdateStateBatch] = ABSENT,
    ) -> None:
        self.snapshot_epoch = snapshot_epoch
        self.leader_epoch = leader_epoch
        self.start_offset = start_offset
        self.state_batches = [] if state_batches is ABSENT else state_batches


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
