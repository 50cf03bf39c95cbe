"""What is written into the golden topics, as functions of a writer and nothing else.

Everything is derived from fixed seeds. Record timestamps start at T; only topics with producer
ids use a recent time instead, because Kafka forgets producers whose last batch is a day old.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from golden.kafka_client import BatchWriter, Record, TransactionalWriter

T = 1_700_000_000_000
HOUR_MS = 3_600_000
SEGMENT_BYTES = 2048  # of the topics that are compacted

HEADERS = (
    ("trace", b"\x00\x01\xfe\xff"),
    ("empty", b""),
    ("null", None),
    ("twice", b"first"),
    ("twice", b"second"),
    ("größe", "naïve ☕".encode()),
)


def edge_records(start_ms: int) -> list[Record]:
    """One of each kind a reader may trip over; timestamps go up and down."""
    return [
        Record(start_ms + 50, b"key", b"value"),
        Record(start_ms + 40, None, b"null key"),
        Record(start_ms + 60, b"", b"empty key"),
        Record(start_ms, b"tombstone", None),
        Record(start_ms + 90, b"empty-value", b""),
        Record(start_ms + 10, None, None),
        Record(start_ms + 20, b"", b""),
        Record(start_ms + 30, "schlüssel-☃".encode(), "значение 🪨".encode()),
        Record(start_ms + 90, b"headers", b"with headers", HEADERS),
        Record(start_ms + 80, b"headers", None, HEADERS[2:5]),
        Record(start_ms + 1, b"\x00\xff\xfe\n\r", bytes(range(256))),
    ]


def codec_batches(seed: int, *, big_value_bytes: int) -> Iterator[list[Record]]:
    """Small, large, compressible and random batches; time leaps by two hours twice."""
    dice = random.Random(seed)
    clock = T
    yield edge_records(clock)
    for number in range(20):
        clock += 2 * HOUR_MS if number in (7, 14) else dice.randrange(500, 5000)
        if number == 2:
            yield [Record(clock + i, b"k%d" % (i % 7), b"many %04d" % i) for i in range(60)]
        elif number == 5:
            yield [Record(clock, b"big", _text(big_value_bytes))]
        elif number == 9:
            yield [Record(clock - 10 * i, b"down%d" % i, b"falling timestamps") for i in range(8)]
        elif number == 11:
            yield [Record(clock, b"random", dice.randbytes(500))]
        elif number == 16:
            yield edge_records(clock)
        else:
            yield [_small_record(dice, clock) for _ in range(dice.randrange(1, 7))]


def _text(size: int) -> bytes:
    words = b"ledger stone flat inscribed laid over a grave "
    return (words * (size // len(words) + 1))[:size]


def _small_record(dice: random.Random, clock: int) -> Record:
    key = b"key-%02d" % dice.randrange(30)
    value = b"value " * dice.randrange(1, 20)
    headers = HEADERS[: dice.randrange(3)] if dice.random() < 0.3 else ()
    return Record(clock + dice.randrange(-200, 200), key, value, headers)


def write_codec(writer: BatchWriter, topic: str, big_value_bytes: int) -> None:
    for batch in codec_batches(1, big_value_bytes=big_value_bytes):
        writer.write(topic, batch)


def write_plain(writer: BatchWriter, topic: str, batches: int, start_ms: int, seed: int) -> None:
    dice = random.Random(seed)
    for number in range(batches):
        clock = start_ms + number * 1000
        writer.write(topic, [_small_record(dice, clock) for _ in range(dice.randrange(1, 6))])


def write_idempotent(
    first: BatchWriter, second: BatchWriter, plain: BatchWriter, topic: str, start_ms: int
) -> None:
    """Two producers with ids in turn, and one without."""
    for number in range(18):
        writer = (first, first, second, plain)[number % 4]
        clock = start_ms + number * 1000
        size = 1 + number % 5
        writer.write(topic, [Record(clock + i, b"k%d" % i, b"v" * 30) for i in range(size)])


# --- transactions -----------------------------------------------------------------------------


def _batch(clock: int, name: str, size: int) -> list[Record]:
    return [
        Record(clock + i, f"{name}{i}".encode(), f"{name} {clock}".encode()) for i in range(size)
    ]


def write_transactions(
    bootstrap: str, plain: BatchWriter, topic: str, start_ms: int
) -> list[TransactionalWriter]:
    """Committed, aborted, interleaved, fenced and one open transaction; returns all writers.

    The caller keeps them alive until the broker has stopped, or the open one would end.
    """
    clock = iter(range(start_ms, start_ms + HOUR_MS, 1000))
    a = TransactionalWriter(bootstrap, transactional_id="a")
    b = TransactionalWriter(bootstrap, transactional_id="b")

    a.begin()
    a.write(topic, _batch(next(clock), "a-commit", 3))
    a.write(topic, _batch(next(clock), "a-commit", 2))
    a.commit()
    b.begin()
    b.write(topic, _batch(next(clock), "b-abort", 2))
    b.write(topic, _batch(next(clock), "b-abort", 1))
    b.abort()
    # Empty ones write no marker.
    a.begin()
    a.commit()

    for turn in range(4):
        a.begin()
        b.begin()
        a.write(topic, _batch(next(clock), f"a{turn}-", 2 + turn))
        b.write(topic, _batch(next(clock), f"b{turn}-", 1 + turn))
        plain.write(topic, _batch(next(clock), "plain", 2))
        a.write(topic, _batch(next(clock), f"a{turn}-", 1))
        b.write(topic, _batch(next(clock), f"b{turn}-", 2))
        _end(a, commit=turn in (1,))
        b.write(topic, _batch(next(clock), f"b{turn}-", 1))
        _end(b, commit=turn in (0, 1))

    # A long transaction over several segments while others come and go; aborted in the end.
    a.begin()
    a.write(topic, _batch(next(clock), "long", 2))
    for turn in range(3):
        b.begin()
        b.write(topic, _batch(next(clock), f"short{turn}-", 6))
        _end(b, commit=turn != 1)
        plain.write(topic, _batch(next(clock), "plain", 4))
    a.write(topic, _batch(next(clock), "long", 2))
    a.abort()

    # Fenced: a second producer with the same id ends the first one's transaction.
    c = TransactionalWriter(bootstrap, transactional_id="c")
    c.begin()
    c.write(topic, _batch(next(clock), "fenced", 2))
    fencing = TransactionalWriter(bootstrap, transactional_id="c")
    fencing.begin()
    fencing.write(topic, _batch(next(clock), "fencing", 1))
    fencing.commit()

    b.begin()
    b.write(topic, _batch(next(clock), "open", 2))
    a.begin()
    a.write(topic, _batch(next(clock), "after-open", 2))
    a.commit()
    b.write(topic, _batch(next(clock), "open", 1))
    return [a, b, c, fencing]


def _end(writer: TransactionalWriter, *, commit: bool) -> None:
    if commit:
        writer.commit()
    else:
        writer.abort()


# --- compaction -------------------------------------------------------------------------------


def compacted_batches(round_number: int, start_ms: int) -> Iterator[list[Record]]:
    """Updates and deletes of few keys, so that most records are superseded."""
    dice = random.Random(100 + round_number)
    keys = [b"", "ключ".encode(), *(b"key-%02d" % number for number in range(14))]
    clock = start_ms + round_number * HOUR_MS
    # Written once in round 0 and never again: survivors at the very start of the log.
    if round_number == 0:
        yield [Record(clock, b"once-%d" % i, b"kept from the start", HEADERS[:1]) for i in range(3)]
        yield [Record(clock, b"deleted-once", b"x" * 40)]
        yield [Record(clock + 1, b"deleted-once", None, HEADERS[:2])]
    for _ in range(36):
        clock += dice.randrange(100, 3000)
        yield [_update(dice, keys, clock) for _ in range(dice.choice((1, 1, 2, 3, 5)))]
    # The tail of the dirty part: a batch of tombstones only, and one of mixed records.
    yield [Record(clock + 10, keys[i], None) for i in (2, 3)]
    yield [Record(clock + 20, keys[4], None), Record(clock + 30, keys[5], b"live")]
    # The active segment, which no pass touches.
    yield filler(dice, clock + 40)


def filler(dice: random.Random, clock: int, size: int = 25) -> list[Record]:
    """A batch just under SEGMENT_BYTES that does not compress: it always rolls a segment."""
    return [Record(clock, b"filler-%d" % i, dice.randbytes(60)) for i in range(size)]


def _update(dice: random.Random, keys: Sequence[bytes], clock: int) -> Record:
    key = dice.choice(keys)
    kind = dice.random()
    value = None if kind < 0.2 else b"" if kind < 0.25 else b"v%d " % clock * dice.randrange(1, 5)
    headers = HEADERS[: dice.randrange(4)] if dice.random() < 0.2 else ()
    return Record(clock + dice.randrange(-50, 50), key, value, headers)


def write_compacted(writer: BatchWriter, topic: str, round_number: int, start_ms: int) -> None:
    for batch in compacted_batches(round_number, start_ms):
        writer.write(topic, batch)


def write_compacted_transactions(
    bootstrap: str, plain: BatchWriter, topic: str, round_number: int, start_ms: int
) -> list[BatchWriter]:
    """Committed and aborted transactions over few keys, and producers that fall silent.

    Some producers write in round 0 only: their last batch must outlive its records.
    """
    base = start_ms + round_number * 60_000
    clock = iter(range(base, base + 60_000, 100))
    x = TransactionalWriter(bootstrap, transactional_id="x")
    y = TransactionalWriter(bootstrap, transactional_id="y")
    writers: list[BatchWriter] = [x, y]

    def rows(names: str, tombstone: bool = False) -> list[Record]:
        now = next(clock)
        value = None if tombstone else f"round {round_number} at {now - base}".encode()
        return [Record(now, name.encode(), value) for name in names]

    if round_number == 0:
        silent = BatchWriter(bootstrap, {"enable.idempotence": True})
        silent.write(topic, rows("abc"))
        silent.write(topic, rows("de"))
        quiet = TransactionalWriter(bootstrap, transactional_id="quiet")
        quiet.begin()
        quiet.write(topic, rows("fgh"))
        quiet.commit()
        hushed = TransactionalWriter(bootstrap, transactional_id="hushed")
        hushed.begin()
        hushed.write(topic, rows("ij"))
        hushed.abort()
        writers += [silent, quiet, hushed]
    for turn in range(6):
        x.begin()
        y.begin()
        x.write(topic, rows("abcd"[turn % 3 :]))
        y.write(topic, rows("efgh"[turn % 2 :]))
        x.write(topic, rows("ab", tombstone=turn % 3 == 0))
        plain.write(topic, rows("ijk"))
        _end(x, commit=turn % 2 == 0)
        _end(y, commit=turn % 3 != 1)
    plain.write(topic, rows("cd", tombstone=True))
    plain.write(topic, rows("abefghijk"))
    x.begin()
    x.write(topic, rows("lm"))
    x.commit()
    # Aborted data just below the active segment, which holds the marker and a later transaction:
    # the batch is kept without records only because it ends the cleanable range (KAFKA-17076).
    x.begin()
    x.write(topic, rows("nopqrstuvwxyz"))
    plain.write(topic, filler(random.Random(round_number), next(clock), size=22))
    x.abort()
    x.begin()
    x.write(topic, rows("l"))
    x.commit()
    return writers
