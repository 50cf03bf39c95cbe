"""The history of a partition's cleaning as facts. Grade D, read-only.

`ledgerstone.cleaner.history` writes the file, but storage cannot import it. This module reads only
the fields that `ledgerstone dump` shows, and checks their types.
"""

import json
from collections.abc import Iterator
from typing import Any, ClassVar

from ledgerstone.dataclasses import dataclass
from ledgerstone.errors import CorruptFile
from ledgerstone.fs import Filesystem
from ledgerstone.storage.checkpoints import read_if_exists


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningRunFacts:
    """One pass; offsets are half-open, everything in [first_dirty, end) was mapped."""

    type: ClassVar[str] = "cleaning_run"
    path: str
    started_ms: int
    ended_ms: int
    reason: str
    outcome: str
    detail: str
    first_dirty_offset: int
    end_offset: int
    segments_before: int
    segments_after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingTombstonesFacts:
    """Tombstones waiting for their horizon; both offsets are of tombstones."""

    type: ClassVar[str] = "pending_tombstones"
    path: str
    first_offset: int
    last_offset: int
    earliest_horizon_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedTombstonesFacts:
    """The offset below which tombstones were removed, and when the last one was."""

    type: ClassVar[str] = "removed_tombstones"
    path: str
    below_offset: int
    at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MissedDeletesFacts:
    """A group that had not read tombstones when they were removed, or about to be."""

    type: ClassVar[str] = "missed_deletes"
    path: str
    group_id: str
    committed_offset: int
    first_offset: int
    last_offset: int
    at_ms: int
    is_announced: bool


HistoryFacts = (
    CleaningRunFacts | PendingTombstonesFacts | RemovedTombstonesFacts | MissedDeletesFacts
)


def dump_history(fs: Filesystem, path: str) -> Iterator[HistoryFacts]:
    try:
        content = json.loads(read_if_exists(fs, path) or b"")
        runs = content["runs"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CorruptFile(path, 0, f"not a cleaning history: {error!r}") from error
    if not isinstance(runs, list):
        raise CorruptFile(path, 0, f"not a cleaning history: runs is {type(runs).__name__}")
    for number, run in enumerate(runs):
        try:
            yield _facts(path, run)
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptFile(path, 0, f"run {number} is invalid: {error!r}") from error
    if content.get("tombstones") is not None:
        try:
            yield from _ledger_facts(path, content["tombstones"])
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptFile(path, 0, f"tombstones are invalid: {error!r}") from error


# The functions below get unchecked JSON.


def _facts(path: str, run: Any) -> CleaningRunFacts:  # noqa: ANN401
    return CleaningRunFacts(
        path=path,
        started_ms=_number(run["started_ms"]),
        ended_ms=_number(run["ended_ms"]),
        reason=str(run["reason"]),
        outcome=str(run["outcome"]),
        detail=str(run["detail"]),
        first_dirty_offset=_number(run["first_dirty_offset"]),
        end_offset=_number(run["end_offset"]),
        segments_before=_number(run["segments_before"]),
        segments_after=_number(run["segments_after"]),
    )


def _ledger_facts(path: str, ledger: Any) -> Iterator[HistoryFacts]:  # noqa: ANN401
    for first_offset, last_offset, horizon_ms in ledger["pending"] or ():
        yield PendingTombstonesFacts(
            path=path,
            first_offset=_number(first_offset),
            last_offset=_number(last_offset),
            earliest_horizon_ms=_number(horizon_ms),
        )
    if ledger["removed_below_offset"] is not None:
        yield RemovedTombstonesFacts(
            path=path,
            below_offset=_number(ledger["removed_below_offset"]),
            at_ms=_number(ledger["removed_at_ms"]),
        )
    for missed in ledger["missed"]:
        yield MissedDeletesFacts(
            path=path,
            group_id=str(missed["group_id"]),
            committed_offset=_number(missed["committed_offset"]),
            first_offset=_number(missed["first_offset"]),
            last_offset=_number(missed["last_offset"]),
            at_ms=_number(missed["at_ms"]),
            is_announced=bool(missed["is_announced"]),
        )


def _number(value: object) -> int:
    if type(value) is not int:
        raise ValueError(f"{value!r} is not a whole number")
    return value
