"""Finds out whether a pipeline missed deletes while it was away or slow. Shell.

Ledgerstone reports below which offset it has removed tombstones. A table with a lower position has
missed some, unless they were already gone when it began to read: then their values were gone too.
The work directory records what had been removed when the table began. Of partitions that no broker
tells about, since it is of another kind or does not answer, all we know is that a tombstone stays
for `delete.retention.ms`.
"""

from pathlib import Path
from typing import Final

from ledgerstone.client.blocking import Client
from ledgerstone.pipeline.definition import Source
from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.status import read_json, write_json
from ledgerstone.pipeline.tables.target import Positions
from ledgerstone.spark.offsets import Offsets
from ledgerstone.spark.progress import publish, published_at_ms
from ledgerstone.spark.tombstones import (
    Missed,
    missed_by_offset,
    missed_by_time,
    removed_below,
    tombstone_retention_ms,
)
from ledgerstone.types import TopicPartition
from ledgerstone.uuid_text import uuid_to_text

SEEN_FILE: Final = "tombstones.json"
_INTERVAL_MS: Final = 60_000


class MissedDeletesCheck:
    """Checked at the start of a run and repeatedly during it."""

    def __init__(self, client: Client, source: Source, work: Path) -> None:
        self._client = client
        self._source = source
        self._file = work / SEEN_FILE
        if source.topics:
            self._file = work / "tombstones" / f"{source.topic}.json"
            self._file.parent.mkdir(parents=True, exist_ok=True)
        self._topic_id = uuid_to_text(client.topic(source.topic).topic_id)
        self._asked_ms: int | None = None

    def check(self, positions: Positions) -> list[Missed]:
        """What a table at these positions may have missed; asks at most once a minute."""
        now_ms = self._client.clock.monotonic_ms()
        is_first = self._asked_ms is None
        if self._asked_ms is not None and now_ms - self._asked_ms < _INTERVAL_MS:
            return []
        self._asked_ms = now_ms
        topic = self._source.topic
        at = {TopicPartition(topic, each): offset for each, offset in positions.items()}
        removed = removed_below(self._client, topic) or {}
        # A table that has read nothing has missed nothing.
        begun = {each: n for each, n in removed.items() if each not in at}
        if begun:
            self._remember({**self._seen(), **begun})
        missed = missed_by_offset(at, removed, self._seen())
        untold = _untold(at, removed)
        retention_ms = tombstone_retention_ms(self._client, topic) if untold and is_first else None
        if retention_ms is not None:
            last_read_ms = published_at_ms(self._client, self._source.group)
            now_ms = self._client.clock.now_ms()
            missed += missed_by_time(untold, last_read_ms, retention_ms, now_ms)
        return missed

    def settled(self, positions: Positions) -> None:
        """Records that everything missed so far by a table at these positions was repaired."""
        topic = self._source.topic
        removed = removed_below(self._client, topic) or {}
        if removed:
            self._remember({**self._seen(), **removed})
        at = {TopicPartition(topic, each): offset for each, offset in positions.items()}
        untold = _untold(at, removed)
        # Of these only the group's last commit is known, so commit once now.
        if untold and not publish(self._client, self._source.group, untold):
            raise PipelineError(
                f"the table is good, but offsets of group {self._source.group} could not be "
                "committed, and the next run would refuse again; repeat the command"
            )

    def _seen(self) -> dict[TopicPartition, int]:
        noted = read_json(self._file) or {}
        topic = self._source.topic
        if noted.get("topic_id", self._topic_id) != self._topic_id:
            return {}  # of a topic that was deleted since
        content = noted.get("removed_below_offset", {})
        return {TopicPartition(topic, int(each)): int(at) for each, at in content.items()}

    def _remember(self, seen: dict[TopicPartition, int]) -> None:
        content = {str(each.partition): seen[each] for each in sorted(seen)}
        write_json(self._file, {"topic_id": self._topic_id, "removed_below_offset": content})


def _untold(positions: Offsets, removed: Offsets) -> Offsets:
    return {each: at for each, at in positions.items() if each not in removed}
