"""Followers as operators see them. Grade D.

Names are those of Kafka's beans `ReplicaFetcherManager`, `FetcherLagMetrics` and
`BrokerTopicMetrics`.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ledgerstone.server.metrics import MetricSample

if TYPE_CHECKING:
    # A single node does without it.
    from ledgerstone.server.replicating.agent import Replicating

_MANAGER: Final = "kafka_server_replicafetchermanager_"
_LABELS: Final = (("clientId", "Replica"),)


def samples(replicating: "Replicating | None") -> Iterator[MetricSample]:
    """Zeros on a single node: it follows nothing."""
    fetchers = {} if replicating is None else replicating.fetchers
    lag = max((each.max_lag for each in fetchers.values()), default=0)
    failed = sum(len(each.failed) for each in fetchers.values())
    for name, value, text in (
        ("maxlag", lag, "Records that the replica furthest behind its leader lacks."),
        ("failedpartitionscount", failed, "Replicas that have stopped to fetch."),
    ):
        yield MetricSample(_MANAGER + name, "gauge", text, value, _LABELS)
    yield MetricSample(
        "kafka_server_brokertopicmetrics_replicationbytesin_total",
        "counter",
        "Bytes of record batches fetched from other brokers.",
        0 if replicating is None else replicating.bytes_in,
    )
    for (leader_id, number, _), fetcher in fetchers.items():
        client_id = f"ReplicaFetcherThread-{number}-{leader_id}"
        for followed in fetcher:
            topic, partition = followed.topic_partition
            labels = (("clientId", client_id), ("topic", topic), ("partition", str(partition)))
            yield MetricSample(
                "kafka_server_fetcherlagmetrics_consumerlag",
                "gauge",
                "Records that this replica lacks.",
                followed.lag or 0,
                labels,
            )
