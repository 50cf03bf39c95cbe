"""Fetches schemas from a registry by their id. Shell.

A schema with an id never changes, so each is fetched once per process.
"""

import http.client
import json
from functools import lru_cache
from typing import Any, Final
from urllib.parse import urlsplit

import fastavro

from ledgerstone.pipeline.converting import Unfit
from ledgerstone.pipeline.errors import PipelineError

_TIMEOUT_S: Final = 10.0
_MAX_SCHEMA_BYTES: Final = 4 << 20


@lru_cache(maxsize=1024)
def registered_schema(registry: str, number: int) -> Any:  # noqa: ANN401 - fastavro's own
    address = urlsplit(registry)
    is_https = address.scheme == "https"
    kind = http.client.HTTPSConnection if is_https else http.client.HTTPConnection
    connection = kind(address.hostname or "", address.port, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", f"{address.path.rstrip('/')}/schemas/ids/{number}")
        response = connection.getresponse()
        body = response.read(_MAX_SCHEMA_BYTES)
    except (OSError, http.client.HTTPException) as error:
        raise PipelineError(f"the schema registry at {registry}: {error}") from error
    finally:
        connection.close()
    if response.status == http.client.NOT_FOUND:
        raise Unfit(f"the registry has no schema {number}")
    if response.status != http.client.OK:
        raise PipelineError(f"the schema registry at {registry} answered {response.status}")
    return fastavro.parse_schema(json.loads(json.loads(body)["schema"]))
