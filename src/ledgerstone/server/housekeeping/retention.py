"""Retention of one partition: deletes the segments that retention.ms and retention.bytes allow to.

Grade D.
"""

import logging
from typing import Final

from ledgerstone.clock import Clock
from ledgerstone.dataclasses import dataclass
from ledgerstone.errors import LogStorageError, StorageError
from ledgerstone.replication.partition import Partition
from ledgerstone.server.housekeeping.disk_watch import DiskWatch
from ledgerstone.storage.log_shrink import delete_old_segments

_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Retention:
    clock: Clock
    disk: DiskWatch

    def apply(self, partition: Partition) -> None:
        """Not while a pass reads the partition's segments."""
        if partition.log.failure is not None:
            return
        try:
            deletions = delete_old_segments(partition.log)
        except (OSError, StorageError, LogStorageError) as error:
            # The others follow: on a full disk they are what makes room.
            self.disk.log_failed(partition.topic_partition, error, self.clock.monotonic_ms())
            return
        for deletion in deletions:
            _LOG.info(
                "segments deleted partition=%s segments=%d bytes=%d log_start_offset=%d reason=%s",
                partition.topic_partition,
                deletion.segments,
                deletion.size_bytes,
                deletion.log_start_offset,
                deletion.reason.value,
            )
