"""Windows over a table: a row counts in every window that its time is in. Pure.

As in Kafka Streams and in Spark, windows begin at multiples of `slide` since 1970, in UTC, and a
window has its start and not its end. The state of a key has its time, not its windows: these are
made where a change becomes deltas. So a row whose time changes leaves its old windows and comes to
its new ones, and a deleted one leaves all of them. No window is ever closed.
"""

import re
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ledgerstone.dataclasses import dataclass
from ledgerstone.pipeline.canonical import whole
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.streams.group_values import GROUP

TIME: Final = "time_us"
NAMES: Final = ("window.start", "window.end")  # in the key of a result
# Each is a group that a change of a row changes.
MAX_WINDOWS: Final = 1000
# Of rows that are in a window each: about a hundred bytes for each, several times over.
SPREAD_ROWS = 1 << 18
_MILLISECOND_US: Final = 1000
_LENGTH: Final = re.compile(r"([0-9]{1,9})\s*([a-z]+?)s?")
_UNITS_US: Final = {
    "microsecond": 1,
    "millisecond": _MILLISECOND_US,
    "second": 1_000_000,
    "minute": 60 * 1_000_000,
    "hour": 3600 * 1_000_000,
    "day": 24 * 3600 * 1_000_000,
    "week": 7 * 24 * 3600 * 1_000_000,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeWindows:
    """`size` and `slide` are as Spark's `window` takes them: "1 hour". Without `slide` windows do
    not overlap (tumbling); with a smaller one they do (hopping). `time` is an expression over a
    row."""

    size: str
    slide: str | None = None
    time: str = "timestamp"

    def __post_init__(self) -> None:
        size, slide = self.size_us, self.slide_us
        if slide > size:
            raise PipelineError(
                f"windows of {self.size} every {self.slide}: rows between them would count nowhere"
            )
        if self.of_each_row > MAX_WINDOWS:
            raise PipelineError(
                f"windows of {self.size} every {self.slide}: a row would be in "
                f"{self.of_each_row} of them, at most {MAX_WINDOWS} are taken"
            )

    @property
    def size_us(self) -> int:
        return _length_us(self.size)

    @property
    def slide_us(self) -> int:
        return _length_us(self.slide or self.size)

    @property
    def of_each_row(self) -> int:
        """In how many windows a row is, at most."""
        return -(-self.size_us // self.slide_us)

    @property
    def rows_at_once(self) -> int:
        """How many rows to spread in one piece."""
        return max(SPREAD_ROWS // self.of_each_row, 1)

    def __str__(self) -> str:
        return f"windows of {self.size} every {self.slide or self.size} by {self.time}"

    def spread(self, rows: pa.Table, signs: NDArray[np.int64]) -> tuple[pa.Table, Any]:
        """Each row once for every window that it is in, with the window in its group. A row
        without a time is in none."""
        kept = whole(rows.column(TIME)).is_valid()
        rows, signs = rows.filter(kept), signs[kept.to_numpy(zero_copy_only=False)]
        times = whole(rows.column(TIME)).to_numpy(zero_copy_only=False).astype(np.int64)
        size, slide = self.size_us, self.slide_us
        places, starts = [], []
        last = times // slide * slide
        for back in range(self.of_each_row):
            start = last - back * slide
            inside = np.flatnonzero(start + size > times)
            places.append(inside)
            starts.append(start[inside])
        place = np.concatenate(places)
        spread = rows.take(pa.array(place))
        groups = self._with_windows(whole(spread.column(GROUP)), np.concatenate(starts))
        at = spread.schema.get_field_index(GROUP)
        return spread.set_column(at, GROUP, groups), signs[place]

    def _with_windows(self, groups: pa.Array, starts: NDArray[np.int64]) -> pa.Array:
        """A group is a JSON array; the ends of the window come behind what it has."""
        cut = pc.utf8_slice_codeunits(groups, 0, -1)
        comma = pc.if_else(pc.equal(groups, "[]"), "", ", ")
        # Windows that begin between two milliseconds have to differ, too.
        is_finer = self.size_us % _MILLISECOND_US or self.slide_us % _MILLISECOND_US
        unit: Literal["ms", "us"] = "us" if is_finer else "ms"
        first, last = (_texts(each, unit) for each in (starts, starts + self.size_us))
        return pc.binary_join_element_wise(cut, comma, '"', first, '", "', last, '"]', "")


def _length_us(text: str) -> int:
    found = _LENGTH.fullmatch(text.strip().lower())
    unit = _UNITS_US.get(found[2]) if found else None
    if found is None or unit is None or not int(found[1]):
        raise PipelineError(
            f"{text!r} is no length of a window: a number and one of {', '.join(_UNITS_US)}"
        )
    return int(found[1]) * unit


def _texts(times_us: NDArray[np.int64], unit: Literal["ms", "us"]) -> pa.Array:
    """As Spark's `to_json` writes a time."""
    distinct, places = np.unique(times_us, return_inverse=True)
    texts = np.datetime_as_string(distinct.astype("datetime64[us]"), unit=unit)
    return pa.array([f"{each}Z" for each in texts], pa.string()).take(pa.array(places))
