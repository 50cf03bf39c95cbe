"""Which replica a consumer should read from, as its leader sees it (KIP-392). Pure.

Kafka's RackAwareReplicaSelector: one in the consumer's rack. The leader stays the choice if it is
in that rack, if no replica is, or if the consumer has none.
"""

from collections.abc import Mapping

from ledgerstone.replication.isr import InSyncReplicas


def replica_in_rack(
    in_sync: InSyncReplicas, fetch_offset: int, rack: str, racks: Mapping[int, str | None]
) -> int | None:
    """A follower to read from instead of the leader. `racks` has the live brokers that the consumer
    can reach. Only members of the ISR that have the offset count: one outside may lag for ever, and
    the consumer with it."""
    if not rack or racks.get(in_sync.leader_id) == rack:
        return None
    best = max(
        (
            (follower.end_offset, follower.last_caught_up_ms, broker_id)
            for broker_id, follower in in_sync.followers.items()
            if broker_id in in_sync.committed
            and racks.get(broker_id) == rack
            and follower.log_start_offset <= fetch_offset <= follower.end_offset
        ),
        default=None,
    )
    return None if best is None else best[2]
