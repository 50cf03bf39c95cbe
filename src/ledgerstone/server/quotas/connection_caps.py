"""How many connections may be open: in all, on a listener, from an address. Pure."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from ledgerstone.config.broker import BrokerConfig
from ledgerstone.config.broker_keys import BROKER_KEYS
from ledgerstone.config.connection_limits import OVERRIDES_KEY, parse_overrides
from ledgerstone.config.listener_keys import own_values
from ledgerstone.types import INT32_MAX


class ConnectionCaps(NamedTuple):
    """`protected` is the listener of brokers, where there are others: what counts for all listeners
    together does not hold there, so that clients cannot lock brokers out."""

    total: int
    per_ip: int
    by_ip: Mapping[str, int]
    by_listener: Mapping[str, int]
    protected: str | None

    @classmethod
    def of(cls, config: BrokerConfig, values: Mapping[str, str]) -> "ConnectionCaps":
        """`values` are the broker's settings as they are now."""
        return cls(
            total=_value("max.connections", values),
            per_ip=_value("max.connections.per.ip", values),
            by_ip=parse_overrides(_value(OVERRIDES_KEY, values)),
            by_listener={
                name: int(text) for name, text in own_values(values, "max.connections").items()
            },
            protected=protected_listener(config),
        )

    def of_ip(self, address: str) -> int:
        return self.by_ip.get(address, self.per_ip)

    def of_listener(self, listener: str) -> int:
        return self.by_listener.get(listener, INT32_MAX)


def protected_listener(config: BrokerConfig) -> str | None:
    is_only_one = len(config.listeners) <= 1
    return None if is_only_one else config.cluster.inter_broker_listener_name


def _value(name: str, values: Mapping[str, str]) -> Any:  # noqa: ANN401 - as the key declares it
    key = BROKER_KEYS[name]
    return key.parse(values[name]) if name in values else key.default
