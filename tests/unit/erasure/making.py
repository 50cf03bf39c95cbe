"""Builders for erasures and facts, and a world of a few partitions that drives them to the end."""

from dataclasses import dataclass, field
from typing import Any

from ledgerstone.erasure import changes
from ledgerstone.erasure.erasure import (
    Erasure,
    PartitionEnd,
    RecordCounts,
    RecordSpan,
    ReplicaScan,
    ScanOutcome,
    Stage,
    Tombstone,
)
from ledgerstone.erasure.facts import Facts, PartitionFacts, SearchOutcome
from ledgerstone.erasure.journal import ErasureBook, JournalRecord, record_of
from ledgerstone.erasure.key_print import PrintKey
from ledgerstone.erasure.life import next_step
from ledgerstone.erasure.receipt_issue import issue
from ledgerstone.erasure.request import ErasureRequest, new_erasure
from ledgerstone.erasure.steps import (
    Advance,
    Ask,
    AskVerifiers,
    Issue,
    Nothing,
    ScanStep,
    Search,
    Step,
    WaitStep,
    WriteTombstones,
)
from ledgerstone.erasure.verifiers import Word, evidence_from
from ledgerstone.sim.dice import SeededDice

T0 = 1_800_000_000_000
DAY_MS = 86_400_000
SALT = bytes(range(32))
PRINT_KEY = PrintKey.from_salt(SALT)
SEED = bytes([7]) * 32
KEY = b"alice@example.org"
TOPIC_ID = bytes(range(16))
_SEQUENCE = (
    Stage.SEARCHED, Stage.TOMBSTONED, Stage.STAMPED, Stage.REMOVED, Stage.UNLINKED, Stage.VERIFIED,
    Stage.RECEIPTED,
)  # fmt: skip


def requested(seed: int = 1, **given: Any) -> Erasure:
    fields: dict[str, Any] = {
        "topic": "customers",
        "topic_id": TOPIC_ID,
        "key": KEY,
        "reason": "ticket 4711",
        "requested_by": "clerk",
        "deadline_ms": T0 + 30 * DAY_MS,
    }
    request = ErasureRequest(**{**fields, **given})
    return new_erasure(request, print_key=PRINT_KEY, dice=SeededDice(seed), now_ms=T0)


def at_stage(stage: Stage, erasure: Erasure | None = None) -> Erasure:
    """An erasure that came this far, a minute for each stage; tombstones in 0 at 9 and 3 at 5."""
    erasure = erasure or requested()
    if stage is Stage.REQUESTED:
        return erasure
    for number, each in enumerate(_SEQUENCE, start=1):
        erasure = _moved_on(erasure, each, T0 + number * 60_000)
        if each is stage:
            break
    return erasure


def _moved_on(erasure: Erasure, stage: Stage, now_ms: int) -> Erasure:
    match stage:
        case Stage.SEARCHED:
            ends = [PartitionEnd(0, 9), PartitionEnd(1, 20), PartitionEnd(3, 5)]
            return changes.searched(erasure, targets=[3, 0], ends=ends, now_ms=now_ms)
        case Stage.TOMBSTONED:
            return changes.tombstoned(erasure, TOMBSTONES, now_ms=now_ms)
        case Stage.VERIFIED:
            return changes.verified(erasure, [scan()], recreated=(), elsewhere=(), now_ms=now_ms)
        case Stage.RECEIPTED:
            return changes.receipted(erasure, "the receipt", now_ms=now_ms)
        case _:
            step = {
                Stage.STAMPED: changes.stamped,
                Stage.REMOVED: changes.removed,
                Stage.UNLINKED: changes.unlinked,
            }[stage]
            return step(erasure, now_ms=now_ms)


TOMBSTONES = (Tombstone(0, 9, T0 + 100_000), Tombstone(3, 5, T0 + 100_000))


def scan(**given: Any) -> ReplicaScan:
    fields: dict[str, Any] = {
        "node_id": 1,
        "started_ms": T0 + 10 * 60_000,
        "ended_ms": T0 + 10 * 60_000 + 1000,
        "files": 12,
        "scanned_bytes": 3456,
        "digest": "ab" * 32,
        "counts": RecordCounts(),
    }
    return ReplicaScan(**{**fields, **given})


def partition(**given: Any) -> PartitionFacts:
    """One whose tombstone no pass has seen, and nothing keeps a pass from it."""
    fields = {"log_start_offset": 0, "first_dirty_offset": 0, "tombstone_is_there": True}
    return PartitionFacts(**{**fields, **given})


class Died(Exception):
    """The process is gone; only the logs and the journal are left."""


@dataclass(slots=True)
class Log:
    records: dict[int, str | None] = field(default_factory=dict)  # offset: None, or erasure id
    end: int = 0
    first_dirty: int = 0
    horizons: dict[int, int] = field(default_factory=dict)
    last_pass_ms: int | None = None
    leftovers: list[tuple[int, int]] = field(default_factory=list)  # since, goes at
    passes: int = 0
    waits_for: str | None = None

    def append(self, erasure_id: str | None) -> int:
        self.records[self.end] = erasure_id
        self.end += 1
        return self.end - 1


@dataclass(slots=True)
class World:
    """One topic that holds one key, its values and tombstones; a pass does what the cleaner does.

    `die_at` counts what leaves a mark outside of memory; the process dies after that one.
    """

    retention_ms: int = DAY_MS
    now_ms: int = T0
    logs: dict[int, Log] = field(default_factory=lambda: {number: Log() for number in range(4)})
    journal: list[JournalRecord] = field(default_factory=list)
    book: ErasureBook = field(default_factory=ErasureBook)
    searches: dict[str, SearchOutcome] = field(default_factory=dict)
    scans: dict[str, ReplicaScan] = field(default_factory=dict)
    marks: int = 0
    die_at: int | None = None
    is_deleted: bool = False

    def mark(self) -> None:
        self.marks += 1
        if self.marks == self.die_at:
            raise Died

    def restart(self) -> None:
        self.book, self.searches, self.scans, self.die_at = ErasureBook(), {}, {}, None
        for key, value in self.journal:
            self.book.replay(key, value)

    def keep(self, erasure: Erasure) -> None:
        record = record_of(erasure)
        self.journal.append(record)
        self.mark()
        self.book.replay(*record)

    def run(self, erasure_id: str, *, until: Stage | None = None) -> WaitStep | None:
        """To the end, or to what no clock can change, or until the stage is reached."""
        for _ in range(100):
            erasure = self.book.get(erasure_id)
            assert erasure is not None
            if erasure.stage is until:
                return None
            step = next_step(erasure, self.facts(erasure), now_ms=self.now_ms)
            if isinstance(step, Nothing):
                return None
            if isinstance(step, WaitStep):
                if step.until_ms is None:
                    return step
                assert step.until_ms > self.now_ms
                self.now_ms = step.until_ms
            else:
                self.perform(erasure, step)
        raise AssertionError(f"{erasure_id} does not come to an end")

    def perform(self, erasure: Erasure, step: Step) -> None:
        match step:
            case Advance():
                self.keep(step.erasure)
            case Search():
                self.searches[erasure.id] = self._search(erasure)
            case WriteTombstones():
                written = [self._write(erasure, number) for number in step.partitions]
                kept = [*step.present, *written]
                self.keep(changes.tombstoned(erasure, kept, now_ms=self.now_ms))
            case Ask():
                for number in step.partitions:
                    self.clean(number)
            case ScanStep():
                self.scans[erasure.id] = self._scan()
            case AskVerifiers():
                for name in step.names:
                    words = [Word("table", ScanOutcome.CLEAN, "0 rows")]
                    (evidence,) = evidence_from(name, words, now_ms=self.now_ms)
                    self.keep(changes.with_evidence(erasure, evidence, salt=SALT))
            case Issue():
                made = issue(erasure, cluster_id="c", signing_seed=SEED, now_ms=self.now_ms)
                self.keep(changes.receipted(erasure, made.decode(), now_ms=self.now_ms))
            case _:
                raise AssertionError(step)

    def facts(self, erasure: Erasure) -> Facts:
        return Facts(
            topic_exists=not self.is_deleted,
            partitions={each.partition: self._partition(each) for each in erasure.tombstones},
            search=self.searches.get(erasure.id),
            scans=[self.scans[erasure.id]] if erasure.id in self.scans else [],
            node_ids=[1],
            delete_retention_ms=self.retention_ms,
        )

    def clean(self, number: int) -> None:
        log = self.logs[number]
        log.passes += 1
        log.last_pass_ms = self.now_ms
        latest = max(log.records, default=None)
        kept = {}
        for offset, erasure_id in log.records.items():
            if offset != latest:
                continue
            horizon = log.horizons.get(offset)
            if erasure_id is None or horizon is None or self.now_ms < horizon:
                kept[offset] = erasure_id
                if erasure_id is not None:
                    log.horizons.setdefault(offset, self.now_ms + self.retention_ms)
        if kept != log.records:
            log.leftovers.append((self.now_ms, self.now_ms + 60_000))
        log.records, log.first_dirty = kept, log.end
        self.mark()

    def _search(self, erasure: Erasure) -> SearchOutcome:
        own = [
            Tombstone(number, offset, self.now_ms)
            for number, log in self.logs.items()
            for offset, erasure_id in log.records.items()
            if erasure_id == erasure.id
        ]
        ends = tuple(PartitionEnd(number, log.end) for number, log in self.logs.items())
        return SearchOutcome(
            home_partition=1, ends=ends, found=self._spans(), own_tombstones=tuple(own)
        )

    def _write(self, erasure: Erasure, number: int) -> Tombstone:
        offset = self.logs[number].append(erasure.id)
        self.mark()
        return Tombstone(number, offset, self.now_ms)

    def _scan(self) -> ReplicaScan:
        return scan(started_ms=self.now_ms, ended_ms=self.now_ms + 10, records=self._spans())

    def _spans(self) -> tuple[RecordSpan, ...]:
        return tuple(
            RecordSpan("customers", number, min(log.records), max(log.records), len(log.records))
            for number, log in self.logs.items()
            if log.records
        )

    def _partition(self, tombstone: Tombstone) -> PartitionFacts:
        log = self.logs[tombstone.partition]
        waiting = [(since, goes) for since, goes in log.leftovers if goes > self.now_ms]
        return PartitionFacts(
            log_start_offset=0,
            first_dirty_offset=log.first_dirty,
            tombstone_is_there=tombstone.offset in log.records,
            horizon_ms=log.horizons.get(tombstone.offset),
            last_pass_started_ms=log.last_pass_ms,
            waits_for=log.waits_for,
            leftovers_since_ms=min((since for since, _ in waiting), default=None),
            leftovers_go_at_ms=max((goes for _, goes in waiting), default=None),
        )
