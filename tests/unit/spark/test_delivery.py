"""Notes of attempts, and what is judged about missed tombstones."""

from ledgerstone.spark.decision import WriteId
from ledgerstone.spark.delivery import note_of, producers_in
from ledgerstone.spark.tombstones import missed_by_offset, missed_by_time
from ledgerstone.types import TopicPartition

_P0, _P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_a_note_names_the_producers_of_one_batch() -> None:
    note = note_of(7, [100, 101])

    assert producers_in(note, 7) == (100, 101)
    assert producers_in(note, 8) == ()
    assert producers_in(None, 7) == ()
    assert producers_in("7:x,12", 7) == (12,)


def test_attempts_of_a_task_share_a_group_and_tasks_do_not() -> None:
    assert WriteId("q", 1, 2).group_id == WriteId("q", 9, 2).group_id
    assert WriteId("q", 1, 2).group_id != WriteId("q", 1, 3).group_id


def test_who_is_below_what_was_removed_has_missed_it() -> None:
    missed = missed_by_offset({_P0: 10, _P1: 10}, {_P0: 11, _P1: 10}, {})

    assert [each.partition for each in missed] == [_P0]
    assert "below offset 11" in str(missed[0])


def test_what_was_removed_before_a_query_began_is_none_of_its_business() -> None:
    assert missed_by_offset({_P0: 10}, {_P0: 11}, {_P0: 11}) == []
    assert missed_by_offset({_P0: 10}, {_P0: 12}, {_P0: 11}) != []


def test_who_was_away_longer_than_tombstones_stay_may_have_missed_some() -> None:
    positions = {_P0: 1, _P1: 1}

    missed = missed_by_time(positions, {_P0: 1_000}, retention_ms=500, now_ms=1_501)

    assert [each.partition for each in missed] == [_P0]
    assert missed_by_time(positions, {_P0: 1_000}, retention_ms=500, now_ms=1_500) == []
