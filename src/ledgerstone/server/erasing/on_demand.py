"""Erasing before there is anything to erase: an agent that makes the real one when it is needed.

Grade D. Most brokers never erase a key, and the code that does is a tenth of a start. The agent
comes with the first of these: a journal or its mark at start, somebody who asks for it
(`Broker.erasing`), a scan that somebody wants. It takes this one's place then (`on_made`).
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from ledgerstone.clock import Clock, Dice
from ledgerstone.config.broker import BrokerConfig
from ledgerstone.dataclasses import dataclass
from ledgerstone.erasure.mark_slot import MARK_FILE
from ledgerstone.fs import join
from ledgerstone.metadata.delta import Delta
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.metadata.topic_names import ERASURES
from ledgerstone.replication.hosted_partitions import HostedPartitions
from ledgerstone.replication.leadership import LeadershipChanged
from ledgerstone.server.agent import Agent
from ledgerstone.server.cleaning.work import CleaningWork
from ledgerstone.server.effects import Effect
from ledgerstone.server.erasing.needs import Appends, AsksController, HostsTopics, UnlinksSoon
from ledgerstone.server.erasing.scans import Scans
from ledgerstone.server.groups.shards import HostedShards
from ledgerstone.server.results import Result
from ledgerstone.server.transactions.agent import Transactions
from ledgerstone.server.transactions.shards import TransactionShards
from ledgerstone.storage.log_dirs import LogDirs
from ledgerstone.types import TopicPartition

if TYPE_CHECKING:
    from ledgerstone.server.erasing.agent import Erasing


class FollowsJournal(Agent, Protocol):
    """What a broker tells the agent of erasures, made or not."""

    def partition_moved(self, tp: TopicPartition) -> None: ...

    def leadership_changed(self, event: LeadershipChanged) -> None: ...

    def journal_committed(self) -> None: ...


class ErasingTurn(Appends, HostsTopics, Protocol):
    """The broker, as far as erasing changes what happens in this turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasingParts:
    """What the agent is made of."""

    config: BrokerConfig
    clock: Clock
    dice: Dice
    log_dirs: LogDirs
    image: Callable[[], MetadataImage]  # the newest
    partitions: HostedPartitions
    controller: AsksController
    shards: HostedShards
    transactions: Transactions
    txn_shards: TransactionShards
    scans: Scans
    cleaning: CleaningWork
    unlinking: UnlinksSoon
    turn: ErasingTurn

    @property
    def has_journal(self) -> bool:
        """Whether there is something that only the agent can read: the topic, or its mark."""
        mark = join(self.log_dirs.metadata.path, MARK_FILE)
        return ERASURES in self.image().topics or self.log_dirs.fs.exists(mark)

    def make(self) -> "Erasing":
        from ledgerstone.server.erasing.agent import Erasing
        from ledgerstone.server.erasing.journal import ErasureJournal
        from ledgerstone.server.erasing.journal_topic import JournalTopic
        from ledgerstone.server.erasing.others import OtherBrokers
        from ledgerstone.server.transactions.ends import TransactionEnds

        factor = self.config.ledgerstone_erasures_topic_replication_factor
        home, turn = self.log_dirs.metadata, self.turn
        topic = JournalTopic(self.image, self.partitions, self.controller, turn, factor)
        return Erasing(
            config=self.config,
            clock=self.clock,
            dice=self.dice,
            log_dirs=self.log_dirs,
            image=self.image,
            partitions=self.partitions,
            cleaning=self.cleaning,
            offsets=self.shards,
            appends=turn,
            transactions=TransactionEnds(self.transactions, self.txn_shards),
            scans=self.scans,
            others=OtherBrokers(
                node_id=self.config.node_id,
                cluster_id=lambda: home.meta.cluster_id or "",
                image=self.image,
            ),
            journal=ErasureJournal(clock=self.clock, log_dir=home, topic=topic, appends=turn),
            unlinking=self.unlinking,
        )


class ErasingOnDemand:
    def __init__(self, parts: ErasingParts) -> None:
        self._parts = parts
        self._scans = parts.scans
        self._is_loaded = False
        self._made: Erasing | None = None
        # Names of the verifiers that are installed beside the broker.
        self.installed_verifiers: Callable[[], Sequence[str]] = tuple
        # Told of the agent; it has to be heard from then on.
        self.on_made: Callable[[Erasing], None] = lambda erasing: None

    @property
    def is_made(self) -> bool:
        return self._made is not None

    def agent(self) -> "Erasing":
        if self._made is None:
            self._made = made = self._parts.make()
            made.installed_verifiers = lambda: self.installed_verifiers()
            self.on_made(made)
            if self._is_loaded:
                made.load()
        return self._made

    def load(self) -> None:
        """Once the partitions are hosted."""
        self._is_loaded = True
        if self._made is not None:
            self._made.load()
        elif self._parts.has_journal:
            self.agent()

    def something_happened(self) -> None:
        if self._made is not None:
            self._made.something_happened()

    # -- as an agent --------------------------------------------------------------------------

    @property
    def next_deadline_ms(self) -> int | None:
        return 0 if self._scans.has_wanted else None

    def tick(self) -> list[Effect]:
        return self.agent().tick() if self._scans.has_wanted else []

    def completed(self, effect: Effect, result: Result) -> list[Effect]:
        """A pass or an unlinking ended: nobody waits for it. Its own effects come from the agent,
        which hears of them itself."""
        return []

    def metadata_changed(self, delta: Delta) -> list[Effect]:
        return []

    # -- what else it is told -----------------------------------------------------------------

    def partition_moved(self, tp: TopicPartition) -> None:
        """No tombstone waits to be committed."""

    def leadership_changed(self, event: LeadershipChanged) -> None:
        self.agent().leadership_changed(event)

    def journal_committed(self) -> None:
        self.agent().journal_committed()
