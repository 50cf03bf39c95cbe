"""`ledgerstone why`: explains what keeps records on disk, and until when. Shell.

For a partition, the broker knows. For a key, the command reads the key's partition through the
client, including batch headers, and explains what keeps each of its records. The leader answers.
Every replica cleans by itself: with --replicas each of them answers.
"""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from ledgerstone.cleaner.holds import NO_HOLDS, GroupHold, Holds, ReplicaHold
from ledgerstone.cleaner.why import (
    FOR_TOMBSTONES,
    Gate,
    KeyRecord,
    explain_record,
    first_shut,
)
from ledgerstone.cli.options import (
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    JsonOption,
    TopicArgument,
    connect,
    parse_bytes,
)
from ledgerstone.cli.output import (
    bytes_field,
    flush,
    printable,
    show_bytes,
    show_time,
    write_json,
    write_line,
)
from ledgerstone.cli.replicas import ReplicasOption, ReplicaStatus, replica_statuses
from ledgerstone.client.blocking import Client
from ledgerstone.client.fetcher import FetchConfig, Fetcher
from ledgerstone.client.partitioner import partition_of
from ledgerstone.dataclasses import replace
from ledgerstone.records.record import iter_records
from ledgerstone.types import INT64_MAX, TopicPartition

_READ_UNCOMMITTED = 0


def why(
    topic: TopicArgument,
    key: Annotated[
        str | None, typer.Argument(metavar="[KEY]", help="Text, or hex after 0x.")
    ] = None,
    partition: Annotated[
        int | None,
        typer.Option("--partition", "-p", min=0, help="The key's partition, if not by its hash."),
    ] = None,
    replicas: ReplicasOption = False,
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Explain why records have not been compacted away yet, and when they will be."""
    wanted = None if key is None else parse_bytes(key)
    with connect(bootstrap) as client:
        info = client.topic(topic)
        if partition is None and wanted is not None:
            partition = partition_of(wanted, len(info.partitions))
        statuses = replica_statuses(client, topic, "cleaning", partition=partition)
        for each in statuses.chosen(every=replicas):
            if wanted is None:
                _show_partition(each, as_json=as_json)
            else:
                _show_key(client, each, wanted, as_json=as_json)
        if replicas and not as_json:
            for silent in statuses.silent:
                write_line(printable(f"{topic} {silent}"))
    flush()


def _gates(status: dict[str, Any]) -> list[Gate]:
    return [Gate(**gate) for gate in status["gates"]]


def _holds(status: dict[str, Any]) -> Holds:
    """An older broker that does not report holds has none."""
    groups = [
        GroupHold(each["group"], each["committed_offset"]) for each in status.get("holds", ())
    ]
    holds = Holds(groups=tuple(groups), max_ms=status["hold_max_ms"]) if groups else NO_HOLDS
    replica = status.get("replica_hold")
    return replace(holds, replica=ReplicaHold(**replica)) if replica else holds


def _show_partition(replica: ReplicaStatus, *, as_json: bool) -> None:
    status = replica.status
    gates = _gates(status)
    shut = first_shut([gate for gate in gates if gate.name not in FOR_TOMBSTONES])
    if as_json:
        write_json({**replica.to_json(), "reason": shut._asdict() if shut else None})
        return
    name = f"{printable(status['topic'])}-{status['partition']}{replica.name}"
    answer = "nothing blocks the next pass" if shut is None else shut.text
    write_line(f"{name}: {printable(answer)}{_until(shut)}")
    for gate in gates:
        mark = "open" if gate.is_open else "shut"
        write_line(f"  {mark}  {gate.name}: {printable(gate.text)}{_until(gate)}")
    for due in status["due"]:
        when = "now" if due["at_ms"] <= status["now_ms"] else show_time(due["at_ms"])
        write_line(f"  due   {when}: {due['reason']}")


def _until(gate: Gate | None) -> str:
    if gate is None or gate.is_open or gate.opens_at_ms is None:
        return ""
    return f"; until {show_time(gate.opens_at_ms)}"


def _show_key(client: Client, replica: ReplicaStatus, key: bytes, *, as_json: bool) -> None:
    """The records are those that the leader serves; what keeps them is the replica's own."""
    status = replica.status
    tp = TopicPartition(status["topic"], status["partition"])
    records = list(_records_of(client, tp, key, status["log_start_offset"]))
    if not records and not as_json:
        write_line(
            f"{printable(str(tp))}: no record has the key {show_bytes(key)}: it was never written "
            "here, or has been compacted away"
        )
    gates = _gates(status)
    for at, (offset, is_tombstone, horizon_ms) in enumerate(records):
        next_offset = records[at + 1][0] if at + 1 < len(records) else None
        record = KeyRecord(offset, is_tombstone, horizon_ms, next_offset)
        reason = explain_record(record, gates, now_ms=status["now_ms"], holds=_holds(status))
        if as_json:
            facts = {**record._asdict(), "is_latest": record.is_latest}
            facts |= {"node_id": replica.node_id, "is_leader": replica.is_leader}
            write_json({**bytes_field("key", key), **facts, "reason": reason._asdict()})
            continue
        what = "tombstone" if is_tombstone else "value"
        write_line(f"{printable(str(tp))}{replica.name} offset {offset} {what}: "
                   f"{printable(reason.text)}{_until(reason)}")  # fmt: skip


def _records_of(
    client: Client, tp: TopicPartition, key: bytes, start_offset: int
) -> Iterator[tuple[int, bool, int | None]]:
    """Offset, whether it is a tombstone, and the horizon of its batch."""
    fetcher = Fetcher(client, FetchConfig(isolation_level=_READ_UNCOMMITTED))
    for fetched in fetcher.read_range(tp, start_offset, INT64_MAX):
        for header, batch in fetched.batches():
            if header.is_control or header.record_count == 0:
                continue
            for record in iter_records(batch):
                if record.key is not None and bytes(record.key) == key:
                    yield record.offset, record.value is None, header.delete_horizon_ms
