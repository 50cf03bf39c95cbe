"""Compaction, and the days after it, over the broker's HTTP API. Shell."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from ledgerstone.cli.admin_http import AdminApi, topic_path
from ledgerstone.demo.errors import DemoFailed

PATIENCE_S: Final = 60.0
FIRST_PAUSE_S: Final = 0.02
LONGEST_PAUSE_S: Final = 0.2
HOUR_MS: Final = 3_600_000
# delete.retention.ms is a day, file.delete.delay.ms a minute.
PAST_THE_HORIZON_MS: Final = 25 * HOUR_MS
PAST_THE_DELAY_MS: Final = 2 * 60_000


class OnDisk(NamedTuple):
    """A topic's log files, without those waiting to be unlinked."""

    segments: int
    bytes: int


class Sizes(NamedTuple):
    """A topic at one moment of the story."""

    when: str
    disk: OnDisk
    records: int
    tombstones: int


class Compacted(NamedTuple):
    before: OnDisk
    after: OnDisk
    superseded: int
    stamped: int  # tombstones that got their horizon


def on_disk(data: Path, topic: str) -> OnDisk:
    segments = size_bytes = 0
    for path in sorted(data.glob(f"{topic}-[0-9]*/*.log")):
        try:
            size_bytes += path.stat().st_size
        except FileNotFoundError:
            # A swap happened in between; counts are taken while no pass runs.
            continue
        segments += 1
    return OnDisk(segments, size_bytes)


def compact(api: AdminApi, data: Path, topic: str) -> Compacted:
    """A pass over every partition, now."""
    before = on_disk(data, topic)
    superseded = stamped = 0
    for ticket in api.post(topic_path(topic, "compact"), {})["tickets"]:
        ended = _ended_ticket(api, ticket)
        if ended["run"] is None:
            continue  # nothing to clean in this partition
        if ended["run"]["outcome"] != "cleaned":
            raise DemoFailed(
                f"the pass over {topic}-{ended['partition']} {ended['run']['outcome']}: "
                f"{ended['run']['detail']}"
            )
        superseded += ended["run"]["stats"]["dropped_superseded"]
        stamped += ended["run"]["stats"]["tombstones_stamped"]
    return Compacted(before, on_disk(data, topic), superseded, stamped)


def _ended_ticket(api: AdminApi, ticket: dict[str, Any]) -> dict[str, Any]:
    found = ticket

    def is_done() -> bool:
        nonlocal found
        found = api.get(f"tickets/{ticket['ticket']}")
        return bool(found["done"])

    wait_until(is_done, f"the pass over {ticket['topic']}-{ticket['partition']}")
    return found


def advance(api: AdminApi, ms: int) -> None:
    api.post("clock/advance", {"ms": ms})


def wait_for_tombstones(api: AdminApi, topic: str) -> None:
    """Waits for the pass that the broker starts by itself at the horizon."""

    def are_gone() -> bool:
        partitions = api.get(topic_path(topic, "cleaning"))["partitions"]
        return all(
            each["earliest_horizon_ms"] is None and each["fresh_tombstones"] == 0
            for each in partitions
        )

    wait_until(are_gone, f"the passes that remove the tombstones of {topic}")


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    pause_s = FIRST_PAUSE_S
    while not condition():
        if time.monotonic() > deadline_s:
            raise DemoFailed(f"{what}: not done after {PATIENCE_S:.0f} s")
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.3, LONGEST_PAUSE_S)
