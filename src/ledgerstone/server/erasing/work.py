"""What is known and under way of erasures, and how a successor is written down. Grade D.

`agent` moves it on, `sweep` looks at all of them, `requests` takes what users ask for, `steps` and
`receipts` take the steps, `view` shows it. Nothing is kept in memory that a restart could not find
out again: the journal has the stages, the logs have the rest. No key in clear is held longer than a
call.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from ledgerstone.clock import Clock, Dice
from ledgerstone.config.broker import BrokerConfig
from ledgerstone.dataclasses import dataclass, field, replace
from ledgerstone.erasure import changes
from ledgerstone.erasure.erasure import Erasure, HostDisk, ReplicaScan, Stage
from ledgerstone.erasure.facts import SearchOutcome
from ledgerstone.erasure.forecast import Forecast
from ledgerstone.erasure.hosting import awaited_replicas
from ledgerstone.erasure.secrets_file import SECRETS_FILE, Secrets
from ledgerstone.errors import KafkaError, LogStorageError, StorageError
from ledgerstone.fs import join
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.replication.hosted_partitions import HostedPartitions
from ledgerstone.server.cleaning.parts import PassTicket
from ledgerstone.server.cleaning.work import CleaningWork
from ledgerstone.server.effects import AskVerifier
from ledgerstone.server.erasing.facts import Look, TombstoneSights
from ledgerstone.server.erasing.groups import GroupWatch
from ledgerstone.server.erasing.jobs import HostJobs, RemoteJobs
from ledgerstone.server.erasing.journal import ErasureJournal
from ledgerstone.server.erasing.journal_topic import JOURNAL
from ledgerstone.server.erasing.needs import Appends, EndsTransactions, GroupOffsets, OwnOffsets
from ledgerstone.server.erasing.others import OtherBrokers
from ledgerstone.server.erasing.scans import Scans, SearchTickets
from ledgerstone.server.erasing.survey import Survey, SurveyedOffsets
from ledgerstone.server.erasing.writing import TombstoneWriter
from ledgerstone.server.movable_clock import MovableClock
from ledgerstone.storage.log_dirs import LogDirs
from ledgerstone.types import TopicPartition
from ledgerstone.uuid_text import uuid_to_text

_LOG: Final = logging.getLogger(__name__)
DISK_REFUSED: Final = (OSError, StorageError, KafkaError)


class NotYet(Exception):
    """The journal, its replicas or the secrets are not there yet; the same is tried again."""


class LedElsewhere(NotYet):
    """Another broker leads the journal by now; nothing was written here."""


class Outlook(NamedTuple):
    """What an erasure waits for, and when it will be done, as of the last look."""

    waits_for: str | None
    until_ms: int | None
    forecast: Forecast

    @property
    def reason(self) -> str:
        """Why it may be late."""
        return self.forecast.because or self.waits_for or "the work itself takes too long"


@dataclass(slots=True, kw_only=True)
class ErasingWork:
    config: BrokerConfig
    clock: Clock
    dice: Dice
    log_dirs: LogDirs
    image: Callable[[], MetadataImage]  # the newest
    partitions: HostedPartitions
    cleaning: CleaningWork
    offsets: OwnOffsets
    appends: Appends
    transactions: EndsTransactions
    scans: Scans
    journal: ErasureJournal
    others: OtherBrokers
    survey: Survey | None = None  # what the other brokers said last
    jobs: RemoteJobs = field(init=False)
    host_jobs: HostJobs = field(init=False)
    writer: TombstoneWriter = field(init=False)
    # Names of the verifiers that are installed beside the broker.
    installed_verifiers: Callable[[], Sequence[str]] = tuple
    tickets: SearchTickets = field(default_factory=SearchTickets)
    secrets: Secrets | None = None
    trouble: str | None = None  # why nothing can be done for any erasure
    is_elsewhere: bool = False  # another broker leads the journal, and does the work
    outlooks: dict[str, Outlook] = field(default_factory=dict)
    # Since when each was seen to wait for what has no end that is known; wall time.
    blocked_since: dict[str, int] = field(default_factory=dict)
    # Since start: what searches and scans found, what is under way, what went wrong.
    searches: dict[str, SearchOutcome] = field(default_factory=dict)
    replica_scans: dict[str, dict[int, ReplicaScan]] = field(default_factory=dict)  # by broker
    in_flight: dict[str, str] = field(default_factory=dict)
    searching: dict[str, None] = field(default_factory=dict)  # topics
    scanning: dict[int, None] = field(default_factory=dict)  # brokers
    scans_left: dict[str, dict[int, None]] = field(default_factory=dict)  # by erasure: brokers
    # Counts how often the journal came and went: what was begun before is not heard any more.
    era: int = 0
    asked: dict[TopicPartition, tuple[int, PassTicket]] = field(default_factory=dict)
    # By producer and first offset: transactions somebody was asked to abort, and when; wall time.
    aborting: dict[tuple[int, int], int] = field(default_factory=dict)
    verifier_rests: dict[tuple[str, str], int] = field(default_factory=dict)  # until, wall time
    to_ask: list[AskVerifier] = field(default_factory=list)
    refusals: dict[tuple[str, str], str] = field(default_factory=dict)  # by erasure and verifier
    watch: GroupWatch = field(default_factory=GroupWatch)
    # The last alarm that was logged for each erasure whose deadline is missed, or will be.
    alarmed: dict[str, str] = field(default_factory=dict)
    # When all erasures are looked at next, in monotonic time.
    due_ms: int | None = None
    # The journal is led here and not read yet, or nobody knows yet who leads it: why.
    loads: str | None = "this broker is starting"
    # Something happened since the sweep began.
    is_stale: bool = False
    _sights: TombstoneSights = field(default_factory=TombstoneSights)

    def __post_init__(self) -> None:
        self.jobs = RemoteJobs(self.clock, self.others)
        self.host_jobs = HostJobs(self.clock)
        self.writer = TombstoneWriter(
            clock=self.clock,
            partitions=self.partitions,
            cleaning=self.cleaning,
            appends=self.appends,
        )

    # -- looking ------------------------------------------------------------------------------

    def look(self) -> Look:
        """At the logs, as they are now."""
        return Look(
            clock=self.clock,
            log_dirs=self.log_dirs,
            partitions=self.partitions,
            cleaning=self.cleaning,
            offsets=self._offsets(),
            sights=self._sights,
            asked=self.asked,
            aborting=self.aborting,
            is_alone=self.is_alone,
        )

    @property
    def is_alone(self) -> bool:
        """Nobody else has files: the logs here say everything."""
        return not self.others.ids

    def awaited(self, erasure: Erasure, replicas: Sequence[int]) -> list[int]:
        """Replicas whose word counts: all, but for brokers that an operator gave up."""
        lost = [each.broker_id for each in erasure.lost_brokers]
        return awaited_replicas(replicas, lost, self.others.alive) if lost else list(replicas)

    def _offsets(self) -> GroupOffsets:
        if self.is_alone:
            return self.offsets
        return SurveyedOffsets(self.survey, self.image)

    def look_now(self) -> None:
        self.due_ms = 0
        self.is_stale = True

    def check_is_loaded(self) -> None:
        if self.loads is not None:
            raise NotYet(self.loads)
        if self.is_elsewhere and self.others.links is not None:
            raise LedElsewhere(self.trouble)

    def check_journal_is_known(self) -> None:
        """Whoever has the id of an erasure has it from a journal. A broker of a cluster that knows
        of none has not heard of it yet, or is cut off: that there is no erasure is not its word."""
        if self.others.links is not None and self.image().partition(*JOURNAL) is None:
            raise NotYet("this broker has not heard of any journal of erasures")

    def forget_work(self) -> None:
        """The journal is elsewhere: whoever leads it finds out everything anew."""
        self.era += 1
        self.jobs.forget()
        self.survey = None
        for known in (
            self.searches, self.replica_scans, self.in_flight, self.searching, self.scanning,
            self.scans_left, self.aborting, self.outlooks, self.blocked_since, self.alarmed,
        ):  # fmt: skip
            known.clear()

    def something_happened(self) -> None:
        """A pass ended, metadata or the clock changed: it may be what an erasure waits for."""
        if self.journal.unfinished:
            self.look_now()

    # -- writing down -------------------------------------------------------------------------

    @property
    def keys_path(self) -> str:
        named = self.config.raw.get("ledgerstone.erasure.keys.file")
        return named or join(self.log_dirs.metadata.path, SECRETS_FILE)

    def named_secrets(self) -> Secrets:
        """Invariant: nothing is signed or printed with secrets that the committed journal does not
        name, since another leader may have made others meanwhile."""
        # Imported where it is needed: a broker that erases nothing does without cryptography.
        from ledgerstone.erasure.sealing import public_key_of

        assert self.secrets is not None, "erasures without secrets"
        public_key = public_key_of(self.secrets.signing_seed)
        if self.journal.secrets_name is None:
            # ChangeInFlight until it is committed.
            self.journal.name_secrets(public_key)
        if self.journal.secrets_name != public_key.hex():
            raise LogStorageError(
                f"the journal names the secrets {self.journal.secrets_name}, not {public_key.hex()}"
            )
        return self.secrets

    def keep(self, erasures: Sequence[Erasure]) -> None:
        """Writes successors down; from then on they are true."""
        if not erasures:
            return
        disks = self.disks()
        self.journal.append(
            [
                changes.with_hosts(self.on_this_clock(self.watch.remembered(each)), disks)
                for each in erasures
            ]
        )

    def disks(self) -> list[HostDisk]:
        """Of every broker that is registered."""
        return [
            HostDisk(broker.broker_id, uuid_to_text(each))
            for broker in self.image().brokers.values()
            for each in broker.log_dirs
        ]

    def became(self, erasure: Erasure) -> None:
        """A change is committed."""
        self.look_now()
        _LOG.info("erasure id=%s topic=%s stage=%s", erasure.id, erasure.topic, erasure.stage.value)
        if erasure.stage is Stage.TOMBSTONED:
            self.searches.pop(erasure.id, None)
        elif erasure.is_over:
            self._forget(erasure)

    def on_this_clock(self, erasure: Erasure) -> Erasure:
        """Marks erasures made on a clock that can be set by hand, for good."""
        if not isinstance(self.clock, MovableClock):
            return erasure
        return replace(erasure, on_virtual_clock=True)

    def _forget(self, erasure: Erasure) -> None:
        for name in erasure.awaited_verifiers:
            self.verifier_rests.pop((erasure.id, name), None)
            self.refusals.pop((erasure.id, name), None)
        self.watch.forget(erasure.id)
        self.searches.pop(erasure.id, None)
        self.scans_left.pop(erasure.id, None)
        self.replica_scans.pop(erasure.id, None)
        self.in_flight.pop(erasure.id, None)
        self._sights.forget(erasure.topic, erasure.tombstones)
        self.alarmed.pop(erasure.id, None)
        self.blocked_since.pop(erasure.id, None)
        self.outlooks.pop(erasure.id, None)
