"""Every setting of a group, declared once. Pure.

The names, defaults and ranges are Kafka 4.3's. They are for groups of the types consumer, share and
streams, which are not served yet: a setting is checked, kept and shown, but has no effect.
`from_broker` is the broker key that holds Kafka's default. This broker does not have that key and
always uses the key's own default.
"""

import re
from collections.abc import Mapping
from typing import Final

from ledgerstone.config.setting import ConfigKey, ConfigType, Value
from ledgerstone.dataclasses import dataclass
from ledgerstone.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupKey(ConfigKey):
    from_broker: str


def _number(name: str, default: int, low: int, high: int | None, doc: str) -> GroupKey:
    return GroupKey(
        name=name,
        kind=ConfigType.INT,
        default=default,
        at_least=low,
        at_most=high,
        doc=doc,
        from_broker=f"group.{name}",
    )


def _timings(kind: str) -> tuple[GroupKey, ...]:
    return (
        _number(
            f"{kind}.session.timeout.ms",
            45_000,
            45_000,
            60_000,
            "How long a member may miss heartbeats before it is removed.",
        ),
        _number(
            f"{kind}.heartbeat.interval.ms",
            5000,
            5000,
            15_000,
            "How often a member sends heartbeats.",
        ),
        _number(
            f"{kind}.assignment.interval.ms",
            1000,
            0,
            15_000,
            "Least time between two assignments of the group.",
        ),
    )


_SHARE: Final = (
    _number(
        "share.record.lock.duration.ms",
        30_000,
        15_000,
        60_000,
        "How long a member holds a fetched record before others may get it.",
    ),
    _number(
        "share.delivery.count.limit",
        5,
        2,
        10,
        "Most deliveries of a record before it is given up.",
    ),
    _number(
        "share.partition.max.record.locks",
        2000,
        100,
        4000,
        "Most records of a partition that members may hold at a time.",
    ),
    GroupKey(
        name="share.auto.offset.reset",
        kind=ConfigType.STRING,
        default="latest",
        doc="Where a group without offsets starts: earliest, latest or by_duration:PT1H.",
        from_broker="share.auto.offset.reset",
    ),
    GroupKey(
        name="share.isolation.level",
        kind=ConfigType.STRING,
        default="read_uncommitted",
        one_of=("read_committed", "read_uncommitted"),
        doc="Whether records of open transactions are delivered.",
        from_broker="share.isolation.level",
    ),
    GroupKey(
        name="share.renew.acknowledge.enable",
        kind=ConfigType.BOOLEAN,
        default=True,
        doc="Whether a member may renew its hold on a record.",
        from_broker="share.renew.acknowledge.enable",
    ),
)
_STREAMS: Final = (
    _number("streams.num.standby.replicas", 0, 0, 2, "Standby replicas of each task."),
    _number(
        "streams.initial.rebalance.delay.ms",
        3000,
        0,
        None,
        "How long a new group waits for more members.",
    ),
)

GROUP_KEYS: Final[Mapping[str, GroupKey]] = {
    key.name: key
    for key in (
        *_timings("consumer"),
        *_timings("share"),
        *_SHARE,
        *_timings("streams"),
        *_STREAMS,
    )
}

# A duration as java.time.Duration reads it: how far back a share group starts.
_DURATION: Final = re.compile(
    r"by_duration:P(?=.)(?:\d+D)?(?:T(?=.)(?:\d+H)?(?:\d+M)?(?:\d+(?:\.\d+)?S)?)?", re.IGNORECASE
)


def parse_group_settings(settings: Mapping[str, str]) -> dict[str, Value]:
    """Typed values; refuses unknown names and values out of range."""
    values: dict[str, Value] = {}
    for name, text in settings.items():
        key = GROUP_KEYS.get(name)
        if key is None:
            raise ConfigError(name, text, "unknown group config name")
        values[name] = key.parse(text)
        if name == "share.auto.offset.reset":
            _check_reset(name, text)
    return values


def _check_reset(name: str, text: str) -> None:
    if text not in ("earliest", "latest") and _DURATION.fullmatch(text) is None:
        raise ConfigError(name, text, "must be earliest, latest or by_duration:<ISO 8601>")
