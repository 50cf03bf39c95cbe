"""A table in any database that SQLAlchemy reaches. Shell.

Tasks insert their changes into staging tables; the driver sends statements that apply them, and
the positions, in one transaction. Staging tables are dropped after it, because databases like
MySQL commit at every change of a schema.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Integer,
    MetaData,
    Select,
    Table,
    delete,
    false,
    func,
    insert,
    inspect,
    literal_column,
    select,
)
from sqlalchemy.sql.elements import quoted_name

from ledgerstone.pipeline.column_types import arrow_type
from ledgerstone.pipeline.definition import Deletes
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.layout import Layout
from ledgerstone.pipeline.tables import sql
from ledgerstone.pipeline.tables.evolution import as_noted, evolution, is_wider, type_names
from ledgerstone.pipeline.tables.leaves import Incoming
from ledgerstone.pipeline.tables.sql_alter import (
    WIDENED_DIALECTS,
    add_column,
    widen_column,
    write_anew,
)
from ledgerstone.pipeline.tables.sql_columns import MYSQL, SqlShape
from ledgerstone.pipeline.tables.sql_engine import connected, engine_of, said_of
from ledgerstone.pipeline.tables.sql_staging import (
    SqlStage,
    drop_staged_tables,
    staged_names,
)
from ledgerstone.pipeline.tables.sql_statements import SqlStatements
from ledgerstone.pipeline.tables.target import (
    Applied,
    BatchStage,
    Followed,
    Positions,
    Staged,
    TableTarget,
)

_ROWS_AT_ONCE: Final = 1 << 14
_NAME_CHARACTERS: Final = 63
_TOPIC_CHARACTERS: Final = 249
_ID_CHARACTERS: Final = 22


class SqlTable(TableTarget):
    """`name` may have a schema in front, as in `sales.customers`."""

    def __init__(self, connection: str, name: str, topic: str, layout: Layout) -> None:
        self._connection = connection
        self._layout = layout
        self._topic = topic
        self._name = name
        self._schema, self._bare_name = split_name(name)
        self._engine = engine_of(connection)
        # The first connection tells MariaDB from MySQL.
        with said_of(name), self._engine.connect():
            pass
        dialect = self._engine.dialect
        if dialect.name in MYSQL:
            _check_names(layout)
        self._shape = SqlShape(dialect=dialect.name, collation=_collation(dialect), layout=layout)
        self._table = self._shape.table(self._bare_name, self._schema)
        self._positions, self._topics, self._columns = self._notes()

    def _notes(self) -> tuple[Table, Table, Table]:
        about, text = MetaData(), self._shape.text
        engine: dict[str, Any] = {"mysql_engine": "InnoDB", "mariadb_engine": "InnoDB"}
        positions = Table(
            sql.POSITIONS_TABLE,
            about,
            Column("table_name", text(_NAME_CHARACTERS), primary_key=True),
            Column("topic", text(_TOPIC_CHARACTERS), primary_key=True),
            Column(
                quoted_name("partition", quote=True),
                Integer,
                primary_key=True,
                autoincrement=False,
            ),
            Column("next_offset", BigInteger, nullable=False),
            **engine,
        )
        topics = Table(
            sql.TOPICS_TABLE,
            about,
            Column("table_name", text(_NAME_CHARACTERS), primary_key=True),
            Column("topic", text(_TOPIC_CHARACTERS), nullable=False),
            Column("topic_id", text(_ID_CHARACTERS), nullable=False),
            **engine,
        )
        columns = Table(
            sql.COLUMNS_TABLE,
            about,
            Column("table_name", text(_NAME_CHARACTERS), primary_key=True),
            Column("column_name", text(_NAME_CHARACTERS), primary_key=True),
            Column("type", text(_NAME_CHARACTERS), nullable=False),
            **engine,
        )
        return positions, topics, columns

    def _connected(self) -> Any:  # noqa: ANN401 - a context of a connection
        return connected(self._engine, self._name)

    def prepare(self) -> None:
        with self._connected() as db:
            for each in (self._positions, self._topics, self._columns):
                each.create(db, checkfirst=True)
        if not self.is_there():
            self._create()
        self._evolve()
        self.drop_staged()

    def _evolve(self) -> None:
        """A database that commits at every change of a schema may die before the types are noted:
        then the columns are there already, and a type becomes what it is once more."""
        noted_in, wanted = self._columns.c, type_names(self._layout)
        with self._connected() as db:
            known = select(noted_in.column_name, noted_in.type)
            rows = db.execute(known.where(noted_in.table_name == self._name))
            noted = {each.column_name: each.type for each in rows}
            # Asked for like this, because SQLAlchemy parses what MySQL says of a table by lines,
            # and a name may have some.
            nothing: Select[Any] = (
                select(literal_column("*")).select_from(self._table).where(false())
            )
            found = as_noted(db.execute(nothing).keys(), noted, self._layout)
        is_known = self._shape.dialect in WIDENED_DIALECTS
        widens = is_wider if is_known else lambda _, __: False
        change = evolution(f"table {self._name}", found, self._layout, widens=widens)
        if noted == wanted:
            return
        with self._connected() as db:
            for name in change.added:
                add_column(db, self._table.c[name])
            for each in change.widened:
                widen_column(db, self._table.c[each.name], each)
            db.execute(delete(self._columns).where(noted_in.table_name == self._name))
            rows_of = [
                {"table_name": self._name, "column_name": name, "type": kind}
                for name, kind in wanted.items()
            ]
            db.execute(insert(self._columns), rows_of)

    def _create(self) -> None:
        """A dropped table starts over, whatever else is left of it. Positions go first: MySQL
        commits them when it creates the table."""
        with self._connected() as db:
            for each in (self._positions, self._topics, self._columns):
                db.execute(delete(each).where(each.c.table_name == self._name))
            self._table.create(db)

    def positions(self) -> Positions:
        with self._connected() as db:
            if not inspect(db).has_table(sql.POSITIONS_TABLE):
                return {}
            noted = self._positions.c
            found = db.execute(
                select(noted.partition, noted.next_offset)
                .where(noted.table_name == self._name, noted.topic == self._topic)
                .order_by(noted.partition)
            )
            return {each.partition: each.next_offset for each in found}

    def followed(self) -> Followed | None:
        noted = self._topics.c
        with self._connected() as db:
            found = db.execute(
                select(noted.topic, noted.topic_id).where(noted.table_name == self._name)
            ).first()
        return None if found is None else Followed(*found)

    def follow(self, followed: Followed) -> None:
        with self._connected() as db:
            db.execute(delete(self._topics).where(self._topics.c.table_name == self._name))
            said = {"table_name": self._name, "topic": followed.topic}
            db.execute(insert(self._topics), {**said, "topic_id": followed.topic_id})

    def stage(self, incoming: Incoming) -> SqlStage:
        return SqlStage(
            connection=self._connection,
            table=self._name,
            schema=self._schema,
            prefix=sql.staged_prefix(self._name),
            shape=self._shape,
        )

    def apply_staged(
        self,
        stage: BatchStage,
        staged: Sequence[Staged],
        positions: Mapping[int, int],
        *,
        forced: bool = False,
    ) -> Applied:
        assert isinstance(stage, SqlStage), "another target's stage"
        tables = [stage.staged(each.name) for each in staged if each.name]
        upserts = sum(each.upserts for each in staged)
        deletes = sum(each.deletes for each in staged)
        with self._connected() as db:
            if tables:
                made = SqlStatements(self._shape.dialect, self._table, tables, self._layout)
                if self._layout.deletes is Deletes.HISTORY:
                    statements = made.versions()
                else:
                    is_twice = db.execute(made.has_a_key_twice()).first() is not None
                    if is_twice:
                        upserts, deletes = map(int, db.execute(made.count_kept()).one())
                    statements = made.merge(forced=forced, one_per_key=is_twice)
                for statement in statements:
                    db.execute(statement)
            self._move(db, positions)
        # Crash here: they are dropped when the next run begins.
        with self._connected() as db:
            for table in tables:
                table.drop(db)
        return Applied(upserts=upserts, deletes=deletes)

    def _move(self, db: Connection, positions: Mapping[int, int]) -> None:
        noted = self._positions.c
        for partition, at in sorted(positions.items()):
            is_it = (noted.table_name == self._name, noted.topic == self._topic)
            db.execute(delete(self._positions).where(*is_it, noted.partition == partition))
            said = {"table_name": self._name, "topic": self._topic, "partition": partition}
            db.execute(insert(self._positions), {**said, "next_offset": at})

    def drop_staged(self) -> None:
        with self._connected() as db:
            drop_staged_tables(db, self._name, self._schema)

    def is_there(self) -> bool:
        with self._connected() as db:
            return bool(inspect(db).has_table(self._bare_name, self._schema))

    def staged(self) -> list[str]:
        """Staging tables that were not dropped."""
        with self._connected() as db:
            return staged_names(db, self._name, self._schema)

    def rows_of_key(self, columns: Mapping[str, Any]) -> int:
        query = select(func.count()).select_from(self._table).where(*self._is_key(columns))
        with self._connected() as db:
            return int(db.execute(query).scalar_one())

    def drop_key(self, columns: Mapping[str, Any]) -> None:
        with self._connected() as db:
            db.execute(delete(self._table).where(*self._is_key(columns)))

    def _is_key(self, columns: Mapping[str, Any]) -> list[ColumnElement[bool]]:
        types = self._layout.types
        found = []
        for name, value in columns.items():
            cell = pa.chunked_array([pa.array([value], arrow_type(types[name]))])
            found.append(self._table.c[name] == self._shape.cells(cell, types[name])[0])
        return found

    def write_anew(self) -> None:
        """Without what was deleted, where the database has a word for that."""
        with said_of(self._name), self._engine.connect() as db:
            write_anew(db.execution_options(isolation_level="AUTOCOMMIT"), self._table)

    def tidy(self) -> None:
        """There are no past versions."""

    def rows(self) -> Iterator[pa.Table]:
        types, schema = self._layout.types, self._layout.table_schema
        query = select(*(self._table.c[name] for name in types))
        with said_of(self._name), self._engine.connect() as db:
            found = db.execution_options(yield_per=_ROWS_AT_ONCE).execute(query)
            for some in found.partitions():
                arrays = [
                    self._shape.array(cells, kind)
                    for cells, kind in zip(zip(*some, strict=True), types.values(), strict=True)
                ]
                yield pa.Table.from_arrays(arrays, schema=schema)

    def close(self) -> None:
        self._engine.dispose()


def split_name(name: str) -> tuple[str | None, str]:
    """The schema, if one is named, and the table."""
    schema, dot, table = name.partition(".")
    return (schema, table) if dot else (None, name)


def _check_names(layout: Layout) -> None:
    """SQLAlchemy doubles it twice in ON DUPLICATE KEY UPDATE."""
    for name in layout.types:
        if "%" in name:
            raise PipelineError(f"column {name}: in MySQL a name may have no percent sign here")


def _collation(dialect: Any) -> str | None:  # noqa: ANN401 - has no common type
    """Of the collations that compare bytes, the one that does not ignore spaces at the end."""
    if dialect.name not in MYSQL:
        return None
    return "utf8mb4_nopad_bin" if dialect.is_mariadb else "utf8mb4_0900_bin"
