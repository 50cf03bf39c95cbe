"""The identity of a log directory and of the partitions in it. Grade D.

`meta.properties` and `last-start` name the cluster and the node, and the `partition.metadata` of
each partition names its topic. New directories get these files; existing ones must agree. Data that
has an identity never gets a new one.
"""

import logging
from typing import Final, NamedTuple

from ledgerstone.clock import Dice
from ledgerstone.config.properties import format_properties, parse_properties
from ledgerstone.errors import CorruptFile, InconsistentTopicId, StorageError
from ledgerstone.fs import Filesystem, join
from ledgerstone.storage.checkpoints import PartitionMetadata, read_if_exists
from ledgerstone.storage.filenames import (
    LAST_START,
    META_PROPERTIES,
    PARTITION_METADATA,
    DirState,
    parse_partition_dir,
)
from ledgerstone.storage.log_dir_files import (
    MetaProperties,
    read_meta_properties,
    write_meta_properties,
)
from ledgerstone.types import TopicPartition
from ledgerstone.uuid_text import random_uuid, uuid_to_text

_LOG: Final = logging.getLogger(__name__)


def settle_meta(
    fs: Filesystem, dice: Dice, path: str, node_id: int, cluster_id: str | None
) -> MetaProperties:
    meta_path = join(path, META_PROPERTIES)
    known = read_meta_properties(fs, meta_path)
    if known is None:
        _check_never_used(fs, path, meta_path, node_id)
        meta = MetaProperties(
            cluster_id=cluster_id or uuid_to_text(random_uuid(dice)),
            node_id=node_id,
            directory_id=random_uuid(dice),
        )
        write_meta_properties(fs, meta_path, meta)
        return meta
    if known.node_id != node_id:
        raise StorageError(f"{meta_path}: belongs to node {known.node_id}, not {node_id}")
    if cluster_id is not None and known.cluster_id not in (None, cluster_id):
        raise StorageError(f"{meta_path}: belongs to cluster {known.cluster_id}, not {cluster_id}")
    return known


def _check_never_used(fs: Filesystem, path: str, meta_path: str, node_id: int) -> None:
    """A directory with partitions was formatted before: a new identity would hide that."""
    for name in fs.list_dir(path):
        found = parse_partition_dir(name)
        if found is None or found.state is not DirState.LIVE or not fs.is_dir(join(path, name)):
            continue
        cluster_id = _read_last_start(fs, path).get("cluster.id") or "..."
        raise StorageError(
            f"{meta_path} is missing, but {join(path, name)} exists: this directory belongs to a "
            f"cluster. Restore the file from a backup, or write it with the lines "
            f"'version=1', 'node.id={node_id}' and 'cluster.id={cluster_id}'; the cluster id is "
            f"also in earlier log lines ('log directory opened') and known to clients. "
            f"Nothing was changed."
        )


class StartNote(NamedTuple):
    """`content` is what `last-start` has to say; None: it says so already, or nothing is known."""

    may_have_lost_power: bool
    content: bytes | None = None


def check_last_start(
    fs: Filesystem, path: str, meta: MetaProperties, boot_id: str | None
) -> StartNote:
    """Whether the machine may have lost power since the last start that opened the logs, which
    wrote this file. The file also has the cluster id, in case `meta.properties` is lost or
    damaged."""
    if boot_id is None:
        return StartNote(may_have_lost_power=True)
    written = join(path, LAST_START)
    before = _read_last_start(fs, path)
    directory_id = "" if meta.directory_id is None else uuid_to_text(meta.directory_id)
    now = {
        "boot.id": boot_id,
        "cluster.id": meta.cluster_id or "",
        "directory.id": directory_id,
    }
    for key in ("cluster.id", "directory.id"):
        if before.get(key, now[key]) != now[key]:
            raise StorageError(
                f"{join(path, META_PROPERTIES)} says {key}={now[key]}, but the last start, in "
                f"{written}, had {before[key]}: one of the two files is damaged. Fix the first, "
                "or remove the second if the first is right. Nothing was changed"
            )
    content = format_properties(now) if before != now else None
    return StartNote(before.get("boot.id") != boot_id, content)


def _read_last_start(fs: Filesystem, path: str) -> dict[str, str]:
    data = read_if_exists(fs, join(path, LAST_START))
    if data is None:
        return {}
    try:
        found = dict(parse_properties(data))
        if found.keys() != {"boot.id", "cluster.id", "directory.id"}:
            raise ValueError(f"{data[:40]!r}")
    except ValueError as error:
        _LOG.warning("file rewritten file=%s reason=%s", join(path, LAST_START), error)
        return {}
    return found


def settle_topic_id(
    fs: Filesystem, directory: str, tp: TopicPartition, topic_id: bytes, *, is_new: bool = False
) -> None:
    """A partition's directory belongs to one topic for good; else InconsistentTopicId.

    `is_new`: it has no log yet, and the caller syncs the directory when it has one."""
    metadata = PartitionMetadata(fs, join(directory, PARTITION_METADATA))
    try:
        known = metadata.read()
    except CorruptFile as error:
        known = None
        _LOG.warning("partition.metadata rewritten partition=%s reason=%s", tp, error)
    else:
        if known is None and not is_new:
            _LOG.warning(
                "partition.metadata rewritten partition=%s reason=%s is missing",
                tp,
                metadata.path,
            )
    if known is None:
        metadata.write(topic_id, syncs_name=not is_new)
    elif known != topic_id:
        raise InconsistentTopicId(
            f"{metadata.path}: {tp} on disk belongs to topic {uuid_to_text(known)}, "
            f"not {uuid_to_text(topic_id)}"
        )


def read_topic_id(fs: Filesystem, directory: str) -> bytes | None:
    """The topic id in the directory itself; None if it has none."""
    try:
        return PartitionMetadata(fs, join(directory, PARTITION_METADATA)).read()
    except CorruptFile:
        return None
