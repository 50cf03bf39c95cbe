"""The chain over the journal: what is taken out, changed or put in is seen; compaction is not."""

from collections.abc import Iterator
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.erasure.journal_chain import (
    FIRST,
    Chain,
    ChainLink,
    JournalMark,
    decode_link,
    header_in,
)
from tests.kit.sized import examples

KEY = bytes(range(32))
Written = tuple[bytes, bytes | None, bytes | None]


def written(records: list[tuple[bytes, bytes | None]], chain: Chain | None = None) -> list[Written]:
    """As the broker does it: linked, then taken."""
    chain = chain or Chain(KEY)
    made: list[Written] = []
    for link, (key, value) in zip(chain.links_for(records), records, strict=True):
        made.append((key, value, link.encode()))
        assert chain.take(key, value, link.encode()) == (True, None)
    return made


def problems_of(records: list[Written], mark: JournalMark | None, key: bytes = KEY) -> list[str]:
    chain = Chain(key, mark)
    found = [taken.problem for each in records if (taken := chain.take(*each)).problem]
    return [*found, *chain.problems_at_end()]


def mark_of(records: list[Written]) -> JournalMark:
    link = decode_link(records[-1][2] or b"")
    assert link is not None
    return JournalMark(link.sequence, link.code)


def compacted(records: list[Written], upto: int) -> list[Written]:
    """What a pass over the first `upto` records leaves."""
    last = {key: index for index, (key, _, _) in enumerate(records[:upto])}
    return [each for index, each in enumerate(records) if index >= upto or last[each[0]] == index]


def history() -> list[Written]:
    return written([(b"secrets", b"s"), (b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"c", b"1"),
                    (b"b", b"2"), (b"a", b"3")])  # fmt: skip


def test_journal_as_it_was_written_has_no_problem() -> None:
    assert problems_of(history(), mark_of(history())) == []


@given(
    keys=st.lists(st.sampled_from([b"a", b"b", b"c", b"d"]), min_size=1, max_size=12),
    upto=st.integers(0, 12),
    old=st.integers(0, 3),
)
@examples(200)
def test_compaction_is_never_taken_for_a_loss(keys: list[bytes], upto: int, old: int) -> None:
    chain = Chain(KEY)
    before: list[Written] = [(key, b"old", None) for key in keys[:old]]
    for each in before:
        chain.take(*each)
    records = before + written([(key, b"%d" % index) for index, key in enumerate(keys)], chain)

    assert problems_of(compacted(records, upto), mark_of(records)) == []


def test_every_removal_of_what_compaction_would_keep_is_seen() -> None:
    records = history()
    latest = {key: index for index, (key, _, _) in enumerate(records)}

    for count in (1, 2, 3):
        for gone in combinations(range(len(records)), count):
            left = [each for index, each in enumerate(records) if index not in gone]
            is_seen = bool(problems_of(left, mark_of(records)))
            assert is_seen == any(index in latest.values() for index in gone), gone


def test_shrunken_journal_is_seen_by_its_mark_alone() -> None:
    records = history()

    for size in range(1, len(records)):
        assert problems_of(records[:size], None if size == 1 else mark_of(records[:size])) == []
        (problem,) = problems_of(records[:size], mark_of(records))
        assert f"it ends with number {size}, and had gone to number 7" in problem
    assert "had gone to number 7" in problems_of([], mark_of(records))[0]


def test_every_changed_byte_is_seen() -> None:
    records = history()
    for index, (key, value, header) in enumerate(records):
        assert value is not None
        assert header is not None
        for changed in _changes(key, value, header):
            left = [*records[:index], changed, *records[index + 1 :]]
            assert problems_of(left, mark_of(records)), (index, changed)


def _changes(key: bytes, value: bytes, header: bytes) -> Iterator[Written]:
    yield key, value + b"x", header
    yield key, None, header
    yield key + b"x", value, header
    for position in range(len(header)):
        flipped = bytearray(header)
        flipped[position] ^= 1
        yield key, value, bytes(flipped)
    yield key, value, header[:-1]
    yield key, value, b""


@pytest.mark.parametrize("position", range(1, 8))
@pytest.mark.parametrize("value", [b"1", None])
def test_record_without_a_link_does_not_count(position: int, value: bytes | None) -> None:
    records = history()
    chain = Chain(KEY, mark_of(records))

    taken = [
        chain.take(*each)
        for each in [*records[:position], (b"a", value, None), *records[position:]]
    ]

    assert [each.counts for each in taken].index(False) == position
    assert "somebody else wrote it" in (taken[position].problem or "")
    # The others are all there, and their sum is right.
    assert chain.problems_at_end() == []


def test_record_that_comes_twice_counts_once() -> None:
    records = history()

    problems = problems_of([*records, records[1]], mark_of(records))

    assert problems == ["it is number 2, after number 7"]


def test_records_of_two_histories_are_told_apart() -> None:
    records = history()
    other = written([(key, b"x") for key, _, _ in records])

    problems = problems_of([*records[:3], *other[3:]], mark_of(records))

    assert "the record before it is not the one it was linked to, 3" in problems
    assert any("not the record that was remembered" in each for each in problems)


def test_links_of_another_key_do_not_fit() -> None:
    chain = Chain(bytes(32))

    taken = [chain.take(*each) for each in history()]

    assert chain.linked == 0
    assert not any(each.counts for each in taken)


def test_older_journal_is_read_and_goes_on_with_a_chain() -> None:
    old: list[Written] = [(b"secrets", b"s", None), (b"a", b"1", None), (b"b", b"1", None)]
    chain = Chain(KEY)
    assert [chain.take(*each) for each in old] == [(True, None)] * 3
    records = old + written([(b"secrets", b"s"), (b"a", b"2")], chain)

    assert problems_of(records, mark_of(records)) == []
    assert problems_of(compacted(records, 5), mark_of(records)) == []
    # From the first link on what came before it is held too.
    assert problems_of([*records[:2], *records[3:]], mark_of(records))


def test_long_journal_whose_mark_is_gone_is_told() -> None:
    records = history()

    assert "how far it had gone was not remembered" in problems_of(records, None)[0]
    # A crash before the first mark was written.
    assert problems_of(records[:1], None) == []


def test_numbers_go_on_after_a_loss() -> None:
    records = history()
    chain = Chain(KEY, mark_of(records))
    chain.go_on_after(mark_of(records))

    (link,) = chain.links_for([(b"breaks", b"1")])

    assert (link.sequence, link.previous, link.keys) == (8, mark_of(records).code, 1)


def test_link_is_found_among_other_headers() -> None:
    link = ChainLink(1, 1, FIRST, 0, FIRST).encode()

    assert header_in([("other", b"x"), ("ledgerstone.chain", link)]) == link
    assert header_in([]) is None
