"""Where a query is, told to a consumer group: for lag, holds of tombstones, restarts. Shell.

The commit is one from outside: the group has no members, and Spark never reads it back to decide
where to go on. Its metadata says when it was made, which is how a query that comes back knows how
long it was away.
"""

import json
import logging

from ledgerstone.client.blocking import Client
from ledgerstone.client.offsets import CommittedOffset, commit_offsets, committed_offsets
from ledgerstone.errors import LedgerstoneError
from ledgerstone.spark.offsets import Offsets
from ledgerstone.types import TopicPartition

logger = logging.getLogger(__name__)


def publish(client: Client, group_id: str, offsets: Offsets) -> bool:
    """Whether the group knows now. A failure is logged: it must not stop a query."""
    metadata = json.dumps({"at_ms": client.clock.now_ms()})
    commits = {each: CommittedOffset(offset, metadata=metadata) for each, offset in offsets.items()}
    try:
        commit_offsets(client, group_id, commits)
    except LedgerstoneError as error:
        logger.warning("group=%s cannot be told where the query is: %s", group_id, error)
        return False
    return True


def published_at_ms(client: Client, group_id: str) -> dict[TopicPartition, int]:
    """When the group was last told about each partition; those nobody told it about are missing."""
    found = {}
    for partition, committed in committed_offsets(client, group_id).items():
        try:
            content = json.loads(committed.metadata or "")
        except ValueError:
            continue
        if isinstance(content, dict) and isinstance(content.get("at_ms"), int):
            found[partition] = content["at_ms"]
    return found
