"""Fetches schemas from a registry by their id: Avro's, and Protobuf's as descriptors. Shell.

A schema with an id never changes, so each is fetched once per process. Protobuf's are asked for in
their serialized form, which needs no compiler here.
"""

import base64
import binascii
import http.client
import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final
from urllib.parse import quote, urlsplit

import fastavro

from ledgerstone.pipeline.converting import Unfit
from ledgerstone.pipeline.errors import PipelineError

_TIMEOUT_S: Final = 10.0
_MAX_SCHEMA_BYTES: Final = 4 << 20
_MAX_FILES: Final = 200
_PROTOBUF: Final = "PROTOBUF"
_MAP_ENTRY: Final = "map_entry"  # an option that nobody may write where there is `map<…>`


@lru_cache(maxsize=1024)
def registered_schema(registry: str, number: int) -> Any:  # noqa: ANN401 - by its type
    """Avro's in fastavro's form; Protobuf's as a `RegisteredFile`."""
    found = _fetched(registry, f"schemas/ids/{number}")
    if found is None:
        raise Unfit(f"the registry has no schema {number}")
    if found.get("schemaType") != _PROTOBUF:
        return fastavro.parse_schema(json.loads(found["schema"]))
    return _protobuf(registry, number, str(found["schema"]))


def _protobuf(registry: str, number: int, text: str) -> Any:  # noqa: ANN401 - a RegisteredFile
    # Not everybody who reads Avro has the package.
    from ledgerstone.pipeline.codecs_protobuf import RegisteredFile
    from ledgerstone.pipeline.protobuf_schema import pool_of

    files = list(_files(registry, f"schemas/ids/{number}", f"schema-{number}.proto", {}))
    try:
        return RegisteredFile(pool_of(files), files[-1], names_entries=_MAP_ENTRY in text)
    except ValueError as error:
        raise PipelineError(f"schema {number} of the registry at {registry}: {error}") from error


def _files(registry: str, path: str, name: str, seen: dict[str, None]) -> Iterator[Any]:
    """The files it imports first. A file is known by the name under which it is imported."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import DecodeError

    if name in seen or len(seen) >= _MAX_FILES:
        return
    seen[name] = None
    found = _fetched(registry, f"{path}?format=serialized")
    if found is None:
        raise PipelineError(f"the schema registry at {registry} has no {path}")
    for each in found.get("references") or ():
        subject, version = quote(str(each["subject"]), safe=""), int(each["version"])
        place = f"subjects/{subject}/versions/{version}"
        yield from _files(registry, place, str(each["name"]), seen)
    try:
        file = FileDescriptorProto.FromString(base64.b64decode(found["schema"], validate=True))
    except (binascii.Error, ValueError, DecodeError) as error:
        raise PipelineError(
            f"the schema registry at {registry} does not give {path} in serialized form; name a "
            "file with descriptors (schema, message) instead"
        ) from error
    file.name = name
    yield file


def _fetched(registry: str, path: str) -> dict[str, Any] | None:
    """None if there is no such thing."""
    address = urlsplit(registry)
    is_https = address.scheme == "https"
    kind = http.client.HTTPSConnection if is_https else http.client.HTTPConnection
    connection = kind(address.hostname or "", address.port, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", f"{address.path.rstrip('/')}/{path}")
        response = connection.getresponse()
        body = response.read(_MAX_SCHEMA_BYTES)
    except (OSError, http.client.HTTPException) as error:
        raise PipelineError(f"the schema registry at {registry}: {error}") from error
    finally:
        connection.close()
    if response.status == http.client.NOT_FOUND:
        return None
    if response.status != http.client.OK:
        raise PipelineError(f"the schema registry at {registry} answered {response.status}")
    content = json.loads(body)
    if not isinstance(content, dict):
        raise PipelineError(f"the schema registry at {registry} answered with no object")
    return content
