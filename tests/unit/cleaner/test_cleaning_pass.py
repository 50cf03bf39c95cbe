"""The pass as a whole: order, windows, damage, disks that fail, and what it refuses."""

import errno
from dataclasses import replace

import pytest

from ledgerstone.cleaner.plan import CleanedGroup
from ledgerstone.cleaner.throttle import Throttle
from ledgerstone.errors import CorruptFile, InvariantViolation, UnsupportedForMessageFormat
from ledgerstone.records.batch import Codec
from ledgerstone.sim.dice import SeededDice
from ledgerstone.storage.filenames import CLEANED
from ledgerstone.storage.log import PartitionLog
from tests.kit.cleaning import clean, compacted, contents, plan_of, run, swapper
from tests.kit.logs import World
from tests.kit.scenario import append, content_of, disk, names, put


def _written(world: World, *, segment_bytes: int = 300, count: int = 12) -> PartitionLog:
    log = compacted(world, segment_bytes=segment_bytes)
    for n in range(count):
        append(log, (f"{n % 5}", f"{n:02d}"))
    log.roll()
    return log


def test_groups_are_handed_over_in_order_each_complete_before_the_next_is_begun() -> None:
    world = World()
    log = _written(world)
    handed: list[int] = []

    def on_group(group: CleanedGroup) -> None:
        handed.append(group.base_offset)
        bases = [int(name[:20]) for name in names(world, ".log" + CLEANED)]
        assert bases == [group.base_offset]
        assert len(content_of(world, f"{group.base_offset:020d}.log{CLEANED}")) == group.size_bytes
        swapper(log)(group)

    report = run(log, plan_of(log), on_group=on_group)

    assert handed == sorted(handed) == [group.base_offset for group in report.groups]
    assert len(handed) > 1


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
@pytest.mark.parametrize("window_bytes", [1, 100, 137, 1 << 20])
def test_size_of_the_window_makes_no_difference(window_bytes: int, codec: Codec) -> None:
    worlds = World(), World()
    for world, size in zip(worlds, (window_bytes, 1 << 22), strict=True):
        log = compacted(world, segment_bytes=1000, index_interval_bytes=100)
        for n in range(30):
            value = None if n % 7 == 0 else str(n) * (n % 13)
            append(log, (f"{n % 5}", value), (f"{n % 3}", "x"), codec=codec)
        log.roll()
        clean(log, window_bytes=size)

    assert disk(worlds[0]).files() == disk(worlds[1]).files()


@pytest.mark.parametrize("first_dirty_offset", [0, 12])
def test_every_changed_byte_of_a_batch_is_noticed(first_dirty_offset: int) -> None:
    """Also in the part that was cleaned before, which the map does not read."""
    world = World()
    log = _written(world, segment_bytes=1 << 20)
    plan = plan_of(log, first_dirty_offset)
    path = log.segments.first.paths()[0]
    intact = content_of(world, f"{0:020d}.log")
    size = len(intact) // 12
    # The leader epoch lies outside the CRC and says nothing about a cleaning; so does what the
    # offset of the first batch could be raised to without passing the second.
    unnoticed = set(range(12, 16))
    for at in set(range(size)) - unnoticed:
        put(log.fs, path, bytes([intact[size + at] ^ 0x80]), size + at)

        with pytest.raises((CorruptFile, UnsupportedForMessageFormat)):
            run(log, plan)

        assert names(world, CLEANED) == []
        put(log.fs, path, intact)
    assert run(log, plan).end_offset == 12


def test_damage_is_told_with_file_and_position() -> None:
    world = World()
    log = _written(world)
    second = list(log.segments)[1]
    path = second.paths()[0]
    put(log.fs, path, b"\xff", second.size - 1)

    with pytest.raises(CorruptFile, match="batch crc 0x") as caught:
        run(log, plan_of(log))

    assert caught.value.path == path
    assert caught.value.position == second.size - 71


def test_damage_in_a_later_segment_ends_the_pass_before_anything_is_handed_over() -> None:
    """A map built from a damaged batch would drop values that stand."""
    world = World()
    log = _written(world)
    last = list(log.segments)[-2]
    put(log.fs, last.paths()[0], b"\xff", last.size - 1)
    handed: list[CleanedGroup] = []

    with pytest.raises(CorruptFile):
        run(log, plan_of(log), on_group=handed.append)

    assert handed == []


@pytest.mark.parametrize("magic", [0, 1])
def test_message_formats_before_record_batches_are_refused(magic: int) -> None:
    log = _written(World())
    put(log.fs, log.segments.first.paths()[0], bytes([magic]), 16)

    with pytest.raises(UnsupportedForMessageFormat, match=f"magic {magic}") as caught:
        run(log, plan_of(log))

    assert f"{0:020d}.log at 0" in caught.value.__notes__[0]


def test_offsets_that_go_back_are_damage_although_no_crc_covers_them() -> None:
    log = _written(World(), segment_bytes=1 << 20)
    put(log.fs, log.segments.first.paths()[0], bytes(8), 71)

    with pytest.raises(CorruptFile, match="batch with offsets 0 to 0 after 0"):
        run(log, plan_of(log))


def test_offsets_beyond_the_segment_are_damage() -> None:
    log = _written(World(), segment_bytes=1 << 20)
    put(log.fs, log.segments.first.paths()[0], (12).to_bytes(8, "big"), 11 * 71)

    with pytest.raises(CorruptFile, match="offsets 12 to 12 after 10, the segment ends before 12"):
        run(log, plan_of(log))


def test_plan_with_a_gap_between_segments_is_refused() -> None:
    log = _written(World())
    plan = plan_of(log)

    with pytest.raises(InvariantViolation, match="the next begins at"):
        run(log, replace(plan, segments=(plan.segments[0], *plan.segments[2:])))
    with pytest.raises(InvariantViolation, match="first uncleanable offset"):
        run(log, replace(plan, first_uncleanable_offset=3))


@pytest.mark.parametrize("operation", ["create", "truncate", "pwrite", "fsync", "set_mtime"])
def test_failing_disk_leaves_the_log_and_no_cleaned_file(operation: str) -> None:
    world = World()
    log = _written(world, segment_bytes=1 << 20)
    before = disk(world).files()
    disk(world).fail_matching(operation, f"*{CLEANED}", errno.EIO, times=1)

    with pytest.raises(OSError, match="Input/output error"):
        run(log, plan_of(log))

    assert disk(world).files() == before


def test_first_error_is_told_when_the_cleaned_files_cannot_be_removed_either() -> None:
    world = World()
    log = _written(world, segment_bytes=1 << 20)
    disk(world).fail_matching("pwrite", f"*{CLEANED}", errno.ENOSPC)
    disk(world).fail_matching("unlink", f"*{CLEANED}", errno.EIO, times=None)

    with pytest.raises(OSError, match="No space left"):
        run(log, plan_of(log))


def test_pass_that_wrote_nothing_yet_writes_as_if_it_were_the_first() -> None:
    """A worker that died leaves `.cleaned` files; the next one starts over."""
    worlds = World(), World()
    logs = [_written(world) for world in worlds]
    for name in (f"{0:020d}.log", f"{0:020d}.txnindex", f"{0:020d}.index"):
        put(logs[0].fs, f"{worlds[0].directory}/{name}{CLEANED}", b"debris" * 1000)

    for log in logs:
        clean(log)

    assert disk(worlds[0]).files() == disk(worlds[1]).files()


def test_seed_of_the_hashes_makes_no_difference() -> None:
    worlds = World(), World()
    for seed, world in enumerate(worlds):
        log = _written(world)
        run(log, plan_of(log), dice=SeededDice(seed))

    assert disk(worlds[0]).files() == disk(worlds[1]).files()


def test_pass_over_nothing_reports_nothing() -> None:
    log = compacted(World())

    report = clean(log)

    assert (report.end_offset, report.groups, report.stats.bytes_read) == (0, (), 0)


def test_unchanged_segments_are_copied_as_they_are() -> None:
    world = World()
    log = compacted(world, segment_bytes=1 << 20)
    for n in range(20):
        append(log, (str(n), "v"), codec=Codec.LZ4)
    log.roll()
    before = content_of(world, f"{0:020d}.log")

    report = clean(log)

    assert content_of(world, f"{0:020d}.log") == before
    assert report.stats.bytes_written == report.stats.bytes_read == len(before)


def test_reads_and_writes_are_charged_to_the_throttle() -> None:
    world = World()
    log = _written(world)
    started_ms = world.clock.monotonic_ms()
    throttle = Throttle(100, clock=world.clock, sleep_ms=lambda ms: world.clock.advance(ms=ms))

    def slow_disk() -> bool:
        world.clock.advance(ms=301)
        return False

    report = run(log, plan_of(log), throttle=throttle, should_abort=slow_disk)

    stats = report.stats
    moved = stats.map_bytes_read + stats.bytes_read + stats.bytes_written
    assert stats.map_bytes_read == stats.bytes_read == 12 * 71
    elapsed_ms = world.clock.monotonic_ms() - started_ms
    assert elapsed_ms == pytest.approx(moved / 100 * 1000, rel=0.1)


def test_large_decompressed_batch_is_cleaned_within_its_limit() -> None:
    log = compacted(World(), max_message_bytes=4 << 20)
    large = "x" * (20 << 20)
    append(log, ("k", "old"), ("large", large), codec=Codec.ZSTD)
    append(log, ("k", "new"))
    log.roll()
    plan = plan_of(log)

    with pytest.raises(CorruptFile, match="decompress to more than"):
        run(log, replace(plan, decompression_limit_bytes=19 << 20))
    run(log, plan)

    assert [(offset, key) for offset, key, _ in contents(log)] == [(1, "large"), (2, "k")]


def test_batch_that_was_taken_under_a_larger_limit_is_cleaned() -> None:
    log = compacted(World(), max_message_bytes=14 << 20)
    append(log, ("k", "old"), ("large", "x" * (50 << 20)), codec=Codec.ZSTD)
    append(log, ("k", "new"))
    log.roll()
    log.reconfigure(replace(log.config, max_message_bytes=1 << 20))

    run(log, plan_of(log))

    assert [(offset, key) for offset, key, _ in contents(log)] == [(1, "large"), (2, "k")]


@pytest.mark.parametrize("position", [8 * 71, 8 * 71 + 1, 1 << 30], ids=["later", "astray", "far"])
def test_index_that_leads_past_the_first_dirty_offset_brings_no_key_back(position: int) -> None:
    """The map would lack a tombstone that the pass stamps, and the value it deletes would stay."""
    world = World()
    log = compacted(world, segment_bytes=1 << 20, index_interval_bytes=0)
    append(log, ("gone", "1"))
    append(log, ("gone", None))
    for n in range(10):
        append(log, (f"{n}", "v"))
    log.roll()
    put(log.fs, log.segments.first.offset_index.path, position.to_bytes(4, "big"), 4)

    clean(log, 1)

    assert ("gone", "1") not in [(key, value) for _, key, value in contents(log)]
