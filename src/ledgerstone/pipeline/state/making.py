"""Makes one snapshot: its jobs, its manifest, and the rename that completes it. Shell."""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from ledgerstone.client.blocking import Client
from ledgerstone.client.isolation_level import IsolationLevel
from ledgerstone.dataclasses import dataclass
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.state.erasures import ErasureTombstone, untold_to
from ledgerstone.pipeline.state.folding import RowFacts
from ledgerstone.pipeline.state.jobs import PartitionDone, PartitionJob, RunJobs
from ledgerstone.pipeline.state.manifest import (
    MANIFEST,
    SnapshotManifest,
    SnapshotPartition,
    from_json,
    to_json,
)
from ledgerstone.pipeline.status import LOCK_FILE, locked
from ledgerstone.pipeline.synced_files import sync_directory
from ledgerstone.state.reading import PartitionBounds
from ledgerstone.uuid_text import uuid_to_text

_NAME: Final = "snapshot-{:08d}"
_MAKING: Final = "making-"
_DROPPING: Final = "dropping-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    path: str
    manifest: SnapshotManifest
    erased: int = 0  # keys left out because they were erased later
    # Left out because the log does not know them any more, or not whether they were erased.
    forgotten: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSource:
    bootstrap: str
    topic: str
    isolation: IsolationLevel = IsolationLevel.READ_COMMITTED
    command_config: str | None = None  # a file with the client's properties by Kafka's names


def load_manifest(path: Path) -> SnapshotManifest:
    try:
        text = (path / MANIFEST).read_text(encoding="utf-8")
    except OSError as error:
        raise PipelineError(f"{path} cannot be read: {error}") from error
    return from_json(text, str(path / MANIFEST))


def snapshots_in(directory: Path) -> list[Path]:
    """Whole ones, oldest first."""
    return sorted(directory.glob("snapshot-*"))


@contextmanager
def alone_in(directory: Path) -> Iterator[None]:
    """One process at a time makes, drops or rewrites the snapshots of a directory: one that is on
    its way would bring back what is being removed from the others. What a process left that died
    goes: it holds records, and has no number by which anybody would look for it."""
    directory.mkdir(parents=True, exist_ok=True)
    taken = PipelineError(f"{directory}: another process works on these snapshots")
    with locked(directory / LOCK_FILE, taken):
        for left in (_MAKING, _DROPPING):
            for path in sorted(directory.glob(f"{left}*")):
                shutil.rmtree(path, ignore_errors=True)
        yield


def drop_older(directory: Path, keep: int) -> list[str]:
    """Removes all but the newest; returns their names."""
    with alone_in(directory):
        gone = snapshots_in(directory)[:-keep]
        for path in gone:
            # Whatever dies in between, a snapshot with a number is complete.
            away = path.with_name(f"{_DROPPING}{path.name}")
            path.rename(away)
            shutil.rmtree(away, ignore_errors=True)
        return [path.name for path in gone]


class SnapshotMaking:
    """One snapshot on its way."""

    def __init__(
        self,
        client: Client,
        source: TopicSource,
        directory: Path,
        older: Path | None,
        erasures: Sequence[ErasureTombstone] = (),
    ) -> None:
        self._client = client
        self._source = source
        self._directory = directory
        self._older = older
        self._erasures = erasures
        self._before = None if older is None else load_manifest(older)
        self._at = directory / f"{_MAKING}{os.getpid()}"
        self._at.mkdir(parents=True)

    def run(
        self,
        bounds: list[PartitionBounds],
        ends: dict[int, int],
        run_jobs: RunJobs,
        *,
        is_restore: bool = False,
        include_forgotten: bool = False,
    ) -> dict[int, PartitionDone]:
        try:
            # A restore looks at each key again: it may have been erased.
            done = {} if is_restore else self._unchanged(ends)
            jobs = [
                self._job(each, ends, is_restore=is_restore, include_forgotten=include_forgotten)
                for each in bounds
                if each.partition.partition not in done
            ]
            return done | {each.partition: each for each in run_jobs(jobs)}
        except BaseException:
            shutil.rmtree(self._at, ignore_errors=True)
            raise

    def _unchanged(self, ends: dict[int, int]) -> dict[int, PartitionDone]:
        """Partitions without a new offset; their files are those of the last snapshot."""
        done = {}
        for before in () if self._before is None else self._before.partitions:
            if self._older is None or ends.get(before.partition) != before.next_offset:
                continue
            file = self._at / _file_name(before.partition)
            try:
                file.hardlink_to(self._older / before.file)
            except OSError:  # Not every file system has links.
                shutil.copyfile(self._older / before.file, file)
            facts = RowFacts(
                live_keys=before.live_keys,
                deleted_keys=before.deleted_keys,
                checksum=before.checksum,
            )
            done[before.partition] = PartitionDone(
                partition=before.partition,
                facts=facts,
                records_read=0,
                missing=0,
                erased=0,
                forgotten=0,
                file_bytes=before.file_bytes,
            )
        return done

    def _job(
        self,
        bound: PartitionBounds,
        ends: dict[int, int],
        *,
        is_restore: bool,
        include_forgotten: bool,
    ) -> PartitionJob:
        number = bound.partition.partition
        before = self._partition_before(number)
        start = bound.log_start_offset if before is None else before.next_offset
        older: str | None = None
        untold: tuple[ErasureTombstone, ...] = ()
        if before is not None and self._older is not None and self._before is not None:
            older = str(self._older / before.file)
            untold = untold_to(self._erasures, self._before.erasures, number, start)
        return PartitionJob(
            bootstrap=self._source.bootstrap,
            topic=self._source.topic,
            partition=number,
            isolation=self._source.isolation.value,
            older=older,
            start_offset=min(start, ends[number]),
            end_offset=ends[number],
            log_start_offset=bound.log_start_offset,
            log_end_offset=bound.end_offset(self._source.isolation),
            out=str(self._at / _file_name(number)),
            command_config=self._source.command_config,
            respect_erasures=is_restore,
            include_forgotten=include_forgotten,
            erasures=untold,
        )

    def _partition_before(self, number: int) -> SnapshotPartition | None:
        partitions = () if self._before is None else self._before.partitions
        return next((each for each in partitions if each.partition == number), None)

    def check_no_delete_missed(
        self, done: dict[int, PartitionDone], retention_ms: int | None
    ) -> None:
        assert self._before is not None, "nothing to go on from"
        age_ms = self._client.clock.now_ms() - self._before.created_ms
        gone = [each for each in done.values() if each.missing]
        if retention_ms is not None and gone and age_ms > retention_ms:
            shutil.rmtree(self._at, ignore_errors=True)
            raise PipelineError(
                f"{gone[0].missing} offsets of {self._source.topic}-{gone[0].partition} behind the "
                f"last snapshot have no record any more, and it is {age_ms} ms old, longer than "
                f"delete.retention.ms={retention_ms}: a delete may be among them; use --rebuild"
            )

    def keep(
        self,
        bounds: list[PartitionBounds],
        ends: dict[int, int],
        done: dict[int, PartitionDone],
        *,
        is_restore: bool = False,
    ) -> Made:
        because = self._why_incomplete(bounds, done) if is_restore else None
        client, topic = self._client, self._source.topic
        manifest = SnapshotManifest(
            topic=topic,
            topic_id=uuid_to_text(client.topic(topic).topic_id),
            cluster_id=client.session.cluster.cluster_id,
            isolation=self._source.isolation.value,
            created_ms=client.clock.now_ms(),
            previous=None if self._older is None else self._older.name,
            complete=because is None,
            because=because,
            partitions=tuple(
                _partition(each, ends[each.partition.partition], done[each.partition.partition])
                for each in bounds
            ),
        )
        path = self._settle(manifest)
        return Made(
            path=str(path),
            manifest=manifest,
            erased=sum(each.erased for each in done.values()),
            forgotten=sum(each.forgotten for each in done.values()),
        )

    def _settle(self, manifest: SnapshotManifest) -> Path:
        with (self._at / MANIFEST).open("w", encoding="utf-8") as file:
            file.write(to_json(manifest))
            file.flush()
            os.fsync(file.fileno())
        sync_directory(self._at)
        known = snapshots_in(self._directory)
        number = int(known[-1].name.rpartition("-")[2]) + 1 if known else 1
        path = self._directory / _NAME.format(number)
        # Crash here: the directory has no number, and the next snapshot starts over.
        self._at.rename(path)
        sync_directory(self._directory)
        return path

    def _why_incomplete(
        self, bounds: list[PartitionBounds], done: dict[int, PartitionDone]
    ) -> str | None:
        """A record that was the latest then may be gone, unless nothing is missing."""
        reasons = []
        for each in bounds:
            found = done[each.partition.partition]
            if self._partition_before(found.partition) is None and each.log_start_offset > 0:
                reasons.append(f"{each.partition} begins at offset {each.log_start_offset}")
            elif found.missing:
                reasons.append(f"{found.missing} offsets of {each.partition} have no record")
        return "; ".join(reasons) or None


def _partition(bound: PartitionBounds, end: int, done: PartitionDone) -> SnapshotPartition:
    return SnapshotPartition(
        partition=done.partition,
        log_start_offset=bound.log_start_offset,
        next_offset=end,
        live_keys=done.facts.live_keys,
        deleted_keys=done.facts.deleted_keys,
        records_read=done.records_read,
        checksum=done.facts.checksum,
        file=_file_name(done.partition),
        file_bytes=done.file_bytes,
    )


def _file_name(partition: int) -> str:
    return f"part-{partition:05d}.parquet"
