"""What the simulated disk loses, how it fails, and that it does both the same way every time.

What it has in common with the real disk is in tests/unit/test_system.py.
"""

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.errors import LogDirLocked
from ledgerstone.fs import Filesystem
from ledgerstone.sim.clock import VirtualClock
from ledgerstone.sim.dice import SeededDice
from ledgerstone.sim.filesystem import (
    SimFile,
    SimFilesystem,
    SimulatedCrash,
)
from ledgerstone.sim.platter import SECTOR_BYTES, PowerLoss
from tests.kit.sized import examples


def new_disk(seed: int | str = 1) -> SimFilesystem:
    return SimFilesystem(dice=SeededDice(seed), clock=VirtualClock(start_ms=1_000))


def synced(fs: SimFilesystem, path: str, data: bytes) -> SimFile:
    file = fs.open(path, create=True)
    file.pwrite(data, 0)
    file.fsync()
    fs.fsync_dir("/")
    return file


def outcomes(
    prepare: Callable[[SimFilesystem], object], *, seeds: int = 300
) -> dict[tuple[tuple[str, bytes], ...], int]:
    """How often each content of the disk was what random power loss left behind."""
    counts: dict[tuple[tuple[str, bytes], ...], int] = {}
    for seed in range(seeds):
        fs = new_disk(seed)
        prepare(fs)
        fs.power_loss("random")
        left = tuple(fs.files().items())
        counts[left] = counts.get(left, 0) + 1
    return counts


# --- what survives ------------------------------------------------------------------------------


def test_a_process_kill_keeps_the_page_cache() -> None:
    fs = new_disk()
    fs.open("/log", create=True).pwrite(b"abc", 0)

    fs.kill()

    assert fs.files() == {"/log": b"abc"}


def test_a_kill_does_not_make_anything_durable() -> None:
    fs = new_disk()
    fs.open("/log", create=True).pwrite(b"abc", 0)

    fs.kill()
    fs.power_loss("none")

    assert fs.files() == {}


def test_power_loss_takes_what_was_not_synced_and_keeps_what_was() -> None:
    fs = new_disk()
    file = synced(fs, "/log", b"synced")
    file.pwrite(b" and not", 6)

    fs.power_loss("none")

    assert fs.files() == {"/log": b"synced"}


def test_power_loss_in_mode_all_keeps_everything() -> None:
    fs = new_disk()
    fs.make_dir("/t-0")
    file = fs.open("/t-0/log", create=True)
    file.pwrite(b"0123456789", 0)
    file.truncate(4)

    fs.power_loss("all")
    fs.power_loss("none")

    assert fs.files() == {"/t-0/log": b"0123"}


def test_fsync_of_a_file_does_not_make_its_name_durable() -> None:
    fs = new_disk()
    file = fs.open("/log", create=True)
    file.pwrite(b"abc", 0)
    file.fsync()

    fs.power_loss("none")

    assert fs.files() == {}


def test_fsync_dir_does_not_make_the_data_durable() -> None:
    fs = new_disk()
    fs.open("/log", create=True).pwrite(b"abc", 0)
    fs.fsync_dir("/")

    fs.power_loss("none")

    assert fs.files() == {"/log": b""}


def test_a_directory_survives_only_with_its_parent_synced() -> None:
    fs = new_disk()
    fs.make_dir("/a/b")
    fs.fsync_dir("/a")

    fs.power_loss("none")

    assert not fs.exists("/a")


def test_an_unsynced_rename_over_a_file_is_undone_whole() -> None:
    fs = new_disk()
    synced(fs, "/live", b"old")
    synced(fs, "/live.tmp", b"new")
    fs.rename("/live.tmp", "/live")

    fs.power_loss("none")

    assert fs.files() == {"/live": b"old", "/live.tmp": b"new"}


def test_an_unsynced_unlink_brings_the_file_back_with_its_durable_content() -> None:
    fs = new_disk()
    file = synced(fs, "/log", b"old")
    file.pwrite(b"unsynced", 0)
    fs.unlink("/log")

    fs.power_loss("none")

    assert fs.files() == {"/log": b"old"}


def test_data_written_through_the_old_name_is_synced_under_the_new_one() -> None:
    fs = new_disk()
    file = synced(fs, "/log.swap", b"a")
    fs.rename("/log.swap", "/log")
    file.pwrite(b"b", 1)
    file.fsync()
    fs.fsync_dir("/")

    fs.power_loss("none")

    assert fs.files() == {"/log": b"ab"}


def test_entry_operations_are_applied_in_their_order_whenever_they_are_synced() -> None:
    fs = new_disk()
    fs.make_dir("/a")
    fs.make_dir("/b")
    fs.fsync_dir("/")
    for directory in ("/a", "/b"):
        fs.open(f"{directory}/log.tmp", create=True)
        fs.rename(f"{directory}/log.tmp", f"{directory}/log")
    fs.fsync_dir("/a")
    twin = fs.clone()

    fs.power_loss("none")
    twin.power_loss("all")

    assert fs.files() == {"/a/log": b""}
    assert twin.files() == {"/a/log": b"", "/b/log": b""}


def test_what_power_loss_took_does_not_come_back_with_a_later_sync() -> None:
    fs = new_disk()
    fs.open("/log", create=True)
    fs.power_loss("none")

    fs.fsync_dir("/")
    fs.power_loss("all")

    assert fs.files() == {}


def test_mtime_reaches_the_disk_only_with_a_change_of_size_as_fdatasync_does_it() -> None:
    fs = new_disk()
    file = synced(fs, "/log", b"abc")
    fs.set_mtime_ms("/log", 5)
    file.pwrite(b"x", 0)
    fs.set_mtime_ms("/log", 6)
    file.fsync()
    overwritten = fs.clone()
    file.pwrite(b"yz", 2)
    fs.set_mtime_ms("/log", 7)
    file.fsync()

    overwritten.power_loss("none")
    fs.power_loss("none")

    assert overwritten.mtime_ms("/log") == 1_000
    assert fs.mtime_ms("/log") == 7


# --- chance -------------------------------------------------------------------------------------


def test_directory_operations_survive_as_a_prefix_and_renames_whole() -> None:
    def prepare(fs: SimFilesystem) -> None:
        synced(fs, "/live", b"old")
        synced(fs, "/tmp", b"new")
        fs.rename("/live", "/deleted")
        fs.rename("/tmp", "/live")
        fs.unlink("/deleted")

    states = outcomes(prepare)

    assert set(states) == {
        (("/live", b"old"), ("/tmp", b"new")),
        (("/deleted", b"old"), ("/tmp", b"new")),
        (("/deleted", b"old"), ("/live", b"new")),
        (("/live", b"new"),),
    }


def test_a_rename_between_directories_is_never_seen_half() -> None:
    def prepare(fs: SimFilesystem) -> None:
        fs.make_dir("/a")
        fs.make_dir("/b")
        synced(fs, "/a/log", b"x")
        fs.fsync_dir("/a")
        fs.open("/b/other", create=True)
        fs.rename("/a/log", "/b/log")
        fs.rename("/b/log", "/b/renamed")

    states = outcomes(prepare)

    assert set(states) == {
        (("/a/log", b"x"),),
        (("/a/log", b"x"), ("/b/other", b"")),
        (("/b/log", b"x"), ("/b/other", b"")),
        (("/b/other", b""), ("/b/renamed", b"x")),
    }


@pytest.mark.parametrize("directory", ["/a", "/b"])
def test_syncing_either_side_of_a_rename_syncs_it_and_what_came_before(directory: str) -> None:
    fs = new_disk()
    fs.make_dir("/a")
    fs.make_dir("/b")
    synced(fs, "/a/log", b"x")
    fs.fsync_dir("/a")
    fs.open("/b/before", create=True)
    fs.rename("/a/log", "/b/log")
    fs.fsync_dir(directory)

    fs.power_loss("none")

    assert fs.files() == {"/b/before": b"", "/b/log": b"x"}


def test_directories_keep_their_prefixes_independently() -> None:
    def prepare(fs: SimFilesystem) -> None:
        fs.make_dir("/a")
        fs.make_dir("/b")
        fs.fsync_dir("/")
        fs.open("/a/1", create=True)
        fs.open("/b/1", create=True)

    states = outcomes(prepare)

    assert len(states) == 4


def test_an_unsynced_append_may_be_lost_torn_or_replaced_by_zeros_or_garbage() -> None:
    head, tail = b"h" * 700, b"t" * 1_100

    def prepare(fs: SimFilesystem) -> None:
        synced(fs, "/log", head).pwrite(tail, len(head))

    contents = [dict(state)["/log"] for state in outcomes(prepare)]

    assert all(content[: len(head)] == head for content in contents)
    assert head in contents
    assert head + tail in contents
    assert head + tail[: 1024 - 700] in contents  # torn at the sector border
    assert head + bytes(len(tail)) in contents  # the size arrived, the data did not
    assert head + bytes(1024 - 700) + tail[1024 - 700 :] in contents  # written out of order
    assert any(len(content) == 1_800 and set(content[700:]) - set(b"t\0") for content in contents)
    # A size that no write left behind is the mark of a torn write, which has no holes.
    torn = [content for content in contents if len(content) not in (700, 1_800)]
    assert all(content == (head + tail)[: len(content)] for content in torn)


def test_a_sector_is_never_torn() -> None:
    def prepare(fs: SimFilesystem) -> None:
        synced(fs, "/log", b"a" * 4 * SECTOR_BYTES).pwrite(b"b" * 4 * SECTOR_BYTES, 0)

    contents = [dict(state)["/log"] for state in outcomes(prepare)]

    sectors = [
        content[at : at + SECTOR_BYTES]
        for content in contents
        for at in range(0, len(content), SECTOR_BYTES)
    ]
    assert set(sectors) == {b"a" * SECTOR_BYTES, b"b" * SECTOR_BYTES}
    assert len(contents) == 16


def test_data_written_after_a_truncation_is_never_seen_in_the_file_before_it() -> None:
    def prepare(fs: SimFilesystem) -> None:
        file = synced(fs, "/log", b"old old!")
        file.truncate(0)
        file.pwrite(b"new", 0)

    contents = [dict(state)["/log"] for state in outcomes(prepare)]

    # Three bytes of anything are the size without the data.
    assert {content for content in contents if len(content) != 3} == {b"old old!", b""}
    assert b"new" in contents
    assert b"old" not in contents


def test_a_truncation_may_be_lost_while_sectors_written_before_it_arrive() -> None:
    old, new = b"a" * SECTOR_BYTES, b"b" * SECTOR_BYTES

    def prepare(fs: SimFilesystem) -> None:
        file = synced(fs, "/log", old * 2)
        file.pwrite(new * 2, 0)
        file.truncate(0)

    contents = [dict(state)["/log"] for state in outcomes(prepare)]

    assert set(contents) == {old + old, old + new, new + old, new + new, b""}


@examples(100)
@given(
    changes=st.lists(
        st.one_of(
            st.tuples(st.just("pwrite"), st.integers(0, 2_000), st.integers(1, 1_500)),
            st.tuples(st.just("truncate"), st.integers(0, 3_000), st.just(0)),
            st.tuples(st.just("fsync"), st.just(0), st.just(0)),
        ),
        max_size=12,
    ),
    seed=st.integers(0, 2**32),
)
def test_after_power_loss_cache_and_disk_agree_and_synced_bytes_are_there(
    changes: list[tuple[str, int, int]], seed: int
) -> None:
    fs = new_disk(seed)
    file = synced(fs, "/log", b"start")
    expected = b"start"
    for fill, (operation, position, size) in enumerate(changes, start=1):
        match operation:
            case "pwrite":
                file.pwrite(bytes([fill]) * size, position)
            case "truncate":
                file.truncate(position)
            case _:
                file.fsync()
                expected = file.pread(1 << 20, 0)
    none, everything = fs.clone(), fs.clone()
    cached = fs.files()["/log"]

    none.power_loss("none")
    everything.power_loss("all")
    fs.power_loss("random")
    survived = fs.files()
    fs.power_loss("all")
    fs.power_loss("none")

    assert none.files() == {"/log": expected}
    assert everything.files() == {"/log": cached}
    assert fs.files() == survived


# --- crash points -------------------------------------------------------------------------------


def test_the_nth_operation_dies_before_it_takes_effect_and_so_does_everything_after() -> None:
    fs = new_disk()
    file = fs.open("/log", create=True)
    fs.crash_at(fs.operation_count + 2)
    file.pwrite(b"one", 0)

    with pytest.raises(SimulatedCrash, match=r"operation 3: pwrite /log 3\+3"):
        file.pwrite(b"two", 3)
    for act in (
        lambda: file.pread(1, 0),
        lambda: file.size(),
        lambda: file.fsync(),
        lambda: fs.exists("/log"),
        lambda: fs.exists("/"),
        lambda: fs.list_dir("/"),
        lambda: fs.make_dir("/"),
        lambda: fs.unlink("/log"),
    ):
        with pytest.raises(SimulatedCrash):
            act()
    file.close()
    fs.kill()

    assert fs.open("/log").pread(10, 0) == b"one"
    assert fs.operation_count == len(fs.trace) == 3


def test_every_mutating_operation_is_a_crash_point_and_in_the_trace() -> None:
    fs = new_disk()

    fs.make_dir("/a/b")
    file = fs.open("/a/log", create=True)
    fs.open("/a/log", create=True)
    file.pwrite(b"xyz", 0)
    file.truncate(1)
    file.fsync()
    fs.set_mtime_ms("/a/log", 9)
    fs.rename("/a/log", "/a/old")
    fs.fsync_dir("/a")
    fs.unlink("/a/old")
    fs.remove_dir("/a/b")

    assert fs.trace == [
        "mkdir /a",
        "mkdir /a/b",
        "create /a/log",
        "pwrite /a/log 0+3",
        "truncate /a/log 1",
        "fsync /a/log",
        "set_mtime /a/log 9",
        "rename /a/log /a/old",
        "fsync_dir /a",
        "unlink /a/old",
        "rmdir /a/b",
    ]
    assert fs.operation_count == 11


def test_an_operation_that_is_refused_is_not_counted() -> None:
    fs = new_disk()

    with pytest.raises(FileNotFoundError):
        fs.unlink("/missing")

    assert fs.trace == []


def test_a_torn_pwrite_leaves_a_proper_part_behind() -> None:
    parts = {}
    for seed in range(100):
        fs = new_disk(seed)
        file = synced(fs, "/log", b"")
        fs.crash_at(fs.operation_count + 1, torn=True)
        with pytest.raises(SimulatedCrash):
            file.pwrite(b"0123", 0)
        fs.kill()
        parts[fs.files()["/log"]] = seed

    assert sorted(parts) == [b"", b"0", b"01", b"012"]


def test_a_crash_point_in_the_past_is_refused() -> None:
    fs = new_disk()
    fs.make_dir("/a")

    with pytest.raises(ValueError, match="operation 1 is past"):
        fs.crash_at(1)


def test_a_simulated_crash_is_not_caught_by_error_handling() -> None:
    assert not issubclass(SimulatedCrash, Exception)


@pytest.mark.parametrize("reboot", [SimFilesystem.kill, SimFilesystem.power_loss])
def test_handles_and_locks_do_not_outlive_their_process(
    reboot: Callable[[SimFilesystem], None],
) -> None:
    fs = new_disk()
    file = synced(fs, "/log", b"abc")
    lock = fs.lock("/.lock")

    reboot(fs)

    with pytest.raises(OSError, match="Bad file descriptor"):
        file.pread(1, 0)
    next_lock = fs.lock("/.lock")
    lock.release()
    with pytest.raises(LogDirLocked):
        fs.lock("/.lock")
    next_lock.release()


def replace_atomically(fs: Filesystem, *, skip: str = "") -> None:
    """Kafka's way to write a checkpoint, with one step left out where the test says so."""
    file = fs.open("/point.tmp", create=True)
    file.truncate(0)
    file.pwrite(b"new!" * 300, 0)
    if skip != "fsync":
        file.fsync()
    if skip == "rename":
        fs.open("/point").pwrite(b"new!" * 300, 0)
    else:
        fs.rename("/point.tmp", "/point")
    if skip != "fsync_dir":
        fs.fsync_dir("/")


def sweep(skip: str, mode: PowerLoss | None) -> dict[bytes, int]:
    """Every crash point of the replacement; what the checkpoint then held, and how often."""
    prepared = new_disk()
    synced(prepared, "/point", b"old." * 300)
    rehearsal = prepared.clone()
    replace_atomically(rehearsal, skip=skip)
    found: dict[bytes, int] = {}
    for n in range(1, rehearsal.operation_count + 2):
        for seed in range(30):
            fs = prepared.clone(dice=SeededDice(f"{seed}/{n}"))
            fs.crash_at(n, torn=True)
            with suppress(SimulatedCrash):
                replace_atomically(fs, skip=skip)
            if mode is None:
                fs.kill()
            else:
                fs.power_loss(mode)
            content = fs.files()["/point"]
            found[content] = found.get(content, 0) + 1
    return found


@pytest.mark.parametrize("mode", [None, "none", "all", "random"])
def test_an_atomic_replacement_survives_every_crash_point(mode: PowerLoss | None) -> None:
    found = sweep("", mode)

    assert set(found) == {b"old." * 300, b"new!" * 300}


def test_the_sweep_finds_a_missing_fsync() -> None:
    found = sweep("fsync", "random")

    assert set(found) - {b"old." * 300, b"new!" * 300}


def test_the_sweep_finds_a_missing_rename() -> None:
    found = sweep("rename", None)

    assert set(found) - {b"old." * 300, b"new!" * 300}


def test_a_missing_directory_sync_loses_a_replacement_that_was_reported_done() -> None:
    fs = new_disk()
    synced(fs, "/point", b"old.")
    replace_atomically(fs, skip="fsync_dir")

    fs.power_loss("none")

    assert fs.files()["/point"] == b"old."


# --- errors -------------------------------------------------------------------------------------


def test_the_nth_operation_can_fail_and_the_process_lives_on() -> None:
    fs = new_disk()
    file = synced(fs, "/log", b"")
    fs.fail_at(fs.operation_count + 1, errno.EIO)

    with pytest.raises(OSError, match="Input/output error: '/log'"):
        file.pwrite(b"a", 0)
    file.pwrite(b"b", 0)

    assert fs.files() == {"/log": b"b"}


def test_failures_can_be_aimed_at_operations_and_paths_a_number_of_times() -> None:
    fs = new_disk()
    log, index = synced(fs, "/0.log", b""), synced(fs, "/0.index", b"")
    fs.fail_matching("fsync*", "*.log", errno.EIO, times=2)

    index.fsync()
    fs.fsync_dir("/")
    for _ in range(2):
        with pytest.raises(OSError, match="Input/output error"):
            log.fsync()
    log.fsync()


def test_reads_can_fail_for_ever_until_faults_are_cleared() -> None:
    fs = new_disk()
    file = synced(fs, "/log", b"abc")
    fs.fail_matching("pread", "/log", errno.EIO, times=None)

    for _ in range(3):
        with pytest.raises(OSError, match="Input/output error"):
            file.pread(1, 0)
    fs.clear_faults()

    assert file.pread(3, 0) == b"abc"


def test_a_failed_pwrite_may_leave_a_torn_part() -> None:
    fs = new_disk(3)
    file = synced(fs, "/log", b"")
    fs.fail_matching("pwrite", "*", errno.EIO, torn=True)

    with pytest.raises(OSError, match="Input/output error"):
        file.pwrite(b"x" * 1_000, 0)

    assert 0 < file.size() < 1_000


def test_after_a_failed_fsync_the_next_one_makes_the_data_durable() -> None:
    fs = new_disk()
    file = synced(fs, "/log", b"")
    file.pwrite(b"abc", 0)
    fs.fail_matching("fsync", "*", errno.EIO)

    with pytest.raises(OSError, match="Input/output error"):
        file.fsync()
    file.fsync()
    fs.power_loss("none")

    assert fs.files() == {"/log": b"abc"}


def test_after_a_failed_fsync_that_lost_its_pages_the_next_one_lies() -> None:
    fs = new_disk()
    file = synced(fs, "/log", b"")
    file.pwrite(b"abc", 0)
    fs.fail_matching("fsync", "*", errno.EIO, lose_dirty=True)

    with pytest.raises(OSError, match="Input/output error"):
        file.fsync()
    file.fsync()
    shown = file.pread(10, 0)
    fs.power_loss("all")

    assert shown == b"abc"
    assert fs.files() == {"/log": b""}


def test_a_full_disk_takes_what_fits_and_then_refuses() -> None:
    fs = SimFilesystem(dice=SeededDice(1), capacity_bytes=10)
    file = synced(fs, "/log", b"0123456")

    with pytest.raises(OSError, match="No space left") as caught:
        file.pwrite(b"abcdef", 7)
    file.pwrite(b"xx", 0)

    assert caught.value.errno == errno.ENOSPC
    assert fs.files() == {"/log": b"xx23456abc"}


def test_a_full_disk_has_room_again_after_unlink() -> None:
    fs = SimFilesystem(dice=SeededDice(1), capacity_bytes=10)
    synced(fs, "/old", b"0123456789")
    file = fs.open("/new", create=True)

    with pytest.raises(OSError, match="No space left"):
        file.pwrite(b"a", 0)
    fs.unlink("/old")
    file.pwrite(b"abc", 0)

    assert fs.files() == {"/new": b"abc"}


# --- clones and determinism ---------------------------------------------------------------------


def test_a_clone_is_another_machine_with_the_same_disk_and_cache() -> None:
    fs = new_disk()
    file = synced(fs, "/log", b"abc")
    file.pwrite(b"def", 3)
    fs.open("/unsynced", create=True)
    lock = fs.lock("/.lock")

    twin = fs.clone()
    everything = fs.clone()
    file.pwrite(b"XXX", 0)
    file.fsync()
    twin.open("/log").pwrite(b"!", 6)
    twin_lock = twin.lock("/.lock")

    assert fs.files()["/log"] == b"XXXdef"
    assert twin.files() == {"/.lock": b"", "/log": b"abcdef!", "/unsynced": b""}
    assert twin.trace == ["pwrite /log 6+1"]
    twin_lock.release()
    lock.release()
    twin.power_loss("none")
    everything.power_loss("all")
    assert twin.files() == {"/log": b"abc"}
    assert everything.files()["/log"] == b"abcdef"


def test_a_clone_remembers_unsynced_unlinks() -> None:
    fs = new_disk()
    synced(fs, "/log", b"abc")
    fs.unlink("/log")

    twin = fs.clone()
    twin.power_loss("none")

    assert (fs.files(), twin.files()) == ({}, {"/log": b"abc"})


def busy_run(seed: int) -> tuple[list[str], dict[str, bytes]]:
    """A run in which chance picks the work as well as the survivors."""
    fs, dice = new_disk(seed), SeededDice(seed + 1)
    for _ in range(40):
        directory = f"/t-{dice.below(3)}"
        fs.make_dir(directory)
        path = f"{directory}/{dice.below(4)}.log"
        file = fs.open(path, create=True)
        match dice.below(6):
            case 0:
                file.fsync()
            case 1:
                fs.rename(path, f"{directory}/{dice.below(4)}.log")
            case 2:
                fs.unlink(path)
            case 3:
                fs.fsync_dir(["/", directory][dice.below(2)])
            case _:
                file.pwrite(dice.random_bytes(1 + dice.below(2_000)), dice.below(1_000))
        if dice.below(15) == 0:
            fs.power_loss("random")
    fs.power_loss("random")
    return fs.trace, fs.files()


def test_the_same_seed_and_calls_give_the_same_trace_and_survivors() -> None:
    runs = [busy_run(seed) for seed in range(20)]

    assert runs == [busy_run(seed) for seed in range(20)]
    assert any(files != runs[0][1] for _, files in runs)


def test_a_clone_with_equal_dice_loses_the_same_as_its_original() -> None:
    for seed in range(20):
        fs = new_disk(seed)
        for name in ("b", "a", "c"):
            fs.open(f"/{name}", create=True).pwrite(bytes(1_500), 0)
        fs.fsync_dir("/")

        twin = fs.clone(dice=SeededDice(seed))
        fs.power_loss("random")
        twin.power_loss("random")

        assert fs.files() == twin.files()


def test_survivors_do_not_depend_on_the_hash_seed_of_the_process() -> None:
    program = (
        "import sys; from ledgerstone.sim.filesystem import SimFilesystem; "
        "from ledgerstone.sim.dice import SeededDice; "
        "fs = SimFilesystem(dice=SeededDice(5)); "
        "[fs.make_dir(f'/{d}') for d in 'abcdef']; "
        "[fs.open(f'/{d}/{n}', create=True).pwrite(bytes([n]) * 900, 0) "
        "for d in 'abcdef' for n in range(5)]; "
        "fs.fsync_dir('/'); fs.power_loss('random'); sys.stdout.write(repr(fs.files()))"
    )

    outputs = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]

    assert outputs[0] == outputs[1]
    assert len(outputs[0]) > 1_000


def test_a_crash_waits_for_the_operation_on_a_file() -> None:
    fs = SimFilesystem(dice=SeededDice(0))
    fs.make_dir("/d")
    log, other = fs.open("/d/a.log", create=True), fs.open("/d/b", create=True)
    fs.crash_matching("pwrite", "*.log", skip=1)
    other.pwrite(b"x", 0)
    log.pwrite(b"x", 0)
    with pytest.raises(SimulatedCrash):
        log.pwrite(b"y", 1)
    fs.kill()
    assert fs.files()["/d/a.log"] == b"x"
