"""Fetch sessions by themselves: KIP-227's rules, one test each."""

import pytest

from ledgerstone.errors import (
    FetchSessionIdNotFound,
    FetchSessionTopicIdError,
    InvalidFetchSessionEpoch,
)
from ledgerstone.replication import fetch_session
from ledgerstone.replication.fetch_session import (
    EVICTABLE_AFTER_MS,
    FetchContext,
    FetchSessions,
    FetchWish,
    PartitionKey,
    Told,
)
from ledgerstone.sim.dice import SeededDice
from ledgerstone.types import INT32_MAX

A, B = PartitionKey("a", 0), PartitionKey("b", 0)


def wish(key: PartitionKey, offset: int = 0) -> FetchWish:
    return FetchWish(key, offset, 1_000, -1, -1)


def told(key: PartitionKey, *, records: bool = False, error: int = 0, end: int = 0) -> Told:
    return Told(key, records, error, end, 0)


class Desk:
    def __init__(self, slots: int = 10) -> None:
        self.sessions = FetchSessions(SeededDice(0), slots)
        self.now_ms = 0

    def resolve(
        self,
        session_id: int,
        epoch: int,
        *wishes: FetchWish,
        forget: tuple[PartitionKey, ...] = (),
        by_id: bool = False,
    ) -> FetchContext:
        return self.sessions.resolve(
            session_id=session_id,
            epoch=epoch,
            wishes=wishes,
            forgotten=forget,
            uses_topic_ids=by_id,
            now_ms=self.now_ms,
        )

    def open(self, *keys: PartitionKey) -> int:
        context = self.resolve(0, 0, *(wish(key) for key in keys))
        context.answer([told(key) for key in keys])
        return context.session_id


def test_request_outside_any_session_opens_none() -> None:
    desk = Desk()

    context = desk.resolve(0, -1, wish(A))

    assert (context.session_id, len(desk.sessions)) == (0, 0)
    assert context.answer([told(A)]) == [A]


def test_first_answer_of_a_session_names_everything_and_later_ones_what_is_new() -> None:
    desk = Desk()
    first = desk.resolve(0, 0, wish(A), wish(B))

    named = first.answer([told(A), told(B)])
    second = desk.resolve(first.session_id, 1)
    quiet = second.answer([told(A), told(B)])
    third = desk.resolve(first.session_id, 2)

    assert named == [A, B]
    assert quiet == []
    assert third.answer([told(A), told(B, end=1)]) == [B]


def test_partition_that_gave_records_goes_to_the_end_of_the_line() -> None:
    desk = Desk()
    session_id = desk.open(A, B)

    desk.resolve(session_id, 1).answer([told(A, records=True, end=1), told(B)])
    following = desk.resolve(session_id, 2)

    assert [each.key for each in following.wishes] == [B, A]


def test_first_good_answer_after_an_error_is_told() -> None:
    desk = Desk()
    session_id = desk.open(A)

    answers = [
        desk.resolve(session_id, 1 + number).answer([told(A, error=code)])
        for number, code in enumerate((6, 6, 0, 0))
    ]

    assert answers == [[A], [A], [A], []]


def test_first_answer_after_one_that_only_diverged_is_told() -> None:
    """A follower takes no high watermark of such an answer, and it may never move again."""
    desk = Desk()
    session_id = desk.open(A)
    diverged = told(A)._replace(must_tell=True)

    answers = [
        desk.resolve(session_id, 1 + number).answer([each])
        for number, each in enumerate((diverged, told(A), told(A)))
    ]

    assert answers == [[A], [A], []]


def test_wishes_of_a_session_are_changed_added_and_forgotten() -> None:
    desk = Desk()
    session_id = desk.open(A)

    changed = desk.resolve(session_id, 1, wish(A, 5), wish(B, 7))
    left = desk.resolve(session_id, 2, forget=(A,))

    assert [(each.key, each.fetch_offset) for each in changed.wishes] == [(A, 5), (B, 7)]
    assert [each.key for each in left.wishes] == [B]


def test_epoch_goes_round_without_touching_zero() -> None:
    desk = Desk()
    session_id = desk.open(A)
    session = desk.sessions._sessions[session_id]
    session.epoch = INT32_MAX

    desk.resolve(session_id, INT32_MAX)

    assert session.epoch == 1


def test_wrong_epoch_does_not_disturb_the_session() -> None:
    desk = Desk()
    session_id = desk.open(A)

    for epoch in (2, 5, -2):
        with pytest.raises(InvalidFetchSessionEpoch):
            desk.resolve(session_id, epoch)

    assert desk.resolve(session_id, 1).incremental


def test_unknown_session_and_changed_naming_are_refused() -> None:
    desk = Desk()
    session_id = desk.open(A)

    with pytest.raises(FetchSessionIdNotFound):
        desk.resolve(session_id ^ 1, 1)
    with pytest.raises(FetchSessionTopicIdError):
        desk.resolve(session_id, 1, by_id=True)


def test_full_request_replaces_the_session_it_names() -> None:
    desk = Desk()
    session_id = desk.open(A)

    context = desk.resolve(session_id, 0, wish(B))

    assert context.session_id not in (0, session_id)
    assert len(desk.sessions) == 1


def test_least_recently_used_session_is_evicted_once_it_is_old() -> None:
    desk = Desk(slots=2)
    old, used = desk.open(A), desk.open(A)
    desk.now_ms = EVICTABLE_AFTER_MS - 1

    refused = desk.open(A)
    desk.resolve(used, 1)
    desk.now_ms += 1
    taken = desk.open(B)

    assert refused == 0
    assert taken != 0
    with pytest.raises(FetchSessionIdNotFound):
        desk.resolve(old, 1)
    assert desk.resolve(used, 2).incremental


def test_without_slots_nobody_gets_a_session() -> None:
    desk = Desk(slots=0)

    assert desk.open(A) == 0


def test_sessions_end_at_bytes_and_readers_are_served_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # 1,000 slots of as many partitions as a request can name would be gigabytes.
    monkeypatch.setattr(fetch_session, "MAX_HELD_BYTES", 100_000)
    desk = Desk(slots=1000)
    many = [PartitionKey("t" * 100, number) for number in range(50)]
    ids = [desk.open(*many) for _ in range(10)]
    assert [bool(each) for each in ids] == [True] * 3 + [False] * 7
    assert desk.sessions.held_bytes <= 100_000
    with pytest.raises(FetchSessionIdNotFound):
        desk.resolve(ids[0], 1, *(wish(PartitionKey("u" * 100, n)) for n in range(50)))
    assert len(desk.sessions) == 2
    desk.now_ms = EVICTABLE_AFTER_MS
    assert all([desk.open(*many), desk.open(*many)]), "those that nobody used go"
    assert desk.sessions.held_bytes <= 100_000


def test_bytes_of_sessions_are_those_of_what_they_name() -> None:
    desk = Desk()
    session_id = desk.open(A, B)
    both = desk.sessions.held_bytes
    desk.resolve(session_id, 1, wish(A, 5), forget=(B,))
    assert desk.sessions.held_bytes == both // 2
    desk.resolve(session_id, 2, wish(B))
    assert desk.sessions.held_bytes == both
    desk.resolve(session_id, 3, forget=(A, B))
    assert (desk.sessions.held_bytes, len(desk.sessions)) == (0, 0)
    desk.resolve(desk.open(A), -1)
    assert desk.sessions.held_bytes == 0


@pytest.mark.parametrize(
    ("offset", "leader_epoch", "named"),
    [(5, 0, []), (6, 0, []), (5, 1, [A]), (4, 0, [A])],
    ids=["the same", "further on", "in another epoch", "goes back"],
)
def test_who_may_not_have_taken_what_it_was_told_is_told_again(
    offset: int, leader_epoch: int, named: list[PartitionKey]
) -> None:
    """A follower drops an answer to what it no longer asks; its high watermark stayed at 0."""
    desk = Desk()
    first = desk.resolve(0, 0, FetchWish(A, 5, 1_000, 0, 0))
    first.answer([told(A, end=15)])

    again = desk.resolve(first.session_id, 1, FetchWish(A, offset, 1_000, leader_epoch, 0))

    assert again.answer([told(A, end=15)]) == named
