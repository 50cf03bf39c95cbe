"""The first page: health and activity. Grade D."""

from collections.abc import Mapping
from typing import Final

from ledgerstone.server.broker import Broker
from ledgerstone.server.cluster_view import quorum_summary
from ledgerstone.server.http.monitor import readiness
from ledgerstone.server.http.server import HttpRequest
from ledgerstone.web.erasures import alarming
from ledgerstone.web.hosting import is_internal
from ledgerstone.web.router import Rendered

SHOWN_ALARMS: Final = 8


def overview_view(broker: Broker, request: HttpRequest, parts: Mapping[str, str]) -> Rendered:
    return Rendered("overview.html", {**_facts(broker), "live": ("overview", "samples")})


def overview_fragment(broker: Broker, argument: str) -> Rendered:
    return Rendered("overview_fragment.html", _facts(broker))


def _facts(broker: Broker) -> dict[str, object]:
    health = readiness(broker)
    assert isinstance(health.body, str)
    cleaning, erasing = broker.cleaning, broker.erasing
    hosted = list(broker.partitions)
    alarms = alarming(broker)
    return {
        "is_ready": health.status == 200,
        "complaints": health.body.splitlines()[1:],
        "quorum": quorum_summary(broker),
        "connections": broker.connection_count,
        "topics": sum(not is_internal(name) for name in broker.image.topics),
        "internal_topics": sum(map(is_internal, broker.image.topics)),
        "partitions": sum(not is_internal(each.topic_partition.topic) for each in hosted),
        "size_bytes": sum(each.log.size_bytes for each in hosted),
        "segments": sum(len(each.log.segments) for each in hosted),
        "groups": {
            state.value: n for state, n in broker.groups.shards.count_by_state().items() if n
        },
        "cleaning": [str(each.topic_partition) for each in cleaning.running.values()],
        "passes": cleaning.totals.passes,
        "failed_passes": cleaning.totals.failed_passes,
        "last_run": cleaning.totals.last,
        "uncleanable": len(cleaning.troubles),
        "alarms": alarms[:SHOWN_ALARMS],
        "hidden_alarms": max(len(alarms) - SHOWN_ALARMS, 0),
        "open_erasures": len(erasing.journal.unfinished),
        "accepted": broker.counters.connections_accepted,
        "rejected_batches": broker.counters.rejected_batches,
    }
