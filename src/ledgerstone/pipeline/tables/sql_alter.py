"""What SQLAlchemy has no words for: columns that come or change, and tables written anew. Shell."""

from typing import Any, Final

from sqlalchemy import Column, Connection, Table
from sqlalchemy.schema import CreateColumn

from ledgerstone.pipeline.tables.evolution import Widened, in_sqlite
from ledgerstone.pipeline.tables.sql_columns import MYSQL

# Where we know how a type becomes another.
WIDENED_DIALECTS: Final = (*MYSQL, "postgresql", "sqlite")


def add_column(db: Connection, column: Column[Any]) -> None:
    _run(db, f"ALTER TABLE {_table(db, column.table)} ADD {_declared(db, column)}")


def widen_column(db: Connection, column: Column[Any], change: Widened) -> None:
    table, name = _table(db, column.table), _quoted(db, column.name)
    kind = column.type.compile(db.dialect)
    if db.dialect.name in MYSQL:
        texts = [f"ALTER TABLE {table} MODIFY {_declared(db, column)}"]
    elif db.dialect.name == "postgresql":
        texts = [f"ALTER TABLE {table} ALTER COLUMN {name} TYPE {kind}"]
    else:
        texts = in_sqlite(change, table, name, kind, _quoted(db, "_ledgerstone_wider"))
    for text in texts:
        _run(db, text)


def analyze(db: Connection, table: Table) -> None:
    """So that a join with ten changes is not planned as one with a thousand."""
    if db.dialect.name in MYSQL:
        _run(db, f"ANALYZE TABLE {_table(db, table)}")
    elif db.dialect.name == "postgresql":
        _run(db, f"ANALYZE {_table(db, table)}")


def write_anew(db: Connection, table: Table) -> None:
    """Without what was deleted, where the database has a word for that."""
    if db.dialect.name in MYSQL:
        _run(db, f"OPTIMIZE TABLE {_table(db, table)}")
    elif db.dialect.name == "postgresql":
        _run(db, f"VACUUM FULL {_table(db, table)}")
    elif db.dialect.name == "sqlite":
        _run(db, "VACUUM")


def _table(db: Connection, table: Any) -> str:  # noqa: ANN401 - of a column it is any FROM
    return db.dialect.identifier_preparer.format_table(table)


def _quoted(db: Connection, name: str) -> str:
    return db.dialect.identifier_preparer.quote_identifier(name)


def _declared(db: Connection, column: Column[Any]) -> str:
    return str(CreateColumn(column).compile(dialect=db.dialect))


def _run(db: Connection, text: str) -> None:
    """Without parameters: a colon or a percent sign in a name means nothing."""
    if db.dialect.paramstyle in ("format", "pyformat"):
        # As names are quoted for statements that have parameters.
        text = text.replace("%%", "%")
    db.execution_options(no_parameters=True).exec_driver_sql(text)
