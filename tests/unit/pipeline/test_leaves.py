"""Files of a table by the last bits of a hash: every key has one, and a change rewrites few."""

import random
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.pipeline.definition import Deletes
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.layout import layout_of
from ledgerstone.pipeline.tables import leaves
from ledgerstone.pipeline.tables.leaves import (
    ROOT,
    Incoming,
    LeafFile,
    branches_of,
    depth_limit,
    halves,
    holds,
    leaves_below,
    slots_of,
)
from ledgerstone.pipeline.tables.merging import key_hashes
from ledgerstone.pipeline.tables.opening import open_target
from ledgerstone.pipeline.tables.parquet import ParquetTable
from ledgerstone.pipeline.tables.target import Done, InProcess, Job, Staged
from tests.kit.sized import examples
from tests.kit.table_model import Record, changes_of, expected_rows, table_rows, text_pipeline

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

HASHES = np.frombuffer(random.Random(5).randbytes(8 * 2000), np.uint64)


def catalog_in(table: Path) -> "Catalog":
    # Imported here: it takes half a second, which every worker would pay.
    from pyiceberg.catalog import load_catalog

    return load_catalog("ledgerstone", type="sql", uri=f"sqlite:///{table / 'catalog.db'}")


def file_of(leaf: int, rows: int) -> LeafFile:
    return LeafFile(leaf, f"{leaf}", rows, rows * 100)


def test_halves_hold_what_their_leaf_held() -> None:
    first, second = halves(ROOT)

    assert (first, second) == (2, 3)
    assert (holds(first, HASHES) ^ holds(second, HASHES)).all()
    deep = halves(halves(second)[1])[0]
    assert (holds(deep, HASHES) <= holds(second, HASHES)).all()


@examples(30)
@given(st.integers(0, 2000), st.integers(0, 300_000), st.integers(1, 300), st.integers(1, 40))
def test_every_hash_has_one_leaf_however_files_split_and_vanish(
    seed: int, rows: int, most: int, wanted: int
) -> None:
    dice, hashes = random.Random(seed), HASHES[:200]
    files: list[LeafFile] = []
    for _ in range(4):
        branches = branches_of(files, wanted=wanted, most_leaves=most)
        slots = slots_of(branches, list(range(len(branches))))
        found = slots[hashes & np.uint64(len(slots) - 1)]
        for number, branch in enumerate(branches):
            assert ((found == number) == holds(branch.top, hashes)).all()
        assert len(branches) >= min(wanted, 1 << depth_limit(most))
        # Each branch is rewritten or not, parts always; a leaf without rows has no file.
        left: list[LeafFile] = []
        for branch in branches:
            if not branch.is_part and dice.random() < 0.3:
                left += branch.held
                continue
            for leaf in leaves_below(branch.top, rows, rows * 100, most_leaves=most):
                left += [file_of(leaf, rows)] if dice.random() < 0.8 else []
        files = left
        holders = sum(holds(each.leaf, hashes).astype(int) for each in files)
        assert np.max(holders, initial=0) <= 1
        assert len(files) <= most


def test_leaf_splits_only_when_it_is_far_too_large() -> None:
    assert leaves_below(ROOT, 30_000, 100, most_leaves=1024) == [1]
    assert leaves_below(ROOT, 40_000, 100, most_leaves=1024) == [2, 3]
    assert leaves_below(ROOT, 10, 64 << 20, most_leaves=1024) == [4, 6, 5, 7]
    assert leaves_below(ROOT, 10**9, 100, most_leaves=2) == [2, 3]


def test_large_batch_is_divided_among_tasks_and_every_part_of_a_file_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaves, "LEAF_ROWS", 8)
    pipeline = text_pipeline("parquet", str(tmp_path / "table"))

    class Four(InProcess):
        parallelism = 4
        jobs: ClassVar[list[int]] = []

        def run(self, work: Callable[[Job], Done], jobs: Sequence[Job]) -> list[Done]:
            self.jobs.append(len(jobs))
            return super().run(work, jobs)

    table = ParquetTable(
        str(tmp_path / "table"), "t", layout_of(pipeline), buckets=64, executors=Four()
    )
    table.prepare()
    first = [Record(0, at, b"k%d" % at, b"v", 1) for at in range(8)]
    table.apply(changes_of(pipeline, first), {0: 8})
    # Many offsets, of a single key: the rows of others have to move all the same.
    hot = changes_of(pipeline, [Record(0, 99, b"k0", b"w", 2)])
    stage = table.stage(Incoming(100_000, 1000))
    sink = stage.open()
    sink.add(hot)

    table.apply_staged(stage, [sink.finish()], {0: 100})

    expected = expected_rows([*first, Record(0, 99, b"k0", b"w", 2)], Deletes.HARD)
    assert table_rows(table.rows()) == expected
    assert Four.jobs == [1, 4]
    assert len(list((tmp_path / "table").glob("part-*"))) <= 4


@pytest.mark.parametrize("target", ["parquet", "delta", "iceberg"])
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
    assert len(list((tmp_path / "table").rglob("part-*.parquet"))) >= 4
    assert not list((tmp_path / "table").rglob("*.arrow"))


@pytest.mark.parametrize("target", ["parquet", "delta", "iceberg"])
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


def test_past_snapshots_of_iceberg_go_after_the_retention_with_their_files(tmp_path: Path) -> None:
    kept = text_pipeline("iceberg", str(tmp_path / "table"))
    gone = text_pipeline("iceberg", str(tmp_path / "table"), retention="0s")
    records = [Record(0, at, b"k%d" % at, b"v", 1) for at in range(3)]
    with closing(open_target(kept)) as table:
        table.prepare()
        for each in records:
            table.apply(changes_of(kept, [each]), {0: each.offset + 1})
        orphan = tmp_path / f"table/data/part-00001-{'0' * 32}.parquet"
        orphan.write_bytes(b"of a run that died")
        table.tidy()
        before = sorted((tmp_path / "table/data").iterdir())
    with closing(open_target(gone)) as table:
        table.prepare()
        table.tidy()
        after = sorted((tmp_path / "table/data").iterdir())
        rows = table_rows(table.rows())
    catalog = catalog_in(tmp_path / "table")
    read = catalog.load_table("default.people").scan().to_arrow()
    catalog.close()

    assert (len(before), len(after)) == (4, 1)
    assert rows == expected_rows(records, Deletes.HARD)
    # As somebody else reads it, by the name mapping.
    assert sorted(read["id"].to_pylist()) == ["k0", "k1", "k2"]


def test_file_in_an_iceberg_table_that_is_not_ours_is_refused(tmp_path: Path) -> None:
    pipeline = text_pipeline("iceberg", str(tmp_path / "table"))
    with closing(open_target(pipeline)) as table:
        table.prepare()
        table.apply(changes_of(pipeline, [Record(0, 0, b"k", b"v", 1)]), {0: 1})
        rows = next(table.rows())
    catalog = catalog_in(tmp_path / "table")
    catalog.load_table("default.people").append(rows)
    catalog.close()

    with (
        closing(open_target(pipeline)) as table,
        pytest.raises(PipelineError, match="which no pipeline wrote"),
    ):
        list(table.rows())


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
