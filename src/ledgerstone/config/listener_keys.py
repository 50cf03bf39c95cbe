"""Keys that one listener has for itself: `listener.name.<name>.<key>`. Pure.

The name is in lower case. A listener's own value goes before the one that is set for all. Keys of
one SASL mechanism have the mechanism in between: `listener.name.<name>.<mechanism>.<key>`.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from ledgerstone.config.broker_key import BrokerKey

_PREFIX: Final = re.compile(r"listener\.name\.([^.=\s]+)\.")
_MECHANISM: Final = re.compile(r"(?:plain|scram-sha-(?:256|512)|oauthbearer|gssapi)\.")
# What can be said for one listener.
_OWN: Final = (
    "ssl.",
    "sasl.",
    "connections.max.reauth.ms",
    "principal.builder.class",
    "max.connections",
    "max.connection.creation.rate",
)


class ListenerKey(NamedTuple):
    """A key as it was given, taken apart. `mechanism` is empty for most."""

    listener: str  # as in `listeners`, in upper case
    mechanism: str
    key: str


def split_listener_key(name: str) -> ListenerKey | None:
    """None: not a key of one listener."""
    found = _PREFIX.match(name)
    if found is None:
        return None
    rest = name[found.end() :]
    mechanism = ""
    if (named := _MECHANISM.match(rest)) is not None:
        mechanism, rest = named[0][:-1], rest[named.end() :]
    if not rest.startswith(_OWN):
        return None
    return ListenerKey(found[1].upper(), mechanism.upper(), rest)


def find_key(name: str, keys: Mapping[str, BrokerKey]) -> BrokerKey | None:
    """What a name was declared as, also that of one listener; None: unknown."""
    found = keys.get(name)
    if found is None and (own := split_listener_key(name)) is not None:
        found = keys.get(own.key)
    return found


def own_values(raw: Mapping[str, str], key: str) -> dict[str, str]:
    """Listeners that have the key for themselves, with their values."""
    found = {}
    for name, text in raw.items():
        own = split_listener_key(name)
        if own is not None and own.key == key and not own.mechanism:
            found[own.listener] = text
    return found


def listener_values(raw: Mapping[str, str], listener: str) -> dict[str, str]:
    """What is set for a listener, by plain keys, those for all included. Keys of one mechanism
    begin with its name in lower case."""
    values = {name: text for name, text in raw.items() if split_listener_key(name) is None}
    for name, text in raw.items():
        own = split_listener_key(name)
        if own is not None and own.listener == listener:
            key = f"{own.mechanism.lower()}.{own.key}" if own.mechanism else own.key
            values[key] = text
    return values
