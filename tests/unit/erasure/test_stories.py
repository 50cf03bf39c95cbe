"""Whole erasures over a model of logs: the ordinary way, crashes everywhere, two lives."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.erasure.changes import cancelled
from ledgerstone.erasure.erasure import Erasure, Stage
from ledgerstone.erasure.journal import ErasureBook
from ledgerstone.erasure.receipt import verify
from ledgerstone.errors import InvalidRequest
from tests.kit.sized import examples
from tests.unit.erasure.making import DAY_MS, KEY, SALT, T0, Died, World, requested

# The key lives where Kafka's partitioner puts it, in 1, and has a stray in 3.
HOME, STRAY = 1, 3


def world(*, retention_ms: int = DAY_MS) -> World:
    made = World(retention_ms=retention_ms)
    for number in (HOME, STRAY, HOME):
        made.logs[number].append(None)
    return made


def asked_for(made: World, erasure: Erasure) -> None:
    made.keep(erasure)
    made.run(erasure.id)


def ended(made: World, erasure_id: str) -> Erasure:
    found = made.book.get(erasure_id)
    assert found is not None
    return found


def replayed(made: World, *, compacted: bool = False) -> ErasureBook:
    book = ErasureBook()
    records = list(dict(made.journal).items()) if compacted else made.journal
    for key, value in records:
        book.replay(key, value)
    return book


def test_erasure_goes_through_every_stage_to_a_receipt() -> None:
    made, erasure = world(), requested()
    made.keep(erasure)

    blocked = made.run(erasure.id)

    done = ended(made, erasure.id)
    assert blocked is None
    assert [stage for stage, _ in done.stage_times] == [
        Stage.REQUESTED, Stage.SEARCHED, Stage.TOMBSTONED, Stage.STAMPED, Stage.REMOVED,
        Stage.UNLINKED, Stage.VERIFIED, Stage.RECEIPTED,
    ]  # fmt: skip
    assert done.reached_ms(Stage.STAMPED) == T0
    assert done.reached_ms(Stage.REMOVED) == T0 + DAY_MS
    assert done.reached_ms(Stage.UNLINKED) == T0 + DAY_MS + 60_000
    assert done.receipt is not None
    assert verify(done.receipt.encode(), key=KEY, salt=SALT).ok
    assert not any(log.records for log in made.logs.values())


def test_tombstones_go_to_the_home_partition_and_to_every_holder() -> None:
    made, erasure = World(), requested()
    made.logs[0].append(None)
    made.logs[STRAY].append(None)
    made.keep(erasure)

    made.run(erasure.id)

    done = ended(made, erasure.id)
    assert [(each.partition, each.offset) for each in done.tombstones] == [(0, 1), (1, 0), (3, 1)]


def test_key_that_is_nowhere_gets_an_answer_and_no_tombstone() -> None:
    made, erasure = World(), requested()
    made.keep(erasure)

    made.run(erasure.id)

    done = ended(made, erasure.id)
    assert done.stage is Stage.NOT_FOUND
    assert "no partition of customers holds the key" in done.note
    assert done.sealed_key is None
    assert not any(log.end for log in made.logs.values())


def test_retention_of_zero_needs_two_passes_a_partition() -> None:
    made, erasure = world(retention_ms=0), requested()
    made.keep(erasure)

    made.run(erasure.id)

    assert ended(made, erasure.id).stage is Stage.RECEIPTED
    assert [log.passes for log in made.logs.values()] == [0, 2, 0, 2]


@pytest.mark.parametrize("die_at", range(1, 16))
def test_death_after_any_mark_changes_nothing_but_time(die_at: int) -> None:
    made, erasure = world(), requested(awaited_verifiers=["lake"])
    made.die_at = die_at
    with pytest.raises(Died):
        asked_for(made, erasure)

    made.restart()
    made.run(erasure.id)

    done = ended(made, erasure.id)
    assert done.stage is Stage.RECEIPTED
    assert [each.partition for each in done.tombstones] == [HOME, STRAY]
    # Nothing was written twice: two values and one value, and one tombstone each.
    assert (made.logs[HOME].end, made.logs[STRAY].end) == (3, 2)
    assert done.receipt is not None
    assert verify(done.receipt.encode()).ok


def test_marks_of_the_sweep_above_are_all_there_are() -> None:
    made, erasure = world(), requested(awaited_verifiers=["lake"])
    made.keep(erasure)

    made.run(erasure.id)

    assert made.marks == 15


def test_tombstone_that_a_pass_took_before_it_was_written_down_is_written_again() -> None:
    made, erasure = world(retention_ms=0), requested()
    made.keep(erasure)
    made.run(erasure.id, until=Stage.SEARCHED)
    for number in (HOME, STRAY):
        made.logs[number].append(erasure.id)
        made.clean(number)
        made.clean(number)
    made.restart()

    made.run(erasure.id)

    done = ended(made, erasure.id)
    assert done.stage is Stage.RECEIPTED
    assert [each.offset for each in done.tombstones] == [3, 2]


def test_recreated_key_is_listed_and_its_older_life_is_covered() -> None:
    made, erasure = world(), requested()
    made.keep(erasure)
    made.run(erasure.id, until=Stage.STAMPED)
    made.logs[HOME].append(None)
    made.logs[2].append(None)

    made.run(erasure.id)

    done = ended(made, erasure.id)
    assert done.stage is Stage.RECEIPTED
    assert [(each.partition, each.first_offset) for each in done.recreated] == [(1, 3), (2, 0)]
    assert done.receipt is not None
    receipt = json.loads(done.receipt)
    assert [each["partition"] for each in receipt["recreated"]] == [1, 2]
    assert any("written after the erasure" in text for text in receipt["not_covered"])


def test_two_erasures_of_one_key_both_end_with_a_receipt() -> None:
    made, first, second = world(), requested(seed=1), requested(seed=2)
    made.keep(first)
    made.run(first.id, until=Stage.TOMBSTONED)
    made.keep(second)

    made.run(second.id, until=Stage.TOMBSTONED)
    made.run(first.id)
    made.run(second.id)

    assert first.id != second.id
    assert ended(made, first.id).stage is Stage.RECEIPTED
    assert ended(made, second.id).stage is Stage.RECEIPTED
    # The first one's scan met the second one's tombstones: a later life as far as it can tell.
    assert [each.partition for each in ended(made, first.id).recreated] == [HOME, STRAY]
    assert ended(made, second.id).recreated == ()
    assert [each.id for each in made.book.of_key(first.key_print.hmac)] == [first.id, second.id]


def test_gate_without_an_end_is_told_and_the_erasure_goes_on_when_it_opens() -> None:
    made, erasure = world(), requested()
    made.logs[STRAY].waits_for = "producer 7 has a transaction open since offset 0"
    made.keep(erasure)

    blocked = made.run(erasure.id)
    made.logs[STRAY].waits_for = None
    made.run(erasure.id)

    assert blocked is not None
    assert blocked.because == "customers-3: producer 7 has a transaction open since offset 0"
    assert ended(made, erasure.id).stage is Stage.RECEIPTED


def test_topic_deleted_between_search_and_tombstones_is_scanned_all_the_same() -> None:
    made, erasure = world(), requested()
    made.keep(erasure)
    made.run(erasure.id, until=Stage.SEARCHED)
    made.is_deleted = True
    for log in made.logs.values():
        log.records = {}

    made.run(erasure.id)

    assert ended(made, erasure.id).stage is Stage.RECEIPTED
    assert ended(made, erasure.id).tombstones == ()


# -- scheduling and cancelling --------------------------------------------------------------------


def test_scheduled_erasure_writes_nothing_before_its_time() -> None:
    made, erasure = world(), requested(after_ms=7 * DAY_MS)
    made.keep(erasure)

    made.run(erasure.id, until=Stage.REQUESTED)

    assert made.now_ms == T0 + 7 * DAY_MS
    assert not made.searches
    made.run(erasure.id)
    assert ended(made, erasure.id).stage is Stage.RECEIPTED


@pytest.mark.parametrize("after_ms", [0, DAY_MS])
def test_erasure_can_be_cancelled_until_it_writes(after_ms: int) -> None:
    made, erasure = world(), requested(after_ms=after_ms)
    made.keep(erasure)

    made.keep(cancelled(erasure, by="clerk", salt=SALT, now_ms=T0 + 5))
    made.run(erasure.id)

    done = ended(made, erasure.id)
    assert (done.stage, done.note, done.sealed_key) == (
        Stage.CANCELLED, "cancelled by clerk", None,
    )  # fmt: skip
    assert not any(erasure_id for log in made.logs.values() for erasure_id in log.records.values())


@pytest.mark.parametrize("stage", [Stage.SEARCHED, Stage.TOMBSTONED, Stage.RECEIPTED])
def test_erasure_cannot_be_cancelled_once_a_tombstone_may_be_there(stage: Stage) -> None:
    made, erasure = world(), requested()
    made.keep(erasure)
    made.run(erasure.id, until=stage)

    with pytest.raises(InvalidRequest, match=f"is {stage.value} and can no longer be cancelled"):
        cancelled(ended(made, erasure.id), by="clerk", salt=SALT, now_ms=T0)


# -- the journal ----------------------------------------------------------------------------------


@examples(60)
@given(
    turns=st.lists(st.tuples(st.integers(0, 2), st.sampled_from(Stage)), max_size=12),
    after_ms=st.sampled_from([0, DAY_MS]),
)
def test_any_prefix_of_the_journal_replays_to_what_was_live(
    turns: list[tuple[int, Stage]], after_ms: int
) -> None:
    made = world(retention_ms=0)
    erasures = [requested(seed=seed, after_ms=after_ms * seed) for seed in range(3)]
    for erasure in erasures:
        made.keep(erasure)

    for number, stage in turns:
        made.run(erasures[number].id, until=stage)

        live = list(made.book)
        assert list(replayed(made)) == live
        assert list(replayed(made, compacted=True)) == live
