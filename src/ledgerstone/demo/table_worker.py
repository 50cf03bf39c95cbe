"""The Spark process: executes requests from standard input, line by line. Shell.

`python -m ledgerstone.demo.table_worker DIRECTORY [--keep-classes]` starts a session at once, so
that it is ready when it is needed, and answers each line of JSON with one. It ends at the end of
its input. The output of Spark and its JVM goes to standard error.

    {"do": "run", "definition": {…}}                  a pipeline up to the end of its topic
    {"do": "verify", "definition": {…}}               the table against the topic
    {"do": "purge", "definition": {…}, "key": hex}    what is left of a key in table and files
"""

import contextlib
import json
import os
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

from ledgerstone.dataclasses import asdict
from ledgerstone.errors import LedgerstoneError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ledgerstone.pipeline.definition import Pipeline

MASTER: Final = "local[2]"


def main() -> None:
    directory = Path(sys.argv[1])
    answers = _answers()
    session = _session(directory, keep_classes="--keep-classes" in sys.argv[2:])
    _say(answers, {"ready": True})
    for line in sys.stdin:
        try:
            answer = _do(session, json.loads(line), directory)
        except LedgerstoneError as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        _say(answers, answer)
    session.stop()


def _answers() -> TextIO:
    """The current standard output; from here on all other output goes to standard error."""
    kept = os.dup(1)
    os.dup2(2, 1)
    return os.fdopen(kept, "w", encoding="utf-8")


def _say(answers: TextIO, content: dict[str, Any]) -> None:
    answers.write(json.dumps(content) + "\n")
    answers.flush()


def _session(directory: Path, *, keep_classes: bool) -> "SparkSession":
    import ledgerstone.spark

    conf = {
        "spark.local.dir": str(directory / "spark"),
        "spark.log.level": "ERROR",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(directory / "spark" / "warehouse"),
    }
    session = ledgerstone.spark.session(
        "demo", master=MASTER, short_lived=True, keep_classes=keep_classes, conf=conf
    )
    # Spark starts a Python process for each kind of work. Start two kinds in advance.
    finding = threading.Thread(target=_find_source, args=(session,), daemon=True)
    finding.start()
    with contextlib.suppress(Exception):
        # A busy machine may be too slow for Spark's patience; the run itself tries again.
        _call_python(session)
    finding.join()
    return session


def _call_python(session: "SparkSession") -> None:
    import pyarrow as pa
    from pyspark.sql.pandas.functions import arrow_udf

    def same(ids: pa.Array) -> pa.Array:
        return ids

    # Spark takes the kind of function from its hints, and its own types do not know that.
    function = arrow_udf(same, "long")  # type: ignore[call-overload]
    session.range(2).select(function("id")).collect()


def _find_source(session: "SparkSession") -> None:
    options = {"bootstrap": "127.0.0.1:1", "topic": "none"}
    session.read.format("ledgerstone").options(**options).load()


def _do(session: "SparkSession", asked: dict[str, Any], directory: Path) -> dict[str, Any]:
    from ledgerstone.pipeline.definition_files import define

    pipeline = define(asked["definition"], directory=directory)
    match asked["do"]:
        case "run":
            from ledgerstone.pipeline.runner import run_pipeline

            return asdict(run_pipeline(pipeline, session, once=True))
        case "verify":
            return _verify(session, pipeline)
        case "purge":
            from ledgerstone.pipeline.erasing import purge

            found = purge(pipeline, bytes.fromhex(asked["key"]))
            return {
                "findings": [(each.output, each.verdict.value, each.evidence) for each in found]
            }
        case other:
            raise LedgerstoneError(f"unknown request {other!r}")


def _verify(session: "SparkSession", pipeline: "Pipeline") -> dict[str, Any]:
    from ledgerstone.pipeline.state.verify import verify
    from ledgerstone.pipeline.tables.opening import open_target

    with closing(open_target(pipeline, spark=session)) as target:
        target.prepare()
        found = verify(session, pipeline, target)
    return {
        "is_equal": found.is_equal and not found.pending and not found.undecodable,
        "live": found.live,
        "examples": list(found.examples),
    }


if __name__ == "__main__":
    main()
