"""A log directory's own files: its cluster and node, and whether it was closed cleanly. Disk.

Owns `meta.properties` (a Java properties file) and `.kafka_cleanshutdown` (one line of JSON).
Contract in README.md.

Differs from Kafka: no date in the comment of `meta.properties`, and its keys are sorted, so that
equal contents are equal bytes.
"""

import json
import re
from collections.abc import Mapping
from typing import Final

from ledgerstone.config.properties import format_properties, parse_properties
from ledgerstone.dataclasses import dataclass
from ledgerstone.errors import CorruptFile
from ledgerstone.fs import Filesystem, parent_of
from ledgerstone.storage.checkpoints import read_if_exists, write_atomically
from ledgerstone.types import INT32_MAX, INT64_MAX
from ledgerstone.uuid_text import uuid_from_text, uuid_to_text

UNKNOWN_BROKER_EPOCH: Final = -1
CLEAN_SHUTDOWN_VERSION: Final = 0
# A longer file was not written by a broker, and is not parsed.
_CLEAN_SHUTDOWN_MAX_BYTES: Final = 4096

_NUMBER = re.compile(r"[0-9]{1,10}")


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaProperties:
    """Version 0 (a broker.id, perhaps nothing else) is read; version 1 is written."""

    cluster_id: str | None
    node_id: int
    directory_id: bytes | None


def read_meta_properties(fs: Filesystem, path: str) -> MetaProperties | None:
    """None if the directory was never formatted."""
    data = read_if_exists(fs, path)
    if data is None:
        return None
    try:
        return _meta_from(parse_properties(data))
    except ValueError as error:
        raise CorruptFile(path, 0, str(error)) from error


def write_meta_properties(fs: Filesystem, path: str, meta: MetaProperties) -> None:
    properties = {"version": "1", "node.id": str(meta.node_id)}
    if meta.cluster_id is not None:
        properties["cluster.id"] = meta.cluster_id
    if meta.directory_id is not None:
        properties["directory.id"] = uuid_to_text(meta.directory_id)
    write_atomically(fs, path, format_properties(properties))


class CleanShutdownFile:
    """Only its existence matters. Remove it as soon as it is noticed: a start that crashes half way
    is not a clean stop."""

    __slots__ = ("_fs", "path")

    def __init__(self, fs: Filesystem, path: str) -> None:
        self._fs = fs
        self.path = path

    def exists(self) -> bool:
        return self._fs.exists(self.path)

    def read_broker_epoch(self) -> int:
        """UNKNOWN_BROKER_EPOCH if the file is unreadable, or empty like old ones."""
        data = read_if_exists(self._fs, self.path)
        if data is None or len(data) > _CLEAN_SHUTDOWN_MAX_BYTES:
            return UNKNOWN_BROKER_EPOCH
        try:
            content = json.loads(data)
        except (ValueError, RecursionError):
            return UNKNOWN_BROKER_EPOCH
        epoch = content.get("brokerEpoch") if isinstance(content, dict) else None
        # `true` is not a number in JSON, but in Python it is.
        if type(epoch) is int and 0 <= epoch <= INT64_MAX:
            return epoch
        return UNKNOWN_BROKER_EPOCH

    def read(self) -> bytes | None:
        return read_if_exists(self._fs, self.path)

    @staticmethod
    def content(broker_epoch: int) -> bytes:
        content = {"version": CLEAN_SHUTDOWN_VERSION, "brokerEpoch": broker_epoch}
        return json.dumps(content, separators=(",", ":")).encode()

    def write(self, broker_epoch: int = UNKNOWN_BROKER_EPOCH) -> None:
        write_atomically(self._fs, self.path, self.content(broker_epoch))

    def remove(self) -> None:
        """Does nothing if there is none. Durable: a crash does not bring it back."""
        if self.exists():
            self._fs.unlink(self.path)
            self._fs.fsync_dir(parent_of(self.path))


def _meta_from(properties: Mapping[str, str]) -> MetaProperties:
    version = properties.get("version", "0")
    if version not in ("0", "1"):
        raise ValueError(f"version {version!r}, only 0 and 1 are known")
    node_key = "node.id" if version == "1" else "broker.id"
    node_id = properties.get(node_key, "")
    if _NUMBER.fullmatch(node_id) is None or int(node_id) > INT32_MAX:
        raise ValueError(f"{node_key}={node_id!r} is not a number from 0 to {INT32_MAX}")
    cluster_id = properties.get("cluster.id")
    if version == "1" and cluster_id is None:
        raise ValueError("cluster.id is missing")
    directory_id = properties.get("directory.id")
    return MetaProperties(
        cluster_id=cluster_id,
        node_id=int(node_id),
        directory_id=None if directory_id is None else uuid_from_text(directory_id),
    )
