"""Samples batches of a log, to end a micro-batch at a number of bytes. Shell.

The first sample asks all partitions at once, which settles small backlogs. Further places are asked
for one by one: only the first partition of a response is sure to have a batch.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from ledgerstone.client.blocking import Client
from ledgerstone.client.fetcher import FetchConfig, Fetched, Fetcher
from ledgerstone.client.isolation_level import IsolationLevel
from ledgerstone.errors import OffsetOutOfRange
from ledgerstone.records.batch import HEADER_SIZE
from ledgerstone.records.compression import Codecs
from ledgerstone.spark.offsets import EARLIEST, Offsets
from ledgerstone.spark.positions import offsets_at
from ledgerstone.spark.sizing import SizeSample, cut, places, shares
from ledgerstone.types import TopicPartition

# Of the first look; later ones take a single batch, however large that is.
_FIRST_BYTES: Final = 1 << 16
_MAX_OPENED_BYTES: Final = 1 << 28


def bytes_limited(
    client: Client, begin: Offsets, end: Offsets, max_bytes: int, isolation: IsolationLevel
) -> dict[TopicPartition, int]:
    """End offsets for about `max_bytes`, decompressed; each at least one past its start."""
    return sized(client, begin, end, max_bytes, isolation).end


class SizedEnd(NamedTuple):
    end: dict[TopicPartition, int]
    size_bytes: int  # from there back to the beginning, about


def sized(
    client: Client, begin: Offsets, end: Offsets, max_bytes: int, isolation: IsolationLevel
) -> SizedEnd:
    """As `bytes_limited`, with what it comes to."""
    waiting = {each: begin[each] for each in end if end[each] > begin[each]}
    first = _begun(client, waiting, end, isolation)
    share = shares(first, end, max_bytes)
    samples = {each: [sample] for each, sample in first.items()}
    asked = {each: places(first[each], end[each], share[each]) for each in first}
    for each, offsets in asked.items():
        for offset in offsets:
            if offset >= samples[each][-1].next_offset:
                more = _looked(client, {each: offset}, isolation, max_bytes=1)
                samples[each] += more.values()
    found, size = dict(end), 0.0
    for each, some in samples.items():
        found[each] = max(cut(some, end[each], share[each]), begin[each] + 1)
        density = sum(sample.density for sample in some) / len(some)
        size += density * (found[each] - begin[each])
    return SizedEnd(found, int(size))


def _begun(
    client: Client, waiting: Offsets, end: Offsets, isolation: IsolationLevel
) -> dict[TopicPartition, SizeSample]:
    try:
        return _looked(client, waiting, isolation, max_bytes=_FIRST_BYTES)
    except OffsetOutOfRange:
        # The planner of the tasks reports lost records. Here only existing ones count.
        earliest = offsets_at(client, waiting, EARLIEST, isolation)
        there = {each: max(at, earliest[each]) for each, at in waiting.items()}
        there = {each: at for each, at in there.items() if at < end[each]}
        return _looked(client, there, isolation, max_bytes=_FIRST_BYTES)


def _looked(
    client: Client,
    positions: Mapping[TopicPartition, int],
    isolation: IsolationLevel,
    *,
    max_bytes: int,
) -> dict[TopicPartition, SizeSample]:
    if not positions:
        return {}
    config = FetchConfig(partition_max_bytes=max_bytes, isolation_level=isolation.level)
    answers = Fetcher(client, config).fetch(positions, max_wait_ms=0)
    codecs = Codecs()
    found = {each.partition: _sample(each, codecs) for each in answers if each.records.nbytes}
    if len(positions) > 1:
        # Their batches are larger than the limit; asked alone, each still returns one.
        for each in positions:
            if each not in found:
                found |= _looked(client, {each: positions[each]}, isolation, max_bytes=max_bytes)
    return found


def _sample(fetched: Fetched, codecs: Codecs) -> SizeSample:
    size = 0.0
    for header, batch in fetched.batches():
        payload = batch[HEADER_SIZE:]
        opened = codecs.decompress(header.codec, payload, limit=_MAX_OPENED_BYTES)
        # Of a batch that begins below, the part that is asked for.
        asked = header.next_offset - max(header.base_offset, fetched.fetch_offset)
        size += memoryview(opened).nbytes * asked / (header.next_offset - header.base_offset)
    return SizeSample(fetched.fetch_offset, fetched.next_offset, int(size))
