"""Where the next micro-batch begins and ends, and its ranges. Shell over a `Client`.

It begins at the table's positions. Its end is ours to choose: as many offsets and bytes as the
definition allows, spread over the partitions. A task reads one range and answers for its end, so
nothing depends on what Spark writes down about a query.
"""

import logging
from typing import NamedTuple

from ledgerstone.client.blocking import Client
from ledgerstone.client.isolation_level import IsolationLevel
from ledgerstone.pipeline.definition import Deletes, Pipeline
from ledgerstone.pipeline.reading import common_options
from ledgerstone.pipeline.tables.leaves import Incoming
from ledgerstone.pipeline.tables.target import Followed, Positions
from ledgerstone.spark.errors import DataLoss
from ledgerstone.spark.offsets import EARLIEST, LATEST, backlog, limited
from ledgerstone.spark.planning import OffsetRange, ranges_between
from ledgerstone.spark.positions import offsets_at, topic_ids_of
from ledgerstone.spark.read_options import Connection, RowOptions, read_options
from ledgerstone.spark.sampling import sized
from ledgerstone.types import TopicPartition

logger = logging.getLogger(__name__)


class PlannedBatch(NamedTuple):
    ranges: list[OffsetRange]
    ends: Positions  # of every partition, also of those without a range
    followed: Followed | None  # the topic the offsets are of
    incoming: Incoming
    backlog: int  # offsets that are left, with this batch


class BatchPlanner:
    def __init__(self, client: Client, pipeline: Pipeline, *, once: bool) -> None:
        options = dict(common_options(pipeline.source))
        if pipeline.target.deletes is not Deletes.HISTORY:
            options["fold"] = "latest"
        # As of a stream: tombstones are among the records.
        read = read_options({**options, "startingOffsets": "earliest"}, streaming=True)
        assert read.connection is not None, "a topic without a broker"
        self.connection: Connection = read.connection
        self.rows: RowOptions = read.rows
        self._client = client
        self._pipeline = pipeline
        self._isolation: IsolationLevel = read.rows.isolation
        self._known: set[TopicPartition] = set()
        self._frozen: dict[TopicPartition, int] | None = None
        if once:
            self._frozen = self._available()

    def _partitions(self) -> list[TopicPartition]:
        topic = self._pipeline.source.topic
        return sorted(TopicPartition(topic, each) for each in self._client.topic(topic).partitions)

    def _available(self) -> dict[TopicPartition, int]:
        return offsets_at(self._client, self._partitions(), LATEST, self._isolation)

    def next_batch(self, positions: Positions) -> PlannedBatch | None:
        """None if the table has everything."""
        available = self._available() if self._frozen is None else dict(self._frozen)
        begin = self._begin(positions, available)
        waiting = backlog(begin, available)
        if not waiting:
            return None
        source, topic = self._pipeline.source, self._pipeline.source.topic
        end = limited(begin, available, source.max_offsets_per_batch)
        planned = sized(self._client, begin, end, source.max_bytes_per_batch, self._isolation)
        end = planned.end
        topic_id = topic_ids_of(self._client, end).get(topic)
        return PlannedBatch(
            ranges_between(begin, end),
            {each.partition: at for each, at in sorted(end.items())},
            None if topic_id is None else Followed(topic, topic_id),
            Incoming(backlog(begin, end), planned.size_bytes),
            waiting,
        )

    def _begin(
        self, positions: Positions, available: dict[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """The table's position in every partition; the log start where it has none."""
        earliest = offsets_at(self._client, available, EARLIEST, self._isolation)
        found = {}
        for each, start in earliest.items():
            at = positions.get(each.partition)
            if at is None:
                if self._known and each not in self._known and start > 0:
                    self._lose(f"new partition {each} begins at {start}, not at 0")
                at = start
            elif at > available[each]:
                self._lose(f"{each} ends at {available[each]}, but was read up to {at}")
            elif at < start:
                self._lose(f"{each} begins at {start}, but was read up to {at}")
                at = min(start, available[each])
            found[each] = at
        for number in positions:
            if TopicPartition(self._pipeline.source.topic, number) not in available:
                self._lose(f"partition {self._pipeline.source.topic}-{number} is gone")
        self._known = set(available)
        return found

    def _lose(self, message: str) -> None:
        if self._pipeline.source.fail_on_data_loss:
            raise DataLoss(f"{message}; set fail_on_data_loss: false to go on without it")
        logger.warning("data loss: %s", message)
