"""`ledgerstone cluster`: a cluster on this machine, and the nodes of `cluster up`. Shell."""

import signal
from typing import Annotated

import typer

from ledgerstone.cli.cluster_brokers import add, drain, remove, replicate, spread
from ledgerstone.cli.cluster_place import ClusterPlace, DataOption
from ledgerstone.cli.cluster_status import status
from ledgerstone.cli.cluster_up import up
from ledgerstone.cli.lazy import new_app
from ledgerstone.cli.options import JsonOption
from ledgerstone.cli.output import flush, write_json, write_line

app = new_app("Run a cluster on this machine; show, add, drain and remove brokers.")
app.command("up")(up)
app.command("status")(status)
app.command("add")(add)
app.command("spread")(spread)
app.command("replicate")(replicate)
app.command("drain")(drain)
app.command("remove")(remove)

NodeArgument = Annotated[int, typer.Argument(metavar="NODE-ID", min=0)]


@app.command("kill")
def kill(
    node: NodeArgument,
    data: DataOption = None,
    signal_name: Annotated[
        str, typer.Option("--signal", help="KILL, TERM, STOP, CONT, or a number.")
    ] = "KILL",
    no_restart: Annotated[
        bool, typer.Option("--no-restart", help="Leave it down until `cluster start`.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Send a signal to a node, to see what happens. A node that ends is started again."""
    number = _signal(signal_name)
    request = {"do": "kill", "node": node, "signal": int(number), "restart": not no_restart}
    pid = ClusterPlace.of(data, None).ask(request)["pid"]
    if as_json:
        write_json({"node": node, "pid": pid, "signal": number.name})
    elif pid is None:
        write_line(f"node {node} is down already")
    else:
        write_line(f"sent {number.name} to node {node}, pid {pid}")
    flush()


def _signal(text: str) -> signal.Signals:
    try:
        if text.isascii() and text.isdecimal():
            return signal.Signals(int(text))
        name = text.upper()
        return signal.Signals[name if name.startswith("SIG") else f"SIG{name}"]
    except (KeyError, ValueError) as error:
        raise typer.BadParameter(f"there is no signal {text}", param_hint="--signal") from error


@app.command("start")
def start(node: NodeArgument, data: DataOption = None, as_json: JsonOption = False) -> None:
    """Start a node that is down, after `kill --no-restart` or too many failures."""
    place = ClusterPlace.of(data, None)
    typer.echo(f"waits for node {node} to be up", err=True)
    place.ask({"do": "start", "node": node})
    if as_json:
        write_json({"node": node, "state": "up"})
    else:
        write_line(f"node {node} is up")
    flush()
