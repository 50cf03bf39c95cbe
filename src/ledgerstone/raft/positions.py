"""Where two logs agree: what a leader says to a fetch position, what a follower does then. Pure."""

from ledgerstone.raft.log import ReplicatedLog, SnapshotStore
from ledgerstone.raft.replica import NO_SNAPSHOT, OffsetAndEpoch


class Valid:
    """The follower's log is a prefix of ours."""

    __slots__ = ()


class Diverging:
    __slots__ = ("end",)

    def __init__(self, end: OffsetAndEpoch) -> None:
        self.end = end


class NeedsSnapshot:
    __slots__ = ("snapshot_id",)

    def __init__(self, snapshot_id: OffsetAndEpoch) -> None:
        self.snapshot_id = snapshot_id


VALID = Valid()
Position = Valid | Diverging | NeedsSnapshot


def log_end(log: ReplicatedLog) -> OffsetAndEpoch:
    return OffsetAndEpoch(log.end_offset, log.last_epoch)


def latest_snapshot(snapshots: SnapshotStore) -> OffsetAndEpoch | None:
    """Without the one a format writes: it is never served."""
    ids = snapshots.ids()
    return ids[-1] if ids and ids[-1] != NO_SNAPSHOT else None


def oldest_snapshot(snapshots: SnapshotStore) -> OffsetAndEpoch | None:
    return next((each for each in snapshots.ids() if each != NO_SNAPSHOT), None)


def judge(log: ReplicatedLog, snapshots: SnapshotStore, asked: OffsetAndEpoch) -> Position:
    """Kafka's order: snapshot, beginning, below the log, divergence."""
    latest = latest_snapshot(snapshots)
    if asked.offset == 0 and latest is not None:
        return NeedsSnapshot(latest)
    if log.start_offset == 0 and asked.offset == 0:
        return VALID
    oldest = oldest_snapshot(snapshots)
    if latest is not None and oldest is not None:
        is_below = asked.offset < log.start_offset or asked.epoch < oldest.epoch
        is_other = asked.offset == log.start_offset > 0 and asked.epoch != oldest.epoch
        if is_below or is_other:
            return NeedsSnapshot(latest)
    end = end_of_epoch(log, snapshots, asked.epoch)
    if end.epoch != asked.epoch or end.offset < asked.offset:
        return Diverging(end)
    return VALID


def end_of_epoch(log: ReplicatedLog, snapshots: SnapshotStore, epoch: int) -> OffsetAndEpoch:
    end = log.end_of_epoch(epoch)
    if end is None:
        return log_end(log)
    oldest = oldest_snapshot(snapshots)
    if oldest is not None and end == OffsetAndEpoch(oldest.offset, epoch):
        # Smaller than every epoch of the log: the oldest snapshot knows the right one.
        return oldest
    return end


def truncation_offset(
    log: ReplicatedLog, snapshots: SnapshotStore, diverging: OffsetAndEpoch
) -> int:
    """How far a follower goes back for a leader that says `diverging`."""
    if diverging.epoch == 0:
        return min(diverging.offset, log.end_offset)
    own = end_of_epoch(log, snapshots, diverging.epoch)
    if own.epoch == diverging.epoch:
        return min(own.offset, diverging.offset)
    return own.offset


def is_beyond(snapshot_id: OffsetAndEpoch, log: ReplicatedLog) -> bool:
    """Whether the log lacks what the snapshot holds, so that it must start over at it."""
    return log_end(log).is_behind(snapshot_id)
