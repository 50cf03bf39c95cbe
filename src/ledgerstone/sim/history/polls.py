"""Anomalies of consumers: positions that go back, records that are passed over. Pure."""

from collections.abc import Iterator

from ledgerstone.sim.history.facts import Anomaly, HistoryFacts
from ledgerstone.sim.history.operations import Assigned, LogRead, RecordsRead


def nonmonotonic_polls(facts: HistoryFacts) -> Iterator[Anomaly]:
    """Offsets rise inside of an answer, and from one to the next until the consumer moves."""
    for (client, place), moves in facts.moves.items():
        position: int | None = None
        for move in moves:
            if isinstance(move, Assigned):
                position = move.position
                continue
            if position is not None and move.position < position:
                text = f"{client} was at {position} of {place}, then at"
                yield Anomaly("nonmonotonic poll", f"{text} {move.position}")
            yield from _inside(move)
            position = move.next_position


def _inside(poll: RecordsRead) -> Iterator[Anomaly]:
    last = poll.position - 1
    for seen in poll.records:
        if seen.offset <= last:
            text = f"{poll.client} read {seen.id} at {seen.offset} after {last}"
            yield Anomaly("nonmonotonic poll", f"{text} of {poll.place.topic}")
        last = seen.offset
    if poll.next_position <= last:
        text = f"{poll.client} read {last} and stands at {poll.next_position}"
        yield Anomaly("nonmonotonic poll", f"{text} of {poll.place.topic}")


def skipped_offsets(facts: HistoryFacts) -> Iterator[Anomaly]:
    """A consumer of a plain topic went on past a record that must be visible to it."""
    for (_, place), moves in facts.moves.items():
        if facts.is_compacted(place):
            continue
        position: int | None = None
        for move in moves:
            if isinstance(move, Assigned):
                position = move.position
                continue
            low = move.position if position is None else min(position, move.position)
            yield from _passed_over(facts, move, max(low, facts.trimmed_to(place)))
            position = move.next_position
    for log in facts.logs:
        if not log.final and not facts.is_compacted(log.place):
            low = max(log.start_offset, facts.trimmed_to(log.place))
            yield from _passed_over(facts, log, low)


def _passed_over(facts: HistoryFacts, read: RecordsRead | LogRead, low: int) -> Iterator[Anomaly]:
    held = {seen.offset for seen in read.records}
    high = read.next_position if isinstance(read, RecordsRead) else read.high_watermark
    for offset, id_ in facts.known_between(read.place, low, high):
        sent = facts.sent.get(id_)
        if offset in held or sent is None:
            continue
        is_visible = facts.is_promised(sent) if read.committed else True
        if is_visible or id_ in facts.seen_committed:
            where = f"{read.place}"
            text = f"{read.client} went from {low} to {high} of {where} without {id_} at {offset}"
            yield Anomaly("skipped offset", text)
