"""Commits a query's position to a consumer group: for lag, tombstone holds, restarts. Shell.

The group has no members, and Spark never reads the commit back to decide where to resume. Its
metadata has the time of the commit, which tells a restarted query how long it was away.
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
    """Whether the commit succeeded. A failure is logged: it must not stop a query."""
    metadata = json.dumps({"at_ms": client.clock.now_ms()})
    commits = {each: CommittedOffset(offset, metadata=metadata) for each, offset in offsets.items()}
    try:
        commit_offsets(client, group_id, commits)
    except LedgerstoneError as error:
        logger.warning("group=%s cannot be told where the query is: %s", group_id, error)
        return False
    return True


def published_at_ms(client: Client, group_id: str) -> dict[TopicPartition, int]:
    """The time of the group's last commit in each partition that has one."""
    found = {}
    for partition, committed in committed_offsets(client, group_id).items():
        try:
            content = json.loads(committed.metadata or "")
        except ValueError:
            continue
        if isinstance(content, dict) and isinstance(content.get("at_ms"), int):
            found[partition] = content["at_ms"]
    return found
