"""Finds files and offsets missing from a partition's directory. Grade D.

Names and sizes show most losses, so a start after a clean stop can afford the check: a missing log
file has left its indexes behind, or is listed by the clean stop. A hole between two segments means
something only if the log was never compacted.
"""

from collections.abc import Mapping, Sequence

from ledgerstone.errors import Damage, DamagedLog
from ledgerstone.fs import join
from ledgerstone.storage.filenames import Kind, ParsedName, file_name
from ledgerstone.storage.log import PartitionLog
from ledgerstone.storage.log_recovery import Circumstances
from ledgerstone.types import INT64_MAX


def missing_logs(
    directory: str, orphans: Sequence[ParsedName], accepted: frozenset[str]
) -> list[Damage]:
    """A segment's log file is always removed last, so an index alone proves a loss."""
    paths = {join(directory, file_name(name.offset, Kind.LOG)): name for name in orphans}
    return [
        Damage(path, 0, 0, f"the log file is missing beside its {name.kind.value}", is_gap=True)
        for path, name in sorted(paths.items())
        if path not in accepted
    ]


def check_segments_at_stop(log: PartitionLog, sizes: Mapping[int, int]) -> None:
    """After a clean stop the files must have exactly their sizes at that stop."""
    found = {segment.base_offset: segment.size for segment in log.segments}
    damages = []
    for base in sorted(found.keys() | sizes.keys()):
        path = join(log.directory, file_name(base, Kind.LOG))
        size, was = found.get(base), sizes.get(base)
        if size is None and was is not None:
            reason = f"the file is missing; it had {was} bytes at the clean stop"
            damages.append(Damage(path, 0, was, reason, is_gap=True))
        elif was is None and size is not None:
            reason = "the file did not exist at the clean stop"
            damages.append(Damage(path, 0, size, reason, is_gap=True))
        elif size is not None and was is not None and size != was:
            reason = f"the file had {was} bytes at the clean stop and now has {size}"
            damages.append(Damage(path, min(size, was), abs(was - size), reason, is_gap=True))
    if damages:
        raise DamagedLog(damages)


def check_gaps(log: PartitionLog, accepted: frozenset[str]) -> None:
    """In a log that was never compacted, each segment begins where the one before it ends."""
    damages = []
    for segment in log.segments:
        following = log.segments.after(segment.base_offset)
        if following is None:
            break
        end_offset = segment.next_offset()
        path = join(log.directory, file_name(end_offset, Kind.LOG))
        if end_offset != following.base_offset and path not in accepted:
            reason = f"offsets {end_offset} to {following.base_offset - 1} are missing"
            damages.append(Damage(path, 0, 0, reason, is_gap=True))
    if damages:
        raise DamagedLog(damages)


def check_end(
    log: PartitionLog, circumstances: Circumstances, end_offset: int, log_start_offset: int
) -> None:
    """The log must reach its recovery point, and its log start offset."""
    about, segment = circumstances, log.segments.active
    path = segment.path(Kind.LOG)
    synced = 0 if about.recovery_point == INT64_MAX else about.recovery_point
    if not about.may_have_lost_power and end_offset < about.high_watermark:
        # The machine stayed up: what readers saw had been written.
        synced = max(synced, about.high_watermark)
    if about.clean and synced and end_offset > synced:
        reason = f"the log ends at offset {end_offset}; at the clean stop it ended at {synced}"
        raise DamagedLog([Damage(path, 0, 0, reason, is_gap=True)])
    if end_offset >= max(synced, log_start_offset):
        return
    if end_offset < synced:
        following = join(log.directory, file_name(end_offset, Kind.LOG))
        if path != following:
            path = f"{path} or {following}"
        reason = f"the log ends at offset {end_offset}, but had been written up to {synced}"
        raise DamagedLog([Damage(path, segment.size, 0, reason, is_gap=True)])
    if about.clean or not about.may_have_lost_power:
        reason = f"the log ends at offset {end_offset}, below its start at {log_start_offset}"
        raise DamagedLog([Damage(path, segment.size, 0, reason, is_gap=True)])
