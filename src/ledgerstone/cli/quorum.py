"""`ledgerstone quorum`: the voters of the metadata quorum, shown, added and removed. Shell."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final, NamedTuple, TypeVar

import typer

from ledgerstone.cli.lazy import new_app
from ledgerstone.cli.options import (
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    JsonOption,
    connect,
    parse_bootstrap,
    session_config,
)
from ledgerstone.cli.output import Cell, flush, show_time, write_json, write_line, write_rows
from ledgerstone.client import quorum_admin
from ledgerstone.client.blocking import Client
from ledgerstone.client.quorum_admin import QuorumDescription, QuorumReplica, VoterEndpoint
from ledgerstone.config.broker import load_broker_config
from ledgerstone.fs import join
from ledgerstone.storage.filenames import META_PROPERTIES
from ledgerstone.storage.log_dir_files import read_meta_properties
from ledgerstone.system import OsFilesystem
from ledgerstone.uuid_text import ZERO_UUID, uuid_from_text, uuid_to_text

app = new_app("Show the voters of the metadata quorum, add and remove them.")

T = TypeVar("T")
ControllerOption = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-controller",
        metavar="HOST:PORT[,…]",
        help="Ask these controllers, not brokers.",
    ),
]
_COLUMNS: Final = (
    "node",
    "role",
    "directory",
    "endpoint",
    "end_offset",
    "lag",
    "last_fetch",
    "last_caught_up",
)


def _ask(bootstrap: str, controllers: str | None, ask: Callable[[Client], T]) -> T:
    if controllers is None:
        with connect(bootstrap) as client:
            return ask(client)
    return quorum_admin.on_the_leader(parse_bootstrap(controllers), session_config(), ask)


@app.command("status")
def status(
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    bootstrap_controller: ControllerOption = None,
) -> None:
    """Show the leader, and for every voter and observer how far behind it is."""
    found = _ask(bootstrap, bootstrap_controller, quorum_admin.describe_quorum)
    if as_json:
        for row in _rows(found):
            shown = dict(zip(_COLUMNS, row, strict=True))
            write_json(
                {
                    **shown,
                    "leader": found.leader_id,
                    "epoch": found.leader_epoch,
                    "high_watermark": found.high_watermark,
                }
            )
        flush()
        return
    write_line(
        f"leader {found.leader_id}  epoch {found.leader_epoch}"
        f"  high watermark {found.high_watermark}  voters {len(found.voters)}"
    )
    write_rows(_COLUMNS, _rows(found), as_json=False)


def _rows(found: QuorumDescription) -> list[tuple[Cell, ...]]:
    return [
        *(_row(found, each, "voter") for each in found.voters),
        *(_row(found, each, "observer") for each in found.observers),
    ]


def _row(found: QuorumDescription, each: QuorumReplica, role: str) -> tuple[Cell, ...]:
    is_leader = role == "voter" and each.node_id == found.leader_id
    at = found.endpoints.get(each.node_id, ())
    known = each.directory_id != ZERO_UUID
    return (
        each.node_id,
        "leader" if is_leader else role,
        uuid_to_text(each.directory_id) if known else None,
        f"{at[0].host}:{at[0].port}" if at and role == "voter" else None,
        each.log_end_offset,
        found.lag_of(each),
        None if each.last_fetch_ms is None else show_time(each.last_fetch_ms),
        None if each.last_caught_up_ms is None else show_time(each.last_caught_up_ms),
    )


class _NewVoter(NamedTuple):
    node_id: int
    directory_id: bytes
    endpoints: tuple[VoterEndpoint, ...]
    cluster_id: str | None


@app.command("add")
def add(
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", help="server.properties of the new voter, on its machine."),
    ] = None,
    node_id: Annotated[int | None, typer.Option("--node-id", min=0)] = None,
    directory_id: Annotated[
        str | None, typer.Option("--directory-id", help="As its format printed it.")
    ] = None,
    endpoint: Annotated[
        str | None,
        typer.Option("--endpoint", metavar="NAME://HOST:PORT", help="Its controller listener."),
    ] = None,
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    bootstrap_controller: ControllerOption = None,
) -> None:
    """Make a running controller a voter: from its server.properties, or by its ids.

    The node runs already, and has caught up as an observer."""
    voter = _voter_of(config, node_id, directory_id, endpoint)
    _ask(
        bootstrap,
        bootstrap_controller,
        lambda client: quorum_admin.add_voter(
            client,
            node_id=voter.node_id,
            directory_id=voter.directory_id,
            endpoints=voter.endpoints,
            cluster_id=voter.cluster_id,
        ),
    )
    _tell("added", voter.node_id, voter.directory_id, as_json=as_json)


@app.command("remove")
def remove(
    node_id: Annotated[int, typer.Argument(metavar="NODE-ID", min=0)],
    directory_id: Annotated[
        str | None,
        typer.Option("--directory-id", help="Default: that of the voter with this node id."),
    ] = None,
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    bootstrap_controller: ControllerOption = None,
) -> None:
    """Take a voter out of the quorum. Stop its node afterwards."""
    wanted = None if directory_id is None else _directory(directory_id)

    def change(client: Client) -> bytes:
        directory = wanted or _directory_of(quorum_admin.describe_quorum(client), node_id)
        quorum_admin.remove_voter(client, node_id=node_id, directory_id=directory)
        return directory

    directory = _ask(bootstrap, bootstrap_controller, change)
    _tell("removed", node_id, directory, as_json=as_json)


@app.command("upgrade")
def upgrade(
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    bootstrap_controller: ControllerOption = None,
) -> None:
    """Raise kraft.version to 1: voters move from controller.quorum.voters into the metadata.

    Only then can voters be added and removed. There is no way back."""
    _ask(
        bootstrap,
        bootstrap_controller,
        lambda client: quorum_admin.upgrade_quorum(client, 1),
    )
    if as_json:
        write_json({"kraft_version": 1})
    else:
        write_line("kraft.version is 1: remove controller.quorum.voters from every node's settings")
    flush()


def _voter_of(
    config: Path | None, node_id: int | None, directory_id: str | None, endpoint: str | None
) -> _NewVoter:
    by_ids = [each for each in (node_id, directory_id, endpoint) if each is not None]
    if len(by_ids) != (0 if config is not None else 3):
        raise typer.BadParameter(
            "give --config, or all of --node-id, --directory-id and --endpoint"
        )
    if config is not None:
        return _voter_of_file(config)
    assert node_id is not None
    assert directory_id is not None
    assert endpoint is not None
    name, separator, address = endpoint.partition("://")
    if not separator:
        raise typer.BadParameter(f"{endpoint!r} is not NAME://HOST:PORT", param_hint="--endpoint")
    places = parse_bootstrap(address)
    if len(places) != 1:
        raise typer.BadParameter(f"{endpoint!r} is more than one address", param_hint="--endpoint")
    place = VoterEndpoint(name.upper(), places[0].host, places[0].port)
    return _NewVoter(node_id, _directory(directory_id), (place,), None)


def _voter_of_file(path: Path) -> _NewVoter:
    """As the node itself would say it."""
    try:
        properties = path.read_bytes()
    except OSError as error:
        raise typer.BadParameter(str(error), param_hint="--config") from error
    config = load_broker_config(properties=properties, environment=os.environ).config
    if not config.cluster.advertised_controller_listeners:
        raise typer.BadParameter("has not the role controller", param_hint="--config")
    meta_file = join(config.cluster.metadata_log_dir, META_PROPERTIES)
    meta = read_meta_properties(OsFilesystem(), meta_file)
    if meta is None or meta.directory_id is None:
        raise typer.BadParameter(f"{meta_file} is missing: format it", param_hint="--config")
    return _NewVoter(
        config.node_id,
        meta.directory_id,
        tuple(VoterEndpoint(*each) for each in config.cluster.advertised_controller_listeners),
        meta.cluster_id,
    )


def _directory(text: str) -> bytes:
    try:
        return uuid_from_text(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--directory-id") from error


def _directory_of(found: QuorumDescription, node_id: int) -> bytes:
    for each in found.voters:
        if each.node_id == node_id:
            return each.directory_id
    voters = ", ".join(str(each.node_id) for each in found.voters)
    raise typer.BadParameter(f"node {node_id} is not a voter; voters are {voters}")


def _tell(what: str, node_id: int, directory_id: bytes, *, as_json: bool) -> None:
    directory = uuid_to_text(directory_id)
    if as_json:
        write_json({"change": what, "node": node_id, "directory": directory})
    else:
        write_line(f"{what} voter {node_id}, directory {directory}")
    flush()
