"""Each anomaly is found in the smallest history that shows it, and clean ones pass."""

from dataclasses import replace

import pytest

from ledgerstone.sim.history.check import check
from ledgerstone.sim.history.operations import (
    Assigned,
    ClientHistory,
    LogRead,
    OffsetCommitted,
    OffsetFetched,
    Operation,
    OpOutcome,
    RecordsRead,
    Seen,
    Sent,
    TopicFacts,
    Trimmed,
    TxnEnded,
)
from ledgerstone.types import TopicPartition

PLACE = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)
KEYED = TopicPartition("k", 0)
COMPACTED = TopicFacts(topic="k", compacted=True, delete_retention_ms=1_000)


def sent(
    id_: str,
    offset: int | None,
    outcome: OpOutcome = OpOutcome.OK,
    *,
    at: float = 0,
    txn: str | None = None,
    place: TopicPartition = PLACE,
    order: int | None = None,
) -> Sent:
    return Sent(
        client="p",
        start_ms=at,
        end_ms=None if outcome is OpOutcome.UNKNOWN else at + 1,
        place=place,
        id=id_,
        outcome=outcome,
        offset=offset,
        txn=txn,
        order=order,
    )


def keyed(id_: str, offset: int, key: str, *, deletes: bool = False, at: float = 0) -> Sent:
    return replace(sent(id_, offset, at=at, place=KEYED), key=key, deletes=deletes)


def polled(low: int, high: int, *records: tuple[int, str], committed: bool = False) -> RecordsRead:
    return RecordsRead(
        client="c",
        start_ms=5,
        end_ms=6,
        place=PLACE,
        position=low,
        next_position=high,
        records=tuple(Seen(*each) for each in records),
        committed=committed,
    )


def log(
    high: int,
    *records: tuple[int, str],
    place: TopicPartition = PLACE,
    at: float = 100,
    committed: bool = False,
    replica: int | None = None,
    start: int = 0,
    final: bool = True,
) -> LogRead:
    return LogRead(
        client="r",
        start_ms=at,
        end_ms=at,
        place=place,
        start_offset=start,
        high_watermark=high,
        records=tuple(Seen(*each) for each in records),
        committed=committed,
        replica=replica,
        final=final,
    )


def ended(
    txn: str, outcome: OpOutcome = OpOutcome.OK, *, commits: bool = True, at: float = 3
) -> TxnEnded:
    return TxnEnded(
        client="p", start_ms=at, end_ms=at + 1, txn=txn, commits=commits, outcome=outcome
    )


def stored(
    offset: int, at: float, outcome: OpOutcome = OpOutcome.OK, txn: str | None = None
) -> OffsetCommitted:
    return OffsetCommitted(
        client="c",
        start_ms=at,
        end_ms=None if outcome is OpOutcome.UNKNOWN else at + 1,
        group="g",
        place=PLACE,
        offset=offset,
        outcome=outcome,
        txn=txn,
    )


def found(offset: int, at: float) -> OffsetFetched:
    return OffsetFetched(
        client="c", start_ms=at, end_ms=at + 1, group="g", place=PLACE, offset=offset
    )


def assigned(position: int) -> Assigned:
    return Assigned(client="c", start_ms=4, end_ms=4, place=PLACE, position=position)


def kinds(*operations: Operation) -> set[str]:
    return {anomaly.kind for anomaly in check(ClientHistory(list(operations)))}


CLEAN: dict[str, tuple[Operation, ...]] = {
    "nothing": (),
    "sent and read": (
        sent("a", 0),
        sent("b", 1),
        polled(0, 1, (0, "a")),
        polled(1, 2, (1, "b")),
        log(2, (0, "a"), (1, "b")),
    ),
    "an unknown send appeared": (sent("a", None, OpOutcome.UNKNOWN), log(1, (0, "a"))),
    "an unknown send vanished": (sent("a", None, OpOutcome.UNKNOWN), log(0)),
    "a failed send stays away": (sent("a", None, OpOutcome.FAILED), log(0)),
    "an aborted record in an uncommitted read": (
        sent("a", 0, txn="x"),
        ended("x", commits=False),
        polled(0, 1, (0, "a")),
        log(2, committed=True),
    ),
    "a committed transaction": (
        sent("a", 0, txn="x"),
        sent("b", 0, txn="x", place=OTHER),
        ended("x"),
        polled(0, 2, (0, "a"), committed=True),
        log(2, (0, "a"), committed=True),
        log(2, (0, "b"), place=OTHER, committed=True),
    ),
    "a committed reader passes over an open transaction that was aborted": (
        sent("a", 0, txn="x"),
        sent("b", 1),
        ended("x", OpOutcome.UNKNOWN),
        polled(0, 3, (1, "b"), committed=True),
    ),
    "a consumer is moved back": (
        sent("a", 0),
        polled(0, 1, (0, "a")),
        assigned(0),
        polled(0, 1, (0, "a")),
    ),
    "trimmed records are gone": (
        sent("a", 0),
        sent("b", 1),
        Trimmed(client="o", start_ms=2, end_ms=3, place=PLACE, offset=1),
        log(2, (1, "b"), start=1),
    ),
    "the newest group offset": (stored(3, 0), stored(5, 10), found(5, 20)),
    "concurrent group offsets": (stored(3, 0), stored(5, 0), found(3, 20)),
    "an unknown group offset arrives late": (
        stored(3, 0, OpOutcome.UNKNOWN),
        stored(5, 10),
        found(5, 20),
        found(3, 30),
    ),
    "an unknown group offset that is found before an older one is stored again": (
        stored(3, 0),
        stored(5, 10, OpOutcome.UNKNOWN),
        found(5, 20),
        stored(3, 22, OpOutcome.UNKNOWN),
        found(3, 30),
    ),
    "a group offset of an aborted transaction": (
        stored(3, 0),
        stored(5, 10, txn="x"),
        ended("x", commits=False, at=12),
        found(3, 20),
    ),
    "a superseded value is gone": (COMPACTED, keyed("a", 0, "k"), keyed("b", 1, "k"),
                                   log(2, (1, "b"), place=KEYED)),
    "a deleted key is gone with its tombstone": (
        COMPACTED,
        keyed("a", 0, "k"),
        keyed("b", 1, "k", deletes=True),
        log(2, place=KEYED, at=2_000),
    ),
    "a tombstone stands before what it deletes is gone": (
        COMPACTED,
        keyed("a", 0, "k"),
        keyed("b", 1, "k", deletes=True),
        log(2, (0, "a"), (1, "b"), place=KEYED, replica=1),
        log(2, (1, "b"), place=KEYED, replica=2),
    ),
    "a value that an unknown delete may have removed": (
        COMPACTED,
        keyed("a", 0, "k"),
        replace(
            sent("b", None, OpOutcome.UNKNOWN, at=5, place=KEYED), key="k", deletes=True
        ),
        log(2, place=KEYED),
    ),
}  # fmt: skip

ANOMALIES: dict[str, tuple[str, tuple[Operation, ...]]] = {
    "acked and not in the log": ("lost write", (sent("a", 0), log(1))),
    "acked without an offset": ("lost write", (sent("a", None), log(0))),
    "seen and not in the log": (
        "lost write",
        (sent("a", None, OpOutcome.UNKNOWN), polled(0, 1, (0, "a")), log(1)),
    ),
    "missing on one replica": (
        "lost write",
        (sent("a", 0), log(1, (0, "a"), replica=1), log(1, replica=2)),
    ),
    "the log starts above it": ("lost write", (sent("a", 0), log(1, start=1))),
    "a committed transaction lost a record": (
        "lost write",
        (sent("a", 0, txn="x"), ended("x"), log(2, committed=True)),
    ),
    "a last value is gone": (
        "lost write",
        (COMPACTED, keyed("a", 0, "k"), log(1, place=KEYED)),
    ),
    "one record at two offsets": (
        "duplicate",
        (sent("a", 0), log(2, (0, "a"), (1, "a"))),
    ),
    "one record in two partitions": (
        "duplicate",
        (sent("a", 0), log(1, (0, "a")), log(1, (0, "a"), place=OTHER)),
    ),
    "acked at one offset, read at another": (
        "duplicate",
        (sent("a", 0), polled(0, 8, (7, "a"))),
    ),
    "two records at one offset": (
        "inconsistent offset",
        (sent("a", 0), sent("b", None, OpOutcome.UNKNOWN), polled(0, 1, (0, "b"))),
    ),
    "replicas differ": (
        "inconsistent offset",
        (
            sent("a", None, OpOutcome.UNKNOWN),
            sent("b", None, OpOutcome.UNKNOWN),
            log(1, (0, "a"), replica=1),
            log(1, (0, "b"), replica=2),
        ),
    ),
    "a failed send is read": (
        "aborted read",
        (sent("a", None, OpOutcome.FAILED), polled(0, 1, (0, "a"))),
    ),
    "an aborted transaction is read": (
        "aborted read",
        (sent("a", 0, txn="x"), ended("x", commits=False), polled(0, 1, (0, "a"), committed=True)),
    ),
    "a refused commit is read": (
        "aborted read",
        (sent("a", 0, txn="x"), ended("x", OpOutcome.FAILED), log(1, (0, "a"), committed=True)),
    ),
    "an unheard-of record": ("invented record", (polled(0, 1, (0, "z")),)),
    "half of an unknown transaction": (
        "torn transaction",
        (
            sent("a", 0, txn="x"),
            sent("b", 0, txn="x", place=OTHER),
            ended("x", OpOutcome.UNKNOWN),
            log(2, (0, "a"), committed=True),
            log(2, place=OTHER, committed=True),
        ),
    ),
    "a producer's records in another order": (
        "reordered write",
        (sent("a", 1, order=0), sent("b", 0, order=1)),
    ),
    "a position goes back": (
        "nonmonotonic poll",
        (sent("a", 0), polled(0, 1, (0, "a")), polled(0, 1, (0, "a"))),
    ),
    "offsets fall inside of an answer": (
        "nonmonotonic poll",
        (sent("a", 0), sent("b", 1), polled(0, 2, (1, "b"), (0, "a"))),
    ),
    "a position stays behind what was read": (
        "nonmonotonic poll",
        (sent("a", 0), polled(0, 0, (0, "a"))),
    ),
    "a record is passed over": (
        "skipped offset",
        (sent("a", 0), sent("b", 1), polled(0, 2, (1, "b"))),
    ),
    "a record between two polls is passed over": (
        "skipped offset",
        (sent("a", 0), sent("b", 1), sent("c", 2), polled(0, 1, (0, "a")), polled(2, 3, (2, "c"))),
    ),
    "an empty answer passes over a committed record": (
        "skipped offset",
        (sent("a", 0, txn="x"), ended("x"), polled(0, 2, committed=True)),
    ),
    "a log in the middle lacks a record": (
        "skipped offset",
        (sent("a", 0), log(1, final=False)),
    ),
    "an older group offset": ("stale group offset", (stored(3, 0), stored(5, 10), found(3, 20))),
    "a group offset that was found, and then not": (
        "stale group offset",
        (stored(3, 0), stored(5, 10, OpOutcome.UNKNOWN), found(5, 20), found(3, 30)),
    ),
    "no group offset": ("stale group offset", (stored(3, 0), found(-1, 20))),
    "an older group offset than a transaction's": (
        "stale group offset",
        (stored(3, 0), stored(5, 10, txn="x"), ended("x", at=12), found(3, 20)),
    ),
    "an unheard-of group offset": ("invented group offset", (stored(3, 0), found(4, 20))),
    "a refused group offset": (
        "invented group offset",
        (stored(3, 0, OpOutcome.FAILED), found(3, 20)),
    ),
    "a group offset of an aborted transaction": (
        "invented group offset",
        (stored(5, 10, txn="x"), ended("x", commits=False, at=12), found(5, 20)),
    ),
    "a deleted key is back": (
        "resurrected key",
        (
            COMPACTED,
            keyed("a", 0, "k"),
            keyed("b", 1, "k", deletes=True),
            log(2, (0, "a"), place=KEYED, at=5_000),
        ),
    ),
    "a tombstone is gone before its time": (
        "early removed tombstone",
        (COMPACTED, keyed("b", 1, "k", deletes=True, at=500), log(2, place=KEYED, at=1_499)),
    ),
    "a tombstone is gone while a replica holds the value": (
        "early removed tombstone",
        (
            COMPACTED,
            keyed("a", 0, "k"),
            keyed("b", 1, "k", deletes=True),
            log(2, place=KEYED, at=5_000, replica=1),
            log(2, (0, "a"), (1, "b"), place=KEYED, at=5_000, replica=2),
        ),
    ),
    "an id is used twice": ("bad history", (sent("a", 0), sent("a", 1))),
}


@pytest.mark.parametrize("name", CLEAN)
def test_a_clean_history_passes(name: str) -> None:
    assert check(ClientHistory(list(CLEAN[name]))) == []


@pytest.mark.parametrize("name", ANOMALIES)
def test_an_anomaly_is_found(name: str) -> None:
    kind, operations = ANOMALIES[name]
    assert kind in kinds(*operations)


def test_every_anomaly_names_what_shows_it() -> None:
    (anomaly,) = check(ClientHistory([sent("a", 0), log(1, replica=2)]))
    assert str(anomaly) == "lost write: a at 0 of [0, 1), t-0 as r read it on broker 2"


def test_a_reader_of_another_partition_proves_nothing() -> None:
    assert kinds(sent("a", 0), log(0, place=OTHER)) == set()


def test_a_log_that_is_not_final_may_end_earlier() -> None:
    assert kinds(sent("a", 3), log(3, final=False)) == set()
