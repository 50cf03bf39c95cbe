"""Small text files that are replaced whole: checkpoints and `partition.metadata`. Disk.

Owns their formats, and the one way to replace a file so that a crash leaves the old or the new.
Contract in README.md. A broken file is a CorruptFile whose position is the line, counted from 1.
The caller decides what that means: start over, or take the directory offline.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from ledgerstone.errors import CorruptFile
from ledgerstone.fs import Filesystem, parent_of
from ledgerstone.storage.filenames import TMP
from ledgerstone.storage.leader_epochs import EpochEntry
from ledgerstone.types import INT32_MAX, INT64_MAX, TopicPartition
from ledgerstone.uuid_text import ZERO_UUID, uuid_from_text, uuid_to_text

VERSION: Final = "0"

_NUMBER = re.compile(r"[0-9]{1,19}")
_PARTITION_METADATA = re.compile(r"version: ?0\r?\ntopic_id: ?(\S+)\s*")


def write_atomically(fs: Filesystem, path: str, data: bytes, *, syncs_name: bool = True) -> None:
    """Replaces the file. A crash at any point leaves the old content or the new.

    `syncs_name`: else the caller syncs the directory, before anything relies on the file."""
    temporary = path + TMP
    file = fs.open(temporary, create=True)
    try:
        # A file left by an earlier crash may be longer than the new content.
        file.truncate(0)
        file.pwrite(data, 0)
        file.fsync()
    finally:
        file.close()
    # Crash here: the old content stays, beside a temporary file that is never read.
    fs.rename(temporary, path)
    if syncs_name:
        fs.fsync_dir(parent_of(path))


def read_if_exists(fs: Filesystem, path: str) -> bytes | None:
    try:
        file = fs.open(path)
    except FileNotFoundError:
        return None
    try:
        return file.pread(file.size(), 0)
    finally:
        file.close()


class OffsetCheckpoint:
    """Recovery points, log start offsets, high watermarks, first dirty offsets: one per file."""

    __slots__ = ("_fs", "path")

    def __init__(self, fs: Filesystem, path: str) -> None:
        self._fs = fs
        self.path = path

    def read(self) -> dict[TopicPartition, int]:
        """A missing file, like an empty one, has no entries."""
        offsets = {}
        for number, fields in _read_lines(self._fs, self.path, columns=3):
            partition = _number(self.path, number, fields[1], INT32_MAX)
            offset = _number(self.path, number, fields[2], INT64_MAX)
            offsets[TopicPartition(fields[0], partition)] = offset
        return offsets

    def write(self, offsets: Mapping[TopicPartition, int]) -> None:
        lines = [f"{tp.topic} {tp.partition} {offset}" for tp, offset in sorted(offsets.items())]
        _write_lines(self._fs, self.path, lines)


class LeaderEpochCheckpoint:
    __slots__ = ("_fs", "path")

    def __init__(self, fs: Filesystem, path: str) -> None:
        self._fs = fs
        self.path = path

    def read(self) -> list[EpochEntry]:
        return [
            EpochEntry(
                _number(self.path, number, fields[0], INT32_MAX),
                _number(self.path, number, fields[1], INT64_MAX),
            )
            for number, fields in _read_lines(self._fs, self.path, columns=2)
        ]

    def write(self, entries: Iterable[EpochEntry]) -> None:
        lines = [f"{entry.epoch} {entry.start_offset}" for entry in entries]
        _write_lines(self._fs, self.path, lines)


class PartitionMetadata:
    """The topic a partition's directory belongs to: a deleted topic's name may be reused."""

    __slots__ = ("_fs", "path")

    def __init__(self, fs: Filesystem, path: str) -> None:
        self._fs = fs
        self.path = path

    def read(self) -> bytes | None:
        """The topic id; None if no file was written yet."""
        data = read_if_exists(self._fs, self.path)
        if data is None:
            return None
        match = _PARTITION_METADATA.fullmatch(_text(self.path, data))
        if match is None:
            raise CorruptFile(self.path, 1, f"{data[:80]!r} is not a version and a topic_id line")
        try:
            topic_id = uuid_from_text(match[1])
        except ValueError as error:
            raise CorruptFile(self.path, 2, str(error)) from error
        if topic_id == ZERO_UUID:
            raise CorruptFile(self.path, 2, "the topic id is zero")
        return topic_id

    def write(self, topic_id: bytes, *, syncs_name: bool = True) -> None:
        if topic_id == ZERO_UUID:
            raise ValueError(f"{self.path}: the zero uuid is not a topic id")
        text = f"version: {VERSION}\ntopic_id: {uuid_to_text(topic_id)}"
        write_atomically(self._fs, self.path, text.encode(), syncs_name=syncs_name)


def _read_lines(fs: Filesystem, path: str, *, columns: int) -> list[tuple[int, list[str]]]:
    """Line number and fields of every entry; version, count and columns are checked."""
    text = _text(path, read_if_exists(fs, path) or b"")
    if not text:
        return []
    # Not splitlines(): it also splits at characters that Kafka keeps within a line.
    lines = text.removesuffix("\n").split("\n")
    if lines[0].strip() != VERSION:
        raise CorruptFile(path, 1, f"version {lines[0][:20]!r}, only {VERSION} is known")
    if len(lines) < 2:
        raise CorruptFile(path, 2, "the number of entries is missing")
    expected = _number(path, 2, lines[1].strip(), INT32_MAX)
    entries = [(number, line.split()) for number, line in enumerate(lines[2:], start=3)]
    for number, fields in entries:
        if len(fields) != columns:
            raise CorruptFile(path, number, f"{len(fields)} fields, {columns} expected")
    if len(entries) != expected:
        raise CorruptFile(path, 2, f"{expected} entries announced, {len(entries)} found")
    return entries


def _write_lines(fs: Filesystem, path: str, lines: list[str]) -> None:
    text = "\n".join([VERSION, str(len(lines)), *lines, ""])
    write_atomically(fs, path, text.encode())


def _number(path: str, line: int, text: str, largest: int) -> int:
    if _NUMBER.fullmatch(text) is None or int(text) > largest:
        raise CorruptFile(path, line, f"{text[:40]!r} is not a number from 0 to {largest}")
    return int(text)


def _text(path: str, data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise CorruptFile(path, line, f"byte {error.start} is not UTF-8") from error
