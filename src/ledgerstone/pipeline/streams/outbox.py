"""Results on their way to a topic: tasks write them, after the state has them. Shell.

The state names the files of what is to be told. All of it is written, then the names are removed:
what a run that died has not told is told by the next one. Results are whole values, so one that is
written twice is harmless; with `exactly_once` it is not written twice (ADR 0010).
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ledgerstone.dataclasses import replace
from ledgerstone.errors import LedgerstoneError
from ledgerstone.pipeline.status import held
from ledgerstone.pipeline.streams.frames import Topic
from ledgerstone.pipeline.streams.state_store import Merged, StateStore, StateVersion
from ledgerstone.pipeline.streams.state_tables import RECORDS, write_outbox
from ledgerstone.pipeline.tables.file_area import FileArea
from ledgerstone.pipeline.tables.target import Executors
from ledgerstone.spark.decision import WriteId
from ledgerstone.spark.sink import TaskWritten, abort_tasks, commit_tasks, write_rows
from ledgerstone.spark.write_options import WriteColumns, WriteOptions, write_options

logger = logging.getLogger(__name__)

Tell = Callable[[StateStore, StateVersion], None]
# What the driver writes by itself: of a few hundred groups.
_DRIVER_BYTES: Final = 64 << 10
_COLUMNS = WriteColumns(key=0, value=1, topic=None, partition=None, headers=None, timestamp=None)


def ticked_off(store: StateStore, version: StateVersion, tell: Tell) -> StateVersion:
    """The version without what was told. All of it is written before any is ticked off."""
    if version.outbox:
        tell(store, version)
        told, version = version.outbox, version.told()
        store.commit(version)
        store.remove(told)
    return version


def apply_batch(
    store: StateStore, batch: int, merge: Callable[[StateVersion], Merged | None], tell: Tell
) -> bool:
    """One micro-batch into a state: all of it, or nothing. `merge` says what it makes of a version,
    None if there is no change. False where the batch was applied before."""
    with held(store.work):
        version = store.read()
        is_new = batch > version.batch
        version = ticked_off(store, version, tell)
        if is_new and (merged := merge(version)) is not None:
            version = replace(version.after(merged), batch=batch)
            store.commit(version)
            store.tidy(ticked_off(store, version, tell))
    return is_new


def retract(store: StateStore, merge: Callable[[StateVersion], Merged]) -> None:
    """Changes that are in no batch: erased keys. What they change is told by the next run; the
    caller holds the state."""
    old = store.read()
    version = old.after(merge(old))
    # A new number: an earlier run may have told what is in the outbox under the old one.
    left = _not_replaced(store.area, old.outbox, version.outbox)
    version = replace(version, outbox=(*left, *version.outbox), telling=old.telling + 1)
    store.commit(version)
    store.tidy(version)


def _not_replaced(area: FileArea, old: tuple[str, ...], new: tuple[str, ...]) -> tuple[str, ...]:
    """What is still to be told of the old results. Files are told side by side, so an older result
    of the same key could come last, and an erased row would be in the topic for good."""
    keys = pa.concat_tables([_results(area, path).select(["key"]) for path in new]) if new else None
    if keys is None:
        return old
    left: list[str] = []
    for path in old:
        rows = _results(area, path)
        is_replaced = pc.is_in(rows.column("key"), value_set=keys.column("key"))
        kept = rows.filter(pc.invert(is_replaced))
        name = path if kept.num_rows == rows.num_rows else write_outbox(area, kept)
        left += [] if name is None else [name]
    return tuple(left)


def _results(area: FileArea, path: str) -> pa.Table:
    return pq.read_table(pa.BufferReader(area.read(path)))


class TellJob(NamedTuple):
    """Picklable."""

    area: FileArea
    path: str
    options: WriteOptions
    task: WriteId


def teller(topic: Topic, executors: Executors, *, exactly_once: bool) -> Tell:
    settings = topic.sink_settings()
    if exactly_once:
        settings["exactlyOnce"] = "true"
    else:
        settings["deduplicate"] = "false"
    options = write_options(settings, overwrite=False)

    def tell(store: StateStore, version: StateVersion) -> None:
        jobs = [
            TellJob(store.area, path, options, WriteId(version.store_id, version.telling, number))
            for number, path in enumerate(version.outbox)
        ]
        written: list[TaskWritten] = []
        is_small = sum(store.size_of(path) for path in version.outbox) <= _DRIVER_BYTES
        try:
            written += _told_here(jobs, executors) if is_small else executors.run(tell_file, jobs)
            if exactly_once:
                commit_tasks(options, list(written), is_alone=False)
        except BaseException:
            if exactly_once:
                with suppress(LedgerstoneError):
                    abort_tasks(options, list(written))
            raise

    return tell


def _told_here(jobs: list[TellJob], executors: Executors) -> list[TaskWritten]:
    """By this process; a job of Spark for a few records takes longer than everything else. Tasks
    repeat what fails for a reason that may pass."""
    try:
        return [tell_file(job) for job in jobs]
    except LedgerstoneError as error:
        logger.warning("results are written again, by tasks: %s", error)
        return executors.run(tell_file, jobs)


def tell_file(job: TellJob) -> TaskWritten:
    rows = _results(job.area, job.path).select(RECORDS.names).cast(RECORDS)
    return write_rows(iter(rows.to_batches()), job.options, _COLUMNS, job.task)
