"""Each judge finds what it is there for, and leaves a right verdict alone."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ledgerstone.sim.attempts import SeenRange, TxnAttempt, TxnBook, WorkerInput
from ledgerstone.sim.decisions import (
    CoordinatorState,
    Fate,
    FatedRecord,
    GroupCommit,
    PartitionFates,
    TxnStatus,
)
from ledgerstone.sim.model import NodeModel
from ledgerstone.sim.node_clock import NodeClock
from ledgerstone.sim.txn_invariants import (
    Atomic,
    CoordinatorAgrees,
    ExactlyOnce,
    LedgerState,
    LogVerdict,
    PositionsAndOutputs,
    ReadersSeeDecisions,
)
from ledgerstone.sim.world import Violation, World
from ledgerstone.types import TopicPartition

IN, OUT = TopicPartition("input", 0), TopicPartition("output", 0)
OTHER, LEDGER = TopicPartition("output", 1), TopicPartition("ledger", 0)
PRODUCER = 7


class Case:
    """A book and a verdict, built by hand."""

    def __init__(self) -> None:
        world = World(0)
        shards = SimpleNamespace(are_loaded=lambda: False)
        node = SimpleNamespace(
            boot=1,
            clock=NodeClock(world),
            on_death=[],
            on_up=[],
            name="n0",
            broker=SimpleNamespace(shards=shards),
        )
        self.book = TxnBook(NodeModel(cast(Any, node), world, True, 0), 10**9)
        self.verdict = LogVerdict()

    def attempt(self, *, asked: bool = True) -> TxnAttempt:
        attempt = self.book.begin("t", "c")
        if asked:
            self.book.ask_commit(attempt)
        return attempt

    def plain(self, offset: int) -> WorkerInput:
        """An input that no transaction wrote."""
        serial = self.book.model.write(IN, b"k", b"v", "p")
        self._put(IN, offset, serial, Fate.COMMITTED)
        return WorkerInput(IN, offset, serial)

    def record(
        self,
        attempt: TxnAttempt,
        tp: TopicPartition,
        offset: int,
        fate: Fate | None,
        *,
        origin: WorkerInput | None = None,
        key: bytes = b"k",
        value: bytes | None = b"v",
    ) -> int:
        """Without a fate it was written and is in no log any more."""
        serial = self.book.write(attempt, tp, key, value, origin)
        self.book.model.learn(tp, offset, serial)
        if fate is not None:
            self._put(tp, offset, serial, fate, key, value)
            self.verdict.fates.setdefault(attempt.number, {})[fate] = None
        return serial

    def offsets(self, attempt: TxnAttempt, position: int, fate: Fate) -> None:
        attempt.offsets[IN] = position
        entry = FatedRecord(0, PRODUCER, 0, -1, b"", b"", fate)
        self.verdict.commits.append(GroupCommit("g", IN, position, str(attempt.number), entry))
        self.verdict.offset_fates.setdefault(attempt.number, {})[fate] = None

    def _put(
        self,
        tp: TopicPartition,
        offset: int,
        serial: int,
        fate: Fate,
        key: bytes = b"k",
        value: bytes | None = b"v",
    ) -> None:
        entry = FatedRecord(offset, PRODUCER, 0, serial, key, value, fate)
        decided = self.verdict.partitions.setdefault(tp, PartitionFates())
        decided.entries.append(entry)
        self.verdict.by_serial[serial] = entry
        if fate is Fate.OPEN:
            decided.open.setdefault(PRODUCER, offset)

    def fails(self, judge: Any, match: str) -> None:
        with pytest.raises(Violation, match=match) as found:
            judge.judge(self.book, self.verdict)
        assert found.value.checker == type(judge).__name__

    def passes(self, judge: Any) -> None:
        judge.judge(self.book, self.verdict)


@pytest.fixture
def case() -> Case:
    return Case()


# -- one transaction --------------------------------------------------------------------------


def test_markers_that_disagree_tear_a_transaction(case: Case) -> None:
    attempt = case.attempt()
    case.record(attempt, OUT, 0, Fate.COMMITTED)
    case.record(attempt, OTHER, 0, Fate.OPEN)
    case.passes(Atomic())
    case.record(attempt, OTHER, 1, Fate.ABORTED)
    case.fails(Atomic(), "torn")


def test_offsets_and_records_share_one_end(case: Case) -> None:
    attempt = case.attempt()
    case.record(attempt, OUT, 0, Fate.COMMITTED)
    case.offsets(attempt, 5, Fate.ABORTED)
    case.fails(Atomic(), "torn")


def test_nothing_is_committed_that_was_not_asked_for(case: Case) -> None:
    case.record(case.attempt(asked=False), OUT, 0, Fate.COMMITTED)
    case.fails(Atomic(), "nobody asked")


@pytest.mark.parametrize(
    ("told", "fate"), [("committed", Fate.ABORTED), ("aborted", Fate.COMMITTED)]
)
def test_logs_agree_with_what_a_client_was_told(case: Case, told: Any, fate: Fate) -> None:
    attempt = case.attempt()
    case.record(attempt, OUT, 0, fate)
    case.passes(Atomic())
    case.book.tell(attempt, told)
    case.fails(Atomic(), "was told")


def test_a_committed_record_is_there(case: Case) -> None:
    attempt = case.attempt()
    case.record(attempt, OUT, 0, None)
    case.book.tell(attempt, "committed")
    case.fails(Atomic(), "is not in")


def test_a_zombie_commits_nothing(case: Case) -> None:
    case.book.started("t", "c", PRODUCER, 0)
    case.book.model.world.run(10)
    case.book.started("t", "successor", PRODUCER, 1)
    case.book.model.world.run(20)
    case.record(case.attempt(), OUT, 0, Fate.COMMITTED)
    case.fails(Atomic(), "zombie")


# -- read, process, write ---------------------------------------------------------------------


def test_an_input_has_one_output(case: Case) -> None:
    origin = case.plain(0)
    case.record(case.attempt(), OUT, 0, Fate.ABORTED, origin=origin)
    case.record(case.attempt(), OUT, 1, Fate.COMMITTED, origin=origin)
    case.passes(ExactlyOnce())
    case.record(case.attempt(), OTHER, 0, Fate.COMMITTED, origin=origin)
    case.fails(ExactlyOnce(), "has outputs")


def test_an_output_is_not_made_from_what_was_aborted(case: Case) -> None:
    serial = case.record(case.attempt(), IN, 0, Fate.ABORTED)
    case.record(case.attempt(), OUT, 0, Fate.OPEN, origin=WorkerInput(IN, 0, serial))
    case.fails(ExactlyOnce(), "is not committed")


def test_a_position_covers_what_has_outputs(case: Case) -> None:
    attempt, first, second = case.attempt(), case.plain(0), case.plain(1)
    case.record(attempt, OUT, 0, Fate.COMMITTED, origin=first)
    case.offsets(attempt, 1, Fate.COMMITTED)
    case.passes(PositionsAndOutputs())
    later = case.attempt()
    case.record(later, OUT, 1, Fate.COMMITTED, origin=second)
    case.fails(PositionsAndOutputs(), "has an output")
    case.offsets(later, 2, Fate.OPEN)
    case.passes(PositionsAndOutputs())


def test_a_position_passes_nothing_without_output(case: Case) -> None:
    case.plain(0)
    case.offsets(case.attempt(), 1, Fate.COMMITTED)
    case.fails(PositionsAndOutputs(), "has no output")


# -- readers ----------------------------------------------------------------------------------


def read(case: Case, *serials: int, is_committed: bool = True) -> None:
    case.book.ranges = [SeenRange("r", OUT, 0, 10, is_committed, serials)]


def test_a_reader_is_given_no_aborted_record(case: Case) -> None:
    serial = case.record(case.attempt(), OUT, 0, Fate.ABORTED)
    read(case, serial)
    case.fails(ReadersSeeDecisions(), "which is aborted")


def test_a_reader_is_given_every_committed_record(case: Case) -> None:
    serial = case.record(case.attempt(), OUT, 0, Fate.COMMITTED)
    case.record(case.attempt(), OUT, 1, Fate.ABORTED)
    read(case, serial)
    case.passes(ReadersSeeDecisions())
    read(case)
    case.fails(ReadersSeeDecisions(), "was not given")


def test_a_reader_of_everything_is_given_aborted_records_too(case: Case) -> None:
    case.record(case.attempt(), OUT, 0, Fate.ABORTED)
    read(case, is_committed=False)
    case.fails(ReadersSeeDecisions(), "was not given")


# -- coordinator and compaction ---------------------------------------------------------------


def test_a_transaction_that_is_over_leaves_nothing_open(case: Case) -> None:
    case.record(case.attempt(), OUT, 0, Fate.OPEN)
    case.verdict.states["t"] = CoordinatorState(PRODUCER, 0, TxnStatus.PREPARE_COMMIT, (OUT,), 0)
    case.passes(CoordinatorAgrees())
    case.verdict.states["t"] = CoordinatorState(PRODUCER, 0, TxnStatus.COMPLETE_COMMIT, (OUT,), 0)
    case.fails(CoordinatorAgrees(), "is open")


def test_an_aborted_tombstone_deletes_nothing(case: Case) -> None:
    kept = case.attempt()
    case.record(kept, OUT, 0, Fate.COMMITTED)
    case.record(kept, LEDGER, 0, Fate.COMMITTED)
    case.record(case.attempt(), LEDGER, 1, Fate.ABORTED, value=None)
    case.passes(LedgerState())
    case.verdict.partitions[LEDGER].entries.clear()
    case.fails(LedgerState(), "is lost")


def test_a_committed_value_supersedes_the_one_before(case: Case) -> None:
    for offset in (0, 1):
        attempt = case.attempt()
        case.record(attempt, OUT, offset, Fate.COMMITTED)
        case.record(attempt, LEDGER, offset, Fate.COMMITTED)
    case.passes(LedgerState())
    del case.verdict.partitions[LEDGER].entries[1]
    case.fails(LedgerState(), "ends at 0, not at 1")
