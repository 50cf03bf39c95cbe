"""Basic cleaning, scenario by scenario."""

import pytest

from ledgerstone.errors import CleaningAborted, CorruptFile
from ledgerstone.records.batch import Codec
from ledgerstone.storage.filenames import CLEANED
from tests.kit.cleaning import clean, compacted, contents, plan_of, run, shape
from tests.kit.log_checks import check_log
from tests.kit.logs import World, all_records, offsets
from tests.kit.scenario import append, content_of, disk, names, put


def test_exactly_the_keys_that_are_newer_elsewhere_vanish() -> None:
    """Four segments of unique keys; the map holds newer offsets for every other key."""
    log = compacted(World(), segment_bytes=300)
    for n in range(12):
        append(log, (str(n), "old"))
    for n in (1, 3, 5, 7, 9):
        append(log, (str(n), "new"))
    log.roll()
    sources = [segment.size for segment in log.segments][:-1]

    report = clean(log)

    old = [key for _, key, value in contents(log) if value == "old"]
    assert old == ["0", "2", "4", "6", "8", "10", "11"]
    assert report.stats.bytes_read == sum(sources)
    assert report.stats.dropped_superseded == 5
    check_log(log)


def test_batch_below_the_first_uncleanable_offset_stays_without_records() -> None:
    """Every key of the first segments is superseded."""
    log = compacted(World(), cleanup_policy=("delete",))
    append(log, (None, "x"), (None, "y"))
    append(log, (None, "z"))
    log.roll()

    report = clean(log)

    assert shape(log) == [(log.segments.active.base_offset - 1, 0)]
    assert report.stats.batches_emptied == 1


def test_tiny_map_makes_progress_pass_by_pass() -> None:
    """Two keys alternate, and the map has room for one."""
    log = compacted(World())
    for key in ("a", "b", "a", "b", "a"):
        append(log, (key, "v"))
    log.roll()
    left = []
    first_dirty = 2

    for _ in range(3):
        report = clean(log, first_dirty, dedupe_buffer_bytes=24, load_factor=1.0)
        first_dirty = report.end_offset
        left.append((first_dirty, offsets(all_records(log))))

    assert left == [(3, [1, 2, 3, 4]), (4, [2, 3, 4]), (5, [3, 4])]


def test_stats_say_what_was_read_and_written() -> None:
    """Five records of two keys, dirty from offset 2, with room for all keys."""
    log = compacted(World())
    for key in ("a", "b", "a", "b", "a"):
        append(log, (key, "v"))
    log.roll()

    report = clean(log, 2, dedupe_buffer_bytes=3 * 24, load_factor=1.0)

    assert report.end_offset == 5
    assert report.stats.records_read == 5
    assert report.stats.records_kept == 2
    assert report.stats.bytes_written == log.segments.first.size == 2 * 70
    assert report.stats.dropped_keyless == 0
    assert (report.stats.map_entries, report.stats.map_slots) == (2, 3)


def test_segments_from_the_first_uncleanable_offset_on_are_not_touched() -> None:
    """Only the first two of seven segments may be cleaned."""
    world = World()
    log = compacted(world, segment_bytes=210)
    for _ in range(21):
        append(log, ("k", "v"))
    bases = log.segments.bases()
    before = {name: content_of(world, name) for name in names(world)}

    run(log, plan_of(log, end_segment=2))

    assert len(bases) == 7
    assert log.segments.bases() == bases
    assert [segment.size for segment in log.segments][:3] == [0, 70, 210]
    for base in bases[2:]:
        name = f"{base:020d}.log"
        assert content_of(world, name) == before[name]


def test_records_without_a_key_go_and_are_counted() -> None:
    """Records without keys were written while the policy was delete."""
    log = compacted(World(), cleanup_policy=("delete",))
    append(log, (None, "x"), ("k", "v"), (None, "y"))
    append(log, (None, "z"))
    append(log, ("l", "v"))
    log.roll()

    report = clean(log)

    assert contents(log) == [(1, "k", "v"), (4, "l", "v")]
    assert report.stats.dropped_keyless == 3


def test_batches_larger_than_the_window_get_room() -> None:
    """The batches are larger than the read buffer, and larger than the topic's limit is now."""
    log = compacted(World(), max_message_bytes=2 << 20)
    for value in ("x" * (1 << 20), "small", "y" * (1 << 20)):
        append(log, ("k", value))
    append(log, ("l", "small"))
    log.roll()

    report = clean(log, window_bytes=1024)

    assert offsets(all_records(log)) == [2, 3]
    assert report.stats.bytes_read > 2 << 20
    check_log(log)


@pytest.mark.parametrize("damage", ["magic", "cut", "tail"])
def test_damaged_file_is_named_with_the_position_and_nothing_is_left_behind(damage: str) -> None:
    """The magic byte is overwritten, or the file is cut short."""
    world = World()
    log = compacted(world)
    for _ in range(20):
        append(log, ("k", "v" * 100))
    log.roll()
    path = log.segments.first.paths()[0]
    plan = plan_of(log)
    size = plan.segments[0].size_bytes // 20
    if damage == "magic":
        put(log.fs, path, b"\xff", 3 * size + 16)
    elif damage == "cut":
        log.fs.open(path).truncate(1024)
    else:
        put(log.fs, path, b"\x7f", 19 * size + 8)

    with pytest.raises(CorruptFile) as caught:
        run(log, plan)

    assert caught.value.path == path
    assert caught.value.position == {"magic": 3 * size, "cut": 1024, "tail": 19 * size}[damage]
    assert names(world, CLEANED) == []


def test_batches_that_go_as_a_whole_need_no_room() -> None:
    """All batches belong to an aborted transaction and are larger than the topic's limit."""
    log = compacted(World())
    append(log, ("k", "v" * 5000), producer_id=1, producer_epoch=0, base_sequence=0)
    append(log, ("k", "v" * 5000), producer_id=1, producer_epoch=0, base_sequence=1)
    append(log, ("k", "v"))
    log.roll()

    clean(log, window_bytes=100)

    assert shape(log) == [(1, 0), (2, 1)]


def test_cleaned_file_is_as_long_as_its_batches_also_with_preallocation() -> None:
    """Segments are preallocated at full size."""
    world = World()
    log = compacted(world, preallocate=True, segment_bytes=1024)
    append(log, ("k", "v"))
    append(log, ("k", "w"))
    log.roll()

    clean(log)

    assert log.segments.first.file.size() == log.segments.first.size == 70


@pytest.mark.parametrize("after", range(1, 9))
def test_abort_leaves_the_originals_and_nothing_else(after: int) -> None:
    """The pass is told to stop while it copies."""
    world = World()
    log = compacted(world, segment_bytes=300)
    for _ in range(12):
        append(log, ("k", "v"))
    log.roll()
    before = disk(world).files()
    asked = []

    def should_abort() -> bool:
        asked.append(True)
        return len(asked) > after

    with pytest.raises(CleaningAborted, match="topic-0"):
        run(log, plan_of(log), should_abort=should_abort, on_group=lambda _: None)

    kept = {path: data for path, data in disk(world).files().items() if CLEANED not in path}
    assert kept == before
    # What was handed over is the owner's; what was in hand is gone.
    left = names(world, ".log" + CLEANED)
    assert left == [f"{base:020d}.log{CLEANED}" for base in (0, 4, 8)][: max(0, after - 3) // 2]


def test_deleted_keys_have_no_live_value() -> None:
    """Half of the keys get a tombstone before the pass."""
    log = compacted(World(), segment_bytes=500)
    for n in range(20):
        append(log, (str(n), "v"))
    for n in range(0, 20, 2):
        append(log, (str(n), None))
    append(log, ("pad", "v"))
    log.roll()

    clean(log)

    live = [key for _, key, value in contents(log) if value is not None]
    assert sorted(live) == sorted([str(n) for n in range(1, 20, 2)] + ["pad"])


@pytest.mark.parametrize("codec", list(Codec))
def test_last_value_and_offset_of_each_key_survive_under_every_codec(codec: Codec) -> None:
    """Each key is written three times, plus one batch of the largest size."""
    log = compacted(World(), segment_bytes=20_000, max_message_bytes=15_000)
    for turn in range(3):
        for n in range(0, 100, 10):
            append(log, *[(str(n + m), f"{turn} {n + m}") for m in range(10)], codec=codec)
    append(log, ("large", "".join(chr(33 + n * n % 90) for n in range(14_000))), codec=codec)
    log.roll()
    last = {key: (offset, value) for offset, key, value in contents(log)}
    size = log.size_bytes

    report = clean(log)

    assert {key: (offset, value) for offset, key, value in contents(log)} == last
    assert len(contents(log)) == 101
    assert log.size_bytes < size
    assert report.end_offset == log.segments.active.base_offset
    check_log(log)
