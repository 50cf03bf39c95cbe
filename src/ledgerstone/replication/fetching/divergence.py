"""Where a follower cuts its log when the leader says that the two diverge (KIP-595, KIP-101). Pure.

The leader names the largest epoch that it knows at or below the follower's last one, and where that
epoch ends in its log. Offsets alone say nothing: two logs of the same length may differ.
"""

from ledgerstone.replication.fetching.replica import FollowingLog
from ledgerstone.storage.leader_epochs import UNDEFINED


def truncation_offset(log: FollowingLog, leader_epoch: int, leader_end_offset: int) -> int:
    """The follower keeps what lies below. If it does not know the leader's epoch, it cuts to the
    end of its own next lower one; its next fetch may diverge again, further down."""
    end_offset = log.log_end_offset
    own = log.epochs.end_offset_for(leader_epoch, end_offset)
    if own == UNDEFINED:
        return min(leader_end_offset, end_offset)
    if own.epoch != leader_epoch:
        return min(own.end_offset, end_offset)
    return min(own.end_offset, leader_end_offset, end_offset)
