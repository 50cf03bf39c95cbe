"""Looking at a partition: what makes an analysis begin, what is remembered of it, and the facts."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from ledgerstone.records.builder import build_batch
from ledgerstone.server.anatomy.book import (
    FORGET_MS,
    LONGEST_REST_MS,
    MAX_PARTITIONS,
    SHORTEST_REST_MS,
    Known,
)
from ledgerstone.server.anatomy.facts import anatomy_of
from ledgerstone.server.anatomy.partition import PartitionAnatomy
from ledgerstone.server.anatomy.worker import Memory
from ledgerstone.server.effects import Analyse
from ledgerstone.server.http.api import handle
from ledgerstone.server.http.server import HttpRequest
from ledgerstone.server.results import AnalysisFailed
from ledgerstone.state.anatomy_plan import AnatomyPlan, AnatomyReport, SegmentSpan, Shares
from ledgerstone.storage.filenames import Kind, file_name
from ledgerstone.types import INT64_MAX, TopicPartition
from tests.kit.in_process import Client, InProcess
from tests.kit.told_by_workers import Told
from tests.unit.server.asks import TOPIC, create_topic, delete_topic, produced

TP = TopicPartition(TOPIC, 0)
HOUR_MS = 3_600_000
SEED = bytes(16)


@pytest.fixture
def compacted(client: Client) -> Client:
    create_topic(
        client, cleanup_policy="compact", delete_retention_ms=str(HOUR_MS), segment_bytes="1024"
    )
    return client


def write(machine: InProcess, client: Client, *records: tuple[str, str | None]) -> None:
    now_ms = machine.clock.now_ms()
    produced(
        client,
        build_batch(
            [
                (now_ms, key.encode(), None if value is None else value.encode(), ())
                for key, value in records
            ]
        ),
    )


def facts(machine: InProcess, number: int = 0) -> PartitionAnatomy:
    partition = machine.broker.partitions.get(TopicPartition(TOPIC, number))
    return anatomy_of(machine.broker.anatomy, partition)


def look(machine: InProcess) -> Known:
    return machine.broker.anatomy.look(machine.broker.partitions.get(TP).log)


def looked(machine: InProcess) -> PartitionAnatomy:
    """Looks until the figures are of this moment."""
    facts(machine)
    machine.advance(LONGEST_REST_MS)
    found = facts(machine)
    assert found.is_current
    return found


def compact(machine: InProcess) -> None:
    machine.broker.cleaning.ask(TP)
    machine.tick()


def test_first_look_makes_an_analysis_begin(machine: InProcess, compacted: Client) -> None:
    write(machine, compacted, ("a", "1"), ("a", "2"))

    before = facts(machine)
    machine.tick()
    after = facts(machine)

    assert before.division is None
    assert not before.is_current
    assert after.is_current
    assert after.segments[0].records == Shares(live=1, superseded=1)
    assert after.division is not None
    assert after.division.total == after.size_bytes


def test_facts_follow_a_delete_through_its_whole_life(
    machine: InProcess, compacted: Client
) -> None:
    write(machine, compacted, ("a", "1"), ("b", "1"), ("a", None))

    fresh = looked(machine)
    compact(machine)
    stamped = looked(machine)
    machine.jump(hours=2)
    compact(machine)
    gone = looked(machine)

    assert fresh.fresh_tombstones == 1
    assert not fresh.horizons
    assert [each.tombstones for each in stamped.horizons] == [1]
    assert stamped.horizons[0].first_offset == stamped.horizons[0].last_offset == 2
    assert stamped.fresh_tombstones == 0
    assert stamped.segments[0].is_clean
    assert stamped.segments[0].records == Shares(live=1, tombstone=1)
    assert stamped.next_pass.reason == "a delete horizon has passed"
    assert stamped.next_pass.at_ms == stamped.horizons[0].at_ms
    assert not gone.horizons
    assert gone.division is not None
    assert gone.division.tombstone == 0


def test_only_what_has_grown_is_read_again(machine: InProcess, compacted: Client) -> None:
    write(machine, compacted, ("a", "1"))
    looked(machine)
    write(machine, compacted, ("a", "2"))
    looked(machine)

    report = look(machine).report

    assert report is not None
    assert report.is_resumed
    assert report.read_bytes == machine.broker.partitions.get(TP).log.size_bytes // 2


def test_segment_that_a_pass_replaced_is_not_described_by_what_was(
    machine: InProcess, compacted: Client
) -> None:
    write(machine, compacted, *(("a", "x" * 100) for _ in range(5)))
    looked(machine)
    compact(machine)

    found = facts(machine)

    assert found.segments[0].division is None
    assert not found.is_current


def test_one_analysis_is_under_way_at_a_time(machine: InProcess, client: Client) -> None:
    create_topic(client, partitions=2, cleanup_policy="compact")
    broker = machine.broker
    for number in (0, 1):
        anatomy_of(broker.anatomy, broker.partitions.get(TopicPartition(TOPIC, number)))

    first = [each for each in broker.tick() if isinstance(each, Analyse)]
    meanwhile = [each for each in broker.tick() if isinstance(each, Analyse)]
    broker.completed(first[0], AnalysisFailed("it failed"))
    second = [each for each in broker.tick() if isinstance(each, Analyse)]

    assert [each.plan.topic_partition.partition for each in first] == [0]
    assert not meanwhile
    assert [each.plan.topic_partition.partition for each in second] == [1]


def test_partition_rests_ten_times_as_long_as_its_analysis_took(
    machine: InProcess, compacted: Client
) -> None:
    broker = machine.broker
    look(machine)
    (effect,) = [each for each in broker.tick() if isinstance(each, Analyse)]
    machine.clock.advance(ms=700)
    broker.completed(effect, AnalysisFailed("it failed"))
    ended_ms = machine.clock.monotonic_ms()

    look(machine)

    assert broker.anatomy.next_deadline_ms == ended_ms + 7_000
    assert SHORTEST_REST_MS < 7_000


def test_failed_analysis_says_why_until_one_succeeds(machine: InProcess, compacted: Client) -> None:
    write(machine, compacted, ("a", "1"))
    look(machine)
    (effect,) = [each for each in machine.broker.tick() if isinstance(each, Analyse)]
    machine.broker.completed(effect, AnalysisFailed("the disk is gone"))

    failed = facts(machine)
    healed = looked(machine)

    assert failed.not_divided == "the disk is gone"
    assert healed.not_divided is None


def test_what_nobody_looks_at_is_forgotten(machine: InProcess, compacted: Client) -> None:
    looked(machine)
    machine.clock.advance(ms=FORGET_MS + 1)
    create_topic(compacted, "other", cleanup_policy="compact")
    machine.broker.anatomy.look(machine.broker.partitions.get(TopicPartition("other", 0)).log)

    assert look(machine).report is None


def test_memory_of_looks_is_bounded(machine: InProcess, client: Client) -> None:
    create_topic(client, partitions=MAX_PARTITIONS + 5, cleanup_policy="compact")
    while machine.broker.partitions.backlog:
        machine.tick()

    for partition in machine.broker.partitions:
        machine.broker.anatomy.look(partition.log)

    assert len(machine.broker.anatomy) == MAX_PARTITIONS


def test_topic_deleted_meanwhile_is_no_longer_wanted(machine: InProcess, compacted: Client) -> None:
    look(machine)
    delete_topic(compacted)

    machine.tick()

    assert machine.broker.anatomy.next_deadline_ms is None


def test_topic_without_compaction_is_not_divided(machine: InProcess, client: Client) -> None:
    create_topic(client)
    write(machine, client, ("a", "1"))

    found = facts(machine)

    assert found.division is None
    assert found.is_current
    assert "cleanup.policy" in str(found.not_divided)
    assert machine.broker.anatomy.next_deadline_ms is None


def test_running_pass_is_told_with_how_far_it_goes(machine: InProcess, compacted: Client) -> None:
    write(machine, compacted, ("a", "1"), ("a", "2"))
    machine.held_passes = []
    compact(machine)

    found = facts(machine)
    machine.finish_pass(machine.held_passes.pop())

    assert found.next_pass.is_running
    assert found.next_pass.up_to_offset == 2
    assert found.next_pass.reason == "a pass was requested"


def test_worker_forgets_the_oldest_where_keys_are_too_many(machine: InProcess) -> None:
    memory = Memory(machine.fs, seed=SEED, max_keys=3)
    plans = [_plan_of(machine, number, keys=2) for number in range(3)]

    found = [memory.analyse(plan) for plan in plans]

    assert [type(each) for each in found] == [AnatomyReport] * 3
    assert len(memory) == 1


def _plan_of(machine: InProcess, number: int, *, keys: int) -> AnatomyPlan:
    directory = f"/elsewhere/t-{number}"
    machine.fs.make_dir(directory)
    data = build_batch([(1, f"{number}/{key}".encode(), b"v", ()) for key in range(keys)])
    file = machine.fs.open(f"{directory}/{file_name(0, Kind.LOG)}", create=True)
    file.pwrite(data, 0)
    return AnatomyPlan(
        topic_partition=TopicPartition("t", number),
        directory=directory,
        segments=(SegmentSpan(0, len(data), 0),),
        end_offset=INT64_MAX,
    )


# -- the API --------------------------------------------------------------------------------------


def ask(machine: InProcess, path: str, **query: str) -> tuple[int, Any]:
    page = handle(machine.broker, HttpRequest("GET", f"/api/v1/{path}", query, {}))
    assert page is not None
    return page.status, json.loads(page.body)


def test_api_tells_the_facts(machine: InProcess, compacted: Client) -> None:
    write(machine, compacted, ("a", "1"), ("a", None))
    expected = looked(machine)

    status, content = ask(machine, f"topics/{TOPIC}/anatomy")

    (partition,) = content["partitions"]
    assert status == 200
    assert partition["log_end_offset"] == expected.log_end_offset == 2
    (segment,) = partition["segments"]
    assert segment["division"] == expected.segments[0].division._asdict()  # type: ignore[union-attr]
    assert sum(segment["division"].values()) + segment["undivided_bytes"] == segment["size_bytes"]
    assert partition["next_pass"]["at_ms"] == expected.next_pass.at_ms


def test_api_refuses_what_is_not_there(machine: InProcess, compacted: Client) -> None:
    unknown = ask(machine, "topics/nowhere/anatomy")
    beyond = ask(machine, f"topics/{TOPIC}/anatomy", partition="7")

    assert (unknown[0], beyond[0]) == (404, 404)


# -- the process ----------------------------------------------------------------------------------


def on_disk(directory: Path, megabytes: int) -> AnatomyPlan:
    part = build_batch([(1, b"%d" % key, b"v" * 1000, ()) for key in range(1000)])
    data = bytearray()
    spans = []
    for base in range(0, megabytes * 1000, 1000):
        part[0:8] = base.to_bytes(8, "big")
        data += part
    (directory / file_name(0, Kind.LOG)).write_bytes(data)
    spans.append(SegmentSpan(0, len(data), 0))
    return AnatomyPlan(
        topic_partition=TP,
        directory=str(directory),
        segments=tuple(spans),
        end_offset=INT64_MAX,
    )


def told_by(plan: AnatomyPlan, *, times: int) -> list[AnatomyReport | str]:
    found: list[AnatomyReport | str] = []

    async def story() -> None:
        told = Told()
        for number in range(times):
            told.room.perform(Analyse(number, plan))
            found.append(await told.end_of(number))
        await told.room.stop()

    asyncio.run(story())
    return found


def test_process_goes_on_where_it_was_with_the_same_partition(tmp_path: Path) -> None:
    plan = on_disk(tmp_path, 2)

    first, second = told_by(plan, times=2)

    assert isinstance(first, AnatomyReport)
    assert isinstance(second, AnatomyReport)
    assert first.read_bytes == plan.segments[0].size_bytes
    assert second.read_bytes == 0
    assert second.segments == first.segments


def test_loop_goes_on_while_a_partition_is_analysed(tmp_path: Path) -> None:
    plan = on_disk(tmp_path, 48)
    turns = 0

    async def story() -> AnatomyReport | str:
        nonlocal turns
        told = Told()
        told.room.perform(Analyse(1, plan))
        async with asyncio.timeout(60):
            while not told.ends:
                await asyncio.sleep(0)
                turns += 1
        await told.room.stop()
        report: AnatomyReport | str = told.ends[1]
        return report

    report = asyncio.run(story())

    assert isinstance(report, AnatomyReport)
    assert report.read_bytes == plan.segments[0].size_bytes
    # The work of a second was not done between two turns of this loop.
    assert turns > 100
