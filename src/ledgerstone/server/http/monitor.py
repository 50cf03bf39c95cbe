"""What the second port shows: metrics, alive, ready. Grade D, over a broker."""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

from ledgerstone.cleaner.selection import LogToClean
from ledgerstone.config.broker import exposed_listeners
from ledgerstone.protocol.messages import APIS
from ledgerstone.replication.hosted_partitions import HostedPartitions
from ledgerstone.replication.partition import Partition
from ledgerstone.server import cluster_view, damage
from ledgerstone.server.broker import Broker
from ledgerstone.server.cleaning import view as cleaning_view
from ledgerstone.server.directories import view as directories_view
from ledgerstone.server.erasing import view as erasing_view
from ledgerstone.server.groups.agent import Groups
from ledgerstone.server.http.server import Page, SlowPage
from ledgerstone.server.isr import view as isr_view
from ledgerstone.server.metrics import Exposition, MetricSample, add
from ledgerstone.server.purgatory import Purgatory
from ledgerstone.server.quotas import view as quotas_view
from ledgerstone.server.replicating import view as replicating_view
from ledgerstone.server.tombstones import view as tombstone_view
from ledgerstone.server.transactions import view as transactions_view

# As in Kafka: markers may take a while after the time-out.
_LATE_TRANSACTION_MS: Final = 300_000
# Looked at before others have their turn; each takes some hundredths of a millisecond.
PARTITIONS_AT_ONCE: Final = 32
_PROMETHEUS: Final = "text/plain; version=0.0.4; charset=utf-8"


def readiness(broker: Broker) -> Page:
    """Red while a log takes no writes, a delete may not happen, or the cluster does not have this
    node: an operator has to look."""
    failed = [
        f"{partition.topic_partition}: {partition.log.failure}"
        for partition in broker.partitions
        if partition.log.failure is not None
    ]
    failed += [f"{name}: {reason}" for name, reason in broker.partitions.offline.items()]
    failed += directories_view.complaints(broker)
    failed += cluster_view.complaints(broker)
    failed += cleaning_view.complaints(broker.cleaning)
    if broker.erasing_on_demand.is_made:
        failed += erasing_view.complaints(broker.erasing)
    failed += damage.complaints(broker)
    if failed:
        return Page(503, "not ready\n" + "".join(f"{line}\n" for line in failed))
    # No reason to be red: a private network is somebody else's protection.
    notes = list(exposed_listeners(broker.config))
    if broker.tls is not None:
        notes += broker.tls.complaints()
    if broker.auditor is not None:
        from ledgerstone.server.auditing import view as auditing_view

        notes += auditing_view.notes(broker.auditor)
    return Page(200, "ready\n" + "".join(f"note: {line}\n" for line in notes))


def metrics(broker: Broker) -> SlowPage:
    """Thousands of partitions take a while, and clients wait meanwhile: so, slice by slice."""
    page = Exposition()
    for part in sample_slices(broker):
        page.add(part)
        yield None
    return Page(200, page.text(), _PROMETHEUS)


def samples(broker: Broker) -> Iterator[MetricSample]:
    return chain.from_iterable(sample_slices(broker))


def sample_slices(broker: Broker) -> Iterator[list[MetricSample]]:
    """Each slice is of one moment, and so are the sums at the end; between two slices anything may
    happen. A partition that has gone by its turn is left out."""
    looked_at: list[LogToClean] = []
    partitions = list(broker.partitions)
    for start in range(0, len(partitions), PARTITIONS_AT_ONCE):
        some = partitions[start : start + PARTITIONS_AT_ONCE]
        there = [each for each in some if broker.partitions.find(each.topic_partition) is each]
        part = list(cleaning_view.partition_samples(broker.cleaning, there, looked_at))
        for partition in there:
            part += _log_samples(partition)
            part += tombstone_view.partition_samples(broker.cleaning, partition)
        yield part
    yield [
        *broker.counters.samples(),
        *(MetricSample(name, "gauge", text, value) for name, value, text in _gauges(broker)),
        *directories_view.samples(broker),
        *cluster_view.samples(broker),
        *replicating_view.samples(broker.following.replicating),
        *isr_view.samples(broker.partitions),
        *_waiting(broker.purgatory),
        *_group_samples(broker.groups),
        *transactions_view.samples(broker.transactions, broker.clock.now_ms()),
        *quotas_view.samples(
            broker.quota_agent, broker.clock.monotonic_ms(), broker.peers.muted_count
        ),
        *cleaning_view.samples(broker.cleaning, looked_at),
        *erasing_view.samples(broker.erasing),
        *tombstone_view.samples(broker.near_tombstones),
        *(() if broker.tls is None else broker.tls.samples()),
        *_audit_samples(broker),
    ]


def _audit_samples(broker: Broker) -> Iterable[MetricSample]:
    if broker.auditor is None:
        return ()
    from ledgerstone.server.auditing import view as auditing_view

    return auditing_view.samples(broker.auditor)


def _log_samples(partition: Partition) -> Iterator[MetricSample]:
    topic, number = partition.topic_partition
    labels = (("topic", topic), ("partition", str(number)))
    log = partition.log
    for name, value, text in (
        ("kafka_log_log_size", log.size_bytes, "Bytes of the log on disk."),
        ("kafka_log_log_numlogsegments", len(log.segments), "Segments of the log."),
        ("kafka_log_log_logstartoffset", log.log_start_offset, "First readable offset."),
        ("kafka_log_log_logendoffset", log.log_end_offset, "Offset the next record gets."),
    ):
        yield MetricSample(name, "gauge", text, value, labels)


def _gauges(broker: Broker) -> Iterable[tuple[str, int, str]]:
    yield "kafka_server_socketservermetrics_connection_count", broker.connection_count, "Open now."
    sessions = len(broker.fetch_sessions)
    name = "kafka_server_fetchsessioncache_numincrementalfetchsessions"
    yield name, sessions, "Fetch sessions kept."
    state = cluster_view.broker_state(broker)
    yield (
        "kafka_server_kafkaserver_brokerstate",
        state,
        "3: running. 1, 2: starting. 6, 7: stopping.",
    )
    notes = len(broker.log_dirs.open_notes())
    yield "ledgerstone_damage_notes", notes, "Places found damaged that nobody has acknowledged."
    yield "ledgerstone_partitions_backlog", broker.partitions.backlog, "Still to make or remove."
    hosted = list(broker.partitions)
    led = [each for each in hosted if each.is_leader]
    for name, value, text in (
        ("partitioncount", len(hosted), "Partitions hosted here."),
        ("leadercount", len(led), "Partitions led here."),
        ("offlinereplicacount", _offline(broker.partitions), "Replicas that take no writes."),
        (
            "partitionswithlatetransactionscount",
            _late_transactions(broker),
            "Partitions whose oldest transaction is open for longer than "
            "transaction.max.timeout.ms and five minutes: read_committed readers wait behind it.",
        ),
    ):
        yield f"kafka_server_replicamanager_{name}", value, text


def _offline(partitions: HostedPartitions) -> int:
    failed = sum(each.log.failure is not None for each in partitions)
    return len(partitions.offline) + failed


def _late_transactions(broker: Broker) -> int:
    now_ms = broker.clock.now_ms()
    longest_ms = broker.config.transaction_max_timeout_ms + _LATE_TRANSACTION_MS
    logs = (each.log for each in broker.partitions)
    return sum(log.producers.is_transaction_late(now_ms, longest_ms) for log in logs)


def _waiting(purgatory: Purgatory) -> Iterable[MetricSample]:
    """These two always, so that a board shows zero instead of nothing; others when they wait."""
    counts = {"Fetch": 0, "Produce": 0}
    for request in purgatory.requests():
        add(counts, APIS[request.api_key].name)
    for name, count in sorted(counts.items()):
        labels = (("delayedOperation", name),)
        yield MetricSample(
            "kafka_server_delayedoperationpurgatory_purgatorysize", "gauge",
            "Requests that wait, by API.", count, labels,
        )  # fmt: skip


def _group_samples(groups: Groups) -> Iterable[MetricSample]:
    prefix = "kafka_coordinator_group_groupmetadatamanager_num"
    counts = groups.shards.count_by_state()
    yield MetricSample(f"{prefix}groups", "gauge", "Groups.", sum(counts.values()))
    for state, count in counts.items():
        text = f"Groups in state {state.value}."
        yield MetricSample(f"{prefix}groups{state.value.lower()}", "gauge", text, count)
    memory, name = groups.memory, "ledgerstone_group_memory_bytes"
    for what, value in (("members", memory.members_bytes), ("offsets", memory.offsets_bytes)):
        text = "Memory that groups hold, of what ledgerstone.*.max.bytes allow."
        yield MetricSample(name, "gauge", text, value, (("what", what),))
    offsets = groups.shards.count_offsets()
    yield MetricSample(f"{prefix}offsets", "gauge", "Offsets that groups have committed.", offsets)
