"""Builds the agents that keep their state in logs of their own: groups, transactions, erasing.

Grade D.

They come after the agents of the logs: cleaning has to know of their tombstones. Erasing is made
when it is needed.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from ledgerstone.clock import Clock, Dice
from ledgerstone.config.broker import BrokerConfig
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.replication.hosted_partitions import HostedPartitions
from ledgerstone.server.cleaning.work import CleaningWork
from ledgerstone.server.controller_link import ControllerLink
from ledgerstone.server.erasing.needs import UnlinksSoon
from ledgerstone.server.erasing.on_demand import ErasingOnDemand, ErasingParts
from ledgerstone.server.erasing.scans import Scans
from ledgerstone.server.groups.agent import Groups
from ledgerstone.server.groups.needs import Answers, Appends, DiskTrouble, HostsTopics
from ledgerstone.server.groups.shards import HostedShards
from ledgerstone.server.markers import MarkerTurn, PartitionMarkers
from ledgerstone.server.transactions.agent import Transactions
from ledgerstone.server.transactions.needs import ActsInTurn, DrawsProducerIds
from ledgerstone.server.transactions.settling import Settling
from ledgerstone.server.transactions.shards import TransactionShards
from ledgerstone.server.transactions.topic import TransactionTopic
from ledgerstone.server.verification import TxnVerification
from ledgerstone.storage.log_dirs import LogDirs


class AgentTurn(ActsInTurn, Answers, Appends, HostsTopics, MarkerTurn, Protocol):
    """The broker, as far as its agents change what happens in this turn."""


class StateAgents(NamedTuple):
    groups: Groups
    markers: PartitionMarkers
    transactions: Transactions
    verification: TxnVerification
    erasing: ErasingOnDemand


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
            turn=turn,
        ),
        disk=disk,
    )
    verification = TxnVerification(config, clock, partitions, transactions)
    parts = ErasingParts(
        config=config,
        clock=clock,
        dice=dice,
        log_dirs=log_dirs,
        image=image,
        partitions=partitions,
        controller=controller,
        shards=shards,
        transactions=transactions,
        txn_shards=txn_shards,
        scans=scans,
        cleaning=cleaning,
        unlinking=unlinking,
        turn=turn,
    )
    return StateAgents(groups, markers, transactions, verification, ErasingOnDemand(parts))
