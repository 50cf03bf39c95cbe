"""Offsets of a copy for offsets of the original: exact where it can be, never too far."""

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.pipeline.mirror.notes import MirrorNotes, Noted
from ledgerstone.pipeline.mirror.offsets import MAX_RUNS, CopiedRun, joined, runs_of, translate
from ledgerstone.types import TopicPartition
from tests.kit.sized import examples

TP = TopicPartition("topic", 3)


def test_a_gap_begins_a_new_run() -> None:
    offsets = np.array([5, 6, 9, 10, 12])

    assert runs_of(offsets, np.arange(100, 105)) == [
        CopiedRun(5, 7, 100, 2),
        CopiedRun(9, 11, 102, 2),
        CopiedRun(12, 13, 104, 1),
    ]


def test_a_record_of_somebody_else_in_the_copy_begins_a_new_run() -> None:
    runs = runs_of(np.array([5, 6, 7]), np.array([100, 101, 103]))

    assert runs == [CopiedRun(5, 7, 100, 2), CopiedRun(7, 8, 103, 1)]


def test_neighbours_are_joined() -> None:
    assert joined([CopiedRun(2, 4, 12, 2), CopiedRun(0, 2, 10, 2)]) == [CopiedRun(0, 4, 10, 4)]
    assert len(joined([CopiedRun(0, 2, 10, 2), CopiedRun(3, 4, 12, 1)])) == 2


def test_a_place_in_a_gap_is_behind_what_was_before_it() -> None:
    runs = [CopiedRun(5, 7, 100, 2), CopiedRun(9, 11, 102, 2)]

    assert [translate(runs, at) for at in (4, 5, 6, 7, 8, 9, 10, 11, 99)] == [
        100, 100, 101, 102, 102, 102, 103, 104, 104,
    ]  # fmt: skip
    assert translate([], 5) is None


def test_too_many_gaps_are_remembered_as_a_whole() -> None:
    offsets = np.arange(0, 4 * MAX_RUNS, 2)

    (run,) = runs_of(offsets, np.arange(len(offsets)))

    assert not run.is_exact
    assert translate([run], 200) == 0
    assert translate([run], run.source_end) == len(offsets)


@given(st.sets(st.integers(0, 60), min_size=1), st.integers(0, 70), st.integers(1, 7))
@examples(100)
def test_nothing_behind_a_place_is_passed_over(offsets: set[int], place: int, size: int) -> None:
    ordered = np.array(sorted(offsets))
    runs: list[CopiedRun] = []
    for first in range(0, len(ordered), size):
        part = ordered[first : first + size]
        runs += runs_of(part, np.arange(first, first + len(part)))

    found = translate(joined(runs), place)

    assert found == int(np.count_nonzero(ordered < place))


def test_notes_survive_and_stay_few(tmp_path: Path) -> None:
    with MirrorNotes(tmp_path / "notes.sqlite") as notes:
        notes.note(TP, Noted(10, 10), [CopiedRun(0, 10, 0, 10)])
        notes.note(TP, Noted(20, 20), [CopiedRun(10, 20, 10, 10)])

    with MirrorNotes(tmp_path / "notes.sqlite") as notes:
        runs, position = notes.runs(TP), notes.position(TP)
        other = notes.position(TopicPartition("topic", 0))

    assert runs == [CopiedRun(0, 20, 0, 20)]
    assert position == (20, 20)
    assert other is None
