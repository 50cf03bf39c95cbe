"""One partition folded to the latest record of each key, against a dict."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.errors import CorruptRecord
from ledgerstone.records.arrow import to_arrow
from ledgerstone.records.batch import Codec, write_crc
from ledgerstone.records.builder import build_batch
from ledgerstone.records.kernels import rewrite
from ledgerstone.state.content import bytes_of
from ledgerstone.state.fold import Fold, FoldCounts, FoundKey, KeyStatus
from tests.kit.sized import examples
from tests.unit.state.model import SEED, Model, Written, model_of, models, plain_checksum, put


def folded(
    model: Model, *, size: int = 3, end_offset: int | None = None, committed: bool = True
) -> Fold:
    fold = Fold(seed=SEED)
    end = model.end_offset if end_offset is None else end_offset
    for data, aborted in model.answers(size):
        fold.feed(data, end_offset=end, aborted=aborted if committed else ())
    return fold


def rows(fold: Fold, model: Model, *, size: int = 3) -> dict[bytes, tuple[int, bytes | None]]:
    """What a second pass brings back."""
    found: dict[bytes, tuple[int, bytes | None]] = {}
    for data, _ in model.answers(size):
        for columns in fold.survivors(data, tombstones=True):
            for at in range(len(columns)):
                key = bytes_of(columns, int(columns.key_start[at]), int(columns.key_length[at]))
                length = int(columns.value_length[at])
                start = int(columns.value_start[at])
                value = None if length < 0 else bytes_of(columns, start, length)
                assert key not in found
                found[key] = (int(columns.offset[at]), value)
    return found


@examples(100)
@given(models(), st.integers(1, 5), st.booleans())
def test_fold_is_what_a_dict_says(model: Model, size: int, committed: bool) -> None:
    table, counts = model.state(committed=committed)

    fold = folded(model, size=size, committed=committed)

    live = {key: value for key, (_, value) in table.items() if value is not None}
    assert fold.counts == counts
    assert fold.live_keys == len(live)
    assert fold.deleted_keys == len(table) - len(live)
    assert fold.checksum == plain_checksum(live)
    assert fold.next_offset == model.end_offset
    assert rows(fold, model, size=size) == table
    for key, (offset, value) in table.items():
        status = KeyStatus.DELETED if value is None else KeyStatus.LIVE
        assert fold.lookup(key) == FoundKey(status, offset)


@examples(100)
@given(models(), st.data())
def test_point_in_the_past_takes_only_what_lies_below(model: Model, data: st.DataObject) -> None:
    end = data.draw(st.integers(0, model.end_offset))
    table, counts = model.state(end_offset=end)

    fold = folded(model, end_offset=end)

    assert fold.counts == counts
    assert fold.next_offset == end
    assert rows(fold, model) == table


@examples(100)
@given(models(), st.data())
def test_batches_fed_again_change_nothing(model: Model, data: st.DataObject) -> None:
    answers = model.answers(2)
    fold = Fold(seed=SEED)

    for at, (batches, aborted) in enumerate(answers):
        fold.feed(batches, aborted=aborted)
        repeated, with_aborted = answers[data.draw(st.integers(0, at))]
        fold.feed(repeated, aborted=with_aborted)

    assert fold.counts == model.state()[1]


def test_checksum_is_the_same_however_the_content_was_reached() -> None:
    plain = model_of(put((b"a", b"1"), (b"b", b"2")))
    long_way = model_of(
        put((b"b", b"0"), codec=Codec.ZSTD),
        put((b"c", b"3"), (b"b", b"2"), codec=Codec.GZIP, gap=7),
        put((b"c", None), (None, b"x"), (b"a", b"1"), codec=Codec.LZ4),
    )

    assert folded(plain).checksum == folded(long_way).checksum != 0


@pytest.mark.parametrize(
    "other",
    [
        put((b"a", b"2")),
        put((b"b", b"1")),
        put((b"", b"a1")),
        put((b"a\x021", b"")),
        put((b"a", b"1"), (b"", b"")),
        put((b"a", None)),
    ],
)
def test_checksum_tells_other_content_apart(other: Written) -> None:
    assert folded(model_of(other)).checksum != folded(model_of(put((b"a", b"1")))).checksum


def test_checksum_of_nothing_is_zero() -> None:
    assert folded(model_of(put((b"a", b"1"), (b"a", None)))).checksum == 0


def with_long_varints(key: bytes, value: bytes) -> bytes:
    """A batch of one record whose lengths take a byte more than they need."""
    body = bytes([0, 0, 0, len(key) * 2 | 128, 0]) + key + bytes([len(value) * 2 | 128, 0])
    body += value + b"\0"
    batch = bytearray(build_batch([(1, key, value + b"??", ())]))
    payload = bytes([len(body) * 2]) + body
    assert len(batch) == 61 + len(payload)
    batch[61:] = payload
    write_crc(batch, 0, len(batch))
    return bytes(batch)


@pytest.mark.parametrize(("key", "value"), [(b"abc", b"1234"), (b"", b"1234"), (b"abc", b"")])
def test_lengths_written_with_more_bytes_than_needed_change_no_checksum(
    key: bytes, value: bytes
) -> None:
    fold = Fold(seed=SEED)

    fold.feed(with_long_varints(key, value))

    assert fold.live_keys == 1
    assert fold.checksum == plain_checksum({key: value})


def test_many_keys_are_all_found_again_after_the_table_has_grown() -> None:
    fold = Fold(seed=SEED)
    count = 60_000
    for base in range(0, count, 20_000):
        records = [(1, b"%d" % number, b"v", ()) for number in range(base, base + 20_000)]
        fold.feed(build_batch(records, base_offset=base))
    fold.feed(build_batch([(1, b"59999", None, ())], base_offset=count))

    assert fold.live_keys == count - 1
    assert fold.lookup(b"0") == FoundKey(KeyStatus.LIVE, 0)
    assert fold.lookup(b"59999") == FoundKey(KeyStatus.DELETED, count)
    assert fold.lookup(b"60000") == FoundKey(KeyStatus.NEVER_SEEN, None)


def test_key_written_often_in_one_window_is_one_key() -> None:
    fold = Fold(seed=SEED)

    fold.feed(build_batch([(1, b"%d" % (n % 3), b"v%d" % n, ()) for n in range(5000)]))

    assert fold.live_keys == 3
    assert fold.lookup(b"1") == FoundKey(KeyStatus.LIVE, 4999)
    assert fold.checksum == plain_checksum({b"0": b"v4998", b"1": b"v4999", b"2": b"v4997"})


def test_what_lies_below_a_new_log_start_is_forgotten() -> None:
    fold = folded(model_of(put((b"a", b"1"), (b"b", None), (b"c", b"3"))))

    fold.forget_below(2)
    fold.feed(build_batch([(1, b"b", b"2", ())], base_offset=3))

    assert fold.lookup(b"a") == FoundKey(KeyStatus.NEVER_SEEN, None)
    assert (fold.live_keys, fold.deleted_keys) == (2, 0)
    assert fold.checksum == plain_checksum({b"b": b"2", b"c": b"3"})
    assert fold.counts.recreated == 0


def test_batches_that_go_back_are_refused() -> None:
    data = build_batch([(1, b"a", b"1", ())], base_offset=5) + build_batch([(1, b"a", b"0", ())])

    with pytest.raises(CorruptRecord, match="offsets 0 to 0 after 5"):
        Fold(seed=SEED).feed(data)


def test_records_outside_their_batch_are_refused() -> None:
    data = build_batch([(1, b"a", b"1", ()), (1, b"a", b"0", ())], last_offset_delta=0)

    with pytest.raises(CorruptRecord, match="do not rise"):
        Fold(seed=SEED).feed(data)


def test_damaged_batch_is_refused_and_folds_nothing() -> None:
    data = bytearray(build_batch([(1, b"a", b"1", ())]))
    data[-2] ^= 1
    fold = Fold(seed=SEED)

    with pytest.raises(CorruptRecord, match="crc"):
        fold.feed(data)

    assert fold.counts == FoldCounts()


def test_survivors_become_arrow_and_batches_again() -> None:
    model = model_of(put((b"a", b"1"), (b"b", b"2"), (b"a", b"3")), put((b"c", b"4"), (b"c", None)))
    fold = folded(model)
    data = b"".join(batch.data for batch in model.batches)

    (columns,) = fold.survivors(data)
    ((whole, keep),) = fold.judge(data)

    table = to_arrow(columns, ("key", "value", "offset")).to_pydict()
    assert table == {"key": [b"b", b"a"], "value": [b"2", b"3"], "offset": [1, 2]}
    assert keep.tolist() == [0, 1, 1, 0, 1]
    again = Fold(seed=SEED)
    again.load(rewrite(whole, keep).data)
    assert again.checksum == fold.checksum
    assert again.lookup(b"c") == FoundKey(KeyStatus.DELETED, 4)


@pytest.mark.parametrize(("with_contents", "fact_bytes"), [(True, 40), (False, 24)])
def test_fold_holds_a_key_in_a_few_bytes(with_contents: bool, fact_bytes: int) -> None:
    fold = Fold(seed=SEED, with_contents=with_contents)
    count = 200_000
    for base in range(0, count, 20_000):
        records = [(1, b"%016d" % n, b"v" * 50, ()) for n in range(base, base + 20_000)]
        fold.feed(build_batch(records, base_offset=base))

    facts, slots = fold._keys._facts[: fold.live_keys].nbytes, fold._keys._slots.nbytes

    assert facts == fact_bytes * count
    assert slots <= 24 * count


def test_fold_without_contents_knows_the_same_but_no_checksum() -> None:
    model = model_of(put((b"a", b"1"), (b"b", b"2"), (b"a", b"3")), put((b"c", b"4"), (b"c", None)))
    data = b"".join(batch.data for batch in model.batches)
    fold = Fold(seed=SEED, with_contents=False)

    fold.feed(data)

    whole = folded(model)
    assert fold.counts == whole.counts
    assert (fold.live_keys, fold.deleted_keys) == (2, 1)
    assert [columns.offset.tolist() for columns in fold.survivors(data)] == [[1, 2]]
    with pytest.raises(ValueError, match="does not hash contents"):
        _ = fold.checksum


def test_windows_of_compressed_and_plain_batches_are_folded_in_their_order() -> None:
    turns = [
        put((b"k", b"%d" % n), (b"%d" % n, b"v" * n), codec=codec)
        for n, codec in enumerate([Codec.NONE, Codec.ZSTD, Codec.NONE, Codec.LZ4, Codec.LZ4])
    ]
    model = model_of(*turns)
    fold = Fold(seed=SEED)

    fold.feed(b"".join(batch.data for batch in model.batches))

    live = {b"%d" % n: b"v" * n for n in range(5)} | {b"k": b"4"}
    assert fold.checksum == plain_checksum(live)
    assert fold.lookup(b"k") == FoundKey(KeyStatus.LIVE, 8)


def test_damaged_compressed_batch_is_refused_before_it_is_opened() -> None:
    data = bytearray(build_batch([(1, b"a", b"1" * 100, ())], codec=Codec.ZSTD))
    data[-2] ^= 1

    with pytest.raises(CorruptRecord, match="crc"):
        Fold(seed=SEED).feed(data)


def test_second_pass_finds_the_latest_records_of_a_log_with_gaps() -> None:
    sparse = [build_batch([(1, b"%d" % (n % 7), b"v", ())], base_offset=3 * n) for n in range(20)]
    fold = Fold(seed=SEED)
    fold.feed(b"".join(sparse))

    found = [each.offset.tolist() for batch in sparse for each in fold.survivors(batch)]

    assert [offset for each in found for offset in each] == [3 * n for n in range(13, 20)]


def test_other_key_at_the_offset_of_a_latest_record_does_not_survive() -> None:
    fold = Fold(seed=SEED)
    fold.feed(build_batch([(1, b"a", b"1", ())]))

    (columns,) = fold.survivors(build_batch([(1, b"b", b"1", ())]))

    assert len(columns) == 0
