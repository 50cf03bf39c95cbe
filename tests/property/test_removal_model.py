"""The rules of coordinated removal, in random stories of a tiny cluster; and each rule left out.

`make sim` has whole brokers; here the rules are alone, so that thousands of stories take seconds.
"""

from collections.abc import Callable, Iterable

import pytest

from ledgerstone.replication.removal import (
    EVERYTHING,
    LeaderRemoval,
    LeaderWord,
    ReplicaRemoval,
)
from tests.property.removal_model import (
    Cluster,
    DroppedEarly,
    NeedlessRebuild,
    Resurrected,
    Rules,
    catch_up,
    clean,
    walk,
)

PROMISES = (Resurrected, DroppedEarly, NeedlessRebuild)
STORIES = 500
MANY_STORIES = 20_000


def test_no_story_brings_a_key_back() -> None:
    rebuilds = sum(walk(Rules(), seed).rebuilds for seed in range(STORIES))
    assert rebuilds > 0


@pytest.mark.slow
def test_no_story_of_many_brings_a_key_back() -> None:
    for seed in range(STORIES, MANY_STORIES):
        walk(Rules(), seed)


# -- mutants: one rule each ----------------------------------------------------------------------


class NeverRebuilds(ReplicaRemoval):
    def must_rebuild(self, word: LeaderWord, *, end_offset: int) -> bool:
        return False


class RebuildsByCleanSource(ReplicaRemoval):
    """Compares with what the leader has cleaned instead of what it has removed."""

    def must_rebuild(self, word: LeaderWord, *, end_offset: int) -> bool:
        return word.clean_to > max(end_offset, self._covered_to)


class InheritsNothing(ReplicaRemoval):
    """The rule as first designed: only what a replica removed itself counts."""

    def before_append(self, word: LeaderWord | None, *, end_offset: int) -> int:
        removed_to = self.removed_to
        super().before_append(word, end_offset=end_offset)
        self.removed_to = removed_to
        return removed_to


class CoversWhateverItCopies(ReplicaRemoval):
    """Stays with what the first source had cleaned when another one follows it."""

    def follow(self, leader_epoch: int, *, is_empty: bool) -> None:
        covered_to, is_new = self._covered_to, self._leader_epoch == -1
        super().follow(leader_epoch, is_empty=is_empty)
        if not is_new and not is_empty:
            self._covered_to = covered_to

    def before_append(self, word: LeaderWord | None, *, end_offset: int) -> int:
        covered_to = self._covered_to
        super().before_append(word, end_offset=end_offset)
        if covered_to != EVERYTHING:
            self._covered_to = covered_to
        return self.removed_to


class CoversAcrossElections(ReplicaRemoval):
    """What one leader had cleaned counts with the next, as far as that one has cleaned it too."""

    def follow(self, leader_epoch: int, *, is_empty: bool) -> None:
        covered_to, is_new = self._covered_to, self._leader_epoch == -1
        super().follow(leader_epoch, is_empty=is_empty)
        if not is_new and not is_empty:
            self._covered_to = covered_to


class CoversNothing(ReplicaRemoval):
    """A copy never ends where the source has removed anything."""

    def before_append(self, word: LeaderWord | None, *, end_offset: int) -> int:
        super().before_append(word, end_offset=end_offset)
        self._covered_to = 0
        return self.removed_to


class CoversAFullLog(ReplicaRemoval):
    """Takes every log for empty when a leader begins."""

    def follow(self, leader_epoch: int, *, is_empty: bool) -> None:
        super().follow(leader_epoch, is_empty=True)


class ForgetsToLookAtItself(ReplicaRemoval):
    """Removes what the others may remove, though its own pass has not come so far."""

    def limit_as_follower(self, clean_to: int, *, hold_max_ms: int, now_ms: int) -> int:
        return EVERYTHING if self.word is None else self.word.removable_to


class RemovesWithoutAWord(ReplicaRemoval):
    def limit_as_follower(self, clean_to: int, *, hold_max_ms: int, now_ms: int) -> int:
        if self.word is None:
            return clean_to
        return super().limit_as_follower(clean_to, hold_max_ms=hold_max_ms, now_ms=now_ms)


class CountsTheHeard(LeaderRemoval):
    """Replicas that have not reported hold nothing back."""

    def removable_to(self, own_clean_to: int, *, hold_max_ms: int, now_ms: int) -> int:
        counted = [each for each in self._holders(now_ms) if each.clean_to is not None]
        return min([own_clean_to, *(each.clean_to or 0 for each in counted)])


class NeverWaits(LeaderRemoval):
    def removable_to(self, own_clean_to: int, *, hold_max_ms: int, now_ms: int) -> int:
        return own_clean_to


class ForgetsNewReplicas(LeaderRemoval):
    def assume(self, replicas: Iterable[int], *, now_ms: int) -> None:
        if not self._assigned_ms:
            super().assume(replicas, now_ms=now_ms)


# Each with the first story that finds it; `walk(rules, seed)` for one seed after the other finds
# another when the stories change.
MUTANTS = {
    "never rebuilds": (Rules(replica=NeverRebuilds), 45),
    "rebuilds by clean source": (Rules(replica=RebuildsByCleanSource), 3),
    "covers a full log": (Rules(replica=CoversAFullLog), 45),
    "forgets to look at itself": (Rules(replica=ForgetsToLookAtItself), 0),
    "removes without a word": (Rules(replica=RemovesWithoutAWord), 0),
    "counts the heard": (Rules(leader=CountsTheHeard), 1),
    "never waits": (Rules(leader=NeverWaits), 0),
    "forgets new replicas": (Rules(leader=ForgetsNewReplicas), 391),
    "never marks removals": (Rules(writes_marks_before_swap=False), 45),
    "leader does not count itself": (Rules(leader_counts_itself=False), 15),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_rule_left_out_is_noticed(name: str) -> None:
    rules, seed = MUTANTS[name]
    with pytest.raises(PROMISES):
        walk(rules, seed)


# -- stories that chance hardly finds ------------------------------------------------------------


def _copied_from_a_remover(cluster: Cluster) -> None:
    """A newcomer copies from a leader that has removed a tombstone, and leads. Then a directory
    comes back that has the value."""
    cluster.write("a", False)
    for number in (1, 2):
        catch_up(cluster, number)
    cluster.kill(2)
    cluster.shrink(2)
    cluster.unassign(2)
    cluster.write("a", True)
    _settle(cluster, 0, 1)
    assert cluster.replicas[0].log == []
    cluster.assign(3)
    catch_up(cluster, 3)
    cluster.elect(3)
    cluster.unassign(1)
    cluster.assign(2)
    cluster.restart(2)
    catch_up(cluster, 2, 4)
    cluster.check()


def _copied_from_two_sources(cluster: Cluster) -> None:
    """A newcomer copies from a clean leader, then from one that still has the value, then from the
    first one again, which has removed the tombstone meanwhile."""
    for key, is_tombstone in (("b", False), ("a", False), ("a", True), ("b", False)):
        cluster.write(key, is_tombstone)
    for _ in range(2):
        catch_up(cluster, 1)
        catch_up(cluster, 2)
    cluster.kill(2)
    for number in (0, 1):
        clean(cluster, number)
    cluster.unassign(1)
    cluster.assign(3)
    cluster.wait(2)
    cluster.fetch(3, 1)
    cluster.receive(3)
    cluster.wait(2)
    cluster.fetch(3, 0)
    cluster.receive(3)
    cluster.start_pass(0)
    cluster.restart(2)
    catch_up(cluster, 2)
    cluster.elect(2)
    cluster.go_on(0)
    cluster.go_on(0)
    catch_up(cluster, 0)
    cluster.fetch(3, 1)
    cluster.receive(3)
    assert [each.offset for each in cluster.replicas[3].log] == [1]
    cluster.elect(0)
    catch_up(cluster, 3, 4)
    assert 3 in cluster.isr
    cluster.check()


def _unclean_election_below_what_was_clean(cluster: Cluster) -> None:
    """Scenario 103: a leader whose log ends below what others had cleaned writes a tombstone."""
    cluster.write("a", False)
    catch_up(cluster, 2)
    cluster.kill(2)
    cluster.shrink(2)
    for _ in range(5):
        cluster.write("b", False)
    _settle(cluster, 0, 1)
    assert cluster.replicas[1].clean_to == 6
    cluster.write("b", False)
    cluster.shrink(1)
    cluster.kill(0)
    cluster.unassign(0)
    cluster.restart(2)
    cluster.elect_unclean(2)
    cluster.fetch(1, 9)
    cluster.write("a", True)
    clean(cluster, 2)
    cluster.receive(1)
    clean(cluster, 2)
    cluster.check()


def _unclean_election_while_copying(cluster: Cluster) -> None:
    """A newcomer has copied from a leader that was clean beyond where the next leader begins."""
    cluster.write("a", False)
    cluster.write("b", False)
    catch_up(cluster, 2)
    cluster.kill(2)
    cluster.shrink(2)
    cluster.write("b", False)
    cluster.write("b", False)
    _settle(cluster, 0, 1)
    cluster.unassign(1)
    cluster.assign(3)
    cluster.fetch(3, 1)
    cluster.receive(3)
    cluster.kill(0)
    cluster.restart(2)
    cluster.elect_unclean(2)
    cluster.unassign(0)
    cluster.fetch(3, 0)
    cluster.write("a", True)
    cluster.write("b", False)
    clean(cluster, 2)
    clean(cluster, 2)
    cluster.check()


def _copy_in_pieces(cluster: Cluster) -> None:
    """Below what the source has removed, one record at a time."""
    for key, is_tombstone in (("a", False), ("b", False), ("a", True), ("b", False)):
        cluster.write(key, is_tombstone)
    _settle(cluster, 0, 1, 2)
    assert cluster.replicas[0].removal.removed_to == 3
    cluster.unassign(1)
    cluster.assign(3)
    for _ in range(6):
        cluster.fetch(3, 1)
        cluster.receive(3)
    if 3 not in cluster.isr:
        raise NeedlessRebuild("a newcomer does not get to the end")


def _settle(cluster: Cluster, *numbers: int) -> None:
    for _ in range(3):
        for number in numbers:
            catch_up(cluster, number)
        for number in numbers:
            clean(cluster, number)


Story = Callable[[Cluster], None]
STORIES_TOLD: list[tuple[Story, Rules, type[AssertionError]]] = [
    (_copied_from_a_remover, Rules(replica=InheritsNothing), Resurrected),
    (_copy_in_pieces, Rules(replica=CoversNothing), NeedlessRebuild),
    (_unclean_election_while_copying, Rules(replica=CoversAcrossElections), DroppedEarly),
    (_copied_from_two_sources, Rules(replica=CoversWhateverItCopies), Resurrected),
    (
        _unclean_election_below_what_was_clean,
        Rules(counts_diverging_fetches=True),
        DroppedEarly,
    ),
    (
        _unclean_election_below_what_was_clean,
        Rules(keeps_reports_over_epochs=True),
        DroppedEarly,
    ),
]


@pytest.mark.parametrize(("story", "mutant", "broken"), STORIES_TOLD)
def test_rare_stories_need_their_rule(
    story: Story, mutant: Rules, broken: type[AssertionError]
) -> None:
    story(Cluster(Rules()))

    with pytest.raises(broken):
        story(Cluster(mutant))
