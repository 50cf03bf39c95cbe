"""Settings: how a key is declared, parsed and refused. Pure; the topic keys are in `topic`.

A key is declared once, with Kafka's name, its type, default, range, doc and the broker keys that
serve as its default (its synonyms, first match wins). Parsing, validation, DescribeConfigs and the
reference documentation all read this declaration.
"""

import enum
import math
import re
from typing import Final

from ledgerstone.dataclasses import dataclass
from ledgerstone.errors import ConfigError
from ledgerstone.types import INT32_MAX, INT64_MAX

Value = bool | int | float | str | tuple[str, ...]


class ConfigType(enum.Enum):
    """Kafka's config types; the value is what DescribeConfigs calls them on the wire."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    PASSWORD = 9


_BOUNDS: Final = {
    ConfigType.SHORT: (-(2**15), 2**15 - 1),
    ConfigType.INT: (-(2**31), INT32_MAX),
    ConfigType.LONG: (-(2**63), INT64_MAX),
}
# As Kafka writes numbers; int() and float() also take underscores, other scripts and "inf".
_WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,40}")
_NUMBER: Final = re.compile(
    r"[+-]?(?:[0-9]{1,40}\.?|[0-9]{0,40}\.[0-9]{1,40})(?:[eE][+-]?[0-9]{1,3})?"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Synonym:
    """A broker key that gives a topic key its default; `scale` turns hours or minutes into ms."""

    name: str
    scale: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigKey:
    name: str
    kind: ConfigType
    default: Value
    doc: str
    at_least: float | None = None
    at_most: float | None = None
    other_than: tuple[int, ...] = ()
    one_of: tuple[str, ...] = ()
    pattern: str = ""  # the text, or each member of a list, must match all of it
    synonyms: tuple[Synonym, ...] = ()

    def parse(self, text: str) -> Value:
        """The typed value of `text`; ConfigError names the key, the value and the reason."""
        value = self._typed(text.strip())
        self.check(value, text)
        return value

    def _typed(self, text: str) -> Value:
        match self.kind:
            case ConfigType.STRING | ConfigType.PASSWORD:
                return self._member(text, text)
            case ConfigType.LIST:
                names = tuple(name.strip() for name in text.split(",") if name.strip())
                return tuple(self._member(name, text) for name in names)
            case ConfigType.BOOLEAN:
                if text.lower() not in ("true", "false"):
                    raise ConfigError(self.name, text, "must be true or false")
                return text.lower() == "true"
            case ConfigType.DOUBLE:
                if _NUMBER.fullmatch(text) is None or not math.isfinite(float(text)):
                    raise ConfigError(self.name, text, "must be a number")
                return float(text)
            case _:
                if _WHOLE_NUMBER.fullmatch(text) is None:
                    raise ConfigError(self.name, text, "must be a whole number")
                return int(text)

    def _member(self, name: str, text: str) -> str:
        if self.one_of and name not in self.one_of:
            raise ConfigError(self.name, text, f"must be one of {', '.join(self.one_of)}")
        if self.pattern and re.fullmatch(self.pattern, name) is None:
            raise ConfigError(self.name, text, f"{name!r} does not match {self.pattern}")
        return name

    def check(self, value: Value, text: str) -> None:
        """Refuses a value out of range; `text` is what the operator wrote."""
        if isinstance(value, bool | str | tuple):
            return
        low, high = _BOUNDS.get(self.kind, (None, None))
        if low is not None and high is not None and not low <= value <= high:
            raise ConfigError(self.name, text, f"must fit a {self.kind.name.lower()}")
        if self.at_least is not None and value < self.at_least:
            raise ConfigError(self.name, text, f"must be at least {self.at_least}")
        if self.at_most is not None and value > self.at_most:
            raise ConfigError(self.name, text, f"must be at most {self.at_most}")
        if value in self.other_than:
            raise ConfigError(self.name, text, f"must not be {value}")


def format_value(value: Value) -> str:
    """The text Kafka would show for a value."""
    match value:
        case bool():
            return "true" if value else "false"
        case tuple():
            return ",".join(value)
        case _:
            return str(value)
