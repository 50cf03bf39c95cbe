"""Every target, with every kind of delete, against the plain model."""

import json
import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.pool import NullPool

from ledgerstone.pipeline.changes import one_per_key
from ledgerstone.pipeline.definition import Deletes, Pipeline, TargetType
from ledgerstone.pipeline.erasing_files import FileVerdict
from ledgerstone.pipeline.erasing_key import wanted_key
from ledgerstone.pipeline.erasing_tables import purge_table, search_table
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.layout import layout_of
from ledgerstone.pipeline.tables import sql_statements
from ledgerstone.pipeline.tables.opening import check_drivers, open_target, positions_of
from ledgerstone.pipeline.tables.sqlite import SqliteTable
from ledgerstone.pipeline.tables.target import Followed, TableTarget
from tests.kit.table_model import (
    Record,
    changes_of,
    expected_rows,
    not_yet_applied,
    positions_after,
    table_rows,
    text_pipeline,
)
from tests.kit.table_targets import TARGETS

FIXED_BUCKETS = Path(__file__).parents[2] / "golden/fixed_buckets/table"


def pipeline_of(target: str, location: str, deletes: str = "hard", **table: Any) -> Pipeline:
    return text_pipeline(target, location, deletes, **table)


@contextmanager
def opened(pipeline: Pipeline) -> Iterator[TableTarget]:
    table = open_target(pipeline)
    try:
        table.prepare()
        yield table
    finally:
        table.close()


def apply(pipeline: Pipeline, table: TableTarget, records: list[Record]) -> None:
    changes = not_yet_applied(changes_of(pipeline, records), table.positions())
    if pipeline.target.deletes is not Deletes.HISTORY:
        changes = one_per_key(changes, pipeline.key_names)
    table.apply(changes, positions_after(changes))


def story(seed: int, count: int = 120) -> list[Record]:
    """A key belongs to one partition; a third of the records are tombstones."""
    dice = random.Random(seed)
    next_offset = [0, 0, 0]
    records = []
    for step in range(count):
        number = dice.randrange(20)
        partition = number % 3
        value = None if dice.random() < 0.33 else f"v{step}".encode()
        offset = next_offset[partition]
        next_offset[partition] += dice.randint(1, 3)
        records.append(Record(partition, offset, f"k{number}".encode(), value, 1_000 * step + 1))
    return records


@pytest.mark.parametrize("deletes", [each.value for each in Deletes])
@pytest.mark.parametrize("target", TARGETS)
def test_table_follows_the_topic(target: str, location: str, deletes: str) -> None:
    pipeline = pipeline_of(target, location, deletes)
    records = story(7)

    with opened(pipeline) as table:
        for start in range(0, len(records), 31):
            apply(pipeline, table, records[start : start + 31])
        found, positions = table_rows(table.rows()), table.positions()

    assert found == expected_rows(records, Deletes(deletes))
    assert positions == {
        p: max(r.offset for r in records if r.partition == p) + 1 for p in range(3)
    }


def test_parquet_table_of_fixed_buckets_goes_on(tmp_path: Path) -> None:
    """A history cannot be made again from a compacted topic."""
    shutil.copytree(FIXED_BUCKETS, tmp_path / "table")
    pipeline = pipeline_of("parquet", str(tmp_path / "table"), "history")
    records = story(7)

    with opened(pipeline) as table:
        apply(pipeline, table, records)
        found = table_rows(table.rows())

    assert found == expected_rows(records, Deletes.HISTORY)
    assert json.loads((tmp_path / "table/_manifest.json").read_text())["format"] == 2


def test_parquet_table_whose_buckets_are_no_leaves_is_refused(tmp_path: Path) -> None:
    manifest = tmp_path / "table/_manifest.json"
    shutil.copytree(FIXED_BUCKETS, manifest.parent)
    content = json.loads(manifest.read_text()) | {"buckets": 6}
    manifest.write_text(json.dumps(content))

    with (
        pytest.raises(PipelineError, match="6 buckets"),
        opened(pipeline_of("parquet", str(manifest.parent), "history")),
    ):
        pass
    assert json.loads(manifest.read_text()) == content


def test_files_of_several_mebibytes_reach_delta(tmp_path: Path) -> None:
    pipeline = pipeline_of("delta", str(tmp_path / "table"))
    dice = random.Random(7)
    records = [
        Record(0, at, b"k%d" % at, dice.randbytes(1 << 19).hex().encode(), at + 1)
        for at in range(20)
    ]

    with opened(pipeline) as table:
        apply(pipeline, table, records)
        found = table_rows(table.rows())

    assert found == expected_rows(records, Deletes.HARD)
    largest = max(path.stat().st_size for path in tmp_path.rglob("*.parquet"))
    assert largest > 2 << 20


@pytest.mark.parametrize("deletes", [each.value for each in Deletes])
@pytest.mark.parametrize("target", TARGETS)
def test_changes_that_come_again_change_nothing(target: str, location: str, deletes: str) -> None:
    pipeline = pipeline_of(target, location, deletes)
    records = story(3, 40)
    changes = changes_of(pipeline, records)
    if pipeline.target.deletes is not Deletes.HISTORY:
        changes = one_per_key(changes, pipeline.key_names)

    with opened(pipeline) as table:
        table.apply(changes, positions_after(changes))
    with opened(pipeline) as table:
        before = table_rows(table.rows())
        # Past the positions, which would sort them out: the guard alone.
        table.apply(changes.slice(0, 25), {})
        after = table_rows(table.rows())

    assert after == before == expected_rows(records, Deletes(deletes))


@pytest.mark.parametrize("target", TARGETS)
def test_stale_offset_loses_and_a_repair_wins(target: str, location: str) -> None:
    pipeline = pipeline_of(target, location)
    with opened(pipeline) as table:
        apply(pipeline, table, [Record(0, 9, b"a", b"new", 9), Record(0, 10, b"b", b"kept", 9)])

        table.apply(changes_of(pipeline, [Record(0, 5, b"a", b"old", 99)]), {0: 11})
        after_stale = table_rows(table.rows())
        table.repair(
            changes_of(pipeline, [Record(0, 5, b"a", b"old", 5), Record(0, 1, b"b", None, 1)])
        )
        repaired, positions = table_rows(table.rows()), table.positions()

    assert [row[:2] for row in after_stale] == [("a", "new"), ("b", "kept")]
    assert [row[:2] for row in repaired] == [("a", "old")]
    assert positions == {0: 11}


@pytest.mark.parametrize("target", TARGETS)
def test_positions_move_without_any_change(target: str, location: str) -> None:
    pipeline = pipeline_of(target, location)
    with opened(pipeline) as table:
        table.apply(changes_of(pipeline, []), {0: 17, 4: 2})

    with opened(pipeline) as table:
        assert table.positions() == {0: 17, 4: 2}
        assert table_rows(table.rows()) == []


@pytest.mark.parametrize("deletes", [each.value for each in Deletes])
@pytest.mark.parametrize("target", TARGETS)
def test_changes_are_counted_alike(target: str, location: str, deletes: str) -> None:
    pipeline = pipeline_of(target, location, deletes)
    with opened(pipeline) as table:
        first = table.apply(
            changes_of(pipeline, [Record(0, 0, b"a", b"1", 9), Record(0, 1, b"b", b"1", 9)]), {0: 2}
        )
        # One has a row, the other never had.
        second = table.apply(
            changes_of(pipeline, [Record(0, 2, b"a", None, 9), Record(0, 3, b"c", None, 9)]), {0: 4}
        )

    assert (first.upserts, first.deletes) == (2, 0)
    assert (second.upserts, second.deletes) == (0, 2)


@pytest.mark.parametrize("target", TARGETS)
def test_positions_of_a_table_that_is_not_there_are_none(target: str, location: str) -> None:
    pipeline = pipeline_of(target, location)

    before = positions_of(pipeline)
    with opened(pipeline) as table:
        apply(pipeline, table, [Record(0, 7, b"a", b"1", 9)])

    assert (before, positions_of(pipeline)) == ({}, {0: 8})


@pytest.mark.parametrize(
    ("target", "driver", "extra"),
    [
        ("delta", "deltalake", "lake"),
        ("postgres", "psycopg", "lake"),
        ("duckdb", "duckdb", "duckdb"),
        ("sql-sqlite", "sqlalchemy", "sql"),
        ("iceberg", "pyiceberg", "iceberg"),
    ],
)
def test_driver_that_is_not_installed_is_named(
    target: str, driver: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, driver, None)

    with pytest.raises(PipelineError, match=rf"{driver} is not installed: .*\.\[{extra}\]"):
        check_drivers(pipeline_of(target, "x"))


@pytest.mark.parametrize("target", TARGETS)
def test_table_keeps_which_topic_it_is_of(target: str, location: str) -> None:
    pipeline = pipeline_of(target, location)
    first, second = (Followed("people-topic", name * 22) for name in "ab")
    with opened(pipeline) as table:
        before = table.followed()
        table.follow(first)
        apply(pipeline, table, [Record(0, 0, b"a", b"1", 9), Record(0, 1, b"b", b"1", 9)])
        apply(pipeline, table, [Record(0, 2, b"a", None, 9)])

    with opened(pipeline) as table:
        kept = table.followed()
        table.follow(second)
        rows, positions = table_rows(table.rows()), table.positions()
    with opened(pipeline) as table:
        assert (before, kept, table.followed()) == (None, first, second)
    assert ([row[0] for row in rows], positions) == (["b"], {0: 3})


@pytest.mark.parametrize("target", TARGETS)
def test_table_that_was_dropped_has_come_nowhere(target: str, location: str) -> None:
    pipeline = pipeline_of(target, location)
    with opened(pipeline) as table:
        table.follow(Followed("people-topic", "a" * 22))
        apply(pipeline, table, [Record(0, 7, b"a", b"1", 9)])

    drop(pipeline)
    with opened(pipeline) as table:
        assert (table.followed(), table.positions()) == (None, {})
        assert table_rows(table.rows()) == []


def drop(pipeline: Pipeline) -> None:
    """As the refusal of another topic tells the user to."""
    target = pipeline.target
    if target.type is TargetType.SQLITE:
        with closing(sqlite3.connect(target.location)) as db:
            db.execute(f'DROP TABLE "{target.name}"')
    elif target.type is TargetType.DUCKDB:
        with duckdb.connect(target.location) as db:
            db.execute(f'DROP TABLE "{target.name}"')
    elif target.type is TargetType.SQL:
        with create_engine(target.location, poolclass=NullPool).begin() as db:
            db.execute(text("DROP TABLE people"))
    elif target.type is TargetType.POSTGRES:
        with psycopg.connect(target.location, autocommit=True) as connection:
            connection.execute(b'DROP TABLE "people"')
    else:
        shutil.rmtree(target.location)


@pytest.mark.parametrize("target", TARGETS)
def test_bytes_of_records_are_kept_on_request(target: str, location: str) -> None:
    pipeline = pipeline_of(target, location, keep_bytes=True)
    with opened(pipeline) as table:
        apply(pipeline, table, [Record(0, 0, "é".encode(), b"1", 9)])

        (row,) = (row for piece in table.rows() for row in piece.to_pylist())

    assert (row["_key"], row["_value"], row["id"]) == ("é".encode(), b"1", "é")


@pytest.mark.parametrize("target", TARGETS)
def test_table_with_other_columns_is_refused(target: str, location: str) -> None:
    with opened(pipeline_of(target, location)):
        pass

    with (
        pytest.raises(PipelineError, match="_deleted_at"),
        opened(pipeline_of(target, location, "soft")),
    ):
        pass


@pytest.mark.parametrize("deletes", [each.value for each in Deletes])
def test_database_without_an_upsert_that_we_know_deletes_and_inserts(
    deletes: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The statements for any dialect, on SQLite."""
    monkeypatch.setattr(sql_statements, "_ON_CONFLICT", {})
    pipeline = pipeline_of("sql-sqlite", f"sqlite:///{tmp_path / 'db'}", deletes)
    records = story(7)

    with opened(pipeline) as table:
        for start in range(0, len(records), 31):
            apply(pipeline, table, records[start : start + 31])
        found = table_rows(table.rows())

    assert found == expected_rows(records, Deletes(deletes))


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("sqlite://", "sqlite needs a file"),
        ("not a url", "no URL as SQLAlchemy has it"),
        ("nothing://u:secret@h/d", "NoSuchModuleError"),
    ],
)
def test_url_that_leads_nowhere_is_refused_and_not_shown(url: str, said: str) -> None:
    with pytest.raises(PipelineError, match=said) as refused:
        open_target(pipeline_of("sql-sqlite", url))

    assert "secret" not in str(refused.value)


def test_duckdb_file_is_free_for_others_between_batches(tmp_path: Path) -> None:
    pipeline = pipeline_of("duckdb", str(tmp_path / "db"))
    reading = (
        "import duckdb, sys; "
        "print(duckdb.connect(sys.argv[1]).sql('SELECT id, said FROM people').fetchall())"
    )

    with opened(pipeline) as table:
        apply(pipeline, table, [Record(0, 0, b"a", b"1", 9)])
        other = subprocess.run(
            [sys.executable, "-c", reading, pipeline.target.location],
            capture_output=True,
            text=True,
            check=True,
        )
        apply(pipeline, table, [Record(0, 1, b"b", b"1", 9)])
        rows = table_rows(table.rows())

    assert "[('a', '1')]" in other.stdout
    assert [row[0] for row in rows] == ["a", "b"]


@pytest.mark.parametrize("target", ["duckdb", "iceberg"])
def test_deleted_row_is_in_the_files_until_it_is_purged(target: str, location: str) -> None:
    pipeline = pipeline_of(target, location)
    key = b"someone@example.com"
    with opened(pipeline) as table:
        apply(pipeline, table, [Record(0, 0, key, b"1", 9), Record(0, 1, b"other", b"1", 9)])
        apply(pipeline, table, [Record(0, 2, key, None, 9)])
    wanted = wanted_key(pipeline.key, key)

    first = search_table(pipeline, wanted)
    purge_table(pipeline, wanted)
    second = search_table(pipeline, wanted)

    with opened(pipeline) as table:
        assert ([row[0] for row in table_rows(table.rows())], table.positions()) == (
            ["other"],
            {0: 3},
        )
    assert first.verdict is not FileVerdict.CLEAN, first
    assert second.verdict is FileVerdict.CLEAN, second


@pytest.mark.parametrize("deletes", [each.value for each in Deletes])
def test_small_batch_costs_sqlite_the_same_in_a_large_table(tmp_path: Path, deletes: str) -> None:
    def steps(rows: int) -> int:
        pipeline = text_pipeline("sqlite", str(tmp_path / f"{rows}.db"), deletes)
        table = SqliteTable(pipeline.target.location, "t", "topic", layout_of(pipeline))
        table.prepare()
        filled = [Record(0, n, f"k{n:05}".encode(), b"v", 1) for n in range(rows)]
        table.apply(changes_of(pipeline, filled), {})
        few = [Record(0, rows + n, f"k{n:05}".encode(), None, 2) for n in range(50)]
        counted = 0

        def count() -> None:
            nonlocal counted
            counted += 1

        table._db.set_progress_handler(count, 100)
        table.apply(changes_of(pipeline, few), {})
        table.close()
        return counted

    small, large = steps(300), steps(6000)

    assert large < 2 * small
