"""The time axis under a strip: when tombstones may go, and when the next pass comes. Pure.

From now on, to scale, up to the last known event; overdue ones are at now. Marks that would overlap
become one, with the number of tombstones it stands for.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from ledgerstone.dataclasses import dataclass
from ledgerstone.server.anatomy.partition import Horizon, PartitionAnatomy
from ledgerstone.web.strip import LETTER, WIDTH
from ledgerstone.web.wording import grouped, span

# The last mark is not on the very edge of the page.
_LAST_X: Final = 92.0
# Marks nearer than this are one.
_NEAR: Final = 0.9
_MOST_TICKS: Final = 6
_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 60 * _MINUTE_MS
_DAY_MS: Final = 24 * _HOUR_MS
_STEPS_MS: Final = (
    *(n * 1000 for n in (1, 5, 15, 30)),
    *(n * _MINUTE_MS for n in (1, 5, 15, 30)),
    *(n * _HOUR_MS for n in (1, 3, 6, 12)),
    *(n * _DAY_MS for n in (1, 2, 7, 14, 30, 90, 365, 3650)),
)


class Tick(NamedTuple):
    x: float
    label: str


class HorizonMark(NamedTuple):
    x: float
    horizons: tuple[Horizon, ...]
    is_due: bool
    is_held: bool
    label: str  # empty if there is no room for it
    anchor: str

    @property
    def tombstones(self) -> int | None:
        counts = [each.tombstones for each in self.horizons]
        known = [each for each in counts if each is not None]
        return sum(known) if len(known) == len(counts) else None


@dataclass(frozen=True, slots=True)
class TimeAxis:
    ticks: tuple[Tick, ...]
    marks: tuple[HorizonMark, ...]
    pass_x: float | None  # where the next pass is, if it has a time


def axis_of(anatomy: PartitionAnatomy) -> TimeAxis | None:
    """None if no event is known."""
    pass_ms = anatomy.next_pass.at_ms
    times = [each.goes_at_ms for each in anatomy.horizons]
    if pass_ms is not None and not anatomy.next_pass.is_running:
        times.append(pass_ms)
    now_ms = anatomy.now_ms
    length_ms = max((each - now_ms for each in times), default=0)
    if not anatomy.horizons and length_ms <= 0:
        return None
    length_ms = max(length_ms, 1000)

    def x_of(at_ms: int) -> float:
        return _LAST_X * min(max(at_ms - now_ms, 0), length_ms) / length_ms

    return TimeAxis(
        ticks=_ticks(length_ms),
        marks=_marks(anatomy, [x_of(each.goes_at_ms) for each in anatomy.horizons]),
        pass_x=None if pass_ms is None else x_of(pass_ms),
    )


def _ticks(length_ms: int) -> tuple[Tick, ...]:
    step_ms = next((each for each in _STEPS_MS if length_ms / each <= _MOST_TICKS), length_ms)
    end_ms = int(length_ms * WIDTH / _LAST_X)
    return (
        Tick(0.0, "now"),
        *(
            Tick(_LAST_X * at_ms / length_ms, span(at_ms))
            for at_ms in range(step_ms, end_ms - step_ms // 4, step_ms)
        ),
    )


def _marks(anatomy: PartitionAnatomy, places: Sequence[float]) -> tuple[HorizonMark, ...]:
    groups: list[tuple[float, list[Horizon]]] = []
    for horizon, x in zip(anatomy.horizons, places, strict=True):
        if groups and x - groups[-1][0] < _NEAR:
            groups[-1][1].append(horizon)
        else:
            groups.append((x, [horizon]))
    marks: list[HorizonMark] = []
    free_from = -1.0
    for x, horizons in groups:
        mark = _mark(x, horizons, anatomy.now_ms)
        width = LETTER * (len(mark.label) + 3)
        if x + width > WIDTH:
            mark = mark._replace(anchor="end")
        left = x - width if mark.anchor == "end" else x
        if left < free_from:
            mark = mark._replace(label="")
        else:
            free_from = left + width
        marks.append(mark)
    return tuple(marks)


def _mark(x: float, horizons: Sequence[Horizon], now_ms: int) -> HorizonMark:
    first = horizons[0]
    is_due = first.goes_at_ms <= now_ms
    is_held = any(each.goes_at_ms > each.at_ms for each in horizons)
    mark = HorizonMark(x, tuple(horizons), is_due, is_held, "", "start")
    count = mark.tombstones
    what = "tombstones" if count is None else _counted(count)
    if count == 0:
        return mark
    when = "may go" if is_due else f"in {span(first.goes_at_ms - now_ms)}"
    return mark._replace(label=f"{what} {when}")


def _counted(count: int) -> str:
    return f"{grouped(count)} tombstone{'' if count == 1 else 's'}"
