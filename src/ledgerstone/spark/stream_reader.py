"""Micro-batches: where each ends, its tasks, and the group's commits. Shell.

The reader lives on the driver as long as its query and has a connection; every task gets a pickled
copy without one. Spark calls `latestOffset(start)` after the batch that ends at `start` was
committed, so that is when the group's offsets are committed. Spark dictates the camelCase names.
"""

import logging
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from ledgerstone.client.blocking import Client
from ledgerstone.errors import LedgerstoneError, UnknownTopicOrPartition
from ledgerstone.spark.errors import HOW_TO_GO_ON, DataLoss, TopicRecreated, said_recreated
from ledgerstone.spark.offsets import (
    EARLIEST,
    LATEST,
    OffsetJson,
    Offsets,
    TopicIds,
    backlog,
    from_json,
    limited,
    recreated,
    to_json,
    topic_ids_in,
)
from ledgerstone.spark.planning import OffsetRange, packed, plan, ranges_between
from ledgerstone.spark.positions import offsets_at, partitions_of, resolve, topic_ids_of
from ledgerstone.spark.progress import publish
from ledgerstone.spark.range_task import RangeTask, SharedTask
from ledgerstone.spark.read_options import ReadOptions
from ledgerstone.spark.schema import Projection
from ledgerstone.spark.tombstone_watch import TombstoneWatch
from ledgerstone.spark.worker import connect, settle
from ledgerstone.types import TopicPartition

logger = logging.getLogger(__name__)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: ReadOptions, shape: Projection) -> None:
        assert options.connection is not None, "a stream without a broker"
        assert options.topics is not None, "a stream without topics"
        self.options = options
        self.connection = options.connection
        self.topics = options.topics
        self.shape = shape
        self._client: Client | None = None
        self._watch = TombstoneWatch(options.on_missed_tombstones, options.group_id)
        self._published: dict[TopicPartition, int] = {}
        self._latest: dict[TopicPartition, int] = {}  # as last asked for
        self._topic_ids: TopicIds = {}  # likewise
        self._frozen: dict[TopicPartition, int] | None = None  # the end of an AvailableNow run
        self._last_batch_ms = 0

    # -- where a batch begins and ends ---------------------------------------------------------

    def initialOffset(self) -> OffsetJson:  # noqa: N802
        """For new queries only; a restarted one has its offsets in the checkpoint."""
        client = self._connected()
        self._watch.query_is_new()
        known = partitions_of(client, self.topics)
        ids = topic_ids_of(client, known)
        isolation = self.options.rows.isolation
        start = resolve(client, self.options.starting, known, isolation, what="starting")
        return to_json(start, ids)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> OffsetJson:  # noqa: N802
        client = self._connected()
        available = self._latest_offsets() if self._frozen is None else dict(self._frozen)
        done = self._of_same_topics(start, self._topic_ids)
        self._watch.check(client, done)
        self._publish(client, done)
        begin = self._with_new_partitions(client, done, available)
        end = self._admitted(client, begin, self._without_lost(done, available), limit)
        # Spark compares text: offsets from another connector, without ids, are not new data.
        return start if end == done else to_json(end, self._topic_ids)

    def _latest_offsets(self) -> dict[TopicPartition, int]:
        client = self._connected()
        known = partitions_of(client, self.topics)
        self._topic_ids = topic_ids_of(client, known)
        self._latest = offsets_at(client, known, LATEST, self.options.rows.isolation)
        return dict(self._latest)

    def _of_same_topics(
        self, start: dict[str, Any], topic_ids: TopicIds
    ) -> dict[TopicPartition, int]:
        """The query's position, without topics that were created again: it has read nothing of
        these, and its offsets would mean other records."""
        done = from_json(start, "the offset in the checkpoint")
        before = topic_ids_in(start)
        others = recreated(before, topic_ids)
        for topic in others:
            self._lose(
                said_recreated(topic, before[topic], topic_ids[topic]),
                "start with another checkpointLocation to start over, or set failOnDataLoss=false "
                "to go on with the new topic from its start",
                TopicRecreated,
            )
        return {each: at for each, at in done.items() if each.topic not in others}

    def _with_new_partitions(
        self, client: Client, done: Offsets, available: Offsets
    ) -> dict[TopicPartition, int]:
        """The position in each partition; a new one begins at its log start."""
        new = [each for each in available if each not in done]
        starts = offsets_at(client, new, EARLIEST, self.options.rows.isolation)
        for each, offset in sorted(starts.items()):
            if offset > 0:
                self._lose(f"new partition {each} begins at {offset}, not at 0")
        return {**done, **starts}

    def _without_lost(self, done: Offsets, available: Offsets) -> dict[TopicPartition, int]:
        gone = [str(each) for each in sorted(done) if each not in available]
        if gone:
            self._lose(f"partitions {', '.join(gone)} are gone")
        for each, offset in sorted(done.items()):
            end = available.get(each)
            if end is not None and end < offset:
                self._lose(f"{each} ends at {end}, but was read up to {offset}")
        return dict(available)

    def _admitted(
        self, client: Client, begin: Offsets, end: Offsets, limit: ReadLimit
    ) -> dict[TopicPartition, int]:
        now_ms = client.clock.monotonic_ms()
        admission = self.options.admission
        waiting = backlog(begin, end)
        if admission.min_offsets is not None and self._frozen is None:
            is_due = now_ms - self._last_batch_ms >= admission.max_delay_ms
            is_first = self._last_batch_ms == 0
            if waiting < admission.min_offsets and not is_due and not is_first:
                return {each: begin[each] for each in begin if each in end}
        if waiting:
            self._last_batch_ms = now_ms
        if isinstance(limit, ReadMaxRows):
            end = limited(begin, end, limit.max_rows)
        if isinstance(limit, ReadMaxRows | ReadMaxBytes) and admission.max_bytes is not None:
            from ledgerstone.spark.sampling import bytes_limited  # with all that opens batches

            isolation = self.options.rows.isolation
            return bytes_limited(client, begin, end, admission.max_bytes, isolation)
        return dict(end)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Spark takes one; the other is added where a batch is planned."""
        admission = self.options.admission
        if admission.max_offsets is not None:
            return ReadMaxRows(admission.max_offsets)
        if admission.max_bytes is not None:
            return ReadMaxBytes(admission.max_bytes)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._frozen = self._latest_offsets()

    def reportLatestOffset(self) -> OffsetJson | None:  # noqa: N802
        return to_json(self._latest) if self._latest else None

    # -- tasks ---------------------------------------------------------------------------------

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        client = self._connected()
        isolation = self.options.rows.isolation
        to_offsets = from_json(end, "the offset to read up to")
        ids = topic_ids_in(end)
        done = self._of_same_topics(start, ids)
        self._watch.check(client, done)
        try:
            earliest = offsets_at(client, to_offsets, EARLIEST, isolation)
        except UnknownTopicOrPartition:
            to_offsets = self._without_deleted(client, to_offsets)
            earliest = offsets_at(client, to_offsets, EARLIEST, isolation)
        begin = {each: done.get(each, earliest[each]) for each in to_offsets}
        for each, offset in sorted(begin.items()):
            if offset < min(earliest[each], to_offsets[each]):
                self._lose(f"{each} begins at {earliest[each]}, but was read up to {offset}")
                begin[each] = min(earliest[each], to_offsets[each])
        for topic in self._gone_since_planned(ids):
            to_offsets = {each: at for each, at in to_offsets.items() if each.topic != topic}
        ranges = plan(ranges_between(begin, to_offsets), self.options.splits)
        return [_task(part, ids) for part in packed(ranges, self.options.splits)]

    def _without_deleted(self, client: Client, planned: Offsets) -> dict[TopicPartition, int]:
        """A batch of the checkpoint may need topics that were deleted before it was read."""
        known = {each.name: each.partitions for each in client.all_topics()}
        gone = [each for each in sorted(planned) if each.partition not in known.get(each.topic, ())]
        if gone:
            self._lose(f"partitions {', '.join(map(str, gone))} are gone")
        return {each: at for each, at in planned.items() if each not in gone}

    def _gone_since_planned(self, planned: TopicIds) -> list[str]:
        """Topics that a batch of the checkpoint needs but that no longer exist."""
        if self.options.rows.fail_on_data_loss:
            return []  # The task that reads it refuses; there is nothing to ask for before.
        client = self._connected()
        now = topic_ids_of(client, partitions_of(client, self.topics))
        gone = recreated(planned, now)
        for topic in gone:
            self._lose(said_recreated(topic, planned[topic], now[topic]))
        return gone

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Only tasks load what makes rows: each query starts its own planner process.
        from ledgerstone.spark.filters import Pruning
        from ledgerstone.spark.tasks import read_range

        return read_range(partition, self.connection, self.options.rows, Pruning(), self.shape)

    # -- the end of a batch, and of a query ----------------------------------------------------

    def commit(self, end: dict[str, Any]) -> None:
        self._publish(self._connected(), from_json(end, "the offset of a finished batch"))

    def stop(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def _publish(self, client: Client, done: Offsets) -> None:
        news = {each: at for each, at in done.items() if self._published.get(each) != at}
        group_id = self.options.group_id
        if group_id is not None and news and publish(client, group_id, news):
            self._published |= news

    def _lose(
        self, message: str, advice: str = HOW_TO_GO_ON, kind: type[DataLoss] = DataLoss
    ) -> None:
        if self.options.rows.fail_on_data_loss:
            raise kind(f"{message}; {advice}")
        logger.warning("data loss: %s", message)

    def _connected(self) -> Client:
        if self._client is None:
            self._client = connect(self.connection)
            settle()
        return self._client

    def __getstate__(self) -> dict[str, Any]:
        """For tasks: everything but the connection."""
        return {**self.__dict__, "_client": None}


def _task(ranges: tuple[OffsetRange, ...], topic_ids: TopicIds) -> InputPartition:
    tasks = [RangeTask(each, topic_ids.get(each.partition.topic)) for each in ranges]
    return tasks[0] if len(tasks) == 1 else SharedTask(tasks)


class RefusedStream(DataSourceStreamReader):
    """A stream with invalid options; its first call raises the reason."""

    def __init__(self, error: LedgerstoneError) -> None:
        self._error = error

    def initialOffset(self) -> OffsetJson:  # noqa: N802
        raise self._error

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> OffsetJson:  # noqa: N802
        raise self._error

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        raise self._error

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        raise self._error

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        raise self._error
