"""`ledgerstone pipeline`: tables that follow topics, and the state kept beside the log. Shell.

Definitions, options, JSON fields and exit codes are in docs/pipeline.md.
"""

import signal
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ledgerstone.cli import pipeline_flows, pipeline_mirror, pipeline_serve
from ledgerstone.cli.lazy import new_app
from ledgerstone.cli.live_line import LiveLine
from ledgerstone.cli.options import JsonOption
from ledgerstone.cli.output import flush, printable, write_json, write_line
from ledgerstone.cli.pipeline_state import restore, snapshot
from ledgerstone.cli.pipeline_status import show_facts, status
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
    from ledgerstone.pipeline.tables.target import TableTarget

DIFFERS_EXIT: Final = 3

app = new_app("Keep tables in step with topics; snapshot, restore, verify.")
app.command()(snapshot)
app.command()(restore)
app.command()(status)
# Mounted without a name, so its commands become ours.
app.add_typer(pipeline_flows.app)
app.add_typer(pipeline_mirror.app)
app.add_typer(pipeline_serve.app)

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

        def begun(batch: "PlannedBatch", status: "RunStatus") -> None:
            progress.begins(batch.incoming.rows, status.lag)

        def show(batch: "BatchReport", status: "RunStatus") -> None:
            progress.ends(batch)
            with live.paused():
                _show_batch(batch, status, progress, clock.monotonic_ms(), as_json=as_json)

        running = PipelineRun(pipeline, spark, once=once, on_batch=show, on_plan=begun)
        signals = _stopped_by_signals(running)
        with live.shown():
            status = running.run()
    show_facts(asdict(status), as_json=as_json)
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
    from ledgerstone.pipeline.layout import layout_of
    from ledgerstone.pipeline.state.comparing import DIFFERENCES, total
    from ledgerstone.pipeline.state.verify import verify as verify_table

    pipeline = load_definition(definition)
    repaired = None
    with _tables(pipeline, master, conf) as (spark, tables):
        layout = layout_of(pipeline)
        found = total([verify_table(spark, *each, repair=repair) for each in tables], layout)
        if repair and not found.is_equal:
            # Shows what was wrong, then checks the repaired table again.
            repaired = {name: getattr(found, name) for name in DIFFERENCES}
            found = total([verify_table(spark, *each) for each in tables], layout)
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
    from ledgerstone.pipeline.layout import layout_of
    from ledgerstone.pipeline.missed_deletes import MissedDeletesCheck
    from ledgerstone.pipeline.state.comparing import total
    from ledgerstone.pipeline.state.reconcile import reconcile as reconcile_table

    pipeline = load_definition(definition)
    with (
        _tables(pipeline, master, conf) as (spark, tables),
        connect_to(pipeline.source.bootstrap, pipeline.source.command_config) as client,
    ):
        parts = []
        for each, target in tables:
            parts.append(reconcile_table(spark, each, target))
            watch = MissedDeletesCheck(client, each.source, Path(pipeline.work))
            watch.settled(target.positions())
        found = total(parts, layout_of(pipeline))
    # Missing or stale rows are left to the next run, or to `verify --repair`.
    left = {name: getattr(found, name) for name in ("live", "missing", "stale", "pending")}
    show_facts({"deleted_rows": found.extra, **left}, as_json=as_json)
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
def _tables(
    pipeline: Pipeline, master: str | None, given: list[str]
) -> "Iterator[tuple[SparkSession, list[tuple[Pipeline, TableTarget]]]]":
    """A session, and the table for each topic, with the pipeline locked against other runs."""
    from ledgerstone.pipeline.holding import held_with_table
    from ledgerstone.pipeline.tables.opening import open_target

    with ExitStack() as opened:
        opened.enter_context(held_with_table(pipeline))
        spark = opened.enter_context(_session(pipeline, master, given))
        tables = []
        for each in pipeline.each_topic:
            target = opened.enter_context(closing(open_target(each, spark=spark)))
            target.prepare()
            tables.append((each, target))
        yield spark, tables


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
            place = f"partition {each.partition}"
            place = place if each.topic is None else f"{place} of {each.topic}"
            write_line(
                f"{place}: topic {each.topic_rows} {each.topic_checksum} {sign} "
                f"table {each.table_rows} {each.table_checksum}"
            )
        for example in found.examples:
            write_line(f"  {printable(example)}")
    flush()
