"""Partition directories that Apache Kafka wrote, opened by our loader. See kafka/PROVENANCE.md.

Each is opened twice: as left by a clean stop, and as if the machine had died and nothing were
known to be durable. Both times every record, batch, index entry and producer must be what Kafka's
own tools and an independent client say; and the indexes that recovery rebuilds are compared with
the bytes Kafka wrote.
"""

import shutil
from pathlib import Path

import pytest

from ledgerstone.records.batch import iter_headers
from ledgerstone.sim.clock import VirtualClock
from ledgerstone.sim.dice import SeededDice
from ledgerstone.storage import offset_index, time_index, txn_index
from ledgerstone.storage.checkpoints import LeaderEpochCheckpoint, PartitionMetadata
from ledgerstone.storage.log_config import LogConfig
from ledgerstone.storage.log_dir import open_log_dir
from ledgerstone.storage.log_reader import offset_for_timestamp, read
from ledgerstone.storage.producer_snapshot import decode_snapshot
from ledgerstone.system import OsFilesystem
from tests.kit.golden import (
    COPY,
    INDEXES,
    KAFKA,
    Golden,
    as_json,
    batches_of,
    committed,
    copied,
    expected_producers,
    files_of,
    golden_directories,
    opened,
    producers_of,
    times_of,
    uncommitted,
    with_data_left,
)

CASES = (
    "cleaner-lz4",
    "cleaner-txn",
    "cleaner-uncompressed",
    "codec-gzip",
    "codec-lz4",
    "codec-none",
    "codec-snappy",
    "codec-zstd",
    "compacted-once",
    "compacted-twice",
    "idempotent",
    "log-append-time",
    "log-dir",
    "transactions",
    "unclean",
)

ALL = list(golden_directories())
GOLDEN = [pytest.param(golden, id=golden.label) for golden in ALL]
CLEAN = [pytest.param(golden, id=golden.label) for golden in ALL if golden.was_stopped]
# A broker that starts again counts the bytes since the last index entry from 0, and the time index
# entry its stop forced stays where it is: a scan from the segment's beginning finds other places.
WRITTEN_ACROSS_A_RESTART = {
    "cleaner-lz4/before2/cleaner-lz4-0": {
        "00000000000000000094.index",
        "00000000000000000094.timeindex",
    }
}


def test_every_case_is_there() -> None:
    """A case that went missing must not pass for one that was tested."""
    found = {path.relative_to(KAFKA).parts[0] for path in KAFKA.rglob("expected.json")}

    assert sorted(found) == list(CASES)
    assert len(GOLDEN) >= 30


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "unclean"])
@pytest.mark.parametrize("golden", GOLDEN)
def test_records_batches_and_offsets_are_what_kafka_says(golden: Golden, clean: bool) -> None:
    log = opened(golden, copied(golden), clean=clean and golden.was_stopped)
    expected = golden.expected

    assert log.log_start_offset == expected["logStartOffset"]
    assert log.log_end_offset == expected["logEndOffset"]
    assert log.last_stable_offset == expected["lastStableOffset"]
    assert [as_json(*found) for found in uncommitted(log)] == expected["records"]
    if "recordsReadCommitted" in expected:
        assert [as_json(*found) for found in committed(log)] == expected["recordsReadCommitted"]
    shown = batches_of(log)
    assert len(shown) == len(expected["batches"])
    for ours, kafkas in zip(shown, expected["batches"], strict=True):
        assert ours == {name: kafkas[name] for name in ours}


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "unclean"])
@pytest.mark.parametrize("golden", CLEAN)
def test_producers_are_those_of_kafkas_last_snapshot(golden: Golden, clean: bool) -> None:
    log = opened(golden, copied(golden), clean=clean)

    assert producers_of(log) == expected_producers(golden)


@pytest.mark.parametrize("golden", CLEAN)
def test_producers_rebuilt_from_batches_alone_are_those_of_kafkas_last_snapshot(
    golden: Golden,
) -> None:
    log = opened(golden, copied(golden, without=".snapshot"), clean=False)

    assert producers_of(log) == expected_producers(golden)


@pytest.mark.parametrize("golden", GOLDEN)
def test_every_offset_and_every_time_is_found(golden: Golden) -> None:
    log = opened(golden, copied(golden), clean=False)
    ends = [(batch["baseOffset"], batch["lastOffset"]) for batch in golden.expected["batches"]]
    times = times_of(golden)

    for offset in range(log.log_start_offset, log.log_end_offset):
        piece = read(log, offset, max_bytes=1).slice
        following = [batch for batch in ends if batch[1] >= offset]
        if not following:
            assert piece is None
            continue
        assert piece is not None
        _, header = next(iter_headers(piece.read()))
        assert (header.base_offset, header.last_offset) == following[0]
    for timestamp in sorted({time for time, _ in times}):
        first = next(entry for entry in times if entry[0] >= timestamp)
        assert offset_for_timestamp(log, timestamp) == first


@pytest.mark.parametrize("golden", GOLDEN)
def test_index_files_read_as_kafkas_dump_says(golden: Golden) -> None:
    expected = golden.expected
    for name, entries in expected["index"].items():
        data = (golden.directory / name).read_bytes()
        found = offset_index.decode_entries(data, int(name.split(".")[0]))
        assert [list(entry) for entry in found[: len(entries)]] == entries, name
    for name, entries in expected["timeindex"].items():
        data = (golden.directory / name).read_bytes()
        found_times = time_index.decode_entries(data, int(name.split(".")[0]))
        assert [list(entry) for entry in found_times[: len(entries)]] == entries, name
    for name, entries in expected["txnindex"].items():
        found_txns = txn_index.decode_entries((golden.directory / name).read_bytes(), name)
        assert [
            (e["producerId"], e["firstOffset"], e["lastOffset"], e["lastStableOffset"])
            for e in entries
        ] == found_txns, name
    for name, entries in expected["snapshot"].items():
        snapshot = decode_snapshot((golden.directory / name).read_bytes(), name)
        assert [entry.producer_id for entry in snapshot] == [e["producerId"] for e in entries], name


@pytest.mark.parametrize("golden", CLEAN)
def test_rebuilt_indexes_are_kafkas_byte_for_byte(golden: Golden) -> None:
    fs = copied(golden)
    kafkas = files_of(fs, *INDEXES)
    log = opened(golden, fs, clean=False)

    log.close()

    ours = files_of(fs, *INDEXES)
    assert sorted(ours) == sorted(kafkas)
    different = {name for name in kafkas if ours[name] != kafkas[name]}
    forgotten = {name for name in different if name.endswith(".txnindex")}
    for name in forgotten:
        assert txn_index.decode_entries(ours[name]) == with_data_left(golden, kafkas[name]), name
    assert different - forgotten == WRITTEN_ACROSS_A_RESTART.get(golden.label, set())


def test_recovery_after_a_kill_leaves_the_files_kafkas_recovery_left() -> None:
    by_label = {golden.label: golden for golden in ALL}
    killed = by_label["unclean/killed/unclean-0"]
    recovered = by_label["unclean/recovered/unclean-0"]
    fs = copied(killed)
    log = opened(killed, fs, clean=False)

    log.close()

    assert files_of(fs, ".log", *INDEXES) == files_of(copied(recovered), ".log", *INDEXES)
    assert producers_of(log) == expected_producers(recovered)


@pytest.mark.parametrize("golden", CLEAN)
def test_clean_open_and_close_changes_no_byte_of_log_and_indexes(golden: Golden) -> None:
    fs = copied(golden)
    before = files_of(fs, ".log", *INDEXES)

    opened(golden, fs, clean=True).close()

    assert files_of(fs, ".log", *INDEXES) == before


@pytest.mark.parametrize("golden", CLEAN)
def test_epochs_and_topic_id_are_read(golden: Golden) -> None:
    fs = copied(golden)
    written = LeaderEpochCheckpoint(fs, f"{COPY}/leader-epoch-checkpoint").read()
    topic_id = PartitionMetadata(fs, f"{COPY}/partition.metadata").read()

    log = opened(golden, fs, clean=True)

    # An epoch that begins at the end of the log has no record yet; Kafka drops it at load too.
    start, end = log.log_start_offset, log.log_end_offset
    kept = [entry for entry in written if entry.start_offset < end]
    assert [entry.epoch for entry in log.epochs.entries()] == [entry.epoch for entry in kept]
    assert all(entry.start_offset >= start for entry in log.epochs.entries())
    assert topic_id is not None


def test_log_directory_of_a_stopped_broker_is_taken_over(tmp_path: Path) -> None:
    copy = tmp_path / "log-dir"
    shutil.copytree(KAFKA / "log-dir", copy)
    clock = VirtualClock(start_ms=1_794_800_000_000)

    log_dir = open_log_dir(OsFilesystem(), clock, SeededDice(0), str(copy), node_id=1)
    logs = {str(log.topic_partition): log for log in log_dir.load(lambda _: LogConfig())}

    assert log_dir.remembered.clean
    assert log_dir.meta.cluster_id == "TGVkZ2Vyc3RvbmVHb2xkZQ"
    assert sorted(logs) == ["__cluster_metadata-0", "empty-0", "trimmed-0"]
    trimmed, empty = logs["trimmed-0"], logs["empty-0"]
    assert (trimmed.log_start_offset, trimmed.high_watermark, trimmed.log_end_offset) == (
        20,
        54,
        54,
    )
    assert (empty.log_start_offset, empty.log_end_offset) == (0, 0)
    assert all(recovery.segments_scanned == 0 for recovery in log_dir.recoveries.values())
    assert not (copy / ".kafka_cleanshutdown").exists()
    log_dir.close()
    assert (copy / ".kafka_cleanshutdown").exists()
