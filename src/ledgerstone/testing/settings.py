"""Settings as tests write them, and those a broker in a test starts with. Grade P."""

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from types import MappingProxyType
from typing import Final

Setting = str | int | float | bool | Sequence[str]

# What differs from a broker's defaults, and why a test wants it so.
DEFAULTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        # One directory to make for the first group instead of fifty.
        "offsets.topic.num.partitions": "1",
        # A group is complete when its first member is there.
        "group.initial.rebalance.delay.ms": "0",
        # A session may be short enough to watch it expire.
        "group.min.session.timeout.ms": "100",
        # Files that a pass replaced go at once, so "gone" means gone.
        "log.segment.delete.delay.ms": "0",
        # A log that is dirty enough is found within a tenth of a second.
        "log.cleaner.backoff.ms": "100",
        # Room for 80 000 keys instead of five million: the table is cleared for each pass.
        "log.cleaner.dedupe.buffer.size": "2097152",
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
    """A broker ignores what it does not know, since files made for Kafka carry much of it; a test
    that sets such a key tests something else than it says."""
    if not names:
        return
    candidates = list(known)
    told = []
    for name in names:
        close = get_close_matches(name, candidates, n=1)
        told.append(f"{name!r}" + (f" (did you mean {close[0]!r}?)" if close else ""))
    raise ValueError(f"no setting of the broker: {', '.join(told)}")


def parse_lines(lines: Sequence[str]) -> dict[str, str]:
    """`key=value` lines of an ini option; raises ValueError for any other."""
    found = {}
    for line in lines:
        name, equals, value = line.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"ledgerstone_config: {line!r} is not key=value")
        found[key_of(name.strip())] = value.strip()
    return found
