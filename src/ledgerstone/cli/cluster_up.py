"""`ledgerstone cluster up`: a cluster of processes, in the foreground. Shell, on asyncio."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ledgerstone.cli.options import parse_pairs
from ledgerstone.cli.output import printable
from ledgerstone.cluster.layout import ClusterLayout, new_layout
from ledgerstone.cluster.ports import is_free
from ledgerstone.cluster.ready_file import ready_facts
from ledgerstone.config.broker_keys import BROKER_KEYS
from ledgerstone.config.listener_keys import find_key
from ledgerstone.errors import LedgerstoneError
from ledgerstone.system import SystemClock, SystemDice
from ledgerstone.uuid_text import random_uuid, uuid_to_text

if TYPE_CHECKING:
    from ledgerstone.cli.secure_cluster import SecureCluster
    from ledgerstone.cluster.directory import ClusterDirectory
    from ledgerstone.cluster.supervisor import Supervisor

DEFAULT_NODES: Final = 3
# Wide enough for the names of nodes up to 99, and for `cluster`.
_NAME_WIDTH: Final = 7


def up(
    data: Annotated[Path, typer.Option(help="Directory of the cluster; made if it is missing.")],
    nodes: Annotated[
        int | None, typer.Option(min=1, help="Nodes of a new cluster; 3 by default.")
    ] = None,
    ready_file: Annotated[
        Path | None, typer.Option(help="JSON file written when all nodes are up.")
    ] = None,
    base_port: Annotated[
        int | None,
        typer.Option(help="First port of a new cluster; each node takes three, in steps of ten."),
    ] = None,
    host: Annotated[str, typer.Option(help="Address that a new cluster listens on.")] = "127.0.0.1",
    racks: Annotated[
        str, typer.Option(metavar="A,B,…", help="Racks of a new cluster's nodes, in turn.")
    ] = "",
    override: Annotated[
        list[str] | None, typer.Option("-c", help="key=value for every node of a new cluster.")
    ] = None,
    log_level: Annotated[
        str, typer.Option(help="Of the nodes: debug, info, warning or error.")
    ] = "warning",
    secure: Annotated[
        bool,
        typer.Option(
            "--secure",
            help="A new cluster with TLS, logins and ACLs. Files for clients are in DATA/secure.",
        ),
    ] = False,
) -> None:
    """Run a cluster of real processes on this machine. Ctrl-C stops it; a second one kills it.

    The first three nodes are brokers and controllers, others only brokers. Topics have three
    replicas by default, min.insync.replicas=2. A node that ends is started again. A directory that
    holds a cluster is continued: same nodes, same ports."""
    from ledgerstone.cluster.directory import ClusterDirectory

    directory = ClusterDirectory(data)
    settings = parse_pairs(override or [])
    unknown = [key for key in settings if find_key(key, BROKER_KEYS) is None]
    if unknown:
        raise typer.BadParameter(f"{unknown[0]} is not a setting of a broker", param_hint="-c")
    if ready_file is not None and not ready_file.parent.is_dir():
        raise typer.BadParameter(f"{ready_file.parent} is no directory", param_hint="--ready-file")
    try:
        lock = directory.lock()
    except OSError as error:
        raise typer.BadParameter(str(error), param_hint="--data") from error
    try:
        layout = directory.load()
        if layout is None:
            directory.check_new()
            if secure:
                settings |= _set_up(directory.path, host).settings
            layout = _new(
                nodes or DEFAULT_NODES,
                host,
                base_port,
                [each for each in racks.split(",") if each],
                settings,
            )
            directory.save(layout)
        elif nodes is not None and nodes != len(list(layout)):
            _say("cluster", f"{data} holds {len(list(layout))} nodes; --nodes is for a new cluster")
        _write_client_files(directory.path, layout, is_wanted=secure)
        code = asyncio.run(_run(directory, layout, ready_file, log_level))
    finally:
        os.close(lock)
    raise typer.Exit(code)


def _new(
    nodes: int, host: str, base_port: int | None, racks: list[str], settings: dict[str, str]
) -> ClusterLayout:
    dice = SystemDice()
    return new_layout(
        node_count=nodes,
        cluster_id=uuid_to_text(random_uuid(dice)),
        directory_ids=[uuid_to_text(random_uuid(dice)) for _ in range(nodes)],
        host=host,
        base_port=base_port,
        is_free=lambda port: is_free(host, port),
        racks=racks,
        settings=settings,
    )


def _set_up(data: Path, host: str) -> "SecureCluster":
    from ledgerstone.cli.secure_cluster import set_up_cluster

    made = set_up_cluster(data, host, SystemClock(), SystemDice())
    if made.is_new:
        _say("cluster", f"secure user=admin password={made.password} files={made.directory}")
    return made


def _write_client_files(data: Path, layout: ClusterLayout, *, is_wanted: bool) -> None:
    """Also of a cluster that is continued: a certificate that ends soon is made anew."""
    from ledgerstone.cli.secure_cluster import is_secure

    if is_secure(data):
        bootstrap = ",".join(map(layout.bootstrap_of, layout))
        _set_up(data, layout.host).write_client_files(bootstrap)
    elif is_wanted:
        raise typer.BadParameter(f"{data} holds a cluster without it", param_hint="--secure")


def _say(name: str, text: str) -> None:
    try:
        sys.stdout.write(f"{name:<{_NAME_WIDTH}} | {printable(text)}\n")
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has gone, and the cluster goes on: what is said from now on is lost.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


async def _run(
    directory: "ClusterDirectory",
    layout: ClusterLayout,
    ready_file: Path | None,
    log_level: str,
) -> int:
    # Imported here: `ledgerstone cluster --help` must not load them.
    from ledgerstone.cluster.control_server import ControlServer
    from ledgerstone.cluster.supervisor import Supervisor
    from ledgerstone.private_files import write_private

    is_ready = False

    def tell() -> None:
        if ready_file is not None and is_ready and not supervisor.is_stopping:
            facts = ready_facts(supervisor.describe()["nodes"])
            write_private(str(ready_file), json.dumps(facts).encode() + b"\n")

    supervisor = Supervisor(directory, layout, say=_say, log_level=log_level, on_change=tell)
    control = ControlServer(supervisor)
    stopping = _on_signals(supervisor)
    if ready_file is not None:
        ready_file.unlink(missing_ok=True)
    code = 0
    try:
        supervisor.begin()
        await control.start()
        starting = asyncio.create_task(supervisor.until_up())
        interrupted = asyncio.create_task(stopping.wait())
        await asyncio.wait((starting, interrupted), return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
            is_ready = True
            tell()
            _greet(supervisor)
            await stopping.wait()
        else:
            starting.cancel()
    except LedgerstoneError as error:
        _say("cluster", str(error))
        code = 1
    finally:
        _say("cluster", "stops: brokers hand over what they lead; Ctrl-C again kills them")
        if ready_file is not None:
            ready_file.unlink(missing_ok=True)
        await supervisor.stop()
        control.stop()
        _say("cluster", "stopped")
    return code


def _on_signals(supervisor: "Supervisor") -> asyncio.Event:
    stopping = asyncio.Event()

    def stop() -> None:
        if stopping.is_set():
            _say("cluster", "kills what still runs")
            supervisor.kill_all()
        stopping.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop)
    return stopping


def _greet(supervisor: "Supervisor") -> None:
    nodes = supervisor.describe()["nodes"]
    facts = ready_facts(nodes)
    _say("cluster", f"ready bootstrap={facts['bootstrap']} http={facts['http']}")
    for each in nodes:
        _say(f"node-{each['id']}", f"page http://{each['http']}/?token={each['token']}")
