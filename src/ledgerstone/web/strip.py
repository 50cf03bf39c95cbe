"""The geometry of the anatomy page: a partition's bytes as a strip, its offsets as marks. Pure.

The strip is as wide as the page, so positions are percentages of its width; heights are in pixels.
Width is bytes and the parts of a box share its height, so areas are bytes too. Two things are not
to scale, to stay visible: boxes have a minimum width, parts a minimum height.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from ledgerstone.dataclasses import dataclass
from ledgerstone.server.anatomy.partition import PartitionAnatomy, SegmentAnatomy
from ledgerstone.state.anatomy_plan import Shares

WIDTH: Final = 100.0
STRIP_PX: Final = 64
MAX_BOXES: Final = 96
MIN_WIDTH: Final = 0.4
MIN_PART_PX: Final = 2.0
# From the bottom of a box to its top.
KINDS: Final = ("live", "tombstone", "unkeyed", "other", "superseded", "undivided")
# The width of a letter of a label, on a desktop-wide strip.
LETTER: Final = 0.58
LANES: Final = 3
THIS_RECORD: Final = "this record"


class StripPart(NamedTuple):
    kind: str
    size_bytes: int
    y: float
    height: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """One segment, or neighbours that would be too thin alone."""

    x: float
    width: float
    segments: int
    base_offset: int
    end_offset: int
    size_bytes: int
    is_active: bool
    is_clean: bool
    is_in_pass: bool
    largest_timestamp_ms: int
    division: Shares | None
    records: Shares | None
    undivided_bytes: int
    parts: tuple[StripPart, ...]


class Band(NamedTuple):
    """A stretch of the log that is clean, dirty or active."""

    kind: str
    x: float
    width: float


class StripMark(NamedTuple):
    names: tuple[str, ...]
    offset: int
    x: float
    lane: int
    anchor: str  # start, or end if the label would leave the page


@dataclass(frozen=True, slots=True)
class Strip:
    boxes: tuple[Box, ...]
    bands: tuple[Band, ...]
    marks: tuple[StripMark, ...]

    @property
    def lanes(self) -> int:
        return 1 + max((mark.lane for mark in self.marks), default=0)


def strip_of(anatomy: PartitionAnatomy, record_offset: int | None = None) -> Strip:
    """`record_offset` is that of a record to mark."""
    groups = grouped(anatomy.segments)
    widths = widths_of([sum(each.size_bytes for each in group) for group in groups])
    boxes, x = [], 0.0
    up_to = anatomy.next_pass.up_to_offset
    for group, width in zip(groups, widths, strict=True):
        boxes.append(
            _box(group, x, width, is_in_pass=up_to is not None and _is_below(group, up_to))
        )
        x += width
    made = tuple(boxes)
    return Strip(made, _bands(anatomy, made), _marks(anatomy, made, record_offset))


# -- boxes ----------------------------------------------------------------------------------------


def grouped(segments: Sequence[SegmentAnatomy]) -> list[list[SegmentAnatomy]]:
    """At most about MAX_BOXES groups of neighbours; clean, dirty and active are never one."""
    most = -(-len(segments) // MAX_BOXES)
    groups: list[list[SegmentAnatomy]] = []
    for each in segments:
        last = groups[-1] if groups else None
        is_alike = last is not None and _state(last[0]) == _state(each)
        if last is None or not is_alike or len(last) >= most:
            groups.append([each])
        else:
            last.append(each)
    return groups


def _state(segment: SegmentAnatomy) -> tuple[bool, bool]:
    return segment.is_clean, segment.is_active


def widths_of(sizes: Sequence[int]) -> list[float]:
    """By size; thin boxes get the minimum width, the others share the rest."""
    if not sizes:
        return []
    least = min(MIN_WIDTH, WIDTH / len(sizes))
    thin = [False] * len(sizes)
    while True:
        room = WIDTH - least * sum(thin)
        total = sum(size for size, is_thin in zip(sizes, thin, strict=True) if not is_thin)
        now = [
            is_thin or total == 0 or size * room / total < least
            for size, is_thin in zip(sizes, thin, strict=True)
        ]
        if all(now):
            return [WIDTH / len(sizes)] * len(sizes)
        if now == thin:
            return [
                least if is_thin else size * room / total
                for size, is_thin in zip(sizes, thin, strict=True)
            ]
        thin = now


def _is_below(group: Sequence[SegmentAnatomy], offset: int) -> bool:
    return group[0].base_offset < offset and not group[0].is_active


def _box(group: Sequence[SegmentAnatomy], x: float, width: float, *, is_in_pass: bool) -> Box:
    size_bytes = sum(each.size_bytes for each in group)
    division = _sum([each.division for each in group])
    undivided_bytes = size_bytes - (division.total if division else 0)
    return Box(
        x=x,
        width=width,
        segments=len(group),
        base_offset=group[0].base_offset,
        end_offset=group[-1].end_offset,
        size_bytes=size_bytes,
        is_active=group[-1].is_active,
        is_clean=group[0].is_clean,
        is_in_pass=is_in_pass,
        largest_timestamp_ms=max(each.largest_timestamp_ms for each in group),
        division=division,
        records=_sum([each.records for each in group]),
        undivided_bytes=undivided_bytes,
        parts=_parts(division, undivided_bytes),
    )


def _sum(shares: Sequence[Shares | None]) -> Shares | None:
    known = [each for each in shares if each is not None]
    if not known:
        return None
    total = Shares()
    for each in known:
        total = total.plus(each)
    return total


def _parts(division: Shares | None, undivided_bytes: int) -> tuple[StripPart, ...]:
    sizes = {**(division or Shares())._asdict(), "undivided": undivided_bytes}
    shown = [(kind, sizes[kind]) for kind in KINDS if sizes[kind] > 0]
    total = sum(size for _, size in shown)
    if total == 0:
        return ()
    heights = [max(size * STRIP_PX / total, MIN_PART_PX) for _, size in shown]
    # The thickest give up what the thin ones gained.
    thickest = heights.index(max(heights))
    heights[thickest] -= sum(heights) - STRIP_PX
    parts, bottom = [], float(STRIP_PX)
    for (kind, size), height in zip(shown, heights, strict=True):
        bottom -= height
        # A tenth of a pixel is finer than visible, and takes three letters.
        parts.append(StripPart(kind, size, round(max(bottom, 0.0), 1), round(height, 1)))
    return tuple(parts)


# -- offsets --------------------------------------------------------------------------------------


def x_of(boxes: Sequence[Box], offset: int) -> float:
    """Where an offset lies: within a box, by offsets."""
    for box in boxes:
        if offset < box.base_offset:
            return box.x
        if offset < box.end_offset:
            share = (offset - box.base_offset) / (box.end_offset - box.base_offset)
            return box.x + share * box.width
    return WIDTH


def _bands(anatomy: PartitionAnatomy, boxes: Sequence[Box]) -> tuple[Band, ...]:
    if not boxes or not anatomy.compacts:
        return ()
    active = boxes[-1].x
    dirty = min(x_of(boxes, anatomy.first_dirty_offset), active)
    found = (
        Band("clean", 0.0, dirty),
        Band("dirty", dirty, active - dirty),
        Band("active", active, WIDTH - active),
    )
    return tuple(each for each in found if each.width > 0)


def _marks(
    anatomy: PartitionAnatomy, boxes: Sequence[Box], record_offset: int | None
) -> tuple[StripMark, ...]:
    """Equal offsets share one mark."""
    named: dict[int, list[str]] = {}
    for name, offset in (
        (THIS_RECORD, record_offset),
        ("log start", anatomy.log_start_offset),
        ("first dirty", anatomy.first_dirty_offset if anatomy.compacts else None),
        ("last stable", anatomy.last_stable_offset),
        ("high watermark", anatomy.high_watermark),
        ("end", anatomy.log_end_offset),
    ):
        if offset is not None:
            named.setdefault(offset, []).append(name)
    marks: list[StripMark] = []
    taken = [-1.0] * LANES
    for offset, names in sorted(named.items()):
        x = x_of(boxes, offset) if offset < anatomy.log_end_offset else WIDTH
        width = LETTER * (len(label(names, offset)) + 2)
        anchor = "end" if x + width > WIDTH else "start"
        left = x - width if anchor == "end" else x
        lane = next((at for at, end in enumerate(taken) if left >= end), LANES - 1)
        taken[lane] = max(taken[lane], left + width)
        marks.append(StripMark(tuple(names), offset, x, lane, anchor))
    return tuple(marks)


def label(names: Sequence[str], offset: int) -> str:
    return f"{' · '.join(names)} {offset}"
