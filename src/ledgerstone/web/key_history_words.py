"""The story of a key in words: its records, what keeps each of them, past passes. Pure.

The records come from a search of every file of the topic, the passes from the cleaning histories. A
history has only the last passes, and a pass reports how much it dropped, not which keys. So the
text says what a pass must have done to the key, and no more.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from ledgerstone.cleaner.history import Run
from ledgerstone.cleaner.why import Gate, KeyRecord, Situation, explain_record, gates
from ledgerstone.erasure.places import LIVE
from ledgerstone.web.tombstone_course import Latest, first_pass_ms
from ledgerstone.web.wording import away, grouped, moment

SHOWN_PASSES: Final = 10


class PlaceRow(NamedTuple):
    """One record of the key that is still in a file."""

    partition: int
    offset: int
    timestamp_ms: int
    is_tombstone: bool
    state: str  # live, superseded, tombstone
    file: str
    file_state: str  # live, or what the file waits for: deleted, cleaned, swap
    position: int
    codec: str
    erasure_id: str | None
    horizon_ms: int | None
    why: str
    until_ms: int | None


class PassRow(NamedTuple):
    partition: int
    ended_ms: int
    reason: str
    first_dirty_offset: int
    end_offset: int
    meaning: str


def place_row(
    place: dict[str, Any],
    about: Situation | None,
    found: Sequence[Gate],
    horizon_ms: int | None,
    next_offset: int | None,
) -> PlaceRow:
    reason = _reason(place, about, found, horizon_ms, next_offset)
    return PlaceRow(
        partition=place["partition"],
        offset=place["offset"],
        timestamp_ms=place["timestamp_ms"],
        is_tombstone=place["is_tombstone"],
        state=place["state"],
        file=place["file"],
        file_state=place["file_state"],
        position=place["position"],
        codec=place["codec"],
        erasure_id=place["erasure_id"],
        horizon_ms=horizon_ms,
        why=reason.text,
        until_ms=reason.opens_at_ms,
    )


def _reason(
    place: dict[str, Any],
    about: Situation | None,
    found: Sequence[Gate],
    horizon_ms: int | None,
    next_offset: int | None,
) -> Gate:
    match place["file_state"]:
        case "live":
            pass
        case "deleted":
            return Gate("file", False, "its file was replaced or deleted and is removed soon")
        case _:
            return Gate("file", False, "its file belongs to a pass that is not finished")
    if about is None:
        return Gate("partition", False, "its partition is not hosted here any more")
    record = KeyRecord(place["offset"], place["is_tombstone"], horizon_ms, next_offset)
    return explain_record(record, found, now_ms=about.now_ms, holds=about.holds)


def gates_of(about: Situation | None) -> list[Gate]:
    return [] if about is None else gates(about)


def summary(rows: Sequence[PlaceRow], *, now_ms: int, home: int | None) -> list[str]:
    """A paragraph for each partition that has records of the key."""
    in_log = [row for row in rows if row.file_state == LIVE]
    if not in_log:
        rest = " Files that are about to be removed still hold some." if rows else ""
        none = "No record of this key is in the log: it was never written here, or it is gone."
        return [none + rest]
    paragraphs = []
    for number in sorted({row.partition for row in in_log}):
        words = _of_partition([row for row in in_log if row.partition == number], now_ms=now_ms)
        if home is not None and number != home:
            words.append(
                f"By its hash the key belongs to partition {home}: what stands in partition "
                f"{number} supersedes nothing there."
            )
        paragraphs.append(" ".join(words))
    return paragraphs


def _of_partition(own: Sequence[PlaceRow], *, now_ms: int) -> list[str]:
    latest = max(own, key=lambda row: row.offset)
    where = f"at offset {grouped(latest.offset)} of partition {latest.partition}"
    written = f"written {away(latest.timestamp_ms, now_ms)}"
    if latest.is_tombstone:
        words = [f"The key is deleted: its latest record is a tombstone {where}, {written}."]
        if latest.horizon_ms is None:
            words.append("No pass has seen that tombstone yet.")
        elif latest.horizon_ms > now_ms:
            when = f"{moment(latest.horizon_ms)}, {away(latest.horizon_ms, now_ms)}"
            words.append(f"It stays readable until {when}; the first pass after that removes it.")
        else:
            words.append("Its horizon has passed: the next pass removes it.")
    else:
        words = [f"The key is live: its latest value is {where}, {written}."]
    earlier = len({row.offset for row in own}) - 1
    if earlier == 1:
        words.append("One earlier record is still on disk, until a pass removes it.")
    elif earlier > 1:
        words.append(
            f"{grouped(earlier)} earlier records are still on disk, until a pass removes them."
        )
    return words


def latest_of(rows: Sequence[PlaceRow], number: int, runs: Sequence[Run]) -> Latest:
    """The record that decides the key's stage in a partition with records of it."""
    own = [row for row in rows if row.partition == number and row.file_state == LIVE]
    latest = max(own, key=lambda row: row.offset)
    values = [row.timestamp_ms for row in own if not row.is_tombstone]
    return Latest(
        offset=latest.offset,
        written_ms=latest.timestamp_ms,
        is_tombstone=latest.is_tombstone,
        horizon_ms=latest.horizon_ms,
        stamped_ms=first_pass_ms(runs, latest.offset),
        until_ms=latest.until_ms,
        value_ms=max(values, default=None),
    )


def pass_rows(number: int, runs: Sequence[Run], latest_offset: int | None) -> list[PassRow]:
    """Newest first. `latest_offset` is None if the log has no record of the key."""
    cleaned = [run for run in runs if run.outcome == "cleaned"]
    return [
        PassRow(
            number,
            run.ended_ms,
            run.reason,
            run.first_dirty_offset,
            run.end_offset,
            _meaning(run, latest_offset),
        )
        for run in reversed(cleaned[-SHOWN_PASSES:])
    ]


def _meaning(run: Run, latest_offset: int | None) -> str:
    gone = run.stats.dropped_tombstones
    if latest_offset is None:
        if gone:
            return f"removed {grouped(gone)} tombstones; the key's may have been one of them"
        return "removed no tombstone"
    if run.end_offset <= latest_offset:
        return "ended before the latest record: removed what was superseded by then"
    if run.first_dirty_offset <= latest_offset:
        return "reached the latest record: removed every earlier record of the key"
    return "began after the latest record: nothing of the key was left to supersede"
