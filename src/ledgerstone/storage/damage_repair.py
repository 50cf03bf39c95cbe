"""Repairs acknowledged damage: drops the bad ranges of log files, keeps good batches. Grade D.

Works on a directory whose log is not open. Each log file is replaced by one rename, so that a crash
leaves the old or the new. Indexes are removed first; the next open rebuilds them.
"""

import logging
from contextlib import suppress
from typing import Final

from ledgerstone.fs import Filesystem, join
from ledgerstone.storage.damage_search import between, good_spans
from ledgerstone.storage.filenames import CLEANED, Kind, file_name, parse_file_name

_LOG: Final = logging.getLogger(__name__)
_COPY_BYTES: Final = 1 << 20


def repair(fs: Filesystem, directory: str) -> int:
    """Returns the number of bytes dropped. A missing directory is left to the opener."""
    if not fs.exists(directory):
        return 0
    left_out = 0
    for name in fs.list_dir(directory):
        parsed = parse_file_name(name)
        if parsed is None or parsed.suffix or parsed.kind is Kind.SNAPSHOT:
            continue
        path = join(directory, name)
        if parsed.kind is not Kind.LOG:
            fs.unlink(path)
            continue
        left_out += _repair_file(fs, directory, parsed.offset)
    fs.fsync_dir(directory)
    return left_out


def _repair_file(fs: Filesystem, directory: str, base_offset: int) -> int:
    path = join(directory, file_name(base_offset, Kind.LOG))
    file = fs.open(path)
    size = file.size()
    good = good_spans(file, size, base_offset)
    kept = sum(end - start for start, end in good)
    if kept == size:
        return 0
    target = join(directory, file_name(base_offset, Kind.LOG, CLEANED))
    with suppress(FileNotFoundError):
        fs.unlink(target)
    new = fs.open(target, create=True)
    at = 0
    for start, end in good:
        for position in range(start, end, _COPY_BYTES):
            piece = file.pread(min(_COPY_BYTES, end - position), position)
            new.pwrite(piece, at)
            at += len(piece)
    new.fsync()
    new.close()
    fs.rename(target, path)
    for start, end in between(good, size):
        _LOG.warning("log repaired file=%s position=%d bytes=%d dropped", path, start, end - start)
    return size - kept
