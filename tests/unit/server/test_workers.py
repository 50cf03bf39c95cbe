"""The broker's room of workers, with the real processes."""

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from ledgerstone.cleaner.plan import CleaningPlan
from ledgerstone.erasure.scan_plan import (
    LiveSegment,
    ResiduePlan,
    ScannedPartition,
    ScanReport,
    SearchPlan,
    SearchReport,
)
from ledgerstone.records.builder import build_batch
from ledgerstone.server.cleaning.parts import PassFailed
from ledgerstone.server.effects import Analyse, Clean, Effect, GiveUp, StartScan, WorkerName
from ledgerstone.server.erasing.scans import ScanFailed
from ledgerstone.server.results import AnalysisFailed
from ledgerstone.state.anatomy_plan import AnatomyPlan
from ledgerstone.workers.pool import STOPPING
from tests.kit.planted_keys import LOG, PARTITION, TP, keys_of
from tests.kit.told_by_workers import Told
from tests.kit.worker_processes import ANALYST, CLEANER, SCANNER, is_alive, worker_running

KEY = b"alice@example.org"
LOG_BYTES = bytes(build_batch([(1, KEY, b"v", ())]))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / PARTITION).mkdir()
    (tmp_path / PARTITION / LOG).write_bytes(LOG_BYTES)
    return tmp_path


def search(directory: Path) -> SearchPlan:
    segments = (LiveSegment(0, len(LOG_BYTES)),)
    path = str(directory / PARTITION)
    files = ScannedPartition(topic_partition=TP, directory=path, segments=segments)
    return SearchPlan(partitions=(files,), keys=keys_of(KEY))


def residue(directory: Path) -> ResiduePlan:
    return ResiduePlan(log_dirs=(str(directory),), keys=keys_of(KEY))


def analysis(directory: Path) -> AnatomyPlan:
    path = str(directory / PARTITION)
    return AnatomyPlan(topic_partition=TP, directory=path, segments=(), end_offset=1)


def cleaning(directory: Path) -> CleaningPlan:
    return CleaningPlan(
        topic_partition=TP,
        directory=str(directory / PARTITION),
        segments=(),
        first_dirty_offset=0,
        first_uncleanable_offset=0,
        now_ms=0,
        delete_retention_ms=0,
        segment_bytes=1 << 20,
        segment_index_bytes=1 << 20,
        index_interval_bytes=4096,
    )


def test_searches_go_before_scans_that_wait(directory: Path) -> None:
    async def story() -> Told:
        told = Told()
        told.room.perform(StartScan(1, residue(directory)))
        told.room.perform(StartScan(2, residue(directory)))
        told.room.perform(StartScan(3, search(directory)))
        await told.end_of(2)
        await told.room.stop()
        return told

    told = asyncio.run(story())

    assert list(told.ends) == [1, 3, 2]
    assert isinstance(told.ends[1], ScanReport)
    assert isinstance(told.ends[3], SearchReport)


KINDS: list[tuple[WorkerName, str, Callable[[Path], Effect]]] = [
    (WorkerName.CLEANING, CLEANER, lambda directory: Clean(1, cleaning(directory))),
    (WorkerName.SCANNING, SCANNER, lambda directory: StartScan(1, residue(directory))),
    (WorkerName.ANALYSING, ANALYST, lambda directory: Analyse(1, analysis(directory))),
]


@pytest.mark.parametrize(("name", "module", "effect"), KINDS, ids=[each[0] for each in KINDS])
def test_worker_of_each_kind_is_killed_when_it_is_given_up(
    name: WorkerName, module: str, effect: Callable[[Path], Effect], directory: Path
) -> None:
    async def story() -> tuple[object, bool]:
        told = Told()
        told.room.perform(effect(directory))  # type: ignore[arg-type]
        async with asyncio.timeout(30):
            while (pid := worker_running(os.getpid(), module)) is None:
                await asyncio.sleep(0)
        os.kill(pid, signal.SIGSTOP)
        told.room.perform(GiveUp(1, "it said nothing", name))
        end = await told.end_of(1)
        lives = is_alive(pid)
        await told.room.stop()
        return end, lives

    end, lives = asyncio.run(story())

    reason = f"the {name} worker was killed: it said nothing"
    expected: dict[WorkerName, object] = {
        WorkerName.CLEANING: PassFailed(reason, worker_died=True),
        WorkerName.SCANNING: ScanFailed(reason, worker_died=True),
        WorkerName.ANALYSING: AnalysisFailed(reason, worker_died=True),
    }
    assert end == expected[name]
    assert not lives


def test_stop_ends_jobs_and_workers_of_every_kind(directory: Path) -> None:
    async def story() -> tuple[Told, list[int]]:
        told = Told()
        pids = []
        for number, (_, module, effect) in enumerate(KINDS, 1):
            made = effect(directory)
            told.room.perform(type(made)(number, made.plan))  # type: ignore[union-attr, call-arg, arg-type]
            async with asyncio.timeout(30):
                while (pid := worker_running(os.getpid(), module)) is None:
                    await asyncio.sleep(0)
            os.kill(pid, signal.SIGSTOP)
            pids.append(pid)
        await told.room.stop()
        return told, [pid for pid in pids if is_alive(pid)]

    told, alive = asyncio.run(story())

    assert told.ends == {
        1: PassFailed(STOPPING),
        2: ScanFailed(STOPPING),
        3: AnalysisFailed(STOPPING),
    }
    assert alive == []
