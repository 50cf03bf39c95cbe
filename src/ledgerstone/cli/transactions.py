"""`ledgerstone transactions`: what is open, since when, and how to end it. Shell."""

from typing import Annotated

import typer

from ledgerstone.cli.lazy import new_app
from ledgerstone.cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, JsonOption, connect
from ledgerstone.cli.output import (
    Cell,
    flush,
    printable,
    show_time,
    write_json,
    write_line,
    write_rows,
)
from ledgerstone.client import transaction_admin
from ledgerstone.client.blocking import Client
from ledgerstone.client.transaction_admin import (
    HANGING_AFTER_MS,
    TransactionDescription,
    TxnInPartition,
)
from ledgerstone.dataclasses import asdict
from ledgerstone.errors import InvalidTxnState
from ledgerstone.system import SystemClock
from ledgerstone.types import TopicPartition

app = new_app("List and describe transactions, find hanging ones, abort them.")

IdArgument = Annotated[str, typer.Argument(metavar="TRANSACTIONAL-ID")]
_COLUMNS = ("topic", "partition", "start_offset", "producer_id", "producer_epoch", "last_write")


@app.command("list")
def list_transactions(
    state: Annotated[
        list[str] | None,
        typer.Option("--state", help="Only these: Ongoing, PrepareCommit, …; repeatable."),
    ] = None,
    producer_id: Annotated[
        list[int] | None, typer.Option("--producer-id", help="Only these; repeatable.")
    ] = None,
    longer_than_ms: Annotated[
        int, typer.Option("--longer-than-ms", min=-1, help="Only those open for longer.")
    ] = -1,
    pattern: Annotated[
        str | None, typer.Option("--pattern", help="Only ids this expression matches as a whole.")
    ] = None,
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """List transactional ids and their states."""
    with connect(bootstrap) as client:
        found = transaction_admin.list_transactions(
            client,
            states=state or (),
            producer_ids=producer_id or (),
            longer_than_ms=longer_than_ms,
            pattern=pattern,
        )
    rows: list[tuple[Cell, ...]] = [
        (each.transactional_id, each.coordinator, each.producer_id, each.state) for each in found
    ]
    write_rows(("transactional_id", "coordinator", "producer_id", "state"), rows, as_json=as_json)


@app.command("describe")
def describe(
    transactional_id: IdArgument,
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Show the transaction of an id: its producer, since when it is open, its partitions."""
    with connect(bootstrap) as client:
        found = transaction_admin.describe_transaction(client, transactional_id)
    _show(found, as_json=as_json)
    flush()


def _show(found: TransactionDescription, *, as_json: bool) -> None:
    if as_json:
        write_json({**asdict(found), "partitions": [list(each) for each in found.partitions]})
        return
    open_for_ms = None if found.start_ms is None else SystemClock().now_ms() - found.start_ms
    write_line(
        f"transactional id {printable(found.transactional_id)}  state {found.state}"
        f"  producer {found.producer_id}  epoch {found.producer_epoch}"
        f"  timeout {found.timeout_ms} ms"
    )
    if found.start_ms is not None:
        write_line(f"open since {show_time(found.start_ms)}, for {open_for_ms} ms")
    for each in found.partitions:
        write_line(f"  {printable(str(each))}")


@app.command("abort")
def abort(
    transactional_id: Annotated[
        str | None, typer.Argument(metavar="[TRANSACTIONAL-ID]", help="Whose transaction.")
    ] = None,
    topic: Annotated[
        str | None, typer.Option("--topic", "-t", help="Of a hanging transaction.")
    ] = None,
    partition: Annotated[int | None, typer.Option("--partition", "-p", min=0)] = None,
    start_offset: Annotated[
        int | None, typer.Option("--start-offset", min=0, help="As find-hanging shows it.")
    ] = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Also where a coordinator has it: tears the transaction."),
    ] = False,
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Abort an open transaction, by its id, or a hanging one by where it starts.

    By its id the producer is fenced: it cannot go on, and has to start again. A hanging
    transaction has no coordinator; its marker is written into the one partition."""
    place = [each for each in (topic, partition, start_offset) if each is not None]
    if len(place) != (3 if transactional_id is None else 0):
        raise typer.BadParameter(
            "give a transactional id, or all of --topic, --partition and --start-offset"
        )
    with connect(bootstrap) as client:
        if transactional_id is not None:
            found = transaction_admin.abort_transaction(client, transactional_id)
            _say_aborted(
                f"the transaction of {printable(transactional_id)}", found.producer_id, as_json
            )
        else:
            assert topic is not None
            assert partition is not None
            hanging = _at(client, TopicPartition(topic, partition), start_offset)
            if not force:
                _refuse_owned(client, hanging)
            transaction_admin.abort_hanging(client, hanging)
            place_text = f"{printable(str(hanging.partition))} from offset {start_offset}"
            _say_aborted(f"the transaction in {place_text}", hanging.producer_id, as_json)
    flush()


def _at(client: Client, partition: TopicPartition, start_offset: int | None) -> TxnInPartition:
    for each in transaction_admin.open_transactions(client, [partition]):
        if each.start_offset == start_offset:
            return each
    raise InvalidTxnState(f"no transaction in {partition} is open from offset {start_offset}")


def _refuse_owned(client: Client, transaction: TxnInPartition) -> None:
    """Its other partitions could still be committed: part of a transaction would be lost."""
    owner = transaction_admin.owners_of(client, [transaction]).get(transaction)
    if owner is not None:
        raise InvalidTxnState(
            f"the transaction in {transaction.partition} does not hang: it belongs to the "
            f"transactional id {owner}; abort it by that id"
        )


def _say_aborted(what: str, producer_id: int, as_json: bool) -> None:
    if as_json:
        write_json({"aborted": what, "producer_id": producer_id})
    else:
        write_line(f"aborted {what}, of producer {producer_id}")


@app.command("open")
def open_in(
    topic: Annotated[str, typer.Argument(metavar="TOPIC")],
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Show the open transactions in each partition of a topic."""
    with connect(bootstrap) as client:
        found = transaction_admin.open_transactions(client, _partitions(client, topic))
    _show_open(found, as_json=as_json)


@app.command("find-hanging")
def find_hanging(
    topic: Annotated[
        str | None, typer.Option("--topic", "-t", help="Default: every topic.")
    ] = None,
    older_than_ms: Annotated[
        int,
        typer.Option("--older-than-ms", min=0, help="Silent for longer than this."),
    ] = HANGING_AFTER_MS,
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Find open transactions that no coordinator will end; they stop committed readers."""
    with connect(bootstrap) as client:
        partitions = (
            [
                TopicPartition(each.name, number)
                for each in client.all_topics()
                for number in each.partitions
            ]
            if topic is None
            else _partitions(client, topic)
        )
        found = transaction_admin.find_hanging(
            client, partitions, older_than_ms=older_than_ms, now_ms=SystemClock().now_ms()
        )
    _show_open(found, as_json=as_json)


def _partitions(client: Client, topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, number) for number in client.topic(topic).partitions]


def _show_open(found: list[TxnInPartition], *, as_json: bool) -> None:
    rows: list[tuple[Cell, ...]] = [
        (
            each.partition.topic,
            each.partition.partition,
            each.start_offset,
            each.producer_id,
            each.producer_epoch,
            show_time(each.last_timestamp_ms),
        )
        for each in found
    ]
    write_rows(_COLUMNS, rows, as_json=as_json)
