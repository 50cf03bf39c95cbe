"""Which segments a pass writes into one. Pure.

A pass copies every segment from the log's first on, including those cleaned before, and merges as
many neighbours into one new segment as surely fit. Sizes are those before cleaning; the result is
hardly ever larger. The rule is in README.md.
"""

from collections.abc import Sequence

from ledgerstone.cleaner.plan import CleaningPlan, SourceSegment
from ledgerstone.dataclasses import dataclass
from ledgerstone.types import INT32_MAX


@dataclass(slots=True)
class _Sizes:
    """Total sizes of the files of a group's segments."""

    log_bytes: int = 0
    offset_index_bytes: int = 0
    time_index_bytes: int = 0

    def plus(self, segment: SourceSegment) -> "_Sizes":
        return _Sizes(
            self.log_bytes + segment.size_bytes,
            self.offset_index_bytes + segment.offset_index_bytes,
            self.time_index_bytes + segment.time_index_bytes,
        )

    def fit(self, plan: CleaningPlan) -> bool:
        return (
            self.log_bytes <= plan.segment_bytes
            and self.offset_index_bytes <= plan.segment_index_bytes
            and self.time_index_bytes <= plan.segment_index_bytes
        )


def group_segments(
    plan: CleaningPlan, segments: Sequence[SourceSegment]
) -> list[tuple[SourceSegment, ...]]:
    """Neighbours that together fit the limits of one segment, greedily and in order."""
    groups: list[list[SourceSegment]] = []
    sizes = _Sizes()
    for position, segment in enumerate(segments):
        # More segments may follow; their offsets start where cleaning ends.
        is_last = position + 1 == len(segments)
        end_offset = plan.first_uncleanable_offset if is_last else segment.end_offset
        grown = sizes.plus(segment)
        if groups and grown.fit(plan) and _is_in_reach(groups[-1][0], segment, end_offset):
            groups[-1].append(segment)
            sizes = grown
        else:
            groups.append([segment])
            sizes = _Sizes().plus(segment)
    return [tuple(group) for group in groups]


def _is_in_reach(first: SourceSegment, segment: SourceSegment, end_offset: int) -> bool:
    """Whether the index entries of a segment with the first one's base can name its offsets.

    An empty segment has no offsets; otherwise one would be left behind every 2^31 offsets."""
    return segment.size_bytes == 0 or end_offset - 1 - first.base_offset <= INT32_MAX
