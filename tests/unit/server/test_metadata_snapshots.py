"""Snapshots of the metadata: written in a thread, read back with suspicion."""

import pytest

from ledgerstone.errors import CorruptFile
from ledgerstone.fs import File
from ledgerstone.metadata.features import METADATA_VERSION_FEATURE
from ledgerstone.protocol.message import MetadataRecord
from ledgerstone.protocol.messages.metadata_records import (
    FeatureLevelRecord,
    PartitionRecord,
    TopicRecord,
)
from ledgerstone.raft.control_batches import snapshot_head
from ledgerstone.raft.events import SnapshotPlan
from ledgerstone.raft.replica import OffsetAndEpoch
from ledgerstone.records.batch import iter_headers
from ledgerstone.server.quorum.snapshot_reading import snapshot_records
from ledgerstone.server.quorum.snapshot_writing import SnapshotWork, write_snapshot
from ledgerstone.sim.dice import SeededDice
from ledgerstone.sim.filesystem import SimFilesystem
from ledgerstone.storage.sync_plan import NewFile
from tests.kit.logs import T0

PATH = "/data/00000000000000000900-0000000003.checkpoint"


def topics(count: int) -> list[MetadataRecord]:
    return [TopicRecord(f"topic-{n:06d}", n.to_bytes(16, "big")) for n in range(count)]


def written(records: list[MetadataRecord]) -> tuple[SimFilesystem, bytes]:
    fs = SimFilesystem(dice=SeededDice(0))
    fs.make_dir("/data")
    head = bytes(snapshot_head(epoch=3, wall_ms=T0, last_timestamp=T0 - 5, version=0, voters=None))
    work = SnapshotWork(
        plan=SnapshotPlan(OffsetAndEpoch(900, 3), head, 1),
        file=NewFile(PATH + ".part", PATH),
        records=records,
        wall_ms=T0,
    )
    write_snapshot(fs, work)
    file = fs.open(PATH)
    return fs, file.pread(file.size(), 0)


def stored(fs: SimFilesystem, data: bytes) -> File:
    file = fs.open(PATH)
    file.truncate(0)
    file.pwrite(data, 0)
    return file


def test_snapshot_is_read_back_in_order() -> None:
    fs, _ = written(topics(20_000))
    assert list(snapshot_records(fs.open(PATH), PATH)) == topics(20_000)


def test_offsets_go_on_from_batch_to_batch_and_no_batch_is_large() -> None:
    _, data = written(topics(20_000))
    headers = [header for _, header in iter_headers(data)]
    assert len(headers) > 4
    assert [header.base_offset for header in headers[1:]] == [
        header.next_offset for header in headers[:-1]
    ]
    assert {header.leader_epoch for header in headers} == {3}
    assert max(header.size for header in headers) < 1 << 20


def test_records_are_written_as_their_metadata_version_says() -> None:
    partition = PartitionRecord(partition_id=0, topic_id=bytes(16), replicas=[1], isr=[1])
    old, new = (
        written([FeatureLevelRecord(METADATA_VERSION_FEATURE, level), partition])[1]
        for level in (21, 25)
    )
    assert old != new
    assert len(old) == len(new)  # the version in the frame is all that differs


def test_snapshot_without_its_end_is_refused() -> None:
    fs, data = written(topics(10))
    last = [position for position, _ in iter_headers(data)][-1]
    with pytest.raises(CorruptFile, match="has no end"):
        list(snapshot_records(stored(fs, data[:last]), PATH))


def test_snapshot_cut_inside_a_batch_is_refused() -> None:
    fs, data = written(topics(10))
    with pytest.raises(CorruptFile):
        list(snapshot_records(stored(fs, data[:-3]), PATH))


def test_flipped_bit_is_found() -> None:
    fs, data = written(topics(10))
    broken = bytearray(data)
    broken[len(data) // 2] ^= 1
    with pytest.raises(CorruptFile):
        list(snapshot_records(stored(fs, bytes(broken)), PATH))


def test_more_behind_the_end_is_refused() -> None:
    fs, data = written(topics(10))
    with pytest.raises(CorruptFile, match="more follows"):
        list(snapshot_records(stored(fs, data + data), PATH))


def test_records_before_the_beginning_are_refused() -> None:
    fs, data = written(topics(10))
    second = [position for position, _ in iter_headers(data)][1]
    with pytest.raises(CorruptFile, match="no beginning"):
        list(snapshot_records(stored(fs, data[second:]), PATH))


def test_size_that_a_stranger_announces_is_not_believed() -> None:
    fs, data = written(topics(10))
    huge = bytearray(data)
    huge[8:12] = (1 << 30).to_bytes(4, "big")
    with pytest.raises(CorruptFile, match="a batch of"):
        list(snapshot_records(stored(fs, bytes(huge)), PATH))
