"""Swapping in cleaned segments: the order of renames, and every state a crash can leave behind."""

import pytest

from ledgerstone.fs import join
from ledgerstone.storage.deleted_files import UnlinkPlan, unlink_all
from ledgerstone.storage.filenames import CLEANED, DELETED, SWAP
from ledgerstone.storage.log import PartitionLog
from ledgerstone.storage.log_config import LogConfig
from ledgerstone.storage.log_shrink import delete_old_segments, swap_segments
from tests.kit.logs import World, all_records, offsets
from tests.kit.scenario import (
    ONE_BYTES,
    append,
    append_ones,
    cleaned_copy,
    disk,
    killed,
    names,
    put,
    rename,
    replicate_all,
)

SMALL = LogConfig(segment_bytes=3 * ONE_BYTES, index_interval_bytes=0)
ALL = list(range(9))
# What the pass over the first two segments keeps, and what was never touched.
KEPT = [1, 4, 6, 7, 8]

FIRST, SECOND, THIRD = "00000000000000000000", "00000000000000000003", "00000000000000000006"
NEW = [f"{FIRST}{ending}" for ending in (".log", ".index", ".timeindex")]
OLD = [f"{base}{ending}" for base in (FIRST, SECOND) for ending in (".log", ".index", ".timeindex")]


def cleaned_world() -> World:
    """Segments 0, 3 and 6, closed cleanly, and a complete `.cleaned` one for the first two."""
    world = World()
    log = world.open(SMALL)
    append_ones(log, 9)
    log.close()
    cleaned_copy(world, log, 0, keep=[1, 4])
    return world


def only_cleaned(world: World) -> None:
    """(a)"""


def log_swapped_indexes_cleaned(world: World) -> None:
    """(b)"""
    rename(world, NEW[0] + CLEANED, NEW[0] + SWAP)


def all_swapped(world: World) -> None:
    """(c)"""
    for name in NEW:
        rename(world, name + CLEANED, name + SWAP)


def originals_deleted(world: World) -> None:
    """(d)"""
    all_swapped(world)
    for name in OLD:
        rename(world, name, name + DELETED)


def one_index_left_to_promote(world: World) -> None:
    """(e)"""
    originals_deleted(world)
    for name in NEW[:2]:
        rename(world, name + SWAP, name)


def only_deleted_left(world: World) -> None:
    """(f)"""
    one_index_left_to_promote(world)
    rename(world, NEW[2] + SWAP, NEW[2])


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (only_cleaned, ALL),
        (log_swapped_indexes_cleaned, ALL),
        (all_swapped, KEPT),
        (originals_deleted, KEPT),
        (one_index_left_to_promote, KEPT),
        (only_deleted_left, KEPT),
    ],
)
def test_crash_at_any_point_of_a_swap_leaves_the_old_or_the_new(
    state: object, expected: list[int], clean: bool
) -> None:
    assert callable(state)
    world = cleaned_world()
    state(world)

    log = killed(world).open(SMALL, clean=clean)

    assert offsets(all_records(log)) == expected
    assert not [name for name in names(world) if name.endswith((CLEANED, SWAP, DELETED))]
    for segment in log.segments:
        for offset in offsets(all_records(log)):
            assert segment.find(offset) is not None or offset >= segment.next_offset()
    assert append(log).first_offset == 9
    log.check_invariants()


def test_half_of_the_originals_deleted_is_finished_too() -> None:
    world = cleaned_world()
    all_swapped(world)
    for name in OLD[:2]:
        rename(world, name, name + DELETED)

    log = killed(world).open(SMALL)

    assert offsets(all_records(log)) == KEPT


def test_original_that_begins_where_the_swapped_segment_ends_survives() -> None:
    world = World()
    log = world.open(SMALL)
    append_ones(log, 9)
    log.close()
    cleaned_copy(world, log, 0, keep=[5])
    all_swapped(world)

    reopened = killed(world).open(SMALL)

    assert offsets(all_records(reopened)) == [5, 6, 7, 8]


def test_older_original_after_a_cleaned_segment_that_lost_its_tail_survives() -> None:
    """The swapped segment ends at 2, so the original at 3 is not in its range."""
    world = World()
    log = world.open(SMALL)
    append_ones(log, 9)
    log.close()
    cleaned_copy(world, log, 0, keep=[1])
    all_swapped(world)

    reopened = killed(world).open(SMALL)

    assert offsets(all_records(reopened)) == [1, 3, 4, 5, 6, 7, 8]


def test_snapshot_of_the_first_source_stays_and_those_of_the_others_go() -> None:
    world = World()
    log = world.open(SMALL)
    append_ones(log, 13)
    sources = list(log.segments)[1:3]
    before = list(log.snapshots.offsets)

    swap_segments(log, new=[cleaned_copy(world, log, 3, keep=[4, 8])], old=sources)

    assert before == [3, 6, 9, 12]
    assert log.snapshots.offsets == log.segments.bases()[1:] == [3, 9, 12]
    assert names(world, ".snapshot.deleted") == [f"{THIRD}.snapshot.deleted"]


# -- while running --------------------------------------------------------------------------------


def swapped_log(world: World) -> PartitionLog:
    log = world.open(SMALL)
    append_ones(log, 10)
    swap_segments(log, new=[cleaned_copy(world, log, 0, keep=[1, 4])], old=list(log.segments)[:2])
    return log


def test_swap_puts_the_new_segment_in_the_place_of_its_sources() -> None:
    world = World()

    log = swapped_log(world)

    assert log.segments.bases() == [0, 6, 9]
    assert offsets(all_records(log)) == [1, 4, 6, 7, 8, 9]
    assert (log.log_start_offset, log.log_end_offset) == (0, 10)
    assert not [name for name in names(world) if name.endswith((CLEANED, SWAP))]
    log.check_invariants()


def test_sources_wait_under_their_deleted_names_for_the_delay() -> None:
    world = World()

    log = swapped_log(world)
    waiting = names(world, DELETED)
    world.clock.advance(ms=SMALL.file_delete_delay_ms)
    log.deleted_files.unlink_due(world.clock.now_ms())

    assert [name for name in waiting if ".log" in name] == [
        f"{FIRST}.log.deleted",
        f"{SECOND}.log.deleted",
    ]
    assert names(world, DELETED) == []
    assert offsets(all_records(log)) == [1, 4, 6, 7, 8, 9]


@pytest.mark.parametrize("unlinks_before_the_swap", [True, False])
def test_unlinking_and_a_second_swap_do_not_mistake_each_others_files(
    unlinks_before_the_swap: bool,
) -> None:
    """A thread may unlink what was replaced while the next pass replaces the same segment."""
    world = World()
    log = swapped_log(world)
    world.clock.advance(ms=SMALL.file_delete_delay_ms)
    plan = UnlinkPlan(files=tuple(log.deleted_files.due(world.clock.now_ms())))
    if unlinks_before_the_swap:
        done = unlink_all(log.fs, plan)

    second = cleaned_copy(world, log, 0, keep=[4])
    swap_segments(log, new=[second], old=[log.segments.first])
    if not unlinks_before_the_swap:
        done = unlink_all(log.fs, plan)
    log.deleted_files.forget(done.gone)
    waiting = names(world, DELETED)
    world.clock.advance(ms=SMALL.file_delete_delay_ms)
    log.deleted_files.unlink_due(world.clock.now_ms())

    assert [name for name in waiting if ".log" in name] == [f"{FIRST}.log.1.deleted"]
    assert names(world, DELETED) == []


def test_swapped_log_is_the_same_after_a_restart() -> None:
    world = World()
    before = offsets(all_records(swapped_log(world)))

    reopened = killed(world).open(SMALL)

    assert offsets(all_records(reopened)) == before
    assert reopened.log_end_offset == 10


def test_renames_happen_in_the_order_that_makes_a_crash_decidable() -> None:
    """New ones to `.swap` first, then old ones to `.deleted`, then the new ones to their names."""
    world = World()
    log = world.open(SMALL)
    append_ones(log, 10)
    new = cleaned_copy(world, log, 0, keep=[1, 4])
    done = len(disk(world).trace)

    swap_segments(log, new=[new], old=list(log.segments)[:2])

    renames = [line for line in disk(world).trace[done:] if line.startswith("rename")]
    kinds = [
        "swap" if line.endswith(SWAP) else "deleted" if line.endswith(DELETED) else "live"
        for line in renames
    ]
    assert kinds == ["swap"] * 3 + ["deleted"] * 7 + ["live"] * 3
    assert disk(world).trace[-1].startswith("fsync_dir")


def test_segments_that_retention_took_in_between_are_renamed_once() -> None:
    world = World()
    log = world.open(SMALL)
    append_ones(log, 10)
    replicate_all(log)
    sources = list(log.segments)[:2]
    new = cleaned_copy(world, log, 0, keep=[1, 4])
    log.raise_log_start_offset(3)
    delete_old_segments(log)

    swap_segments(log, new=[new], old=sources)

    trace = [line for line in disk(world).trace if f"{FIRST}.log" in line and DELETED in line]
    assert len(trace) == 1
    assert log.segments.bases() == [0, 6, 9]


def test_leftovers_of_a_pass_that_never_finished_are_thrown_away() -> None:
    world = World()
    log = world.open(SMALL)
    append_ones(log, 4)
    log.close()
    for name in (f"{FIRST}.log.cleaned", f"{FIRST}.timeindex.cleaned", f"{THIRD}.log.swap"):
        put(disk(world), join(world.directory, name), b"half a batch")

    reopened = world.open(SMALL, clean=True)

    assert offsets(all_records(reopened)) == [0, 1, 2, 3]
    assert not [name for name in names(world) if name.endswith((CLEANED, SWAP))]
