"""The metadata log and its snapshots on disk: a crash at every operation, and a model beside it.

The model is the simulator's log, which the quorum's ten thousand seeds run on. What the disk keeps
of changes that were not synced is a prefix of them.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.raft.control_batches import bootstrap_snapshot
from ledgerstone.raft.replica import OffsetAndEpoch
from ledgerstone.raft.starting import settle_log
from ledgerstone.raft.voters import VoterSet
from ledgerstone.records.batch import read_header
from ledgerstone.records.builder import build_batch
from ledgerstone.server.quorum.disk_log import LOG_CONFIG, DiskLog, open_disk_log
from ledgerstone.server.quorum.snapshot_files import SnapshotFiles
from ledgerstone.sim.clock import VirtualClock
from ledgerstone.sim.dice import SeededDice
from ledgerstone.sim.filesystem import SimFilesystem, SimulatedCrash
from ledgerstone.sim.platter import PowerLoss
from ledgerstone.sim.quorum.memory_log import MemoryLog
from ledgerstone.storage.log_dir import open_log_dir
from ledgerstone.storage.sync_plan import sync_all
from tests.kit.logs import T0
from tests.kit.sized import examples

# Some batches to a segment.
SMALL = replace(LOG_CONFIG, segment_bytes=400)
CONTENT = bootstrap_snapshot(VoterSet(), wall_ms=T0) * 3


def batch(base_offset: int, epoch: int, count: int) -> bytes:
    records = [(T0, None, b"%d@%d" % (base_offset + n, epoch), ()) for n in range(count)]
    return bytes(build_batch(records, base_offset=base_offset, leader_epoch=epoch))


# -- one disk, one model --------------------------------------------------------------------------


@dataclass
class Disk:
    """A started node's disk."""

    fs: SimFilesystem
    log: DiskLog = field(init=False)
    snapshots: SnapshotFiles = field(init=False)

    def start(self) -> None:
        clock = VirtualClock(start_ms=T0)
        log_dir = open_log_dir(self.fs, clock, SeededDice(1), "/data", node_id=1)
        self.log = open_disk_log(log_dir, is_synced_in_order=False, config=SMALL)
        log = self.log.log
        self.snapshots = SnapshotFiles(self.fs, clock, log.directory, log.deleted_files)
        self.log.remember_snapshots(self.snapshots.ids())
        settle_log(self.log, self.snapshots)


Seen = dict[str, Any]
Act = Callable[[DiskLog | MemoryLog], None]


@dataclass
class Step:
    name: str
    act: Act
    # A snapshot that must be durable before, as `raft` sees to it.
    snapshot: OffsetAndEpoch | None = None
    is_sync: bool = False


def appended(epoch: int, count: int = 2) -> Step:
    def act(log: DiskLog | MemoryLog) -> None:
        log.append(batch(log.end_offset, epoch, count))

    return Step(f"append {count} of epoch {epoch}", act)


def truncated(offset: int) -> Step:
    return Step(f"truncate to {offset}", lambda log: log.truncate_to(offset))


def started_over(offset: int, epoch: int) -> Step:
    at = OffsetAndEpoch(offset, epoch)
    return Step(f"start over at {at}", lambda log: log.start_over(at), snapshot=at)


def raised(offset: int, epoch: int) -> Step:
    at = OffsetAndEpoch(offset, epoch)

    def act(log: DiskLog | MemoryLog) -> None:
        if isinstance(log, DiskLog):
            log.committed(offset)
        log.raise_start_offset(offset)

    return Step(f"raise the start to {at}", act, snapshot=at)


def synced() -> Step:
    def act(log: DiskLog | MemoryLog) -> None:
        if isinstance(log, DiskLog):
            log.flush()

    return Step("sync", act, is_sync=True)


def seen(log: DiskLog | MemoryLog) -> Seen:
    """Everything a replica can ask of it."""
    batches = []
    offset = log.start_offset
    while offset < log.end_offset:
        data = log.read(offset, 1)
        batches.append(data)
        offset = read_header(data).next_offset
    offsets = range(log.start_offset - 1, log.end_offset + 2)
    return {
        "start": log.start_offset,
        "end": log.end_offset,
        "last epoch": log.last_epoch,
        "batches": batches,
        "epochs": [log.epoch_of(each) for each in offsets],
        "ends": [log.end_of_epoch(each) for each in range(log.last_epoch + 2)]
        if log.end_offset > log.start_offset
        else [],
    }


def model_states(steps: list[Step]) -> list[Seen]:
    model = MemoryLog()
    states = [seen(model)]
    for step in steps:
        step.act(model)
        states.append(seen(model))
    return states


def is_halfway(step: Step, found: Seen, before: Seen, after: Seen) -> bool:
    """Two changes take several operations. A truncation removes segments from the end. A raised
    start forgets epochs below it first; the records are still there."""
    batches = before["batches"]
    if step.name.startswith("truncate"):
        count = len(found["batches"])
        return len(after["batches"]) <= count and found["batches"] == batches[:count]
    is_raise = step.name.startswith("raise")
    return is_raise and found["batches"] == batches and found["start"] == before["start"]


def perform(disk: Disk, step: Step) -> None:
    if step.snapshot is not None and step.snapshot not in disk.snapshots.ids():
        disk.snapshots.write_part(step.snapshot, 0, CONTENT)
        new = disk.snapshots.take_part(step.snapshot)
        assert new is not None
        sync_all(disk.fs, [new])
        disk.snapshots.appeared(step.snapshot)
    step.act(disk.log)


STORIES = {
    "appends and rolls": [appended(1), appended(1, 5), synced(), appended(2), appended(3, 6)],
    "truncation into another segment": [
        *(appended(epoch, 4) for epoch in (1, 1, 2, 2, 3)),
        synced(),
        truncated(8),
        appended(4, 3),
        synced(),
        appended(4),
    ],
    "truncation of what was not synced": [
        appended(1, 4),
        synced(),
        appended(2, 4),
        appended(2, 4),
        truncated(4),
        appended(3, 4),
    ],
    "starting over": [
        appended(1, 4),
        appended(1, 4),
        synced(),
        started_over(100, 7),
        appended(8, 3),
        synced(),
        appended(8, 3),
    ],
    "starting over twice": [started_over(10, 1), appended(2, 4), started_over(50, 3)],
    "raising the start": [
        *(appended(epoch, 4) for epoch in (1, 1, 2, 2, 3)),
        synced(),
        raised(8, 1),
        raised(16, 2),
        appended(3, 4),
        raised(24, 3),
        synced(),
    ],
    "truncation to the start": [started_over(10, 1), appended(2, 4), truncated(10), appended(3)],
}


@pytest.mark.parametrize("name", STORIES)
def test_a_log_on_disk_answers_as_the_model_does(name: str) -> None:
    steps = STORIES[name]
    disk = Disk(SimFilesystem(dice=SeededDice(0)))
    disk.start()
    for step, expected in zip(steps, model_states(steps)[1:], strict=True):
        perform(disk, step)
        assert seen(disk.log) == expected, step.name
    disk.fs.kill()
    disk.start()
    assert seen(disk.log) == model_states(steps)[-1]


@pytest.mark.parametrize("name", STORIES)
@pytest.mark.parametrize("way", [None, "none", "random"])
def test_a_crash_at_any_operation_leaves_a_prefix_of_the_changes(
    name: str, way: PowerLoss | None
) -> None:
    steps = STORIES[name]
    states = model_states(steps)
    prepared = Disk(SimFilesystem(dice=SeededDice(0)))
    prepared.start()
    prepared.fs.kill()
    rehearsal = Disk(prepared.fs.clone())
    rehearsal.start()
    first = rehearsal.fs.operation_count + 1
    for step in steps:
        perform(rehearsal, step)
    for n in range(first, rehearsal.fs.operation_count + 2):
        disk = Disk(prepared.fs.clone(dice=SeededDice(f"{name}/{way}/{n}")))
        disk.fs.crash_at(n, torn=n % 2 == 0)
        done, durable = 0, 0
        with suppress(SimulatedCrash):
            disk.start()
            for step in steps:
                perform(disk, step)
                done += 1
                if step.is_sync:
                    durable = done
        operation = disk.fs.trace[n - 1] if n <= len(disk.fs.trace) else "idle"
        disk.fs.clear_faults()
        if way is None:
            disk.fs.kill()
            durable = done
        else:
            disk.fs.power_loss(way)
        disk.start()
        found = seen(disk.log)
        # A snapshot that has its name takes the log's place, also before the log has started over.
        allowed = states[durable : done + 2]
        is_between = done < len(steps) and is_halfway(
            steps[done], found, states[done], states[done + 1]
        )
        assert is_between or found in allowed, f"at {n}, {operation}, after {done} steps"
        # It goes on from there.
        disk.log.append(batch(disk.log.end_offset, 99, 2))
        disk.log.flush()
        end = disk.log.end_offset
        disk.fs.power_loss("none")
        disk.start()
        assert disk.log.end_offset == end
        assert disk.log.last_epoch == 99


# -- chance ---------------------------------------------------------------------------------------


@examples(25)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5), st.integers(1, 6)), max_size=30))
def test_any_sequence_of_changes_looks_like_the_model(choices: list[tuple[int, int, int]]) -> None:
    model = MemoryLog()
    disk = Disk(SimFilesystem(dice=SeededDice(0)))
    disk.start()
    epoch = 1
    for kind, which, count in choices:
        boundaries = [model.start_offset, *(e.next_offset for e in model.entries_from(0))]
        boundary = boundaries[which % len(boundaries)]
        if kind < 6:
            epoch += which == 0
            step = appended(epoch, count)
        elif kind == 6:
            step = truncated(boundary)
        elif kind == 7:
            epoch += 1
            step = started_over(model.end_offset + count, epoch)
        elif kind == 8:
            held = model.epoch_of(boundary - 1)
            step = synced() if held is None else raised(boundary, held)
        else:
            step = synced()
            step.act(disk.log)
            disk.fs.kill()
            disk.start()
        step.act(model)
        perform(disk, step)
        assert seen(disk.log) == seen(model), step.name
        disk.log.log.check_invariants()


# -- snapshots ------------------------------------------------------------------------------------


def fetch(disk: Disk, at: OffsetAndEpoch) -> None:
    half = len(CONTENT) // 2
    disk.snapshots.write_part(at, 0, CONTENT[:half])
    disk.snapshots.write_part(at, half, CONTENT[half:])
    new = disk.snapshots.take_part(at)
    assert new is not None
    sync_all(disk.fs, [new])
    disk.snapshots.appeared(at)


@pytest.mark.parametrize("way", [None, "none", "random"])
def test_a_crash_at_any_operation_leaves_whole_snapshots_only(way: PowerLoss | None) -> None:
    first, second = OffsetAndEpoch(5, 1), OffsetAndEpoch(9, 2)
    prepared = Disk(SimFilesystem(dice=SeededDice(0)))
    prepared.start()
    prepared.fs.kill()

    def work(disk: Disk) -> None:
        fetch(disk, first)
        fetch(disk, second)
        disk.snapshots.write_part(OffsetAndEpoch(11, 2), 0, b"begun")
        disk.snapshots.delete(first)

    rehearsal = Disk(prepared.fs.clone())
    rehearsal.start()
    begin = rehearsal.fs.operation_count + 1
    work(rehearsal)
    assert rehearsal.snapshots.ids() == (second,)
    for n in range(begin, rehearsal.fs.operation_count + 2):
        disk = Disk(prepared.fs.clone(dice=SeededDice(f"{way}/{n}")))
        disk.fs.crash_at(n, torn=n % 2 == 0)
        with suppress(SimulatedCrash):
            disk.start()
            work(disk)
        disk.fs.clear_faults()
        if way is None:
            disk.fs.kill()
        else:
            disk.fs.power_loss(way)
        disk.start()
        for each in disk.snapshots.ids():
            assert disk.snapshots.read(each, 0, 1 << 20) == CONTENT
            assert disk.snapshots.size_of(each) == len(CONTENT)
        directory = disk.log.log.directory
        names = [name for name in disk.fs.list_dir(directory) if ".checkpoint" in name]
        wanted = [disk.snapshots.path_of(each) for each in disk.snapshots.ids()]
        assert [f"{directory}/{each}" for each in names if "leader" not in each] == wanted


def test_a_snapshot_is_read_only_and_its_name_is_kafkas() -> None:
    disk = Disk(SimFilesystem(dice=SeededDice(0)))
    disk.start()
    fetch(disk, OffsetAndEpoch(5, 1))
    path = "/data/__cluster_metadata-0/00000000000000000005-0000000001.checkpoint"
    assert disk.fs.mode_of(path) == 0o444
    assert disk.snapshots.read(OffsetAndEpoch(5, 1), 3, 10) == CONTENT[3:13]


def test_a_dropped_part_leaves_nothing_and_the_next_one_begins_anew() -> None:
    disk = Disk(SimFilesystem(dice=SeededDice(0)))
    disk.start()
    at = OffsetAndEpoch(5, 1)
    disk.snapshots.write_part(at, 0, b"x" * 10)
    disk.snapshots.drop_part()
    assert disk.snapshots.take_part(at) is None
    assert not [
        name for name in disk.fs.list_dir("/data/__cluster_metadata-0") if "-fetched" in name
    ]
    fetch(disk, at)
    assert disk.snapshots.ids() == (at,)


def test_a_deleted_snapshot_is_unlinked_later_by_housekeeping() -> None:
    disk = Disk(SimFilesystem(dice=SeededDice(0)))
    disk.start()
    at = OffsetAndEpoch(5, 1)
    fetch(disk, at)
    disk.snapshots.delete(at)
    assert disk.log.log.deleted_files.due(T0) == []
    (path,) = disk.log.log.deleted_files.due(T0 + 60_000)
    assert path.endswith("00000000000000000005-0000000001.checkpoint.deleted")
