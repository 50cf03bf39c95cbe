"""The part of the JSON API that is about the anatomy of logs. Grade D.

GET /api/v1/topics/T/anatomy[?partition=N]    of each partition hosted here: offsets, segments and
                                              how their bytes divide, horizons, the next pass

The first call of a while has no division yet and makes an analysis begin: `is_current` says whether
the figures are of this moment, and whoever wants that asks again.
"""

from collections.abc import Callable, Mapping
from typing import Final

from ledgerstone.errors import KafkaError, StorageError
from ledgerstone.server.anatomy.facts import anatomy_of
from ledgerstone.server.broker import Broker
from ledgerstone.server.http.json_body import Refused
from ledgerstone.server.http.server import HttpRequest

Calls = Mapping[str, Callable[[], object]]
# A partition takes up to a millisecond; nobody else is served meanwhile.
PARTITIONS_AT_ONCE: Final = 64


def calls(broker: Broker, request: HttpRequest, parts: list[str]) -> Calls | None:
    """None for a path that is not about anatomy."""
    match parts:
        case ["topics", topic, "anatomy"]:
            return {"GET": lambda: _anatomy(broker, topic, request)}
        case _:
            return None


def _anatomy(broker: Broker, topic: str, request: HttpRequest) -> object:
    number, asker = request.query.get("partition"), request.asker
    partitions = [
        each
        for each in broker.partitions
        if each.topic_partition.topic == topic
        and number in (None, str(each.topic_partition.partition))
    ]
    if not partitions:
        raise Refused(404, f"no such partition of topic {topic} is hosted here")
    if len(partitions) > PARTITIONS_AT_ONCE:
        raise Refused(400, f"{topic} has {len(partitions)} partitions here: ask for one of them")
    partitions.sort(key=lambda each: each.topic_partition)
    try:
        found = [anatomy_of(broker.anatomy, each, asker) for each in partitions]
        return {"partitions": [each.to_json() for each in found]}
    except (OSError, StorageError, KafkaError) as error:
        raise Refused(503, f"the log cannot be read: {error}") from error
