"""The real clock, dice and disk; and the sentences the real and the simulated disk both obey."""

import errno
import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from ledgerstone.clock import Clock, Dice
from ledgerstone.errors import LogDirLocked
from ledgerstone.fs import File, Filesystem
from ledgerstone.sim.clock import VirtualClock
from ledgerstone.sim.dice import SeededDice
from ledgerstone.sim.filesystem import SimFilesystem
from ledgerstone.system import OsFile, OsFilesystem, SystemClock, SystemDice


class Disk(NamedTuple):
    fs: Filesystem
    root: str

    def path(self, name: str) -> str:
        return f"{self.root}/{name}"

    def put(self, name: str, data: bytes) -> File:
        file = self.fs.open(self.path(name), create=True)
        file.pwrite(data, 0)
        return file

    def get(self, name: str) -> bytes:
        return self.fs.open(self.path(name)).pread(1 << 20, 0)


@pytest.fixture(params=["real", "simulated"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Disk:
    if request.param == "real":
        return Disk(OsFilesystem(), str(tmp_path))
    fs = SimFilesystem(dice=SeededDice(1), clock=VirtualClock())
    fs.make_dir("/data")
    return Disk(fs, "/data")


# --- both disks: files --------------------------------------------------------------------------


def test_opening_a_missing_file_is_refused_unless_create_is_set(disk: Disk) -> None:
    with pytest.raises(FileNotFoundError, match="log"):
        disk.fs.open(disk.path("log"))

    disk.fs.open(disk.path("log"), create=True)

    assert disk.fs.size_of(disk.path("log")) == 0


def test_private_file_is_its_owners_alone_under_any_name(disk: Disk) -> None:
    file = disk.fs.create_private(disk.path("keys.tmp"))
    file.pwrite(b"secret", 0)

    disk.fs.rename(disk.path("keys.tmp"), disk.path("keys"))

    assert disk.fs.mode_of(disk.path("keys")) == 0o600
    assert disk.get("keys") == b"secret"


def test_private_file_does_not_take_over_one_that_is_there(disk: Disk) -> None:
    disk.put("keys", b"readable by all")

    with pytest.raises(FileExistsError):
        disk.fs.create_private(disk.path("keys"))

    assert disk.fs.mode_of(disk.path("keys")) & 0o077


def test_opening_with_create_keeps_what_is_there(disk: Disk) -> None:
    disk.put("log", b"kept")

    file = disk.fs.open(disk.path("log"), create=True)

    assert file.pread(10, 0) == b"kept"


def test_a_file_cannot_be_created_in_a_missing_directory(disk: Disk) -> None:
    with pytest.raises(FileNotFoundError):
        disk.fs.open(disk.path("nowhere/log"), create=True)


def test_a_file_is_not_a_directory_to_look_into(disk: Disk) -> None:
    disk.put("log", b"")

    with pytest.raises(NotADirectoryError):
        disk.fs.open(disk.path("log/inner"), create=True)
    with pytest.raises(NotADirectoryError):
        disk.fs.list_dir(disk.path("log"))
    assert not disk.fs.exists(disk.path("log/inner"))


def test_a_directory_cannot_be_opened_as_a_file(disk: Disk) -> None:
    with pytest.raises(IsADirectoryError):
        disk.fs.open(disk.root, create=True)


def test_pread_is_short_only_at_the_end_of_the_file(disk: Disk) -> None:
    file = disk.put("log", b"0123456789")

    assert file.pread(4, 3) == b"3456"
    assert file.pread(100, 8) == b"89"
    assert file.pread(100, 10) == b""
    assert file.pread(100, 11) == b""
    assert file.pread(0, 5) == b""


@pytest.mark.parametrize("make", [bytearray, lambda size: memoryview(bytearray(size))])
def test_pread_into_fills_the_buffer_as_far_as_the_file_reaches(
    disk: Disk, make: Callable[[int], bytearray | memoryview]
) -> None:
    file = disk.put("log", b"0123456789")
    whole, beyond = make(4), make(4)

    assert file.pread_into(whole, 2) == 4
    assert file.pread_into(beyond, 8) == 2
    assert file.pread_into(beyond, 10) == 0

    assert bytes(whole) == b"2345"
    assert bytes(beyond) == b"89\0\0"


def test_pread_into_counts_bytes_when_the_buffer_has_wider_items(disk: Disk) -> None:
    file = disk.put("log", bytes(range(16)))
    words = memoryview(bytearray(16)).cast("I")

    assert file.pread_into(words, 0) == 16

    assert words.tobytes() == bytes(range(16))


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview])
def test_pwrite_takes_any_buffer_and_overwrites_in_place(
    disk: Disk, wrap: Callable[[bytes], bytes | bytearray | memoryview]
) -> None:
    file = disk.put("log", b"0123456789")

    file.pwrite(wrap(b"abc"), 2)
    file.pwrite(wrap(b"xyz"), 9)

    assert disk.get("log") == b"01abc5678xyz"
    assert file.size() == disk.fs.size_of(disk.path("log")) == 12


def test_pwrite_past_the_end_leaves_zeros_between(disk: Disk) -> None:
    file = disk.put("log", b"ab")

    file.pwrite(b"z", 5)

    assert disk.get("log") == b"ab\0\0\0z"


def test_an_empty_pwrite_past_the_end_does_not_grow_the_file(disk: Disk) -> None:
    file = disk.put("log", b"ab")

    file.pwrite(b"", 100)

    assert file.size() == 2


def test_truncate_cuts_and_extends_with_zeros(disk: Disk) -> None:
    file = disk.put("log", b"0123456789")

    file.truncate(3)
    file.truncate(5)

    assert disk.get("log") == b"012\0\0"


@pytest.mark.parametrize(
    "act",
    [
        lambda file: file.pread(1, -1),
        lambda file: file.pread(-1, 0),
        lambda file: file.pwrite(b"a", -1),
        lambda file: file.truncate(-1),
    ],
    ids=["pread position", "pread size", "pwrite position", "truncate size"],
)
def test_negative_positions_and_sizes_are_refused(disk: Disk, act: Callable[[File], None]) -> None:
    file = disk.put("log", b"abc")

    with pytest.raises(OSError, match="Invalid argument"):
        act(file)


def test_two_handles_see_one_file(disk: Disk) -> None:
    writer = disk.put("log", b"")
    reader = disk.fs.open(disk.path("log"))

    writer.pwrite(b"seen", 0)

    assert reader.pread(10, 0) == b"seen"


def test_a_closed_file_refuses_and_may_be_closed_again(disk: Disk) -> None:
    file = disk.put("log", b"abc")

    file.close()
    file.close()

    with pytest.raises(OSError, match="Bad file descriptor"):
        file.pread(1, 0)
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.pwrite(b"x", 0)


# --- both disks: names --------------------------------------------------------------------------


def test_an_open_file_stays_usable_after_rename_and_unlink(disk: Disk) -> None:
    file = disk.put("log", b"one")

    disk.fs.rename(disk.path("log"), disk.path("log.deleted"))
    file.pwrite(b"two", 3)
    renamed = disk.get("log.deleted")
    disk.fs.unlink(disk.path("log.deleted"))
    file.pwrite(b"three", 6)

    assert renamed == b"onetwo"
    assert file.pread(100, 0) == b"onetwothree"
    assert disk.fs.list_dir(disk.root) == []


def test_rename_replaces_its_target_and_old_handles_keep_the_old_file(disk: Disk) -> None:
    disk.put("new", b"new")
    old = disk.put("live", b"old")

    disk.fs.rename(disk.path("new"), disk.path("live"))

    assert disk.get("live") == b"new"
    assert old.pread(10, 0) == b"old"
    assert disk.fs.list_dir(disk.root) == ["live"]


def test_rename_to_itself_changes_nothing(disk: Disk) -> None:
    disk.fs.make_dir(disk.path("t-0"))
    disk.put("t-0/log", b"abc")

    disk.fs.rename(disk.path("t-0/log"), disk.path("t-0/log"))
    disk.fs.rename(disk.path("t-0"), disk.path("t-0"))

    assert disk.get("t-0/log") == b"abc"


def test_rename_moves_a_directory_with_its_files(disk: Disk) -> None:
    disk.fs.make_dir(disk.path("t-0"))
    disk.put("t-0/log", b"abc")

    disk.fs.rename(disk.path("t-0"), disk.path("t-0.x-delete"))

    assert disk.get("t-0.x-delete/log") == b"abc"
    assert not disk.fs.exists(disk.path("t-0"))


def test_rename_moves_a_file_between_directories(disk: Disk) -> None:
    disk.fs.make_dir(disk.path("a"))
    disk.fs.make_dir(disk.path("b"))
    disk.put("a/log", b"abc")

    disk.fs.rename(disk.path("a/log"), disk.path("b/log"))

    assert disk.get("b/log") == b"abc"
    assert disk.fs.list_dir(disk.path("a")) == []


@pytest.mark.parametrize(
    ("source", "target", "error"),
    [
        ("missing", "file", errno.ENOENT),
        ("file", "missing/file", errno.ENOENT),
        ("file", "empty", errno.EISDIR),
        ("empty", "file", errno.ENOTDIR),
        ("empty", "full", errno.ENOTEMPTY),
        ("full", "full/inside", errno.EINVAL),
        ("file", "n" * 256, errno.ENAMETOOLONG),
    ],
)
def test_rename_refuses(disk: Disk, source: str, target: str, error: int) -> None:
    disk.fs.make_dir(disk.path("empty"))
    disk.fs.make_dir(disk.path("full"))
    disk.put("full/log", b"")
    disk.put("file", b"")

    with pytest.raises(OSError, match=os.strerror(error)):
        disk.fs.rename(disk.path(source), disk.path(target))

    assert disk.fs.list_dir(disk.root) == ["empty", "file", "full"]


def test_a_directory_may_replace_an_empty_one(disk: Disk) -> None:
    disk.fs.make_dir(disk.path("empty"))
    disk.fs.make_dir(disk.path("full"))
    disk.put("full/log", b"abc")

    disk.fs.rename(disk.path("full"), disk.path("empty"))

    assert disk.get("empty/log") == b"abc"


def test_a_name_of_255_bytes_is_the_longest(disk: Disk) -> None:
    disk.put("n" * 255, b"")

    with pytest.raises(OSError, match="File name too long"):
        disk.put("n" * 256, b"")


def test_list_dir_is_sorted_and_shows_files_and_directories(disk: Disk) -> None:
    for name in ("b", "a.log", "c"):
        disk.put(name, b"")
    disk.fs.make_dir(disk.path("aa"))

    assert disk.fs.list_dir(disk.root) == ["a.log", "aa", "b", "c"]
    assert disk.fs.is_dir(disk.path("aa"))
    assert not disk.fs.is_dir(disk.path("b"))
    with pytest.raises(FileNotFoundError):
        disk.fs.list_dir(disk.path("missing"))


def test_make_dir_makes_parents_and_does_nothing_where_it_exists(disk: Disk) -> None:
    disk.fs.make_dir(disk.path("a/b/c"))
    disk.fs.make_dir(disk.path("a/b/c"))

    assert disk.fs.is_dir(disk.path("a/b/c"))


def test_make_dir_does_not_replace_a_file(disk: Disk) -> None:
    disk.put("log", b"")

    with pytest.raises(FileExistsError):
        disk.fs.make_dir(disk.path("log"))
    with pytest.raises(NotADirectoryError):
        disk.fs.make_dir(disk.path("log/inner"))


def test_remove_dir_removes_only_empty_directories(disk: Disk) -> None:
    disk.fs.make_dir(disk.path("t-0"))
    disk.put("t-0/log", b"")

    with pytest.raises(OSError, match="not empty"):
        disk.fs.remove_dir(disk.path("t-0"))
    with pytest.raises(NotADirectoryError):
        disk.fs.remove_dir(disk.path("t-0/log"))
    disk.fs.unlink(disk.path("t-0/log"))
    disk.fs.remove_dir(disk.path("t-0"))

    assert not disk.fs.exists(disk.path("t-0"))


def test_unlink_refuses_directories_and_missing_files(disk: Disk) -> None:
    disk.fs.make_dir(disk.path("t-0"))

    with pytest.raises(IsADirectoryError):
        disk.fs.unlink(disk.path("t-0"))
    with pytest.raises(FileNotFoundError):
        disk.fs.unlink(disk.path("missing"))


def test_mtime_is_kept_to_the_millisecond(disk: Disk) -> None:
    disk.put("log", b"")

    disk.fs.set_mtime_ms(disk.path("log"), 1_234_567_890_123)

    assert disk.fs.mtime_ms(disk.path("log")) == 1_234_567_890_123


def test_a_write_moves_the_mtime(disk: Disk) -> None:
    file = disk.put("log", b"")
    disk.fs.set_mtime_ms(disk.path("log"), 1_000)

    file.pwrite(b"x", 0)

    assert disk.fs.mtime_ms(disk.path("log")) > 1_000


def test_fsync_of_files_and_directories_succeeds_and_changes_nothing_visible(disk: Disk) -> None:
    file = disk.put("log", b"abc")

    file.fsync()
    disk.fs.fsync_dir(disk.root)

    assert disk.get("log") == b"abc"
    with pytest.raises(NotADirectoryError):
        disk.fs.fsync_dir(disk.path("log"))


# --- both disks: the lock -----------------------------------------------------------------------


def test_a_lock_keeps_others_out_until_it_is_released_and_removes_its_file(disk: Disk) -> None:
    lock = disk.fs.lock(disk.path(".lock"))

    with pytest.raises(LogDirLocked, match=r"\.lock"):
        disk.fs.lock(disk.path(".lock"))
    lock.release()

    assert not disk.fs.exists(disk.path(".lock"))
    disk.fs.lock(disk.path(".lock")).release()


def test_a_lock_released_twice_does_not_harm_the_next_owner(disk: Disk) -> None:
    first = disk.fs.lock(disk.path(".lock"))
    first.release()
    second = disk.fs.lock(disk.path(".lock"))

    first.release()

    with pytest.raises(LogDirLocked):
        disk.fs.lock(disk.path(".lock"))
    second.release()


def test_a_lock_file_left_by_a_dead_process_does_not_lock(disk: Disk) -> None:
    disk.put(".lock", b"")

    lock = disk.fs.lock(disk.path(".lock"))

    lock.release()
    assert disk.fs.list_dir(disk.root) == []


# --- only the real one --------------------------------------------------------------------------


def test_system_clock_and_dice_are_what_the_protocols_say() -> None:
    clock: Clock = SystemClock()
    dice: Dice = SystemDice()

    assert clock.now_ms() > 1_700_000_000_000
    assert clock.monotonic_ms() <= clock.monotonic_ms()
    assert {dice.below(2) for _ in range(200)} == {0, 1}
    assert len(dice.random_bytes(16)) == 16
    assert dice.random_bytes(16) != dice.random_bytes(16)


def test_descriptors_are_not_inherited_by_child_processes(tmp_path: Path) -> None:
    file = OsFilesystem().open(f"{tmp_path}/log", create=True)

    assert os.get_inheritable(file.fileno()) is False


def test_a_file_nobody_refers_to_closes_its_descriptor(tmp_path: Path) -> None:
    file = OsFilesystem().open(f"{tmp_path}/log", create=True)
    fd = file.fileno()

    del file

    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_pwrite_continues_after_short_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = OsFilesystem().open(f"{tmp_path}/log", create=True)
    real_pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: real_pwrite(fd, data[:3], at))

    file.pwrite(b"0123456789", 0)

    assert file.pread(20, 0) == b"0123456789"


def test_pwrite_that_makes_no_progress_is_an_error_that_names_the_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = OsFilesystem().open(f"{tmp_path}/log", create=True)
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: 0)

    with pytest.raises(OSError, match="0 of 10 bytes at 7"):
        file.pwrite(b"0123456789", 7)


def test_reads_continue_after_short_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = OsFilesystem().open(f"{tmp_path}/log", create=True)
    file.pwrite(b"0123456789", 0)
    real_pread, real_preadv = os.pread, os.preadv
    monkeypatch.setattr(os, "pread", lambda fd, size, at: real_pread(fd, min(size, 3), at))
    monkeypatch.setattr(os, "preadv", lambda fd, to, at: real_preadv(fd, [to[0][:3]], at))
    buffer = bytearray(8)

    assert file.pread(8, 1) == b"12345678"
    assert file.pread_into(buffer, 1) == 8

    assert bytes(buffer) == b"12345678"


def test_a_lock_on_a_file_that_was_unlinked_meanwhile_is_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fs, path = OsFilesystem(), f"{tmp_path}/.lock"
    real_open, opened = OsFilesystem.open, list[OsFile]()

    def open_and_lose_the_first(self: OsFilesystem, path: str, *, create: bool = False) -> OsFile:
        opened.append(real_open(self, path, create=create))
        if len(opened) == 1:
            os.unlink(path)
        return opened[-1]

    monkeypatch.setattr(OsFilesystem, "open", open_and_lose_the_first)
    lock = fs.lock(path)

    assert len(opened) == 2
    with pytest.raises(LogDirLocked):
        fs.lock(path)
    lock.release()


def _exit_code_of_locking(path: str) -> None:
    try:
        OsFilesystem().lock(path)
    except LogDirLocked:
        os._exit(3)
    os._exit(0)


def test_a_lock_keeps_another_process_out_and_dies_with_its_owner(tmp_path: Path) -> None:
    path = f"{tmp_path}/.lock"
    spawn = multiprocessing.get_context("spawn")
    lock = OsFilesystem().lock(path)

    refused = spawn.Process(target=_exit_code_of_locking, args=(path,))
    refused.start()
    refused.join()
    lock.release()
    granted = spawn.Process(target=_exit_code_of_locking, args=(path,))
    granted.start()
    granted.join()

    assert (refused.exitcode, granted.exitcode) == (3, 0)
    OsFilesystem().lock(path).release()


def test_system_dice_throw_every_number_below_the_bound_and_no_other() -> None:
    dice = SystemDice()

    for bound in (1, 2, 3, 7, 256, 257):
        assert {dice.below(bound) for _ in range(40 * bound)} == set(range(bound))
    assert 0 <= dice.below(2**63) < 2**63


def test_nothing_is_below_zero() -> None:
    with pytest.raises(ValueError, match="nothing is below 0"):
        SystemDice().below(0)
