"""Files with secrets: written for their owner alone, and looked at before they are read."""

import os
import stat
from pathlib import Path

import pytest

from ledgerstone.errors import NotPrivate
from ledgerstone.private_files import (
    Exposure,
    append_private,
    create_private,
    open_private,
    read_operators,
    read_private,
    write_private,
)

REGULAR = stat.S_IFREG


def secret(directory: Path, mode: int = 0o600) -> str:
    path = str(directory / "secret")
    write_private(path, b"s3cret")
    os.chmod(path, mode)
    return path


# -- ours ---------------------------------------------------------------------------------------


def test_what_was_written_is_read_and_has_mode_0600_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write_private(str(tmp_path / "secret"), b"s3cret")
    finally:
        os.umask(before)

    assert read_private(str(tmp_path / "secret"), 100) == b"s3cret"
    assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["secret"]


def test_file_is_private_from_the_moment_it_exists(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        descriptor = create_private(str(tmp_path / "secret"))
    finally:
        os.umask(before)

    mode = os.fstat(descriptor).st_mode
    os.close(descriptor)

    assert stat.S_IMODE(mode) == 0o600


def test_what_a_crash_left_open_to_others_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "secret.tmp").write_bytes(b"half")
    (tmp_path / "secret.tmp").chmod(0o666)
    reader = os.open(tmp_path / "secret.tmp", os.O_RDONLY)

    write_private(str(tmp_path / "secret"), b"s3cret")

    assert os.read(reader, 100) == b"half"
    os.close(reader)
    assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600


def test_temporary_name_that_is_a_link_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "victim").write_bytes(b"kept")
    (tmp_path / "secret.tmp").symlink_to(tmp_path / "victim")

    write_private(str(tmp_path / "secret"), b"s3cret")

    assert (tmp_path / "victim").read_bytes() == b"kept"
    assert not (tmp_path / "secret").is_symlink()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o610, 0o601, 0o644, 0o777])
def test_file_that_others_may_touch_is_refused(tmp_path: Path, mode: int) -> None:
    path = secret(tmp_path, mode)

    with pytest.raises(NotPrivate, match=f"{path} has mode {mode:04o}"):
        read_private(path, 100)
    with pytest.raises(NotPrivate, match=f"has mode {mode:04o}"):
        append_private(path)


def test_link_pipe_and_directory_are_refused_and_nothing_waits(tmp_path: Path) -> None:
    secret(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "pipe", 0o600)

    for name, reason in (("link", "symbolic link"), ("pipe", "no regular"), (".", "no regular")):
        with pytest.raises(NotPrivate, match=reason):
            open_private(str(tmp_path / name))
    with pytest.raises(NotPrivate, match="symbolic link"):
        append_private(str(tmp_path / "link"))


def test_missing_file_is_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_private(str(tmp_path / "secret"), 100)


def test_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotPrivate, match="larger than 5 bytes"):
        read_private(secret(tmp_path), 5)


def test_refusal_closes_what_it_opened(tmp_path: Path) -> None:
    path = secret(tmp_path, 0o644)
    before = len(os.listdir("/proc/self/fd"))

    for _ in range(3):
        with pytest.raises(NotPrivate):
            open_private(path)

    assert len(os.listdir("/proc/self/fd")) == before


def test_file_of_another_user_is_refused_unless_root_asks() -> None:
    theirs = Exposure("f", REGULAR | 0o600, owner=7, user=8)

    assert theirs.refusal_as_ours() == "belongs to user 7, not to 8"
    assert theirs._replace(user=0).refusal_as_ours() is None
    assert theirs._replace(user=7).refusal_as_ours() is None


def test_lines_are_added_to_a_file_that_is_made_private(tmp_path: Path) -> None:
    path = str(tmp_path / "lines")
    for line in (b"1", b"2"):
        descriptor = append_private(path)
        os.write(descriptor, line)
        os.close(descriptor)

    assert read_private(path, 10) == b"12"


# -- an operator's --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "owner", "remark"),
    [
        (0o600, 8, None),
        (0o400, 8, None),
        (0o644, 8, "f holds a password and has mode 0644; make it 0600"),
        (0o640, 8, "f holds a password and has mode 0640; make it 0600"),
        # The group is how a service reads what it may not change.
        (0o640, 0, None),
        (0o440, 0, None),
        (0o660, 0, "f holds a password and has mode 0660; make it 0600"),
        (0o644, 0, "f holds a password and has mode 0644; make it 0600"),
        (0o600, 9, "f holds a password and belongs to user 9, who can change it"),
    ],
)
def test_operators_file_is_remarked_upon(mode: int, owner: int, remark: str | None) -> None:
    assert Exposure("f", REGULAR | mode, owner, user=8).remark("a password") == remark


def test_group_of_roots_own_file_is_remarked_upon_for_root() -> None:
    assert "0640" in (Exposure("f", REGULAR | 0o640, owner=0, user=0).remark("a key") or "")


def test_operators_file_is_read_through_a_link_as_orchestrators_mount_it(tmp_path: Path) -> None:
    secret(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "secret")

    content, found = read_operators(str(tmp_path / "link"), 100)

    assert content == b"s3cret"
    assert found.permissions == 0o600


@pytest.mark.parametrize("mode", [0o602, 0o666, 0o777])
def test_operators_file_that_everybody_may_change_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(NotPrivate, match="everybody may change it"):
        read_operators(secret(tmp_path, mode), 100)
