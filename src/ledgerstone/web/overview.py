"""The first page: health and activity. Grade D."""

from collections.abc import Mapping
from typing import Final

from ledgerstone.server.broker import Broker
from ledgerstone.server.cluster_view import quorum_summary
from ledgerstone.server.http.asker import Asker
from ledgerstone.server.http.monitor import readiness
from ledgerstone.server.http.server import HttpRequest
from ledgerstone.web.erasures import alarming
from ledgerstone.web.hosting import is_internal
from ledgerstone.web.router import Rendered

SHOWN_ALARMS: Final = 8


def overview_view(broker: Broker, request: HttpRequest, parts: Mapping[str, str]) -> Rendered:
    asker = request.asker
    live = ("overview", "samples") if asker.sees_cluster else ("overview",)
    return Rendered("overview.html", {**_facts(broker, asker), "live": live})


def overview_fragment(broker: Broker, argument: str, asker: Asker) -> Rendered:
    return Rendered("overview_fragment.html", _facts(broker, asker))


def _facts(broker: Broker, asker: Asker) -> dict[str, object]:
    """Counts are of what the asker may see. What is of the whole broker, and what complaints name,
    is for who may describe the cluster."""
    if not asker.sees_cluster:
        return _seen_facts(broker, asker)
    health = readiness(broker)
    assert isinstance(health.body, str)
    cleaning, erasing = broker.cleaning, broker.erasing
    hosted = list(broker.partitions)
    alarms = alarming(broker)
    return {
        "is_whole": True,
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


def _seen_facts(broker: Broker, asker: Asker) -> dict[str, object]:
    hosted = [each for each in broker.partitions if asker.sees_topic(each.topic_partition.topic)]
    topics = [name for name in broker.image.topics if asker.sees_topic(name)]
    alarms = [each for each in alarming(broker) if asker.sees_topic(each["topic"])]
    journal = broker.erasing.journal
    unfinished = [journal.get(each).topic for each in journal.unfinished]
    return {
        "is_whole": False,
        "is_ready": readiness(broker).status == 200,
        "complaints": [],
        "topics": sum(not is_internal(name) for name in topics),
        "internal_topics": sum(map(is_internal, topics)),
        "partitions": sum(not is_internal(each.topic_partition.topic) for each in hosted),
        "size_bytes": sum(each.log.size_bytes for each in hosted),
        "segments": sum(len(each.log.segments) for each in hosted),
        "alarms": alarms[:SHOWN_ALARMS],
        "hidden_alarms": max(len(alarms) - SHOWN_ALARMS, 0),
        "open_erasures": sum(map(asker.sees_topic, unfinished)),
    }
