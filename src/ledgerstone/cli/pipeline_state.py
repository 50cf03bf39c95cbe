"""`ledgerstone pipeline snapshot` and `restore`. Shell; options in docs/pipeline.md."""

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ledgerstone.cli.command_config import given_bootstrap, given_file
from ledgerstone.cli.options import (
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    JsonOption,
    TopicArgument,
)
from ledgerstone.cli.output import flush, printable, write_json, write_line
from ledgerstone.cli.spark_session import ConfOption, spark_session

if TYPE_CHECKING:
    from ledgerstone.pipeline.state.jobs import RunJobs
    from ledgerstone.pipeline.state.snapshot import Made

INCOMPLETE_EXIT: Final = 3
_NO_SPARK: Final = "none"

DirectoryOption = Annotated[
    Path, typer.Option("--snapshots", metavar="DIRECTORY", help="Where snapshots are kept.")
]
MasterOption = Annotated[
    str,
    typer.Option("--master", help="Spark master; `none` reads in this process."),
]


def snapshot(
    topic: TopicArgument,
    snapshots: DirectoryOption,
    again: Annotated[
        bool, typer.Option("--rebuild", help="Read everything; ignore existing snapshots.")
    ] = False,
    keep: Annotated[
        int | None,
        typer.Option("--keep", min=1, help="Remove older snapshots: this many stay. Default: all."),
    ] = None,
    master: MasterOption = "local[*]",
    conf: ConfOption = [],  # noqa: B006 - typer copies it
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Save a topic's state as Parquet; reads only records newer than the last snapshot."""
    from ledgerstone.pipeline.state.making import drop_older
    from ledgerstone.pipeline.state.snapshot import TopicSource
    from ledgerstone.pipeline.state.snapshot import snapshot as make

    source = TopicSource(
        bootstrap=given_bootstrap(bootstrap), topic=topic, command_config=given_file()
    )
    with _run_jobs(master, conf) as (run_jobs, _):
        made = make(source, snapshots, run_jobs=run_jobs, again=again)
    if keep is not None:
        drop_older(snapshots, keep)
    _show(made, as_json=as_json)


def restore(
    topic: TopicArgument,
    at: Annotated[str, typer.Option("--at", metavar="TIME|OFFSET|JSON", help="The point.")],
    to: Annotated[Path, typer.Option("--to", metavar="DIRECTORY", help="Output directory.")],
    snapshots: DirectoryOption,
    into: Annotated[
        Path | None,
        typer.Option("--into", metavar="DEFINITION", help="Also fill this pipeline's empty table."),
    ] = None,
    include_forgotten: Annotated[
        bool,
        typer.Option("--include-forgotten", help="Also keys that the log no longer has."),
    ] = False,
    master: MasterOption = "local[*]",
    conf: ConfOption = [],  # noqa: B006 - typer copies it
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Restore the state at a point in time, without keys erased since."""
    from ledgerstone.cli.state import parse_point
    from ledgerstone.pipeline.state.snapshot import TopicSource
    from ledgerstone.pipeline.state.snapshot import restore as make
    from ledgerstone.system import SystemClock

    with _run_jobs(master, conf) as (run_jobs, spark):
        made = make(
            TopicSource(
                bootstrap=given_bootstrap(bootstrap), topic=topic, command_config=given_file()
            ),
            snapshots,
            to,
            parse_point(at, SystemClock().now_ms()),
            run_jobs=run_jobs,
            include_forgotten=include_forgotten,
        )
        if into is not None:
            _load(into, Path(made.path), spark)
    _show(made, as_json=as_json)
    if not made.manifest.complete:
        sys.stderr.write(
            f"ledgerstone: may be incomplete: {printable(str(made.manifest.because))}\n"
        )
        raise typer.Exit(INCOMPLETE_EXIT)


@contextmanager
def _run_jobs(master: str, given: list[str]) -> "Iterator[tuple[RunJobs, object | None]]":
    from ledgerstone.pipeline.state.jobs import run_here, run_on

    if master == _NO_SPARK:
        yield run_here, None
        return
    with spark_session("pipeline snapshot", master, given=given) as spark:
        yield run_on(spark), spark


def _load(definition: Path, path: Path, spark: object | None) -> None:
    from ledgerstone.pipeline.definition_files import load_definition
    from ledgerstone.pipeline.errors import PipelineError
    from ledgerstone.pipeline.state.loading import load_into
    from ledgerstone.pipeline.state.snapshot import load_manifest
    from ledgerstone.pipeline.tables.opening import executors_of, open_target

    pipeline = load_definition(definition)
    topic = load_manifest(path).topic
    for each in pipeline.each_topic:
        if each.source.topic == topic:
            with closing(open_target(each, spark=spark)) as target:
                load_into(each, target, path, executors_of(spark))
            return
    names = ", ".join(pipeline.source.names)
    raise PipelineError(f"{path} is of topic {topic}, and the pipeline reads {names}")


def _show(made: "Made", *, as_json: bool) -> None:
    manifest = made.manifest
    facts = {
        "path": made.path,
        "topic": manifest.topic,
        "live_keys": sum(each.live_keys for each in manifest.partitions),
        "deleted_keys": sum(each.deleted_keys for each in manifest.partitions),
        "records_read": sum(each.records_read for each in manifest.partitions),
        "checksum": manifest.checksum,
        "previous": manifest.previous,
        "complete": manifest.complete,
        "erased": made.erased,
        "forgotten": made.forgotten,
    }
    if as_json:
        write_json({**facts, "positions": manifest.positions})
    else:
        for name, value in facts.items():
            write_line(f"{name:14} {printable(str(value))}")
    flush()
