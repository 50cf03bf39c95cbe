"""The fast codec of partitions: the same records and bytes as the general one, or none at all."""

from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.metadata.partition_codec import (
    CHANGE_PREFIXES,
    PARTITION_PREFIXES,
    read_change,
    read_partition,
    write_partition,
)
from ledgerstone.metadata.records import decode_record, encode_record
from ledgerstone.protocol.messages.metadata_records import PartitionChangeRecord, PartitionRecord
from ledgerstone.protocol.record_codec import (
    UnknownRecord,
    decode_metadata_record,
    encode_metadata_record,
)
from ledgerstone.protocol.wire import MalformedMessage

ID = bytes(range(16))

i32 = st.integers(-(2**31), 2**31 - 1)
uuids = st.binary(min_size=16, max_size=16)
replica_lists = st.lists(i32, max_size=5)
some_lists = st.none() | replica_lists

partitions = st.builds(
    PartitionRecord,
    partition_id=i32,
    topic_id=uuids,
    replicas=replica_lists,
    isr=replica_lists,
    removing_replicas=st.just([]) | replica_lists,
    adding_replicas=st.just([]) | replica_lists,
    leader=i32,
    leader_recovery_state=st.sampled_from([0, 0, 0, 1]),
    leader_epoch=i32,
    partition_epoch=i32,
    directories=st.lists(uuids, max_size=5),
    eligible_leader_replicas=some_lists,
    last_known_elr=some_lists,
)
changes = st.builds(
    PartitionChangeRecord,
    partition_id=i32,
    topic_id=uuids,
    isr=some_lists,
    leader=st.just(-2) | i32,
    replicas=some_lists,
    removing_replicas=st.none() | replica_lists,
    leader_recovery_state=st.sampled_from([-1, -1, 0, 1]),
    directories=st.none() | st.lists(uuids, max_size=3),
    eligible_leader_replicas=some_lists,
)


def _usual(count: int = 3) -> PartitionRecord:
    replicas = list(range(1, count + 1))
    return PartitionRecord(
        4, ID, replicas, replicas[:2], leader=1, leader_epoch=5, partition_epoch=6,
        directories=[ID] * count,
    )  # fmt: skip


def _general(data: bytes) -> object:
    """What the general codec makes of it: a record, or the kind of its complaint."""
    try:
        return decode_metadata_record(data)
    except (MalformedMessage, UnknownRecord) as error:
        return type(error)


def test_the_usual_partition_takes_the_short_way() -> None:
    for version in (1, 2):
        data = encode_metadata_record(_usual(), version)

        assert write_partition(_usual(), version) == data
        assert read_partition(data) == _usual()


def test_another_leader_and_isr_take_the_short_way() -> None:
    for change in (
        PartitionChangeRecord(1, ID, isr=[1, 2], leader=-1),
        PartitionChangeRecord(1, ID, isr=[]),
        PartitionChangeRecord(1, ID, leader=7),
        PartitionChangeRecord(1, ID),
    ):
        assert read_change(encode_metadata_record(change, 2)) == change


def test_unusual_ones_are_left_to_the_general_codec() -> None:
    moving, eligible = _usual(), _usual()
    moving.adding_replicas = [9]
    eligible.eligible_leader_replicas = []

    for record in (moving, eligible, _usual(100)):
        data = encode_metadata_record(record, 2)
        assert write_partition(record, 2) is None
        assert read_partition(data) is None
        assert decode_record(data) == record
        assert encode_record(record) == data


@given(record=partitions, version=st.sampled_from([1, 2]))
def test_partitions_are_the_bytes_of_the_general_codec(
    record: PartitionRecord, version: int
) -> None:
    data = encode_metadata_record(record, version)

    assert write_partition(record, version) in (None, data)
    assert read_partition(data) in (None, decode_metadata_record(data))
    assert decode_record(memoryview(data)) == decode_metadata_record(data)


@given(record=changes)
def test_changes_are_read_as_the_general_codec_reads_them(record: PartitionChangeRecord) -> None:
    data = encode_metadata_record(record, 2)

    assert read_change(data) in (None, record)
    assert decode_record(data) == record


@given(
    data=st.one_of(partitions, changes).map(lambda record: encode_metadata_record(record, 2)),
    at=st.integers(3, 200),
    byte=st.integers(0, 255),
    cut=st.integers(0, 60),
)
def test_broken_bytes_are_never_read_as_something_else(
    data: bytes, at: int, byte: int, cut: int
) -> None:
    broken = bytearray(data[: max(len(data) - cut, 3)] if cut % 3 else data)
    if at < len(broken):
        broken[at] = byte
    value = bytes(broken)
    fast = read_partition(value) if value[:3] in PARTITION_PREFIXES else read_change(value)

    assert fast is None or fast == _general(value)
    assert value[:3] in (*PARTITION_PREFIXES, *CHANGE_PREFIXES)
