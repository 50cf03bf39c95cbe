"""`ledgerstone format`: gives a node of a quorum its identity and its first voters. Shell."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ledgerstone.cli.output import flush, write_line
from ledgerstone.config.broker import BrokerConfig, load_broker_config
from ledgerstone.errors import FormatRefused
from ledgerstone.system import OsFilesystem, SystemClock, SystemDice
from ledgerstone.uuid_text import random_uuid, uuid_to_text

if TYPE_CHECKING:
    from ledgerstone.server.formatting.plan import FormatPlan

ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config", "-c", help="The server.properties of this node; KAFKA_… variables override it."
    ),
]
ClusterId = Annotated[
    str | None,
    typer.Option("--cluster-id", "-t", help="The same for every node of the cluster."),
]


FirstUsers = Annotated[
    list[str] | None,
    typer.Option(
        "--add-scram",
        "-S",
        metavar="MECHANISM=[name=…,password=…]",
        help="A first user; repeatable. - reads one from each line of stdin, which keeps passwords "
        "out of the list of processes.",
    ),
]


def _print_uuid(asked: bool) -> None:
    if asked:
        typer.echo(uuid_to_text(random_uuid(SystemDice())))
        raise typer.Exit


def format_directory(
    config: ConfigFile = None,
    cluster_id: ClusterId = None,
    standalone: Annotated[
        bool, typer.Option("--standalone", "-s", help="This controller is the only first voter.")
    ] = False,
    initial_controllers: Annotated[
        str | None,
        typer.Option(
            "--initial-controllers",
            "-I",
            metavar="ID@HOST:PORT:DIRECTORY-ID,…",
            help="The first voters; the same list for every node.",
        ),
    ] = None,
    no_initial_controllers: Annotated[
        bool,
        typer.Option(
            "--no-initial-controllers",
            "-N",
            help="For brokers, and controllers that join a running quorum.",
        ),
    ] = False,
    release_version: Annotated[
        str | None,
        typer.Option("--release-version", "-r", help="Features of this release, such as 4.0."),
    ] = None,
    feature: Annotated[
        list[str] | None,
        typer.Option("--feature", "-f", metavar="NAME=LEVEL", help="One feature; repeatable."),
    ] = None,
    add_scram: FirstUsers = None,
    ignore_formatted: Annotated[
        bool,
        typer.Option("--ignore-formatted", "-g", help="Leave a formatted directory as it is."),
    ] = False,
    random_uuid_asked: Annotated[
        bool,
        typer.Option(
            "--random-uuid",
            callback=_print_uuid,
            is_eager=True,
            help="Print a new id for a cluster or a directory, and exit.",
        ),
    ] = False,
) -> None:
    """Format the log directory of a node with process.roles. A single node needs no format.

    Writes meta.properties, bootstrap.checkpoint and, with first voters, the first snapshot of the
    metadata, as Kafka's kafka-storage does. Refuses a directory that holds anything."""
    # Imported here: they load much that --help does not need.
    from ledgerstone.server.formatting.plan import FormatOptions, plan_format
    from ledgerstone.server.formatting.writing import write_format

    options = FormatOptions(
        cluster_id=cluster_id,
        is_standalone=standalone,
        initial_controllers=initial_controllers,
        has_no_initial_controllers=no_initial_controllers,
        release=release_version,
        features=_features(feature or []),
        scram_users=tuple(_users(add_scram or [])),
    )
    plan = plan_format(_load(config), options, SystemDice())
    is_new = write_format(OsFilesystem(), SystemClock(), plan, ignore_formatted=ignore_formatted)
    if is_new:
        _tell(plan)
    else:
        write_line(f"{plan.path} is formatted already, and was left as it is")
    flush()


def _tell(plan: "FormatPlan") -> None:
    from ledgerstone.metadata.releases import name_of
    from ledgerstone.security.scram_keys import ScramMechanism

    write_line(
        f"formatted {plan.path}  cluster {plan.cluster_id}  node {plan.node_id}"
        f"  directory {uuid_to_text(plan.directory_id)}"
    )
    for path, directory_id in plan.others:
        write_line(f"formatted {path}  directory {uuid_to_text(directory_id)}")
    for name, level in plan.features.items():
        text = f" ({name_of(level)})" if name == "metadata.version" else ""
        write_line(f"feature {name} {level}{text}")
    for user in plan.scram_users:
        write_line(f"user {user.name}  {ScramMechanism(user.mechanism).text}")
    for voter in plan.voters.voters if plan.voters is not None else ():
        at = voter.listeners[0]
        write_line(
            f"voter {voter.key.id}  {at.host}:{at.port}"
            f"  directory {uuid_to_text(voter.key.directory_id)}"
        )


def _users(given: list[str]) -> Iterator[str]:
    for text in given:
        if text == "-":
            yield from (line.strip() for line in sys.stdin if line.strip())
        else:
            yield text


def _load(path: Path | None) -> BrokerConfig:
    try:
        properties = b"" if path is None else path.read_bytes()
    except OSError as error:
        raise typer.BadParameter(str(error), param_hint="--config") from error
    return load_broker_config(properties=properties, environment=os.environ).config


def _features(given: list[str]) -> dict[str, int]:
    found = {}
    for pair in given:
        name, equals, level = pair.partition("=")
        if not equals or not (level.isascii() and level.isdigit() and len(level) <= 5):
            raise FormatRefused(f"--feature {pair}: must be NAME=LEVEL")
        found[name.strip()] = int(level)
    return found
