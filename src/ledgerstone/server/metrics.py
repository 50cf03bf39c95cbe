"""What the broker counts, and how Prometheus reads it. Pure.

Names are those the JMX exporter gives Apache Kafka's own beans, so that existing dashboards work;
what Kafka has no name for begins with `ledgerstone_`.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, Protocol

from ledgerstone.dataclasses import dataclass, field

Labels = tuple[tuple[str, str], ...]


class MetricSample(NamedTuple):
    name: str
    kind: str  # counter or gauge
    help: str
    value: float
    labels: Labels = ()


_LOGINS: Final = {
    "successful_authentication": "Logins that succeeded, by listener.",
    "failed_authentication": "Logins that failed, by listener.",
    "successful_reauthentication": "Connections that logged in again, by listener.",
    "failed_reauthentication": "Connections that failed to log in again, by listener.",
    "successful_authentication_no_reauth": "Logins of clients that cannot log in again.",
    "expired_connections_killed": "Connections closed because their login had expired.",
}


class TlsFacts(Protocol):
    """What operators are told about keys and certificates."""

    def complaints(self) -> Iterable[str]: ...

    def samples(self) -> Iterable[MetricSample]: ...


@dataclass(slots=True)
class Counters:
    """Totals since start; only ever raised, by the broker's one thread."""

    requests: dict[str, int] = field(default_factory=dict)
    # Handlers only: what a request waits for others is not in it.
    local_time_ms: dict[str, int] = field(default_factory=dict)
    request_errors: dict[tuple[str, int], int] = field(default_factory=dict)
    bytes_in: dict[str, int] = field(default_factory=dict)
    bytes_out: dict[str, int] = field(default_factory=dict)
    replication_bytes_out: int = 0
    batches_in: dict[str, int] = field(default_factory=dict)
    rejected_batches: int = 0
    connections_accepted: int = 0
    connections_refused: int = 0
    keyless_records_refused: int = 0
    isr_shrinks: int = 0
    isr_expands: int = 0
    isr_updates_failed: int = 0
    # By what happened and the listener.
    logins: dict[tuple[str, str], int] = field(default_factory=dict)

    def count_login(self, what: str, listener: str) -> None:
        self.logins[what, listener] = self.logins.get((what, listener), 0) + 1

    def answered_error(self, request: str, code: int) -> None:
        """An error code in an answer; one for each partition, where these have their own."""
        key = (request, int(code))
        self.request_errors[key] = self.request_errors.get(key, 0) + 1

    def forget(self, topic: str) -> None:
        """It was deleted. Else whoever makes and deletes topics makes this grow for ever."""
        for totals in (self.bytes_in, self.bytes_out, self.batches_in):
            totals.pop(topic, None)

    def samples(self) -> Iterable[MetricSample]:
        yield from _by_label(
            "kafka_network_requestmetrics_requests_total", "request", self.requests,
            "Requests served, by API.",
        )  # fmt: skip
        yield from _by_label(
            "kafka_network_requestmetrics_localtimems_sum", "request", self.local_time_ms,
            "Milliseconds in handlers, by API; requests_total is their count.",
        )  # fmt: skip
        for (request, code), count in sorted(self.request_errors.items()):
            labels = (("request", request), ("error", str(code)))
            yield MetricSample(
                "kafka_network_requestmetrics_errors_total", "counter",
                "Error codes answered, by API.", count, labels,
            )  # fmt: skip
        yield from _by_label(
            "kafka_server_brokertopicmetrics_bytesin_total", "topic", self.bytes_in,
            "Bytes of record batches appended.",
        )  # fmt: skip
        yield from _by_label(
            "kafka_server_brokertopicmetrics_bytesout_total", "topic", self.bytes_out,
            "Bytes of record batches sent to consumers.",
        )  # fmt: skip
        for (what, listener), count in sorted(self.logins.items()):
            yield MetricSample(
                f"kafka_server_socket_server_metrics_{what}_total", "counter",
                _LOGINS[what], count, (("listener", listener),),
            )  # fmt: skip
        yield from _by_label(
            "ledgerstone_batches_in_total", "topic", self.batches_in, "Record batches appended."
        )
        for name, value, text in (
            ("ledgerstone_rejected_batches_total", self.rejected_batches, "Batches refused."),
            (
                "kafka_server_brokertopicmetrics_nokeycompactedtopicrecords_total",
                self.keyless_records_refused,
                "Batches refused because a compacted topic got a record without a key.",
            ),
            (
                "kafka_server_brokertopicmetrics_replicationbytesout_total",
                self.replication_bytes_out,
                "Bytes of record batches sent to followers.",
            ),
            (
                "kafka_server_replicamanager_isrshrinks_total",
                self.isr_shrinks,
                "Times that followers left the in-sync replicas of a partition led here.",
            ),
            (
                "kafka_server_replicamanager_isrexpands_total",
                self.isr_expands,
                "Times that a follower joined the in-sync replicas of a partition led here.",
            ),
            (
                "kafka_server_replicamanager_failedisrupdates_total",
                self.isr_updates_failed,
                "Changes of in-sync replicas that the controller did not make.",
            ),
            (
                "ledgerstone_connections_accepted_total",
                self.connections_accepted,
                "Connections accepted.",
            ),
            (
                "ledgerstone_connections_refused_total",
                self.connections_refused,
                "Connections closed at once because there were too many.",
            ),
        ):
            yield MetricSample(name, "counter", text, value)


def _by_label(
    name: str, label: str, values: Mapping[str, int], text: str
) -> Iterable[MetricSample]:
    for key, value in sorted(values.items()):
        yield MetricSample(name, "counter", text, value, ((label, key),))


def add(counts: dict[str, int], key: str, amount: int = 1) -> None:
    counts[key] = counts.get(key, 0) + amount


class Exposition:
    """Prometheus text format: samples of one name stand together under their HELP and TYPE, in
    whatever order they are added."""

    __slots__ = ("_lines",)

    def __init__(self) -> None:
        self._lines: dict[str, list[str]] = {}

    def add(self, samples: Iterable[MetricSample]) -> None:
        for name, kind, text, value, labels in samples:
            lines = self._lines.get(name)
            if lines is None:
                lines = self._lines[name] = [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
            lines.append(f"{name}{_labels(labels)} {_number(value)}")

    def text(self) -> str:
        return "".join(f"{line}\n" for lines in self._lines.values() for line in lines)


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    escaped = (
        '{}="{}"'.format(key, value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n"))
        for key, value in labels
    )
    return "{" + ",".join(escaped) + "}"


def _number(value: float) -> str:
    # :g would round a byte count to six digits.
    return str(int(value)) if float(value).is_integer() else repr(float(value))
