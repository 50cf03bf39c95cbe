"""`ledgerstone cluster add`, `spread`, `replicate`, `drain`, `remove`. Shell."""

from typing import Annotated

import typer

from ledgerstone.cli.cluster_place import ClusterOption, ClusterPlace, DataOption
from ledgerstone.cli.options import JsonOption
from ledgerstone.cli.output import flush, write_json, write_line
from ledgerstone.client import quorum_admin
from ledgerstone.client.blocking import Client
from ledgerstone.client.cluster_admin import (
    BrokerInfo,
    describe_cluster,
    list_reassignments,
    unregister_broker,
)
from ledgerstone.cluster.moves import (
    BrokerPlace,
    CannotMove,
    Move,
    plan_drain,
    plan_factor,
    plan_spread,
)
from ledgerstone.cluster.moving import AT_ONCE, Moving, assigned_partitions
from ledgerstone.errors import LedgerstoneError, UnknownTopicOrPartition

BrokerArgument = Annotated[int, typer.Argument(metavar="BROKER-ID", min=0)]
AtOnceOption = Annotated[
    int, typer.Option("--at-once", min=1, help="Partitions that move at a time.")
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show the moves; move nothing.")]


class NoSuchBroker(LedgerstoneError):
    """A command names a broker that is not registered, or does not serve."""


def add(
    data: DataOption = None,
    rack: Annotated[str | None, typer.Option(help="broker.rack of the new broker.")] = None,
    spread_onto: Annotated[
        bool, typer.Option("--spread", help="Move its share of partitions to it.")
    ] = False,
    at_once: AtOnceOption = AT_ONCE,
    as_json: JsonOption = False,
) -> None:
    """Add a broker to a cluster of `cluster up`. It gets new partitions; with --spread old ones."""
    place = ClusterPlace.of(data, None)
    _wait_line("waits for a new broker to be up")
    node_id = place.ask({"do": "add", "rack": rack})["node"]
    moves = []
    if spread_onto:
        with place.client() as client:
            moves = _spread(client, [node_id], at_once)
    if as_json:
        write_json({"node": node_id, "moved": len(moves)})
    else:
        write_line(f"added broker {node_id}{_moved(moves) if spread_onto else ''}")
        if not spread_onto:
            write_line(f"to move partitions onto it: ledgerstone cluster spread {node_id}")
    flush()


def spread(
    brokers: Annotated[list[int], typer.Argument(metavar="BROKER-ID…", min=0)],
    data: DataOption = None,
    bootstrap: ClusterOption = None,
    wait: Annotated[
        float, typer.Option(metavar="SECONDS", help="For brokers that are still starting.")
    ] = 30.0,
    at_once: AtOnceOption = AT_ONCE,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Move to new brokers their share of partitions, evenly, and let them lead some."""
    with ClusterPlace.of(data, bootstrap).client() as client:
        moving = Moving(client, _wait_line)
        moving.wait_for(
            lambda: not set(brokers) - {each.id for each in _serving(client)},
            f"broker {', '.join(map(str, brokers))} to serve",
            at_most_s=wait,
        )
        moves = _spread(client, brokers, at_once, dry_run=dry_run)
    _tell(moves, f"spread onto {', '.join(map(str, brokers))}", dry_run=dry_run, as_json=as_json)


def drain(
    broker: BrokerArgument,
    data: DataOption = None,
    bootstrap: ClusterOption = None,
    at_once: AtOnceOption = AT_ONCE,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Move every replica off a broker. It stays in the cluster, and may get new ones."""
    with ClusterPlace.of(data, bootstrap).client() as client:
        moves = _drain(client, broker, at_once, dry_run=dry_run)
    _tell(moves, f"drained broker {broker}", dry_run=dry_run, as_json=as_json)


def remove(
    broker: BrokerArgument,
    data: DataOption = None,
    bootstrap: ClusterOption = None,
    at_once: AtOnceOption = AT_ONCE,
    as_json: JsonOption = False,
) -> None:
    """Drain a broker, stop it, and let the cluster forget it. Its directory is kept.

    On other machines (--bootstrap) stop it yourself once it is drained: the command waits for
    that."""
    place = ClusterPlace.of(data, bootstrap)
    with place.client(without=broker) as client:
        moves = _drain(client, broker, at_once, is_last=True)
        voters = _leave_quorum(client, broker)
        directory = None
        if place.data is not None:
            _wait_line(f"waits for broker {broker} to stop")
            directory = place.ask({"do": "retire", "node": broker})["directory"]
        moving = Moving(client, _wait_line)
        moving.wait_for(
            lambda: _is_gone(client, broker), f"broker {broker} to be stopped on its machine"
        )
        unregister_broker(client, broker)
    if as_json:
        write_json({"broker": broker, "moved": len(moves), "directory": directory})
    else:
        kept = f"; its directory {directory} is kept" if directory else ""
        write_line(f"removed broker {broker}{_moved(moves)}{kept}")
        if voters == 2:
            write_line("two voters are left: the failure of either stops the cluster")
    flush()


def replicate(
    factor: Annotated[int, typer.Option(min=1, help="Replicas that each partition gets.")],
    topic: Annotated[
        list[str] | None, typer.Option("--topic", help="Only of this topic; repeatable.")
    ] = None,
    data: DataOption = None,
    bootstrap: ClusterOption = None,
    at_once: AtOnceOption = AT_ONCE,
    dry_run: DryRunOption = False,
    as_json: JsonOption = False,
) -> None:
    """Give partitions more replicas, as after growing from one broker to three."""
    with ClusterPlace.of(data, bootstrap).client() as client:
        assigned = assigned_partitions(client)
        known = {each.topic: None for each in assigned}
        for name in topic or ():
            if name not in known:
                raise UnknownTopicOrPartition(f"there is no topic {name}")
        chosen = [each for each in assigned if topic is None or each.topic in topic]
        moves = plan_factor(_places(_serving(client)), chosen, factor)
        if not dry_run:
            Moving(client, _wait_line, at_once=at_once).carry_out(moves)
    _tell(moves, f"each partition has {factor} replicas", dry_run=dry_run, as_json=as_json)


# -- what they share -----------------------------------------------------------------------------


def _wait_line(text: str) -> None:
    typer.echo(text, err=True)


def _serving(client: Client) -> list[BrokerInfo]:
    return [each for each in describe_cluster(client).brokers if not each.is_fenced]


def _places(brokers: list[BrokerInfo]) -> list[BrokerPlace]:
    return [BrokerPlace(each.id, each.rack) for each in brokers]


def _spread(client: Client, onto: list[int], at_once: int, *, dry_run: bool = False) -> list[Move]:
    serving = _serving(client)
    missing = set(onto) - {each.id for each in serving}
    if missing:
        known = ", ".join(str(each.id) for each in serving)
        raise NoSuchBroker(f"broker {min(missing)} does not serve; brokers are {known}")
    moves = plan_spread(_places(serving), assigned_partitions(client), onto)
    if not dry_run:
        Moving(client, _wait_line, at_once=at_once).carry_out(moves)
    return moves


def _drain(
    client: Client, broker: int, at_once: int, *, dry_run: bool = False, is_last: bool = False
) -> list[Move]:
    """`is_last`: a broker that is not known any more is drained."""
    known = [each.id for each in describe_cluster(client).brokers]
    if broker not in known and not is_last:
        raise NoSuchBroker(
            f"broker {broker} is not registered; brokers are {', '.join(map(str, known))}"
        )
    serving = [each for each in _serving(client) if each.id != broker]
    if not serving:
        raise CannotMove(f"no other broker serves: broker {broker} cannot be drained")
    moves = plan_drain(_places(serving), assigned_partitions(client), broker)
    if not dry_run:
        moving = Moving(client, _wait_line, at_once=at_once)
        moving.carry_out(moves)
        # Moves of an earlier run that was interrupted.
        moving.wait_for(
            lambda: (
                not any(broker in each.removing for each in list_reassignments(client).values())
            ),
            f"replicas to leave broker {broker}",
        )
    return moves


def _leave_quorum(client: Client, broker: int) -> int:
    """How many voters are left."""
    quorum = quorum_admin.describe_quorum(client)
    for voter in quorum.voters:
        if voter.node_id == broker:
            if len(quorum.voters) == 1:
                raise CannotMove(f"broker {broker} is the only voter of the quorum")
            quorum_admin.remove_voter(client, node_id=broker, directory_id=voter.directory_id)
            return len(quorum.voters) - 1
    return len(quorum.voters)


def _is_gone(client: Client, broker: int) -> bool:
    """Stopped, or forgotten already."""
    return all(each.id != broker or each.is_fenced for each in describe_cluster(client).brokers)


def _moved(moves: list[Move]) -> str:
    copies = sum(each.copies for each in moves)
    return f", moved {copies} replicas of {len(moves)} partitions"


def _tell(moves: list[Move], done: str, *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        for move in moves:
            write_json({**move._asdict(), "copies": move.copies})
    elif dry_run:
        for move in moves:
            before, after = (",".join(map(str, side)) for side in (move.before, move.after))
            write_line(f"{move.topic}-{move.partition}  {before} -> {after}")
        write_line(f"would move {sum(each.copies for each in moves)} replicas")
    else:
        write_line(f"{done}{_moved(moves)}")
    flush()
