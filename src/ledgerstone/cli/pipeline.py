"""`ledgerstone pipeline`: tables that follow topics, and the state kept beside the log. Shell.

Definitions, options, JSON fields and exit codes are in docs/pipeline.md.
"""

import signal
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ledgerstone.cli import pipeline_flows, pipeline_mirror
from ledgerstone.cli.lazy import new_app
from ledgerstone.cli.live_line import LiveLine
from ledgerstone.cli.options import JsonOption
from ledgerstone.cli.output import flush, printable, show_time, write_json, write_line
from ledgerstone.cli.pipeline_state import restore, snapshot
from ledgerstone.cli.spark_session import ConfOption, spark_session
from ledgerstone.dataclasses import asdict
from ledgerstone.pipeline.definition import Pipeline
from ledgerstone.pipeline.definition_files import load_definition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ledgerstone.pipeline.applying import BatchReport
    from ledgerstone.pipeline.batch_planning import PlannedBatch
    from ledgerstone.pipeline.progress import RunProgress
    from ledgerstone.pipeline.runner import PipelineRun
    from ledgerstone.pipeline.state.comparing import Comparison
    from ledgerstone.pipeline.status import RunStatus
    from ledgerstone.pipeline.tables.target import Positions, TableTarget

DIFFERS_EXIT: Final = 3

app = new_app("Keep tables in step with topics; snapshot, restore, verify.")
app.command()(snapshot)
app.command()(restore)
# Mounted without a name, so its commands become ours.
app.add_typer(pipeline_flows.app)
app.add_typer(pipeline_mirror.app)

DefinitionArgument = Annotated[
    Path, typer.Argument(metavar="DEFINITION", help="YAML, or a Python file with a `pipeline`.")
]
MasterOption = Annotated[
    str | None, typer.Option("--master", help="Spark master; overrides the definition's.")
]


@app.command()
def run(
    definition: DefinitionArgument,
    once: Annotated[
        bool, typer.Option("--once", help="Stop at the current end of the topic.")
    ] = False,
    master: MasterOption = None,
    conf: ConfOption = [],  # noqa: B006 - typer copies it
    as_json: JsonOption = False,
) -> None:
    """Follow the topic: apply new records to the table, from where it left off."""
    pipeline = load_definition(definition)
    from ledgerstone.pipeline.progress import RunProgress
    from ledgerstone.pipeline.runner import PipelineRun
    from ledgerstone.pipeline.status import check_free
    from ledgerstone.system import SystemClock

    check_free(Path(pipeline.work))
    clock = SystemClock()
    with _session(pipeline, master, conf) as spark:
        progress = RunProgress(started_ms=clock.monotonic_ms())
        live = LiveLine(lambda: progress.line(clock.monotonic_ms(), _tasks_of(spark)))

        def begun(batch: "PlannedBatch", _: "RunStatus") -> None:
            progress.begins(batch.incoming.rows, batch.backlog)

        def show(batch: "BatchReport", status: "RunStatus") -> None:
            progress.ends(batch)
            with live.paused():
                _show_batch(batch, status, progress, clock.monotonic_ms(), as_json=as_json)

        running = PipelineRun(pipeline, spark, once=once, on_batch=show, on_plan=begun)
        signals = _stopped_by_signals(running)
        with live.shown():
            status = running.run()
    _show_status(asdict(status), as_json=as_json)
    if once and signals:
        # --once was to reach the end and did not; the exit code must say so.
        raise typer.Exit(128 + signals[0])


def _show_batch(
    batch: "BatchReport",
    status: "RunStatus",
    progress: "RunProgress",
    now_ms: int,
    *,
    as_json: bool,
) -> None:
    if as_json:
        eta_s = progress.eta_s(now_ms)
        rates = {
            "lag": progress.lag,
            "rows_per_s": round(progress.rows_per_s(now_ms), 1),
            "eta_s": None if eta_s is None else round(eta_s, 1),
        }
        write_json({"batch": status.batches, **asdict(batch), **rates})
    else:
        write_line(
            f"batch {status.batches}: {batch.changes} changes, {batch.upserts} upserts, "
            f"{batch.deletes} deletes, {batch.bad} bad, {progress.lag} behind"
        )
    flush()


def _tasks_of(spark: "SparkSession") -> tuple[int, int] | None:
    """Those that have ended, and all, of what Spark does now."""
    tracker = spark.sparkContext.statusTracker()
    for stage in tracker.getActiveStageIds():
        if (info := tracker.getStageInfo(stage)) is not None:
            return info.numCompletedTasks, info.numTasks
    return None


def _stopped_by_signals(running: "PipelineRun") -> list[int]:
    """The signals received. The first ends the run after its transaction, the next at once."""
    came: list[int] = []

    def stop(number: int, _: object) -> None:
        came.append(number)
        running.stop()
        signal.signal(number, signal.SIG_DFL)

    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, stop)
    return came


@app.command()
def validate(definition: DefinitionArgument) -> None:
    """Check a definition without touching anything."""
    from ledgerstone.pipeline.tables.opening import check_drivers

    pipeline = load_definition(definition)
    check_drivers(pipeline)
    target = pipeline.target
    table = f"{target.type.value} table {printable(target.name)}"
    write_line(f"{printable(pipeline.name)}: {table}, {len(pipeline.columns)} columns, valid")


@app.command(name="explain")
def explain_definition(definition: DefinitionArgument) -> None:
    """Explain what a run would read, create and delete."""
    from ledgerstone.pipeline.explaining import explain

    for line in explain(load_definition(definition)):
        write_line(printable(line))
    flush()


@app.command(name="status")
def show_status(definition: DefinitionArgument, as_json: JsonOption = False) -> None:
    """Show the last run and the table's lag."""
    from ledgerstone.pipeline.status import read_status

    pipeline = load_definition(definition)
    status = read_status(Path(pipeline.work)) or {}
    # The status file is as old as the last batch; the table itself is current.
    positions = _positions(pipeline)
    if positions is not None:
        status["positions"] = positions
    if not status.get("positions") and "state" not in status:
        write_line(f"{printable(pipeline.name)} has not run yet")
        return
    _show_status({**status, "lag": _lag(pipeline, status["positions"])}, as_json=as_json)


@app.command()
def verify(
    definition: DefinitionArgument,
    repair: Annotated[
        bool, typer.Option("--repair", help="Make the table match the topic.")
    ] = False,
    master: MasterOption = None,
    conf: ConfOption = [],  # noqa: B006 - typer copies it
    as_json: JsonOption = False,
) -> None:
    """Compare the table with the topic, key by key."""
    from ledgerstone.pipeline.state.comparing import DIFFERENCES
    from ledgerstone.pipeline.state.verify import verify as verify_table

    pipeline = load_definition(definition)
    repaired = None
    with _table(pipeline, master, conf) as (spark, target):
        found = verify_table(spark, pipeline, target, repair=repair)
        if repair and not found.is_equal:
            # Shows what was wrong, then checks the repaired table again.
            repaired = {name: getattr(found, name) for name in DIFFERENCES}
            found = verify_table(spark, pipeline, target)
    _show_comparison(found, repaired, as_json=as_json)
    if not found.is_equal:
        raise typer.Exit(DIFFERS_EXIT)


@app.command()
def reconcile(
    definition: DefinitionArgument,
    master: MasterOption = None,
    conf: ConfOption = [],  # noqa: B006 - typer copies it
    as_json: JsonOption = False,
) -> None:
    """Delete rows whose tombstone was missed."""
    from ledgerstone.pipeline.connecting import connect_to
    from ledgerstone.pipeline.missed_deletes import MissedDeletesCheck
    from ledgerstone.pipeline.state.reconcile import reconcile as reconcile_table

    pipeline = load_definition(definition)
    with _table(pipeline, master, conf) as (spark, target):
        found = reconcile_table(spark, pipeline, target)
        with connect_to(pipeline.source.bootstrap, pipeline.source.command_config) as client:
            watch = MissedDeletesCheck(client, pipeline.source, Path(pipeline.work))
            watch.settled(target.positions())
    # Missing or stale rows are left to the next run, or to `verify --repair`.
    left = {name: getattr(found, name) for name in ("live", "missing", "stale", "pending")}
    _show_status({"deleted_rows": found.extra, **left}, as_json=as_json)
    flush()


# -- what they share --------------------------------------------------------------------------


def _session(
    pipeline: Pipeline, master: str | None, given: list[str]
) -> "AbstractContextManager[SparkSession]":
    return spark_session(
        f"pipeline {pipeline.name}",
        master or pipeline.master,
        conf=pipeline.spark,
        given=given,
        work=Path(pipeline.work),
    )


@contextmanager
def _table(
    pipeline: Pipeline, master: str | None, given: list[str]
) -> "Iterator[tuple[SparkSession, TableTarget]]":
    """The pipeline's table and a session, with the pipeline locked against other runs."""
    from ledgerstone.pipeline.status import held
    from ledgerstone.pipeline.tables.opening import open_target

    with (
        held(Path(pipeline.work)),
        _session(pipeline, master, given) as spark,
        closing(open_target(pipeline, spark=spark)) as target,
    ):
        target.prepare()
        yield spark, target


def _positions(pipeline: Pipeline) -> "Positions | None":
    from ledgerstone.errors import LedgerstoneError
    from ledgerstone.pipeline.tables.opening import positions_of

    try:
        return positions_of(pipeline)
    except LedgerstoneError as error:
        said = f"the table cannot be read; positions are those of the last run: {error}"
        sys.stderr.write(f"ledgerstone: {printable(said)}\n")
        return None


def _lag(pipeline: Pipeline, positions: dict[Any, Any]) -> int | None:
    """Records the table has yet to apply: from its position, or from the start of the log."""
    from ledgerstone.errors import LedgerstoneError
    from ledgerstone.pipeline.connecting import connect_to, log_ends, log_starts

    try:
        with connect_to(pipeline.source.bootstrap, pipeline.source.command_config) as client:
            committed = pipeline.source.isolation == "read_committed"
            ends = log_ends(client, pipeline.source.topic, committed=committed)
            starts = log_starts(client, pipeline.source.topic)
    except LedgerstoneError as error:
        sys.stderr.write(f"ledgerstone: the lag is unknown: {printable(str(error))}\n")
        return None
    at = {int(each): int(offset) for each, offset in positions.items()}
    return sum(max(end - at.get(each, starts[each]), 0) for each, end in ends.items())


def _show_status(status: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        write_json(status)
    else:
        for name, value in status.items():
            shown = show_time(value) if name.endswith("_ms") else value
            write_line(f"{name.removesuffix('_ms'):16} {printable(str(shown))}")
    flush()


def _show_comparison(
    found: "Comparison", repaired: dict[str, int] | None, *, as_json: bool
) -> None:
    counts = {
        name: getattr(found, name)
        for name in (
            *("is_equal", "exact", "live", "deleted", "missing", "extra", "stale", "pending"),
            "undecodable",
        )
    }
    if as_json:
        partitions = [asdict(each) for each in found.partitions]
        also = {} if repaired is None else {"repaired": repaired}
        write_json({**also, **counts, "partitions": partitions, "examples": list(found.examples)})
    else:
        if repaired is not None:
            said = ", ".join(f"{count} {name}" for name, count in repaired.items())
            write_line(f"{'repaired':16} {said}")
        for name, value in counts.items():
            write_line(f"{name:16} {value}")
        for each in found.partitions:
            sign = "=" if each.is_equal else "≠"
            write_line(
                f"partition {each.partition}: topic {each.topic_rows} {each.topic_checksum} {sign} "
                f"table {each.table_rows} {each.table_checksum}"
            )
        for example in found.examples:
            write_line(f"  {printable(example)}")
    flush()
