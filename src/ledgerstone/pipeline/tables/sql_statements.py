"""The statements that apply staged changes in any database, by SQLAlchemy. Pure.

Where the dialect has an upsert, a row that changes is updated in place: `ON CONFLICT` in SQLite and
PostgreSQL, `ON DUPLICATE KEY UPDATE` in MySQL and MariaDB. Elsewhere it is deleted and inserted
again. All of it is standard SQL with window functions.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Delete,
    FromClause,
    Select,
    Subquery,
    Table,
    Update,
    and_,
    case,
    delete,
    exists,
    func,
    insert,
    literal,
    null,
    or_,
    select,
    tuple_,
    union_all,
    update,
)
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.sql.base import Executable

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
from ledgerstone.pipeline.tables.sql_columns import MYSQL

_RANK: Final = "_rank"
_ON_CONFLICT: Final = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}


class SqlStatements:
    """Of one batch: `staged` are the tables of its tasks, at least one."""

    def __init__(self, dialect: str, table: Table, staged: Sequence[Table], layout: Layout) -> None:
        self._dialect = dialect
        self._table = table
        self._layout = layout
        self._keys = list(layout.key_names)
        self._columns = [*self._keys, *layout.content_names]
        self._all = _all_of(staged)

    # -- one change per key -------------------------------------------------------------------

    def has_a_key_twice(self) -> Select[Any]:
        keys = [self._all.c[name] for name in self._keys]
        grouped = select(literal(1)).select_from(self._all).group_by(*keys)
        return grouped.having(func.count() > 1).limit(1)

    def count_kept(self) -> Select[Any]:
        """Upserts and deletes."""
        kept = self._kept()
        deletes = func.coalesce(func.sum(case((kept.c[DELETED], 1), else_=0)), 0)
        return select(func.count() - deletes, deletes).select_from(kept)

    def _kept(self) -> Subquery:
        """Of each partition the last, of these the newest."""
        timeline = [*self._keys, PARTITION]
        lasts = self._first(self._all, timeline, [self._all.c[OFFSET].desc()], "l")
        newest = [lasts.c[TIMESTAMP].desc(), lasts.c[PARTITION].desc()]
        return self._first(lasts, self._keys, newest, "s")

    def _first(
        self, source: FromClause, within: list[str], order: list[Any], name: str
    ) -> Subquery:
        rank = func.row_number().over(
            partition_by=[source.c[each] for each in within], order_by=order
        )
        names = [*self._columns, DELETED]
        ranked = select(*(source.c[each] for each in names), rank.label(_RANK)).subquery()
        chosen = select(*(ranked.c[each] for each in names)).where(ranked.c[_RANK] == 1)
        return chosen.subquery(name)

    # -- hard and soft ------------------------------------------------------------------------

    def merge(self, *, forced: bool, one_per_key: bool) -> Iterator[Executable]:
        source: FromClause = self._kept() if one_per_key else self._all
        gone = source.c[DELETED]
        if self._layout.deletes is Deletes.SOFT:
            sets = {name: source.c[name] for name in ORIGIN_NAMES}
            sets[DELETED_AT] = source.c[TIMESTAMP]
            yield self._update(source, sets, and_(self._matches(source, forced=forced), gone))
        else:
            yield self._delete(source, gone, forced=forced)
        yield from self._upsert(source, forced=forced)
        if self._layout.deletes is Deletes.SOFT:
            # A key without a row gets one: that it was deleted is known all the same.
            values = [*(source.c[name] for name in self._columns), source.c[TIMESTAMP]]
            unknown = select(*values).where(gone, ~self._has_row(source, self._keys))
            yield insert(self._table).from_select([*self._columns, DELETED_AT], unknown)

    def _upsert(self, source: FromClause, *, forced: bool) -> Iterator[Executable]:
        names, extra = list(self._columns), list[ColumnElement[Any]]()
        if self._layout.deletes is Deletes.SOFT:
            names.append(DELETED_AT)
            extra.append(null())
        values = [*(source.c[name] for name in self._columns), *extra]
        stays = ~source.c[DELETED]
        updated = [name for name in names if name not in self._keys]
        if self._dialect in _ON_CONFLICT:
            some: Any = _ON_CONFLICT[self._dialect](self._table)
            some = some.from_select(names, select(*values).where(stays))
            guard = None if forced else _is_newer(some.excluded, self._table.c)
            yield some.on_conflict_do_update(
                index_elements=self._keys,
                set_={name: some.excluded[name] for name in updated},
                where=guard,
            )
        elif self._dialect in MYSQL:
            old = self._table.alias("o")
            fresh = literal(True) if forced else _is_newer(source.c, old.c)
            same = and_(*(source.c[name] == old.c[name] for name in self._keys))
            joined = source.outerjoin(old, same)
            chosen = select(*values).select_from(joined)
            chosen = chosen.where(stays, or_(old.c[self._keys[0]].is_(None), fresh))
            many = mysql.insert(self._table).from_select(names, chosen)
            yield many.on_duplicate_key_update({name: many.inserted[name] for name in updated})
        else:
            yield self._delete(source, stays, forced=forced)
            new = select(*values).where(stays, ~self._has_row(source, self._keys))
            yield insert(self._table).from_select(names, new)

    # -- history ------------------------------------------------------------------------------

    def versions(self) -> Iterator[Executable]:
        timeline = [*self._keys, PARTITION]
        # Open versions end with the first change of their key in their partition.
        first = self._first(self._all, timeline, [self._all.c[OFFSET]], "s")
        matches = and_(
            *(first.c[name] == self._table.c[name] for name in timeline),
            self._table.c[VALID_TO].is_(None),
            self._table.c[OFFSET] < first.c[OFFSET],
        )
        yield self._update(first, {VALID_TO: first.c[TIMESTAMP]}, matches)
        # Each ends with the next; one that is there already stays as it is.
        source = self._all
        following = func.lead(source.c[TIMESTAMP]).over(
            partition_by=[source.c[name] for name in timeline], order_by=source.c[OFFSET]
        )
        names = [*self._columns, DELETED]
        ended = select(*(source.c[name] for name in names), following.label(VALID_TO))
        version = ended.subquery("v")
        written = [*self._columns, VALID_TO]
        is_known = self._has_row(version, self._layout.row_identity)
        new = select(*(version.c[name] for name in written)).where(~version.c[DELETED], ~is_known)
        yield insert(self._table).from_select(written, new)

    # -- how dialects say it ------------------------------------------------------------------

    def _matches(self, source: FromClause, *, forced: bool) -> ColumnElement[bool]:
        same = [source.c[name] == self._table.c[name] for name in self._keys]
        return and_(*same) if forced else and_(*same, _is_newer(source.c, self._table.c))

    def _has_row(self, source: FromClause, names: Sequence[str]) -> ColumnElement[bool]:
        there = self._table.alias("t")
        same = [there.c[name] == source.c[name] for name in names]
        return exists(select(literal(1)).select_from(there).where(*same).correlate(source))

    def _delete(self, source: FromClause, which: ColumnElement[bool], *, forced: bool) -> Delete:
        if self._dialect in MYSQL:
            # The other forms may not read the table, or read all of it.
            return delete(self._table).where(self._matches(source, forced=forced), which)
        if self._dialect in _ON_CONFLICT:
            # By key: SQLite would look at every row of the table for each change.
            old = self._table.alias("o")
            same = and_(*(source.c[name] == old.c[name] for name in self._keys))
            found = select(*(old.c[name] for name in self._keys))
            found = found.select_from(source.join(old, same)).where(which)
            if not forced:
                found = found.where(_is_newer(source.c, old.c))
            keys = [self._table.c[name] for name in self._keys]
            return delete(self._table).where(
                (keys[0] if len(keys) == 1 else tuple_(*keys)).in_(found)
            )
        matches = and_(self._matches(source, forced=forced), which)
        return delete(self._table).where(self._exists(source, matches))

    def _update(
        self, source: FromClause, sets: dict[str, Any], matches: ColumnElement[bool]
    ) -> Update:
        if self._dialect in MYSQL or self._dialect in _ON_CONFLICT:
            return update(self._table).values(sets).where(matches)
        found = {
            name: select(value).where(matches).correlate(self._table).scalar_subquery()
            for name, value in sets.items()
        }
        return update(self._table).values(found).where(self._exists(source, matches))

    def _exists(self, source: FromClause, matches: ColumnElement[bool]) -> ColumnElement[bool]:
        some = select(literal(1)).select_from(source).where(matches)
        return exists(some.correlate(self._table))


def _all_of(staged: Sequence[Table]) -> FromClause:
    if len(staged) == 1:
        return staged[0].alias("s")
    return union_all(*(select(each) for each in staged)).subquery("s")


def _is_newer(new: Any, old: Any) -> ColumnElement[bool]:  # noqa: ANN401 - columns by name
    """Whether a change comes after a row; offsets of different partitions say nothing."""
    tie = and_(new[TIMESTAMP] == old[TIMESTAMP], new[PARTITION] > old[PARTITION])
    return or_(
        and_(new[PARTITION] == old[PARTITION], new[OFFSET] > old[OFFSET]),
        and_(new[PARTITION] != old[PARTITION], or_(new[TIMESTAMP] > old[TIMESTAMP], tie)),
    )
