"""SQL that SQLite, PostgreSQL and DuckDB share. Pure: text out of a layout.

A name is quoted and its quotes are doubled, so that any name is only a name.
"""

import hashlib
from collections.abc import Iterable, Mapping

from ledgerstone.pipeline.layout import (
    OFFSET,
    PARTITION,
    TIMESTAMP,
    VALID_TO,
    Layout,
)

POSITIONS_TABLE = "ledgerstone_positions"
TOPICS_TABLE = "ledgerstone_topics"
COLUMNS_TABLE = "ledgerstone_columns"
NOTES = (POSITIONS_TABLE, TOPICS_TABLE, COLUMNS_TABLE)


def staged_prefix(table: str) -> str:
    """Of the names of all staging tables of one table; PostgreSQL allows 63 bytes."""
    digest = hashlib.sha256(table.encode()).hexdigest()[:16]
    return f"ledgerstone_staged_{digest}_"


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def names(of: Iterable[str], alias: str = "") -> str:
    prefix = f"{alias}." if alias else ""
    return ", ".join(prefix + quoted(each) for each in of)


def same(of: Iterable[str], left: str = "s", right: str = "t") -> str:
    """Key columns are never null."""
    return " AND ".join(f"{left}.{quoted(each)} = {right}.{quoted(each)}" for each in of)


def is_newer(new: str = "s", old: str = "t") -> str:
    """Whether a change comes after a row; offsets of different partitions say nothing."""
    p, o, ts = quoted(PARTITION), quoted(OFFSET), quoted(TIMESTAMP)
    return (
        f"(({new}.{p} = {old}.{p} AND {new}.{o} > {old}.{o}) OR ({new}.{p} <> {old}.{p} AND "
        f"({new}.{ts} > {old}.{ts} OR ({new}.{ts} = {old}.{ts} AND {new}.{p} > {old}.{p}))))"
    )


def create_table(
    table: str,
    layout: Layout,
    types: Mapping[str, str],
    suffix: str = "",
    *,
    has_unique_rows: bool = True,
) -> str:
    """`table` is quoted already; `types` has the database's word for each column."""
    required = (*layout.key_names, PARTITION, OFFSET)
    columns = [
        f"{quoted(name)} {kind}{' NOT NULL' if name in required else ''}"
        for name, kind in types.items()
    ]
    if has_unique_rows:
        columns.append(f"PRIMARY KEY ({names(layout.row_identity)})")
    return f"CREATE TABLE IF NOT EXISTS {table} ({', '.join(columns)}){suffix}"


def add_column(table: str, name: str, kind: str) -> str:
    return f"ALTER TABLE {table} ADD COLUMN {quoted(name)} {kind}"


def widen_column(table: str, name: str, kind: str) -> str:
    """As PostgreSQL and DuckDB say it."""
    return f"ALTER TABLE {table} ALTER COLUMN {quoted(name)} TYPE {kind}"


def close_versions(table: str, staged: str, layout: Layout) -> str:
    timeline = [*layout.key_names, PARTITION]
    return (
        f"UPDATE {table} AS t SET {quoted(VALID_TO)} = s.{quoted(TIMESTAMP)} FROM {staged} AS s "
        f"WHERE {same(timeline)} AND t.{quoted(VALID_TO)} IS NULL "
        f"AND t.{quoted(OFFSET)} < s.{quoted(OFFSET)}"
    )
