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
from ledgerstone.erasure.erasure import Erasure, ReplicaScan, Stage
from ledgerstone.erasure.facts import SearchOutcome
from ledgerstone.erasure.forecast import Forecast
from ledgerstone.erasure.secrets_file import SECRETS_FILE, Secrets
from ledgerstone.errors import KafkaError, StorageError
from ledgerstone.fs import join
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.replication.hosted_partitions import HostedPartitions
from ledgerstone.server.cleaning.parts import PassTicket
from ledgerstone.server.cleaning.work import CleaningWork
from ledgerstone.server.effects import AskVerifier
from ledgerstone.server.erasing.facts import Look, TombstoneSights
from ledgerstone.server.erasing.groups import GroupWatch
from ledgerstone.server.erasing.journal import ErasureJournal
from ledgerstone.server.erasing.needs import Appends, EndsTransactions, GroupOffsets
from ledgerstone.server.erasing.scans import Scans, SearchTickets
from ledgerstone.server.movable_clock import MovableClock
from ledgerstone.storage.log_dirs import LogDirs
from ledgerstone.types import TopicPartition

_LOG: Final = logging.getLogger(__name__)
DISK_REFUSED: Final = (OSError, StorageError, KafkaError)


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
    offsets: GroupOffsets
    appends: Appends
    transactions: EndsTransactions
    scans: Scans
    journal: ErasureJournal
    # Names of the verifiers that are installed beside the broker.
    installed_verifiers: Callable[[], Sequence[str]] = tuple
    tickets: SearchTickets = field(default_factory=SearchTickets)
    secrets: Secrets | None = None
    trouble: str | None = None  # why nothing can be done for any erasure
    outlooks: dict[str, Outlook] = field(default_factory=dict)
    # Since when each was seen to wait for what has no end that is known; wall time.
    blocked_since: dict[str, int] = field(default_factory=dict)
    # Since start: what searches and scans found, what is under way, what went wrong.
    searches: dict[str, SearchOutcome] = field(default_factory=dict)
    replica_scans: dict[str, ReplicaScan] = field(default_factory=dict)
    in_flight: dict[str, str] = field(default_factory=dict)
    searching: dict[str, None] = field(default_factory=dict)  # topics
    is_scanning: bool = False
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
    # Something happened since the sweep began.
    is_stale: bool = False
    _sights: TombstoneSights = field(default_factory=TombstoneSights)

    # -- looking ------------------------------------------------------------------------------

    def look(self) -> Look:
        """At the logs, as they are now."""
        return Look(
            clock=self.clock,
            log_dirs=self.log_dirs,
            partitions=self.partitions,
            cleaning=self.cleaning,
            offsets=self.offsets,
            sights=self._sights,
            asked=self.asked,
            aborting=self.aborting,
        )

    @property
    def why_not_alone(self) -> str | None:
        """A receipt speaks of every replica, and a broker can scan only its own files yet."""
        others = sorted(self.image().brokers.keys() - {self.config.node_id})
        if not others:
            return None
        names = ", ".join(map(str, others))
        return (
            f"this cluster has other brokers ({names}), whose files cannot be searched from here "
            "yet: an erasure would prove nothing about them"
        )

    def look_now(self) -> None:
        self.due_ms = 0
        self.is_stale = True

    def something_happened(self) -> None:
        """A pass ended, metadata or the clock changed: it may be what an erasure waits for."""
        if self.journal.unfinished:
            self.look_now()

    # -- writing down -------------------------------------------------------------------------

    @property
    def keys_path(self) -> str:
        named = self.config.raw.get("ledgerstone.erasure.keys.file")
        return named or join(self.log_dirs.metadata.path, SECRETS_FILE)

    def keep(self, erasures: Sequence[Erasure]) -> None:
        """Writes successors down; from then on they are true."""
        if not erasures:
            return
        erasures = [self.on_this_clock(self.watch.remembered(each)) for each in erasures]
        self.journal.append(erasures)
        self.look_now()
        for each in erasures:
            _LOG.info("erasure id=%s topic=%s stage=%s", each.id, each.topic, each.stage.value)
            if each.stage is Stage.TOMBSTONED:
                self.searches.pop(each.id, None)
            elif each.is_over:
                self._forget(each)

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
        self.replica_scans.pop(erasure.id, None)
        self.in_flight.pop(erasure.id, None)
        self._sights.forget(erasure.topic, erasure.tombstones)
        self.alarmed.pop(erasure.id, None)
        self.blocked_since.pop(erasure.id, None)
        self.outlooks.pop(erasure.id, None)
