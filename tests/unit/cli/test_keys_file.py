"""Files of keys, and where receipts go: what is refused before anything is asked of a broker."""

import json
from pathlib import Path

import pytest
import typer

from ledgerstone.cli.keys_file import Pairs, check_target, read_keys
from tests.kit.command_line import ledgerstone

# No broker listens there: a command that gets as far as connecting fails with 1, not 2.
NOWHERE = ("--bootstrap", "127.0.0.1:1")


def keys_in(tmp_path: Path, content: bytes) -> list[bytes]:
    path = tmp_path / "keys.txt"
    path.write_bytes(content)
    return read_keys(path)


@pytest.mark.parametrize(
    ("content", "keys"),
    [
        (b"a\nb\n", [b"a", b"b"]),
        (b"a\nb", [b"a", b"b"]),
        (b"a\r\nb\r\n", [b"a", b"b"]),
        (b"\xef\xbb\xbfa\r\nb\r\n", [b"a", b"b"]),
        ("ä@example.org\n".encode(), ["ä@example.org".encode()]),
        (b"0x00\n", [b"0x00"]),
        (b"a\x0bb\n\xff\n", [b"a\x0bb", b"\xff"]),
        (b" a \n", [b" a "]),
        (b"b\na\nb\n", [b"b", b"a"]),
    ],
)
def test_each_line_is_a_key(tmp_path: Path, content: bytes, keys: list[bytes]) -> None:
    assert keys_in(tmp_path, content) == keys


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is empty"),
        (b"\xef\xbb\xbf", "is empty"),
        (b"a\n\nb\n", "no key on line 2"),
        (b"a\n\n", "no key on line 2"),
        (b"\r\n", "no key on line 1"),
        (b"a\n  \t\n", "no key on line 2"),
        (b"\n" * 9, "no key on line 1, 2, 3, 4, 5 and more"),
        ("a\n".encode("utf-16"), "UTF-16"),
    ],
)
def test_file_that_may_not_mean_what_it_says_is_refused(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    with pytest.raises(typer.BadParameter, match=reason):
        keys_in(tmp_path, content)


def test_line_that_comes_twice_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    keys_in(tmp_path, b"a\nb\na\n c\n")

    said = capsys.readouterr().err
    assert "line 3 repeats line 1" in said
    assert "the blanks around line 4 are part of its key" in said


def test_directory_is_made_and_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    check_target(tmp_path / "a" / "b", is_directory=True)
    (tmp_path / "file").write_text("x")

    assert (tmp_path / "a" / "b").is_dir()
    assert list((tmp_path / "a" / "b").iterdir()) == []
    for target, is_directory in (
        (tmp_path / "file", True),
        (tmp_path / "file" / "receipt.json", False),
        (tmp_path / "nowhere" / "receipt.json", False),
        (tmp_path, False),
    ):
        with pytest.raises(typer.BadParameter, match="nothing was requested"):
            check_target(target, is_directory=is_directory)
    check_target(tmp_path / "file", is_directory=False)
    check_target(tmp_path / "new.json", is_directory=False)
    assert (tmp_path / "file").read_text() == "x"
    assert not (tmp_path / "new.json").exists()


def test_pairs_are_their_owners_and_grow(tmp_path: Path) -> None:
    pairs = Pairs(tmp_path)

    pairs.add([{"id": "ER-1", "topic": "t"}, {"id": "ER-2", "topic": "t"}], ["ä".encode(), b"\xff"])
    pairs.add([{"id": "ER-3", "topic": "t"}], [b"c"])

    lines = [json.loads(line) for line in pairs.path.read_text().splitlines()]
    assert lines == [
        {"id": "ER-1", "topic": "t", "key": "ä"},
        {"id": "ER-2", "topic": "t", "key_hex": "ff"},
        {"id": "ER-3", "topic": "t", "key": "c"},
    ]
    assert pairs.path.stat().st_mode & 0o777 == 0o600


def test_nothing_is_asked_before_file_and_directory_are_good(tmp_path: Path) -> None:
    keys, file = tmp_path / "keys.txt", tmp_path / "file"
    keys.write_bytes(b"a\n\n")
    file.write_text("x")
    erase = ("erase", "customers", *NOWHERE)

    blank = ledgerstone(*erase, "--keys-from", str(keys))
    keys.write_bytes(b"a\n")
    blocked = ledgerstone(*erase, "--keys-from", str(keys), "--receipt", str(file))
    single = ledgerstone(*erase, "alice", "--receipt", str(file / "receipt.json"))
    asked = ledgerstone(*erase, "--keys-from", str(keys), "--receipt", str(tmp_path / "new"))

    assert [each.code for each in (blank, blocked, single, asked)] == [2, 2, 2, 1]


@pytest.mark.parametrize("given", [("",), ("--key-base64", ""), ("--key-file", "/dev/null")])
def test_empty_key_is_erased_only_if_it_is_meant(given: tuple[str, ...]) -> None:
    refused = ledgerstone("erase", "users", *given, *NOWHERE)

    assert refused.code == 2, refused.stderr
    assert "the key is empty" in refused.stderr
    assert ledgerstone("erase", "users", "--key-hex", "", *NOWHERE).code == 1
