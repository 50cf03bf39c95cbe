"""Properties of a client in a file, as Kafka's tools take them. Shell."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ledgerstone.config.properties import parse_properties
from ledgerstone.errors import ConfigError

# Names a file for every command and pipeline of a process.
VARIABLE: Final = "LEDGERSTONE_COMMAND_CONFIG"
_MOST_BYTES: Final = 1 << 20


def read_client_properties(path: str) -> Mapping[str, str]:
    try:
        with Path(path).open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise ConfigError("command-config", path, f"is larger than {_MOST_BYTES} bytes")
        return parse_properties(data)
    except OSError as error:
        raise ConfigError("command-config", path, f"cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError("command-config", path, str(error)) from error
