"""Lines of the audit files, read where they are being written. Grade D.

A file may be replaced by one with redacted lines in between: a position is only believed while the
numbers go on without a gap.
"""

from typing import Final, NamedTuple

from ledgerstone.fs import File, Filesystem
from ledgerstone.security.audit_chain import BrokenChain, parsed
from ledgerstone.server.auditing.audit_file import (
    AuditFile,
    audit_files,
    first_seq_of,
    lines_of,
)

MOST_BYTES: Final = 512 << 10
_BLOCK_BYTES: Final = 1 << 20


class LineCursor(NamedTuple):
    """Where the line after `seq` begins."""

    path: str
    position: int
    seq: int


class LineReader:
    def __init__(self, file: AuditFile) -> None:
        self._file = file

    def after(
        self, seq: int, cursor: "LineCursor | None", most: int
    ) -> tuple[list[bytes], LineCursor]:
        """The next lines that are synced, and where those behind them begin."""
        is_certain = False
        if cursor is None or cursor.seq != seq:
            cursor, is_certain = _found(self._file, seq), True
        lines: list[bytes] = []
        size = 0
        path, position, last_seq = cursor
        while size < MOST_BYTES and len(lines) < most and last_seq < self._file.synced_seq:
            taken = _take(self._file.fs, path, position, last_seq, most - len(lines))
            for data, number in taken:
                if number != last_seq + 1 and not is_certain:
                    # The file was replaced by one with redacted lines, where others begin here.
                    if lines:
                        return lines, _found(self._file, last_seq)
                    return self.after(seq, None, most)
                position += len(data) + 1
                if number > last_seq:
                    lines.append(data)
                    size += len(data)
                    last_seq = number
                if size >= MOST_BYTES or last_seq >= self._file.synced_seq:
                    break
            if not taken:
                following = _file_after(self._file, path)
                if following is None:
                    break
                path, position = following, 0
        return lines, LineCursor(path, position, last_seq)


def _take(
    fs: Filesystem, path: str, position: int, after: int, most: int
) -> list[tuple[bytes, int]]:
    """Lines of one file from a position on. What is no line is left out; the reader of the topic
    sees that it lacks."""
    found: list[tuple[bytes, int]] = []
    file = fs.open_read_only(path)
    try:
        for data in lines_of(file, position):
            try:
                found.append((data, int(parsed(data, 0)["seq"])))
            except BrokenChain:
                found.append((data, after))
            if len(found) >= most:
                break
    finally:
        file.close()
    return found


def _found(file: AuditFile, seq: int) -> LineCursor:
    """Where the line after `seq` begins. A file has its lines without gaps, so ends of lines are
    counted: this may be asked on the loop, of a large file."""
    files = audit_files(file.fs, file.directory)
    older = [each for each in files if first_seq_of(each) <= seq + 1]
    path = older[-1] if older else files[0]
    opened = file.fs.open_read_only(path)
    try:
        return LineCursor(path, _behind_lines(opened, seq + 1 - first_seq_of(path)), seq)
    finally:
        opened.close()


def _behind_lines(file: File, count: int) -> int:
    """The position behind so many lines, or the end."""
    position = 0
    while count > 0 and (data := file.pread(_BLOCK_BYTES, position)):
        ends = data.count(b"\n")
        if ends < count:
            count -= ends
            position += len(data)
            continue
        end = -1
        for _ in range(count):
            end = data.index(b"\n", end + 1)
        return position + end + 1
    return position


def _file_after(file: AuditFile, path: str) -> str | None:
    files = audit_files(file.fs, file.directory)
    return next((each for each in files if each > path), None)


def has_line(file: AuditFile, seq: int) -> bool:
    """Whether the files go on where the topic ends."""
    files = audit_files(file.fs, file.directory)
    return bool(files) and first_seq_of(files[0]) <= seq


def line_at(file: AuditFile, seq: int) -> bytes | None:
    files = [each for each in audit_files(file.fs, file.directory) if first_seq_of(each) <= seq]
    if not files:
        return None
    _, position, _ = _found(file, seq - 1)
    found = _take(file.fs, files[-1], position, 0, 1)
    return found[0][0] if found and found[0][1] == seq else None
