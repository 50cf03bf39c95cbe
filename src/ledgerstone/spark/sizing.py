"""Estimates how many offsets make a number of bytes. Pure: decides where to sample, and the end.

No broker reports the bytes of an offset range, and Spark needs the end of a micro-batch before
anything of it is read. So a few batches are sampled: one at the start of the range, then some
spread over the distance that the first one suggests. Between two samples the denser one counts,
which errs towards smaller micro-batches.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from ledgerstone.spark.offsets import Offsets
from ledgerstone.types import TopicPartition

# Samples of a range, besides its start.
PROBES: Final = 8


class SizeSample(NamedTuple):
    """The records at [start_offset, next_offset), and their bytes when they are decompressed."""

    start_offset: int
    next_offset: int
    size_bytes: int

    @property
    def density(self) -> float:
        return max(self.size_bytes, 1) / max(self.next_offset - self.start_offset, 1)


def shares(samples: Mapping[TopicPartition, SizeSample], end: Offsets, max_bytes: int) -> Offsets:
    """The bytes for each partition: what it needs, if that is little; else an equal share.

    Needs are guesses from one sample. What nobody needs is shared out too, so that a backlog that
    is small as a whole is not cut where it is denser than the sample."""
    needs = {
        each: sample.density * (end[each] - sample.start_offset) for each, sample in samples.items()
    }
    found: dict[TopicPartition, int] = {}
    left = float(max_bytes)
    for taken, each in enumerate(sorted(needs, key=lambda each: (needs[each], each))):
        fair = left / (len(needs) - taken)
        found[each] = int(min(needs[each], fair)) + 1
        left -= min(needs[each], fair)
    spare = int(left) // max(len(found), 1)
    return {each: size + max(spare, 0) for each, size in found.items()}


def places(sample: SizeSample, end_offset: int, share_bytes: int) -> list[int]:
    """Where else to sample; nowhere if the first sample suffices."""
    reach = min(end_offset, sample.start_offset + int(share_bytes / sample.density) + 1)
    if reach <= sample.next_offset:
        return []
    step = (reach - sample.start_offset) / PROBES
    spread = (sample.start_offset + int(step * number) for number in range(1, PROBES))
    return [each for each in dict.fromkeys(spread) if sample.next_offset <= each < reach]


def cut(samples: list[SizeSample], end_offset: int, share_bytes: int) -> int:
    """The end offset for about `share_bytes`; at least one offset past the start.

    `samples` are in order, the first at the start of the range."""
    left = float(share_bytes)
    for start, stop, density in _stretches(samples, end_offset):
        size = density * (stop - start)
        if size > left:
            first = samples[0].start_offset
            return min(max(start + int(left / density), first + 1), end_offset)
        left -= size
    return end_offset


def _stretches(samples: list[SizeSample], end_offset: int) -> Iterator[tuple[int, int, float]]:
    """The range in pieces, each with its bytes per offset."""
    following = [*samples[1:], None]
    for sample, after in zip(samples, following, strict=True):
        inside = min(sample.next_offset, end_offset)
        yield sample.start_offset, inside, sample.density
        stop = end_offset if after is None else min(after.start_offset, end_offset)
        if inside < stop:
            yield inside, stop, max(sample.density, after.density if after else 0.0)
