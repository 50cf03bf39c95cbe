"""Segments whose offsets outgrew 31 bits: found at open, split, whatever a crash does to it."""

import pytest

from ledgerstone.fs import join
from ledgerstone.records.batch import stamp_offset_and_epoch
from ledgerstone.records.control import end_txn_marker
from ledgerstone.storage.filenames import CLEANED, DELETED, SWAP
from ledgerstone.storage.log_config import LogConfig
from ledgerstone.storage.segment import Segment
from ledgerstone.storage.segment_split import has_overflow, split_overflowed
from ledgerstone.storage.txn_index import AbortedTxnEntry
from ledgerstone.types import INT32_MAX
from tests.kit.logs import T0, World, all_records, offsets
from tests.kit.scenario import append, disk, killed, names, put, stored

FAR = INT32_MAX + 1
OFFSETS = [0, 1, INT32_MAX, FAR, FAR + 1]
LOW, HIGH = "00000000000000000000", f"{FAR:020d}"


def overflowed(world: World, at_1: bytearray | None = None) -> Segment:
    """One segment file with offsets further apart than an index entry can say."""
    batches = [stored(offset, f"k{offset}") for offset in OFFSETS]
    if at_1 is not None:
        batches[1] = at_1
    content = b"".join(batches)
    fs = disk(world)
    fs.make_dir(world.directory)
    put(fs, join(world.directory, f"{LOW}.log"), content)
    return Segment(fs, world.directory, 0, LogConfig(), created_ms=T0, size=len(content))


def test_overflow_is_seen_in_the_tail() -> None:
    segment = overflowed(World())

    assert has_overflow(segment)


def test_segment_that_fits_has_no_overflow() -> None:
    world = World()
    segment = overflowed(world)
    segment.size = sum(len(stored(offset, f"k{offset}")) for offset in OFFSETS[:3])

    assert not has_overflow(segment)
    assert not has_overflow(Segment(disk(world), "/", 0, LogConfig(), created_ms=T0))


def test_parts_hold_all_batches_and_each_fits_its_base() -> None:
    world = World()
    segment = overflowed(world)

    parts = split_overflowed(disk(world), segment)

    assert [part.base_offset for part in parts] == [0, FAR]
    assert sum(part.size for part in parts) == segment.size
    assert not any(has_overflow(part) for part in parts)
    assert names(world, CLEANED) == [
        f"{base}{kind}.cleaned" for base in (LOW, HIGH) for kind in (".index", ".log", ".timeindex")
    ]


def test_overflowed_segment_is_split_at_open() -> None:
    world = World()
    overflowed(world)

    log = world.open()

    assert log.segments.bases() == [0, FAR]
    assert offsets(all_records(log)) == OFFSETS
    assert log.log_end_offset == FAR + 2
    assert append(log).first_offset == FAR + 2
    assert not any(has_overflow(segment) for segment in log.segments)
    log.check_invariants()


@pytest.mark.parametrize("tail", [stored(FAR + 2, "torn")[:-9], bytes(300), b"\xff" * 100])
def test_torn_end_of_a_segment_that_is_split_is_cut_off_by_recovery(tail: bytes) -> None:
    world = World()
    segment = overflowed(world)
    put(disk(world), join(world.directory, f"{LOW}.log"), tail, segment.size)

    log = world.open()

    assert log.segments.bases() == [0, FAR]
    assert offsets(all_records(log)) == OFFSETS
    assert append(log).first_offset == FAR + 2
    log.check_invariants()


def test_a_split_that_recovery_asks_for_keeps_aborted_transactions() -> None:
    world = World()
    aborted = AbortedTxnEntry(7, 0, 1, 2)
    marker = end_txn_marker(
        commit=False, producer_id=7, producer_epoch=0, coordinator_epoch=0, timestamp=T0
    )
    stamp_offset_and_epoch(marker, 0, base_offset=1, leader_epoch=0)
    segment = overflowed(world, marker)
    segment.add_aborted_txn(aborted)
    segment.offset_index.seal()
    segment.time_index.seal()

    log = world.open(clean=False, recovery_point=FAR)

    assert log.segments.bases() == [0, FAR]
    assert list(log.segments.first.txn_index.entries()) == [aborted]


def suffix_all(world: World, old: str, new: str, *bases: str) -> None:
    fs = disk(world)
    for name in names(world, old):
        if name.startswith(bases) and name.endswith((".log" + old, "index" + old)):
            target = name.removesuffix(old) + new if old else name + new
            fs.rename(join(world.directory, name), join(world.directory, target))


def only_cleaned(world: World) -> None:
    """(a)"""


def higher_part_swapped(world: World) -> None:
    """(b)"""
    suffix_all(world, CLEANED, SWAP, HIGH)


def all_swapped(world: World) -> None:
    """(c)"""
    suffix_all(world, CLEANED, SWAP, LOW, HIGH)


def original_deleted(world: World) -> None:
    """(d)"""
    all_swapped(world)
    source = join(world.directory, f"{LOW}.log")
    disk(world).rename(source, source + DELETED)


def lower_part_promoted(world: World) -> None:
    """(e)"""
    original_deleted(world)
    suffix_all(world, SWAP, "", LOW)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize(
    "state",
    [only_cleaned, higher_part_swapped, all_swapped, original_deleted, lower_part_promoted],
)
def test_crash_at_any_point_of_a_split_keeps_every_record(state: object, clean: bool) -> None:
    assert callable(state)
    world = World()
    split_overflowed(disk(world), overflowed(world))
    state(world)

    log = killed(world).open(clean=clean)

    assert offsets(all_records(log)) == OFFSETS
    assert log.segments.bases() == [0, FAR]
    assert not [name for name in names(world) if name.endswith((CLEANED, SWAP))]
    log.check_invariants()
