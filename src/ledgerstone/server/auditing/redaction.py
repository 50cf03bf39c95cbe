"""Names taken out of lines of the audit log. Grade D. Rules in security/README.md.

What is to be redacted is written down first, in `audit.redactions`. Then files are replaced, one by
one. A crash in between is made good by the next start of the broker, or by asking again. The broker
reads the list, too: it says in the log what was redacted, and redacts the copies in the topic.
"""

import json
from collections.abc import Collection, Iterator
from typing import Final

from ledgerstone.fs import Filesystem, join
from ledgerstone.security.audit_chain import BrokenChain, parsed, redacted
from ledgerstone.server.auditing.audit_file import audit_files, first_seq_of
from ledgerstone.server.auditing.seal_key import write_whole

REDACTIONS_FILE: Final = "audit.redactions"


class FileInUse(Exception):
    """A line is in the file that the broker writes."""


def redact(
    fs: Filesystem, directory: str, wanted: Collection[int], *, may_change_newest: bool
) -> int:
    """How many lines were found; those that were redacted before count. OSError, FileInUse."""
    files = audit_files(fs, directory)
    if files and not may_change_newest and max(wanted, default=0) >= first_seq_of(files[-1]):
        raise FileInUse(files[-1])
    note(fs, directory, wanted)
    return sum(_redact_in(fs, path, wanted) for path in _holding(files, wanted))


def finish(fs: Filesystem, directory: str) -> None:
    """Before the broker opens its files: what a crash has left undone."""
    wanted = frozenset(noted(fs, directory))
    for path in _holding(audit_files(fs, directory), wanted):
        _redact_in(fs, path, wanted)


def note(fs: Filesystem, directory: str, wanted: Collection[int]) -> None:
    """Appended and synced. A part of a number is no number, so none is ever misread."""
    path = join(directory, REDACTIONS_FILE)
    is_new = not fs.exists(path)
    file = fs.create_private(path) if is_new else fs.open(path)
    try:
        text = "".join(json.dumps({"seq": each}) + "\n" for each in sorted(wanted))
        # What a crash has cut off stays a line of its own, which nobody understands.
        file.pwrite(b"\n" + text.encode(), file.size())
        file.fsync()
    finally:
        file.close()
    if is_new:
        fs.fsync_dir(directory)


def noted(fs: Filesystem, directory: str) -> list[int]:
    """In the order in which they were asked for."""
    path = join(directory, REDACTIONS_FILE)
    if not fs.exists(path):
        return []
    file = fs.open_read_only(path)
    try:
        data = file.pread(file.size(), 0)
    finally:
        file.close()
    return list(_numbers(data))


def noted_bytes(fs: Filesystem, directory: str) -> int:
    """Grows when something is asked for."""
    path = join(directory, REDACTIONS_FILE)
    return fs.size_of(path) if fs.exists(path) else 0


def _numbers(data: bytes) -> Iterator[int]:
    for each in data.split(b"\n"):
        try:
            seq = json.loads(each)["seq"]
        except (ValueError, KeyError, TypeError):
            continue
        if type(seq) is int:
            yield seq


def _holding(files: list[str], wanted: Collection[int]) -> Iterator[str]:
    """Files that may hold some of the lines, by their names."""
    for number, path in enumerate(files):
        first = first_seq_of(path)
        end = first_seq_of(files[number + 1]) if number + 1 < len(files) else None
        if any(first <= each and (end is None or each < end) for each in wanted):
            yield path


def _redact_in(fs: Filesystem, path: str, wanted: Collection[int]) -> int:
    file = fs.open_read_only(path)
    try:
        data = file.pread(file.size(), 0)
    finally:
        file.close()
    found, has_changed = 0, False
    lines = data.splitlines(keepends=True)
    for number, each in enumerate(lines):
        seq = _seq_of(each)
        if seq is None or seq not in wanted:
            continue
        found += 1
        changed = redacted(each)
        has_changed |= changed != each
        lines[number] = changed
    if has_changed:
        write_whole(fs, path, b"".join(lines))
    return found


def _seq_of(data: bytes) -> int | None:
    if not data.endswith(b"\n"):
        return None
    try:
        return int(parsed(data[:-1], 0)["seq"])
    except BrokenChain:
        return None
