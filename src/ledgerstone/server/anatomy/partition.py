"""The anatomy of one partition: what the page draws and the API tells. Pure."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from ledgerstone.dataclasses import asdict, dataclass
from ledgerstone.state.anatomy_plan import Shares


class SegmentAnatomy(NamedTuple):
    base_offset: int
    end_offset: int  # the next one's base, or the end of the log
    size_bytes: int
    is_active: bool
    is_clean: bool  # a pass has been through all of it
    largest_timestamp_ms: int
    # None: not computed, or not yet. What lies behind the last stable offset is not in it.
    division: Shares | None
    records: Shares | None

    @property
    def undivided_bytes(self) -> int:
        return self.size_bytes - (self.division.total if self.division else 0)


class Horizon(NamedTuple):
    """Tombstones between two offsets, both included, that may go at the same time."""

    at_ms: int
    first_offset: int
    last_offset: int
    goes_at_ms: int  # later than the horizon where a group holds them
    # Those that are their key's latest record; None: not counted, or not apart from others.
    tombstones: int | None
    # What is known of the replica that they wait for past their horizon.
    held_for: str | None = None


class NextPass(NamedTuple):
    """When a pass comes and why; the time is None while nothing makes one due."""

    at_ms: int | None
    reason: str
    is_running: bool = False
    up_to_offset: int | None = None  # what a running pass cleans lies below


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionAnatomy:
    topic: str
    partition: int
    now_ms: int
    log_start_offset: int
    first_dirty_offset: int
    first_uncleanable_offset: int
    last_stable_offset: int
    high_watermark: int
    log_end_offset: int
    size_bytes: int
    dirty_ratio: float
    compacts: bool
    segments: tuple[SegmentAnatomy, ...]
    horizons: tuple[Horizon, ...]  # by the time at which they go
    fresh_tombstones: int | None  # the latest of their keys, that no pass has stamped
    next_pass: NextPass
    shut_gate: str | None  # what keeps the next pass from coming or from reaching further
    keys: int | None
    division: Shares | None  # of all segments
    is_current: bool  # the division is of this very moment
    is_under_way: bool
    sampled_one_in: int
    not_divided: str | None  # why there is no division, or none of this moment

    def to_json(self) -> dict[str, Any]:
        content = asdict(self)
        for name in ("next_pass", "division"):
            found = getattr(self, name)
            content[name] = None if found is None else found._asdict()
        content["horizons"] = [each._asdict() for each in self.horizons]
        content["segments"] = [_segment_json(each) for each in self.segments]
        return content


def anatomy_from_json(content: Mapping[str, Any]) -> PartitionAnatomy:
    """The other way round, for the page of another node; ValueError for anything else."""
    try:
        fields = {**content}
        fields["segments"] = tuple(_segment(each) for each in content["segments"])
        fields["horizons"] = tuple(Horizon(**each) for each in content["horizons"])
        fields["next_pass"] = NextPass(**content["next_pass"])
        fields["division"] = _shares(content["division"])
        return PartitionAnatomy(**fields)
    except (KeyError, TypeError) as error:
        raise ValueError(f"not an anatomy: {error}") from error


def _segment(content: Mapping[str, Any]) -> SegmentAnatomy:
    fields = {name: content[name] for name in SegmentAnatomy._fields}
    fields["division"] = _shares(content["division"])
    fields["records"] = _shares(content["records"])
    return SegmentAnatomy(**fields)


def _shares(content: Mapping[str, int] | None) -> Shares | None:
    return None if content is None else Shares(**content)


def _segment_json(segment: SegmentAnatomy) -> dict[str, Any]:
    content = segment._asdict()
    for name in ("division", "records"):
        found: Shares | None = content[name]
        content[name] = None if found is None else found._asdict()
    return {**content, "undivided_bytes": segment.undivided_bytes}
