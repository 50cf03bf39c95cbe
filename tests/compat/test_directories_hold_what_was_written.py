"""Our own decoders on the directories that Kafka is shown, written to the simulated disk.

What Kafka makes of them is in test_kafka_reads_our_directories.py and
test_kafka_continues_our_directories.py, which need Java; here it is made sure that the model and
the files agree, and that no kind of file is missing from the collection.
"""

from collections.abc import Mapping
from typing import NamedTuple

import pytest

from ledgerstone.fs import join, name_of, parent_of
from ledgerstone.records.batch import Codec
from ledgerstone.sim.clock import VirtualClock
from ledgerstone.sim.dice import SeededDice
from ledgerstone.sim.filesystem import SimFilesystem
from ledgerstone.storage.checkpoints import LeaderEpochCheckpoint, OffsetCheckpoint
from ledgerstone.storage.filenames import (
    HIGH_WATERMARK_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
)
from tests.kit.directories import KINDS, write_directories
from tests.kit.expected_dump import LogModel
from tests.kit.logs import T0
from tests.kit.our_dump import read_files

NAMES = [kind.name for kind in KINDS]
PATH = "/data"


class Written(NamedTuple):
    fs: SimFilesystem
    models: Mapping[str, LogModel]

    def files_of(self, name: str) -> dict[str, bytes]:
        directory = join(PATH, f"{name}-0")
        files = self.fs.files().items()
        return {name_of(path): bytes(data) for path, data in files if parent_of(path) == directory}


@pytest.fixture(scope="module")
def written() -> Written:
    fs = SimFilesystem(dice=SeededDice(0), clock=VirtualClock(start_ms=T0))
    return Written(fs, write_directories(fs, PATH, now_ms=T0))


@pytest.mark.parametrize("name", NAMES)
def test_files_hold_what_was_written(written: Written, name: str) -> None:
    expected = written.models[name].files()

    found = read_files(written.files_of(name))

    assert sorted(found) == sorted(expected)
    for file in expected:
        assert found[file] == expected[file]


@pytest.mark.parametrize("name", NAMES)
def test_epochs_are_written_down(written: Written, name: str) -> None:
    path = join(join(PATH, f"{name}-0"), LEADER_EPOCH_CHECKPOINT)

    assert LeaderEpochCheckpoint(written.fs, path).read() == written.models[name].epochs


def test_offsets_are_written_down(written: Written) -> None:
    models = {kind.topic_partition: written.models[kind.name] for kind in KINDS}
    ends = {partition: model.end_offset for partition, model in models.items()}
    starts = {
        partition: model.start_offset
        for partition, model in models.items()
        if model.start_offset > model.segments[0].base_offset
    }

    assert OffsetCheckpoint(written.fs, join(PATH, RECOVERY_POINT_CHECKPOINT)).read() == ends
    assert OffsetCheckpoint(written.fs, join(PATH, HIGH_WATERMARK_CHECKPOINT)).read() == ends
    assert OffsetCheckpoint(written.fs, join(PATH, LOG_START_OFFSET_CHECKPOINT)).read() == starts


def test_no_temporary_file_is_left(written: Written) -> None:
    known = (".log", ".index", ".timeindex", ".txnindex", ".snapshot", LEADER_EPOCH_CHECKPOINT)

    names = [name for kind in KINDS for name in written.files_of(kind.name)]

    assert [name for name in names if not name.endswith(known)] == []


def test_collection_has_every_kind_of_batch(written: Written) -> None:
    """A reader of the directory proves nothing about what is not in it."""
    batches = [batch for model in written.models.values() for batch in model.batches]
    data = [batch for batch in batches if not batch.is_control]
    dated = [batch for batch in batches if batch.delete_horizon_ms is not None]

    assert {batch.compresscodec for batch in data if batch.count} == {c.name.lower() for c in Codec}
    assert {batch.compresscodec for batch in dated} == {c.name.lower() for c in Codec}
    assert {batch.timestamp_type for batch in data} == {"CreateTime", "LogAppendTime"}
    assert {batch.partition_leader_epoch for batch in data} == {0, 1, 2}
    assert any(batch.is_control for batch in dated)
    assert any(record.value is None for batch in dated for record in batch.records)
    assert any(batch.count == 0 and batch.producer_id >= 0 for batch in data)
    assert any(batch.count == 0 and batch.is_control for batch in batches)
    assert any(0 < batch.count <= batch.last_offset - batch.base_offset for batch in data)
    assert any(batch.last_sequence < batch.base_sequence for batch in data)
    assert any(batch.max_timestamp == -1 for batch in data)
    assert any(batch.base_offset > 2**32 for batch in data)


def test_collection_has_every_kind_of_file(written: Written) -> None:
    models = written.models.values()
    segments = [segment for model in models for segment in model.segments]

    assert max(len(segment.index) for segment in segments) > 10
    assert max(len(segment.time_index) for segment in segments) > 10
    assert sum(len(segment.aborted) for segment in segments) > 5
    assert any(segment.has_txn_index and not segment.aborted for segment in segments)
    assert any(not segment.batches for segment in segments)
    assert any(model.last_stable_offset < model.end_offset for model in models)
    assert any(model.start_offset > model.segments[0].base_offset for model in models)
    assert any(len(model.records) > len(model.committed) > 0 for model in models)
    producers = [p for model in models for taken in model.snapshots.values() for p in taken]
    assert any(producer.last_offset is None for producer in producers)
    assert any(producer.current_txn_first_offset is not None for producer in producers)
