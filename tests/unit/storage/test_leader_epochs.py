"""Which epoch begins where: Kafka's rules one by one, then against a naive twin."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.errors import InvariantViolation
from ledgerstone.storage.leader_epochs import UNDEFINED, EpochEntry, LeaderEpochs


def _epochs(*entries: tuple[int, int]) -> LeaderEpochs:
    return LeaderEpochs(EpochEntry(*entry) for entry in entries)


def test_a_new_epoch_is_added_at_the_end() -> None:
    epochs = _epochs((0, 0))

    assert epochs.assign(2, 5)

    assert epochs.entries() == [(0, 0), (2, 5)]
    assert epochs.latest_epoch == 2


def test_a_later_offset_of_the_latest_epoch_is_no_news() -> None:
    epochs = _epochs((2, 5))

    assert not epochs.assign(2, 5)
    assert not epochs.assign(2, 9)

    assert epochs.entries() == [(2, 5)]


def test_an_epoch_that_starts_earlier_replaces_what_it_contradicts() -> None:
    epochs = _epochs((1, 0), (2, 5), (3, 8))

    assert epochs.assign(4, 5)

    assert epochs.entries() == [(1, 0), (4, 5)]


def test_an_older_epoch_removes_every_newer_one() -> None:
    epochs = _epochs((1, 0), (3, 5), (4, 8))

    assert epochs.assign(2, 9)

    assert epochs.entries() == [(1, 0), (2, 9)]


def test_the_latest_epoch_moves_back_when_it_turns_out_to_start_earlier() -> None:
    epochs = _epochs((1, 0), (2, 5))

    assert epochs.assign(2, 3)

    assert epochs.entries() == [(1, 0), (2, 3)]


@pytest.mark.parametrize(("epoch", "start_offset"), [(-1, 0), (0, -1)])
def test_negative_epochs_and_offsets_are_never_kept(epoch: int, start_offset: int) -> None:
    with pytest.raises(InvariantViolation, match=f"epoch {epoch} .* offset {start_offset}"):
        _epochs().assign(epoch, start_offset)


def test_a_list_that_is_out_of_order_is_put_in_order() -> None:
    epochs = _epochs((3, 8), (1, 0), (2, 5))

    assert epochs.entries() == [(1, 0), (2, 5)]


def test_deleting_the_first_segment_moves_the_start_of_its_epoch() -> None:
    epochs = _epochs((0, 0), (1, 7), (2, 10))

    assert epochs.truncate_from_start(5)

    assert epochs.entries() == [(0, 5), (1, 7), (2, 10)]


def test_truncating_from_the_start_at_an_exact_start_changes_nothing_else() -> None:
    epochs = _epochs((0, 0), (1, 7), (2, 10))

    assert epochs.truncate_from_start(7)
    assert not epochs.truncate_from_start(7)
    assert not epochs.truncate_from_start(3)

    assert epochs.entries() == [(1, 7), (2, 10)]


def test_truncating_from_the_start_past_everything_keeps_the_latest_epoch() -> None:
    epochs = _epochs((0, 0), (1, 7), (2, 10))

    assert epochs.truncate_from_start(99)

    assert epochs.entries() == [(2, 99)]


def test_truncating_the_log_removes_epochs_that_begin_at_or_past_its_end() -> None:
    epochs = _epochs((1, 0), (2, 10))

    counts = []
    for end_offset in (11, 10, 0):
        epochs.truncate_from_end(end_offset)
        counts.append(len(epochs.entries()))

    assert counts == [2, 1, 0]
    assert not epochs.truncate_from_end(0)


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (-1, UNDEFINED),
        (1, (1, 10)),
        (2, (2, 20)),
        (3, (2, 20)),
        (4, (4, 30)),
        (6, (6, 99)),
        (7, UNDEFINED),
    ],
    ids=["none", "below all", "known", "gap", "known before latest", "latest", "above all"],
)
def test_the_end_of_an_epoch_is_the_start_of_the_next(asked: int, answer: tuple[int, int]) -> None:
    epochs = _epochs((2, 10), (4, 20), (6, 30))

    assert epochs.end_offset_for(asked, log_end_offset=99) == answer


def test_an_empty_list_knows_no_end() -> None:
    assert _epochs().end_offset_for(0, log_end_offset=5) == UNDEFINED == (-1, -1)
    assert _epochs().latest_epoch is None


def test_an_offset_belongs_to_the_last_epoch_that_began_at_or_before_it() -> None:
    epochs = _epochs((2, 10), (4, 20))

    assert [epochs.epoch_for_offset(offset) for offset in (9, 10, 19, 20, 99)] == [
        None,
        2,
        2,
        4,
        4,
    ]


def test_clear_forgets_everything() -> None:
    epochs = _epochs((2, 10))

    assert epochs.clear()
    assert not epochs.clear()

    assert epochs.entries() == []


class _NaiveEpochs:
    """One epoch per offset of the log, as if every record remembered its own."""

    def __init__(self) -> None:
        self.start_offset = 0
        self.epochs: list[int] = []

    @property
    def end_offset(self) -> int:
        return self.start_offset + len(self.epochs)

    def entries(self) -> list[tuple[int, int]]:
        before = [-1, *self.epochs]
        return [
            (epoch, self.start_offset + at)
            for at, epoch in enumerate(self.epochs)
            if epoch != before[at]
        ]


_STEPS = st.lists(
    st.tuples(st.sampled_from(["append", "cut end", "cut start"]), st.integers(0, 30)), max_size=40
)


@given(_STEPS)
def test_the_list_says_what_every_record_would_say(steps: list[tuple[str, int]]) -> None:
    epochs, naive = LeaderEpochs(), _NaiveEpochs()
    epoch = 0
    for action, amount in steps:
        if action == "append":
            epoch += amount % 3
            epochs.assign(epoch, naive.end_offset)
            naive.epochs += [epoch] * (1 + amount % 4)
        elif action == "cut end" and naive.epochs:
            kept = amount % (len(naive.epochs) + 1)
            del naive.epochs[kept:]
            epochs.truncate_from_end(naive.end_offset)
        elif action == "cut start" and naive.epochs:
            gone = amount % len(naive.epochs)
            del naive.epochs[:gone]
            naive.start_offset += gone
            epochs.truncate_from_start(naive.start_offset)
        epochs.check_invariants()

    assert epochs.entries() == naive.entries()
    for at, known in enumerate(naive.epochs):
        assert epochs.epoch_for_offset(naive.start_offset + at) == known
    for asked in dict.fromkeys(naive.epochs):
        last_at = len(naive.epochs) - 1 - naive.epochs[::-1].index(asked)
        expected = asked, naive.start_offset + last_at + 1
        assert epochs.end_offset_for(asked, naive.end_offset) == expected
