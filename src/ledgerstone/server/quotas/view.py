"""Quotas as operators see them: metrics, and who has to wait. Grade D, over a broker.

Labels come from clients, so there is an end to them: those that waited for longest come first.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from ledgerstone.quotas.counters import MutationCounter, RateCounter
from ledgerstone.quotas.entities import QuotaKey
from ledgerstone.quotas.rate import NO_BOUND, rate_of
from ledgerstone.server.metrics import Labels, MetricSample
from ledgerstone.server.quotas.agent import QuotaAgent
from ledgerstone.server.quotas.client_quotas import NANOSECONDS_OF_A_PERCENT
from ledgerstone.server.quotas.connection_quotas import ConnectionRate

MOST_SHOWN: Final = 1000


class ThrottledClient(NamedTuple):
    """Who had to wait since its counter began."""

    quota: str
    user: str | None  # None: whoever it is
    client_id: str | None
    level: str
    limit: float
    used: float
    waits_ms: int  # from now on; 0: not now
    times: int
    total_ms: int
    # Of one batch that will never pass; 0: there is none.
    too_large: int


def throttled_clients(agent: QuotaAgent, now_ms: int) -> list[ThrottledClient]:
    """Who waits now first, then who waited most."""
    clients = agent.clients
    rows = [
        *_rows(QuotaKey.PRODUCER_BYTE_RATE, clients.produce, 1, now_ms),
        *_rows(QuotaKey.CONSUMER_BYTE_RATE, clients.fetch, 1, now_ms),
        *_rows(QuotaKey.REQUEST_PERCENTAGE, clients.request, NANOSECONDS_OF_A_PERCENT, now_ms),
        *_rows(QuotaKey.CONTROLLER_MUTATION_RATE, clients.mutations, 1, now_ms),
    ]
    return sorted(rows, key=lambda each: (-each.waits_ms, -each.total_ms, each.quota))


def _rows(
    key: QuotaKey,
    counters: Iterable[RateCounter] | Iterable[MutationCounter],
    scale: float,
    now_ms: int,
) -> Iterator[ThrottledClient]:
    for each in counters:
        notes = each.throttled
        if notes is None:
            continue
        yield ThrottledClient(
            quota=key,
            user=each.key.user,
            client_id=each.key.client_id,
            level="removed" if each.level is None else each.level.text,
            limit=each.bound / scale,
            used=rate_of(each.windows, now_ms) / scale,
            waits_ms=max(0, notes.until_ms - now_ms),
            times=notes.count,
            total_ms=notes.total_ms,
            too_large=notes.too_large,
        )


# -- metrics -----------------------------------------------------------------------------------


def samples(agent: QuotaAgent, now_ms: int, muted: int) -> Iterator[MetricSample]:
    yield MetricSample(
        "ledgerstone_muted_connections", "gauge", "Connections that are not read now.", muted
    )
    clients, connections = agent.clients, agent.connections
    for name, counters, text in (
        ("produce_byte_rate", clients.produce, "Bytes produced a second."),
        ("fetch_byte_rate", clients.fetch, "Bytes fetched a second."),
    ):
        yield from _rate_samples(name, text, counters, 1, now_ms)
    text = "Share of the event loop, which is 100 percent, in percent."
    yield from _rate_samples(
        "request_request_time", text, clients.request, NANOSECONDS_OF_A_PERCENT, now_ms
    )
    if clients.counts_time:
        exempt = rate_of(clients.exempt, now_ms) / NANOSECONDS_OF_A_PERCENT
        text = "The same for brokers, and for connections that have asked for nothing."
        yield MetricSample("kafka_server_request_exempt_request_time", "gauge", text, exempt)
    for each in islice(clients.mutations, MOST_SHOWN):
        labels = _labels(each)
        if each.bound < NO_BOUND:
            tokens = each.bucket.tokens(each.bound, now_ms)
            text = "Partitions that may be changed at once."
            yield MetricSample(
                "kafka_server_controllermutation_tokens", "gauge", text, tokens, labels
            )
        rate, text = rate_of(each.windows, now_ms), "Partitions changed a second."
        yield MetricSample(
            "kafka_server_controllermutation_mutation_rate", "gauge", text, rate, labels
        )
    for name, some in (
        ("produce", clients.produce),
        ("fetch", clients.fetch),
        ("request", clients.request),
        ("controllermutation", clients.mutations),
    ):
        yield from _throttle_samples(name, some, now_ms)
    yield from _connection_samples((), connections.broker, now_ms)
    for listener, rate_here in connections.listeners.items():
        yield from _connection_samples((("listener", listener),), rate_here, now_ms)
    for address, rate_here in islice(connections.addresses.items(), MOST_SHOWN):
        yield from _connection_samples((("ip", address),), rate_here, now_ms)


def _labels(counter: RateCounter | MutationCounter) -> Labels:
    user, client_id = counter.key
    return (("user", user or ""), ("client_id", client_id or ""))


def _rate_samples(
    name: str, text: str, counters: Iterable[RateCounter], scale: float, now_ms: int
) -> Iterator[MetricSample]:
    for each in islice(counters, MOST_SHOWN):
        rate = each.rate(now_ms) / scale
        yield MetricSample(f"kafka_server_{name}", "gauge", text, rate, _labels(each))


def _throttle_samples(
    name: str, counters: Iterable[RateCounter] | Iterable[MutationCounter], now_ms: int
) -> Iterator[MetricSample]:
    throttled = [each for each in counters if each.throttled is not None]
    waiting = 0
    for each in throttled:
        assert each.throttled is not None
        waiting += each.throttled.until_ms > now_ms
    text = "Clients that wait now, by counters."
    yield MetricSample(f"kafka_server_{name}_queue_size", "gauge", text, waiting)
    for each in throttled[:MOST_SHOWN]:
        notes = each.throttled
        assert notes is not None
        text, labels = "Average of throttle times of the last minute, in ms.", _labels(each)
        average = notes.average_ms(now_ms)
        yield MetricSample(f"kafka_server_{name}_throttle_time", "gauge", text, average, labels)
        text = "Milliseconds that clients were told to wait."
        total = notes.total_ms
        yield MetricSample(f"ledgerstone_{name}_throttle_ms_total", "counter", text, total, labels)


def _connection_samples(
    labels: Labels, rate: ConnectionRate | None, now_ms: int
) -> Iterator[MetricSample]:
    if rate is None:
        return
    name = "kafka_server_socketservermetrics_connection_accept_rate"
    text = "Connections accepted a second; by listener or address where these have a limit."
    yield MetricSample(name, "gauge", text, rate_of(rate.windows, now_ms), labels)
    text = "Connections that came too fast: a listener waited, or an address was refused."
    yield MetricSample(
        "ledgerstone_connections_throttled_total", "counter", text, rate.throttled, labels
    )
