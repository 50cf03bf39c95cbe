"""The history of passes over a partition: one record each, the newest few kept. Pure.

The records are in `cleaning-history.json` in the partition's directory, so they are deleted with
it; `storage.dump_history` shows them. The last record also keeps the earliest pending horizon over
a restart. The file also holds the partition's `tombstone_ledger`. An unreadable file counts as no
history; the next pass writes a new one.
"""

import json
from collections.abc import Sequence
from typing import Any, Final, Literal

from ledgerstone.cleaner.plan import PassStats
from ledgerstone.cleaner.tombstone_ledger import TombstoneLedger
from ledgerstone.dataclasses import asdict, dataclass, fields

VERSION: Final = 1
# Larger than any file we write.
MAX_BYTES: Final = 4 << 20

Outcome = Literal["cleaned", "aborted", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One pass. Offsets are half-open: everything in [first_dirty, end) was mapped."""

    started_ms: int
    ended_ms: int
    duration_ms: int  # by the monotonic clock
    reason: str
    outcome: Outcome
    detail: str
    first_dirty_offset: int
    end_offset: int
    segments_before: int
    segments_after: int
    stats: PassStats

    @property
    def bytes_dropped(self) -> int:
        return self.stats.bytes_read - self.stats.bytes_written

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def encode_runs(runs: Sequence[Run], ledger: TombstoneLedger | None = None) -> bytes:
    content: dict[str, Any] = {"version": VERSION, "runs": [run.to_json() for run in runs]}
    if ledger is not None:
        content["tombstones"] = ledger.to_json()
    return json.dumps(content, separators=(",", ":")).encode() + b"\n"


def decode_runs(data: bytes) -> list[Run]:
    """Raises ValueError if the bytes are not what `encode_runs` writes."""
    return decode_history(data)[0]


def decode_history(data: bytes) -> tuple[list[Run], TombstoneLedger]:
    """The same, and the ledger; an empty one if none was written."""
    if len(data) > MAX_BYTES:
        raise ValueError(f"{len(data)} bytes of history, at most {MAX_BYTES} are accepted")
    try:
        content = json.loads(data)
        if content["version"] != VERSION:
            raise ValueError(f"version {content['version']!r}, only {VERSION} is known")
        runs = [_run_from(each) for each in content["runs"]]
        ledger = content.get("tombstones")
        return runs, TombstoneLedger() if ledger is None else TombstoneLedger.from_json(ledger)
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"not a cleaning history: {error!r}") from error


def _run_from(content: dict[str, Any]) -> Run:
    stats = content["stats"]
    known = {field.name: stats[field.name] for field in fields(PassStats) if field.name in stats}
    for name, value in known.items():
        if type(value) is not int and not (value is None and name.endswith("_horizon_ms")):
            raise ValueError(f"{name} is {value!r}")
    rest = {field.name: content[field.name] for field in fields(Run) if field.name != "stats"}
    texts = ("reason", "outcome", "detail")
    for name, value in rest.items():
        if type(value) is not (str if name in texts else int):
            raise ValueError(f"{name} is {value!r}")
    return Run(stats=PassStats(**known), **rest)


def last_cleaned(runs: Sequence[Run]) -> Run | None:
    return next((run for run in reversed(runs) if run.outcome == "cleaned"), None)
