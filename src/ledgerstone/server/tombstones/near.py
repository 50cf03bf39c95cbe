"""Deletes that look as if they had failed: counted, sampled, reported, never refused. Grade D.

On compacted topics a value that is empty, `null` in four letters, or a schema registry's frame
around nothing is kept for ever like any other value, though its producer may have meant a
tombstone. Nothing of keys and values is kept here: a sample says where, and of which kind. Whether
tombstones go to the wrong partition is looked at in `stray`.
"""

import logging
from collections import deque
from typing import Any, Final, NamedTuple

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.records.records_facts import NearKind, NearTombstones
from ledgerstone.server.metrics import MetricSample
from ledgerstone.server.throttle import LogThrottle
from ledgerstone.server.tombstones.stray import Stray, StrayChecks
from ledgerstone.types import TopicPartition

_LOG: Final = logging.getLogger(__name__)
SAMPLES_KEPT: Final = 16
NAMES: Final = {
    NearKind.EMPTY: "empty",
    NearKind.NULL_TEXT: "null_text",
    NearKind.FRAMED_NULL: "framed_null",
}
STRAY: Final = "stray_tombstone"
KINDS: Final = (*NAMES.values(), STRAY)


class NearSample(NamedTuple):
    offset: int
    kind: str
    at_ms: int
    live_in: int | None = None  # the partition that has the key of a stray tombstone


@dataclass(slots=True)
class PartitionNear:
    """What was seen in one partition since the broker started."""

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    samples: deque[NearSample] = field(default_factory=lambda: deque(maxlen=SAMPLES_KEPT))

    def to_json(self) -> dict[str, Any]:
        """The newest sample first."""
        return {
            "counts": dict(self.counts),
            "samples": [each._asdict() for each in reversed(self.samples)],
        }


@dataclass(slots=True)
class NearTombstoneWatch:
    """One for a broker, told of every produced batch that has something of the kind."""

    strays: StrayChecks
    _seen: dict[TopicPartition, PartitionNear] = field(default_factory=dict)
    _throttle: LogThrottle = field(default_factory=LogThrottle)

    def of(self, tp: TopicPartition) -> PartitionNear:
        return self._seen.get(tp) or PartitionNear()

    def appended(
        self, tp: TopicPartition, first_offset: int, near: NearTombstones, *, now_ms: int
    ) -> None:
        known = self._seen.setdefault(tp, PartitionNear())
        sample = NearSample(first_offset + near.first_index, NAMES[near.first_kind], now_ms)
        if not known.counts[sample.kind]:
            # Once: a producer of empty values writes them all day. Throttled: topics may be many.
            suppressed = self._throttle.admit("near-tombstone", now_ms)
            if suppressed is not None:
                _LOG.warning(
                    "near-tombstone partition=%s offset=%d kind=%s suppressed=%d",
                    tp, sample.offset, sample.kind, suppressed,
                )  # fmt: skip
        for kind, count in zip(NearKind, near.counts, strict=True):
            known.counts[NAMES[kind]] += count
        known.samples.append(sample)

    def search_if_due(self) -> None:
        """Begins a search for stray tombstones if one is due and none is under way."""
        clock = self.strays.clock
        self.strays.start_due(lambda stray: self.found_stray(stray, now_ms=clock.now_ms()))

    def found_stray(self, stray: Stray, *, now_ms: int) -> None:
        tp = stray.topic_partition
        known = self._seen.setdefault(tp, PartitionNear())
        known.counts[STRAY] += 1
        known.samples.append(NearSample(stray.offset, STRAY, now_ms, stray.live_in))
        suppressed = self._throttle.admit("stray tombstone", now_ms)
        if suppressed is not None:
            _LOG.warning(
                "stray tombstone partition=%s offset=%d live_in=%d suppressed=%d",
                tp, stray.offset, stray.live_in, suppressed,
            )  # fmt: skip

    def forget(self, topic: str) -> None:
        """Its name may come back, and is another topic then."""
        for tp in [tp for tp in self._seen if tp.topic == topic]:
            del self._seen[tp]
        self.strays.forget(topic)

    def samples(self) -> list[MetricSample]:
        text = "Records that look like deletes that failed, by kind."
        totals: dict[tuple[str, str], int] = {}
        for tp, known in self._seen.items():
            for kind, count in known.counts.items():
                totals[tp.topic, kind] = totals.get((tp.topic, kind), 0) + count
        return [
            MetricSample(
                "ledgerstone_near_tombstones_total", "counter", text, count,
                (("topic", topic), ("kind", kind)),
            )
            for (topic, kind), count in sorted(totals.items())
            if count
        ]  # fmt: skip
