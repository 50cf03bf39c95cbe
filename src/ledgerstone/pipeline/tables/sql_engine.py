"""Connections of SQLAlchemy, and errors in one line. Shell.

A connection is made when it is used and closed then: tasks and the driver have their own. Values of
rows are in no message.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import ConnectionPoolEntry, NullPool

from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.tables.sql_columns import MYSQL

_BUSY_TIMEOUT_S: Final = 60


def engine_of(url: str) -> Engine:
    try:
        parsed = make_url(url)
        if parsed.get_backend_name() == "sqlite":
            if parsed.database in (None, "", ":memory:"):
                raise PipelineError("table.connection: sqlite needs a file that tasks see as well")
            # Tasks may have another working directory.
            parsed = parsed.set(database=str(Path(parsed.database).absolute()))
            arguments = {"timeout": _BUSY_TIMEOUT_S}
        else:
            arguments = {}
        engine = create_engine(
            parsed, poolclass=NullPool, hide_parameters=True, connect_args=arguments
        )
    except SQLAlchemyError as error:
        # The URL may hold a password.
        raise PipelineError(
            f"table.connection: {type(error).__name__}, no URL as SQLAlchemy has it: "
            "DIALECT+DRIVER://USER:PASSWORD@HOST/DATABASE"
        ) from error
    except ImportError as error:
        raise PipelineError(f"table.connection: its driver is not installed: {error}") from error
    if engine.dialect.name in MYSQL:
        event.listen(engine, "connect", _be_strict)
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _overwrite_deleted)
    return engine


@contextmanager
def said_of(table: str) -> Iterator[None]:
    try:
        yield
    except DBAPIError as error:
        raise PipelineError(f"table {table}: {_one_line(error.orig or error)}") from error
    except SQLAlchemyError as error:
        raise PipelineError(f"table {table}: {_one_line(error)}") from error


@contextmanager
def connected(engine: Engine, table: str) -> Iterator[Connection]:
    """One transaction, committed in the end."""
    with said_of(table), engine.begin() as db:
        yield db


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())


def _be_strict(connection: object, _: ConnectionPoolEntry) -> None:
    """What does not fit is an error, whatever the server is set to."""
    _run(connection, "SET SESSION sql_mode = CONCAT(@@sql_mode, ',STRICT_ALL_TABLES')")


def _overwrite_deleted(connection: object, _: ConnectionPoolEntry) -> None:
    _run(connection, "PRAGMA secure_delete = ON")


def _run(connection: object, text: str) -> None:
    cursor = connection.cursor()  # type: ignore[attr-defined]
    cursor.execute(text)
    cursor.close()
