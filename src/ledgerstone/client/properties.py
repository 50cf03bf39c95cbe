"""Properties of a client in a file, as Kafka's tools take them. Shell."""

import logging
from collections.abc import Mapping
from functools import cache
from typing import Final

from ledgerstone.config.properties import parse_properties
from ledgerstone.errors import ConfigError, NotPrivate
from ledgerstone.private_files import read_operators

# Names a file for every command and pipeline of a process.
VARIABLE: Final = "LEDGERSTONE_COMMAND_CONFIG"
_MOST_BYTES: Final = 1 << 20
# Kafka's names, then librdkafka's and ours.
_SECRET: Final = frozenset(
    (
        *("sasl.jaas.config", "ssl.key.password", "ssl.keystore.key", "ssl.keystore.password"),
        *("ssl.truststore.password", "sasl.password", "ssl.key.pem"),
        "ledgerstone.oauthbearer.token",
    )
)


def read_client_properties(path: str) -> Mapping[str, str]:
    try:
        data, found = read_operators(path, _MOST_BYTES)
        if len(data) > _MOST_BYTES:
            raise ConfigError("command-config", path, f"is larger than {_MOST_BYTES} bytes")
        properties = parse_properties(data)
    except OSError as error:
        raise ConfigError("command-config", path, f"cannot be read: {error.strerror}") from error
    except NotPrivate as error:
        raise ConfigError("command-config", path, error.reason) from error
    except ValueError as error:
        raise ConfigError("command-config", path, str(error)) from error
    if not _SECRET.isdisjoint(properties) and (remark := found.remark("secrets")) is not None:
        _warn(remark)
    return properties


@cache
def _warn(remark: str) -> None:
    """Once: a command reads the file more often."""
    logging.getLogger(__name__).warning("%s", remark)
