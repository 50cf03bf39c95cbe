"""The first page: is it well, and what does it do. Grade D."""

from collections.abc import Mapping

from ledgerstone.server.broker import Broker
from ledgerstone.server.http import HttpRequest
from ledgerstone.server.monitor import readiness
from ledgerstone.web.router import Rendered


def overview_view(broker: Broker, request: HttpRequest, parts: Mapping[str, str]) -> Rendered:
    return Rendered("overview.html", {**_facts(broker), "live": ("overview", "samples")})


def overview_fragment(broker: Broker, argument: str) -> Rendered:
    return Rendered("overview_fragment.html", _facts(broker))


def _facts(broker: Broker) -> dict[str, object]:
    health = readiness(broker)
    assert isinstance(health.body, str)
    cleaning, erasing = broker.cleaning, broker.erasing
    hosted = list(broker.partitions)
    return {
        "is_ready": health.status == 200,
        "complaints": health.body.splitlines()[1:],
        "connections": broker.connection_count,
        "topics": len(broker.image.topics),
        "partitions": len(hosted),
        "size_bytes": sum(each.log.size_bytes for each in hosted),
        "segments": sum(len(each.log.segments) for each in hosted),
        "groups": {state.value: n for state, n in broker.groups.count_by_state().items() if n},
        "cleaning": [str(each.topic_partition) for each in cleaning.running.values()],
        "passes": cleaning.totals.passes,
        "failed_passes": cleaning.totals.failed_passes,
        "last_run": cleaning.totals.last,
        "uncleanable": len(cleaning.troubles),
        "open_erasures": len(erasing.journal.unfinished),
        "accepted": broker.counters.connections_accepted,
        "rejected_batches": broker.counters.rejected_batches,
    }
