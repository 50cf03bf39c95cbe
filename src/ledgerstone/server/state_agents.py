"""Builds the agents that keep their state in logs of their own: groups, transactions, erasing.

Grade D.

They come after the agents of the logs: cleaning has to know of their tombstones.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from ledgerstone.clock import Clock, Dice
from ledgerstone.config.broker import BrokerConfig
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.replication.hosted_partitions import HostedPartitions
from ledgerstone.server.cleaning.work import CleaningWork
from ledgerstone.server.controller_link import ControllerLink
from ledgerstone.server.erasing.agent import Erasing
from ledgerstone.server.erasing.journal import ErasureJournal
from ledgerstone.server.erasing.journal_topic import JournalTopic
from ledgerstone.server.erasing.needs import UnlinksSoon
from ledgerstone.server.erasing.others import OtherBrokers
from ledgerstone.server.erasing.scans import Scans
from ledgerstone.server.groups.agent import Groups
from ledgerstone.server.groups.needs import Answers, Appends, DiskTrouble, HostsTopics
from ledgerstone.server.groups.shards import HostedShards
from ledgerstone.server.markers import MarkerTurn, PartitionMarkers
from ledgerstone.server.transactions.agent import Transactions
from ledgerstone.server.transactions.ends import TransactionEnds
from ledgerstone.server.transactions.needs import DrawsProducerIds
from ledgerstone.server.transactions.settling import Settling
from ledgerstone.server.transactions.shards import TransactionShards
from ledgerstone.server.transactions.topic import TransactionTopic
from ledgerstone.server.verification import TxnVerification
from ledgerstone.storage.log_dirs import LogDirs


class AgentTurn(Answers, Appends, HostsTopics, MarkerTurn, Protocol):
    """The broker, as far as its agents change what happens in this turn."""


class StateAgents(NamedTuple):
    groups: Groups
    markers: PartitionMarkers
    transactions: Transactions
    verification: TxnVerification
    erasing: Erasing


def build_state_agents(
    *,
    config: BrokerConfig,
    clock: Clock,
    dice: Dice,
    log_dirs: LogDirs,
    image: Callable[[], MetadataImage],
    partitions: HostedPartitions,
    controller: ControllerLink,
    producer_ids: DrawsProducerIds,
    shards: HostedShards,
    txn_shards: TransactionShards,
    scans: Scans,
    cleaning: CleaningWork,
    disk: DiskTrouble,
    unlinking: UnlinksSoon,
    turn: AgentTurn,
) -> StateAgents:
    groups = Groups(
        config=config,
        clock=clock,
        dice=dice,
        image=image,
        partitions=partitions,
        controller=controller,
        shards=shards,
        cleaning=cleaning,
        disk=disk,
        answers=turn,
        appends=turn,
        topics=turn,
    )
    markers = PartitionMarkers(clock=clock, partitions=partitions, groups=groups, turn=turn)
    transactions = Transactions(
        config=config,
        clock=clock,
        image=image,
        partitions=partitions,
        topic=TransactionTopic(config, image, partitions, controller),
        producer_ids=producer_ids,
        settling=Settling(
            clock=clock,
            image=image,
            shards=txn_shards,
            cleaning=cleaning,
            disk=disk,
            appends=turn,
            markers=markers,
        ),
        disk=disk,
    )
    verification = TxnVerification(config, clock, partitions, transactions)
    erasing = _erasing(
        config=config,
        clock=clock,
        dice=dice,
        log_dirs=log_dirs,
        image=image,
        partitions=partitions,
        controller=controller,
        shards=shards,
        transactions=TransactionEnds(transactions, txn_shards),
        scans=scans,
        cleaning=cleaning,
        unlinking=unlinking,
        turn=turn,
    )
    return StateAgents(groups, markers, transactions, verification, erasing)


def _erasing(
    *,
    config: BrokerConfig,
    clock: Clock,
    dice: Dice,
    log_dirs: LogDirs,
    image: Callable[[], MetadataImage],
    partitions: HostedPartitions,
    controller: ControllerLink,
    shards: HostedShards,
    transactions: TransactionEnds,
    scans: Scans,
    cleaning: CleaningWork,
    unlinking: UnlinksSoon,
    turn: AgentTurn,
) -> Erasing:
    factor = config.ledgerstone_erasures_topic_replication_factor
    topic = JournalTopic(image, partitions, controller, turn, factor)
    return Erasing(
        config=config,
        clock=clock,
        dice=dice,
        log_dirs=log_dirs,
        image=image,
        partitions=partitions,
        cleaning=cleaning,
        offsets=shards,
        appends=turn,
        transactions=transactions,
        scans=scans,
        others=OtherBrokers(
            node_id=config.node_id,
            cluster_id=lambda: log_dirs.metadata.meta.cluster_id or "",
            image=image,
        ),
        journal=ErasureJournal(clock=clock, log_dir=log_dirs.metadata, topic=topic, appends=turn),
        unlinking=unlinking,
    )
