"""The Spark session of a command: its settings, its log, and its failures as one line. Shell.

What the JVM and its workers write goes to a file, for it is hundreds of lines where one is
promised; a failure says where the file is. A file of no work directory goes when all went well.
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
    """It logs some of its tracebacks under the name of everybody."""
    return "py4j" not in record.pathname


def _silence(session: "SparkSession") -> None:
    """Its server for accumulators shows a traceback when the JVM that it serves is gone."""
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
    """`conf` is a definition's, and `given`, of the command line, wins over it."""
    import ledgerstone.spark
    from ledgerstone.spark.failures import SparkFailed, spark_failures

    pairs = parse_pairs(given)
    for name in pairs:
        if not name.startswith("spark."):
            raise typer.BadParameter(f"{name!r}: names of Spark's settings begin with spark.")
    settings = {"spark.log.level": "ERROR", **(conf or {}), **pairs}
    # That a JVM is gone is told once, by us.
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
        raise SparkFailed(f"{error}. What Spark said is in {log_file}") from error
    except LedgerstoneError:
        temporary.unlink(missing_ok=True)
        raise
    temporary.unlink(missing_ok=True)
