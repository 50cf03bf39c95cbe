"""`ledgerstone pipeline mirror`. Shell.

Mounted by `cli.pipeline`. Options and exit codes are in docs/connect.md.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ledgerstone.cli.admin_http import TOKEN_ENVIRONMENT
from ledgerstone.cli.command_config import given_bootstrap, given_file
from ledgerstone.cli.key_options import erased_key
from ledgerstone.cli.lazy import new_app
from ledgerstone.cli.options import BootstrapOption, JsonOption
from ledgerstone.cli.output import flush, printable
from ledgerstone.cli.pipeline_flows import (
    FAILED_EXIT,
    EveryOption,
    MasterOption,
    OnceOption,
    repeat,
    show,
)
from ledgerstone.cli.spark_session import ConfOption, spark_session
from ledgerstone.client.errors import BrokerUnreachable, CallTimedOut
from ledgerstone.dataclasses import asdict
from ledgerstone.errors import KafkaError

if TYPE_CHECKING:
    from ledgerstone.pipeline.mirror.rounds import Mirror, RoundReport

app = new_app("Copies of topics on another cluster.")


TopicsArgument = Annotated[
    list[str],
    typer.Argument(metavar="TOPIC[=COPY]…", help="A topic, and optionally the copy's name."),
]
NameOption = Annotated[
    str, typer.Option("--name", help="Its group at the source, and its name in receipts.")
]
GroupOption = Annotated[
    list[str], typer.Option("--group", help="A group whose offsets are translated.")
]
MaxOffsetsOption = Annotated[
    int, typer.Option("--max-offsets", min=1, help="Most offsets per partition and round.")
]
OnMissedOption = Annotated[
    str,
    typer.Option(
        "--on-missed",
        metavar="repair|stop",
        help="What to do about deletes that were removed before they were read.",
    ),
]
ErasureOption = Annotated[
    str | None,
    typer.Option("--erasure", metavar="ID", help="Carry an erasure that was missed; needs --key."),
]
KeyOption = Annotated[
    str | None, typer.Option("--key", help="Its key: text, 0xHEX, or - for stdin.")
]
SourceTokenOption = Annotated[
    str | None,
    typer.Option("--token", envvar=TOKEN_ENVIRONMENT, help="Of the source's HTTP API."),
]
TargetTokenOption = Annotated[
    str | None,
    typer.Option("--to-token", envvar="LEDGERSTONE_TO_HTTP_TOKEN", help="Of the target's."),
]

TargetConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--to-command-config",
        metavar="FILE",
        envvar="LEDGERSTONE_TO_COMMAND_CONFIG",
        help="As --command-config, for the target; else it is that of the source.",
    ),
]


@app.command()
def mirror(
    topics: TopicsArgument,
    target: Annotated[str, typer.Option("--to", metavar="HOST:PORT[,…]")],
    work: Annotated[Path, typer.Option("--work", help="Directory for its progress.")],
    bootstrap: BootstrapOption = "127.0.0.1:9092",
    name: NameOption = "ledgerstone-mirror",
    group: GroupOption = [],  # noqa: B006 - typer copies it
    max_offsets: MaxOffsetsOption = 1_000_000,
    on_missed: OnMissedOption = "repair",
    erasure: ErasureOption = None,
    key: KeyOption = None,
    token: SourceTokenOption = None,
    target_token: TargetTokenOption = None,
    target_config: TargetConfigOption = None,
    verify: Annotated[bool, typer.Option("--verify", help="Fold both sides and compare.")] = False,
    once: OnceOption = False,
    every: EveryOption = 5.0,
    master: MasterOption = "local[*]",
    conf: ConfOption = [],  # noqa: B006 - typer copies it
    as_json: JsonOption = False,
) -> None:
    """Copy topics to another cluster: records, deletes, erasures, settings and group offsets."""
    from ledgerstone.pipeline.mirror.rounds import Mirror, OnMissed, mirror_round

    if on_missed not in [each.value for each in OnMissed]:
        raise typer.BadParameter("it is repair or stop", param_hint="--on-missed")
    names = [each.partition("=") for each in topics]
    wish = Mirror(
        source=given_bootstrap(bootstrap),
        target=target,
        source_config=given_file(),
        target_config=given_file() if target_config is None else str(target_config.absolute()),
        topics={name: copy or name for name, _, copy in names},
        work=str(work),
        group=name,
        groups=group,
        max_offsets=max_offsets,
        on_missed=OnMissed(on_missed),
        source_token=token,
        target_token=target_token,
    )
    if erasure is not None:
        _erase(wish, erasure, key, as_json=as_json)

    def round_() -> None:
        try:
            report = mirror_round(spark, wish)
        except (KafkaError, BrokerUnreachable, CallTimedOut) as error:
            if once:
                raise
            sys.stderr.write(f"ledgerstone: {printable(str(error))}; trying again\n")
            return
        _say(report, as_json=as_json)
        if once and report.failed:
            sys.exit(FAILED_EXIT)

    with spark_session("pipeline mirror", master, given=conf, work=work) as spark:
        repeat(round_, once=once, every_s=every)
    if verify:
        _verify(wish, as_json=as_json)


def _erase(wish: "Mirror", erasure: str, key: str | None, *, as_json: bool) -> None:
    from ledgerstone.pipeline.mirror.rounds import erase_missed

    if key is None or len(wish.topics) != 1:
        raise typer.BadParameter("it needs --key, and one topic", param_hint="--erasure")
    raw = erased_key(key)
    said = erase_missed(wish, erasure, next(iter(wish.topics)), raw)
    show({"erasure": said}, said, as_json)
    flush()


def _say(report: "RoundReport", *, as_json: bool) -> None:
    for copied in report.copied:
        content = asdict(copied)
        del content["runs"], content["erasures"]
        line = f"{copied.partition}  {copied.records} records up to {copied.next_offset}"
        show(content, line, as_json)
    for repaired in report.repaired:
        line = f"{repaired.partition}  {repaired.keys} keys deleted: {repaired.reason}"
        show(asdict(repaired), line, as_json)
    for said in report.erasures:
        show({"erasure": said}, said, as_json)
    for failed in report.failed:
        show(asdict(failed), f"{failed}; trying again", as_json)
    flush()


def _verify(wish: "Mirror", *, as_json: bool) -> None:
    from ledgerstone.pipeline.mirror.verifying import verify_mirror

    checks = verify_mirror(wish)
    for check in checks:
        said = "equal" if check.is_equal else "DIFFERENT"
        line = f"{check.topic}  {check.source_keys} and {check.target_keys} keys: {said}"
        show(asdict(check), line, as_json)
    flush()
    if not all(check.is_equal for check in checks):
        sys.exit(FAILED_EXIT)
