"""Anomalies of writes: lost, doubled, invented, misplaced, out of order, aborted and seen. Pure."""

from collections import defaultdict
from collections.abc import Iterator

from ledgerstone.sim.history.facts import Anomaly, HistoryFacts, TxnFate
from ledgerstone.sim.history.operations import LogRead, OpOutcome, Sent
from ledgerstone.types import TopicPartition


def lost_writes(facts: HistoryFacts) -> Iterator[Anomaly]:
    """A promised record, or one that a consumer saw, is missing in a final log."""
    placed: dict[TopicPartition, list[tuple[int, Sent]]] = defaultdict(list)
    for sent in facts.sent.values():
        if not facts.is_compacted(sent.place):
            for place, offset in facts.offsets_of.get(sent.id, ()):
                placed[place].append((offset, sent))
    for log in facts.final_logs():
        held = {seen.id for seen in log.records}
        low = facts.trimmed_to(log.place)
        for offset, sent in placed[log.place]:
            if offset >= low and sent.id not in held and _must_stay(facts, sent, log):
                where = f"at {offset} of [{log.start_offset}, {log.high_watermark})"
                yield Anomaly("lost write", f"{sent.id} {where}, {_name(log)}")
    yield from _without_offset(facts)


def _must_stay(facts: HistoryFacts, sent: Sent, log: LogRead) -> bool:
    """Whoever reads a log whole meets all of it; a reader of committed records, what counts."""
    if not log.committed:
        return True
    if facts.is_promised(sent) or sent.id in facts.seen_committed:
        return True
    return sent.txn is None and sent.id in facts.seen


def _without_offset(facts: HistoryFacts) -> Iterator[Anomaly]:
    """Acknowledged without an offset (acks=0 gives none): it must be in every final log."""
    logs: dict[TopicPartition, list[tuple[LogRead, set[str]]]] = defaultdict(list)
    for log in facts.final_logs():
        logs[log.place].append((log, {seen.id for seen in log.records}))
    for sent in facts.sent.values():
        if sent.id in facts.offsets_of or not facts.is_promised(sent):
            continue
        if facts.is_compacted(sent.place) or facts.trimmed_to(sent.place):
            continue
        for log, held in logs[sent.place]:
            if sent.id not in held:
                yield Anomaly("lost write", f"{sent.id} of {sent.client}, {_name(log)}")


def duplicates(facts: HistoryFacts) -> Iterator[Anomaly]:
    """One record at two offsets."""
    for id_, offsets in facts.offsets_of.items():
        if len(offsets) > 1:
            text = ", ".join(f"{p}@{offset}" for p, offset in sorted(offsets))
            yield Anomaly("duplicate", f"{id_} lies at {text}")
    for read in facts.reads:
        held: set[str] = set()
        for seen in read.records:
            if seen.id in held:
                yield Anomaly("duplicate", f"{read.client} read {seen.id} twice in one answer")
            held.add(seen.id)


def inconsistent_offsets(facts: HistoryFacts) -> Iterator[Anomaly]:
    """One offset with two records."""
    for place, offsets in facts.ids_at.items():
        for offset, ids in offsets.items():
            if len(ids) > 1:
                text = f"{place}@{offset} holds {', '.join(sorted(ids))}"
                yield Anomaly("inconsistent offset", text)


def aborted_reads(facts: HistoryFacts) -> Iterator[Anomaly]:
    """A reader met a record that failed, or one of an aborted transaction, or an unheard-of one."""
    told: set[tuple[str, str]] = set()
    for read in facts.reads:
        for seen in read.records:
            sent = facts.sent.get(seen.id)
            if sent is None:
                kind, why = "invented record", "which no client sent"
            elif sent.outcome is OpOutcome.FAILED:
                kind, why = "aborted read", "whose send failed"
            elif read.committed and facts.fate(sent.txn) is TxnFate.ABORTED:
                kind, why = "aborted read", f"of transaction {sent.txn}, which was aborted"
            else:
                continue
            if (kind, seen.id) not in told:
                told.add((kind, seen.id))
                yield Anomaly(kind, f"{read.client} read {seen.id} at {seen.offset}, {why}")


def torn_transactions(facts: HistoryFacts) -> Iterator[Anomaly]:
    """Some records of a transaction are committed and others are not."""
    visible: dict[str, str] = {}
    members: dict[str, list[Sent]] = defaultdict(list)
    for sent in facts.sent.values():
        if sent.txn is not None and sent.outcome is OpOutcome.OK:
            members[sent.txn].append(sent)
            if sent.id in facts.seen_committed:
                visible[sent.txn] = sent.id
    logs: dict[TopicPartition, list[LogRead]] = defaultdict(list)
    for log in facts.final_logs():
        if log.committed:
            logs[log.place].append(log)
    held = {id(log): {seen.id for seen in log.records} for each in logs.values() for log in each}
    for txn, witness in visible.items():
        if facts.fate(txn) is not TxnFate.UNKNOWN:
            continue  # A lost write or an aborted read says it already.
        for sent in members[txn]:
            if facts.is_compacted(sent.place) or facts.trimmed_to(sent.place):
                continue
            for log in logs[sent.place]:
                if sent.id not in held[id(log)]:
                    text = f"{txn} shows {witness} and not {sent.id}, {_name(log)}"
                    yield Anomaly("torn transaction", text)


def reordered_writes(facts: HistoryFacts) -> Iterator[Anomaly]:
    """Records of a producer that keeps order lie in another one."""
    ordered: dict[tuple[str, TopicPartition], list[Sent]] = defaultdict(list)
    for sent in facts.sent.values():
        if sent.order is not None and sent.id in facts.offsets_of:
            ordered[sent.client, sent.place].append(sent)
    for (client, place), sends in ordered.items():
        sends.sort(key=lambda sent: sent.order or 0)
        last, last_id = -1, ""
        for sent in sends:
            offsets = [offset for where, offset in facts.offsets_of[sent.id] if where == place]
            if offsets and min(offsets) < last:
                text = f"{client} sent {last_id} (at {last}) before {sent.id} (at {min(offsets)})"
                yield Anomaly("reordered write", text)
            if offsets and max(offsets) > last:
                last, last_id = max(offsets), sent.id


def reused_ids(facts: HistoryFacts) -> Iterator[Anomaly]:
    """A mistake of the driver: nothing can be said of a record whose id is not its own."""
    for sent in facts.sent_twice:
        yield Anomaly("bad history", f"{sent.client} sent {sent.id}, an id that was used before")


def _name(log: LogRead) -> str:
    where = f"{log.place} as {log.client} read it"
    return where if log.replica is None else f"{where} on broker {log.replica}"
