"""Switches a log over to its copy in another log directory. Grade D.

The order, and what a crash leaves. The metadata names the new directory already: `drop_duplicates`
believes it where both are found.

| step | crash after it |
|---|---|
| the copy is complete and synced | a `-future` that is made again; the old log |
| its checkpoints are written | the same |
| the copy gets its name, synced | two logs, equal; the metadata names the new one |
| the old one is renamed to `-delete` | the new one |
| appends go on in the new one | the new one, or two: the metadata names the new one |
"""

from ledgerstone.errors import LogStorageError, StorageError
from ledgerstone.fs import join
from ledgerstone.storage.filenames import delete_dir_name, partition_dir_name
from ledgerstone.storage.future_log import FutureLog
from ledgerstone.storage.log_dir import LogDir
from ledgerstone.uuid_text import random_uuid


def switch_over(source: LogDir, future: FutureLog) -> None:
    """Moves the log for good; its object stays the same, so that whoever has it goes on. OSError or
    StorageError before the copy has its name: the log is as it was."""
    log, target = future.log, future.target
    tp, fs = log.topic_partition, target.fs
    future.finish()
    known = target.remembered
    known.recovery_points[tp] = log.log_end_offset
    known.high_watermarks[tp] = log.high_watermark
    known.log_start_offsets[tp] = log.log_start_offset
    target.checkpoint()
    live = join(target.path, partition_dir_name(tp))
    fs.rename(future.path, live)
    try:
        fs.fsync_dir(target.path)
        opened = future.open(live)
    except (OSError, StorageError) as error:
        # Which of the two counts is for the next start to say, so neither may change.
        log.fail(f"move to {live} failed: {error}", error)
        raise LogStorageError(f"{tp}: move to {live} failed: {error}") from error
    old = log.directory
    target.futures.pop(tp, None)
    source.logs.pop(tp)
    source.recoveries.pop(tp, None)
    opened.recovery_point = opened.log_end_offset
    log.take_files_of(opened)
    target.take_over(log)
    _doom(source, old, log.config.file_delete_delay_ms, future)


def _doom(source: LogDir, old: str, delay_ms: int, future: FutureLog) -> None:
    """What fails here costs the old directory, not the log: the next start drops it."""
    tp = future.log.topic_partition
    aside = join(source.path, delete_dir_name(tp, random_uuid(source.dice).hex()))
    source.fs.rename(old, aside)
    source.doom(aside, delay_ms)
    source.fs.fsync_dir(source.path)
    source.forget_closed(tp)
    future.target.checkpoint()
