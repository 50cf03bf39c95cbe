"""Offsets as JSON, and shares of a limit."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.errors import ConfigError
from ledgerstone.spark.offsets import (
    backlog,
    from_json,
    limited,
    parse_offsets,
    recreated,
    to_json,
    topic_ids_in,
)
from ledgerstone.types import TopicPartition

_OFFSETS = st.dictionaries(
    st.builds(TopicPartition, st.text(min_size=1, max_size=5), st.integers(0, 2**31 - 1)),
    st.integers(0, 2**63 - 1),
    max_size=12,
)


@given(_OFFSETS)
def test_offsets_survive_the_checkpoint(offsets: dict[TopicPartition, int]) -> None:
    text = json.dumps(to_json(offsets))

    assert from_json(json.loads(text)) == offsets


@given(_OFFSETS)
def test_the_same_offsets_are_the_same_text_whatever_order_they_came_in(
    offsets: dict[TopicPartition, int],
) -> None:
    backwards = dict(reversed(offsets.items()))

    assert json.dumps(to_json(backwards)) == json.dumps(to_json(offsets))


def test_partitions_are_sorted_as_numbers() -> None:
    offsets = {TopicPartition("t", number): 0 for number in (10, 9, 1)}

    assert list(to_json(offsets)["t"]) == ["1", "9", "10"]


def test_ids_of_topics_travel_with_the_offsets_and_hold_none() -> None:
    offsets = {TopicPartition("t", 0): 5, TopicPartition("u", 3): 7}

    content = to_json(offsets, {"t": "A" * 22, "gone": "B" * 22})

    assert content == {"t": {"0": 5}, "u": {"3": 7}, f"t#{'A' * 22}": {}}
    assert (from_json(content), topic_ids_in(content)) == (offsets, {"t": "A" * 22})


def test_a_topic_is_another_one_only_if_both_ids_are_known() -> None:
    before = {"same": "1", "other": "1", "gone": "1"}

    assert recreated(before, {"same": "1", "other": "2", "new": "3"}) == ["other"]
    assert recreated({}, {"t": "1"}) == []


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("[1]", "an object like"),
        ('{"t": 5}', "needs an object"),
        ('{"t": {"x": 5}}', "not the number of a partition"),
        ('{"t": {"0": -3}}', "t-0 has -3"),
        ('{"t": {"0": "5"}}', "t-0 has '5'"),
        ('{"t": {"0": true}}', "t-0 has True"),
        ('{"t": {"0": 9223372036854775808}}', "not a number from"),
        ("{", "not JSON"),
    ],
)
def test_wrong_json_is_refused_with_what_is_wrong(text: str, part: str) -> None:
    with pytest.raises(ConfigError, match=part):
        parse_offsets(text, "startingOffsets", minimum=-2)


def test_a_limit_is_shared_by_how_much_waits() -> None:
    start = {TopicPartition("t", number): 100 for number in range(3)}
    end = {TopicPartition("t", 0): 1100, TopicPartition("t", 1): 200, TopicPartition("t", 2): 100}

    found = limited(start, end, 110)

    assert [offset - 100 for offset in found.values()] == [100, 10, 0]


@given(
    st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=1, max_size=8),
    st.integers(1, 5000),
)
def test_a_limit_moves_everything_that_waits_and_passes_no_end(
    spans: list[tuple[int, int]], limit: int
) -> None:
    start = {TopicPartition("t", n): first for n, (first, _) in enumerate(spans)}
    end = {TopicPartition("t", n): first + size for n, (first, size) in enumerate(spans)}

    found = limited(start, end, limit)

    assert all(start[each] <= found[each] <= end[each] for each in end)
    assert all(found[each] > start[each] for each in end if end[each] > start[each])
    assert backlog(start, found) <= limit + len(spans)


def test_backlog_counts_no_partition_that_went_back() -> None:
    start, end = {TopicPartition("t", 0): 10}, {TopicPartition("t", 0): 5}

    assert backlog(start, end) == 0
