"""The cluster: its nodes, who leads, what is not in sync, moves under way. Grade D."""

from collections.abc import Mapping

from ledgerstone.server.broker import Broker
from ledgerstone.server.http.asker import Asker
from ledgerstone.server.http.cluster import facts_of
from ledgerstone.server.http.server import HttpRequest
from ledgerstone.types import TopicPartition
from ledgerstone.web.router import Rendered


def cluster_view(broker: Broker, request: HttpRequest, parts: Mapping[str, str]) -> Rendered:
    return Rendered("cluster.html", {**_facts(broker), "live": ("cluster",)})


def cluster_fragment(broker: Broker, argument: str, asker: Asker) -> Rendered:
    return Rendered("cluster_fragment.html", _facts(broker))


def _facts(broker: Broker) -> dict[str, object]:
    facts = facts_of(broker)
    return {
        "cluster": facts,
        "own_id": broker.config.node_id,
        "epoch": broker.quorum.epoch,
        "hidden_troubled": max(facts.under_replicated - len(facts.troubled), 0),
        "hidden_moves": max(facts.reassigning - len(facts.moves), 0),
        "partition_of": TopicPartition,
    }
