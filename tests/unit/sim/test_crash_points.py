"""Which moment of a transaction a disk shows."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ledgerstone.sim import crash_points
from ledgerstone.sim.attempts import TxnBook
from ledgerstone.sim.crash_points import points_on_disk
from ledgerstone.sim.decisions import TxnStatus
from ledgerstone.sim.model import NodeModel
from ledgerstone.sim.world import World
from ledgerstone.storage.txn_index import AbortedTxnEntry, encode_entry
from tests.unit.sim.test_decisions import A, data, marker, state_record

COMMIT = marker(1, A, commit=True)


def points(*, is_ending: bool = False, **logs: list[bytes]) -> list[str]:
    """Of a disk with these logs; `state` is the coordinator's, `o0` is partition 0 of output."""
    names = {"state": "__transaction_state-0", "offsets": "__consumer_offsets-0"}
    names |= {"o0": "output-0", "o1": "output-1"}
    files = {f"/data/{names[name]}/0.log": b"".join(log) for name, log in logs.items()}
    node = SimpleNamespace(
        on_death=[], on_up=[], boot=1, broker=None, fs=SimpleNamespace(files=lambda: files)
    )
    book = TxnBook(NodeModel(cast(Any, node), World(0), True, 0), 10**9)
    book.begin("t", "c").is_ending = is_ending
    return points_on_disk(book)


@pytest.mark.parametrize(
    ("first", "second", "point"),
    [
        ([data(0, [1], A)], [data(0, [2], A)], crash_points.NO_MARKER),
        ([data(0, [1], A), COMMIT], [data(0, [2], A)], crash_points.SOME_MARKERS),
        ([data(0, [1], A), COMMIT], [data(0, [2], A), COMMIT], crash_points.ALL_MARKERS),
    ],
)
def test_markers_that_prepare_has_led_to(
    first: list[bytes], second: list[bytes], point: str
) -> None:
    assert points(state=[state_record(TxnStatus.PREPARE_COMMIT)], o0=first, o1=second) == [point]


def test_an_open_transaction_with_and_without_data() -> None:
    ongoing = [state_record(TxnStatus.ONGOING)]
    assert points(state=ongoing) == [crash_points.ONGOING_EMPTY]
    assert points(state=ongoing, o0=[data(0, [1], A)]) == [crash_points.ONGOING_DATA]


def test_an_end_that_was_asked_for() -> None:
    assert points(state=[state_record(TxnStatus.ONGOING)], is_ending=True) == [
        crash_points.ONGOING_EMPTY,
        crash_points.END_LOST,
    ]
    complete = [state_record(TxnStatus.COMPLETE_COMMIT)]
    assert points(state=complete, is_ending=True) == [crash_points.COMPLETE_UNANSWERED]
    assert points(state=complete) == []


def test_an_id_that_nobody_was_told() -> None:
    assert points(state=[state_record(TxnStatus.EMPTY)]) == [crash_points.INIT_UNANSWERED]


def test_a_torn_tail_does_not_count() -> None:
    torn = state_record(TxnStatus.PREPARE_COMMIT, offset=1)[:-3]
    found = points(state=[state_record(TxnStatus.ONGOING), torn], o0=[data(0, [1], A)])
    assert found == [crash_points.ONGOING_DATA]


def test_an_index_that_lags_behind_its_log() -> None:
    log = [data(0, [1], A), marker(1, A, commit=False)]
    assert points(o0=log) == [crash_points.NO_INDEX]
    entry = encode_entry(AbortedTxnEntry(A, 0, 1, 2))
    assert crash_points._index_lags({"/d/output-0/0.log": b"".join(log)})
    files = {"/d/output-0/0.log": b"".join(log), "/d/output-0/0.txnindex": entry}
    assert not crash_points._index_lags(files)
