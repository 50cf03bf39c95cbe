"""Groups, their lag, and those about to miss a delete. Grade D."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from ledgerstone.coordinator.classic_group import ClassicGroup
from ledgerstone.coordinator.group_table import GroupTable
from ledgerstone.server.broker import Broker
from ledgerstone.server.http.asker import Asker
from ledgerstone.server.http.guard import seen_group_json
from ledgerstone.server.http.route_rights import no_group
from ledgerstone.server.http.server import HttpRequest
from ledgerstone.types import TopicPartition
from ledgerstone.web.router import NotShown, Rendered

SHOWN: Final = 200
SHOWN_OFFSETS: Final = 500
# The margin is computed per partition and group; very long lists omit it.
_MARGINS_UP_TO: Final = 500


class GroupRow(NamedTuple):
    group_id: str
    state: str
    members: int
    topics: int
    lag: int | None  # None: no committed offset that still exists
    margin_ms: int | None
    missed: int


class OffsetRow(NamedTuple):
    topic: str
    partition: int
    committed_offset: int
    end_offset: int | None  # None: the partition is no longer here
    committed_ms: int
    compacts: bool
    margin_ms: int | None
    missed: dict[str, Any] | None

    @property
    def lag(self) -> int | None:
        return None if self.end_offset is None else max(self.end_offset - self.committed_offset, 0)


class MemberRow(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    session_timeout_ms: int
    is_leader: bool


def groups_view(broker: Broker, request: HttpRequest, parts: Mapping[str, str]) -> Rendered:
    return Rendered("groups.html", {**_facts(broker, request.asker), "live": ("groups",)})


def groups_fragment(broker: Broker, argument: str, asker: Asker) -> Rendered:
    return Rendered("groups_fragment.html", _facts(broker, asker))


def _facts(broker: Broker, asker: Asker) -> dict[str, object]:
    seen = (each for each in _groups(broker) if asker.sees_group(each[1].group_id))
    found = sorted(seen, key=lambda each: each[1].group_id)
    missed, least = _missed(broker, asker), _least_margins(broker, asker)
    return {
        "rows": [_row(broker, asker, *each, missed=missed, least=least) for each in found[:SHOWN]],
        "hidden": max(len(found) - SHOWN, 0),
    }


def _groups(broker: Broker) -> Iterator[tuple[GroupTable, ClassicGroup]]:
    for table in broker.groups.shards.tables():
        yield from ((table, group) for group in table.groups.values())


def _missed(broker: Broker, asker: Asker) -> dict[str, int]:
    """The number of partitions in which each group may have missed deletes."""
    counts: dict[str, int] = {}
    for partition in broker.partitions:
        if partition.log.config.compacts and asker.sees_topic(partition.topic_partition.topic):
            for each in broker.cleaning.files.ledger(partition.log).told:
                counts[each.group_id] = counts.get(each.group_id, 0) + 1
    return counts


def _least_margins(broker: Broker, asker: Asker) -> dict[str, int]:
    least: dict[str, int] = {}
    compacted = [
        each
        for each in broker.partitions
        if each.log.config.compacts and asker.sees_topic(each.topic_partition.topic)
    ]
    for partition in compacted[:_MARGINS_UP_TO]:
        for margin in broker.cleaning.guard.margins(partition):
            if margin.margin_ms is not None:
                known = least.get(margin.group_id, margin.margin_ms)
                least[margin.group_id] = min(known, margin.margin_ms)
    return least


def _row(
    broker: Broker,
    asker: Asker,
    table: GroupTable,
    group: ClassicGroup,
    *,
    missed: Mapping[str, int],
    least: Mapping[str, int],
) -> GroupRow:
    lags = []
    for tp, committed in table.offsets.offsets_of(group.group_id):
        partition = broker.partitions.find(tp) if asker.sees_topic(tp.topic) else None
        if partition is not None:
            lags.append(max(partition.log.high_watermark - committed.offset, 0))
    return GroupRow(
        group_id=group.group_id,
        state=group.state.value,
        members=len(group.roster),
        topics=sum(map(asker.sees_topic, table.offsets.topics_of(group.group_id))),
        lag=sum(lags) if lags else None,
        margin_ms=least.get(group.group_id),
        missed=missed.get(group.group_id, 0),
    )


def group_view(broker: Broker, request: HttpRequest, parts: Mapping[str, str]) -> Rendered:
    group_id = parts["group"]
    for table, group in _groups(broker):
        if group.group_id == group_id:
            return Rendered("group.html", _one(broker, table, group, request.asker))
    raise NotShown(404, no_group(group_id))


def _one(broker: Broker, table: GroupTable, group: ClassicGroup, asker: Asker) -> dict[str, object]:
    watched = {
        TopicPartition(each["topic"], each["partition"]): each
        for each in seen_group_json(broker, group.group_id, asker)["partitions"]
    }
    offsets = {
        tp: committed
        for tp, committed in sorted(table.offsets.offsets_of(group.group_id))
        if asker.sees_topic(tp.topic)
    }
    rows = [
        _offset_row(broker, tp, committed.offset, committed.commit_timestamp_ms, watched.get(tp))
        for tp, committed in list(offsets.items())[:SHOWN_OFFSETS]
    ]
    missed = [each["missed"] | each for each in watched.values() if each["missed"]]
    return {
        "group_id": group.group_id,
        "state": group.state.value,
        "generation": group.generation_id,
        "protocol": group.protocol_name,
        "members": [
            MemberRow(
                each.member_id,
                each.group_instance_id,
                each.client_id,
                each.client_host.removeprefix("/"),
                each.session_timeout_ms,
                each.member_id == group.roster.leader_id,
            )
            for each in group.roster
        ],
        "offsets": rows,
        "hidden": max(len(offsets) - SHOWN_OFFSETS, 0),
        "lag": sum(row.lag for row in rows if row.lag is not None),
        "missed": missed,
        "missed_topics": list(dict.fromkeys(each["topic"] for each in missed)),
    }


def _offset_row(
    broker: Broker,
    tp: TopicPartition,
    offset: int,
    committed_ms: int,
    watched: Mapping[str, Any] | None,
) -> OffsetRow:
    partition = broker.partitions.find(tp)
    return OffsetRow(
        topic=tp.topic,
        partition=tp.partition,
        committed_offset=offset,
        end_offset=None if partition is None else partition.log.high_watermark,
        committed_ms=committed_ms,
        compacts=partition is not None and partition.log.config.compacts,
        margin_ms=watched["margin_ms"] if watched else None,
        missed=watched["missed"] if watched else None,
    )
