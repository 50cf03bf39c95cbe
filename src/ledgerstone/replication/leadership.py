"""Leadership of a partition as events, for all who act on it. Pure.

`HostedPartitions` makes them, in the order of the delta; the broker hands them on: parked requests
are tried again, group shards load or resign, the journal of erasures opens or closes.
"""

import enum
from typing import NamedTuple

from ledgerstone.types import TopicPartition


class Leadership(enum.Enum):
    GAINED = "this broker leads from now on"
    LOST = "it led, and another one does, or nobody, or the partition is gone"
    EPOCH_CHANGED = "it goes on leading, in a new epoch"
    COMMITTED = "it goes on leading, and a change of the ISR has committed more"


class LeadershipChanged(NamedTuple):
    """`leader_epoch` is the new one; of a partition that is gone the last one."""

    topic_partition: TopicPartition
    kind: Leadership
    leader_epoch: int
