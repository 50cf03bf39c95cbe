"""The scanning worker as a process of its own, and the messages it is told by."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ledgerstone.erasure.scan_messages import plan_message, plan_of, report_message, report_of
from ledgerstone.erasure.scan_plan import (
    LiveSegment,
    ResiduePlan,
    ScannedPartition,
    ScanReport,
    SearchPlan,
    SearchReport,
)
from ledgerstone.records.builder import build_batch
from ledgerstone.workers.frames import Message
from tests.kit.planted_keys import LOG, PARTITION, TP, disk_with, keys_of, scanned, searched
from tests.kit.worker_processes import SCANNER, Worker, hear, started, tell, tell_job

KEY = b"alice@example.org"
LOG_BYTES = bytes(build_batch([(1, KEY, b"v", ()), (2, b"bob", KEY, ())]))


@pytest.fixture
def worker() -> Iterator[Worker]:
    with started(SCANNER) as process:
        yield process


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    partition = tmp_path / PARTITION
    partition.mkdir()
    (partition / LOG).write_bytes(LOG_BYTES)
    (tmp_path / "meta.properties").write_bytes(KEY)
    return tmp_path


def search_plan(directory: Path) -> SearchPlan:
    segments = (LiveSegment(0, len(LOG_BYTES)),)
    files = ScannedPartition(
        topic_partition=TP, directory=str(directory / PARTITION), segments=segments
    )
    return SearchPlan(partitions=(files,), keys=keys_of(KEY))


def residue_plan(directory: Path) -> ResiduePlan:
    return ResiduePlan(log_dirs=(str(directory),), keys=keys_of(KEY))


def through_a_pipe(content: Message) -> Message:
    message: Message = json.loads(json.dumps(content))
    return message


def test_plans_come_out_as_they_went_in(tmp_path: Path) -> None:
    for plan in (search_plan(tmp_path), residue_plan(tmp_path)):
        assert plan_of(through_a_pipe(plan_message(plan))) == plan


def test_reports_come_out_as_they_went_in() -> None:
    fs = disk_with({f"{PARTITION}/{LOG}": LOG_BYTES + b"torn", "x": KEY})

    for report in (searched(fs, KEY), scanned(fs, KEY, b"nobody")):
        assert report_of(through_a_pipe(report_message(report))) == report


def test_worker_answers_one_plan_after_the_other(worker: Worker, directory: Path) -> None:
    tell_job(worker, plan_message(search_plan(directory)))
    first = report_of(hear(worker)["content"])
    # One that crosses the end of the work it was for.
    tell(worker, {"kind": "abort"})
    tell_job(worker, plan_message(residue_plan(directory)))
    second = report_of(hear(worker)["content"])

    assert isinstance(first, SearchReport)
    assert [each.offset for each in first.places] == [0]
    assert isinstance(second, ScanReport)
    found = second.prints[0]
    assert (found.records, found.mentions, found.residue) == (1, 1, 1)


def test_worker_says_what_went_wrong_and_lives_on(worker: Worker, directory: Path) -> None:
    tell_job(worker, plan_message(search_plan(directory / "nowhere")))
    failed = hear(worker)
    tell_job(worker, plan_message(search_plan(directory)))

    assert failed["kind"] == "failed"
    assert "FileNotFoundError" in failed["detail"]
    assert hear(worker)["content"]["kind"] == "searched"


def test_worker_stops_when_it_is_told_to(worker: Worker, directory: Path) -> None:
    (directory / "large").write_bytes(bytes(64 << 20))
    plan = plan_message(residue_plan(directory))
    plan["plan"]["bytes_per_second"] = 1_000_000

    tell_job(worker, plan)
    tell(worker, {"kind": "abort"})

    assert hear(worker) == {"kind": "failed", "detail": "JobAborted: the broker gave it up"}


def test_worker_reads_files_that_nobody_may_write(worker: Worker, directory: Path) -> None:
    (directory / "meta.properties").chmod(0o400)

    tell_job(worker, plan_message(residue_plan(directory)))
    report = report_of(hear(worker)["content"])

    assert report.trouble is None


def test_worker_ends_with_its_input(worker: Worker) -> None:
    assert worker.stdin is not None
    worker.stdin.close()

    assert worker.wait(timeout=30) == 0
