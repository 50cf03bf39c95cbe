"""`max.connections.per.ip.overrides`: limits of some addresses. Pure."""

import ipaddress
from typing import Final

from ledgerstone.errors import ConfigError

OVERRIDES_KEY: Final = "max.connections.per.ip.overrides"
_LONGEST_NUMBER: Final = 10


def parse_overrides(text: str) -> dict[str, int]:
    """By address. Differs from Kafka: host names are refused, since whoever answers for a name
    would decide about limits."""
    limits: dict[str, int] = {}
    for each in filter(None, (part.strip() for part in text.split(","))):
        host, colon, number = each.rpartition(":")
        try:
            address = ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
        except ValueError as error:
            raise ConfigError(OVERRIDES_KEY, text, f"{host!r} is no IP address") from error
        is_number = number.isdecimal() and number.isascii() and len(number) <= _LONGEST_NUMBER
        if not colon or not is_number:
            raise ConfigError(OVERRIDES_KEY, text, f"{each!r} is not address:number")
        limits[str(address)] = int(number)
    return limits
