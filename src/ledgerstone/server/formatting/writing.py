"""Writes a formatted log directory, so that a crash leaves none or a whole one. Grade D.

`meta.properties` comes last and makes it one: a directory without it is not formatted, whatever
else is there. So an interrupted format is simply run again. Nothing that a format did not write
itself is ever overwritten.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ledgerstone.clock import Clock
from ledgerstone.dataclasses import replace
from ledgerstone.errors import StorageError
from ledgerstone.fs import Filesystem, join
from ledgerstone.raft.control_batches import bootstrap_snapshot
from ledgerstone.server.formatting.bootstrap_file import bootstrap_file
from ledgerstone.server.formatting.plan import FormatPlan
from ledgerstone.storage.checkpoints import write_atomically
from ledgerstone.storage.filenames import BOOTSTRAP_CHECKPOINT, LOCK_FILE, META_PROPERTIES, TMP
from ledgerstone.storage.log_dir import make_durable_dir
from ledgerstone.storage.log_dir_files import (
    MetaProperties,
    read_meta_properties,
    write_meta_properties,
)

METADATA_DIR: Final = "__cluster_metadata-0"
FIRST_SNAPSHOT: Final = "00000000000000000000-0000000000.checkpoint"
# What an interrupted format may have left, ours or Kafka's; and what a new file system has.
_OWN_NAMES: Final = (
    LOCK_FILE,
    BOOTSTRAP_CHECKPOINT,
    BOOTSTRAP_CHECKPOINT + TMP,
    META_PROPERTIES + TMP,
    METADATA_DIR,
    "lost+found",
)
_OWN_SNAPSHOTS: Final = (FIRST_SNAPSHOT, FIRST_SNAPSHOT + TMP)


def write_format(
    fs: Filesystem, clock: Clock, plan: FormatPlan, *, ignore_formatted: bool = False
) -> bool:
    """False if everything is formatted already and that may be. StorageError if a directory belongs
    to another node or cluster, or holds anything else; nothing was changed then.

    The directory of the metadata log comes first. Crash here: the start formats the others."""
    known = _known(fs, plan, plan.path)
    if known is not None and not ignore_formatted:
        raise StorageError(
            f"{plan.path} is formatted already, as node {known.node_id} of cluster "
            f"{known.cluster_id}. --ignore-formatted leaves it as it is. Nothing was changed"
        )
    if known is not None and known.cluster_id is not None:
        plan = replace(plan, cluster_id=known.cluster_id)
    others = [each for each in plan.others if _known(fs, plan, each[0]) is None]
    paths = [path for path, _ in others] + ([plan.path] if known is None else [])
    for path in paths:
        _check_empty(fs, path)
    wall_ms = clock.now_ms()
    if known is None:
        with _locked(fs, plan.path):
            _write(fs, plan, wall_ms)
    for path, directory_id in others:
        with _locked(fs, path):
            _write_other(fs, plan, path, directory_id, wall_ms)
    return bool(paths)


def _known(fs: Filesystem, plan: FormatPlan, path: str) -> MetaProperties | None:
    known = read_meta_properties(fs, join(path, META_PROPERTIES))
    if known is not None:
        _check_own(plan, path, known)
    return known


@contextmanager
def _locked(fs: Filesystem, path: str) -> Iterator[None]:
    make_durable_dir(fs, path)
    lock = fs.lock(join(path, LOCK_FILE))
    try:
        yield
    finally:
        lock.release()


def _check_own(plan: FormatPlan, path: str, known: MetaProperties) -> None:
    if not plan.is_new_cluster and known.cluster_id not in (None, plan.cluster_id):
        raise StorageError(
            f"{path} belongs to cluster {known.cluster_id}, not {plan.cluster_id}. "
            "Nothing was changed"
        )
    if known.node_id != plan.node_id:
        raise StorageError(
            f"{path} belongs to node {known.node_id}, not {plan.node_id}. Nothing was changed"
        )


def _check_empty(fs: Filesystem, path: str) -> None:
    if not fs.exists(path):
        return
    foreign = [name for name in fs.list_dir(path) if name not in _OWN_NAMES]
    metadata = join(path, METADATA_DIR)
    if fs.exists(metadata):
        inside = [name for name in fs.list_dir(metadata) if not _is_own_snapshot(name)]
        foreign += [join(METADATA_DIR, name) for name in inside]
    if foreign:
        raise StorageError(
            f"{path} is not formatted, but not empty either: it has {sorted(foreign)[0]}. If it "
            f"belongs to a node, restore its {META_PROPERTIES}; else choose an empty directory. "
            "Nothing was changed"
        )


def _is_own_snapshot(name: str) -> bool:
    # Kafka's tool has a random number in the names of unfinished ones.
    is_kafkas = name.startswith("00000000000000000000-0000000000-") and name.endswith(".part")
    return name in _OWN_SNAPSHOTS or is_kafkas


def _write(fs: Filesystem, plan: FormatPlan, wall_ms: int) -> None:
    """Each file with its directory is durable before the next one begins."""
    bootstrap = bootstrap_file(plan.first_records, wall_ms=wall_ms)
    write_atomically(fs, join(plan.path, BOOTSTRAP_CHECKPOINT), bootstrap)
    metadata = join(plan.path, METADATA_DIR)
    _clear(fs, metadata)
    if plan.voters is not None:
        make_durable_dir(fs, metadata)
        snapshot = bootstrap_snapshot(plan.voters, wall_ms=wall_ms)
        write_atomically(fs, join(metadata, FIRST_SNAPSHOT), snapshot)
    meta = MetaProperties(
        cluster_id=plan.cluster_id, node_id=plan.node_id, directory_id=plan.directory_id
    )
    write_meta_properties(fs, join(plan.path, META_PROPERTIES), meta)


def _write_other(
    fs: Filesystem, plan: FormatPlan, path: str, directory_id: bytes, wall_ms: int
) -> None:
    """A log directory without the metadata log. It has the first records too, as in Kafka."""
    bootstrap = bootstrap_file(plan.first_records, wall_ms=wall_ms)
    write_atomically(fs, join(path, BOOTSTRAP_CHECKPOINT), bootstrap)
    meta = MetaProperties(
        cluster_id=plan.cluster_id, node_id=plan.node_id, directory_id=directory_id
    )
    write_meta_properties(fs, join(path, META_PROPERTIES), meta)


def _clear(fs: Filesystem, metadata: str) -> None:
    """An earlier try may have named other voters."""
    if not fs.exists(metadata):
        return
    for name in fs.list_dir(metadata):
        fs.unlink(join(metadata, name))
    fs.fsync_dir(metadata)
