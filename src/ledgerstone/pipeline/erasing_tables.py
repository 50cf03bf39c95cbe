"""Searches a pipeline's table for a key, and removes it. Shell.

A delete is logical until the files are rewritten: SQLite keeps free pages, PostgreSQL dead rows,
Delta old files and their statistics. `purge_*` rewrites them; rows that are only marked as deleted
(soft deletes, history) are deleted first.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from ledgerstone.pipeline.definition import Pipeline, Target, TargetType
from ledgerstone.pipeline.erasing_files import (
    FileVerdict,
    Finding,
    Searched,
    holds_bytes,
    search_directory,
    search_file,
)
from ledgerstone.pipeline.erasing_key import WantedKey, is_row_of
from ledgerstone.pipeline.layout import layout_of
from ledgerstone.pipeline.tables.file_area import STAGING, FileArea
from ledgerstone.pipeline.tables.opening import open_target
from ledgerstone.pipeline.tables.sql import quoted, staged_prefix
from ledgerstone.pipeline.tables.sqlite_files import to_sqlite

_SEGMENT_BYTES: Final = 8 << 20
_SQLITE_FILES: Final = ("", "-wal", "-journal", "-shm")
_DELTA_LOG_RETENTION: Final = "delta.logRetentionDuration"
_DEFAULT_LOG_RETENTION: Final = "interval 30 days"


def search_table(pipeline: Pipeline, wanted: WantedKey) -> Finding:
    target = pipeline.target
    output = output_name(target)
    match target.type:
        case TargetType.SQLITE:
            return _search_sqlite(target, wanted, output)
        case TargetType.POSTGRES:
            return _search_postgres(target, wanted, output)
        case TargetType.SQL:
            from ledgerstone.pipeline.erasing_sql import search_sql

            return search_sql(pipeline, wanted, output)
        case TargetType.DUCKDB:
            from ledgerstone.pipeline.erasing_duckdb import search_duckdb

            return search_duckdb(target, wanted, output)
        case TargetType.DELTA | TargetType.PARQUET | TargetType.ICEBERG:
            if "://" in target.location:
                evidence = "files that are not on this machine are not looked at"
                return Finding(output=output, verdict=FileVerdict.UNKNOWN, evidence=evidence)
            if not Path(target.location).is_dir():
                return Finding(
                    output=output, verdict=FileVerdict.CLEAN, evidence="there is no table"
                )
            note = "; files of past versions and orphans are among them"
            return search_directory(Path(target.location), wanted).finding(output, note)


def purge_table(pipeline: Pipeline, wanted: WantedKey) -> None:
    """A search afterwards finds what is left; no step here is trusted to have worked."""
    target = pipeline.target
    match target.type:
        case TargetType.SQLITE:
            FileArea(root=pipeline.work).drop(STAGING)
            _purge_sqlite(target, wanted)
        case TargetType.POSTGRES:
            _purge_postgres(target, wanted)
        case TargetType.SQL:
            from ledgerstone.pipeline.erasing_sql import purge_sql

            purge_sql(pipeline, wanted)
        case TargetType.DUCKDB:
            from ledgerstone.pipeline.erasing_duckdb import purge_duckdb

            FileArea(root=pipeline.work).drop(STAGING)
            purge_duckdb(target, wanted)
        case TargetType.DELTA:
            FileArea(root=target.location).drop(STAGING)
            _purge_delta(target, wanted)
        case TargetType.PARQUET:
            _purge_parquet(pipeline, wanted)
        case TargetType.ICEBERG:
            _purge_iceberg(pipeline, wanted)


def output_name(target: Target) -> str:
    """Without a connection string, which may contain a password."""
    place = target.name if target.type.has_connection else target.location
    return f"{target.type.value}:{place}"


# -- SQLite -----------------------------------------------------------------------------------


def _search_sqlite(target: Target, wanted: WantedKey, output: str) -> Finding:
    path = Path(target.location)
    if not path.is_file():
        return Finding(output=output, verdict=FileVerdict.CLEAN, evidence="there is no file")
    with closing(sqlite3.connect(path)) as db:
        condition, values = _sqlite_condition(wanted)
        query = f"SELECT count(*) FROM {quoted(target.name)} WHERE {condition}"
        rows = db.execute(query, values).fetchone()[0]
    if rows:
        evidence = f"{rows} rows of the table are the key's"
        return Finding(output=output, verdict=FileVerdict.RESIDUE, evidence=evidence)
    searched = Searched()
    for suffix in _SQLITE_FILES:
        one = search_file(path.with_name(path.name + suffix), wanted)
        searched.files += one.files
        searched.hits += one.hits
        # The bytes cannot be searched for, but the table itself has answered.
    return searched.finding(output, "; no row of the table is the key's")


def _purge_sqlite(target: Target, wanted: WantedKey) -> None:
    if not Path(target.location).is_file():
        return
    with closing(sqlite3.connect(target.location, isolation_level=None)) as db:
        db.execute("PRAGMA secure_delete=ON")
        condition, values = _sqlite_condition(wanted)
        db.execute(f"DELETE FROM {quoted(target.name)} WHERE {condition}", values)
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        db.execute("VACUUM")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _sqlite_condition(wanted: WantedKey) -> tuple[str, list[Any]]:
    condition, values = _condition(wanted, "?")
    return condition, [to_sqlite(pa.chunked_array([pa.array([each])]))[0] for each in values]


def _condition(wanted: WantedKey, place: str) -> tuple[str, list[Any]]:
    parts = [f"{quoted(name)} = {place}" for name in wanted.columns]
    return " AND ".join(parts), list(wanted.columns.values())


# -- PostgreSQL -------------------------------------------------------------------------------


def _search_postgres(target: Target, wanted: WantedKey, output: str) -> Finding:
    import psycopg

    from ledgerstone.pipeline.tables.postgres_staging import staged_tables

    table = ".".join(map(quoted, target.name.split(".", 1)))
    with psycopg.connect(target.location, autocommit=True) as db:
        if staged := staged_tables(db, staged_prefix(target.name)):
            evidence = f"{len(staged)} staging tables hold changes that were not applied"
            return Finding(output=output, verdict=FileVerdict.RESIDUE, evidence=evidence)
        condition, values = _condition(wanted, "%s")
        text = f"SELECT count(*) FROM {_doubled(table)} WHERE {_doubled(condition, keep='%s')}"
        row = db.execute(text.encode(), values).fetchone()
        if row is not None and row[0]:
            evidence = f"{row[0]} rows of the table are the key's"
            return Finding(output=output, verdict=FileVerdict.RESIDUE, evidence=evidence)
        try:
            # Changes may still be only in the server's memory.
            db.execute("CHECKPOINT")
            is_there = holds_bytes(_relation_blocks(db, table), wanted.needles)
        except psycopg.errors.InsufficientPrivilege:
            evidence = "no row is the key's; reading the table's files needs a superuser"
            return Finding(output=output, verdict=FileVerdict.UNKNOWN, evidence=evidence)
    if is_there:
        evidence = "dead rows in the table's files hold it, until VACUUM FULL"
        return Finding(output=output, verdict=FileVerdict.RESIDUE, evidence=evidence)
    if not wanted.needles:
        evidence = "no row is the key's; it is too short to be searched for among dead rows"
        return Finding(output=output, verdict=FileVerdict.UNKNOWN, evidence=evidence)
    evidence = "no row is the key's, nor is it in the files of the table, its indexes or its TOAST"
    evidence += "; the server's write-ahead log and its archives are not looked at"
    return Finding(output=output, verdict=FileVerdict.CLEAN, evidence=evidence)


def _doubled(text: str, keep: str = "") -> str:
    """Doubles percent signs in names, as parametrised queries need it."""
    if not keep:
        return text.replace("%", "%%")
    return keep.join(part.replace("%", "%%") for part in text.split(keep))


def _relation_blocks(db: Any, table: str) -> Iterator[bytes]:  # noqa: ANN401 - a connection
    """The files of a table, of its indexes and of its large values."""
    paths = db.execute(
        "SELECT pg_relation_filepath(oid) FROM pg_class WHERE oid = %(table)s::regclass "
        "OR oid IN (SELECT indexrelid FROM pg_index WHERE indrelid = %(table)s::regclass) "
        "OR oid = (SELECT reltoastrelid FROM pg_class WHERE oid = %(table)s::regclass)",
        {"table": table},
    ).fetchall()
    for (path,) in paths:
        segment = 0
        while path is not None:
            name = path if segment == 0 else f"{path}.{segment}"
            blocks = list(_file_blocks(db, name))
            yield from blocks
            if not blocks:
                break
            segment += 1


def _file_blocks(db: Any, name: str) -> Iterator[bytes]:  # noqa: ANN401 - a connection
    at = 0
    while True:
        query = "SELECT pg_read_binary_file(%s, %s, %s, true)"
        row = db.execute(query, (name, at, _SEGMENT_BYTES)).fetchone()
        block = b"" if row is None or row[0] is None else bytes(row[0])
        if not block:
            return
        yield block
        at += len(block)


def _purge_postgres(target: Target, wanted: WantedKey) -> None:
    import psycopg

    from ledgerstone.pipeline.tables.postgres_staging import drop_staged_tables

    table = ".".join(map(quoted, target.name.split(".", 1)))
    with psycopg.connect(target.location, autocommit=True) as db:
        drop_staged_tables(db, staged_prefix(target.name))
        condition, values = _condition(wanted, "%s")
        text = f"DELETE FROM {_doubled(table)} WHERE {_doubled(condition, keep='%s')}"
        db.execute(text.encode(), values)
        db.execute(f"VACUUM FULL {table}".encode())


# -- Delta ------------------------------------------------------------------------------------


def _purge_delta(target: Target, wanted: WantedKey) -> None:
    """Removes old files and then the log that describes them: its statistics contain values, and so
    does the text of the delete itself. One checkpoint is left of the log."""
    from deltalake import DeltaTable

    if not DeltaTable.is_deltatable(target.location):
        return
    table = DeltaTable(target.location)
    condition = " AND ".join(
        f"{quoted(name)} = {_literal(value)}" for name, value in wanted.columns.items()
    )
    table.delete(condition)
    table.vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
    before = table.metadata().configuration.get(_DELTA_LOG_RETENTION) or _DEFAULT_LOG_RETENTION
    table.alter.set_table_properties({_DELTA_LOG_RETENTION: "interval 0 seconds"})
    table = DeltaTable(target.location)
    table.create_checkpoint()
    table.cleanup_metadata()
    table.alter.set_table_properties({_DELTA_LOG_RETENTION: before})


def _literal(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, Decimal):
        return f"{value:f}"
    return "'" + str(value).replace("'", "''") + "'"


# -- Parquet ----------------------------------------------------------------------------------


def _purge_parquet(pipeline: Pipeline, wanted: WantedKey) -> None:
    """Every change removes old files; only rows marked as deleted are still there."""
    from ledgerstone.pipeline.tables.parquet import ParquetTable

    target = pipeline.target
    layout = layout_of(pipeline)
    table = ParquetTable(target.location, pipeline.source.topic, layout, buckets=target.buckets)
    if Path(target.location).is_dir():
        table.prepare()
        table.drop_rows(lambda rows: is_row_of(rows, wanted))


# -- Iceberg ----------------------------------------------------------------------------------


def _purge_iceberg(pipeline: Pipeline, wanted: WantedKey) -> None:
    """Past snapshots go with the files that only they have; manifests hold no values."""
    from ledgerstone.pipeline.tables.iceberg import IcebergTable

    if not Path(pipeline.target.location).is_dir():
        return
    with closing(open_target(pipeline)) as table:
        assert isinstance(table, IcebergTable), "another target's table"
        table.prepare()
        table.drop_rows(lambda rows: is_row_of(rows, wanted))
        table.forget_past()
