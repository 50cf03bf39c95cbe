"""Segments written in bulk are those `storage.Segment` writes batch by batch."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.cleaner.cleaned_segment import CleanedSegment, WrittenBatches
from ledgerstone.errors import SegmentOffsetOverflow, StorageError
from ledgerstone.records.batch import read_header
from ledgerstone.storage.filenames import CLEANED
from ledgerstone.storage.log_config import LogConfig
from ledgerstone.storage.segment import Segment
from ledgerstone.storage.txn_index import AbortedTxnEntry
from ledgerstone.types import INT32_MAX
from tests.kit.logs import T0, World
from tests.kit.scenario import disk, stored
from tests.kit.sized import examples

BASE = 100


def _append(segment: CleanedSegment, *batches: bytes) -> None:
    headers = [read_header(data) for data in batches]
    segment.append(
        b"".join(batches),
        WrittenBatches(
            np.array([header.size for header in headers]),
            np.array([header.last_offset for header in headers]),
            np.array([header.max_timestamp for header in headers]),
        ),
    )


def _cleaned(world: World, config: LogConfig) -> CleanedSegment:
    disk(world).make_dir(world.directory)
    cleaned = CleanedSegment(disk(world), world.directory, BASE, config, now_ms=T0)
    cleaned.create()
    return cleaned


@examples(100)
@given(
    windows=st.lists(
        st.lists(st.tuples(st.integers(1, 60), st.integers(-1, 6)), min_size=1, max_size=12),
        max_size=5,
    ),
    interval_bytes=st.sampled_from([0, 100, 250, 4096]),
    index_bytes=st.sampled_from([8, 12, 24, 36, 48, 80, 10_000]),
)
def test_files_are_those_of_a_segment_that_took_batch_after_batch(
    windows: list[list[tuple[int, int]]], interval_bytes: int, index_bytes: int
) -> None:
    config = LogConfig(index_interval_bytes=interval_bytes, segment_index_bytes=index_bytes)
    bulk, plain = World(), World()
    cleaned = _cleaned(bulk, config)
    disk(plain).make_dir(plain.directory)
    segment = Segment(disk(plain), plain.directory, BASE, config, created_ms=T0, suffix=CLEANED)
    segment.create()
    offset = BASE
    for window in windows:
        batches = []
        for key_bytes, timestamp in window:
            batches.append(bytes(stored(offset, "k" * key_bytes, timestamp=timestamp)))
            offset += 3

        _append(cleaned, *batches)
        for data in batches:
            segment.append(data, [read_header(data)])

    cleaned.finish(5)
    segment.seal()
    assert disk(bulk).files() == disk(plain).files()


def test_finished_files_are_synced_and_carry_the_given_time() -> None:
    world = World()
    cleaned = _cleaned(world, LogConfig())
    _append(cleaned, bytes(stored(BASE, "k")))
    cleaned.add_aborted_txn(AbortedTxnEntry(1, BASE, BASE + 1, BASE + 2))

    cleaned.finish(12_345)

    fs = disk(world)
    for ending in (".log", ".index", ".timeindex"):
        assert fs.mtime_ms(f"{world.directory}/{BASE:020d}{ending}{CLEANED}") == 12_345
    before = fs.files()
    assert len(before) == 4
    # The swap makes the names durable; the bytes already are.
    for directory in (world.directory, "/data", "/"):
        fs.fsync_dir(directory)
    fs.power_loss("none")
    assert fs.files() == before


def test_leftovers_of_an_earlier_pass_are_not_added_to() -> None:
    world = World()
    first = _cleaned(world, LogConfig())
    _append(first, bytes(stored(BASE, "a", "b")), bytes(stored(BASE + 2, "c")))
    first.add_aborted_txn(AbortedTxnEntry(1, BASE, BASE + 1, BASE + 2))

    second = _cleaned(world, LogConfig())
    second.finish(5)

    assert {len(data) for data in disk(world).files().values()} == {0}
    assert len(disk(world).files()) == 3


def test_offset_out_of_reach_is_refused_before_anything_is_written() -> None:
    cleaned = _cleaned(World(), LogConfig())

    with pytest.raises(SegmentOffsetOverflow):
        _append(cleaned, bytes(stored(BASE + INT32_MAX + 1, "k")))

    assert cleaned.size == 0


def test_segment_beyond_two_gigabytes_is_refused() -> None:
    cleaned = _cleaned(World(), LogConfig())
    cleaned.size = INT32_MAX - 10

    with pytest.raises(StorageError, match="a segment holds"):
        _append(cleaned, bytes(stored(BASE, "k")))
