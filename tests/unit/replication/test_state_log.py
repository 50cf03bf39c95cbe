"""Tokens of a state log: committed in order, lost together, and never both."""

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.errors import NotLeaderOrFollower
from ledgerstone.replication.partition import Partition
from ledgerstone.replication.state_log import StateLog
from tests.kit.logs import World, all_records
from tests.kit.roles import followed, led_by
from tests.kit.sized import examples


class _Owner:
    """A machine with a log that brokers 1 and 2 replicate."""

    def __init__(self) -> None:
        self.partition = Partition(log=World().open(), topic_id=bytes(16), node_id=1)
        self.partition.assume(led_by(1, 0, (1, 2)))
        self.log = StateLog[str](partial(self.partition.append, acks=-1))

    @property
    def end(self) -> int:
        return self.partition.log.log_end_offset

    def decide(self, token: str, *values: bytes) -> None:
        self.log.append([(0, None, value, ()) for value in values], token)

    def committed(self) -> list[str]:
        return self.log.committed(self.partition.log.high_watermark)


def test_several_decisions_in_flight_are_committed_in_order_and_in_parts() -> None:
    owner = _Owner()
    owner.decide("one", b"a")
    owner.decide("two", b"b", b"c")
    owner.decide("three", b"d")
    assert owner.committed() == []

    followed(owner.partition, 2, 2)
    half = owner.committed()
    followed(owner.partition, 2, 4)

    assert half == ["one"], "a batch counts when all of it is replicated"
    assert owner.committed() == ["two", "three"]
    assert owner.committed() == []


def test_decision_without_records_waits_for_those_before_it_and_for_none_after_it() -> None:
    owner = _Owner()
    owner.decide("one", b"a")
    owner.log.after_pending("look")
    owner.decide("two", b"b")

    followed(owner.partition, 2, 1)

    assert owner.committed() == ["one", "look"]


def test_decision_without_records_on_committed_state_waits_for_nothing() -> None:
    owner = _Owner()
    owner.log.after_pending("look")

    assert owner.committed() == ["look"]


def test_lost_leadership_names_what_is_in_flight_once_and_never_as_committed() -> None:
    owner = _Owner()
    owner.decide("one", b"a")
    owner.decide("two", b"b")
    followed(owner.partition, 2, 1)
    assert owner.committed() == ["one"]

    lost = owner.log.lost()

    assert lost == ["two"]
    assert owner.log.committed(10) == []
    assert owner.log.lost() == []


def test_refused_append_leaves_no_token_and_disturbs_no_other() -> None:
    owner = _Owner()
    owner.decide("one", b"a")
    owner.partition.assume(led_by(2, 1, (2,)))

    with pytest.raises(NotLeaderOrFollower):
        owner.decide("two", b"b")

    assert owner.log.tokens() == ["one"]
    assert [record.value for record in all_records(owner.partition.log)] == [b"a"]


@examples(50)
@given(st.lists(st.one_of(st.integers(0, 3), st.just("look"), st.just("ack")), max_size=40))
def test_every_token_leaves_once_in_order_and_only_when_its_records_are_committed(
    steps: list[int | str],
) -> None:
    owner = _Owner()
    ends: dict[int, int] = {}
    left: list[int] = []
    log = StateLog[int](partial(owner.partition.append, acks=-1))
    for number, step in enumerate(steps):
        if step == "look":
            log.after_pending(number)
            ends[number] = max(ends.values(), default=0)
        elif step == "ack":
            followed(owner.partition, 2, min(sum(map(bool, ends)) + 1, owner.end))
        elif isinstance(step, int):
            log.append([(0, None, b"value", ())] * (step + 1), number)
            ends[number] = owner.end
        left += log.committed(owner.partition.log.high_watermark)
        assert all(ends[token] <= owner.partition.log.high_watermark for token in left)
    left += log.lost()

    assert left == sorted(ends)
