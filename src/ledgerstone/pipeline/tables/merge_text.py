"""The statements that apply staged changes in PostgreSQL and DuckDB. Pure: text out of a layout."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ledgerstone.pipeline.column_types import AnyType
from ledgerstone.pipeline.definition import Deletes
from ledgerstone.pipeline.layout import (
    DELETED,
    DELETED_AT,
    OFFSET,
    ORIGIN_NAMES,
    PARTITION,
    TIMESTAMP,
    VALID_TO,
    Layout,
)
from ledgerstone.pipeline.tables import sql

_DELETED: Final = sql.quoted(DELETED)


class MergeText:
    """`table` and the staging tables, of which there is at least one, are quoted names, or what
    else stands in a FROM. `cast_to` says which type a staged column has to become, if another."""

    def __init__(
        self,
        table: str,
        staged: Sequence[str],
        layout: Layout,
        *,
        cast_to: Callable[[AnyType], str | None],
        has_unique_rows: bool,
    ) -> None:
        self._table = table
        self._layout = layout
        self._cast_to = cast_to
        self._has_unique_rows = has_unique_rows
        self._columns = [*layout.key_names, *layout.content_names]
        selected = ", ".join([*map(self._cast, self._columns), _DELETED])
        union = " UNION ALL ".join(f"SELECT {selected} FROM {each}" for each in staged)
        self._staged = f"({union})"

    def _cast(self, name: str) -> str:
        wanted = self._cast_to(self._layout.types[name])
        if wanted is None:
            return sql.quoted(name)
        return f"{sql.quoted(name)}::{wanted} AS {sql.quoted(name)}"

    def has_a_key_twice(self) -> str:
        return (
            f"SELECT EXISTS (SELECT 1 FROM {self._staged} AS s "
            f"GROUP BY {sql.names(self._layout.key_names)} HAVING count(*) > 1)"
        )

    def _kept(self) -> str:
        """One change per key: of each partition the last, of these the newest."""
        keys = sql.names(self._layout.key_names)
        partition, offset, at = map(sql.quoted, (PARTITION, OFFSET, TIMESTAMP))
        lasts = (
            f"SELECT DISTINCT ON ({keys}, {partition}) * FROM {self._staged} AS a "
            f"ORDER BY {keys}, {partition}, {offset} DESC"
        )
        return (
            f"(SELECT DISTINCT ON ({keys}) * FROM ({lasts}) AS l "
            f"ORDER BY {keys}, {at} DESC, {partition} DESC)"
        )

    def count_kept(self) -> str:
        """Upserts and deletes."""
        return (
            f"SELECT count(*) FILTER (WHERE NOT {_DELETED}), count(*) FILTER (WHERE {_DELETED}) "
            f"FROM {self._kept()} AS k"
        )

    def merge(self, *, forced: bool, one_per_key: bool) -> str:
        layout, columns = self._layout, self._columns
        deleted = f"s.{_DELETED}"
        sets = {name: f"s.{sql.quoted(name)}" for name in layout.content_names}
        removal, unknown = "DELETE", ""
        if layout.deletes is Deletes.SOFT:
            sets[DELETED_AT] = "NULL"
            ended = {name: sets[name] for name in ORIGIN_NAMES}
            removal = f"UPDATE SET {_sets({**ended, DELETED_AT: sets[TIMESTAMP]})}"
            # A key without a row gets one: that it was deleted is known all the same.
            unknown = (
                f" WHEN NOT MATCHED THEN INSERT ({sql.names([*columns, DELETED_AT])}) "
                f"VALUES ({sql.names([*columns, TIMESTAMP], 's')})"
            )
        stale = "" if forced else f"WHEN MATCHED AND NOT {sql.is_newer()} THEN DO NOTHING "
        source = self._kept() if one_per_key else self._staged
        return (
            f"MERGE INTO {self._table} AS t USING {source} AS s ON {sql.same(layout.key_names)} "
            f"{stale}WHEN MATCHED AND {deleted} THEN {removal} "
            f"WHEN MATCHED THEN UPDATE SET {_sets(sets)} "
            f"WHEN NOT MATCHED AND NOT {deleted} THEN "
            f"INSERT ({sql.names(columns)}) VALUES ({sql.names(columns, 's')}){unknown}"
        )

    @property
    def _timeline(self) -> list[str]:
        return [*self._layout.key_names, PARTITION]

    def close_versions(self) -> str:
        """Open versions end with the first change of their key in their partition."""
        timeline = sql.names(self._timeline)
        first = (
            f"(SELECT DISTINCT ON ({timeline}) * FROM {self._staged} AS a "
            f"ORDER BY {timeline}, {sql.quoted(OFFSET)})"
        )
        return sql.close_versions(self._table, first, self._layout)

    def insert_versions(self) -> str:
        """Each ends with the next; one that is there already stays as it is."""
        columns = sql.names([*self._columns, VALID_TO])
        following = (
            f"lead({sql.quoted(TIMESTAMP)}) OVER (PARTITION BY {sql.names(self._timeline)} "
            f"ORDER BY {sql.quoted(OFFSET)}) AS {sql.quoted(VALID_TO)}"
        )
        identity = self._layout.row_identity
        known = f"ON CONFLICT ({sql.names(identity)}) DO NOTHING"
        if not self._has_unique_rows:
            found = f"SELECT 1 FROM {self._table} AS t WHERE {sql.same(identity, 'v')}"
            known = f"AND NOT EXISTS ({found})"
        return (
            f"INSERT INTO {self._table} ({columns}) SELECT {columns} FROM "
            f"(SELECT *, {following} FROM {self._staged} AS a) AS v WHERE NOT {_DELETED} {known}"
        )


def _sets(values: Mapping[str, str]) -> str:
    return ", ".join(f"{sql.quoted(name)} = {value}" for name, value in values.items())
