"""Whether a state may resume from a snapshot: nothing written since may be gone. Shell.

A state resumed across a gap could keep a key live whose tombstone is gone. So every doubt is an
error that says what to do; rules in README.md.
"""

from collections.abc import Iterable

from ledgerstone.client.blocking import Client
from ledgerstone.client.configs import Resource, ResourceType, describe_configs
from ledgerstone.errors import KafkaError
from ledgerstone.state.manifest import Manifest
from ledgerstone.state.reading import PartitionBounds
from ledgerstone.state.topic_state import StaleSnapshot, TopicState
from ledgerstone.uuid_text import ZERO_UUID, uuid_to_text


def check_same_topic(manifest: Manifest, topic_id: bytes, cluster_id: str | None) -> None:
    """A topic that was deleted and recreated has a new id under the same name."""
    if ZERO_UUID not in (topic_id, manifest.topic_id):
        if topic_id != manifest.topic_id:
            raise StaleSnapshot(
                f"the snapshot is of a topic {manifest.topic} with id "
                f"{uuid_to_text(manifest.topic_id)}, which now has id {uuid_to_text(topic_id)}: "
                "it was deleted and recreated; use --rebuild"
            )
    elif cluster_id != manifest.cluster_id:
        raise StaleSnapshot(
            f"the snapshot is of {manifest.topic} in cluster {manifest.cluster_id}, but this is "
            f"cluster {cluster_id}; use --rebuild"
        )


def check_reach(manifest: Manifest, bounds: Iterable[PartitionBounds]) -> None:
    """Every partition's log must still have the offset where the snapshot ends."""
    found = {each.partition.partition: each for each in bounds}
    for each in manifest.partitions:
        now = found.get(each.partition)
        said = f"the snapshot holds {manifest.topic}-{each.partition} up to {each.next_offset}"
        if now is None:
            raise StaleSnapshot(f"{said}, but there is no such partition; use --rebuild")
        if now.log_start_offset > each.next_offset:
            raise StaleSnapshot(
                f"{said}, but the log now starts at {now.log_start_offset}: deletes in between may "
                "have been missed; use --rebuild"
            )
        if now.high_watermark < each.next_offset:
            raise StaleSnapshot(
                f"{said}, but the log now ends at {now.high_watermark}: it was truncated; "
                "use --rebuild"
            )


def check_no_delete_missed(client: Client, manifest: Manifest, state: TopicState) -> None:
    """A tombstone may go once `delete.retention.ms` has passed since it was first compacted.

    If records written after the snapshot are gone, and that much time has passed, one of them may
    have been the tombstone of a key that is live in the snapshot."""
    gaps = [each for each in state.partitions if each.is_resumed and each.missing > 0]
    if not gaps:
        return
    retention_ms = _delete_retention_ms(client, state.topic)
    age_ms = client.clock.now_ms() - manifest.created_ms
    said = {each.partition: each for each in manifest.partitions}
    for each in gaps:
        # A snapshot of the past does not say when the later records were still there.
        if said[each.partition].is_at_end(manifest.isolation) and age_ms < retention_ms:
            continue
        raise StaleSnapshot(
            f"the snapshot is {age_ms} ms old, {state.topic} keeps tombstones for {retention_ms} "
            f"ms (delete.retention.ms), and {each.missing} offsets of partition {each.partition} "
            f"since {each.start_offset} no longer have a record: deletes may have been missed; "
            "use --rebuild"
        )


def _delete_retention_ms(client: Client, topic: str) -> int:
    try:
        entries = describe_configs(client, Resource(ResourceType.TOPIC, topic))
        return next(int(e.value or 0) for e in entries if e.name == "delete.retention.ms")
    except (KafkaError, StopIteration, ValueError):
        # Not authorised to see it: assume nothing.
        return 0
