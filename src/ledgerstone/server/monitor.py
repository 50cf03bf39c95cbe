"""What the second port shows: metrics, alive, ready. Grade D, over a broker."""

from collections.abc import Iterable

from ledgerstone.server import cleaning_view
from ledgerstone.server.broker import Broker
from ledgerstone.server.cleaning_view import complaints
from ledgerstone.server.http import Page, Routes
from ledgerstone.server.metrics import Sample, exposition

_PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"


def routes(broker: Broker) -> Routes:
    return {
        "/metrics": lambda: Page(200, exposition(samples(broker)), _PROMETHEUS),
        "/livez": lambda: Page(200, "alive\n"),
        "/readyz": lambda: readiness(broker),
    }


def readiness(broker: Broker) -> Page:
    """Red while a log takes no writes, or a delete may not happen: somebody has to look."""
    failed = [
        f"{partition.topic_partition}: {partition.log.failure}"
        for partition in broker.partitions
        if partition.log.failure is not None
    ]
    failed += [f"{name}: {reason}" for name, reason in broker.partitions.offline.items()]
    failed += complaints(broker)
    if failed:
        return Page(503, "not ready\n" + "".join(f"{line}\n" for line in failed))
    return Page(200, "ready\n")


def samples(broker: Broker) -> Iterable[Sample]:
    yield from broker.counters.samples()
    yield Sample(
        "kafka_server_socketservermetrics_connection_count",
        "gauge",
        "Connections open now.",
        broker.connection_count,
    )
    yield Sample(
        "kafka_server_replicamanager_partitioncount",
        "gauge",
        "Partitions hosted here.",
        len(broker.partitions),
    )
    yield Sample(
        "kafka_server_delayedoperationpurgatory_purgatorysize",
        "gauge",
        "Requests that wait.",
        len(broker.purgatory),
    )
    yield from cleaning_view.samples(broker)
    for partition in broker.partitions:
        topic, number = partition.topic_partition
        labels = (("topic", topic), ("partition", str(number)))
        log = partition.log
        for name, value, text in (
            ("kafka_log_log_size", log.size_bytes, "Bytes of the log on disk."),
            ("kafka_log_log_numlogsegments", len(log.segments), "Segments of the log."),
            ("kafka_log_log_logstartoffset", log.log_start_offset, "First readable offset."),
            ("kafka_log_log_logendoffset", log.log_end_offset, "Offset the next record gets."),
        ):
            yield Sample(name, "gauge", text, value, labels)
