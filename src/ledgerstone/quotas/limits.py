"""Which limit holds for a client, and with whom it shares its counter: the eight levels. Pure.

For one quota key: a user entity that has only a produce quota hides nothing of its fetch quota.
"""

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Final, NamedTuple

from ledgerstone.quotas.entities import EntityType, QuotaEntity
from ledgerstone.quotas.rate import NO_BOUND


class CounterKey(NamedTuple):
    """Who shares a counter. None: whoever it is.

    Differs from Kafka: an empty client id is a client id like any other, so that defaults hold for
    it. There it stands for "whoever", and escapes them."""

    user: str | None
    client_id: str | None


class _Default(Enum):
    DEFAULT = "any name that has no quota of its own"


_DEFAULT: Final = _Default.DEFAULT
_Part = str | _Default | None


# Kinds of entities; those that are set are added up.
_BY_CLIENT_ID, _BY_USER, _BY_BOTH = 1, 2, 4


class Level(NamedTuple):
    """Where a limit comes from: 1 is the most specific."""

    number: int
    text: str


_BOTH_LEVELS: Final[tuple[Level, ...]] = (
    Level(1, "user and client id"),
    Level(2, "user, default client id"),
    Level(4, "default user, client id"),
    Level(5, "default user and client id"),
)
_USER_LEVELS: Final[tuple[Level, ...]] = (Level(3, "user"), Level(6, "default user"))
_CLIENT_LEVELS: Final[tuple[Level, ...]] = (Level(7, "client id"), Level(8, "default client id"))


class Limit(NamedTuple):
    bound: float
    level: Level | None


UNLIMITED: Final = Limit(NO_BOUND, None)


class QuotaLimits:
    """Never changes; a new one is made when a quota is set or removed."""

    __slots__ = ("_bounds", "_kinds")

    def __init__(self, bounds: Mapping[QuotaEntity, float]) -> None:
        """Entities without a user and a client id are somebody else's."""
        self._bounds: dict[tuple[_Part, _Part], float] = {}
        self._kinds = 0
        for entity, bound in bounds.items():
            parts = dict(entity.parts)
            user = _part(parts, EntityType.USER)
            client_id = _part(parts, EntityType.CLIENT_ID)
            if (user is None and client_id is None) or len(parts) > 2:
                continue
            self._bounds[user, client_id] = bound
            self._kinds |= _kind(user, client_id)

    def __bool__(self) -> bool:
        return bool(self._bounds)

    def counter_key(self, user: str, client_id: str) -> CounterKey:
        """While there are quotas of one kind only, every client is counted by that kind, also one
        that none of them is for."""
        kinds, bounds = self._kinds, self._bounds
        if kinds == _BY_USER:
            return CounterKey(user, None)
        if kinds == _BY_BOTH:
            return CounterKey(user, client_id)
        if kinds == _BY_CLIENT_ID:
            return CounterKey(None, client_id)
        if (user, client_id) in bounds or (user, _DEFAULT) in bounds:
            return CounterKey(user, client_id)
        if (user, None) in bounds:
            return CounterKey(user, None)
        if (_DEFAULT, client_id) in bounds or (_DEFAULT, _DEFAULT) in bounds:
            return CounterKey(user, client_id)
        if (_DEFAULT, None) in bounds:
            return CounterKey(user, None)
        return CounterKey(None, client_id)

    def limit_of(self, key: CounterKey) -> Limit:
        for level, candidate in _candidates(key):
            bound = self._bounds.get(candidate)
            if bound is not None:
                return Limit(bound, level)
        return UNLIMITED


def _candidates(key: CounterKey) -> Iterator[tuple[Level, tuple[_Part, _Part]]]:
    """Entities whose quota may hold for those who share the counter, the most specific first."""
    user, client_id = key
    if user is not None and client_id is not None:
        users: tuple[_Part, ...] = (user, user, _DEFAULT, _DEFAULT)
        yield from zip(
            _BOTH_LEVELS, zip(users, (client_id, _DEFAULT) * 2, strict=True), strict=True
        )
    elif user is not None:
        yield from zip(_USER_LEVELS, ((user, None), (_DEFAULT, None)), strict=True)
    else:
        yield from zip(_CLIENT_LEVELS, ((None, client_id), (None, _DEFAULT)), strict=True)


def _part(parts: Mapping[str, str | None], kind: EntityType) -> _Part:
    if kind not in parts:
        return None
    name = parts[kind]
    return _DEFAULT if name is None else name


def _kind(user: _Part, client_id: _Part) -> int:
    if user is not None and client_id is not None:
        return _BY_BOTH
    return _BY_USER if user is not None else _BY_CLIENT_ID
