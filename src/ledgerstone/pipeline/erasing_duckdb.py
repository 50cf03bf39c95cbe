"""Searches a DuckDB file for a key, and removes it. Shell.

DuckDB keeps a deleted row in its row group, compressed, until the group is written again, and does
not overwrite blocks that are free. Bytes that are compressed cannot be searched for; but DuckDB
says how many rows its segments hold and how many blocks are free. A purge writes the whole file
anew, so there are neither.
"""

import os
from pathlib import Path
from typing import Any

from ledgerstone.pipeline.definition import Target
from ledgerstone.pipeline.erasing_files import FileVerdict, Finding, Searched, search_file
from ledgerstone.pipeline.erasing_key import WantedKey
from ledgerstone.pipeline.tables.duckdb_file import asked, columns_of, opened_file
from ledgerstone.pipeline.tables.sql import quoted


def search_duckdb(target: Target, wanted: WantedKey, output: str) -> Finding:
    path = Path(target.location)
    if not path.is_file():
        return Finding(output=output, verdict=FileVerdict.CLEAN, evidence="there is no file")
    with opened_file(str(path), f"{path}.tmp") as db:
        # Else rows of the write-ahead log would not be in segments yet.
        db.execute("CHECKPOINT")
        table = f"main.{quoted(target.name)}"
        condition, values = _condition(db, target.name, wanted)
        (rows,) = asked(db, f"SELECT count(*) FROM {table} WHERE {condition}", values)
        deleted, free = _deleted_rows(db), asked(db, "PRAGMA database_size")[5]
    if rows:
        evidence = f"{rows} rows of the table are the key's"
        return Finding(output=output, verdict=FileVerdict.RESIDUE, evidence=evidence)
    searched = Searched()
    for suffix in ("", ".wal"):
        one = search_file(path.with_name(path.name + suffix), wanted)
        searched.files += one.files
        searched.hits += one.hits
    if not searched.hits and (deleted or free):
        evidence = f"no row of the table is the key's; {deleted} deleted rows and {free} free "
        evidence += "blocks are still in the file, compressed, and cannot be searched"
        return Finding(output=output, verdict=FileVerdict.UNKNOWN, evidence=evidence)
    note = "; no row of the table is the key's, and no deleted row or free block is in the file"
    return searched.finding(output, "" if searched.hits else note)


def purge_duckdb(target: Target, wanted: WantedKey) -> None:
    path = Path(target.location)
    if not path.is_file():
        return
    fresh = path.with_name(f"{path.name}.rewritten")
    for each in (fresh, fresh.with_name(f"{fresh.name}.wal")):
        each.unlink(missing_ok=True)
    with opened_file(str(path), f"{path}.tmp") as db:
        condition, values = _condition(db, target.name, wanted)
        db.execute(f"DELETE FROM main.{quoted(target.name)} WHERE {condition}", values)
        (name,) = asked(db, "SELECT current_database()")
        db.execute("ATTACH '" + str(fresh).replace("'", "''") + "' AS fresh_copy")
        db.execute(f"COPY FROM DATABASE {quoted(name)} TO fresh_copy")
        db.execute("CHECKPOINT fresh_copy")
        db.execute("DETACH fresh_copy")
    with fresh.open("rb") as file:
        os.fsync(file.fileno())
    # Crash here: the old file counts, and the next purge removes the new one.
    fresh.rename(path)


def _condition(db: Any, table: str, wanted: WantedKey) -> tuple[str, tuple[Any, ...]]:  # noqa: ANN401 - a connection
    """Values are cast to the types that the table has: a time of day is text here."""
    types = columns_of(db, table)
    parts = [f"{quoted(name)} = CAST(? AS {types[name]})" for name in wanted.columns]
    return " AND ".join(parts), tuple(wanted.columns.values())


def _deleted_rows(db: Any) -> int:  # noqa: ANN401 - a connection
    """Rows that segments of any table hold and no query shows."""
    found = 0
    tables = db.execute(
        "SELECT schema_name, table_name FROM duckdb_tables() "
        "WHERE database_name = current_database() AND NOT temporary"
    ).fetchall()
    for schema, name in tables:
        place = f"{quoted(schema)}.{quoted(name)}"
        literal = "'" + place.replace("'", "''") + "'"
        (held,) = asked(
            db,
            "SELECT coalesce(max(rows), 0) FROM (SELECT sum(count) AS rows FROM "
            f"pragma_storage_info({literal}) WHERE segment_type <> 'VALIDITY' "
            "GROUP BY column_path)",
        )
        found += max(0, int(held) - int(asked(db, f"SELECT count(*) FROM {place}")[0]))
    return found
