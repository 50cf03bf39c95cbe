"""Joins of tables over a state in files: what is told is the join of the folded tables."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.pipeline.erasing_files import FileVerdict
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.streams.join_state import JoinState
from ledgerstone.pipeline.streams.micro_batches import apply_rows
from ledgerstone.pipeline.streams.state_erasing import purge_state, search_state
from ledgerstone.pipeline.streams.state_query import state_get
from ledgerstone.pipeline.streams.state_store import StateStore, StateVersion
from ledgerstone.pipeline.tables import leaves
from ledgerstone.pipeline.tables.target import InProcess
from tests.kit.aggregates import Killed
from tests.kit.micro_batches import HeldRows
from tests.kit.sized import examples


class Side(NamedTuple):
    """A change of one side; a foreign key is the value's beginning, up to a colon."""

    side: int
    key: str
    offset: int
    value: str | None


class Joined:
    def __init__(self, work: Path, *, how: str, by_foreign_key: bool = False) -> None:
        (work / "checkpoint").mkdir(parents=True, exist_ok=True)
        self.store = StateStore(str(work))
        self.state = JoinState(self.store, InProcess(), how=how, by_foreign_key=by_foreign_key)
        self.told: list[tuple[str, tuple[str | None, str | None] | None]] = []
        self.dies = False
        self.state.open("d", ("to", "id"), self.tell)

    def tell(self, store: StateStore, version: StateVersion) -> None:
        if self.dies:
            raise Killed
        for path in version.outbox:
            for row in pq.read_table(Path(store.area.root) / path).to_pylist():
                left, right = (
                    None if row[name] is None else row[name].decode() for name in ("left", "right")
                )
                pair = None if row["deleted"] else (left, right)
                self.told.append((row["key"].decode(), pair))

    def apply(self, batch: int, changes: Sequence[Side], *, alone: bool = False) -> bool:
        rows = HeldRows([_columns([each]) for each in changes], alone=alone)
        return apply_rows(self.state, batch, rows, self.tell)

    def take(self) -> dict[str, Any]:
        """What was told since the last call; no key is told twice in a batch."""
        found, self.told = self.told, []
        assert len({key for key, _ in found}) == len(found)
        return dict(found)


def foreign_key(value: str | None) -> str | None:
    return None if value is None else value.partition(":")[0] or None


def _columns(some: Sequence[Side]) -> tuple[pa.Array, ...]:
    def encoded(texts: list[str | None]) -> pa.Array:
        return pa.array([None if each is None else each.encode() for each in texts], pa.binary())

    return (
        pa.array([each.side for each in some], pa.int32()),
        encoded([each.key for each in some]),
        encoded([each.value for each in some]),
        encoded([foreign_key(each.value) for each in some]),
        pa.array([0] * len(some), pa.int32()),
        pa.array([each.offset for each in some], pa.int64()),
        pa.array([each.offset for each in some], pa.int64()),
        pa.array([True] * len(some), pa.bool_()),
    )


def test_a_tombstone_on_one_side_is_one_of_the_result(tmp_path: Path) -> None:
    joined = Joined(tmp_path, how="inner")
    joined.apply(0, [Side(0, "a", 0, "ann"), Side(1, "a", 0, "mail"), Side(0, "b", 1, "bob")])
    first = joined.take()
    joined.apply(1, [Side(1, "a", 1, None), Side(0, "b", 2, None)])

    assert first == {"a": ("ann", "mail")}
    assert joined.take() == {"a": None}


def test_a_right_row_reaches_every_row_that_names_it(tmp_path: Path) -> None:
    joined = Joined(tmp_path, how="inner", by_foreign_key=True)
    orders = [Side(0, f"o{number}", number, "c1:x") for number in range(3)]
    joined.apply(0, [*orders, Side(0, "other", 9, "c2:x")])
    nothing = joined.take()

    joined.apply(1, [Side(1, "c1", 0, "ann")])
    told = joined.take()
    joined.apply(2, [Side(1, "c1", 1, None)])

    assert nothing == {}
    assert told == {f"o{number}": ("c1:x", "ann") for number in range(3)}
    assert joined.take() == {f"o{number}": None for number in range(3)}


def test_a_row_that_moves_to_another_right_row_is_told_once(tmp_path: Path) -> None:
    joined = Joined(tmp_path, how="inner", by_foreign_key=True)
    joined.apply(0, [Side(0, "o", 0, "c1:x"), Side(1, "c1", 0, "ann"), Side(1, "c2", 1, "bob")])
    joined.take()

    joined.apply(1, [Side(0, "o", 1, "c2:x"), Side(1, "c1", 2, "amy")])
    moved = joined.take()
    joined.apply(2, [Side(0, "o", 2, "c3:x")])

    assert moved == {"o": ("c2:x", "bob")}
    assert joined.take() == {"o": None}


def test_an_erased_row_that_was_not_told_yet_is_told_as_gone_only(tmp_path: Path) -> None:
    joined = Joined(tmp_path, how="inner")
    joined.dies = True
    rows = [
        Side(at, key, at, f"{key}{at}") for key in ("someone@example.com", "b") for at in (0, 1)
    ]
    with pytest.raises(Killed):
        joined.apply(0, rows)

    purge_state(str(tmp_path), b"someone@example.com")

    # Files are told side by side: were both there, the older one could come last.
    assert Joined(tmp_path, how="inner").take() == {"someone@example.com": None, "b": ("b0", "b1")}


def test_no_byte_of_a_deleted_key_is_left_in_the_state(tmp_path: Path) -> None:
    joined = Joined(tmp_path, how="left", by_foreign_key=True)
    word = b"someone@example.com"
    joined.apply(0, [Side(0, word.decode(), 0, "c1:x"), Side(1, "c1", 0, "ann")])

    def found() -> list[str]:
        return [p.name for p in tmp_path.rglob("*") if p.is_file() and word in p.read_bytes()]

    was_there = found()
    joined.apply(1, [Side(0, word.decode(), 1, None)])

    assert was_there
    assert found() == []


def test_a_foreign_key_has_no_full_join(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="inner or left"):
        Joined(tmp_path, how="full", by_foreign_key=True)


KEYS = st.sampled_from(["a", "b", "c"])
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just(0), KEYS, st.sampled_from(["a:1", "b:1", "b:2", ":1", None])),
        st.tuples(st.just(1), KEYS, st.sampled_from(["x", "y", None])),
    ),
    max_size=25,
)


@given(
    CHANGES,
    st.integers(1, 6),
    st.sampled_from(
        [("inner", False), ("left", False), ("full", False), ("inner", True), ("left", True)]
    ),
    st.booleans(),
)
@examples(30)
def test_what_is_told_is_the_join_of_the_folded_tables(
    tmp_path_factory: pytest.TempPathFactory,
    changes: list[tuple[int, str, str | None]],
    size: int,
    kind: tuple[str, bool],
    alone: bool,
) -> None:
    how, by_foreign_key = kind
    tables: tuple[dict[str, str], dict[str, str]] = ({}, {})
    result: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as small:
        small.setattr(leaves, "LEAF_ROWS", 1)
        small.setattr("ledgerstone.pipeline.streams.state_shares.LEAF_ROWS", 2)
        joined = Joined(tmp_path_factory.mktemp("join"), how=how, by_foreign_key=by_foreign_key)
        for first in range(0, len(changes), size):
            some = changes[first : first + size]
            rows = [Side(s, k, first + at, v) for at, (s, k, v) in enumerate(some)]
            joined.apply(first, rows, alone=alone)
            result |= joined.take()
            for side, key, value in some:
                tables[side].pop(key, None)
                if value is not None:
                    tables[side][key] = value

            live = {key: pair for key, pair in result.items() if pair is not None}
            assert live == _expected(*tables, how=how, by_foreign_key=by_foreign_key)


def _expected(
    left: dict[str, str], right: dict[str, str], *, how: str, by_foreign_key: bool
) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in left.items():
        named = foreign_key(value) if by_foreign_key else key
        other = None if named is None else right.get(named)
        if other is not None or how != "inner":
            found[key] = (value, other)
    if how == "full":
        found |= {key: (None, value) for key, value in right.items() if key not in left}
    return found


@pytest.mark.parametrize("by_foreign_key", [False, True])
def test_an_erased_key_leaves_a_join_when_its_tombstone_is_told(
    tmp_path: Path, by_foreign_key: bool
) -> None:
    joined = Joined(tmp_path, how="left", by_foreign_key=by_foreign_key)
    joined.apply(0, [Side(0, "someone@example.com", 0, "c1:x"), Side(1, "c1", 0, "ann")])
    row = state_get(str(tmp_path), b"someone@example.com")
    joined.take()

    before = purge_state(str(tmp_path), b"someone@example.com")
    again = Joined(tmp_path, how="left", by_foreign_key=by_foreign_key)
    again.apply(1, [Side(0, "other", 1, "c1:x")])

    assert row is not None
    assert row["left"] == "c1:x"
    assert row["right"] == ("ann" if by_foreign_key else None)
    assert before.verdict is FileVerdict.RESIDUE
    assert "run the query once more" in before.evidence
    assert again.told[0] == ("someone@example.com", None)
    assert search_state(str(tmp_path), b"someone@example.com").verdict is FileVerdict.CLEAN


def test_a_row_that_names_an_erased_key_is_no_residue_of_it(tmp_path: Path) -> None:
    joined = Joined(tmp_path, how="left", by_foreign_key=True)
    joined.apply(0, [Side(0, "order", 0, "customer-1:x"), Side(1, "customer-1", 0, "ann")])
    before = search_state(str(tmp_path), b"customer-1")

    joined.apply(1, [Side(1, "customer-1", 1, None)])

    after = search_state(str(tmp_path), b"customer-1")
    assert (before.verdict, after.verdict) == (FileVerdict.RESIDUE, FileVerdict.CLEAN)
