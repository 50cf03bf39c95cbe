"""Checks periodically whether a query has missed deletes, and does what the user chose. Shell.

A new query has no state that a missed delete could leave wrong; it is watched from its start. A
restarted query is checked by its position before it reads on.
"""

import logging
from typing import Final

from ledgerstone.client.blocking import Client
from ledgerstone.errors import LedgerstoneError
from ledgerstone.spark.errors import MissedTombstones
from ledgerstone.spark.offsets import Offsets
from ledgerstone.spark.progress import published_at_ms
from ledgerstone.spark.read_options import OnMissedTombstones
from ledgerstone.spark.tombstones import (
    Missed,
    missed_by_offset,
    missed_by_time,
    removed_below,
    tombstone_retention_ms,
)
from ledgerstone.types import TopicPartition

_INTERVAL_MS: Final = 60_000

logger = logging.getLogger(__name__)


class TombstoneWatch:
    """Lives as long as the query's reader on the driver."""

    def __init__(self, choice: OnMissedTombstones, group_id: str | None) -> None:
        self._choice = choice
        self._group_id = group_id
        self._removed: dict[TopicPartition, int] = {}  # what was removed when last asked
        self._asked_ms: int | None = None
        self._is_new = False

    def query_is_new(self) -> None:
        self._is_new = True

    def check(self, client: Client, positions: Offsets) -> None:
        if self._choice is OnMissedTombstones.IGNORE or not positions:
            return
        now_ms = client.clock.monotonic_ms()
        if self._asked_ms is not None and now_ms - self._asked_ms < _INTERVAL_MS:
            return
        is_first, self._asked_ms = self._asked_ms is None, now_ms
        missed: list[Missed] = []
        for topic in dict.fromkeys(each.topic for each in sorted(positions)):
            of_topic = {each: at for each, at in positions.items() if each.topic == topic}
            missed += self._missed(client, topic, of_topic, is_first=is_first)
        if missed and not (is_first and self._is_new):
            self._report(missed)

    def _missed(
        self, client: Client, topic: str, positions: Offsets, *, is_first: bool
    ) -> list[Missed]:
        removed = removed_below(client, topic) or {}
        missed = missed_by_offset(positions, removed, self._removed)
        self._removed |= removed
        # No broker that has them told about these: its API is away, or it has none.
        untold = {each: at for each, at in positions.items() if each not in removed}
        if untold and is_first and self._group_id is not None:
            missed += self._missed_by_time(client, topic, untold, self._group_id)
        return missed

    def _missed_by_time(
        self, client: Client, topic: str, positions: Offsets, group_id: str
    ) -> list[Missed]:
        try:
            retention_ms = tombstone_retention_ms(client, topic)
            last_read_ms = published_at_ms(client, group_id)
        except LedgerstoneError as error:
            logger.warning("topic=%s cannot tell whether deletes were missed: %s", topic, error)
            return []
        if retention_ms is None:
            return []
        return missed_by_time(positions, last_read_ms, retention_ms, client.clock.now_ms())

    def _report(self, missed: list[Missed]) -> None:
        text = "; ".join(map(str, missed))
        if self._choice is OnMissedTombstones.RECONCILE:
            logger.warning("deletes may have been missed, reconcile: %s", text)
            return
        raise MissedTombstones(
            f"deletes may have been missed: {text}. Compare what was made of this topic with its "
            "keys (ledgerstone pipeline reconcile), then start with onMissedTombstones=reconcile; "
            "onMissedTombstones=ignore does not check"
        )
