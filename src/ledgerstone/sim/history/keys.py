"""Anomalies of compacted topics: keys that come back, tombstones that go too early. Pure.

Compaction keeps the last record of each key. A tombstone may go, once its retention is over and
every older value of its key is gone from every replica.
"""

import math
from collections import defaultdict
from collections.abc import Iterator

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.sim.history.facts import Anomaly, HistoryFacts, TxnFate
from ledgerstone.sim.history.operations import LogRead, OpOutcome, Sent
from ledgerstone.types import TopicPartition


@dataclass(slots=True)
class _Writes:
    """Records of one key that surely stand in the log, and where; in the order of offsets."""

    sure: list[tuple[int, Sent]] = field(default_factory=list)
    # From when on a delete may have come that its client does not know the end of.
    maybe_deleted_ms: float = math.inf


def key_anomalies(facts: HistoryFacts) -> Iterator[Anomaly]:
    writes = _by_key(facts)
    views = [_View(facts, log) for log in facts.logs if facts.is_compacted(log.place)]
    for view in views:
        yield from _lost_or_back(view, writes[view.log.place])
        yield from _early(view, writes[view.log.place], facts)
    yield from _dropped_under_others(views, writes)


class _View:
    """One log, by keys."""

    def __init__(self, facts: HistoryFacts, log: LogRead) -> None:
        self.log = log
        self.name = f"{log.place} as {log.client} read it"
        if log.replica is not None:
            self.name += f" on broker {log.replica}"
        self.offsets: dict[str, list[int]] = defaultdict(list)
        self.held: set[int] = set()
        for seen in log.records:
            sent = facts.sent.get(seen.id)
            self.held.add(seen.offset)
            if sent is None or sent.key is None:
                continue
            if facts.fate(sent.txn) is not TxnFate.ABORTED:
                self.offsets[sent.key].append(seen.offset)


def _by_key(facts: HistoryFacts) -> dict[TopicPartition, dict[str, _Writes]]:
    writes: dict[TopicPartition, dict[str, _Writes]] = defaultdict(lambda: defaultdict(_Writes))
    for sent in facts.sent.values():
        if sent.key is None or not facts.is_compacted(sent.place):
            continue
        key = writes[sent.place][sent.key]
        if not (facts.is_promised(sent) or sent.id in facts.seen_committed):
            if sent.deletes and sent.outcome is not OpOutcome.FAILED:
                key.maybe_deleted_ms = min(key.maybe_deleted_ms, sent.start_ms)
            continue
        for place, offset in facts.offsets_of.get(sent.id, ()):
            if place == sent.place:
                key.sure.append((offset, sent))
    for keys in writes.values():
        for each in keys.values():
            each.sure.sort(key=lambda item: item[0])
    return writes


def _lost_or_back(view: _View, writes: dict[str, _Writes]) -> Iterator[Anomaly]:
    """The last sure record of a key stands, or something newer does; a deleted key has no value."""
    for key, each in writes.items():
        below = [item for item in each.sure if item[0] < view.log.high_watermark]
        if not below or view.log.start_offset > below[-1][0]:
            continue
        offset, sent = below[-1]
        held = view.offsets.get(key, [])
        if offset in view.held or any(other > offset for other in held):
            continue
        older = [other for other in held if other < offset]
        if sent.deletes and older:
            text = f"{key} at {older[-1]} of {view.name}, deleted at {offset} ({sent.id})"
            yield Anomaly("resurrected key", text)
        elif not sent.deletes and view.log.over_ms < each.maybe_deleted_ms:
            yield Anomaly("lost write", f"{sent.id}, last of {key} at {offset}, of {view.name}")


def _early(view: _View, writes: dict[str, _Writes], facts: HistoryFacts) -> Iterator[Anomaly]:
    """A tombstone is gone before its retention could be over."""
    retention_ms = facts.topics[view.log.place.topic].delete_retention_ms
    for key, each in writes.items():
        for offset, sent in each.sure:
            if not sent.deletes or offset in view.held:
                continue
            if not view.log.start_offset <= offset < view.log.high_watermark:
                continue
            if any(other > offset for other, _ in each.sure):
                continue  # Superseded: a newer record says what the key is.
            if view.log.over_ms < sent.start_ms + retention_ms:
                text = f"{sent.id} of {key} at {offset} of {view.name}, {retention_ms} ms not over"
                yield Anomaly("early removed tombstone", text)


def _dropped_under_others(
    views: list[_View], writes: dict[TopicPartition, dict[str, _Writes]]
) -> Iterator[Anomaly]:
    """A replica dropped a tombstone while another one, read later, still held an older value."""
    by_place: dict[TopicPartition, list[_View]] = defaultdict(list)
    for view in views:
        if view.log.replica is not None:
            by_place[view.log.place].append(view)
    for place, replicas in by_place.items():
        for key, each in writes[place].items():
            if not each.sure or not each.sure[-1][1].deletes:
                continue
            offset, sent = each.sure[-1]
            for view in replicas:
                if offset in view.held or not (
                    view.log.start_offset <= offset < view.log.high_watermark
                ):
                    continue
                if any(other > offset for other in view.offsets.get(key, ())):
                    continue
                for other in replicas:
                    is_later = other.log.start_ms >= view.log.over_ms
                    is_other = other.log.replica != view.log.replica
                    if is_later and is_other and _holds_older(other, key, offset):
                        text = f"{sent.id} of {key} at {offset} is gone from {view.name}, an older"
                        yield Anomaly("early removed tombstone", f"{text} value is on {other.name}")


def _holds_older(view: _View, key: str, offset: int) -> bool:
    return any(other < offset for other in view.offsets.get(key, ()))
