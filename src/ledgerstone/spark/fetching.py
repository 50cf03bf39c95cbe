"""Fetches the raw batches of one offset range ahead of their use. Shell over a `Client`.

It fetches the next response while the current one becomes Arrow: kernels and sockets release the
GIL. Records missing at the start or the end are data loss, never a silent jump.
"""

import logging
from collections.abc import Iterator
from itertools import chain
from typing import Final

from ledgerstone.client.ahead import one_ahead
from ledgerstone.client.blocking import Client
from ledgerstone.client.fetcher import FetchConfig, Fetched, Fetcher
from ledgerstone.client.offsets import list_offsets
from ledgerstone.dataclasses import replace
from ledgerstone.errors import OffsetOutOfRange
from ledgerstone.spark.errors import HOW_TO_GO_ON, DataLoss, TopicRecreated, said_recreated
from ledgerstone.spark.offsets import EARLIEST, LATEST
from ledgerstone.spark.planning import OffsetRange
from ledgerstone.spark.positions import topic_ids_of
from ledgerstone.spark.read_options import RowOptions
from ledgerstone.types import NO_OFFSET, TopicPartition

# How large records are is known after the first answer: a small range is not worth more than this,
# and a large one is worked on sooner.
FIRST_BYTES: Final = 1 << 20
# Batches are whole, so the end of a range lies somewhere in the last one.
_MARGIN_BYTES: Final = 1 << 18

logger = logging.getLogger(__name__)


def windows(
    client: Client,
    wanted: OffsetRange,
    rows: RowOptions,
    *,
    fetch_bytes: int,
    topic_id: str | None = None,
) -> Iterator[Fetched]:
    """Whole batches that hold the range; the first and the last may reach beyond it.

    With a `topic_id`, records of another topic of the same name are refused. The client must not be
    used elsewhere until this has ended or is closed."""
    config = FetchConfig(
        max_bytes=fetch_bytes,
        partition_max_bytes=fetch_bytes,
        isolation_level=rows.isolation.level,
    )
    answers = _of_topic(_fetch(client, Fetcher(client, config), wanted, rows), client, topic_id)
    first = next(answers, None)
    if first is None:
        return
    if first.next_offset >= wanted.end_offset:
        yield first  # That was everything: no need for a thread.
        return
    yield from one_ahead(chain((first,), answers))


def _of_topic(
    answers: Iterator[Fetched], client: Client, topic_id: str | None
) -> Iterator[Fetched]:
    """A fetch names the topic by its id, and the client updates a stale id by itself: after a
    response, the client's id is that of the response."""
    for fetched in answers:
        topic = fetched.partition.topic
        found = topic_ids_of(client, [fetched.partition]).get(topic)
        if topic_id is not None and found is not None and found != topic_id:
            # None of its records may pass for a planned one, whatever failOnDataLoss says.
            raise TopicRecreated(said_recreated(topic, topic_id, found))
        yield fetched


def _fetch(
    client: Client, fetcher: Fetcher, wanted: OffsetRange, rows: RowOptions
) -> Iterator[Fetched]:
    position, max_wait_ms, most_bytes = wanted.start_offset, 0, fetcher.config.max_bytes
    size = min(FIRST_BYTES, most_bytes)
    while position < wanted.end_offset:
        fetcher.config = replace(fetcher.config, max_bytes=size, partition_max_bytes=size)
        try:
            (fetched,) = fetcher.fetch({wanted.partition: position}, max_wait_ms=max_wait_ms)
        except OffsetOutOfRange:
            resumed = _after_loss(client, wanted, position, rows)
            if resumed is None:
                return
            position = resumed
            if position == wanted.end_offset:
                yield _nothing_at(wanted.partition, position)
            continue
        if fetched.next_offset > position:
            size = min(_bytes_left(fetched, wanted), most_bytes)
            position, max_wait_ms = fetched.next_offset, 0
            yield fetched
            continue
        end_offset = fetcher.end_offset(fetched)
        if position >= end_offset:
            # The planned offsets existed; a log that ends earlier is another log.
            _lose(f"{wanted}: the log ends at {end_offset}, read up to {position}", rows)
            return
        # There is more, but it has not arrived. Asking again at once would only keep the broker
        # from sending it.
        max_wait_ms = fetcher.config.max_wait_ms


def _bytes_left(fetched: Fetched, wanted: OffsetRange) -> int:
    """About as many as the rest of the range has, if it is like what came last."""
    offsets = fetched.next_offset - fetched.fetch_offset
    left = max(wanted.end_offset - fetched.next_offset, 0)
    expected = fetched.records.nbytes * left // offsets
    return expected + max(expected >> 3, _MARGIN_BYTES)


def _after_loss(client: Client, wanted: OffsetRange, position: int, rows: RowOptions) -> int | None:
    """Where to continue, if that is allowed: at the end of the range if all of it was deleted. None
    if the log ends before."""
    start = list_offsets(client, {wanted.partition: EARLIEST})[wanted.partition].offset
    end = list_offsets(client, {wanted.partition: LATEST})[wanted.partition].offset
    _lose(f"{wanted}: offset {position} is not in the log, which has [{start}, {end})", rows)
    return min(start, wanted.end_offset) if position < start else None


def _nothing_at(partition: TopicPartition, offset: int) -> Fetched:
    """Says that nothing came from before the offset, as the answer to a fetch would."""
    return Fetched(
        partition=partition,
        fetch_offset=offset,
        next_offset=offset,
        high_watermark=NO_OFFSET,
        last_stable_offset=NO_OFFSET,
        log_start_offset=offset,
        records=memoryview(b""),
        aborted=(),
    )


def _lose(message: str, rows: RowOptions) -> None:
    if rows.fail_on_data_loss:
        raise DataLoss(f"{message}; {HOW_TO_GO_ON}")
    logger.warning("data loss: %s", message)
