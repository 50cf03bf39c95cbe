"""Log directories as operators see them: metrics, and what is not in order. Grade D."""

from collections.abc import Iterator

from ledgerstone.server.broker import Broker
from ledgerstone.server.metrics import MetricSample


def complaints(broker: Broker) -> list[str]:
    """What /readyz says: their replicas are offline until the next start."""
    return [
        f"log directory {each.path} is offline: {each.reason}" for each in broker.log_dirs.offline
    ]


def samples(broker: Broker) -> Iterator[MetricSample]:
    offline = {each.path for each in broker.log_dirs.offline}
    name = "kafka_log_logmanager_offlinelogdirectorycount"
    yield MetricSample(name, "gauge", "Log directories that failed.", len(offline))
    for path in broker.config.log_dirs:
        labels = (("logDirectory", path),)
        text = "1: the directory failed, and its replicas are offline."
        name = "kafka_log_logmanager_logdirectoryoffline"
        yield MetricSample(name, "gauge", text, int(path in offline), labels)
    moves = broker.directories.moves
    text = "Replicas that move to another log directory of this broker."
    yield MetricSample("ledgerstone_replica_moves", "gauge", text, len(moves.under_way))
