"""The options of `format("ledgerstone")`: those of Spark's own Kafka connector, and ours. Pure.

Names, defaults and errors are the connector's, so that a query moves here by changing its format;
README.md lists what differs. Options arrive in any case, and as text.
"""

import re
from collections.abc import Mapping
from enum import Enum
from typing import Final, TypeVar

from ledgerstone.client.cluster import Endpoint
from ledgerstone.errors import ConfigError
from ledgerstone.spark.kafka_options import PREFIX, check_kafka_option, check_own_option

E = TypeVar("E", bound=Enum)

DEFAULT_PORT: Final = 9092
_DURATION: Final = re.compile(r"([0-9]{1,15})\s*(ms|s|m|min|h|d)?")
_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_ENDPOINT: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\s:\[\]]+))(?::([0-9]{1,5}))?")


class Options:
    """Options by case-insensitive name, with typed access."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._values = {name.lower(): value for name, value in options.items()}

    def check(self, *, kafka: tuple[str, ...], own: tuple[str, ...]) -> None:
        """Raises ConfigError for an option that the user set but that would be ignored."""
        for name, value in self._values.items():
            if name.startswith(PREFIX):
                check_kafka_option(name, value, kafka)
            else:
                check_own_option(name, own)

    def text(self, name: str) -> str | None:
        return self._values.get(name.lower())

    def with_prefix(self, prefix: str) -> dict[str, str]:
        """Without it."""
        given = self._values.items()
        return {name.removeprefix(prefix): text for name, text in given if name.startswith(prefix)}

    def flag(self, name: str, *, default: bool) -> bool:
        value = self.text(name)
        if value is None:
            return default
        if value.lower() not in ("true", "false"):
            raise ConfigError(name, value, "true or false")
        return value.lower() == "true"

    def count(self, name: str, *, minimum: int = 1) -> int | None:
        value = self.text(name)
        if value is None:
            return None
        if not re.fullmatch(r"[0-9]{1,18}", value) or int(value) < minimum:
            raise ConfigError(name, value, f"a whole number from {minimum} on")
        return int(value)

    def duration_ms(self, name: str, *, default: int) -> int:
        value = self.text(name)
        if value is None:
            return default
        found = _DURATION.fullmatch(value.strip())
        if found is None:
            raise ConfigError(name, value, "a duration like 500ms, 30s or 15m")
        return int(found[1]) * _MS[found[2] or "ms"]

    def one_of(self, name: str, kind: type[E], default: E) -> E:
        value = self.text(name)
        if value is None:
            return default
        try:
            return kind(value.lower())
        except ValueError:
            known = ", ".join(str(each.value) for each in kind)
            raise ConfigError(name, value, f"one of {known}") from None

    def endpoints(self, name: str) -> tuple[Endpoint, ...] | None:
        value = self.text(name)
        if value is None:
            return None
        return tuple(_endpoint(name, part.strip()) for part in value.split(",") if part.strip())


def _endpoint(name: str, text: str) -> Endpoint:
    found = _ENDPOINT.fullmatch(text)
    port = int(found[3]) if found and found[3] else DEFAULT_PORT
    if found is None or not 0 < port < 65536:
        raise ConfigError(name, text, "HOST:PORT")
    return Endpoint(found[1] or found[2], port)
