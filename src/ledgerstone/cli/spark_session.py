"""The Spark session of a command: its settings, its log, and its failures as one line. Shell.

The JVM and its workers write hundreds of log lines. They go to a file, and a failure names it. If
all goes well, a file outside a work directory is removed.
"""

import logging
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ledgerstone.cli.options import parse_pairs
from ledgerstone.errors import LedgerstoneError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG_FILE: Final = "spark.log"

ConfOption = Annotated[
    list[str],
    typer.Option(
        "--conf",
        metavar="NAME=VALUE",
        help="A setting of Spark, such as spark.driver.memory=2g; repeatable.",
    ),
]


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """py4j logs some of its tracebacks to the root logger."""
    return "py4j" not in record.pathname


def _silence(session: "SparkSession") -> None:
    """The accumulator server prints a traceback when its JVM is gone."""
    server = getattr(session.sparkContext, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda *_: None


@contextmanager
def spark_session(
    app_name: str,
    master: str,
    *,
    conf: Mapping[str, str] | None = None,
    given: list[str],
    work: Path | None = None,
) -> "Iterator[SparkSession]":
    """`given`, from the command line, overrides `conf`, from the definition."""
    import ledgerstone.spark
    from ledgerstone.spark.failures import SparkFailed, spark_failures

    pairs = parse_pairs(given)
    for name in pairs:
        if not name.startswith("spark."):
            raise typer.BadParameter(f"{name!r}: Spark settings begin with spark.")
    settings = {"spark.log.level": "ERROR", **(conf or {}), **pairs}
    # We report a dead JVM once ourselves.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_is_not_of_py4j)
    temporary = Path(tempfile.gettempdir()) / f"ledgerstone-spark-{os.getpid()}.log"
    log_file = temporary if work is None else work / LOG_FILE
    try:
        with spark_failures():
            session = ledgerstone.spark.session(
                app_name, master=master, conf=settings, log_file=log_file
            )
            _silence(session)
            yield session
    except SparkFailed as error:
        raise SparkFailed(f"{error}. Spark's log is {log_file}") from error
    except LedgerstoneError:
        temporary.unlink(missing_ok=True)
        raise
    temporary.unlink(missing_ok=True)
