"""The cleaner's page: running passes, the queue and why, past passes, failures. Grade D.

The queue with running passes is a fragment; so are the newest runs and the ratios for the chart.
Forms and older runs are outside them, since fragments are the same for every reader.
"""

import json
from collections.abc import Iterable, Mapping
from heapq import nlargest
from itertools import islice
from typing import Any, Final, NamedTuple, TypeVar

from ledgerstone.cleaner.history import Run
from ledgerstone.cleaner.why import FOR_TOMBSTONES, first_shut, gates
from ledgerstone.errors import KafkaError, StorageError
from ledgerstone.replication.partition import Partition
from ledgerstone.security.acl import AclOperation
from ledgerstone.server.anatomy.queue import (
    QueueRow,
    RunningRow,
    TroubleRow,
    running_rows,
    trouble_rows,
)
from ledgerstone.server.broker import Broker
from ledgerstone.server.cleaning.view import situation_of
from ledgerstone.server.http.asker import Asker
from ledgerstone.server.http.server import HttpRequest
from ledgerstone.types import TopicPartition
from ledgerstone.web.hosting import is_internal
from ledgerstone.web.router import NotShown, Rendered

SHOWN_ROWS: Final = 40
SHOWN_RUNS: Final = 25
SHOWN_TOPICS: Final = 40
CHARTED: Final = 6
_MOST_PAGES: Final = 10_000


Row = TypeVar("Row", QueueRow, RunningRow, TroubleRow)


class RunRow(NamedTuple):
    topic_partition: TopicPartition
    run: Run


def cleaner_view(broker: Broker, request: HttpRequest, parts: Mapping[str, str]) -> Rendered:
    page_number = _page_number(request.query.get("runs", "1"))
    asker = request.asker
    runs = _runs(broker, asker, page_number)
    compacted = [
        p.topic_partition.topic
        for p in broker.partitions
        if p.log.config.compacts and asker.may_on_topic(AclOperation.ALTER, p.topic_partition.topic)
    ]
    topics = sorted(name for name in dict.fromkeys(compacted) if not is_internal(name))
    why = request.query.get("why")
    live = ["cleaner", "cleaner_ratios", "cleaner_internal"]
    if page_number == 1:
        live.append("cleaner_runs")
    facts: dict[str, object] = {
        **_queue_facts(broker, asker),
        "internal": _internal_facts(broker, asker),
        "runs": runs[:SHOWN_RUNS],
        "page_number": page_number,
        "has_more_runs": len(runs) > SHOWN_RUNS,
        "ratios": _ratios(broker, asker),
        "topics": topics[:SHOWN_TOPICS],
        "hidden_topics": len(topics[SHOWN_TOPICS:]),
        "why": None if why is None else _why(broker, asker, why),
        "live": live,
    }
    return Rendered("cleaner.html", facts)


def cleaner_fragment(broker: Broker, argument: str, asker: Asker) -> Rendered:
    return Rendered("cleaner_fragment.html", _queue_facts(broker, asker))


def cleaner_runs_fragment(broker: Broker, argument: str, asker: Asker) -> Rendered:
    return Rendered("cleaner_runs.html", {"runs": _runs(broker, asker, 1)[:SHOWN_RUNS]})


def cleaner_internal_fragment(broker: Broker, argument: str, asker: Asker) -> Rendered:
    return Rendered("cleaner_internal.html", {"internal": _internal_facts(broker, asker)})


def cleaner_ratios_fragment(broker: Broker, argument: str, asker: Asker) -> Rendered:
    return Rendered("cleaner_ratios.html", {"ratios": _ratios(broker, asker)})


# -- now ------------------------------------------------------------------------------------------


def _queue_facts(broker: Broker, asker: Asker) -> dict[str, object]:
    cleaning, rows = broker.cleaning, _seen(broker.anatomy.queue.look(), asker)
    at_work = [each.topic_partition for each in cleaning.running.values()]
    waiting = [row for row in rows if row.topic_partition not in at_work and not _is_internal(row)]
    settings = cleaning.settings
    is_on = settings.enable and settings.threads > 0
    return {
        "running": _seen(running_rows(cleaning), asker),
        **_waiting(waiting),
        "troubles": _seen(trouble_rows(cleaning), asker),
        "totals": cleaning.totals,
        "is_on": is_on,
        "worker_failure": cleaning.worker_failure,
        "threads": settings.threads,
    }


def _seen(rows: Iterable[Row], asker: Asker) -> list[Row]:
    return [row for row in rows if asker.sees_topic(row.topic_partition.topic)]


def _waiting(rows: list[QueueRow]) -> dict[str, object]:
    queue = [row for row in rows if row.reason is not None]
    coming = [row for row in rows if row.reason is None]
    hidden = len(queue[SHOWN_ROWS:]) + len(coming[SHOWN_ROWS:])
    return {"queue": queue[:SHOWN_ROWS], "coming": coming[:SHOWN_ROWS], "hidden": hidden}


def _internal_facts(broker: Broker, asker: Asker) -> dict[str, object]:
    """For internal topics, which are hidden by default."""
    known = _seen(broker.anatomy.queue.known(), asker)
    rows = [row for row in known if _is_internal(row)]
    return {**_waiting(rows), "runs": _runs(broker, asker, 1, of_cluster=True)[:SHOWN_RUNS]}


def _is_internal(row: QueueRow) -> bool:
    return is_internal(row.topic_partition.topic)


def _ratios(broker: Broker, asker: Asker) -> str:
    """Times, and the ratio of each of the first partitions at each of them, for the chart."""
    seen = _seen(broker.anatomy.queue.known(), asker)
    rows = [row for row in seen if not _is_internal(row)][:CHARTED]
    rows.sort(key=lambda row: row.topic_partition)
    taken = []
    for row in rows:
        partition = broker.partitions.find(row.topic_partition)
        taken.append(broker.anatomy.sample(partition.log, row.dirty_ratio) if partition else [])
    times = sorted({sample.at_ms for samples in taken for sample in samples})
    columns: list[list[Any]] = [[at_ms / 1000 for at_ms in times]]
    for samples in taken:
        known = {sample.at_ms: round(sample.dirty_ratio, 4) for sample in samples}
        columns.append([known.get(at_ms) for at_ms in times])
    names = [str(row.topic_partition) for row in rows]
    return json.dumps({"names": names, "columns": columns}, separators=(",", ":"))


# -- why ------------------------------------------------------------------------------------------


def _why(broker: Broker, asker: Asker, name: str) -> dict[str, object]:
    """Every gate of one partition, given by its directory's name."""
    topic, _, number = name.rpartition("-")
    is_number = number.isascii() and number.isdecimal() and len(number) <= 10
    partition: Partition | None = None
    if is_number and asker.sees_topic(topic):
        partition = broker.partitions.find(TopicPartition(topic, int(number)))
    if partition is None:
        raise NotShown(404, f"There is no partition {name[:260]} here.")
    try:
        about = situation_of(broker.cleaning, partition, asker)
    except (OSError, StorageError, KafkaError) as error:
        raise NotShown(503, f"The log of {name} cannot be read: {error}") from error
    found = gates(about)
    return {
        "topic": topic,
        "partition": int(number),
        "gates": found,
        "shut": first_shut([gate for gate in found if gate.name not in FOR_TOMBSTONES]),
        "dues": sorted(about.dues, key=lambda due: due.at_ms)[:SHOWN_ROWS],
    }


# -- before ---------------------------------------------------------------------------------------


def _page_number(text: str) -> int:
    is_number = text.isascii() and text.isdecimal() and 0 < len(text) <= 5
    return min(max(int(text), 1), _MOST_PAGES) if is_number else 1


def _runs(
    broker: Broker, asker: Asker, page_number: int, *, of_cluster: bool = False
) -> list[RunRow]:
    """Newest first; one more than a page, if there is one."""
    skipped = (page_number - 1) * SHOWN_RUNS
    wanted = skipped + SHOWN_RUNS + 1
    rows = (
        RunRow(partition.topic_partition, run)
        for partition in broker.partitions
        if is_internal(partition.topic_partition.topic) is of_cluster
        and asker.sees_topic(partition.topic_partition.topic)
        for run in islice(reversed(broker.cleaning.files.runs(partition.log)), wanted)
    )
    newest = nlargest(wanted, rows, key=lambda row: (row.run.ended_ms, row.topic_partition))
    return newest[skipped:]
