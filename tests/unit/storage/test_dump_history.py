"""A cleaning history in the dump: its passes, and the problems of an invalid one."""

import pytest

from ledgerstone.cleaner.history import Run, encode_runs
from ledgerstone.cleaner.plan import PassStats, TombstoneRange
from ledgerstone.cleaner.tombstone_ledger import MissedDeletes, TombstoneLedger
from ledgerstone.sim.dice import SeededDice
from ledgerstone.sim.filesystem import SimFilesystem
from ledgerstone.storage.dump import Fact, dump_path
from ledgerstone.storage.dump_facts import FileFacts, FileFormat, Problem
from ledgerstone.storage.dump_history import (
    CleaningRunFacts,
    MissedDeletesFacts,
    PendingTombstonesFacts,
    RemovedTombstonesFacts,
)
from ledgerstone.storage.dump_log import DumpOptions

PATH = "/topic-0/cleaning-history.json"
RUN = Run(
    started_ms=1000,
    ended_ms=1500,
    duration_ms=499,
    reason="a pass was requested",
    outcome="cleaned",
    detail="",
    first_dirty_offset=3,
    end_offset=9,
    segments_before=4,
    segments_after=2,
    stats=PassStats(),
)


def dumped(data: bytes, path: str = PATH) -> list[Fact]:
    fs = SimFilesystem(dice=SeededDice(0))
    fs.make_dir("/topic-0")
    fs.open(path, create=True).pwrite(data, 0)
    return list(dump_path(fs, path, DumpOptions()))


def test_each_pass_is_shown() -> None:
    named, *passes = dumped(encode_runs([RUN, RUN]))

    assert isinstance(named, FileFacts)
    assert named.format is FileFormat.CLEANING_HISTORY
    assert len(passes) == 2
    assert passes[0] == CleaningRunFacts(
        path=PATH,
        started_ms=1000,
        ended_ms=1500,
        reason="a pass was requested",
        outcome="cleaned",
        detail="",
        first_dirty_offset=3,
        end_offset=9,
        segments_before=4,
        segments_after=2,
    )


def test_what_is_known_of_tombstones_is_shown() -> None:
    ledger = TombstoneLedger(
        pending=(TombstoneRange(4, 9, 2000),),
        removed_below_offset=3,
        removed_at_ms=1500,
        missed=(MissedDeletes("sink", 1, 2, 2, 1500),),
    )

    _, _, pending, removed, missed = dumped(encode_runs([RUN], ledger))

    assert pending == PendingTombstonesFacts(
        path=PATH, first_offset=4, last_offset=9, earliest_horizon_ms=2000
    )
    assert removed == RemovedTombstonesFacts(path=PATH, below_offset=3, at_ms=1500)
    assert missed == MissedDeletesFacts(
        path=PATH, group_id="sink", committed_offset=1, first_offset=2, last_offset=2, at_ms=1500,
        is_announced=False,
    )  # fmt: skip


def test_tombstones_that_are_none_are_a_problem() -> None:
    ledger = encode_runs([RUN], TombstoneLedger()).replace(b'"missed":[]', b'"missed":[{}]')

    *_, problem = dumped(ledger)

    assert isinstance(problem, Problem)
    assert "tombstones are invalid" in problem.reason


def test_history_that_was_being_written_is_known_too() -> None:
    named, shown = dumped(encode_runs([RUN]), f"{PATH}.tmp")

    assert isinstance(named, FileFacts)
    assert (named.format, named.suffix) == (FileFormat.CLEANING_HISTORY, ".tmp")
    assert isinstance(shown, CleaningRunFacts)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b'{"runs": 3}',
        b'{"runs": [3]}',
        b'{"runs": [{"started_ms": "now"}]}',
        b"[" * 100_000,
        b"\xff",
    ],
)
def test_what_is_no_history_is_a_problem_and_no_exception(data: bytes) -> None:
    _, problem = dumped(data)

    assert isinstance(problem, Problem)
    assert problem.path == PATH
