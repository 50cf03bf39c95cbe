"""What must hold of transactions, whatever happened: logs against clients, and against each other.

`decisions` reads how every transaction ended out of the logs. The checkers compare that with what
clients asked for and were told (`attempts`), and with what the broker believes.
"""

from collections.abc import Iterator
from typing import NoReturn

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.errors import KafkaError, StorageError
from ledgerstone.sim.attempts import TxnAttempt, TxnBook
from ledgerstone.sim.decisions import (
    OFFSETS_TOPIC,
    STATE_TOPIC,
    CoordinatorState,
    Fate,
    FatedRecord,
    GroupCommit,
    PartitionFates,
    TxnStatus,
    commits_in,
    decided_in,
    states_in,
)
from ledgerstone.sim.invariants import Checker
from ledgerstone.sim.model import NodeModel
from ledgerstone.sim.world import Violation
from ledgerstone.types import TopicPartition

_DECIDED = (TxnStatus.EMPTY, TxnStatus.COMPLETE_COMMIT, TxnStatus.COMPLETE_ABORT)


@dataclass(slots=True)
class LogVerdict:
    """Everything the logs of one node say, at one moment."""

    partitions: dict[TopicPartition, PartitionFates] = field(default_factory=dict)
    by_serial: dict[int, FatedRecord] = field(default_factory=dict)
    # By attempt: how its records, and its offsets, ended.
    fates: dict[int, dict[Fate, None]] = field(default_factory=dict)
    offset_fates: dict[int, dict[Fate, None]] = field(default_factory=dict)
    commits: list[GroupCommit] = field(default_factory=list)
    states: dict[str, CoordinatorState] = field(default_factory=dict)

    def committed_position(self, group: str, tp: TopicPartition) -> int:
        """The last one in the log that is committed: the order of records decides."""
        position = -1
        for each in self.commits:
            is_of = (each.group, each.topic_partition) == (group, tp)
            if is_of and each.entry.fate is Fate.COMMITTED:
                position = each.position
        return position


def verdict_of(book: TxnBook) -> LogVerdict:
    broker = book.model.node.broker
    assert broker is not None
    verdict = LogVerdict()
    for partition in broker.partitions:
        tp = partition.topic_partition
        try:
            decided = verdict.partitions[tp] = decided_in(partition.log)
        except (KafkaError, StorageError) as error:
            raise Violation("LogsCanBeRead", f"{tp}: {error}") from error
        if tp.topic == OFFSETS_TOPIC:
            for commit in commits_in(decided):
                verdict.commits.append(commit)
                if commit.metadata:
                    fates = verdict.offset_fates.setdefault(int(commit.metadata), {})
                    fates[commit.entry.fate] = None
        elif tp.topic == STATE_TOPIC:
            verdict.states |= states_in(decided)
        else:
            for entry in decided.entries:
                verdict.by_serial[entry.serial] = entry
                attempt = book.by_serial.get(entry.serial)
                if attempt is not None:
                    verdict.fates.setdefault(attempt.number, {})[entry.fate] = None
    return verdict


class Judge:
    """Base of what is judged by a verdict. `fail` names the judge. Group `g` is the workers'."""

    def judge(self, book: TxnBook, verdict: LogVerdict) -> None:
        raise NotImplementedError

    def fail(self, detail: str) -> NoReturn:
        raise Violation(type(self).__name__, detail)


class LogCourt(Checker):
    """Reads the logs of a node once for all judges."""

    def __init__(self, books: dict[str, TxnBook]) -> None:
        self._books = books
        self._judges: list[Judge] = [
            StableToTheFirstOpen(),
            Atomic(),
            ExactlyOnce(),
            PositionsAndOutputs(),
            ReadersSeeDecisions(),
            CoordinatorAgrees(),
            LedgerState(),
        ]

    def look(self, model: NodeModel) -> None:
        book, broker = self._books[model.node.name], model.node.broker
        assert broker is not None
        if broker.partitions.offline:
            # The disk refused a log at the start; the next start judges it with the others.
            return
        verdict = verdict_of(book)
        for judge in self._judges:
            judge.judge(book, verdict)


class StableOffsets(Checker):
    """The last stable offset never goes back while a process lives."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, int, TopicPartition], int] = {}
        self._looked_at: dict[str, tuple[int, int]] = {}

    def step(self, model: NodeModel) -> None:
        broker = model.node.broker
        assert broker is not None
        # It moves with what is written, and nothing else is worth a look.
        now = (model.node.boot, model.node.fs.operation_count)
        if self._looked_at.get(model.node.name) == now:
            return
        self._looked_at[model.node.name] = now
        for partition in broker.partitions:
            place = (model.node.name, model.node.boot, partition.topic_partition)
            stable = partition.log.last_stable_offset
            before = self._last.get(place, 0)
            if stable != before:
                self._last[place] = stable
                if stable < before:
                    self.fail(f"{place}: {before} became {stable}")


class StableToTheFirstOpen(Judge):
    """The last stable offset is the first one that is open or not replicated: no more, no less."""

    def judge(self, book: TxnBook, verdict: LogVerdict) -> None:
        broker = book.model.node.broker
        assert broker is not None
        for partition in broker.partitions:
            log, tp = partition.log, partition.topic_partition
            decided = verdict.partitions[tp]
            if log.high_watermark < log.log_end_offset:
                # A marker that is not replicated has decided nothing yet.
                decided = decided_in(log, below=log.high_watermark)
            first_open = decided.first_open_offset
            stable = log.high_watermark if first_open is None else first_open
            if log.last_stable_offset != max(stable, log.log_start_offset):
                self.fail(f"{tp}: {log.last_stable_offset} is called stable, {stable} is")


class Atomic(Judge):
    """A transaction is committed everywhere or nowhere, as was asked for and as clients were told:
    its records, in all partitions, and its offsets."""

    def judge(self, book: TxnBook, verdict: LogVerdict) -> None:
        for attempt in book.attempts:
            fates = [*verdict.fates.get(attempt.number, {})]
            offsets = [*verdict.offset_fates.get(attempt.number, {})]
            self._check(book, attempt, {*fates, *offsets})
            if attempt.told == "committed":
                self._check_there(book, verdict, attempt)

    def _check(self, book: TxnBook, attempt: TxnAttempt, fates: set[Fate]) -> None:
        if Fate.COMMITTED in fates:
            if Fate.ABORTED in fates:
                self.fail(f"{attempt} is torn: committed here, aborted there")
            if attempt.commit_asked_ms is None:
                self.fail(f"{attempt} is committed and nobody asked for it")
            if attempt.told == "aborted":
                self.fail(f"{attempt} is committed, its client was told that it is aborted")
            replaced_ms = book.attempt_replaced_ms(attempt)
            if replaced_ms is not None and attempt.commit_asked_ms > replaced_ms:
                self.fail(
                    f"{attempt} is committed: asked for at {attempt.commit_asked_ms}, by a zombie "
                    f"since {replaced_ms}"
                )
        if attempt.told == "committed" and Fate.ABORTED in fates:
            self.fail(f"{attempt} is aborted, its client was told that it is committed")

    def _check_there(self, book: TxnBook, verdict: LogVerdict, attempt: TxnAttempt) -> None:
        for serial in attempt.serials:
            tp = book.model.written[serial].topic_partition
            if tp.topic != "ledger" and serial not in verdict.by_serial:
                self.fail(f"{attempt} is committed, its record {serial} is not in {tp}")


class ExactlyOnce(Judge):
    """Each input has at most one committed output, made from what was committed itself."""

    def judge(self, book: TxnBook, verdict: LogVerdict) -> None:
        outputs: dict[int, int] = {}
        for serial, entry in verdict.by_serial.items():
            origin = book.origins.get(serial)
            if origin is None:
                continue
            source = verdict.by_serial.get(origin)
            if source is None or source.fate is not Fate.COMMITTED:
                self.fail(f"record {serial} was made from {origin}, which is not committed")
            if entry.fate is Fate.COMMITTED:
                if origin in outputs:
                    self.fail(f"input {origin} has outputs {outputs[origin]} and {serial}")
                outputs[origin] = serial


class PositionsAndOutputs(Judge):
    """What a group's position covers has outputs, and the other way round; the broker's own table
    says what its log says."""

    def judge(self, book: TxnBook, verdict: LogVerdict) -> None:
        for tp, decided in verdict.partitions.items():
            if tp.topic == "input":
                self._check(book, verdict, tp, decided)

    def _check(
        self, book: TxnBook, verdict: LogVerdict, tp: TopicPartition, decided: PartitionFates
    ) -> None:
        broker = book.model.node.broker
        assert broker is not None
        position = verdict.committed_position("g", tp)
        if broker.shards.are_loaded():
            found = broker.shards.committed_on(tp.topic).get("g", {}).get(tp.partition)
            believed = -1 if found is None else found.offset
            if believed != position:
                self.fail(f"{tp}: the broker says {believed}, its log {position}")
        done = _done(book, verdict)
        for entry in decided.entries:
            if entry.fate is not Fate.COMMITTED:
                continue
            attempt = done.get(entry.serial)
            if entry.offset < position and attempt is None:
                self.fail(f"{tp} offset {entry.offset} is passed and has no output")
            if entry.offset >= position and attempt is not None:
                # In between: the marker of its offsets is on its way.
                offsets = verdict.offset_fates.get(attempt.number, {})
                if Fate.OPEN not in offsets:
                    self.fail(f"{tp} offset {entry.offset} has an output, {position} is committed")


def _done(book: TxnBook, verdict: LogVerdict) -> dict[int, TxnAttempt]:
    """Inputs by serial whose attempt is committed, in one place at least."""
    done = {}
    for attempt in book.attempts:
        fates = {
            *verdict.fates.get(attempt.number, {}),
            *verdict.offset_fates.get(attempt.number, {}),
        }
        if Fate.COMMITTED in fates:
            done.update({each.serial: attempt for each in attempt.inputs})
    return done


class ReadersSeeDecisions(Judge):
    """Between two positions a reader was given what is committed there, and nothing else."""

    def judge(self, book: TxnBook, verdict: LogVerdict) -> None:
        ranges, book.ranges = book.ranges, []
        for each in ranges:
            decided = verdict.partitions.get(each.topic_partition)
            if decided is None:
                continue
            where = f"{each.reader} in {each.topic_partition} [{each.start}, {each.end})"
            there = [e for e in decided.entries if each.start <= e.offset < each.end]
            if each.is_committed:
                self._check_fates(book, verdict, where, each.serials)
                there = [e for e in there if e.fate is Fate.COMMITTED]
            missing = [e.serial for e in there if e.serial not in each.serials]
            if missing:
                self.fail(f"{where} was not given {missing[:5]}")
            if len(set(each.serials)) != len(each.serials):
                self.fail(f"{where} was given a record twice")

    def _check_fates(
        self, book: TxnBook, verdict: LogVerdict, where: str, serials: tuple[int, ...]
    ) -> None:
        for serial in serials:
            attempt = book.by_serial.get(serial)
            entry = verdict.by_serial.get(serial)
            if attempt is None:
                continue
            if entry is not None and entry.fate is not Fate.COMMITTED:
                self.fail(f"{where} was given {serial}, which is {entry.fate.value}")
            if Fate.ABORTED in verdict.fates.get(attempt.number, {}):
                self.fail(f"{where} was given {serial} of {attempt}, which is aborted")


class CoordinatorAgrees(Judge):
    """Where the coordinator's log says that a transaction is over, nothing of it is open; where it
    says how it will end, no marker says otherwise."""

    def judge(self, book: TxnBook, verdict: LogVerdict) -> None:
        for name, found in verdict.states.items():
            for tp, fates in verdict.partitions.items():
                for marker in fates.markers:
                    if marker.producer_id == found.producer_id and marker.epoch > found.epoch:
                        self.fail(f"{tp} has a marker of {name} that its coordinator never decided")
            if found.state in _DECIDED:
                for tp, first in _open_of(verdict, found.producer_id):
                    self.fail(
                        f"{name} is {found.state.name}, {tp} is open from {first} "
                        f"(producer {found.producer_id})"
                    )


def _open_of(verdict: LogVerdict, producer_id: int) -> Iterator[tuple[TopicPartition, int]]:
    for tp, decided in verdict.partitions.items():
        if producer_id in decided.open:
            yield tp, decided.open[producer_id]


class LedgerState(Judge):
    """A compacted topic holds, for every key, the last record that was committed: an aborted one
    supersedes nothing, an aborted tombstone deletes nothing."""

    def judge(self, book: TxnBook, verdict: LogVerdict) -> None:
        for tp, decided in verdict.partitions.items():
            if tp.topic == "ledger":
                self._check(book, verdict, tp, decided)

    def _check(
        self, book: TxnBook, verdict: LogVerdict, tp: TopicPartition, decided: PartitionFates
    ) -> None:
        model = book.model
        latest: dict[bytes, int] = {}
        in_doubt: set[bytes] = set()
        facts = model.facts.get(tp, {})
        for offset in sorted(facts):
            serial = facts[offset]
            fates = verdict.fates.get(book.by_serial[serial].number, {})
            if Fate.COMMITTED in fates:
                latest[model.written[serial].key] = offset
                if Fate.OPEN in fates:
                    # The markers are on their way.
                    in_doubt.add(model.written[serial].key)
        in_log = {e.key: e for e in decided.entries if e.fate is Fate.COMMITTED}
        for key, offset in latest.items():
            entry = in_log.get(key)
            if key in in_doubt:
                continue
            if entry is None:
                self._check_gone(model, tp, key, facts[offset])
            elif entry.offset != offset:
                self.fail(f"{tp}: {key!r} ends at {entry.offset}, not at {offset}")

    def _check_gone(self, model: NodeModel, tp: TopicPartition, key: bytes, serial: int) -> None:
        written, clock = model.written[serial], model.node.clock
        if written.value is not None:
            self.fail(f"{tp}: {key!r} is lost, record {serial}")
        lived_ms = clock.highest_wall_ms(written.sent_ms) - clock.lowest_wall_ms(written.sent_ms)
        if lived_ms < model.delete_retention_ms:
            self.fail(f"{tp}: the tombstone {serial} of {key!r} went after {lived_ms} ms")
        model.world.mark("a committed tombstone was dropped in time")


class AtRest(Judge):
    """When nothing is under way: every transaction is over, every partition is stable to its end,
    every committed input has its output."""

    def judge(self, book: TxnBook, verdict: LogVerdict) -> None:
        left = unfinished(book, verdict)
        if left:
            self.fail("; ".join(left))


def unfinished(book: TxnBook, verdict: LogVerdict) -> list[str]:
    left = [
        f"{name} is {found.state.name}"
        for name, found in verdict.states.items()
        if found.state not in _DECIDED
    ]
    broker = book.model.node.broker
    assert broker is not None
    for partition in broker.partitions:
        log, tp = partition.log, partition.topic_partition
        if log.last_stable_offset != log.log_end_offset:
            left.append(f"{tp} is stable to {log.last_stable_offset}, ends at {log.log_end_offset}")
    done = {
        book.origins[serial]
        for serial, entry in verdict.by_serial.items()
        if serial in book.origins and entry.fate is Fate.COMMITTED
    }
    for tp, decided in verdict.partitions.items():
        if tp.topic == "input":
            left += [
                f"{tp} offset {entry.offset} has no output"
                for entry in decided.entries
                if entry.fate is Fate.COMMITTED and entry.serial not in done
            ]
    return left
