"""What a clean stop records so that the next start can detect changes. Grade D.

One JSON file with the sizes of all log files and indexes, and start and end offsets. Like the clean
marker, it exists only between a clean stop and the next start. It quotes the marker's content: if
another broker has used the directory since, the file no longer counts. Checking names and sizes
reads no data, so starts stay fast.
"""

import json
import logging
from typing import Any, Final
from zlib import crc32

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.fs import Filesystem
from ledgerstone.storage.checkpoints import read_if_exists, write_atomically

_LOG: Final = logging.getLogger(__name__)
VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanStop:
    """Keyed by the names of the partitions' directories."""

    sizes: dict[str, dict[int, int]] = field(default_factory=dict)
    # Sizes of offset index, time index and transaction index.
    indexes: dict[str, dict[int, list[int]]] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)
    # Only if the log starts inside a segment.
    starts: dict[str, int] = field(default_factory=dict)


def write_clean_stop(fs: Filesystem, path: str, stop: CleanStop, *, marker: bytes) -> None:
    content = {
        "version": VERSION,
        "marker": crc32(marker),
        "sizes": {name: dict(sizes) for name, sizes in stop.sizes.items()},
        "indexes": stop.indexes,
        "ends": stop.ends,
        "starts": stop.starts,
    }
    body = json.dumps(content, separators=(",", ":")).encode()
    write_atomically(fs, path, body + b"\n%08x\n" % crc32(body))


def take_clean_stop(fs: Filesystem, path: str, *, marker: bytes | None) -> CleanStop | None:
    """Reads and removes it; None if it does not apply to this start."""
    data = read_if_exists(fs, path)
    if data is None:
        return None
    fs.unlink(path)
    if marker is None:
        return None
    body, _, rest = data.partition(b"\n")
    try:
        if int(rest, 16) != crc32(body):
            raise ValueError("its checksum is wrong")
        content: Any = json.loads(body)
        if content["version"] != VERSION:
            raise ValueError(f"version {content['version']!r}")
    except ValueError as error:
        _LOG.warning("sizes at the clean stop ignored file=%s reason=%s", path, error)
        return None
    if content["marker"] != crc32(marker):
        return None
    return CleanStop(
        sizes={
            name: {int(base): size for base, size in sizes.items()}
            for name, sizes in content["sizes"].items()
        },
        indexes={
            name: {int(base): sizes for base, sizes in by_base.items()}
            for name, by_base in content["indexes"].items()
        },
        ends=content["ends"],
        starts=content["starts"],
    )
