"""Cleaning as an agent of its own: one log, a clock and stand-ins for its needs, no broker."""

from collections.abc import Iterator, Mapping

import pytest

from ledgerstone.cleaner.open_txn import TxnOwner
from ledgerstone.cleaner.planning import CleanerSettings
from ledgerstone.cleaner.worker import clean
from ledgerstone.coordinator.offsets import CommittedOffset
from ledgerstone.metadata.delta import Delta, PartitionDelta
from ledgerstone.metadata.image import PartitionImage
from ledgerstone.replication.partition import Partition
from ledgerstone.server.agent import Agent
from ledgerstone.server.cleaning.agent import Cleaning
from ledgerstone.server.cleaning.files import CleaningFiles
from ledgerstone.server.effects import Analyse, Clean, Effect, Flush, Proceed, SyncSwap
from ledgerstone.server.housekeeping.disk_watch import DiskWatch
from ledgerstone.server.housekeeping.flushes import Flushes
from ledgerstone.server.housekeeping.retention import Retention
from ledgerstone.server.results import Done, GroupCleaned
from ledgerstone.server.tombstones.holds import TombstoneHolds
from ledgerstone.sim.clock import VirtualClock
from ledgerstone.sim.dice import SeededDice
from ledgerstone.sim.filesystem import SimFilesystem
from ledgerstone.state.anatomy_plan import AnatomyPlan
from ledgerstone.storage.log_config import LogConfig
from ledgerstone.storage.log_dir import open_log_dir
from ledgerstone.storage.log_dirs import LogDirs
from ledgerstone.types import TopicPartition
from tests.kit.logs import T0, batch
from tests.kit.roles import led_by

TP = TopicPartition("table", 0)


class OneLog:
    """The only partition there is."""

    offline: Mapping[TopicPartition, str] = {}

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.is_here = True

    def __iter__(self) -> Iterator[Partition]:
        return iter([self.partition] if self.is_here else [])

    def get(self, topic_partition: TopicPartition) -> Partition:
        assert topic_partition == TP
        return self.partition

    def take_removed(self) -> list[TopicPartition]:
        return [] if self.is_here else [TP]

    def find(self, topic_partition: TopicPartition) -> Partition | None:
        return self.partition if topic_partition == TP and self.is_here else None


class NoGroups:
    def committed_on(self, topic: str) -> Mapping[str, Mapping[int, CommittedOffset]]:
        return {}

    def are_known(self) -> bool:
        return True

    def knows(self, group_id: str) -> bool:
        return True


class NoCoordinators:
    def owner_of(self, producer_id: int) -> TxnOwner | None:
        return None


class Alone:
    def __init__(self, *, is_loaded: bool = True) -> None:
        self.clock, self.dice = VirtualClock(start_ms=T0), SeededDice(1)
        self.fs = SimFilesystem(dice=self.dice, clock=self.clock)
        log_dir = open_log_dir(self.fs, self.clock, self.dice, "/data")
        log = log_dir.create(TP, LogConfig(cleanup_policy=("compact",)))
        self.partition = Partition(log=log, topic_id=bytes(16), node_id=1)
        self.partition.assume(led_by(1, 0, (1,)))
        disk = DiskWatch()
        self.flushes = Flushes()
        self.hosted = OneLog(self.partition)
        self.cleaning = Cleaning(
            clock=self.clock,
            log_dirs=LogDirs.single(log_dir),
            partitions=self.hosted,
            holds=TombstoneHolds(NoGroups()),
            txn_owners=NoCoordinators(),
            settings=CleanerSettings.from_values({}),
            read_settings=lambda: CleanerSettings.from_values({}),
            files=CleaningFiles.open(self.fs, log_dir.path),
            disk=disk,
            flushes=self.flushes,
            retention=Retention(self.clock, disk),
        )
        if is_loaded:
            self.cleaning.load()

    def put(self, *pairs: tuple[str, str | None]) -> None:
        for pair in pairs:
            self.partition.append(batch(pair, timestamp=self.clock.now_ms()), acks=-1)

    def perform(self, effects: list[Effect]) -> list[str]:
        """Does what cleaning asks for, at once; returns the kinds in order."""
        kinds: list[str] = []
        for effect in effects:
            kinds.append(type(effect).__name__)
            match effect:
                case Clean():
                    kinds += self._clean(effect)
                case Flush(tp, _, plan):
                    self.partition.log.flush_done(plan)
                    self.flushes.ended(tp)
                    kinds += self.perform(self.cleaning.completed(effect, Done()))
                case SyncSwap():
                    kinds += self.perform(self.cleaning.completed(effect, Done()))
                case Proceed(_, go_on):
                    assert go_on
                case _:
                    raise AssertionError(effect)
        return kinds

    def _clean(self, effect: Clean) -> list[str]:
        kinds: list[str] = []
        report = clean(
            self.fs,
            effect.plan,
            dice=self.dice,
            on_group=lambda group: kinds.extend(
                self.perform(self.cleaning.completed(effect, GroupCleaned(group)))
            ),
            should_abort=lambda: False,
        )
        assert not isinstance(report, str), report
        return kinds + self.perform(self.cleaning.completed(effect, report))


@pytest.fixture
def alone() -> Alone:
    return Alone()


def test_pass_runs_from_its_request_to_the_swap_without_a_broker(alone: Alone) -> None:
    agent: Agent = alone.cleaning
    alone.put(("a", "1"), ("b", "1"), ("a", "2"))

    ticket = alone.cleaning.ask(TP)
    due_ms = agent.next_deadline_ms
    kinds = alone.perform(agent.tick())

    assert due_ms == 0
    assert kinds == ["Clean", "Flush", "SyncSwap", "Proceed"]
    assert ticket.run is not None
    assert ticket.run.outcome == "cleaned"
    assert (ticket.run.stats.records_read, ticket.run.stats.records_kept) == (3, 2)
    assert not alone.cleaning.is_busy(TP)
    alone.cleaning.check_invariants()


def test_no_pass_begins_before_all_logs_are_opened() -> None:
    """A node of a cluster opens them one by one, and ticks in between."""
    alone = Alone(is_loaded=False)
    alone.put(("a", "1"), ("a", "2"))
    alone.cleaning.ask(TP)
    assert alone.cleaning.tick() == []

    alone.cleaning.load()
    alone.cleaning.look_now()

    assert alone.perform(alone.cleaning.tick())[0] == "Clean"


def test_result_of_an_effect_that_cleaning_never_asks_for_is_a_fault(alone: Alone) -> None:
    plan = AnatomyPlan(topic_partition=TP, directory="/data/table-0", segments=(), end_offset=0)

    with pytest.raises(AssertionError, match="asked for no Analyse"):
        alone.cleaning.completed(Analyse(1, plan), Done())


def moved(before: PartitionImage, after: PartitionImage) -> Delta:
    return Delta(partitions_changed=(PartitionDelta(TP.topic, bytes(16), 0, before, after),))


def test_nothing_is_believed_of_a_replica_that_left_and_came_back(alone: Alone) -> None:
    here, away = led_by(1, 0, (1,)), led_by(2, 1, (2,))
    alone.put(("a", "1"), ("a", "2"))
    alone.cleaning.ask(TP)
    alone.perform(alone.cleaning.tick())
    assert alone.cleaning.files.first_dirty_offsets == {TP: 2}

    alone.hosted.is_here = False
    alone.cleaning.metadata_changed(moved(here, away))

    assert alone.cleaning.files.first_dirty_offsets == {}
    assert TP not in alone.cleaning.pending
    alone.hosted.is_here = True
    alone.cleaning.metadata_changed(moved(away, led_by(1, 2, (1,))))
    assert TP in alone.cleaning.pending


def test_change_of_the_in_sync_set_forgets_nothing(alone: Alone) -> None:
    alone.put(("a", "1"), ("a", "2"))
    alone.cleaning.ask(TP)
    alone.perform(alone.cleaning.tick())

    alone.cleaning.metadata_changed(moved(led_by(1, 0, (1,)), led_by(1, 0, (1, 2))))

    assert alone.cleaning.files.first_dirty_offsets == {TP: 2}
