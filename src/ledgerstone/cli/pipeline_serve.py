"""`ledgerstone pipeline serve`: every definition of a directory. Shell.

Mounted by `cli.pipeline`; docs/pipeline.md has the fields of `--json`.
"""

import signal
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ledgerstone.cli.lazy import new_app
from ledgerstone.cli.options import JsonOption
from ledgerstone.cli.output import flush, printable, write_json, write_line
from ledgerstone.cli.spark_session import ConfOption, spark_session
from ledgerstone.dataclasses import asdict

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ledgerstone.pipeline.definition import Pipeline
    from ledgerstone.pipeline.served_runs import ServedNews, ServedRuns

FAILED_EXIT: Final = 1

app = new_app("Many pipelines at once.")


@app.command()
def serve(
    directory: Annotated[
        Path,
        typer.Argument(
            metavar="DIRECTORY", exists=True, file_okay=False, help="Of definitions, *.yaml."
        ),
    ],
    once: Annotated[
        bool, typer.Option("--once", help="Each to the current end of its topics.")
    ] = False,
    master: Annotated[
        str | None, typer.Option("--master", help="Spark master; overrides the definitions'.")
    ] = None,
    conf: ConfOption = [],  # noqa: B006 - typer copies it
    as_json: JsonOption = False,
) -> None:
    """Run every definition of a directory; notice new, changed and removed ones."""
    from ledgerstone.pipeline.served_runs import FAIR, ServedRuns
    from ledgerstone.system import SystemClock

    with ExitStack() as opened:

        def open_session(pipeline: "Pipeline") -> "SparkSession":
            session = opened.enter_context(
                spark_session(
                    f"pipelines of {directory.name}",
                    master or pipeline.master,
                    conf={**FAIR, **pipeline.spark},
                    given=conf,
                    work=_own_directory(directory),
                )
            )
            # PySpark has put its own handler in place, which would end everything at once.
            signals.watch()
            return session

        serving = ServedRuns(
            directory.absolute(),
            master=master,
            once=once,
            open_session=open_session,
            tell=lambda told: _tell(told, as_json=as_json),
            clock=SystemClock(),
        )
        signals = _Signals(serving)
        signals.watch()
        serving.serve()
    if once and signals.came:
        raise typer.Exit(128 + signals.came[0])
    if once and serving.has_failed:
        raise typer.Exit(FAILED_EXIT)


def _own_directory(directory: Path) -> Path:
    """For Spark's log, beside the work directories of pipelines."""
    own = directory / ".ledgerstone"
    own.mkdir(exist_ok=True)
    return own


class _Signals:
    """The first ends all runs after their transactions, the next at once."""

    def __init__(self, serving: "ServedRuns") -> None:
        self._serving = serving
        self.came: list[int] = []

    def watch(self) -> None:
        if not self.came:
            for each in (signal.SIGINT, signal.SIGTERM):
                signal.signal(each, self._stop)

    def _stop(self, number: int, _: object) -> None:
        self.came.append(number)
        self._serving.stop()
        signal.signal(number, signal.SIG_DFL)


def _tell(told: "ServedNews", *, as_json: bool) -> None:
    served = told.served
    definition = Path(served.path).name
    if as_json:
        content: dict[str, Any] = {"definition": definition, "pipeline": told.name}
        if told.batch is None or told.status is None:
            content |= {"state": served.state.value, "error": served.error}
        else:
            content |= {"batch": told.status.batches, **asdict(told.batch), "lag": told.status.lag}
        write_json(content)
    elif told.batch is None or told.status is None:
        _tell_state(told, definition)
    else:
        write_line(
            f"{printable(str(told.name))}: batch {told.status.batches}: {told.batch.changes} "
            f"changes, {told.batch.upserts} upserts, {told.batch.deletes} deletes, "
            f"{told.batch.bad} bad, {told.status.lag} behind"
        )
    flush()


def _tell_state(told: "ServedNews", definition: str) -> None:
    served = told.served
    name = printable(told.name or definition)
    if served.error is None:
        write_line(f"{name}: {served.state.value}")
        return
    sys.stderr.write(f"ledgerstone: {name}: {served.state.value}: {printable(served.error)}\n")
