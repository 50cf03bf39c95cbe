"""How the replicas of partitions led here are doing, for metrics. Grade D."""

from collections.abc import Iterable, Iterator

from ledgerstone.replication.leader import Leader
from ledgerstone.replication.partition import Partition
from ledgerstone.server.metrics import MetricSample


def samples(partitions: Iterable[Partition]) -> Iterator[MetricSample]:
    led = [each.role for each in partitions if isinstance(each.role, Leader)]
    for name, value, text in (
        (
            "underreplicatedpartitions",
            sum(len(each.isr) < len(each.replicas) for each in led),
            "Partitions led here whose replicas are not all in sync.",
        ),
        (
            "underminisrpartitioncount",
            sum(each.is_under_min_isr for each in led),
            "Partitions led here with fewer replicas in sync than min.insync.replicas.",
        ),
        (
            "atminisrpartitioncount",
            sum(len(each.isr) == each.effective_min_isr for each in led),
            "Partitions led here with just min.insync.replicas in sync.",
        ),
    ):
        yield MetricSample(f"kafka_server_replicamanager_{name}", "gauge", text, value)
    for broker_id, lags in sorted(_lags(led).items()):
        labels = (("replica", str(broker_id)),)
        for name, lag, text in (
            ("ledgerstone_follower_lag_max", max(lags), "Most records of one partition"),
            ("ledgerstone_follower_lag_sum", sum(lags), "Records of all partitions"),
        ):
            text = f"{text} led here that a follower has not fetched yet, by its broker."
            yield MetricSample(name, "gauge", text, lag, labels)


def _lags(led: Iterable[Leader]) -> dict[int, list[int]]:
    """By follower. One that has not fetched yet lacks everything."""
    lags: dict[int, list[int]] = {}
    for role in led:
        log = role.log
        for broker_id, follower in role.in_sync.followers.items():
            known = max(follower.end_offset, log.log_start_offset)
            lags.setdefault(broker_id, []).append(log.log_end_offset - known)
    return lags
