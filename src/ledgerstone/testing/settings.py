"""Parses settings given in tests, and has the defaults of a test's broker. Grade P."""

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from types import MappingProxyType
from typing import Final

Setting = str | int | float | bool | Sequence[str]

# Differences from a broker's defaults, and why tests want them.
DEFAULTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        # One directory for the first group instead of fifty.
        "offsets.topic.num.partitions": "1",
        # So with the first transaction.
        "transaction.state.log.num.partitions": "1",
        # A group does not wait for more members.
        "group.initial.rebalance.delay.ms": "0",
        # Sessions may be short enough to test their expiry.
        "group.min.session.timeout.ms": "100",
        # Replaced files are unlinked at once, so "gone" means gone.
        "log.segment.delete.delay.ms": "0",
        # A dirty log is found within a tenth of a second.
        "log.cleaner.backoff.ms": "100",
        # Room for 80 000 keys instead of five million: the table is cleared for each pass.
        "log.cleaner.dedupe.buffer.size": "2097152",
    }
)


# Of a cluster under test, beside those. Failures are noticed within seconds; a machine that is busy
# must not cause some.
CLUSTER_DEFAULTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "default.replication.factor": "3",
        "min.insync.replicas": "2",
        "offsets.topic.replication.factor": "3",
        "transaction.state.log.replication.factor": "3",
        "transaction.state.log.min.isr": "2",
        "controller.quorum.election.timeout.ms": "300",
        "controller.quorum.fetch.timeout.ms": "1500",
        "controller.quorum.request.timeout.ms": "1000",
        "broker.heartbeat.interval.ms": "200",
        "broker.session.timeout.ms": "2000",
        "replica.lag.time.max.ms": "2000",
        # A leader changes when the test says so.
        "auto.leader.rebalance.enable": "false",
    }
)


def key_of(name: str) -> str:
    """`delete_retention_ms` and `delete.retention.ms` are the same key."""
    return name.replace("_", ".")


def text_of(value: Setting) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    return ",".join(value)


def as_configs(settings: Mapping[str, Setting]) -> dict[str, str]:
    return {key_of(name): text_of(value) for name, value in settings.items()}


def refuse_unknown(names: Sequence[str], known: Iterable[str]) -> None:
    """A broker ignores unknown keys, since configurations made for Kafka have many. In a test, an
    unknown key is a mistake."""
    if not names:
        return
    candidates = list(known)
    shown = []
    for name in names:
        close = get_close_matches(name, candidates, n=1)
        shown.append(f"{name!r}" + (f" (did you mean {close[0]!r}?)" if close else ""))
    raise ValueError(f"not a setting of the broker: {', '.join(shown)}")


def parse_lines(lines: Sequence[str]) -> dict[str, str]:
    """`key=value` lines of an ini option; raises ValueError for any other."""
    found = {}
    for line in lines:
        name, equals, value = line.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"ledgerstone_config: {line!r} is not key=value")
        found[key_of(name.strip())] = value.strip()
    return found
