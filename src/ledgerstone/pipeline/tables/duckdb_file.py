"""Opening a DuckDB file, which one process at a time may write. Shell.

A file is open for as long as something is done with it and no longer, so that others read it
between micro-batches. Who finds it locked waits.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import duckdb

from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.tables import sql

_BUSY_TIMEOUT_S: Final = 60.0
_PAUSE_S: Final = 0.02
# What is larger goes to temporary files; the rest of the machine is Spark's.
_MEMORY: Final = "2GB"


@contextmanager
def opened_file(path: str, spill: str) -> Iterator["duckdb.DuckDBPyConnection"]:
    """Temporary files, which hold parts of rows, go to the directory `spill`."""
    db = _connected(path, {"memory_limit": _MEMORY, "temp_directory": spill})
    try:
        # Timestamps come back as they went in.
        db.execute("SET TimeZone = 'UTC'")
        yield db
    except duckdb.Error as error:
        raise PipelineError(f"{path}: {error}") from error
    finally:
        db.close()


@contextmanager
def transaction(db: "duckdb.DuckDBPyConnection") -> Iterator[None]:
    db.execute("BEGIN")
    try:
        yield
    except BaseException:
        db.execute("ROLLBACK")
        raise
    db.execute("COMMIT")


def asked(
    db: "duckdb.DuckDBPyConnection", query: str, values: tuple[Any, ...] = ()
) -> tuple[Any, ...]:
    """The only row."""
    found = db.execute(query, values).fetchall()
    assert len(found) == 1, f"{len(found)} rows instead of one"
    return tuple(found[0])


def columns_of(db: "duckdb.DuckDBPyConnection", table: str) -> dict[str, str]:
    """Their types, in order; none if there is no such table. (`duckdb_columns()` would look at
    every view of the system, which takes as long as opening the file.)"""
    place = f"main.{sql.quoted(table)}"
    literal = "'" + place.replace("'", "''") + "'"
    try:
        return dict(db.execute(f"SELECT name, type FROM pragma_table_info({literal})").fetchall())
    except duckdb.CatalogException:
        return {}


def _connected(path: str, config: Mapping[str, str]) -> "duckdb.DuckDBPyConnection":
    deadline = time.monotonic() + _BUSY_TIMEOUT_S
    while True:
        try:
            return duckdb.connect(path, config=dict(config))
        except duckdb.IOException as error:
            if "lock" not in str(error) or time.monotonic() > deadline:
                raise PipelineError(f"{path} cannot be opened: {error}") from error
        except duckdb.Error as error:
            raise PipelineError(f"{path} cannot be opened: {error}") from error
        time.sleep(_PAUSE_S)
