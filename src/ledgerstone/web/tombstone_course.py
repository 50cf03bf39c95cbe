"""The five stages of a tombstone, for one key and for all of a partition. Pure.

A key is at the last stage it has completed: written, deleted, compacted for the first time, past
`delete.retention.ms`, removed. It waits for the next one.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from ledgerstone.cleaner.history import Run
from ledgerstone.server.anatomy.partition import Horizon, PartitionAnatomy
from ledgerstone.web.course import NONE, SOME, UNKNOWN, Course, StageMark, states
from ledgerstone.web.wording import grouped, span

WRITE: Final = "Write"
DELETE: Final = "Logical delete"
COMPACTION: Final = "First compaction"
RETENTION: Final = "delete.retention.ms"
REMOVAL: Final = "Physical removal"
TITLES: Final = (WRITE, DELETE, COMPACTION, RETENTION, REMOVAL)
_LIVE, _FRESH, _STAMPED, _DUE = 1, 2, 3, 4


class Latest(NamedTuple):
    """The latest record of a key that is still in the log."""

    offset: int
    written_ms: int
    is_tombstone: bool
    horizon_ms: int | None = None
    stamped_ms: int | None = None  # when its first pass ended, if known
    until_ms: int | None = None  # how long it is kept, if known
    value_ms: int | None = None  # when an earlier value still on disk was written

    def stage(self, now_ms: int) -> int:
        if not self.is_tombstone:
            return _LIVE
        if self.horizon_ms is None:
            return _FRESH
        return _STAMPED if now_ms < self.horizon_ms else _DUE


def first_pass_ms(runs: Sequence[Run], offset: int) -> int | None:
    """When the first known pass over an offset ended."""
    met = [
        run.ended_ms
        for run in runs
        if run.outcome == "cleaned" and run.first_dirty_offset <= offset < run.end_offset
    ]
    return min(met, default=None)


def course_of_key(latest: Latest, *, now_ms: int, what: str = "this key") -> Course:
    stage = latest.stage(now_ms)
    texts, times = _texts(latest, stage), _times(latest, stage)
    marks = tuple(
        StageMark(title, state, text, at_ms, title == RETENTION)
        for title, state, text, at_ms in zip(
            TITLES, states(len(TITLES), stage), texts, times, strict=True
        )
    )
    caption = f"Stage {stage} of 5, {TITLES[stage - 1]}: {what} stands here"
    return Course(caption, marks, f"{what} is here", _share(latest, stage, now_ms))


def _texts(latest: Latest, stage: int) -> tuple[str, ...]:
    at = f"at offset {grouped(latest.offset)}"
    if stage == _LIVE:
        return (
            f"its latest value is {at}",
            "no tombstone was written",
            "drops what a tombstone deletes",
            "keeps the tombstone for late readers",
            "drops the tombstone too",
        )
    return (
        "values of the key were written",
        f"the tombstone is {at}",
        "older values are dropped, the delete horizon is set"
        if stage >= _STAMPED
        else "will drop older values and set the delete horizon",
        "late readers have had their time"
        if stage >= _DUE
        else "late readers can still see the delete, until the horizon",
        "the next pass drops the tombstone",
    )


def _times(latest: Latest, stage: int) -> tuple[int | None, ...]:
    if stage == _LIVE:
        return latest.written_ms, None, None, None, None
    first_ms = latest.until_ms if stage == _FRESH else latest.stamped_ms
    last_ms = latest.until_ms if stage == _DUE else None
    return latest.value_ms, latest.written_ms, first_ms, latest.horizon_ms, last_ms


def _share(latest: Latest, stage: int, now_ms: int) -> float | None:
    start_ms, end_ms = latest.stamped_ms, latest.horizon_ms
    if stage != _STAMPED or start_ms is None or end_ms is None or end_ms <= start_ms:
        return None
    return min(max((now_ms - start_ms) / (end_ms - start_ms), 0.0), 1.0)


def course_of_lost_key(*, is_in_files: bool) -> Course:
    """No record of it is in the log; whether one ever was is unknown."""
    if is_in_files:
        texts = ("", "", "", "", "out of the log; files that were replaced wait to be removed")
        marks = [
            StageMark(title, state, text, None, title == RETENTION)
            for title, state, text in zip(TITLES, states(5, 5), texts, strict=True)
        ]
        return Course("Stage 5 of 5: out of the log", tuple(marks), "this key is here")
    marks = [StageMark(title, UNKNOWN, "", None, title == RETENTION) for title in TITLES[:-1]]
    marks.append(StageMark(REMOVAL, UNKNOWN, "nothing is left, or the key was never written here"))
    return Course("No record is left, or the key was never written here", tuple(marks))


# -- all keys of a partition ----------------------------------------------------------------------


def course_of_partition(about: PartitionAnatomy, runs: Sequence[Run]) -> Course | None:
    """How many keys are at each stage; None if the topic is not compacted."""
    if not about.compacts:
        return None
    counts = (_live(about), about.fresh_tombstones, *_waiting(about))
    removed = sum(run.stats.dropped_tombstones for run in runs)
    marks = [
        StageMark(title, _state(count), _counted(count, word, about), None, title == RETENTION)
        for title, count, word in zip(
            TITLES,
            counts,
            (
                "with a value",
                "awaiting a first pass",
                f"kept for late readers{_first_goes(about)}",
                "past the horizon, go with the next pass",
            ),
            strict=False,
        )
    ]
    passes = f"in the last {len(runs)} {'pass' if len(runs) == 1 else 'passes'}"
    text = f"{grouped(removed)} removed {passes}" if runs else "no pass is remembered"
    marks.append(StageMark(REMOVAL, SOME if removed else NONE, text))
    return Course("How many keys stand at each of the five stages", tuple(marks))


def _live(about: PartitionAnatomy) -> int | None:
    known = [each.records.live for each in about.segments if each.records is not None]
    return sum(known) if known and about.division is not None else None


def _waiting(about: PartitionAnatomy) -> tuple[int | None, int | None]:
    """Those before their horizon and those past it; a hold keeps them past it."""
    found: list[int | None] = []
    for is_past in (False, True):
        counts = [each.tombstones for each in about.horizons if _is_past(about, each) is is_past]
        known = [each for each in counts if each is not None]
        found.append(sum(known) if len(known) == len(counts) else None)
    return found[0], found[1]


def _is_past(about: PartitionAnatomy, horizon: Horizon) -> bool:
    return horizon.at_ms <= about.now_ms


def _first_goes(about: PartitionAnatomy) -> str:
    ahead = [each for each in about.horizons if each.tombstones != 0 and not _is_past(about, each)]
    return f", the first for {span(ahead[0].at_ms - about.now_ms)}" if ahead else ""


def _state(count: int | None) -> str:
    return UNKNOWN if count is None else SOME if count else NONE


def _counted(count: int | None, word: str, about: PartitionAnatomy) -> str:
    if count is None:
        return "not counted"
    if not count:
        return "none"
    roughly = "about " if about.sampled_one_in > 1 else ""
    return f"{roughly}{grouped(count)} {word}"
