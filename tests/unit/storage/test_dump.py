"""What `storage.dump` finds in files: ours, Kafka's, and broken ones."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from ledgerstone.fs import Filesystem
from ledgerstone.records.batch import ATTRIBUTES_AT, HEADER_SIZE, Codec, write_crc
from ledgerstone.records.builder import RecordParts, build_batch
from ledgerstone.records.control import end_txn_marker
from ledgerstone.sim.dice import SeededDice
from ledgerstone.sim.filesystem import SimFile, SimFilesystem
from ledgerstone.storage import dump_log, offset_index, time_index
from ledgerstone.storage.checkpoints import (
    LeaderEpochCheckpoint,
    OffsetCheckpoint,
    PartitionMetadata,
)
from ledgerstone.storage.dump import Fact, PartitionTotals, dump_path
from ledgerstone.storage.dump_facts import (
    AbortedTxnFacts,
    CheckpointFacts,
    CleanShutdownFacts,
    FileFacts,
    FileFormat,
    IndexTotals,
    LeaderEpochFacts,
    MetaPropertiesFacts,
    OffsetIndexEntry,
    Problem,
    ProducerFacts,
    TimeIndexEntry,
    TopicIdFacts,
    UnfinishedFacts,
)
from ledgerstone.storage.dump_log import BatchFacts, DumpOptions, LogTotals, RecordFacts
from ledgerstone.storage.leader_epochs import EpochEntry
from ledgerstone.storage.log_config import LogConfig
from ledgerstone.storage.log_dir_files import (
    CleanShutdownFile,
    MetaProperties,
    write_meta_properties,
)
from ledgerstone.storage.producer_snapshot import SnapshotEntry, encode_snapshot
from ledgerstone.storage.txn_index import AbortedTxnEntry, encode_entry
from ledgerstone.system import OsFilesystem
from ledgerstone.types import TopicPartition
from tests.kit.logs import World, batch

T = 1_700_000_000_000
HORIZON = 1_700_086_401_000
DIRECTORY = "/logs/orders-0"
LOG = f"{DIRECTORY}/{0:020d}.log"
INDEX = f"{DIRECTORY}/{0:020d}.index"
TIME_INDEX = f"{DIRECTORY}/{0:020d}.timeindex"
TXN_INDEX = f"{DIRECTORY}/{0:020d}.txnindex"
STAMPED_TOMBSTONE = bytes.fromhex(
    "00000000000000070000003d0000000302d585f1060040000000000000018bd50bc7e80000018bcfe56800"
    "ffffffffffffffffffffffffffff000000011600cfffb25200046b310100"
)
GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "kafka"
EVERYTHING = DumpOptions(records=True, deep=True, verify=True)

FactType = TypeVar("FactType")


def pair(key: str, value: str | None, timestamp: int = T) -> RecordParts:
    return timestamp, key.encode(), None if value is None else value.encode(), ()


def disk_with(files: dict[str, bytes]) -> SimFilesystem:
    fs = SimFilesystem(dice=SeededDice(0))
    fs.make_dir(DIRECTORY)
    for path, data in files.items():
        fs.open(path, create=True).pwrite(data, 0)
    return fs


def dumped(fs: Filesystem, path: str, options: DumpOptions = EVERYTHING) -> list[Fact]:
    return list(dump_path(fs, path, options))


def only(kind: type[FactType], facts: Sequence[Fact]) -> list[FactType]:
    return [fact for fact in facts if isinstance(fact, kind)]


def problems(facts: Sequence[Fact]) -> list[tuple[str, int, str]]:
    return [(fact.path, fact.position, fact.reason) for fact in only(Problem, facts)]


def three_batches() -> list[bytes]:
    """Offsets 0-1, 2 and 3, the timestamps T, T + 20 and T + 10."""
    return [
        bytes(build_batch([pair("a", "1"), pair("b", None)], leader_epoch=4)),
        bytes(build_batch([pair("c", "2", T + 20)], base_offset=2)),
        bytes(build_batch([pair("a", None, T + 10)], base_offset=3)),
    ]


def resealed(batch: bytes, at: int, value: int) -> bytes:
    """One byte changed and the CRC made to agree."""
    changed = bytearray(batch)
    changed[at] = value
    write_crc(changed, 0, len(changed))
    return bytes(changed)


# -- logs -------------------------------------------------------------------------------------


def test_stamped_tombstone_shows_its_horizon_and_its_own_time() -> None:
    path = f"{DIRECTORY}/{7:020d}.log"

    facts = dumped(disk_with({path: STAMPED_TOMBSTONE}), path)

    (batch,) = only(BatchFacts, facts)
    assert (batch.base_offset, batch.last_offset, batch.leader_epoch) == (7, 7, 3)
    assert (batch.tombstone_count, batch.delete_horizon_ms, batch.is_valid) == (1, HORIZON, True)
    (record,) = only(RecordFacts, facts)
    assert (record.key, record.value, record.is_tombstone) == (b"k1", None, True)
    assert record.timestamp_ms == T
    (totals,) = only(LogTotals, facts)
    assert (totals.pending_horizon_count, totals.earliest_delete_horizon_ms) == (1, HORIZON)


def test_horizon_without_tombstones_is_not_pending() -> None:
    log = bytes(build_batch([pair("a", "1")], delete_horizon_ms=HORIZON))

    facts = dumped(disk_with({LOG: log}), LOG)

    assert only(BatchFacts, facts)[0].delete_horizon_ms == HORIZON
    assert only(LogTotals, facts)[0].pending_horizon_count == 0


@pytest.mark.parametrize(("commit", "name"), [(True, "COMMIT"), (False, "ABORT")])
def test_control_batch_says_what_it_decides(commit: bool, name: str) -> None:
    marker = end_txn_marker(
        commit=commit, producer_id=42, producer_epoch=1, coordinator_epoch=9, timestamp=T
    )

    facts = dumped(disk_with({LOG: bytes(marker)}), LOG)

    (batch,) = only(BatchFacts, facts)
    assert (batch.is_control, batch.control_type, batch.coordinator_epoch) == (True, name, 9)
    assert (batch.is_transactional, batch.producer_id, batch.producer_epoch) == (True, 42, 1)
    assert (batch.tombstone_count, only(RecordFacts, facts)[0].is_tombstone) == (0, False)


@pytest.mark.parametrize("codec", list(Codec))
def test_records_of_every_codec_are_shown(codec: Codec) -> None:
    parts: list[RecordParts] = [(T, b"k", b"v", [("h", None)]), (T, None, b"", ()), pair("d", None)]
    log = bytes(build_batch(parts, codec=codec, base_offset=5))

    facts = dumped(disk_with({LOG: log}), LOG)

    assert only(BatchFacts, facts)[0].codec == codec.name.lower()
    shown = [(r.offset, r.key, r.value, r.headers) for r in only(RecordFacts, facts)]
    assert shown == [(5, b"k", b"v", (("h", None),)), (6, None, b"", ()), (7, b"d", None, ())]


def test_large_logs_give_the_same_facts_through_the_kernels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    faulty = resealed(three_batches()[1], HEADER_SIZE, 0x7F)
    fs = disk_with({LOG: b"".join([three_batches()[0], faulty, three_batches()[2]])})
    plain = dumped(fs, LOG)

    monkeypatch.setattr(dump_log, "KERNEL_FILE_BYTES", 0)

    assert dumped(fs, LOG) == plain
    assert len(only(Problem, plain)) == 1


def test_wrong_crc_is_a_problem_and_the_next_batch_is_still_shown() -> None:
    first, second, third = three_batches()
    broken = second[:-1] + b"!"

    facts = dumped(disk_with({LOG: first + broken + third}), LOG)

    ((path, position, reason),) = problems(facts)
    assert (path, position) == (LOG, len(first))
    assert "crc" in reason
    assert [batch.is_valid for batch in only(BatchFacts, facts)] == [True, False, True]
    assert [batch.tombstone_count for batch in only(BatchFacts, facts)] == [1, None, 1]
    assert [record.offset for record in only(RecordFacts, facts)] == [0, 1, 3]


def test_codec_nobody_knows_is_a_problem() -> None:
    log = resealed(three_batches()[1], ATTRIBUTES_AT + 1, 7)

    facts = dumped(disk_with({LOG: log}), LOG)

    assert only(BatchFacts, facts)[0].codec == "codec_7"
    assert "codec 7" in problems(facts)[0][2]


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        (three_batches()[1] * 2, "base offset 2, expected 3 or more"),
        (
            bytes(build_batch([pair("a", "1"), pair("b", "2")], offsets=[0, 0])),
            "2 records for 1 offsets",
        ),
        (
            bytes(build_batch([pair("a", "1")], offsets=[4], last_offset_delta=2)),
            "last record has offset 4, the batch ends at 2",
        ),
        (
            bytes(build_batch([pair("a", "1")], max_timestamp=T - 1)),
            f"a record has timestamp {T}, the batch at most {T - 1}",
        ),
        (
            bytes(build_batch([pair("a", "1")], base_offset=2**31)),
            f"last offset {2**31} is too far from 0",
        ),
    ],
)
def test_header_that_contradicts_the_log_or_its_records_is_a_problem(
    log: bytes, reason: str
) -> None:
    facts = dumped(disk_with({LOG: log}), LOG)

    assert [found for _, _, found in problems(facts)] == [reason]


def test_incomplete_batch_is_reported_where_it_begins() -> None:
    first, second, _ = three_batches()

    facts = dumped(disk_with({LOG: first + second[:-3]}), LOG)

    reason = f"incomplete batch: {len(second) - 3} bytes of {len(second)}"
    assert problems(facts) == [(LOG, len(first), reason)]
    assert only(LogTotals, facts)[0].batch_bytes == len(first)


def test_zeros_after_the_last_batch_are_preallocated_space_and_no_problem() -> None:
    log = b"".join(three_batches())

    facts = dumped(disk_with({LOG: log + bytes(5000)}), LOG)

    assert problems(facts) == []
    assert only(LogTotals, facts)[0].zero_tail_bytes == 5000


def test_noise_beyond_the_first_window_is_reported_at_its_place_in_the_file() -> None:
    large = [
        bytes(build_batch([pair("k", "v" * 300_000)], base_offset=offset)) for offset in range(5)
    ]
    log = b"".join(large)

    facts = dumped(disk_with({LOG: log + b"\xff" * 100}), LOG)

    ((_, position, reason),) = problems(facts)
    assert position == len(log)
    assert reason == "magic -1 with batch length -1"


def test_batch_larger_than_the_window_is_shown() -> None:
    log = bytes(build_batch([pair("k", "v" * 3_000_000)]))

    facts = dumped(disk_with({LOG: log}), LOG)

    assert problems(facts) == []
    assert len(only(RecordFacts, facts)[0].value or b"") == 3_000_000


def test_every_cut_and_every_flipped_byte_is_a_problem_unless_it_is_a_gap_or_an_epoch() -> None:
    log = b"".join(three_batches()) + bytes(
        end_txn_marker(
            commit=True,
            producer_id=1,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp=T,
            base_offset=4,
        )
    )
    ends = [len(b"".join(three_batches()[:count])) for count in range(4)]
    cuts = [
        log[:size]
        for size in range(1, len(log))
        if any(log[max(e for e in ends if e <= size) : size])
    ]
    flips = [log[:at] + bytes([log[at] ^ 0xFF]) + log[at + 1 :] for at in range(len(log))]

    silent_cuts = [c for c in cuts if not problems(dumped(disk_with({LOG: c}), LOG))]
    silent_flips = [c for c in flips if not problems(dumped(disk_with({LOG: c}), LOG))]

    assert silent_cuts == []
    # Outside the CRC and free to vary: the leader epochs, and the last base offset, upwards and
    # not too far.
    assert len(silent_flips) == 4 * 4 + 3


def test_damage_inside_the_crc_that_was_made_to_agree_never_raises() -> None:
    batch = bytes(build_batch([(T, b"key", b"value", [("h", b"x")]), pair("b", None)]))

    for at in range(ATTRIBUTES_AT, len(batch)):
        for value in (0x00, 0x01, 0x7F, 0x80, 0xFF):
            facts = dumped(disk_with({LOG: resealed(batch, at, value)}), LOG)
            assert only(LogTotals, facts)


def test_dump_changes_nothing_on_disk() -> None:
    fs = disk_with({LOG: b"".join(three_batches()) + b"junk", INDEX: b"odd", TIME_INDEX: b""})
    operations = fs.operation_count

    dumped(fs, DIRECTORY)

    assert fs.operation_count == operations


# -- filters ----------------------------------------------------------------------------------


def test_key_filter_shows_the_records_of_a_key_and_only_their_batches() -> None:
    fs = disk_with({LOG: b"".join(three_batches())})

    facts = dumped(fs, LOG, DumpOptions(key=b"a"))

    assert [type(fact) for fact in facts[:1]] == [FileFacts]
    assert [batch.base_offset for batch in only(BatchFacts, facts)] == [0, 3]
    assert [(r.offset, r.value) for r in only(RecordFacts, facts)] == [(0, b"1"), (3, None)]
    assert len(facts) == 5


def test_key_filter_mentions_no_file_without_the_key() -> None:
    fs = disk_with({LOG: b"".join(three_batches()), INDEX: bytes(8)})

    assert dumped(fs, DIRECTORY, DumpOptions(key=b"1")) == []


def test_key_filter_also_looks_into_files_that_await_deletion() -> None:
    leftover = f"{LOG}.deleted"
    fs = disk_with({leftover: b"".join(three_batches())})

    facts = dumped(fs, "/logs", DumpOptions(key=b"c"))

    assert [(r.path, r.offset) for r in only(RecordFacts, facts)] == [(leftover, 2)]


def test_key_filter_does_not_hide_a_batch_that_cannot_be_read() -> None:
    log = three_batches()[0][:-1] + b"!"

    facts = dumped(disk_with({LOG: log}), LOG, DumpOptions(key=b"zzz"))

    assert only(BatchFacts, facts) == []
    assert [position for _, position, _ in problems(facts)] == [0]


def test_offset_filter_is_half_open_and_cuts_inside_batches() -> None:
    fs = disk_with({LOG: b"".join(three_batches())})

    facts = dumped(fs, LOG, DumpOptions(offsets=range(1, 3)))

    assert [batch.base_offset for batch in only(BatchFacts, facts)] == [0, 2]
    assert [record.offset for record in only(RecordFacts, facts)] == [1, 2]


def test_offset_filter_opens_no_segment_that_ends_before() -> None:
    first, second, third = three_batches()
    later = f"{DIRECTORY}/{2:020d}.log"
    fs = disk_with({LOG: first[:-1] + b"!", later: second + third})

    facts = dumped(fs, DIRECTORY, DumpOptions(offsets=range(3, 4)))

    assert problems(facts) == []
    assert [(r.path, r.offset) for r in only(RecordFacts, facts)] == [(later, 3)]


# -- indexes ----------------------------------------------------------------------------------


def offsets_index(*entries: tuple[int, int]) -> bytes:
    return b"".join(offset_index.ENTRY.pack(*entry) for entry in entries)


def times_index(*entries: tuple[int, int]) -> bytes:
    return b"".join(time_index.ENTRY.pack(*entry) for entry in entries)


def with_index(path: str, content: bytes) -> SimFilesystem:
    return disk_with({LOG: b"".join(three_batches()), path: content})


SECOND_AT = len(three_batches()[0])
THIRD_AT = SECOND_AT + len(three_batches()[1])


def test_true_offset_index_is_shown_and_has_no_problem() -> None:
    fs = with_index(INDEX, offsets_index((2, SECOND_AT), (3, THIRD_AT)))

    facts = dumped(fs, INDEX)

    shown = [(e.position, e.offset, e.log_position) for e in only(OffsetIndexEntry, facts)]
    assert shown == [(0, 2, SECOND_AT), (8, 3, THIRD_AT)]
    assert problems(facts) == []


def test_offset_index_entry_of_a_set_of_batches_is_true() -> None:
    fs = with_index(INDEX, offsets_index((3, SECOND_AT)))

    assert problems(dumped(fs, INDEX)) == []


@pytest.mark.parametrize(
    ("entries", "position", "reason"),
    [
        ([(2, SECOND_AT + 1)], 0, f"no batch begins at log position {SECOND_AT + 1}"),
        ([(2, 9999), (3, THIRD_AT)], 0, "no batch begins at log position 9999"),
        (
            [(1, SECOND_AT), (3, THIRD_AT)],
            0,
            f"no batch from log position {SECOND_AT} on ends with offset 1",
        ),
        ([(2, SECOND_AT), (2, THIRD_AT)], 8, "offset 2 follows 2"),
        ([(2, SECOND_AT), (9, THIRD_AT)], 8, f"no batch from log position {THIRD_AT} on ends"),
        ([(3, 0), (3, THIRD_AT)], 0, "no batch from log position 0 on ends with offset 3"),
    ],
)
def test_false_offset_index_is_a_problem(
    entries: list[tuple[int, int]], position: int, reason: str
) -> None:
    found = problems(dumped(with_index(INDEX, offsets_index(*entries)), INDEX))

    assert found[0][:2] == (INDEX, position)
    assert found[0][2].startswith(reason)


def test_offset_index_is_held_against_the_log_only_when_asked() -> None:
    fs = with_index(INDEX, offsets_index((2, 1)))

    assert problems(dumped(fs, INDEX, DumpOptions())) == []


def test_index_without_a_log_cannot_be_verified() -> None:
    fs = disk_with({INDEX: offsets_index((2, SECOND_AT))})

    assert problems(dumped(fs, INDEX)) == [(INDEX, 0, f"no {0:020d}.log beside it")]


def test_index_of_a_swap_file_is_held_against_the_log_with_the_same_suffix() -> None:
    log = b"".join(three_batches())
    fs = disk_with({f"{LOG}.swap": log, f"{INDEX}.swap": offsets_index((2, SECOND_AT))})

    assert problems(dumped(fs, f"{INDEX}.swap")) == []


def test_true_time_index_has_no_problem() -> None:
    fs = with_index(TIME_INDEX, times_index((T, 1), (T + 20, 2)))

    facts = dumped(fs, TIME_INDEX)

    assert [(e.timestamp_ms, e.offset) for e in only(TimeIndexEntry, facts)] == [
        (T, 1),
        (T + 20, 2),
    ]
    assert problems(facts) == []


@pytest.mark.parametrize(
    ("entries", "position", "reason"),
    [
        ([(T + 1, 1)], 0, f"timestamp {T + 1}, but the batch with offset 1 has {T}"),
        ([(T + 10, 3)], 0, f"timestamp {T + 10}, but {T + 20} comes before offset 3"),
        ([(T + 20, 2), (T + 20, 3)], 12, f"timestamp and offset {(T + 20, 3)} follow"),
        ([(T + 20, 9)], 0, "offset 9 is in no batch of the log"),
    ],
)
def test_false_time_index_is_a_problem(
    entries: list[tuple[int, int]], position: int, reason: str
) -> None:
    found = problems(dumped(with_index(TIME_INDEX, times_index(*entries)), TIME_INDEX))

    assert [(path, at) for path, at, _ in found] == [(TIME_INDEX, position)]
    assert found[0][2].startswith(reason)


def test_zero_tail_that_kafka_preallocated_is_counted_and_not_shown() -> None:
    fs = with_index(INDEX, offsets_index((2, SECOND_AT)) + bytes(8 * 20_000))

    facts = dumped(fs, INDEX)

    totals = IndexTotals(path=INDEX, entry_count=1, zero_tail_bytes=8 * 20_000)
    assert facts[2:] == [totals]
    assert len(only(OffsetIndexEntry, facts)) == 1


def test_torn_index_shows_its_whole_entries_and_a_problem() -> None:
    fs = with_index(INDEX, offsets_index((2, SECOND_AT)) + b"\1\2\3")

    facts = dumped(fs, INDEX)

    assert len(only(OffsetIndexEntry, facts)) == 1
    assert problems(facts) == [(INDEX, 8, "length 11 is not a multiple of 8")]


def test_index_of_many_blocks_keeps_positions_and_base_offset() -> None:
    path = f"{DIRECTORY}/{100:020d}.index"
    entries = [(number, number * 70) for number in range(1, 20_001)]

    facts = only(
        OffsetIndexEntry, dumped(disk_with({path: offsets_index(*entries)}), path, DumpOptions())
    )

    assert [entry.position for entry in facts] == list(range(0, 160_000, 8))
    assert (facts[-1].offset, facts[-1].log_position) == (20_100, 1_400_000)


def test_txn_index_shows_aborted_transactions_and_their_disorder() -> None:
    entries = [
        AbortedTxnEntry(7, 3, 9, 10),
        AbortedTxnEntry(8, 12, 11, 13),
        AbortedTxnEntry(9, 1, 5, 6),
    ]
    fs = disk_with({TXN_INDEX: b"".join(map(encode_entry, entries))})

    facts = dumped(fs, TXN_INDEX)

    assert [entry.producer_id for entry in only(AbortedTxnFacts, facts)] == [7, 8, 9]
    assert [(position, reason) for _, position, reason in problems(facts)] == [
        (34, "first offset 12 is past last offset 11"),
        (68, "last offset 5 follows 11"),
    ]


def test_txn_index_of_an_unknown_version_is_a_problem_at_its_entry() -> None:
    good = encode_entry(AbortedTxnEntry(7, 3, 9, 10))
    many = b"".join(encode_entry(AbortedTxnEntry(7, n, n, n + 1)) for n in range(8192))

    facts = dumped(disk_with({TXN_INDEX: many + b"\0\5" + good[2:]}), TXN_INDEX)

    assert problems(facts) == [(TXN_INDEX, 8192 * 34, "version 5, only 0 is known")]


# -- snapshots and texts ----------------------------------------------------------------------


def test_snapshot_shows_each_producer() -> None:
    path = f"{DIRECTORY}/{13:020d}.snapshot"
    entry = SnapshotEntry(42, 1, 7, 12, 2, T, 9, -1)

    facts = dumped(
        disk_with({path: encode_snapshot([entry, entry._replace(producer_id=43)])}), path
    )

    producers = only(ProducerFacts, facts)
    assert [(p.position, p.producer_id) for p in producers] == [(10, 42), (56, 43)]
    assert (producers[0].timestamp_ms, producers[0].current_txn_first_offset) == (T, -1)


def test_snapshot_with_a_wrong_crc_is_a_problem_and_the_other_files_are_shown() -> None:
    path = f"{DIRECTORY}/{0:020d}.snapshot"
    data = bytearray(encode_snapshot([SnapshotEntry(42, 1, 7, 12, 2, T, 9, -1)]))
    data[-1] ^= 1
    fs = disk_with({LOG: b"".join(three_batches()), path: bytes(data), f"{DIRECTORY}/zzz": b"?"})

    facts = dumped(fs, DIRECTORY)

    ((where, position, reason),) = problems(facts)
    assert (where, position) == (path, 2)
    assert "crc" in reason
    shown = [(f.format, f.path) for f in only(FileFacts, facts)]
    assert shown[-1] == (FileFormat.FOREIGN, f"{DIRECTORY}/zzz")


def test_snapshot_whose_content_was_never_written_is_told_in_words_and_no_problem() -> None:
    path = f"{DIRECTORY}/{13:020d}.snapshot"

    facts = dumped(disk_with({path: b""}), path)

    (unfinished,) = only(UnfinishedFacts, facts)
    assert unfinished.reason.startswith("empty: ")
    assert problems(facts) == []


def test_leader_epochs_are_shown_and_must_rise() -> None:
    fs = disk_with({})
    path = f"{DIRECTORY}/leader-epoch-checkpoint"
    LeaderEpochCheckpoint(fs, path).write([EpochEntry(1, 0), EpochEntry(3, 9), EpochEntry(4, 9)])

    facts = dumped(fs, path)

    assert [e.leader_epoch for e in only(LeaderEpochFacts, facts)] == [1, 3, 4]
    assert problems(facts) == [(path, 5, "epoch and start offset (4, 9) follow (3, 9)")]


@pytest.mark.parametrize("suffix", ["", ".tmp"])
@pytest.mark.parametrize(
    "name",
    [
        "recovery-point-offset-checkpoint",
        "log-start-offset-checkpoint",
        "replication-offset-checkpoint",
        "cleaner-offset-checkpoint",
    ],
)
def test_offset_checkpoints_are_shown(name: str, suffix: str) -> None:
    fs = disk_with({})
    path = f"/logs/{name}{suffix}"
    OffsetCheckpoint(fs, path).write({TopicPartition("orders", 0): 17})

    facts = dumped(fs, path)

    assert facts[1:] == [CheckpointFacts(path=path, topic="orders", partition=0, offset=17)]


def test_broken_text_is_a_problem_with_its_line() -> None:
    path = "/logs/cleaner-offset-checkpoint"

    facts = dumped(disk_with({path: b"0\n1\norders zero 17\n"}), path)

    assert problems(facts) == [(path, 3, "'zero' is not a number from 0 to 2147483647")]


def test_text_longer_than_any_broker_writes_is_not_read() -> None:
    class Huge(SimFilesystem):
        def size_of(self, path: str) -> int:
            return 1 << 40

    fs = Huge(dice=SeededDice(0))
    fs.make_dir("/logs")
    path = "/logs/meta.properties"
    fs.open(path, create=True)

    assert problems(dumped(fs, path)) == [
        (path, 0, "1099511627776 bytes is too large for this kind of file")
    ]


def test_directory_files_are_shown() -> None:
    fs = disk_with({})
    directory_id = bytes(range(16))
    PartitionMetadata(fs, f"{DIRECTORY}/partition.metadata").write(directory_id)
    write_meta_properties(
        fs,
        "/logs/meta.properties",
        MetaProperties(cluster_id="c", node_id=3, directory_id=directory_id),
    )
    CleanShutdownFile(fs, "/logs/.kafka_cleanshutdown").write(12)

    facts = dumped(fs, "/logs")

    text = "AAECAwQFBgcICQoLDA0ODw"
    assert [fact.topic_id for fact in only(TopicIdFacts, facts)] == [text]
    assert [fact.directory_id for fact in only(MetaPropertiesFacts, facts)] == [text]
    assert [fact.broker_epoch for fact in only(CleanShutdownFacts, facts)] == [12]
    assert problems(facts) == []


# -- directories ------------------------------------------------------------------------------


def two_segments() -> dict[str, bytes]:
    first, second, third = three_batches()
    return {
        LOG: first,
        f"{DIRECTORY}/{2:020d}.log": second + third,
        f"{DIRECTORY}/{0:020d}.log.deleted": first,
        INDEX: offsets_index((77, 77)),
    }


def test_partition_is_summed_up_over_its_live_segments() -> None:
    (summary,) = only(PartitionTotals, dumped(disk_with(two_segments()), DIRECTORY, DumpOptions()))

    assert (summary.topic, summary.partition, summary.state) == ("orders", 0, "live")
    assert (summary.segment_count, summary.base_offset, summary.next_offset) == (2, 0, 4)
    assert (summary.batch_count, summary.record_count, summary.tombstone_count) == (3, 4, 2)
    assert summary.batch_bytes == len(b"".join(three_batches()))
    assert summary.max_timestamp_ms == T + 20


def test_log_directory_is_one_summary_per_partition() -> None:
    fs = disk_with(two_segments())
    fs.make_dir(f"/logs/gone-3.{'0' * 32}-delete")
    fs.make_dir("/logs/remote-log-index-cache")

    facts = dumped(fs, "/logs", DumpOptions())

    summaries = only(PartitionTotals, facts)
    assert [(s.topic, s.partition, s.state) for s in summaries] == [
        ("gone", 3, "delete"),
        ("orders", 0, "live"),
    ]
    assert len(facts) == 2


def test_summary_with_verify_tells_of_problems_in_files_it_does_not_show() -> None:
    facts = dumped(disk_with(two_segments()), "/logs", DumpOptions(verify=True))

    assert [path for path, _, _ in problems(facts)] == [INDEX]
    assert len(facts) == 2


def test_deep_dump_of_a_log_directory_shows_every_file() -> None:
    fs = disk_with(two_segments())

    facts = dumped(fs, "/logs", DumpOptions(deep=True))

    assert [fact.path for fact in only(FileFacts, facts)] == sorted(two_segments())
    assert len(only(BatchFacts, facts)) == 4


def test_overlapping_segments_are_a_problem() -> None:
    first, second, third = three_batches()
    later = f"{DIRECTORY}/{2:020d}.log"

    facts = dumped(disk_with({LOG: first + second, later: second + third}), DIRECTORY)

    reason = "base offset 2 is below 3, where the segment before it ends"
    assert problems(facts) == [(later, 0, reason)]


def test_log_directory_that_is_named_like_a_partition_is_told_by_its_content() -> None:
    fs = disk_with({})
    fs.make_dir("/kafka-1/orders-0")
    fs.open(f"/kafka-1/orders-0/{0:020d}.log", create=True).pwrite(three_batches()[0], 0)

    facts = dumped(fs, "/kafka-1", DumpOptions())

    assert [fact.path for fact in only(PartitionTotals, facts)] == ["/kafka-1/orders-0"]


def test_empty_partition_directory_has_no_segments() -> None:
    facts = dumped(disk_with({}), DIRECTORY)

    assert [fact.segment_count for fact in only(PartitionTotals, facts)] == [0]
    assert len(facts) == 1


def test_directory_of_something_else_is_a_problem() -> None:
    fs = disk_with({})
    fs.make_dir("/other/place")

    reason = "neither a partition's directory nor a log directory"
    assert problems(dumped(fs, "/other")) == [("/other", 0, reason)]


def test_file_of_something_else_is_a_problem_when_it_was_asked_for() -> None:
    fs = disk_with({"/logs/notes.txt": b"?"})

    assert problems(dumped(fs, "/logs/notes.txt")) == [
        ("/logs/notes.txt", 0, "not a file of a log")
    ]


def test_file_that_cannot_be_opened_is_a_problem_and_the_next_one_is_shown() -> None:
    class Forbidding(SimFilesystem):
        def open(self, path: str, *, create: bool = False) -> SimFile:
            if path == LOG and not create:
                raise PermissionError(13, "Permission denied", path)
            return super().open(path, create=create)

    fs = Forbidding(dice=SeededDice(0))
    fs.make_dir(DIRECTORY)
    later = f"{DIRECTORY}/{2:020d}.log"
    for path in (LOG, later):
        fs.open(path, create=True).pwrite(three_batches()[1], 0)

    facts = dumped(fs, DIRECTORY)

    assert problems(facts) == [(LOG, 0, "Permission denied")]
    assert [batch.path for batch in only(BatchFacts, facts)] == [later]


def test_file_that_vanished_meanwhile_is_a_problem_and_the_partitions_are_shown() -> None:
    class Vanishing(SimFilesystem):
        def size_of(self, path: str) -> int:
            if path == "/logs/meta.properties":
                raise FileNotFoundError(2, "No such file or directory", path)
            return super().size_of(path)

    fs = Vanishing(dice=SeededDice(0))
    fs.make_dir(DIRECTORY)
    fs.open("/logs/meta.properties", create=True)
    fs.open(LOG, create=True).pwrite(three_batches()[0], 0)

    facts = dumped(fs, "/logs", DumpOptions())

    assert problems(facts) == [("/logs/meta.properties", 0, "No such file or directory")]
    assert [fact.path for fact in only(PartitionTotals, facts)] == [DIRECTORY]


# -- what storage writes ----------------------------------------------------------------------


def test_closed_log_of_many_segments_passes_every_check() -> None:
    world = World()
    log = world.open(LogConfig(segment_bytes=1500, index_interval_bytes=100))
    for number in range(100):
        # Time goes back now and then, so that the time index has to skip batches.
        timestamp = T + number * (-3 if number % 7 == 0 else 5)
        value = None if number % 10 == 0 else "v"
        log.append_as_leader(batch((f"k{number}", value), timestamp=timestamp), leader_epoch=2)
    log.close()
    assert world.fs is not None

    facts = dumped(world.fs, world.directory)

    assert problems(facts) == []
    (summary,) = only(PartitionTotals, facts)
    assert (summary.next_offset, summary.record_count, summary.tombstone_count) == (100, 100, 10)
    assert summary.segment_count > 3
    assert len(only(OffsetIndexEntry, facts)) > 20
    assert len(only(TimeIndexEntry, facts)) > 20


# -- Kafka's own files ------------------------------------------------------------------------


def golden_partitions() -> list[Path]:
    return [
        expected.parent / name
        for expected in sorted(GOLDEN.rglob("expected.json"))
        for name in sorted(json.loads(expected.read_text())["partitions"])
    ]


def golden_id(directory: Path) -> str:
    return str(directory.relative_to(GOLDEN))


def expected_of(directory: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((directory.parent / "expected.json").read_text())
    partition: dict[str, Any] = found["partitions"][directory.name]
    return partition


@pytest.mark.parametrize("directory", golden_partitions(), ids=golden_id)
def test_files_of_kafka_are_read_as_kafkas_own_tool_reads_them(directory: Path) -> None:
    expected = expected_of(directory)

    facts = dumped(OsFilesystem(), str(directory))

    assert problems(facts) == []
    assert [
        (
            Path(batch.path).name,
            batch.position,
            batch.size_bytes,
            batch.base_offset,
            batch.last_offset,
            batch.record_count,
            batch.codec,
            batch.max_timestamp_ms,
            batch.delete_horizon_ms,
            batch.crc,
            batch.is_control,
            batch.producer_id,
            batch.last_sequence,
        )
        for batch in only(BatchFacts, facts)
    ] == [
        (
            batch["segment"],
            batch["position"],
            batch["size"],
            batch["baseOffset"],
            batch["lastOffset"],
            batch["count"],
            batch["compresscodec"].lower(),
            batch["maxTimestamp"],
            batch["deleteHorizonMs"],
            batch["crc"],
            batch["isControl"],
            batch["producerId"],
            batch["lastSequence"],
        )
        for batch in expected["batches"]
    ]


@pytest.mark.parametrize("directory", golden_partitions(), ids=golden_id)
def test_indexes_of_kafka_are_read_as_kafkas_own_tool_reads_them(directory: Path) -> None:
    expected = expected_of(directory)

    facts = dumped(OsFilesystem(), str(directory), replace(EVERYTHING, records=False))

    offsets = [(Path(e.path).name, e.offset, e.log_position) for e in only(OffsetIndexEntry, facts)]
    times = [(Path(e.path).name, e.timestamp_ms, e.offset) for e in only(TimeIndexEntry, facts)]
    assert offsets == [(name, *e) for name, es in sorted(expected["index"].items()) for e in es]
    assert times == [(name, *e) for name, es in sorted(expected["timeindex"].items()) for e in es]
