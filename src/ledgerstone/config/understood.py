"""Whether a setting of brokers that is committed can be used here. Pure."""

from functools import lru_cache

from ledgerstone.config.broker_keys import BROKER_KEYS
from ledgerstone.config.connection_limits import OVERRIDES_KEY, parse_overrides
from ledgerstone.config.listener_keys import find_key
from ledgerstone.errors import ConfigError


@lru_cache(maxsize=4096)
def is_understood(name: str, text: str) -> bool:
    """A key that nobody here knows is read by nobody."""
    key = find_key(name, BROKER_KEYS)
    try:
        if key is not None:
            key.parse(text)
        if name == OVERRIDES_KEY:
            parse_overrides(text)
    except ConfigError:
        return False
    return True
