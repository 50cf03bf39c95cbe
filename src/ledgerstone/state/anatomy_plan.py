"""The input and output of an analysis of one partition: plain facts. Pure.

The bytes of a segment are divided into disjoint classes that add up to the bytes read: `live` and
`tombstone` are latest records of their keys, `superseded` have a later one, `unkeyed` have no key,
`other` are markers, emptied batches and data of aborted transactions. A batch is divided among its
records by their uncompressed lengths. Rules in README.md, "Anatomy".
"""

from typing import Any, Final, NamedTuple

from ledgerstone.dataclasses import asdict, dataclass
from ledgerstone.records.compression import STORED_LIMIT
from ledgerstone.types import TopicPartition

CLASSES: Final = ("live", "tombstone", "superseded", "unkeyed", "other")


class SegmentSpan(NamedTuple):
    """A segment; another generation has different bytes under the same name."""

    base_offset: int
    size_bytes: int
    generation: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AnatomyPlan:
    topic_partition: TopicPartition
    directory: str
    segments: tuple[SegmentSpan, ...]
    # Everything below is decided; later records are not read.
    end_offset: int
    decompression_limit_bytes: int = STORED_LIMIT
    bytes_per_second: float | None = None  # None is unlimited

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> "AnatomyPlan":
        known = dict(content)
        known["topic_partition"] = TopicPartition(*content["topic_partition"])
        known["segments"] = tuple(SegmentSpan(*each) for each in content["segments"])
        return cls(**known)


class Shares(NamedTuple):
    """A quantity divided into the classes."""

    live: int = 0
    tombstone: int = 0
    superseded: int = 0
    unkeyed: int = 0
    other: int = 0

    @property
    def total(self) -> int:
        return sum(self)

    def plus(self, more: "Shares") -> "Shares":
        return Shares(*(a + b for a, b in zip(self, more, strict=True)))


class SegmentDivision(NamedTuple):
    base_offset: int
    bytes: Shares  # adds up to the bytes read, a prefix of the segment
    records: Shares  # of `other` the batches


class HorizonCount(NamedTuple):
    """Tombstones that are their key's latest record, by the horizon their batch carries."""

    horizon_ms: int | None  # None: no pass has stamped them
    tombstones: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AnatomyReport:
    segments: tuple[SegmentDivision, ...]
    horizons: tuple[HorizonCount, ...]  # by time, those without one first
    keys: int  # with a record, including deleted ones
    sampled_one_in: int  # 1: every key was followed; else the figures are estimates
    read_bytes: int
    is_resumed: bool  # only new data was read

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> "AnatomyReport":
        known = dict(content)
        known["segments"] = tuple(
            SegmentDivision(base, Shares(*sizes), Shares(*records))
            for base, sizes, records in content["segments"]
        )
        known["horizons"] = tuple(HorizonCount(*each) for each in content["horizons"])
        return cls(**known)
