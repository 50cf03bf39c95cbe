"""The part of the JSON API that is about tombstones and who reads them. Grade D.

GET  /api/v1/topics/T/tombstones          of each partition hosted here: pending, holds, margins
                                          of groups, missed deletes, near-tombstones
POST /api/v1/topics/T/tombstones/ack {"group": g, "partition": n}
                                          what the group missed was dealt with; all partitions
                                          unless one is given
GET  /api/v1/groups/G/tombstones          one group in every compacted partition hosted here
"""

from collections.abc import Callable, Mapping
from typing import Any

from ledgerstone.replication.partition import Partition
from ledgerstone.security.acl import AclOperation, AclResourceType
from ledgerstone.server.broker import Broker
from ledgerstone.server.http.asker import Asker
from ledgerstone.server.http.gate import need
from ledgerstone.server.http.json_body import Refused, body_of
from ledgerstone.server.http.server import HttpRequest
from ledgerstone.server.tombstones.view import group_json, partition_json

Calls = Mapping[str, Callable[[], object]]


def calls(broker: Broker, request: HttpRequest, parts: list[str]) -> Calls | None:
    """None for a path that is not about tombstones."""
    match parts:
        case ["topics", topic, "tombstones"]:
            return {"GET": lambda: _topic(broker, topic, request.asker)}
        case ["topics", topic, "tombstones", "ack"]:
            return {"POST": lambda: _acknowledge(broker, topic, request)}
        case ["groups", group, "tombstones"]:
            return {"GET": lambda: seen_group_json(broker, group, request.asker)}
        case _:
            return None


def _hosted(broker: Broker, topic: str) -> list[Partition]:
    found = [each for each in broker.partitions if each.topic_partition.topic == topic]
    if not found:
        raise Refused(404, f"no partition of topic {topic} is hosted here")
    return sorted(found, key=lambda each: each.topic_partition.partition)


def _topic(broker: Broker, topic: str, asker: Asker) -> object:
    cleaning, near = broker.cleaning, broker.near_tombstones
    found = [partition_json(cleaning, near, each) for each in _hosted(broker, topic)]
    for each in found:
        for about_groups in ("holds", "margins", "missed"):
            each[about_groups] = [
                row for row in each[about_groups] if asker.sees_group(row["group"])
            ]
    return {"partitions": found}


def seen_group_json(broker: Broker, group: str, asker: Asker) -> dict[str, Any]:
    told = group_json(broker.cleaning, group)
    rows = [each for each in told["partitions"] if asker.sees_topic(each["topic"])]
    return {**told, "partitions": rows}


def _acknowledge(broker: Broker, topic: str, request: HttpRequest) -> object:
    body = body_of(request)
    group, number = body.get("group"), body.get("partition")
    if type(group) is not str or not group:
        raise Refused(400, "group must be the name of one")
    # As for a commit, which says the same: up to here it was dealt with.
    need(broker, request.asker, AclOperation.READ, AclResourceType.GROUP, group)
    if number is not None and type(number) is not int:
        raise Refused(400, "partition must be a whole number")
    partitions = [
        each
        for each in _hosted(broker, topic)
        if number is None or each.topic_partition.partition == number
    ]
    guard = broker.cleaning.guard
    return {"acknowledged": sum(guard.acknowledge(each, [group]) for each in partitions)}
