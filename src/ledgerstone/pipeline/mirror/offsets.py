"""Maps offsets of an original partition to those of its copy. Pure.

A run is a range of records that were copied one after the other. Offsets of the original have gaps
where records were compacted away; those of the copy have some where the target cluster wrote
tombstones of its own.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Int64s = NDArray[np.int64]

# A compacted stretch may be all gaps; beyond this many runs it is remembered as a whole.
MAX_RUNS: Final = 256


class CopiedRun(NamedTuple):
    """[source_start, source_end) was copied to [target_start, target_start + records)."""

    source_start: int
    source_end: int
    target_start: int
    records: int

    @property
    def is_exact(self) -> bool:
        return self.source_end - self.source_start == self.records

    @property
    def target_end(self) -> int:
        return self.target_start + self.records


def runs_of(source_offsets: Int64s, target_offsets: Int64s) -> list[CopiedRun]:
    """The runs of records that were read from `source_offsets` and are now at `target_offsets`."""
    if not len(source_offsets):
        return []
    is_break = (np.diff(source_offsets) != 1) | (np.diff(target_offsets) != 1)
    breaks = np.flatnonzero(is_break) + 1
    first, last = int(source_offsets[0]), int(source_offsets[-1])
    if len(breaks) >= MAX_RUNS:
        return [CopiedRun(first, last + 1, int(target_offsets[0]), len(source_offsets))]
    found = []
    edges = [0, *breaks.tolist(), len(source_offsets)]
    for begin, end in pairwise(edges):
        start = int(source_offsets[begin])
        count = end - begin
        found.append(CopiedRun(start, start + count, int(target_offsets[begin]), count))
    return found


def joined(runs: Iterable[CopiedRun]) -> list[CopiedRun]:
    """The same in fewer runs."""
    found: list[CopiedRun] = []
    for run in sorted(runs):
        last = found[-1] if found else None
        if (
            last is not None
            and last.is_exact
            and run.is_exact
            and last.source_end == run.source_start
            and last.target_end == run.target_start
        ):
            found[-1] = CopiedRun(
                last.source_start, run.source_end, last.target_start, last.records + run.records
            )
        else:
            found.append(run)
    return found


def translate(runs: Sequence[CopiedRun], source_offset: int) -> int | None:
    """Where a consumer at `source_offset` continues; runs are sorted. None: not copied.

    Never too far: if the place is not known exactly, some records are read again."""
    place = bisect_right(runs, source_offset, key=lambda run: run.source_start) - 1
    if place < 0:
        return runs[0].target_start if runs and runs[0].source_start > source_offset else None
    run = runs[place]
    if source_offset >= run.source_end:
        return run.target_end
    if run.is_exact:
        return run.target_start + source_offset - run.source_start
    return run.target_start
