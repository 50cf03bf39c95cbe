"""The scanning worker as a process of its own, and the messages it is told by."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledgerstone.erasure.scan_messages import (
    LENGTH_BYTES,
    MAX_FRAME_BYTES,
    Message,
    body_size,
    decode,
    encode,
    plan_message,
    plan_of,
    report_message,
    report_of,
)
from ledgerstone.erasure.scan_plan import (
    LiveSegment,
    PartitionFiles,
    ResiduePlan,
    ScanReport,
    SearchPlan,
    SearchReport,
)
from ledgerstone.records.builder import build_batch
from ledgerstone.server.erasing.process import ScanFailed, ScanProcess, ScanResult
from tests.kit.planted_keys import LOG, PARTITION, TP, disk_with, keys_of, scanned, searched

KEY = b"alice@example.org"
LOG_BYTES = bytes(build_batch([(1, KEY, b"v", ()), (2, b"bob", KEY, ())]))
Worker = subprocess.Popen[bytes]


@pytest.fixture
def worker() -> Iterator[Worker]:
    command = [sys.executable, "-m", "ledgerstone.erasure.worker"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield process
        process.kill()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    partition = tmp_path / PARTITION
    partition.mkdir()
    (partition / LOG).write_bytes(LOG_BYTES)
    (tmp_path / "meta.properties").write_bytes(KEY)
    return tmp_path


def search_plan(directory: Path) -> SearchPlan:
    segments = (LiveSegment(0, len(LOG_BYTES)),)
    files = PartitionFiles(
        topic_partition=TP, directory=str(directory / PARTITION), segments=segments
    )
    return SearchPlan(partitions=(files,), keys=keys_of(KEY))


def residue_plan(directory: Path) -> ResiduePlan:
    return ResiduePlan(log_dirs=(str(directory),), keys=keys_of(KEY))


def tell(worker: Worker, message: Message) -> None:
    assert worker.stdin is not None
    worker.stdin.write(encode(message))
    worker.stdin.flush()


def hear(worker: Worker) -> Message:
    assert worker.stdout is not None
    size = body_size(worker.stdout.read(LENGTH_BYTES))
    return decode(worker.stdout.read(size))


def test_plans_come_out_as_they_went_in(tmp_path: Path) -> None:
    for plan in (search_plan(tmp_path), residue_plan(tmp_path)):
        frame = encode(plan_message(plan))

        assert plan_of(decode(frame[LENGTH_BYTES:])) == plan


def test_reports_come_out_as_they_went_in() -> None:
    fs = disk_with({f"{PARTITION}/{LOG}": LOG_BYTES + b"torn", "x": KEY})

    for report in (searched(fs, KEY), scanned(fs, KEY, b"nobody")):
        frame = encode(report_message(report))
        assert report_of(decode(frame[LENGTH_BYTES:])) == report


def test_frame_longer_than_any_message_is_not_believed() -> None:
    with pytest.raises(ValueError, match="at most"):
        body_size((MAX_FRAME_BYTES + 1).to_bytes(LENGTH_BYTES, "big"))


def test_what_is_no_message_is_refused_without_being_shown() -> None:
    with pytest.raises(ValueError, match="no message") as refused:
        decode(b'{"secret": "alice"}')

    assert "alice" not in str(refused.value)


def test_worker_answers_one_plan_after_the_other(worker: Worker, directory: Path) -> None:
    tell(worker, plan_message(search_plan(directory)))
    first = report_of(hear(worker))
    # One that crosses the end of the work it was for.
    tell(worker, {"kind": "abort"})
    tell(worker, plan_message(residue_plan(directory)))
    second = report_of(hear(worker))

    assert isinstance(first, SearchReport)
    assert [each.offset for each in first.places] == [0]
    assert isinstance(second, ScanReport)
    found = second.prints[0]
    assert (found.records, found.mentions, found.residue) == (1, 1, 1)


def test_worker_says_what_went_wrong_and_lives_on(worker: Worker, directory: Path) -> None:
    tell(worker, plan_message(search_plan(directory / "nowhere")))
    failed = hear(worker)
    tell(worker, plan_message(search_plan(directory)))

    assert failed["kind"] == "failed"
    assert "FileNotFoundError" in failed["detail"]
    assert hear(worker)["kind"] == "searched"


def test_worker_stops_when_it_is_told_to(worker: Worker, directory: Path) -> None:
    (directory / "large").write_bytes(bytes(64 << 20))
    plan = plan_message(residue_plan(directory))
    plan["plan"]["bytes_per_second"] = 1_000_000

    tell(worker, plan)
    tell(worker, {"kind": "abort"})

    assert hear(worker) == {"kind": "failed", "detail": "the broker gave it up", "aborted": True}


def test_worker_reads_files_that_nobody_may_write(worker: Worker, directory: Path) -> None:
    (directory / "meta.properties").chmod(0o400)

    tell(worker, plan_message(residue_plan(directory)))
    report = report_of(hear(worker))

    assert report.trouble is None


def test_worker_ends_with_its_input(worker: Worker) -> None:
    assert worker.stdin is not None
    worker.stdin.close()

    assert worker.wait(timeout=30) == 0


class Told:
    """What a broker would be told."""

    def __init__(self) -> None:
        self.results: dict[int, ScanResult] = {}
        self.changed = asyncio.Event()
        self.process = ScanProcess(self._end)

    def _end(self, number: int, result: ScanResult) -> None:
        self.results[number] = result
        self.changed.set()

    async def wait_for(self, *numbers: int) -> None:
        async with asyncio.timeout(60):
            while not all(number in self.results for number in numbers):
                self.changed.clear()
                await self.changed.wait()


def test_searches_go_before_scans_and_each_gets_its_end(directory: Path) -> None:
    async def story() -> Told:
        told = Told()
        told.process.scan(1, residue_plan(directory))
        told.process.scan(2, residue_plan(directory))
        told.process.scan(3, search_plan(directory))
        told.process.abort(2)
        await told.wait_for(1, 2, 3)
        await told.process.stop()
        return told

    told = asyncio.run(story())

    assert list(told.results) == [2, 3, 1]
    assert isinstance(told.results[1], ScanReport)
    assert told.results[2] == ScanFailed("given up before it began", is_aborted=True)
    assert isinstance(told.results[3], SearchReport)


def test_worker_that_dies_costs_its_scan_and_no_other(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> Told:
        told = Told()
        monkeypatch.setattr("ledgerstone.server.erasing.process._MODULE", "ledgerstone.nowhere")
        told.process.scan(1, residue_plan(directory))
        await told.wait_for(1)
        monkeypatch.undo()
        told.process.scan(2, search_plan(directory))
        await told.wait_for(2)
        await told.process.stop()
        return told

    told = asyncio.run(story())

    died = told.results[1]
    assert isinstance(died, ScanFailed)
    assert died.worker_died
    assert isinstance(told.results[2], SearchReport)


def test_scan_at_work_is_given_up_when_asked(directory: Path) -> None:
    (directory / "large").write_bytes(bytes(64 << 20))
    keys = keys_of(KEY)
    slow = ResiduePlan(log_dirs=(str(directory),), keys=keys, bytes_per_second=1_000_000)

    async def story() -> Told:
        told = Told()
        told.process.scan(1, search_plan(directory))
        await told.wait_for(1)
        told.process.scan(2, slow)
        await asyncio.sleep(0)
        told.process.abort(2)
        await told.wait_for(2)
        await told.process.stop()
        return told

    told = asyncio.run(story())

    ended = told.results[2]
    assert isinstance(ended, ScanFailed)
    assert ended.is_aborted
