"""Builds the agents that look after the logs, in the order in which they need each other.

Grade D.
"""

from collections.abc import Callable
from typing import NamedTuple

from ledgerstone.cleaner.planning import CleanerSettings
from ledgerstone.clock import Clock, Dice
from ledgerstone.config.broker import BrokerConfig
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.replication.hosted_partitions import HostedPartitions
from ledgerstone.server.anatomy.book import AnatomyBook
from ledgerstone.server.cleaning.agent import Cleaning
from ledgerstone.server.cleaning.files import CleaningFiles
from ledgerstone.server.cleaning.needs import TxnOwners
from ledgerstone.server.housekeeping.agent import Housekeeping
from ledgerstone.server.housekeeping.disk_watch import DiskWatch
from ledgerstone.server.housekeeping.flushes import Flushes
from ledgerstone.server.housekeeping.retention import Retention
from ledgerstone.server.tombstones.holds import TombstoneHolds
from ledgerstone.server.tombstones.near import NearTombstoneWatch
from ledgerstone.server.tombstones.stray import Searches, StrayChecks
from ledgerstone.storage.log_dirs import LogDirs
from ledgerstone.types import TopicPartition


class LogAgents(NamedTuple):
    disk: DiskWatch
    cleaning: Cleaning
    near_tombstones: NearTombstoneWatch
    housekeeping: Housekeeping
    anatomy: AnatomyBook


def build_log_agents(
    *,
    config: BrokerConfig,
    clock: Clock,
    dice: Dice,
    log_dirs: LogDirs,
    partitions: HostedPartitions,
    holds: TombstoneHolds,
    txn_owners: TxnOwners,
    searching: Searches,
    image: MetadataImage,
    newest_image: Callable[[], MetadataImage],
) -> LogAgents:
    """`newest_image` is called once the broker runs, not before."""

    def settings_in(image: MetadataImage) -> CleanerSettings:
        return CleanerSettings.from_values(image.broker_values(config.node_id, config.raw))

    disk, flushes = DiskWatch(), Flushes()
    retention = Retention(clock, disk)
    cleaning = Cleaning(
        clock=clock,
        log_dirs=log_dirs,
        partitions=partitions,
        holds=holds,
        txn_owners=txn_owners,
        settings=settings_in(image),
        read_settings=lambda: settings_in(newest_image()),
        files=_cleaning_files(log_dirs),
        disk=disk,
        flushes=flushes,
        retention=retention,
    )
    strays = StrayChecks(
        clock=clock,
        dice=dice,
        image=newest_image,
        partitions=partitions,
        cleaning=cleaning,
        searching=searching,
    )
    near_tombstones = NearTombstoneWatch(strays)
    housekeeping = Housekeeping(
        config=config,
        clock=clock,
        log_dirs=log_dirs,
        partitions=partitions,
        disk=disk,
        flushes=flushes,
        retention=retention,
        passes=cleaning,
        missed_deletes=cleaning.guard,
        strays=near_tombstones,
    )
    anatomy = AnatomyBook(clock=clock, cleaning=cleaning)
    return LogAgents(disk, cleaning, near_tombstones, housekeeping, anatomy)


def _cleaning_files(log_dirs: LogDirs) -> CleaningFiles:
    files = CleaningFiles.open(log_dirs.fs, *(each.path for each in log_dirs.online))

    def directory_of(tp: TopicPartition) -> str | None:
        log_dir = log_dirs.of(tp)
        return None if log_dir is None else log_dir.path

    files.directory_of = directory_of
    return files
