"""What leaders and followers make of each other's words; whole stories are in the model's tests."""

from ledgerstone.replication.removal import (
    EVERYTHING,
    Holder,
    LeaderRemoval,
    LeaderWord,
    ReplicaRemoval,
)

HOLD = 1000


def leading(*replicas: int, now_ms: int = 0) -> LeaderRemoval:
    leader = LeaderRemoval(leader_id=1, began_ms=now_ms)
    leader.assume(replicas or (1, 2, 3), now_ms=now_ms)
    return leader


def report(leader: LeaderRemoval, replica_id: int, clean_to: int, now_ms: int = 0) -> None:
    leader.reported(replica_id, clean_to=clean_to, removed_to=0, now_ms=now_ms)


def removable(leader: LeaderRemoval, own: int, now_ms: int = 0) -> int:
    return leader.removable_to(own, hold_max_ms=HOLD, now_ms=now_ms)


def word(removed_to: int = 0, clean_to: int = 0, removable_to: int = 0) -> LeaderWord:
    return LeaderWord(removable_to, removed_to, clean_to)


def test_nothing_is_removable_before_every_replica_has_reported() -> None:
    leader = leading()
    assert removable(leader, 10) == 0
    report(leader, 2, 8)
    assert removable(leader, 10) == 0
    report(leader, 3, 9)

    assert removable(leader, 10) == 8
    assert removable(leader, 5) == 5


def test_the_slowest_replica_is_named() -> None:
    leader = leading()
    report(leader, 2, 8)

    found = leader.slowest(10, hold_max_ms=HOLD, now_ms=5)

    assert found == Holder(3, None, 5)
    assert str(found) == "replica 3 has not reported"
    report(leader, 3, 9)
    assert str(leader.slowest(10, hold_max_ms=HOLD, now_ms=5)) == "replica 2 is clean to offset 8"
    assert leader.slowest(8, hold_max_ms=HOLD, now_ms=5) is None


def test_a_silent_replica_is_given_up_until_it_reports_again() -> None:
    leader = leading()
    report(leader, 2, 8, now_ms=900)
    assert removable(leader, 10, HOLD - 1) == 0
    assert leader.given_up(10, hold_max_ms=HOLD, now_ms=HOLD - 1) == []

    assert removable(leader, 10, HOLD) == 8
    assert leader.given_up(10, hold_max_ms=HOLD, now_ms=HOLD) == [Holder(3, None, HOLD)]

    report(leader, 3, 2, now_ms=HOLD)
    assert removable(leader, 10, HOLD) == 2


def test_a_replica_that_reports_is_waited_for() -> None:
    leader = leading(1, 2)
    for now_ms in range(0, 5 * HOLD, HOLD // 2):
        report(leader, 2, 3, now_ms=now_ms)
        assert removable(leader, 10, now_ms) == 3


def test_a_removed_replica_holds_nothing_back_and_a_new_one_does_at_once() -> None:
    leader = leading()
    report(leader, 2, 8)
    leader.assume((1, 2), now_ms=0)
    assert removable(leader, 10) == 8

    leader.assume((1, 2, 4), now_ms=500)
    assert removable(leader, 10, 500 + HOLD - 1) == 0
    report(leader, 3, 10, now_ms=500)
    assert leader.report_of(3) is None


def test_a_log_that_ends_below_what_its_leader_lacks_is_rebuilt() -> None:
    replica = ReplicaRemoval()
    replica.follow(1, is_empty=False)

    assert replica.must_rebuild(word(removed_to=5), end_offset=4)
    assert not replica.must_rebuild(word(removed_to=5), end_offset=5)


def test_an_empty_log_copies_what_is_left() -> None:
    replica = ReplicaRemoval()
    replica.follow(1, is_empty=True)
    assert not replica.must_rebuild(word(removed_to=5), end_offset=0)
    assert replica.claim(0) == 0

    assert replica.before_append(word(removed_to=5, clean_to=9), end_offset=0) == 5

    # The rest comes from the same leader, and is clean as well.
    assert not replica.must_rebuild(word(removed_to=9), end_offset=3)
    assert replica.must_rebuild(word(removed_to=10), end_offset=3)
    assert replica.claim(0) == 9


def test_what_one_leader_told_does_not_count_with_the_next() -> None:
    replica = ReplicaRemoval()
    replica.follow(1, is_empty=True)
    replica.heard(word(removable_to=7), now_ms=0)
    replica.before_append(word(clean_to=9), end_offset=0)

    replica.follow(2, is_empty=False)

    assert replica.claim(2) == 2
    assert replica.word is None
    assert replica.limit_as_follower(5, hold_max_ms=HOLD, now_ms=0) == 0


def test_a_follower_inherits_only_what_it_has_not_fetched_yet() -> None:
    replica = ReplicaRemoval(removed_to=2)

    assert replica.before_append(word(removed_to=5), end_offset=5) == 2
    assert replica.before_append(word(removed_to=6), end_offset=5) == 6


def test_a_follower_removes_below_its_own_first_dirty_offset_and_its_leaders_word() -> None:
    replica = ReplicaRemoval()
    replica.follow(1, is_empty=False)
    replica.heard(word(removable_to=7), now_ms=0)

    assert replica.limit_as_follower(9, hold_max_ms=HOLD, now_ms=0) == 7
    assert replica.limit_as_follower(5, hold_max_ms=HOLD, now_ms=0) == 5


def test_behind_a_leader_that_knows_no_words_removal_waits_for_the_hold() -> None:
    replica = ReplicaRemoval()
    replica.follow(1, is_empty=False)
    # It does not answer at all: there is no telling what it holds.
    assert replica.limit_as_follower(9, hold_max_ms=HOLD, now_ms=10 * HOLD) == 0

    replica.heard(None, now_ms=50)
    replica.heard(None, now_ms=600)

    assert replica.limit_as_follower(9, hold_max_ms=HOLD, now_ms=50 + HOLD - 1) == 0
    assert replica.limit_as_follower(9, hold_max_ms=HOLD, now_ms=50 + HOLD) == 9


def test_marks_only_rise_until_the_log_is_wiped() -> None:
    replica = ReplicaRemoval(removed_to=4)

    assert [replica.before_removal(each) for each in (3, 6, 5)] == [4, 6, 6]
    assert replica.wiped() == 0
    assert replica.claim(0) == 0
    assert not replica.must_rebuild(word(removed_to=EVERYTHING), end_offset=0)
