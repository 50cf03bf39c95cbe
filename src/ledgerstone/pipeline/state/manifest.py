"""The manifest of a Parquet snapshot. Pure; fields in docs/pipeline.md.

It comes from a file, so every field's type is checked before it is used.
"""

import json
from typing import Any, Final

from ledgerstone.dataclasses import asdict, dataclass
from ledgerstone.pipeline.errors import PipelineError

FORMAT: Final = 1
MANIFEST: Final = "manifest.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotPartition:
    """`file` holds live and deleted keys; a tombstone is a row without value."""

    partition: int
    log_start_offset: int
    next_offset: int
    live_keys: int
    deleted_keys: int
    records_read: int  # to make it; with a snapshot to go on from, only what was new
    checksum: str  # of the live keys, as docs/state.md defines it
    file: str
    file_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotManifest:
    topic: str
    topic_id: str
    cluster_id: str | None
    isolation: str
    created_ms: int
    previous: str | None
    complete: bool
    because: str | None
    partitions: tuple[SnapshotPartition, ...]
    # Ids of erasures whose key was taken out of it, or was looked for and not there.
    erasures: tuple[str, ...] = ()

    @property
    def checksum(self) -> str:
        total = sum(int(each.checksum, 16) for each in self.partitions)
        return f"{total % (1 << 128):032x}"

    @property
    def positions(self) -> dict[int, int]:
        return {each.partition: each.next_offset for each in self.partitions}


def to_json(manifest: SnapshotManifest) -> str:
    content = {"format": FORMAT, **asdict(manifest), "checksum": manifest.checksum}
    return json.dumps(content, indent=1)


def from_json(text: str, where: str) -> SnapshotManifest:
    try:
        content: Any = json.loads(text)
        if content.pop("format") != FORMAT:
            raise ValueError(f"not of format {FORMAT}")
        said = content.pop("checksum")
        partitions = tuple(_partition(each) for each in content.pop("partitions"))
        erasures = tuple(content.pop("erasures", ()))
        if not all(type(each) is str for each in erasures):
            raise ValueError(f"{erasures!r:.80} are not ids of erasures")
        manifest = SnapshotManifest(partitions=partitions, erasures=erasures, **content)
        if manifest.checksum != said:
            raise ValueError(f"checksum {said} is not that of the partitions, {manifest.checksum}")
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise PipelineError(f"{where} is no manifest of a snapshot: {error}") from error
    return manifest


def _partition(content: dict[str, Any]) -> SnapshotPartition:
    found = SnapshotPartition(**content)
    numbers = (found.partition, found.log_start_offset, found.next_offset, found.live_keys)
    if not all(type(each) is int and each >= 0 for each in numbers):
        raise ValueError(f"{numbers} are not all numbers from 0 on")
    if "/" in found.file or found.file.startswith("."):
        raise ValueError(f"{found.file!r} is not the name of a file beside the manifest")
    int(found.checksum, 16)
    return found
