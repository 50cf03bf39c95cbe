"""Segment files read without a broker."""

import errno
import os
from pathlib import Path

import pytest

from ledgerstone.errors import ConfigError, CorruptFile
from ledgerstone.records.builder import build_batch
from ledgerstone.records.control import end_txn_marker
from ledgerstone.spark import log_dirs
from ledgerstone.spark.errors import DataLoss
from ledgerstone.spark.gaps import Gap, GapReason, gaps_in
from ledgerstone.spark.log_dirs import DirectoryTask, LogDirReader, partition_dirs
from ledgerstone.spark.log_files import InterruptedSwap, PartitionFiles
from ledgerstone.spark.planning import OffsetRange
from ledgerstone.spark.read_options import ReadOptions, RowOptions, Rows, read_options
from ledgerstone.spark.schema import Projection, projection, schema_of
from ledgerstone.storage.checkpoints import OffsetCheckpoint
from ledgerstone.storage.filenames import LOG_START_OFFSET_CHECKPOINT
from ledgerstone.storage.txn_index import AbortedTxnEntry, encode_entry
from ledgerstone.system import OsFilesystem
from ledgerstone.types import AbortedTxn, TopicPartition


def batch(offset: int, producer_id: int = -1) -> bytes:
    is_known = producer_id >= 0
    return bytes(
        build_batch(
            [(0, b"k", b"v", ())],
            base_offset=offset,
            producer_id=producer_id,
            producer_epoch=0 if is_known else -1,
            base_sequence=0 if is_known else -1,
            transactional=is_known,
        )
    )


def marker(offset: int, producer_id: int, *, commit: bool) -> bytes:
    return bytes(
        end_txn_marker(
            commit=commit,
            producer_id=producer_id,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp=0,
            base_offset=offset,
        )
    )


def segment(directory: Path, base: int, data: bytes) -> None:
    directory.mkdir(exist_ok=True)
    (directory / f"{base:020d}.log").write_bytes(data)


def test_windows_hold_the_segments_from_an_offset_on(tmp_path: Path) -> None:
    segment(tmp_path, 0, batch(0) + batch(1))
    segment(tmp_path, 5, batch(5))
    segment(tmp_path, 9, batch(9) + batch(10)[:-3])  # torn by a crash
    files = PartitionFiles(tmp_path)

    windows = list(files.windows_from(6))

    assert [bytes(window.data) for window in windows] == [batch(9)]
    assert [window.fetch_offset for window in files.windows_from(1)] == [1, 2, 6]
    assert files.end_offset(committed=False) == 10


@pytest.mark.parametrize("committed", [True, False])
def test_a_segment_that_is_torn_before_others_is_damage(tmp_path: Path, committed: bool) -> None:
    segment(tmp_path, 0, batch(0) + batch(1)[:-3])
    segment(tmp_path, 2, batch(2))

    with pytest.raises(CorruptFile, match=r"0\.log at \d+: a batch is cut off, and more follow"):
        PartitionFiles(tmp_path).end_offset(committed=committed)


def test_an_open_transaction_ends_what_is_committed(tmp_path: Path) -> None:
    committed = batch(0, 7) + marker(1, 7, commit=True)
    segment(tmp_path, 0, committed + batch(2, 8) + batch(3))

    files = PartitionFiles(tmp_path)

    assert files.end_offset(committed=True) == 2
    assert files.end_offset(committed=False) == 4


def test_aborted_transactions_come_with_the_windows_they_touch(tmp_path: Path) -> None:
    segment(tmp_path, 0, batch(0, 7) + marker(1, 7, commit=False))
    segment(tmp_path, 2, batch(2))
    (tmp_path / f"{0:020d}.txnindex").write_bytes(encode_entry(AbortedTxnEntry(7, 0, 1, 2)))

    first, second = PartitionFiles(tmp_path).windows_from(0)

    assert first.aborted == (AbortedTxn(7, 0),)
    assert second.aborted == ()


def test_a_directory_in_the_middle_of_a_swap_is_refused(tmp_path: Path) -> None:
    segment(tmp_path, 0, batch(0))
    (tmp_path / f"{0:020d}.log.swap").write_bytes(b"")

    with pytest.raises(InterruptedSwap, match="start a broker"):
        PartitionFiles(tmp_path)


def test_partitions_are_found_in_a_log_directory_and_by_themselves(tmp_path: Path) -> None:
    segment(tmp_path / "a-topic-11", 0, batch(0))
    segment(tmp_path / f"gone-0.{'0' * 32}-delete", 0, batch(0))
    expected = [(TopicPartition("a-topic", 11), tmp_path / "a-topic-11")]

    assert list(partition_dirs(tmp_path)) == expected
    assert list(partition_dirs(tmp_path / "a-topic-11")) == expected
    with pytest.raises(ConfigError, match="not a directory"):
        list(partition_dirs(tmp_path / "nowhere"))


def test_records_that_were_deleted_stay_so_in_a_backup_that_nobody_can_write_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    segment(tmp_path / "t-0", 0, batch(0) + batch(1) + batch(2))
    checkpoint = tmp_path / LOG_START_OFFSET_CHECKPOINT
    OffsetCheckpoint(OsFilesystem(), str(checkpoint)).write({TopicPartition("t", 0): 2})
    really_opened = os.open

    def opened(path: str, flags: int, mode: int = 0o777) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        return really_opened(path, flags, mode)

    monkeypatch.setattr(os, "open", opened)
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)
    options = read_options({"path": str(tmp_path)}, streaming=False)
    shape = projection(schema_of(Rows.RECORDS, include_headers=False), Rows.RECORDS)

    (task,) = LogDirReader(options, shape).partitions()

    assert isinstance(task, DirectoryTask)
    assert task.wanted.start_offset == 2


def test_holes_between_files_are_compacted_and_only_what_lies_before_them_is_deleted(
    tmp_path: Path,
) -> None:
    segment(tmp_path, 2, batch(3))
    segment(tmp_path, 5, batch(6))
    files = PartitionFiles(tmp_path)
    wanted = OffsetRange(TopicPartition("t", 0), 0, 7)

    found = list(gaps_in(files.windows_from(0), wanted, RowOptions()))

    assert found == [
        Gap(0, 2, GapReason.DELETED),
        Gap(2, 3, GapReason.COMPACTED),
        Gap(4, 6, GapReason.COMPACTED),
    ]


def asked_of(path: str, **more: str) -> tuple[ReadOptions, Projection]:
    options = read_options({"path": path, **more}, streaming=False)
    return options, projection(schema_of(Rows.RECORDS, include_headers=False), Rows.RECORDS)


def offsets_of(path: Path, **more: str) -> list[int]:
    reader = LogDirReader(*asked_of(str(path), **more))
    return [
        offset
        for task in reader.partitions()
        for each in reader.read(task)
        for offset in each["offset"].to_pylist()
    ]


@pytest.mark.parametrize(
    ("option", "offset", "loss"),
    [
        ("startingOffsets", 1, r"t-0 is asked for from 1 on, and the files begin at 2"),
        ("endingOffsets", 9, r"t-0 is asked for up to 9, and the files end at 4"),
    ],
)
def test_offsets_that_are_asked_for_and_not_in_the_files_are_lost_data(
    tmp_path: Path, option: str, offset: int, loss: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_dirs, "settle", lambda: None)  # pytest's objects are not to be frozen
    segment(tmp_path / "t-0", 2, batch(2) + batch(3))
    asked = {option: f'{{"t": {{"0": {offset}}}}}'}

    with pytest.raises(DataLoss, match=f"{loss}; set failOnDataLoss=false"):
        offsets_of(tmp_path, **asked)

    assert offsets_of(tmp_path, **asked, failOnDataLoss="false") == [2, 3]
    assert offsets_of(tmp_path) == [2, 3]


def test_partition_that_is_in_two_directories_is_read_from_neither(tmp_path: Path) -> None:
    for broker in ("one", "two"):
        (tmp_path / broker).mkdir()
        segment(tmp_path / broker / "t-0", 0, batch(0))
    segment(tmp_path / "two" / "other-0", 0, batch(0))
    both = f"{tmp_path / 'one'},{tmp_path / 'two'}"

    with pytest.raises(ConfigError, match=r"t-0 is in .*one/t-0 and in .*two/t-0"):
        LogDirReader(*asked_of(both)).partitions()

    assert len(LogDirReader(*asked_of(both, subscribe="other")).partitions()) == 1
    assert len(LogDirReader(*asked_of(f"{tmp_path / 'one'},{tmp_path / 'one'}")).partitions()) == 1
