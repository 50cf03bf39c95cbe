"""A state as a file: what goes in comes out, and nothing else is believed."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from struct import calcsize

import pytest
from crc32c import crc32c
from hypothesis import given

from ledgerstone.client.isolation_level import IsolationLevel
from ledgerstone.errors import CorruptFile, LogDirLocked
from ledgerstone.records.batch import Codec, iter_headers
from ledgerstone.sim.clock import VirtualClock
from ledgerstone.sim.dice import SeededDice
from ledgerstone.sim.filesystem import SimFilesystem, SimulatedCrash
from ledgerstone.sim.platter import PowerLoss
from ledgerstone.state import snapshot as snapshot_module
from ledgerstone.state.fold import Fold, FoundKey, KeyStatus
from ledgerstone.state.rows import Piece, rows
from ledgerstone.state.snapshot import HEADER, PIECE, TRAILER, Snapshot, write_snapshot
from ledgerstone.state.topic_state import (
    PartitionState,
    StateError,
    TopicState,
)
from tests.kit.sized import examples
from tests.unit.state.model import SEED, Model, T, model_of, models, put

PATH = "/state/customers.snapshot"


def new_disk() -> SimFilesystem:
    disk = SimFilesystem(clock=VirtualClock(), dice=SeededDice(0))
    disk.make_dir("/state")
    disk.fsync_dir("/")
    return disk


def state_of(*partitions: Model) -> TopicState:
    state = TopicState(
        topic="customers",
        topic_id=bytes(range(16)),
        cluster_id="fake",
        isolation=IsolationLevel.READ_COMMITTED,
        created_ms=T,
        partitions=[],
    )
    for number, model in enumerate(partitions):
        fold = Fold(seed=SEED)
        for data, aborted in model.answers(3):
            fold.feed(data, aborted=aborted)
        state.partitions.append(
            PartitionState(
                partition=number,
                fold=fold,
                start_offset=0,
                end_offset=model.end_offset,
                log_start_offset=0,
                high_watermark=model.end_offset,
                last_stable_offset=model.end_offset,
            )
        )
    return state


def pieces(*partitions: Model) -> Iterator[Piece]:
    for number, model in enumerate(partitions):
        yield from (Piece(number, data) for data, _ in model.answers(2))


def written(*partitions: Model) -> bytes:
    disk = new_disk()
    write_snapshot(disk, PATH, state_of(*partitions), pieces(*partitions))
    return disk.files()[PATH]


def read(content: bytes) -> TopicState:
    disk = new_disk()
    disk.open(PATH, create=True).pwrite(content, 0)
    return Snapshot(disk, PATH).load(seed=SEED)


SAMPLE = (
    model_of(put((b"a", b"1"), (b"b", b"2"), (b"a", b"3")), put((b"b", None), codec=Codec.ZSTD)),
    model_of(put((b"c", b"4"), (None, b"5"))),
)


@examples(60)
@given(models(), models())
def test_what_was_written_is_read_back(first: Model, second: Model) -> None:
    disk = new_disk()
    state = state_of(first, second)

    size = write_snapshot(disk, PATH, state, pieces(first, second))
    snapshot = Snapshot(disk, PATH)
    loaded = snapshot.load(seed=bytes(16))

    assert size == disk.size_of(PATH)
    assert loaded.checksum == state.checksum
    assert loaded.totals() == state.totals()
    assert loaded.counts == state.counts
    expected = list(rows(state, pieces(first, second), deleted=True))
    assert list(rows(loaded, snapshot.pieces(), deleted=True)) == expected
    assert sorted(disk.files()) == [PATH]


def test_batches_in_the_file_are_kafkas_with_the_offsets_they_had() -> None:
    disk = new_disk()
    write_snapshot(disk, PATH, state_of(*SAMPLE), pieces(*SAMPLE))

    found = list(Snapshot(disk, PATH).pieces())

    headers = [(p, header) for p, data, _ in found for _, header in iter_headers(data)]
    offsets = [(p, header.base_offset, header.last_offset) for p, header in headers]
    assert offsets == [(0, 0, 2), (0, 3, 3), (1, 0, 1)]
    assert [header.record_count for _, header in headers] == [1, 1, 1]
    assert headers[1][1].codec is Codec.ZSTD


def test_deleted_keys_are_in_the_file_until_they_are_to_be_forgotten() -> None:
    disk = new_disk()
    state = state_of(*SAMPLE)

    write_snapshot(disk, PATH, state, pieces(*SAMPLE))
    kept = Snapshot(disk, PATH).load(seed=SEED)
    write_snapshot(disk, PATH, state, pieces(*SAMPLE), forget_deleted_before_ms=T + 3)
    still = Snapshot(disk, PATH).load(seed=SEED)
    write_snapshot(disk, PATH, state, pieces(*SAMPLE), forget_deleted_before_ms=T + 4)
    forgotten = Snapshot(disk, PATH).load(seed=SEED)

    assert kept.lookup(b"b") == still.lookup(b"b") == {0: FoundKey(KeyStatus.DELETED, 3)}
    assert forgotten.lookup(b"b") == {}
    assert forgotten.checksum == kept.checksum


@pytest.mark.parametrize("way", ["cut", "zeros"])
def test_torn_file_is_refused_wherever_it_is_torn(way: str) -> None:
    content = written(*SAMPLE)

    for end in range(len(content)):
        torn = content[:end] + (bytes(len(content) - end) if way == "zeros" else b"")
        if torn != content:
            with pytest.raises(CorruptFile):
                read(torn)


def test_changed_byte_is_refused_wherever_it_is() -> None:
    content = bytearray(written(*SAMPLE))

    for at in range(len(content)):
        content[at] ^= 0x55
        with pytest.raises(CorruptFile):
            read(bytes(content))
        content[at] ^= 0x55


def sealed(manifest: bytes, body: bytes) -> bytes:
    """A file whose length and CRC are right, whatever else is in it."""
    content = HEADER.pack(b"LSSTATE\n", 1, len(manifest)) + manifest + body
    content += TRAILER.pack(len(content) + TRAILER.size, 0)[:-4]
    return content + crc32c(content).to_bytes(4, "big")


def parts(content: bytes) -> tuple[bytes, bytes]:
    length = HEADER.unpack_from(content)[2]
    at = HEADER.size + length
    return content[HEADER.size : at], content[at : -TRAILER.size]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"topic": 7}, "topic is 7"),
        ({"topic_id": "x"}, "not a uuid"),
        ({"isolation": "none"}, "not a valid IsolationLevel"),
        ({"created_ms": True}, "created_ms is True"),
        ({"created_ms": -1}, "created_ms is -1"),
        ({"cluster_id": []}, "cluster_id"),
        ({"partitions": []}, "0 partitions"),
        ({"partitions": [None]}, "counts is None"),
    ],
)
def test_manifest_is_not_believed(change: dict[str, object], reason: str) -> None:
    manifest, body = parts(written(*SAMPLE))
    content = {**json.loads(manifest), **change}

    with pytest.raises(CorruptFile, match=reason):
        read(sealed(json.dumps(content).encode(), body))


@pytest.mark.parametrize("field", ["live_keys", "checksum", "next_offset"])
def test_manifest_that_says_something_else_than_the_batches_is_refused(field: str) -> None:
    manifest, body = parts(written(*SAMPLE))
    content = json.loads(manifest)
    content["partitions"][0][field] = "00" if field == "checksum" else 0

    with pytest.raises(CorruptFile, match="the manifest says"):
        read(sealed(json.dumps(content).encode(), body))


def test_manifest_of_endless_brackets_is_refused() -> None:
    with pytest.raises(CorruptFile, match="not JSON"):
        read(sealed(b"[" * 100_000, PIECE.pack(-1, 0)))


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (PIECE.pack(0, 2**32 - 1), "a piece of 4294967295 bytes, 0 left"),
        (PIECE.pack(0, 0), "do not end"),
        (PIECE.pack(7, 0) + PIECE.pack(-1, 0), "partition 7 is not expected"),
        (PIECE.pack(1, 0) + PIECE.pack(0, 0) + PIECE.pack(-1, 0), "partition 0 is not expected"),
        (PIECE.pack(-1, 0) + b"more", "more follows"),
        (PIECE.pack(0, 61) + bytes(61) + PIECE.pack(-1, 0), "partition 0: "),
    ],
)
def test_pieces_are_not_believed(body: bytes, reason: str) -> None:
    manifest, _ = parts(written(*SAMPLE))

    with pytest.raises(CorruptFile, match=reason):
        read(sealed(manifest, body))


def test_other_version_is_refused_by_its_number() -> None:
    content = bytearray(written(*SAMPLE))
    content[9] = 2

    with pytest.raises(CorruptFile, match="has version 2, expected 1"):
        read(bytes(content))


def test_log_compacted_between_the_passes_is_noticed_and_leaves_the_old_file() -> None:
    disk = new_disk()
    write_snapshot(disk, PATH, state_of(*SAMPLE), pieces(*SAMPLE))
    before = disk.files()

    with pytest.raises(StateError, match="customers-0 was compacted while it was read"):
        write_snapshot(disk, PATH, state_of(*SAMPLE), list(pieces(*SAMPLE))[1:])

    assert disk.files() == before


def test_second_writer_is_kept_out() -> None:
    disk = new_disk()
    lock = disk.lock(PATH + ".lock")

    with pytest.raises(LogDirLocked):
        write_snapshot(disk, PATH, state_of(*SAMPLE), pieces(*SAMPLE))

    lock.release()
    assert write_snapshot(disk, PATH, state_of(*SAMPLE), pieces(*SAMPLE))


@pytest.mark.parametrize("loss", [None, "none", "all", "random"])
def test_crash_at_any_operation_leaves_the_old_file_or_the_new_one(loss: PowerLoss | None) -> None:
    prepared = new_disk()
    write_snapshot(prepared, PATH, state_of(SAMPLE[1]), pieces(SAMPLE[1]))
    old = prepared.files()[PATH]
    finished = False
    seen = []

    for n in range(1, 100):
        disk = prepared.clone(dice=SeededDice(n))
        disk.crash_at(n, torn=True)
        try:
            write_snapshot(disk, PATH, state_of(*SAMPLE), pieces(*SAMPLE))
            finished = True
        except SimulatedCrash:
            disk.kill() if loss is None else disk.power_loss(loss)
            seen.append(disk.files()[PATH] == old)
        assert Snapshot(disk, PATH).load(seed=SEED).is_complete
        if finished:
            break

    assert finished
    assert len(seen) > 5
    assert any(seen)


def test_byte_tables_in_the_readme_are_those_of_the_code() -> None:
    text = Path(snapshot_module.__file__).with_name("README.md").read_text(encoding="utf-8")

    tables = re.findall(r"<!-- struct (\w+) -->\n\n\|.*\n\|.*\n((?:\|.*\n)+)", text)

    assert {name for name, _ in tables} == {"HEADER", "PIECE", "TRAILER"}
    for name, lines in tables:
        sizes = [int(line.split("|")[1]) for line in lines.strip().splitlines()]
        layout = getattr(snapshot_module, name).format
        assert sum(sizes) == calcsize(layout)
