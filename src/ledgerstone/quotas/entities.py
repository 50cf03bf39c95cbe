"""Whom a quota is for, which quotas there are, and what values they may have. Pure.

An entity has one part or two: a user, a client id, both, or an address. A part without a name is
the default of its type.
"""

import ipaddress
import math
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from ledgerstone.errors import InvalidRequest
from ledgerstone.types import INT32_MAX, INT64_MAX


class EntityType(StrEnum):
    USER = "user"
    CLIENT_ID = "client-id"
    IP = "ip"


class QuotaEntity(NamedTuple):
    """Parts are sorted by their types, so that equal entities are equal values."""

    parts: tuple[tuple[str, str | None], ...]

    @classmethod
    def of(cls, parts: Mapping[str, str | None]) -> "QuotaEntity":
        return cls(tuple((kind, parts[kind]) for kind in sorted(parts)))

    def __str__(self) -> str:
        return ", ".join(
            f"{kind} {'<default>' if name is None else repr(name)}" for kind, name in self.parts
        )


class QuotaKey(StrEnum):
    """The wire's names."""

    PRODUCER_BYTE_RATE = "producer_byte_rate"
    CONSUMER_BYTE_RATE = "consumer_byte_rate"
    REQUEST_PERCENTAGE = "request_percentage"
    CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
    CONNECTION_CREATION_RATE = "connection_creation_rate"


# The largest whole number of each key; None: need not be whole.
_LARGEST: Final[Mapping[QuotaKey, int | None]] = {
    QuotaKey.PRODUCER_BYTE_RATE: INT64_MAX,
    QuotaKey.CONSUMER_BYTE_RATE: INT64_MAX,
    QuotaKey.REQUEST_PERCENTAGE: None,
    QuotaKey.CONTROLLER_MUTATION_RATE: None,
    QuotaKey.CONNECTION_CREATION_RATE: INT32_MAX,
}
# As in Kafka: so far may a value be from a whole number that it means.
_WHOLE_WITHIN: Final = 1e-6
_OF_CLIENTS: Final = frozenset(_LARGEST) - {QuotaKey.CONNECTION_CREATION_RATE}
_KEYS: Final[Mapping[tuple[str, ...], frozenset[QuotaKey]]] = {
    (EntityType.USER,): _OF_CLIENTS,
    (EntityType.CLIENT_ID,): _OF_CLIENTS,
    (EntityType.CLIENT_ID, EntityType.USER): _OF_CLIENTS,
    (EntityType.IP,): frozenset({QuotaKey.CONNECTION_CREATION_RATE}),
}
_TYPES: Final = frozenset(EntityType)


def checked_entity(parts: Iterable[tuple[str, str | None]]) -> QuotaEntity:
    """InvalidRequest where no quota can be for it."""
    by_type: dict[str, str | None] = {}
    for kind, name in parts:
        if kind in by_type:
            raise InvalidRequest(f"entity type {kind!r} is named more than once")
        if kind not in _TYPES:
            raise InvalidRequest(f"there is no entity type {kind!r}")
        if name == "":
            raise InvalidRequest(f"entity type {kind!r} with an empty name")
        by_type[kind] = name
    entity = QuotaEntity.of(by_type)
    if not by_type:
        raise InvalidRequest("a quota for nobody: the entity is empty")
    if keys_for(entity) is None:
        raise InvalidRequest(f"no quota can be for {entity}")
    return _with_plain_address(entity)


def _with_plain_address(entity: QuotaEntity) -> QuotaEntity:
    """Differs from Kafka: a host name, which every broker would resolve for itself, is refused."""
    ((kind, name), *others) = entity.parts
    if kind != EntityType.IP or name is None or others:
        return entity
    address = plain_address(name)
    if address is None:
        raise InvalidRequest(f"{name!r} is no IP address")
    return QuotaEntity(((kind, address),))


def plain_address(text: str) -> str | None:
    """The one text of an address: IPv6 in its short form, IPv4 also where it came mapped into IPv6,
    no zone. None: it is none."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def keys_for(entity: QuotaEntity) -> frozenset[QuotaKey] | None:
    """Which quotas it may have; None: it is a combination that has none."""
    return _KEYS.get(tuple(kind for kind, _ in entity.parts))


def check_value(entity: QuotaEntity, key: str, value: float) -> None:
    """InvalidRequest where the entity cannot have it."""
    keys = keys_for(entity)
    if keys is None or key not in keys:
        raise InvalidRequest(f"{key!r} is no quota of {entity}")
    # Differs from Kafka: whatever is not a number, or not finite, passes its comparisons.
    if not math.isfinite(value) or value <= 0:
        raise InvalidRequest(f"{key}={value}: must be greater than 0")
    largest = _LARGEST[QuotaKey(key)]
    if largest is None:
        return
    if abs(int(value + _WHOLE_WITHIN) - value) > _WHOLE_WITHIN:
        raise InvalidRequest(f"{key}={value}: must be a whole number")
    if value > largest or int(value) > largest:
        raise InvalidRequest(f"{key}={value}: must be at most {largest}")
