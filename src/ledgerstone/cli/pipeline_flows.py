"""`ledgerstone pipeline compact`, `source` and `erase`. Shell.

Mounted by `cli.pipeline`. Options and exit codes are in docs/connect.md and docs/shapes.md.
"""

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ledgerstone.cli.admin_http import apis_of
from ledgerstone.cli.key_options import erased_key
from ledgerstone.cli.lazy import new_app
from ledgerstone.cli.options import (
    ConfigOption,
    JsonOption,
    parse_pairs,
)
from ledgerstone.cli.output import flush, printable, write_json, write_line
from ledgerstone.cli.spark_session import ConfOption, spark_session
from ledgerstone.dataclasses import asdict

if TYPE_CHECKING:
    from ledgerstone.pipeline.definition import Pipeline, Source
    from ledgerstone.pipeline.erasing import Reported
    from ledgerstone.pipeline.erasing_files import Finding

FAILED_EXIT: Final = 3

app = new_app("Sources, mirrors, bulk compaction and erasure on Spark.")

MasterOption = Annotated[str, typer.Option("--master", help="Spark's master.")]
OnceOption = Annotated[bool, typer.Option("--once", help="One round, then stop.")]
EveryOption = Annotated[
    float, typer.Option("--every", metavar="SECONDS", help="Seconds between rounds.")
]


@app.command()
def compact(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH…", help="Log directories, or directories of partitions."),
    ],
    topic: Annotated[
        list[str], typer.Option("--topic", help="A compacted topic of the log directories.")
    ] = [],  # noqa: B006 - typer copies it
    config: ConfigOption = [],  # noqa: B006 - typer copies it
    keep_tombstones: Annotated[
        bool, typer.Option("--keep-tombstones", help="Keep them even past their horizon.")
    ] = False,
    memory: Annotated[
        int, typer.Option("--dedupe-bytes", help="Memory per task for its keys.")
    ] = 128 << 20,
    master: MasterOption = "local[*]",
    conf: ConfOption = [],  # noqa: B006 - typer copies it
    as_json: JsonOption = False,
) -> None:
    """Clean log directories that no broker has open, a task per partition."""
    from ledgerstone.pipeline.bulk_compaction import BulkCompaction
    from ledgerstone.pipeline.bulk_compaction import compact as run

    wish = BulkCompaction(
        paths=[str(path) for path in paths],
        topics=topic,
        config=parse_pairs(config),
        dedupe_buffer_bytes=memory,
        keep_tombstones=keep_tombstones,
    )
    with spark_session("pipeline compact", master, given=conf) as spark:
        outcomes = run(spark, wish)
    for each in outcomes:
        if as_json:
            write_json(asdict(each))
        elif each.failure:
            write_line(f"{each.topic_partition}  failed: {printable(each.failure)}")
        else:
            write_line(
                f"{each.topic_partition}  {each.records_before} -> {each.records_after} records, "
                f"{each.bytes_before} -> {each.bytes_after} bytes, "
                f"{each.tombstones_removed} tombstones removed"
            )
    flush()
    if any(each.failure for each in outcomes):
        sys.exit(FAILED_EXIT)


@app.command()
def source(
    definition: Annotated[Path, typer.Argument(metavar="DEFINITION", help="YAML of a source.")],
    once: OnceOption = False,
    every: EveryOption = 10.0,
    as_json: JsonOption = False,
) -> None:
    """Write the changes of a table or a directory to a topic, deletes as tombstones."""
    from ledgerstone.pipeline.sources.running import run_source
    from ledgerstone.pipeline.sources.source_files import load_source

    read = load_source(definition)

    def round_() -> None:
        report = run_source(read)
        if as_json:
            write_json(asdict(report))
        elif report.written or once:
            write_line(
                f"{report.written} records written, {report.tombstones} of them tombstones; "
                f"the topic holds {report.keys} keys"
            )
        flush()

    repeat(round_, once=once, every_s=every)


@app.command()
def erase(
    definition: Annotated[
        Path,
        typer.Argument(
            metavar="DEFINITION|DIR",
            help="A pipeline's definition, or the work directory of a stream operator.",
        ),
    ],
    key: Annotated[str, typer.Option("--key", help="The key: text, 0xHEX, or - for stdin.")],
    topic: Annotated[
        str | None, typer.Option("--topic", help="Of the key, where a pipeline has several.")
    ] = None,
    erasure: Annotated[
        str | None, typer.Option("--erasure", metavar="ID", help="Report to this erasure.")
    ] = None,
    api: Annotated[
        str | None,
        typer.Option("--http", metavar="HOST:PORT", help="Overrides the address the brokers give."),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option("--group", help="With a work directory: the group that its query reads as."),
    ] = None,
    snapshots: Annotated[
        list[Path], typer.Option("--snapshots", help="A directory of snapshots to rewrite too.")
    ] = [],  # noqa: B006 - typer copies it
    search_only: Annotated[
        bool, typer.Option("--search", help="Only search; rewrite nothing.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Rewrite outputs that still hold an erased key, search again, and report to the receipt."""
    from ledgerstone.pipeline import erasing
    from ledgerstone.pipeline.definition_files import load_definition
    from ledgerstone.pipeline.verifying import VERIFIER_NAME

    raw = erased_key(key)
    directories = [str(path) for path in snapshots]
    source: Source | None = None
    if definition.is_dir():
        if erasure is not None and api is None:
            raise typer.BadParameter("a work directory does not say where its brokers are: --http")
        findings = [_erase_state(str(definition), raw, search_only=search_only)]
    else:
        pipeline = _of_topic(load_definition(definition), topic)
        source = pipeline.source
        if search_only:
            findings = erasing.search(pipeline, raw, snapshots=directories)
        else:
            findings = erasing.purge(pipeline, raw, snapshots=directories, erasure_id=erasure)
    for each in findings:
        show(_finding_json(each), f"{each.verdict.value:8} {each.output}: {each.evidence}", as_json)
    flush()
    if erasure is not None:
        address = api or ("" if source is None else _api_of(source))
        named = group if source is None else source.group
        reported = erasing.report(address, erasure, findings, verifier=VERIFIER_NAME, group=named)
        _say_reported(erasure, reported, as_json=as_json)
    if any(each.verdict.value != "clean" for each in findings):
        sys.exit(FAILED_EXIT)


def _of_topic(pipeline: "Pipeline", topic: str | None) -> "Pipeline":
    for each in pipeline.each_topic:
        if topic == each.source.topic or (topic is None and not pipeline.source.topics):
            return each
    names = ", ".join(pipeline.source.names)
    raise typer.BadParameter(f"name one of {names}", param_hint="--topic")


def _erase_state(work: str, key: bytes, *, search_only: bool) -> "Finding":
    from ledgerstone.pipeline.streams.state_erasing import purge_state, search_state

    return search_state(work, key) if search_only else purge_state(work, key)


def _say_reported(erasure_id: str, reported: "Reported", *, as_json: bool) -> None:
    if as_json:
        write_json({"erasure": erasure_id, **asdict(reported)})
    elif reported.has_receipt:
        left = f"; {reported.not_verified} outputs not verified" if reported.not_verified else ""
        said = "the receipt" if reported.supplement is None else f"supplement {reported.supplement}"
        write_line(f"{erasure_id} has a receipt: {said} holds this evidence{left}")
    else:
        write_line(f"{erasure_id} has the evidence; it will be part of the receipt")
    flush()


def _api_of(source: "Source") -> str:
    from ledgerstone.pipeline.connecting import connect_to

    with connect_to(source.bootstrap, source.command_config) as client:
        return str(apis_of(client)[0].endpoint)


def _finding_json(finding: "Finding") -> dict[str, str]:
    return {
        "output": finding.output,
        "verdict": finding.verdict.value,
        "evidence": finding.evidence,
    }


def show(content: dict[str, Any], line: str, as_json: bool) -> None:
    if as_json:
        write_json(content)
    else:
        write_line(printable(line))


def repeat(round_: Callable[[], None], *, once: bool, every_s: float) -> None:
    """Repeats until Ctrl-C. A round may be interrupted; the next run resumes it."""
    pause = threading.Event()
    while True:
        round_()
        if once or pause.wait(every_s):
            return
