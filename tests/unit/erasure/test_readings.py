"""Which groups have read a tombstone: every order of commits, removals and deletions."""

from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ledgerstone.erasure.erasure import Erasure, Stage, Tombstone
from ledgerstone.erasure.facts import Facts, GroupPosition
from ledgerstone.erasure.journal import decode, encode
from ledgerstone.erasure.outputs import Reading
from ledgerstone.erasure.readings import MAX_GROUPS, observed, shown_name
from ledgerstone.erasure.standing import known_outputs
from tests.kit.sized import examples
from tests.unit.erasure.making import T0, at_stage, partition

TOMBSTONE = Tombstone(0, 9, T0)


def erasure() -> Erasure:
    return replace(at_stage(Stage.STAMPED), tombstones=(TOMBSTONE,), target_partitions=(0,))


def facts(
    *groups: tuple[str, int],
    is_there: bool = True,
    missed: dict[str, int] | None = None,
    full: bool = False,
    committed_ms: int = T0,
) -> Facts:
    return Facts(
        partitions={0: partition(first_dirty_offset=10, tombstone_is_there=is_there)},
        groups=[GroupPosition(name, 0, offset, False, committed_ms) for name, offset in groups],
        missed={(name, 0): offset for name, offset in (missed or {}).items()},
        removed_ms={} if is_there else {0: T0},
        full_ledgers=(0,) if full else (),
    )


def readings(*looks: Facts) -> dict[str, tuple[Reading, int | None]]:
    found = erasure()
    for each in looks:
        found = observed(found, each)
    return {each.group: (each.reading, each.committed_offset) for each in found.readings}


def test_commit_on_the_tombstone_is_not_past_it() -> None:
    found = readings(facts(("on", 9), ("past", 10)))

    assert found == {"on": (Reading.UNREAD, 9), "past": (Reading.READ, 10)}


def test_who_read_it_stays_so_whatever_comes_after() -> None:
    found = readings(facts(("g", 10)), facts(("g", 3)), facts(is_there=False, missed={"g": 3}))

    assert found == {"g": (Reading.READ, 10)}


def test_ledger_tells_what_was_committed_when_the_tombstone_went() -> None:
    found = readings(facts(("g", 4)), facts(("g", 12), is_there=False, missed={"g": 6}))

    assert found == {"g": (Reading.MISSED, 6)}


def test_who_moved_on_before_the_pass_is_not_in_the_ledger_and_has_read_it() -> None:
    found = readings(facts(("g", 4)), facts(("g", 12), is_there=False))
    since = readings(facts(("g", 4)), facts(("g", 12), is_there=False, committed_ms=T0 + 1))
    unknown = readings(facts(("g", 4)), facts(("g", 12), is_there=False, committed_ms=-1))

    assert found == {"g": (Reading.READ, 12)}
    # A group of that name may have been deleted and made again.
    assert since == unknown == {"g": (Reading.MISSED, 4)}


def test_ledger_that_was_full_proves_nothing() -> None:
    found = readings(facts(("g", 4)), facts(("g", 12), is_there=False, full=True))

    assert found == {"g": (Reading.MISSED, 4)}


def test_deleted_group_that_comes_back_in_time_may_still_read_it() -> None:
    back = readings(facts(("g", 4)), facts(), facts(("g", 10)))
    late = readings(facts(("g", 4)), facts(), facts(("g", 10), is_there=False))

    assert back == {"g": (Reading.READ, 10)}
    assert late == {"g": (Reading.GONE, 4)}


def test_nothing_is_concluded_before_committed_offsets_are_loaded() -> None:
    blind = replace(facts(is_there=False), groups_are_known=False)

    assert readings(facts(("g", 4)), blind) == {"g": (Reading.UNREAD, 4)}


class Model:
    """What really happened to one group and one tombstone; the ledger is as the guard keeps it."""

    def __init__(self) -> None:
        self.committed: int | None = None
        self.is_there = True
        self.ledger: dict[str, int] = {}
        self.was_past = False
        self.committed_ms = T0

    def look(self) -> Facts:
        groups = () if self.committed is None else (("g", self.committed),)
        return facts(
            *groups, is_there=self.is_there, missed=self.ledger, committed_ms=self.committed_ms
        )

    def commit(self, offset: int) -> None:
        self.committed = offset
        self.committed_ms = T0 if self.is_there else T0 + 1
        self.was_past |= self.is_there and offset > TOMBSTONE.offset

    def remove(self) -> None:
        if self.is_there and self.committed is not None and 0 < self.committed <= TOMBSTONE.offset:
            self.ledger["g"] = self.committed
        self.is_there = False


MOVES = st.lists(
    st.one_of(
        st.integers(0, 12),
        st.sampled_from(["look", "remove", "delete group", "restart"]),
    ),
    max_size=14,
)


@examples(400)
@example([4, "look", "remove", "delete group", 12])
@given(MOVES)
def test_no_order_of_events_calls_a_group_reader_of_what_it_never_passed(
    moves: list[int | str],
) -> None:
    """`read` is only ever said of a group that had committed past the tombstone while it was there;
    and one that a look has seen is in the receipt for good."""
    model, found = Model(), erasure()
    written = found
    seen = False
    for move in moves:
        if isinstance(move, int):
            model.commit(move)
        elif move == "look":
            seen |= model.committed is not None
            found = observed(found, model.look())
            written = found
        elif move == "remove":
            model.remove()
        elif move == "delete group":
            model.committed = None
            model.ledger.clear()
        else:
            found = decode(encode(written))
    found = observed(found, model.look())

    outputs = known_outputs(found)
    if seen:
        assert [each.name for each in outputs] == ["g"]
    for each in found.readings:
        assert each.reading is not Reading.READ or model.was_past


# -- bounds ---------------------------------------------------------------------------------------


def test_groups_beyond_the_bound_are_counted_and_listed_ones_stay() -> None:
    first = observed(erasure(), facts(("zz", 4)))
    many = [(f"g{number:04}", 4) for number in range(MAX_GROUPS + 5)]

    found = observed(first, facts(("zz", 4), *many))

    names = {each.group for each in found.readings}
    assert len(names) == MAX_GROUPS
    assert "zz" in names
    assert found.unlisted_groups == 6
    assert observed(found, facts()).unlisted_groups == 6


@pytest.mark.parametrize("name", ["x" * 40_000, "ü" * 200, "\udcff" * 300])
def test_long_names_are_cut_and_stay_different(name: str) -> None:
    one, other = shown_name(name), shown_name(name + "y")

    assert len(one.encode()) < 512
    assert one != other
    assert shown_name("short") == "short"
