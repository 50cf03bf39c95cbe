"""Where a replica of this broker belongs, and whether one that is found still counts. Grade D.

The metadata names the log directory of each replica once the broker has told it. Before that, and
for a broker with one directory, the broker chooses.
"""

from ledgerstone.errors import LogStorageError
from ledgerstone.metadata.delta import PartitionDelta
from ledgerstone.metadata.image import MIGRATING, UNASSIGNED, MetadataImage, PartitionImage
from ledgerstone.storage.log_dir import LogDir
from ledgerstone.storage.log_dirs import LogDirs
from ledgerstone.types import TopicPartition


def place(
    log_dirs: LogDirs,
    topic_partition: TopicPartition,
    state: PartitionImage,
    node_id: int,
    preferred: str = "",
) -> LogDir:
    """The directory for a replica that is not here yet. LogStorageError where it may be in one that
    is offline: a second, empty log would pass for the whole. `preferred` is a path."""
    assigned = state.directory_of(node_id)
    # Its copy was not finished when a crash came, whatever the metadata says.
    is_half_moved = any(topic_partition in each.futures for each in log_dirs.online)
    assigned_dir = log_dirs.with_id(assigned)
    if assigned_dir is not None and not is_half_moved:
        return assigned_dir
    if log_dirs.offline and (is_half_moved or assigned not in (UNASSIGNED, MIGRATING)):
        raise LogStorageError(
            f"{topic_partition} may be in a log directory that is offline: "
            f"{', '.join(each.path for each in log_dirs.offline)}"
        )
    return log_dirs.at(preferred) or log_dirs.least_used()


def assigned_directory(
    image: MetadataImage, topic_partition: TopicPartition, node_id: int
) -> bytes | None:
    """The id that the metadata has; None if this broker has no replica."""
    state = image.partition(*topic_partition)
    if state is None or node_id not in state.replicas:
        return None
    return state.directory_of(node_id)


def is_stale(state: PartitionImage | None, node_id: int) -> bool:
    """Whether a log found at start may be older than this broker's assignment. A replica that is
    being added and is not in sync was perhaps removed and added again while the broker was down.
    Its old records may have been deleted since, and their tombstones, too. A copy that was only
    interrupted is made again from the start: safe, and rare."""
    return (
        state is not None
        and node_id in state.adding_replicas
        and node_id not in (*state.isr, *state.eligible_leader_replicas)
    )


def came_back(change: PartitionDelta, node_id: int) -> bool:
    """Whether a hosted replica was removed and added again between two images. One change at a time
    shows both; a snapshot of the metadata shows only what came of it."""
    before, after = change.before, change.after
    if before is None or node_id not in after.adding_replicas or node_id in after.isr:
        return False
    was_added = node_id in before.adding_replicas
    return not was_added or after.partition_epoch > before.partition_epoch + 1
