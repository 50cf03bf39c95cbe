"""`ledgerstone compact`: runs a cleaning pass now and shows what it dropped. Shell."""

import time
from typing import Annotated, Any, Final

import typer

from ledgerstone.cli.admin_http import AdminApi, AdminCallFailed, apis_by_node, topic_path
from ledgerstone.cli.options import (
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    JsonOption,
    TopicArgument,
    connect,
)
from ledgerstone.cli.output import flush, printable, write_json, write_line

POLL_S: Final = 0.1
_DROPPED: Final = (
    ("dropped_superseded", "superseded by a later record of the same key"),
    ("dropped_tombstones", "tombstones past their delete horizon"),
    ("dropped_aborted", "records of aborted transactions"),
    ("dropped_markers", "transaction markers no longer needed"),
    ("dropped_keyless", "without a key"),
)


def compact(
    topic: TopicArgument,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", help="Only this partition.", min=0)
    ] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the passes are done.")] = False,
    timeout: Annotated[float, typer.Option(help="Most seconds to wait.", min=0)] = 600.0,
    as_json: JsonOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Compact a topic now: roll its active segments and clean all that can be cleaned."""
    with connect(bootstrap) as client:
        info = client.topic(topic)
        if partition is not None and partition not in info.partitions:
            raise AdminCallFailed(f"topic {topic} has no partition {partition}")
        apis = apis_by_node(client)
    asked: list[tuple[int, dict[str, Any]]] = []
    # Every replica cleans by itself.
    for node_id, api in apis.items():
        tickets = api.post(topic_path(topic, "compact"), {"partition": partition})["tickets"]
        asked += [(node_id, ticket) for ticket in tickets]
    if wait:
        deadline_s = time.monotonic() + timeout
        asked = [(each, _wait(apis[each], ticket, deadline_s)) for each, ticket in asked]
    for node_id, ticket in sorted(asked, key=lambda each: (each[1]["partition"], each[0])):
        if as_json:
            write_json({**ticket, "node_id": node_id})
        else:
            is_alone = len(info.partitions[ticket["partition"]].replicas) == 1
            _show(ticket, "" if is_alone else f" on {node_id}")
    flush()
    failed = [ticket for _, ticket in asked if (ticket["run"] or {}).get("outcome") == "failed"]
    if failed:
        raise typer.Exit(1)


def _wait(api: AdminApi, ticket: dict[str, Any], deadline_s: float) -> dict[str, Any]:
    while not ticket["done"]:
        if time.monotonic() > deadline_s:
            raise AdminCallFailed(
                f"partition {ticket['partition']} is not done yet; the pass continues"
            )
        time.sleep(POLL_S)
        ticket = api.get(f"tickets/{ticket['ticket']}")
    return ticket


def _show(ticket: dict[str, Any], replica: str) -> None:
    name = f"{printable(ticket['topic'])}-{ticket['partition']}{replica}"
    run = ticket["run"]
    if run is None:
        write_line(f"{name}: {printable(ticket['refusal'] or 'requested, not done yet')}")
        return
    if run["outcome"] != "cleaned":
        write_line(f"{name}: {run['outcome']}: {printable(run['detail'])}")
        return
    stats = run["stats"]
    write_line(
        f"{name}: cleaned up to offset {run['end_offset']} in {run['duration_ms']} ms, "
        f"{stats['bytes_read']} bytes became {stats['bytes_written']}, "
        f"{stats['records_kept']} of {stats['records_read']} records kept"
    )
    for field, meaning in _DROPPED:
        if stats[field]:
            write_line(f"  {stats[field]} dropped: {meaning}")
    if stats["tombstones_stamped"]:
        write_line(f"  {stats['tombstones_stamped']} tombstones were given their delete horizon")
