"""The worker as a process of its own: frames in, `.cleaned` files and frames out."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ledgerstone.cleaner.messages import group_of, plan_message, report_of
from ledgerstone.cleaner.plan import CleaningPlan
from ledgerstone.cleaner.planning import CleanerSettings, facts_of, make_plan
from ledgerstone.cleaner.selection import measure
from ledgerstone.storage.log_config import LogConfig
from ledgerstone.system import OsFilesystem
from tests.kit.logs import T0, World, batch
from tests.kit.worker_processes import CLEANER, Worker, hear, started, tell, tell_job


@pytest.fixture
def worker() -> Iterator[Worker]:
    with started(CLEANER) as process:
        yield process


@pytest.fixture
def plan(tmp_path: Path) -> CleaningPlan:
    """Two segments that become two groups: together they are larger than segment.bytes."""
    world = World(fs=OsFilesystem(), directory=str(tmp_path / "topic-0"))
    log = world.open(LogConfig(cleanup_policy=("compact",), segment_bytes=100))
    for value in "123":
        log.append_as_leader(batch(("key", value)), leader_epoch=0)
    log.advance_high_watermark(3)
    measured = measure(facts_of(log, times_from=None), None, now_ms=T0)
    settings = CleanerSettings.from_values({"log.cleaner.dedupe.buffer.size": str(4 << 20)})
    made = make_plan(log, measured, settings, now_ms=T0)
    assert made is not None
    return made


def cleaned_files(plan: CleaningPlan) -> list[str]:
    return sorted(path.name for path in Path(plan.directory).glob("*.log.cleaned"))


def test_worker_reports_each_group_and_waits_for_its_owner(
    worker: Worker, plan: CleaningPlan
) -> None:
    tell_job(worker, plan_message(plan))

    first = group_of(hear(worker)["content"])
    during = cleaned_files(plan)
    tell(worker, {"kind": "proceed"})
    second = group_of(hear(worker)["content"])
    tell(worker, {"kind": "proceed"})
    report = report_of(hear(worker)["content"])

    assert (first.source_bases, second.source_bases) == ((0,), (1,))
    assert during == ["00000000000000000000.log.cleaned"]
    assert report.end_offset == 2
    assert report.stats.dropped_superseded == 1


def test_worker_stops_when_its_owner_says_so_and_serves_the_next_plan(
    worker: Worker, plan: CleaningPlan
) -> None:
    tell_job(worker, plan_message(plan))
    hear(worker)

    tell(worker, {"kind": "abort"})
    ended = hear(worker)
    tell_job(worker, plan_message(plan))
    again = hear(worker)

    assert ended["kind"] == "failed"
    assert "CleaningAborted" in ended["detail"]
    assert again["kind"] == "part"


def test_abort_that_crosses_the_end_of_a_pass_harms_nobody(
    worker: Worker, plan: CleaningPlan
) -> None:
    tell(worker, {"kind": "abort"})

    tell_job(worker, plan_message(plan))

    assert hear(worker)["kind"] == "part"


def test_idle_worker_says_that_it_is_there(worker: Worker, plan: CleaningPlan) -> None:
    tell(worker, {"kind": "ping"})
    answer = hear(worker)
    tell_job(worker, plan_message(plan))

    assert answer == {"kind": "here"}
    assert hear(worker)["kind"] == "part"


def test_what_goes_wrong_is_told_and_the_worker_lives_on(
    worker: Worker, plan: CleaningPlan
) -> None:
    log = Path(plan.directory) / "00000000000000000000.log"
    content = log.read_bytes()
    log.write_bytes(b"\xff" * len(content))

    tell_job(worker, plan_message(plan))
    failed = hear(worker)
    log.write_bytes(content)
    tell_job(worker, plan_message(plan))

    assert failed["kind"] == "failed"
    assert "00000000000000000000.log" in failed["detail"]
    assert hear(worker)["kind"] == "part"


def test_worker_ends_when_its_broker_is_gone(worker: Worker, plan: CleaningPlan) -> None:
    tell_job(worker, plan_message(plan))
    hear(worker)
    assert worker.stdin is not None

    worker.stdin.close()

    assert worker.wait(timeout=20) == 0
