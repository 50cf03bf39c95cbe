"""How a broker key is declared. Pure; the keys themselves are in `broker_keys`."""

import enum

from ledgerstone.config.setting import ConfigKey, ConfigType, Value, format_value
from ledgerstone.dataclasses import dataclass


class Update(enum.Enum):
    """Whether the key can change on a running broker, and for which brokers."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerKey:
    name: str
    kind: ConfigType
    default: Value | None  # None: unset unless configured.
    doc: str
    at_least: float | None = None
    at_most: float | None = None
    one_of: tuple[str, ...] = ()
    update: Update = Update.READ_ONLY
    is_sensitive: bool = False
    # Where a single node and a node with `process.roles` have different defaults: the latter's.
    cluster_default: Value | None = None

    @property
    def default_text(self) -> str | None:
        return None if self.default is None else format_value(self.default)

    def default_text_for(self, *, in_cluster: bool) -> str | None:
        if in_cluster and self.cluster_default is not None:
            return format_value(self.cluster_default)
        return self.default_text

    def parse(self, text: str) -> Value:
        """The typed value of `text`; ConfigError names the key, the value and the reason."""
        rule = ConfigKey(
            name=self.name,
            kind=self.kind,
            default="",
            doc="",
            at_least=self.at_least,
            at_most=self.at_most,
            one_of=self.one_of,
        )
        return rule.parse(text)


def text_key(name: str, default: str | None, doc: str) -> BrokerKey:
    return BrokerKey(name=name, kind=ConfigType.STRING, default=default, doc=doc)


def flag_key(name: str, default: bool, doc: str) -> BrokerKey:
    return BrokerKey(name=name, kind=ConfigType.BOOLEAN, default=default, doc=doc)


def int_key(name: str, default: int, doc: str, at_least: int = 1) -> BrokerKey:
    return BrokerKey(name=name, kind=ConfigType.INT, default=default, doc=doc, at_least=at_least)


def long_key(name: str, default: int, doc: str, at_least: int = 1) -> BrokerKey:
    return BrokerKey(name=name, kind=ConfigType.LONG, default=default, doc=doc, at_least=at_least)
