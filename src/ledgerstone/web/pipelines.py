"""Pipelines, as the commits of their groups tell. Grade D.

Each is shown by the broker that coordinates its group. What a commit says is checked there: anybody
with a group of their own may write anything into it.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from ledgerstone.coordinator.group_table import GroupTable
from ledgerstone.pipeline.announced import Announced, announced_in
from ledgerstone.server.broker import Broker
from ledgerstone.server.http.asker import Asker
from ledgerstone.server.http.server import HttpRequest
from ledgerstone.web.router import Rendered

SHOWN: Final = 200
_SILENT: Final = "silent"


class PipelineRow(NamedTuple):
    name: str
    group_id: str
    topics: tuple[str, ...]
    table: str
    state: str
    lag: int
    rows_per_s: float
    said_ms: int
    error: str | None


def pipelines_view(broker: Broker, request: HttpRequest, parts: Mapping[str, str]) -> Rendered:
    facts = _facts(broker, request.asker)
    return Rendered("pipelines.html", {**facts, "live": ("pipelines",)})


def pipelines_fragment(broker: Broker, argument: str, asker: Asker) -> Rendered:
    return Rendered("pipelines_fragment.html", _facts(broker, asker))


def _facts(broker: Broker, asker: Asker) -> dict[str, object]:
    rows = []
    for table in broker.groups.shards.tables():
        for group_id in sorted(table.groups):
            row = _row(broker, asker, table, group_id) if asker.sees_group(group_id) else None
            if row is not None:
                rows.append(row)
    rows.sort(key=lambda each: (each.name, each.group_id))
    return {"rows": rows[:SHOWN], "hidden": max(len(rows) - SHOWN, 0)}


def _row(broker: Broker, asker: Asker, table: GroupTable, group_id: str) -> PipelineRow | None:
    newest: Announced | None = None
    topics: dict[str, None] = {}
    lag = 0
    for at, committed in sorted(table.offsets.offsets_of(group_id)):
        if not asker.sees_topic(at.topic):
            continue
        said = announced_in(committed.metadata)
        if said is not None and (newest is None or said.said_ms >= newest.said_ms):
            newest = said
        topics[at.topic] = None
        partition = broker.partitions.find(at)
        if partition is not None:
            lag += max(partition.log.high_watermark - committed.offset, 0)
    if newest is None:
        return None
    is_silent = newest.is_silent(broker.clock.now_ms())
    return PipelineRow(
        name=newest.name,
        group_id=group_id,
        topics=tuple(topics),
        table=newest.table,
        state=_SILENT if is_silent else newest.state,
        lag=lag,
        rows_per_s=newest.rows_per_s,
        said_ms=newest.said_ms,
        error=newest.error,
    )
