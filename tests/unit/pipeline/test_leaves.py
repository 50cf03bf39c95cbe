"""Files of a table by the last bits of a hash: every key has one, and a change rewrites few."""

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from ledgerstone.pipeline.definition import Deletes
from ledgerstone.pipeline.layout import layout_of
from ledgerstone.pipeline.tables import leaves
from ledgerstone.pipeline.tables.leaves import (
    ROOT,
    Branch,
    Incoming,
    LeafFile,
    branches_of,
    halves,
    holds,
    slots_of,
)
from ledgerstone.pipeline.tables.merging import key_hashes
from ledgerstone.pipeline.tables.opening import open_target
from ledgerstone.pipeline.tables.target import Staged
from tests.kit.table_model import Record, changes_of, expected_rows, table_rows, text_pipeline

HASHES = np.frombuffer(random.Random(5).randbytes(8 * 2000), np.uint64)
NOTHING = Incoming(0, 0)


def file_of(leaf: int, rows: int) -> LeafFile:
    return LeafFile(leaf, f"{leaf}", rows, rows * 100)


def holders(branches: list[Branch], hashes: np.ndarray) -> np.ndarray:
    """How many leaves hold each hash."""
    return sum(holds(leaf, hashes).astype(int) for branch in branches for leaf in branch.leaves)  # type: ignore[return-value]


def test_halves_hold_what_their_leaf_held() -> None:
    first, second = halves(ROOT)

    assert (first, second) == (2, 3)
    assert (holds(first, HASHES) ^ holds(second, HASHES)).all()
    deep = halves(halves(second)[1])[0]
    assert (holds(deep, HASHES) <= holds(second, HASHES)).all()


@settings(max_examples=30)
@given(st.integers(0, 2000), st.integers(0, 300_000), st.integers(1, 300))
def test_every_hash_has_one_leaf_however_files_split_and_vanish(
    seed: int, rows: int, most: int
) -> None:
    dice = random.Random(seed)
    files: list[LeafFile] = []
    for _ in range(4):
        branches = branches_of(files, Incoming(rows, rows * 50), most_leaves=most)
        assert (holders(branches, HASHES[:200]) == 1).all()
        numbers = list(range(len(branches)))
        slots = slots_of(branches, numbers)
        for branch, number in zip(branches, numbers, strict=True):
            mine = np.zeros(200, bool)
            for leaf in branch.leaves:
                mine |= holds(leaf, HASHES[:200])
            found = slots[HASHES[:200] & np.uint64(len(slots) - 1)] == number
            assert (found == mine).all()
        # Each branch is rewritten or not; a leaf without rows has no file.
        left: list[LeafFile] = []
        for branch in branches:
            if dice.random() < 0.3:
                left += branch.held
            else:
                left += [file_of(leaf, rows) for leaf in branch.leaves if dice.random() < 0.8]
        files = left
        assert len(files) <= max(most, 1)


def test_leaf_splits_only_when_it_is_far_too_large() -> None:
    calm = branches_of([file_of(ROOT, 30_000)], NOTHING, most_leaves=1024)
    grown = branches_of([file_of(ROOT, 40_000)], NOTHING, most_leaves=1024)
    capped = branches_of([file_of(ROOT, 10**9)], NOTHING, most_leaves=2)

    assert [each.leaves for each in calm] == [(1,)]
    assert [each.leaves for each in grown] == [(2, 3)]
    assert [each.leaves for each in capped] == [(2, 3)]


@pytest.mark.parametrize("target", ["parquet", "delta"])
@pytest.mark.parametrize("deletes", ["hard", "soft", "history"])
def test_table_whose_files_split_follows_the_topic(
    target: str, deletes: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaves, "LEAF_ROWS", 8)
    pipeline = text_pipeline(target, str(tmp_path / "table"), deletes)
    dice = random.Random(3)
    records = [
        Record(0, at, b"k%d" % dice.randrange(90), dice.choice([b"v%d" % at, None]), at + 1)
        for at in range(250)
    ]
    table = open_target(pipeline)
    table.prepare()

    for start in range(0, 250, 50):
        table.apply(changes_of(pipeline, records[start : start + 50]), {0: start + 50})

    assert table_rows(table.rows()) == expected_rows(records, Deletes(deletes))
    assert len(list((tmp_path / "table").rglob("part-*.parquet"))) > 4
    assert not list((tmp_path / "table").rglob("*.arrow"))


@pytest.mark.parametrize("target", ["parquet", "delta"])
def test_few_changes_rewrite_only_the_files_that_hold_their_keys(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaves, "LEAF_ROWS", 64)
    pipeline = text_pipeline(target, str(tmp_path / "table"))
    table = open_target(pipeline)
    table.prepare()
    filled = [Record(0, at, b"k%d" % at, b"v", 1) for at in range(3000)]
    table.apply(changes_of(pipeline, filled), {0: 3000})
    before = {path.name for path in (tmp_path / "table").rglob("part-*.parquet")}
    few = changes_of(pipeline, [Record(0, 3000 + at, b"k%d" % at, b"w", 2) for at in range(3)])

    table.apply(few, {0: 3003})

    held = {path.name for path in (tmp_path / "table").rglob("part-*.parquet")}
    written = held - before
    rows = sum(piece.num_rows for piece in table.rows())
    assert len(before) >= 32
    assert 1 <= len(written) <= 3
    assert rows == 3000


def test_nothing_is_rewritten_when_nothing_changed(tmp_path: Path) -> None:
    pipeline = text_pipeline("parquet", str(tmp_path / "table"))
    table = open_target(pipeline)
    table.prepare()
    table.apply(changes_of(pipeline, [Record(0, 0, b"k", b"v", 1)]), {0: 1})
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "table").glob("part-*")}

    table.apply(changes_of(pipeline, []), {0: 9})

    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "table").glob("part-*")} == before
    assert table.positions() == {0: 9}


def test_damaged_file_of_a_parquet_table_is_refused(tmp_path: Path) -> None:
    pipeline = text_pipeline("parquet", str(tmp_path / "table"))
    table = open_target(pipeline)
    table.prepare()
    table.apply(changes_of(pipeline, [Record(0, 0, b"k", b"v", 1)]), {0: 1})
    (path,) = (tmp_path / "table").glob("part-*")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)

    with pytest.raises(Exception, match="is not as it was written"):
        list(table.rows())


def test_attempts_that_do_not_count_are_not_read(tmp_path: Path) -> None:
    """Two attempts of one task; the driver heard of the second only."""
    pipeline = text_pipeline("parquet", str(tmp_path / "table"))
    table = open_target(pipeline)
    table.prepare()
    stage = table.stage(Incoming(2, 100))
    counts: list[Staged] = []
    for value in (b"lost", b"heard"):
        sink = stage.open()
        sink.add(changes_of(pipeline, [Record(0, 0, b"k", value, 1)]))
        counts.append(sink.finish())

    table.apply_staged(stage, counts[1:], {0: 1})

    assert [row[:2] for row in table_rows(table.rows())] == [("k", "heard")]


def test_hash_is_that_of_the_key_alone() -> None:
    pipeline = text_pipeline("parquet", "unused")
    changes = changes_of(pipeline, [Record(0, 0, b"k", b"v", 1), Record(3, 9, b"k", b"w", 2)])

    first, second = key_hashes(changes, layout_of(pipeline))

    assert first == second
    assert pc.count_distinct(pa.array(HASHES)).as_py() == len(HASHES)


def test_files_of_past_versions_go_after_the_retention_by_themselves(tmp_path: Path) -> None:
    def rows_at(version: int) -> int:
        return int(DeltaTable(tmp_path / "table", version=version).to_pyarrow_table().num_rows)

    kept = text_pipeline("delta", str(tmp_path / "table"))
    gone = text_pipeline("delta", str(tmp_path / "table"), retention="0s")
    for at, pipeline in enumerate((kept, gone)):
        table = open_target(pipeline)
        table.prepare()
        table.apply(changes_of(pipeline, [Record(0, at, b"k", b"v%d" % at, 1)]), {0: at + 1})
        first = 1
        if pipeline is kept:
            table.apply(changes_of(pipeline, [Record(0, 0, b"l", b"v", 1)]), {0: 1})
            table.tidy()
            assert rows_at(first) == 1
        else:
            table.tidy()
            with pytest.raises(Exception, match=r"(?i)no such file|not found"):
                rows_at(first)
        assert sum(piece.num_rows for piece in table.rows()) == 2
        table.close()
