"""The manifest of a snapshot: JSON to and from values. Pure; fields in README.md.

A manifest comes from a file, so every type and range is checked before use.
"""

import json
from typing import Any, Final

from ledgerstone.client.isolation_level import IsolationLevel
from ledgerstone.dataclasses import asdict, dataclass, fields
from ledgerstone.state.content import checksum_text
from ledgerstone.state.fold import FoldCounts
from ledgerstone.state.topic_state import (
    PartitionState,
    TopicState,
)
from ledgerstone.types import INT32_MAX, INT64_MAX
from ledgerstone.uuid_text import uuid_from_text, uuid_to_text

# More partitions than a topic has; limits the folds a hostile manifest can cause.
MAX_PARTITIONS: Final = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionManifest:
    partition: int
    log_start_offset: int
    next_offset: int
    leader_epoch: int
    high_watermark: int
    last_stable_offset: int
    live_keys: int
    checksum: str
    counts: FoldCounts

    def is_at_end(self, isolation: IsolationLevel) -> bool:
        """Whether it held everything readable when it was made."""
        committed = isolation is IsolationLevel.READ_COMMITTED
        return self.next_offset >= (self.last_stable_offset if committed else self.high_watermark)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    topic: str
    topic_id: bytes
    cluster_id: str | None
    isolation: IsolationLevel
    created_ms: int
    because: str | None
    partitions: tuple[PartitionManifest, ...]


class BadManifest(ValueError):
    """Not a valid manifest."""


def manifest_of(state: TopicState) -> Manifest:
    return Manifest(
        topic=state.topic,
        topic_id=state.topic_id,
        cluster_id=state.cluster_id,
        isolation=state.isolation,
        created_ms=state.created_ms,
        because=state.because,
        partitions=tuple(map(_partition_manifest, state.partitions)),
    )


def _partition_manifest(state: PartitionState) -> PartitionManifest:
    return PartitionManifest(
        partition=state.partition,
        log_start_offset=state.log_start_offset,
        next_offset=state.end_offset,
        leader_epoch=state.fold.leader_epoch,
        high_watermark=state.high_watermark,
        last_stable_offset=state.last_stable_offset,
        live_keys=state.fold.live_keys,
        checksum=checksum_text(state.fold.checksum),
        counts=state.fold.counts,
    )


def to_json(manifest: Manifest) -> bytes:
    content = {
        "topic": manifest.topic,
        "topic_id": uuid_to_text(manifest.topic_id),
        "cluster_id": manifest.cluster_id,
        "isolation": manifest.isolation.value,
        "created_ms": manifest.created_ms,
        "complete": manifest.because is None,
        "because": manifest.because,
        "partitions": [asdict(each) for each in manifest.partitions],
    }
    return json.dumps(content, indent=1).encode()


def from_json(data: bytes) -> Manifest:
    """Raises BadManifest."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BadManifest(f"the manifest is not JSON: {error}") from error
    listed = _get(content, "partitions", list)
    if not 0 < len(listed) <= MAX_PARTITIONS:
        raise BadManifest(f"{len(listed)} partitions")
    partitions = tuple(map(_read_partition, listed))
    numbers = [each.partition for each in partitions]
    if numbers != sorted(dict.fromkeys(numbers)):
        raise BadManifest("the partitions are not in order")
    try:
        topic_id = uuid_from_text(_get(content, "topic_id", str))
        isolation = IsolationLevel(_get(content, "isolation", str))
    except ValueError as error:
        raise BadManifest(str(error)) from error
    return Manifest(
        topic=_get(content, "topic", str),
        topic_id=topic_id,
        cluster_id=_get_optional_text(content, "cluster_id"),
        isolation=isolation,
        created_ms=_number(content, "created_ms"),
        because=_get_optional_text(content, "because"),
        partitions=partitions,
    )


def _read_partition(content: object) -> PartitionManifest:
    counts = _get(content, "counts", dict)
    return PartitionManifest(
        partition=_number(content, "partition", high=INT32_MAX),
        log_start_offset=_number(content, "log_start_offset"),
        next_offset=_number(content, "next_offset"),
        leader_epoch=_number(content, "leader_epoch", low=-1, high=INT32_MAX),
        high_watermark=_number(content, "high_watermark"),
        last_stable_offset=_number(content, "last_stable_offset", low=-1),
        live_keys=_number(content, "live_keys"),
        checksum=_get(content, "checksum", str),
        counts=FoldCounts(**{f.name: _number(counts, f.name) for f in fields(FoldCounts)}),
    )


def _get(content: object, name: str, kind: type[Any]) -> Any:  # noqa: ANN401 - `kind` says what
    value = content.get(name) if isinstance(content, dict) else None
    if not isinstance(value, kind) or isinstance(value, bool):
        raise BadManifest(f"{name} is {value!r:.40}, not {kind.__name__}")
    return value


def _get_optional_text(content: dict[str, object], name: str) -> str | None:
    return None if content.get(name) is None else str(_get(content, name, str))


def _number(content: object, name: str, *, low: int = 0, high: int = INT64_MAX) -> int:
    value: int = _get(content, name, int)
    if not low <= value <= high:
        raise BadManifest(f"{name} is {value}, not in [{low}, {high}]")
    return value
