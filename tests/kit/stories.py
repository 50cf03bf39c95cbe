"""Lives of a partition: what happens to a log from its creation on, as functions of a scribe.

Together they leave every kind of file our storage code writes. Chance comes from seeds, so a story
is the same in every run but for its clock.
"""

from collections.abc import Callable
from random import Random

from ledgerstone.records.batch import Codec
from ledgerstone.records.builder import RecordParts
from ledgerstone.types import INT32_MAX
from tests.kit.scribe import Scribe, Writer

Story = Callable[[Scribe], None]
HOUR_MS = 3_600_000
HEADERS = (
    ("", b""),
    ("null", None),
    ("twice", b"1"),
    ("twice", b"2"),
    ("schlüssel-☃-🜏", "wert ✓".encode()),
    ("bytes", bytes(range(256))),
)


# -- records --------------------------------------------------------------------------------------


def pair(now_ms: int, key: str, value: str | None) -> RecordParts:
    return (now_ms, key.encode(), None if value is None else value.encode(), ())


def plain(now_ms: int, name: str, count: int = 3) -> list[RecordParts]:
    return [pair(now_ms + n, f"{name}-{n}", f"value of {name}-{n}") for n in range(count)]


def odd_records(now_ms: int) -> list[RecordParts]:
    """All that a record may be: nulls, emptiness, every byte, headers, time that runs back."""
    return [
        (now_ms, b"key", b"value", ()),
        (now_ms + 5, None, None, ()),
        (now_ms + 1, b"", b"", HEADERS),
        (now_ms, None, b"no key", ()),
        (now_ms - HOUR_MS, b"earlier", b"than the first", ()),
        (now_ms + 2, b"tombstone", None, ()),
        (now_ms + 2, b"tombstone with a reason", None, (("reason", b"asked for"),)),
        (now_ms + 3, bytes(range(256)), bytes(reversed(range(256))), HEADERS * 3),
    ]


# -- stories --------------------------------------------------------------------------------------


def write_odd_records(codec: Codec) -> Story:
    def story(scribe: Scribe) -> None:
        big = Random(0).randbytes(70_000)  # more than one block of any codec
        for round_number in range(4):
            scribe.put(*odd_records(scribe.now_ms), codec=codec)
            scribe.put(*plain(scribe.now_ms, f"round {round_number}", 60), codec=codec)
            scribe.put((scribe.now_ms, b"big", big, ()), codec=codec)
            for number in range(10):
                scribe.put(pair(scribe.now_ms, f"single-{number}", "x" * number), codec=codec)
            scribe.clock.advance(minutes=7)

    return story


def write_in_every_codec(scribe: Scribe) -> None:
    """What a topic with a codec of its own has to rebuild; and an append of its own kind."""
    for codec in Codec:
        scribe.put(*odd_records(scribe.now_ms), codec=codec)
        scribe.clock.advance(seconds=1)
        scribe.put(*plain(scribe.now_ms, codec.name, 40), codec=codec)
        scribe.clock.advance(seconds=1)


def write_without_timestamps(scribe: Scribe) -> None:
    for number in range(12):
        scribe.put((None, b"k%d" % number, b"no time", ()), (None, b"", None, HEADERS))
    scribe.roll()
    scribe.put((0, b"k", b"the first millisecond", ()), (None, b"k", b"and none", ()))
    scribe.put(*plain(1, "early", 5))
    scribe.put((None, b"k", b"none again", ()))


def write_idempotently(scribe: Scribe) -> None:
    for sequence in range(0, 30, 3):
        for producer_id in (1000, 1001):
            by = Writer(producer_id, 0, sequence)
            scribe.put(*plain(scribe.now_ms, f"p{producer_id}"), by=by)
            assert scribe.put(*plain(scribe.now_ms, f"p{producer_id}"), by=by).duplicate
        scribe.put(*plain(scribe.now_ms, "nobody", 1))
        scribe.clock.advance(ms=40)
    # Sequence numbers go on at 0 after the largest; a new epoch starts at 0 anyway.
    scribe.put(*plain(scribe.now_ms, "late"), by=Writer(1002, 7, INT32_MAX - 1))
    scribe.put(*plain(scribe.now_ms, "wrapped"), by=Writer(1002, 7, 1), codec=Codec.LZ4)
    scribe.put(*plain(scribe.now_ms, "reborn"), by=Writer(1001, 1, 0))


def write_transactions(scribe: Scribe) -> None:
    commits, aborts, across, stays = (Writer(n, 0, 0, True) for n in (2000, 2001, 2002, 2003))
    scribe.put(*plain(scribe.now_ms, "before all", 2))
    scribe.put(*plain(scribe.now_ms, "across"), by=across)
    scribe.put(*plain(scribe.now_ms, "committed"), by=commits, codec=Codec.ZSTD)
    scribe.put(*plain(scribe.now_ms, "aborted"), by=aborts)
    scribe.end_txn(commits, commit=True)
    scribe.end_txn(aborts, commit=False, coordinator_epoch=3)
    scribe.roll()
    for sequence in (3, 6, 9):
        scribe.clock.advance(seconds=1)
        scribe.put(*plain(scribe.now_ms, "across"), by=across._replace(base_sequence=sequence))
        scribe.put(*plain(scribe.now_ms, "between", 1))
    scribe.put(*plain(scribe.now_ms, "aborted"), by=aborts._replace(base_sequence=3))
    scribe.end_txn(across, commit=False)
    scribe.end_txn(aborts, commit=False, coordinator_epoch=3)
    # A coordinator ends the transaction of a producer it fences, or of one without data here.
    scribe.put(*plain(scribe.now_ms, "fenced"), by=commits._replace(base_sequence=3))
    scribe.end_txn(commits._replace(producer_epoch=1), commit=False, coordinator_epoch=4)
    scribe.end_txn(Writer(2004, 0, -1, True), commit=True)
    scribe.put(*plain(scribe.now_ms, "open"), by=stays)
    scribe.put(*plain(scribe.now_ms, "after all", 2))


def change_leaders(scribe: Scribe) -> None:
    for epoch in (0, 1, 1, 2):
        scribe.leader_epoch = epoch
        for _ in range(3):
            scribe.put(*plain(scribe.now_ms, f"epoch {epoch}"))
            scribe.clock.advance(ms=7)
        if epoch == 1:
            scribe.roll()


def compact(codec: Codec, *, passes: int) -> Story:
    """The first pass leaves tombstones and a marker with a horizon, and a producer's last batch
    without records; the second drops the tombstones and empties the marker. No pass leaves the
    work to somebody else."""

    def story(scribe: Scribe) -> None:
        silent, txn, fenced = Writer(3000, 0, 0), Writer(3001, 0, 0, True), Writer(3002, 0, 0, True)
        scribe.put(*[pair(scribe.now_ms, key, "1") for key in "ab"], codec=codec)
        for by in (silent, txn, fenced):
            scribe.put(*[pair(scribe.now_ms, key, "2") for key in "abcx"], codec=codec, by=by)
        scribe.end_txn(txn, commit=True)
        # In its new epoch this producer has written nothing but the marker.
        scribe.end_txn(fenced._replace(producer_epoch=1), commit=True)
        marker = scribe.model.end_offset - 1
        for _ in range(2):
            scribe.clock.advance(seconds=3)
            scribe.put(*plain(scribe.now_ms, "kept", 9), pair(scribe.now_ms, "c", "3"), codec=codec)
            scribe.put(pair(scribe.now_ms, "a", "3"), pair(scribe.now_ms, "d", None), codec=codec)
            scribe.roll()
        gone = [pair(scribe.now_ms, key, None) for key in "xb"]
        scribe.put(*gone, *plain(scribe.now_ms, "last"), codec=codec)
        scribe.put(pair(scribe.now_ms, "only", None), codec=codec)
        scribe.roll()
        scribe.put(pair(scribe.now_ms, "a", "4"), codec=codec)
        if passes == 0:
            return
        horizon_ms = scribe.now_ms + 24 * HOUR_MS
        scribe.compact(slice(0, 1), delete_horizon_ms=horizon_ms, stamp=[marker])
        scribe.compact(slice(1, 3), delete_horizon_ms=horizon_ms + 1)
        scribe.put(*[pair(scribe.now_ms, f"kept-{n}", "new") for n in range(4)], codec=codec)
        if passes == 2:
            scribe.roll()
            scribe.put(*plain(scribe.now_ms, "kept", 2), codec=codec)
            scribe.compact(slice(0, 2), horizon_passed=True, empty=[marker])

    return story


def cut_inside_a_batch(scribe: Scribe) -> None:
    """First segments go, then an aborted transaction with its index entry."""
    for sequence in range(0, 48, 4):
        scribe.put(*plain(scribe.now_ms, "first", 4), by=Writer(4000, 0, sequence))
        scribe.clock.advance(ms=10)
    scribe.truncate(22)
    scribe.leader_epoch = 1
    for _ in range(6):
        scribe.put(*plain(scribe.now_ms, "second", 2))
        scribe.clock.advance(ms=10)
    aborted = Writer(4001, 0, 0, True)
    scribe.put(*plain(scribe.now_ms, "aborted"), by=aborted)
    scribe.end_txn(aborted, commit=False)
    scribe.truncate(scribe.model.end_offset - 2)
    scribe.put(*plain(scribe.now_ms, "third"), by=Writer(4000, 0, 20))


def die_and_recover(scribe: Scribe) -> None:
    """Twice in the middle of a write, once between two; and go on each time."""
    for number, torn in enumerate((b"\0" * 300, b"", bytes(range(200)))):
        for sequence in range(0, 12, 3):
            by = Writer(5000 + number, 0, sequence, sequence % 2 == 0)
            scribe.put(*plain(scribe.now_ms, f"life {number}"), by=by)
            scribe.put(*odd_records(scribe.now_ms), codec=Codec.GZIP)
            if by.transactional:
                scribe.end_txn(by, commit=sequence == 6)
            scribe.clock.advance(seconds=1)
        assert scribe.crash(torn=torn).bytes_truncated == len(torn)
    scribe.put(*plain(scribe.now_ms, "after all"))


def stop_and_go_on(scribe: Scribe) -> None:
    for number in range(4):
        for sequence in range(0, 9, 3):
            scribe.put(*plain(scribe.now_ms, "run"), by=Writer(6000, number, sequence))
            scribe.clock.advance(ms=25)
        scribe.reopen()
    scribe.put(*plain(scribe.now_ms, "last"), by=Writer(6001, 0, 0))


def delete_the_oldest(scribe: Scribe) -> None:
    for epoch in range(3):
        scribe.leader_epoch = epoch
        for sequence in range(0, 24, 3):
            scribe.put(*plain(scribe.now_ms, "trimmed"), by=Writer(7000 + epoch, 0, sequence))
            scribe.clock.advance(ms=25)
    scribe.delete_before(31)


def follow_a_leader(scribe: Scribe) -> None:
    """Far beyond 32 bits, with holes as a compacted leader has them, many batches at once."""
    base = 5_000_000_000
    scribe.start_at(base)
    for step in range(6):
        at = base + step * 1000
        batches = [(at + n * 7, plain(scribe.now_ms + n, f"far-{n}", 2)) for n in range(12)]
        scribe.follow(*batches)
        scribe.clock.advance(ms=20)


def write_many(scribe: Scribe) -> None:
    for number in range(60):
        scribe.put(*plain(scribe.now_ms, f"many-{number}", 1))
        scribe.clock.advance(ms=1 + number % 3)


def leave_empty(scribe: Scribe) -> None:
    assert scribe.log.log_end_offset == 0


def live_at_random(seed: int, *, compacted: bool = False) -> Story:
    """Any order of everything; the keys of a compacted topic come back."""

    def story(scribe: Scribe) -> None:
        random = Random(seed)
        sequences: dict[int, int] = {}
        cuts = 0
        for step in range(60):
            scribe.clock.advance(ms=random.choice((0, 0, 1, 900)))
            start, end = scribe.model.start_offset, scribe.model.end_offset
            match random.randrange(30):
                case 0 | 1:
                    scribe.roll()
                case 2:
                    scribe.reopen()
                case 3:
                    scribe.crash(torn=random.randbytes(random.choice((0, 1, 60, 500))))
                case 4 if end > start + 8:
                    scribe.truncate(end - random.randrange(1, 8))
                    scribe.leader_epoch = 1
                    sequences.clear()
                    cuts += 1
                case 5 if scribe.model.last_stable_offset > start:
                    # Not beyond: Kafka takes some offset before the start for stable then.
                    stable = scribe.model.last_stable_offset
                    scribe.delete_before(random.randrange(start, stable))
                case 6 | 7 if compacted:
                    _compact_at_random(scribe, random)
                case _:
                    # After a truncation producers start over in a new epoch, as real ones would.
                    producer_id = random.choice((-1, 8000, 8001, 8002))
                    by = Writer(producer_id, cuts, sequences.get(producer_id, 0))
                    records = _records_at_random(scribe, random, step, compacted=compacted)
                    _put_at_random(scribe, random, records, by)
                    sequences[producer_id] = by.base_sequence + len(records)

    return story


def _records_at_random(
    scribe: Scribe, random: Random, step: int, *, compacted: bool
) -> list[RecordParts]:
    count = random.randint(1, 20)
    if compacted:
        values = [random.choice((None, f"step {step}")) for _ in range(count)]
        return [pair(scribe.now_ms, f"k{random.randrange(30)}", value) for value in values]
    return random.choice([odd_records(scribe.now_ms), plain(scribe.now_ms, f"step {step}", count)])


def _put_at_random(scribe: Scribe, random: Random, records: list[RecordParts], by: Writer) -> None:
    codec = random.choice(list(Codec))
    if by.producer_id < 0:
        scribe.put(*records, codec=codec)
    elif by.producer_id < 8002:
        scribe.put(*records, codec=codec, by=by)
    else:
        by = by._replace(transactional=True)
        scribe.put(*records, codec=codec, by=by)
        if random.random() < 0.6:
            scribe.end_txn(by, commit=random.random() < 0.5)


def _compact_at_random(scribe: Scribe, random: Random) -> None:
    """Some sealed segments that lie below every open transaction."""
    bases = [segment.base_offset for segment in scribe.model.segments]
    sealed = sum(end <= scribe.model.last_stable_offset for end in bases[1:])
    if sealed:
        first = random.randrange(sealed)
        scribe.compact(
            slice(first, random.randint(first + 1, sealed)),
            delete_horizon_ms=scribe.now_ms + 24 * HOUR_MS,
            horizon_passed=random.random() < 0.3,
        )
