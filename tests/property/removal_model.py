"""A tiny cluster for the rules of coordinated removal: logs are lists, passes two steps, time one
number.

It plays one partition on a few replicas: writes, fetches whose answers arrive late, cleaning passes
whose limits grow old, kills, elections, unclean ones too, replicas removed and added again with the
directory they had. The rules under test are the real `replication.removal`; everything around it is
as small as it can be. `Cluster.check` states the promise after each step.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from ledgerstone.replication.removal import (
    LeaderRemoval,
    LeaderWord,
    ReplicaRemoval,
)

HOLD_MAX_MS = 100
KEYS = "ab"


class Resurrected(AssertionError):
    """A replica that may lead shows a value that a later record had replaced or deleted."""


class DroppedEarly(AssertionError):
    """A tombstone went while a replica that counts held an older value."""


class NeedlessRebuild(AssertionError):
    """A replica was wiped though nothing had been given up."""


class Rec(NamedTuple):
    offset: int
    key: str
    is_tombstone: bool
    is_stamped: bool = False


class Answer(NamedTuple):
    epoch: int
    truncate_to: int | None
    fetch_offset: int
    records: tuple[Rec, ...]
    next_offset: int
    high_watermark: int
    word: LeaderWord
    lineage: tuple[Rec, ...] = ()
    epochs: tuple[tuple[int, int], ...] = ()


@dataclass
class Pass:
    limit: int
    first_dirty: int
    end: int
    records: list[Rec] | None = None  # what stays, once it is written


@dataclass
class Replica:
    number: int
    removal: ReplicaRemoval
    log: list[Rec] = field(default_factory=list)
    # All that the log ever held, as if nothing had been cleaned.
    lineage: list[Rec] = field(default_factory=list)
    end: int = 0
    epochs: list[tuple[int, int]] = field(default_factory=list)
    clean_to: int = 0
    high_watermark: int = 0
    is_alive: bool = True
    running: Pass | None = None
    answer: Answer | None = None
    # Since it was empty. Before that, a new leader may make it start over.
    has_been_in_sync: bool = False
    # Below this offset others stopped waiting for it.
    excused_to: int = 0

    def latest(self, end: int) -> dict[str, Rec]:
        return {each.key: each for each in self.log if each.offset < end}

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        """The largest known epoch not above this one, and where it ends."""
        found = (-1, 0)
        for index, (each, _) in enumerate(self.epochs):
            if each <= epoch:
                following = self.epochs[index + 1 :]
                found = (each, following[0][1] if following else self.end)
        return found

    def truncate(self, offset: int) -> None:
        self.clean_to = min(self.clean_to, offset)
        self.running = None
        self.log = [each for each in self.log if each.offset < offset]
        self.lineage = self.lineage[:offset]
        self.end = min(self.end, offset)
        self.epochs = [each for each in self.epochs if each[1] < offset]
        self.high_watermark = min(self.high_watermark, offset)

    def wipe(self) -> None:
        self.truncate(0)
        self.removal.wiped()
        self.excused_to, self.has_been_in_sync = 0, False


class Rules(NamedTuple):
    """The machine under test, and the duties of its callers that a mutant may neglect."""

    replica: type[ReplicaRemoval] = ReplicaRemoval
    leader: type[LeaderRemoval] = LeaderRemoval
    writes_marks_before_swap: bool = True
    counts_diverging_fetches: bool = False
    keeps_reports_over_epochs: bool = False
    leader_counts_itself: bool = True


class Cluster:
    def __init__(self, rules: Rules, replicas: int = 4, assigned: int = 3) -> None:
        self.rules = rules
        self.now_ms = 0
        self.replicas = [Replica(number, rules.replica()) for number in range(replicas)]
        self.assigned = list(range(assigned))
        self.isr = set(self.assigned)
        self.leader: int | None = None
        self.epoch = 0
        self.epoch_start = 0
        # How far followers have told this leader that they are.
        self.told_ends: dict[int, int] = {}
        self.may_rebuild = False
        self.rebuilds = 0
        self.duties = rules.leader(leader_id=0, began_ms=0)
        for number in self.isr:
            self.replicas[number].has_been_in_sync = True
        self._lead(0)

    # -- metadata ------------------------------------------------------------------------------

    def _lead(self, number: int) -> None:
        replica = self.replicas[number]
        self.leader, self.epoch, self.epoch_start = number, self.epoch + 1, replica.end
        replica.epochs.append((self.epoch, replica.end))
        replica.answer, self.told_ends = None, {}
        if self.rules.keeps_reports_over_epochs:
            self.duties.leader_id = number
        else:
            self.duties = self.rules.leader(leader_id=number, began_ms=self.now_ms)
        self.duties.assume(self.assigned, now_ms=self.now_ms)

    def elect(self, number: int) -> None:
        replica = self.replicas[number]
        if number in self.isr and replica.is_alive and number != self.leader:
            self.isr = {each for each in self.isr if self.replicas[each].is_alive}
            self._lead(number)

    def elect_unclean(self, number: int) -> None:
        replica = self.replicas[number]
        if any(self.replicas[each].is_alive for each in self.isr) or not replica.is_alive:
            return
        if number not in self.assigned or self._shown(replica, replica.end) != _truth(
            replica, replica.end
        ):
            # Half a copy: what it lacks is lost as in Kafka, and nothing more can be asked of it.
            return
        self.isr, self.may_rebuild = {number}, True
        replica.high_watermark = replica.end
        self._lead(number)

    def shrink(self, number: int) -> None:
        if self.leader is not None and number != self.leader and number in self.isr:
            replica = self.replicas[number]
            if not replica.is_alive or replica.end < self.replicas[self.leader].end:
                self.isr.discard(number)
                self._advance()

    def assign(self, number: int) -> None:
        if number not in self.assigned and len(self.assigned) < 3:
            self.assigned.append(number)
            if self.replicas[number].end:
                # An old directory, about which nobody has been asking.
                self.replicas[number].excused_to = 1000
                self.may_rebuild = True
            self._reassigned()

    def unassign(self, number: int) -> None:
        if number in self.assigned and number != self.leader and len(self.assigned) > 1:
            self.assigned.remove(number)
            self.isr.discard(number)
            replica = self.replicas[number]
            if replica.is_alive:
                replica.wipe()
                replica.answer = None
            self._reassigned()

    def _reassigned(self) -> None:
        if self.leader is not None:
            self.duties.assume(self.assigned, now_ms=self.now_ms)
            self._advance()

    # -- life ----------------------------------------------------------------------------------

    def kill(self, number: int) -> None:
        replica = self.replicas[number]
        if replica.is_alive:
            replica.is_alive, replica.running, replica.answer = False, None, None
            replica.removal = self.rules.replica(removed_to=replica.removal.removed_to)
            if self.leader == number:
                self.leader = None

    def restart(self, number: int) -> None:
        self.replicas[number].is_alive = True

    def wait(self, part: int) -> None:
        self.now_ms += HOLD_MAX_MS // part

    # -- data ----------------------------------------------------------------------------------

    def write(self, key: str, is_tombstone: bool) -> None:
        if self.leader is not None and (leader := self.replicas[self.leader]).end < 40:
            record = Rec(leader.end, key, is_tombstone)
            leader.log.append(record)
            leader.lineage.append(record)
            leader.end += 1
            self._advance()

    def _advance(self) -> None:
        if self.leader is not None:
            leader = self.replicas[self.leader]
            ends = {**self.told_ends, self.leader: leader.end}
            committed = min(ends.get(each, 0) for each in self.isr)
            leader.high_watermark = max(leader.high_watermark, min(committed, leader.end))

    def _word(self) -> LeaderWord:
        assert self.leader is not None
        leader = self.replicas[self.leader]
        removable_to = self._removable_to(leader)
        return LeaderWord(removable_to, leader.removal.removed_to, leader.clean_to)

    def _removable_to(self, leader: Replica) -> int:
        own = leader.clean_to if self.rules.leader_counts_itself else leader.end
        terms = {"hold_max_ms": HOLD_MAX_MS, "now_ms": self.now_ms}
        for holder in self.duties.given_up(own, **terms):
            silent = self.replicas[holder.replica_id]
            silent.excused_to = max(silent.excused_to, own)
            self.may_rebuild = True
        return self.duties.removable_to(own, **terms)

    def fetch(self, number: int, size: int) -> None:
        """The leader reads and answers; the answer arrives when `receive` is called."""
        replica = self.replicas[number]
        if self.leader is None or number == self.leader or number not in self.assigned:
            return
        if not replica.is_alive or replica.answer is not None:
            return
        leader = self.replicas[self.leader]
        last_epoch = replica.epochs[-1][0] if replica.epochs else -1
        epoch, end = leader.epoch_end(last_epoch)
        diverges = last_epoch >= 0 and (epoch < last_epoch or end < replica.end)
        replica.removal.follow(self.epoch, is_empty=not replica.end)
        if not diverges or self.rules.counts_diverging_fetches:
            claim = replica.removal.claim(replica.clean_to)
            removed_to = replica.removal.removed_to
            self.duties.reported(number, clean_to=claim, removed_to=removed_to, now_ms=self.now_ms)
        if diverges:
            truncate_to = min(end, replica.epoch_end(epoch)[1])
            replica.answer = Answer(self.epoch, truncate_to, 0, (), 0, 0, self._word())
            return
        self.told_ends[number] = replica.end
        if number not in self.isr and replica.end >= max(leader.high_watermark, self.epoch_start):
            self.isr.add(number)
            replica.has_been_in_sync = True
        self._advance()
        following = min(leader.end, replica.end + size)
        found = tuple(each for each in leader.log if replica.end <= each.offset < following)
        replica.answer = Answer(
            self.epoch,
            None,
            replica.end,
            found,
            following,
            leader.high_watermark,
            self._word(),
            tuple(leader.lineage[replica.end : following]),
            tuple(each for each in leader.epochs if each[1] < following),
        )

    def receive(self, number: int) -> None:
        replica, answer = self.replicas[number], self.replicas[number].answer
        replica.answer = None
        if answer is None or answer.epoch != self.epoch or not replica.is_alive:
            return
        if answer.truncate_to is not None:
            replica.truncate(answer.truncate_to)
            return
        if replica.removal.must_rebuild(answer.word, end_offset=replica.end):
            self._rebuild(replica)
            return
        replica.removal.heard(answer.word, now_ms=self.now_ms)
        if answer.next_offset > replica.end:
            replica.removal.before_append(answer.word, end_offset=replica.end)
            replica.log += answer.records
            known = dict(replica.epochs)
            replica.epochs += [each for each in answer.epochs if each[0] not in known]
            replica.lineage += answer.lineage
            replica.end = answer.next_offset
        replica.high_watermark = min(
            max(replica.high_watermark, answer.high_watermark), replica.end
        )
        self._advance()

    def _rebuild(self, replica: Replica) -> None:
        self.rebuilds += 1
        if not self.may_rebuild and replica.has_been_in_sync:
            raise NeedlessRebuild(f"replica {replica.number} though nothing was given up")
        if replica.number in self.isr:
            raise NeedlessRebuild(f"replica {replica.number} is in sync")
        replica.wipe()

    # -- cleaning ------------------------------------------------------------------------------

    def start_pass(self, number: int) -> None:
        replica = self.replicas[number]
        if replica.is_alive and replica.running is None and number in self.assigned:
            if number == self.leader:
                limit = self._removable_to(replica)
            else:
                limit = replica.removal.limit_as_follower(
                    replica.clean_to, hold_max_ms=HOLD_MAX_MS, now_ms=self.now_ms
                )
            replica.running = Pass(limit, replica.clean_to, replica.high_watermark)

    def go_on(self, number: int) -> None:
        """Writes what is left, or swaps it in."""
        replica = self.replicas[number]
        running = replica.running
        if running is None:
            return
        if running.records is None:
            running.records = self._cleaned(replica, running)
            if self.rules.writes_marks_before_swap:
                self._note_removed(replica, running)
            return
        self._check_removed(replica, running)
        replica.log, replica.running = (
            running.records + replica.log[_below(replica, running) :],
            None,
        )
        replica.clean_to = max(replica.clean_to, running.end)

    def _note_removed(self, replica: Replica, running: Pass) -> None:
        gone = _removed(replica, running)
        if gone:
            replica.removal.before_removal(gone[-1].offset + 1)

    def _cleaned(self, replica: Replica, running: Pass) -> list[Rec]:
        # As the real map: only what lies from the first dirty offset on supersedes anything.
        mapped = {
            each.key: each.offset
            for each in replica.log
            if running.first_dirty <= each.offset < running.end
        }
        kept = []
        for each in replica.log:
            if each.offset >= running.end or each.offset < mapped.get(each.key, -1):
                continue
            if each.is_tombstone and each.is_stamped and each.offset < running.limit:
                continue
            kept.append(each._replace(is_stamped=True) if each.is_tombstone else each)
        return kept

    def _check_removed(self, replica: Replica, running: Pass) -> None:
        for gone in _removed(replica, running):
            for other in self.replicas:
                if other.number not in self.assigned or gone.offset < other.excused_to:
                    continue
                older = [
                    each for each in other.log if each.key == gone.key and each.offset < gone.offset
                ]
                if older and other is not replica:
                    raise DroppedEarly(f"{gone} by {replica.number}, {other.number} has {older[0]}")

    # -- the promise ---------------------------------------------------------------------------

    def _shown(self, replica: Replica, end: int) -> dict[str, int]:
        shown = replica.latest(end)
        return {key: each.offset for key, each in shown.items() if not each.is_tombstone}

    def check(self) -> None:
        for number in self.isr:
            replica = self.replicas[number]
            shown = self._shown(replica, replica.high_watermark)
            truth = _truth(replica, replica.high_watermark)
            if shown != truth:
                raise Resurrected(f"replica {number} shows {shown}, it should be {truth}")


def _truth(replica: Replica, end: int) -> dict[str, int]:
    """The values that a log with this lineage has to show."""
    latest = {each.key: each for each in replica.lineage[:end]}
    return {key: each.offset for key, each in latest.items() if not each.is_tombstone}


def _below(replica: Replica, running: Pass) -> int:
    return sum(1 for each in replica.log if each.offset < running.end)


def _removed(replica: Replica, running: Pass) -> list[Rec]:
    """Tombstones that went because they had expired, not because something came after them."""
    kept = {each.offset for each in running.records or ()}
    mapped = {
        each.key: each.offset
        for each in replica.log
        if running.first_dirty <= each.offset < running.end
    }
    return [
        each
        for each in replica.log
        if each.is_tombstone
        and each.offset < running.end
        and each.offset not in kept
        and each.offset >= mapped.get(each.key, -1)
    ]


Step = Callable[[Cluster, random.Random], None]


def _any(cluster: Cluster, dice: random.Random) -> int:
    return dice.randrange(len(cluster.replicas))


def _one(dice: random.Random, wanted: list[int]) -> int:
    return dice.choice(wanted or [0])


def _fetch(cluster: Cluster, dice: random.Random) -> None:
    idle = [each.number for each in cluster.replicas if each.is_alive and each.answer is None]
    cluster.fetch(_one(dice, idle), dice.randint(1, 4))


def _receive(cluster: Cluster, dice: random.Random) -> None:
    cluster.receive(_one(dice, [each.number for each in cluster.replicas if each.answer]))


def _go_on(cluster: Cluster, dice: random.Random) -> None:
    cluster.go_on(_one(dice, [each.number for each in cluster.replicas if each.running]))


def catch_up(cluster: Cluster, number: int, times: int = 2) -> None:
    cluster.receive(number)
    for _ in range(times):
        cluster.fetch(number, 40)
        cluster.receive(number)


def clean(cluster: Cluster, number: int) -> None:
    cluster.start_pass(number)
    cluster.go_on(number)
    cluster.go_on(number)


def _all_but_some(cluster: Cluster, dice: random.Random) -> list[int]:
    return [each.number for each in cluster.replicas if dice.random() < 0.8]


def _all_catch_up(cluster: Cluster, dice: random.Random) -> None:
    for number in _all_but_some(cluster, dice):
        catch_up(cluster, number)


def _all_clean(cluster: Cluster, dice: random.Random) -> None:
    for number in _all_but_some(cluster, dice):
        clean(cluster, number)


def _wait_for_the_silent(cluster: Cluster, dice: random.Random) -> None:
    """Until replicas that are away are given up, and none of the others."""
    cluster.wait(1)
    for number in range(len(cluster.replicas)):
        catch_up(cluster, number, 1)


def _delete(cluster: Cluster, dice: random.Random) -> None:
    key = dice.choice(KEYS)
    cluster.write(key, False)
    if dice.random() < 0.5:
        catch_up(cluster, _any(cluster, dice))
    cluster.write(key, True)


STEPS: list[tuple[int, str, Step]] = [
    (6, "write", lambda c, d: c.write(d.choice(KEYS), d.random() < 0.5)),
    (4, "delete", _delete),
    (8, "fetch", _fetch),
    (8, "receive", _receive),
    (6, "catch_up", lambda c, d: catch_up(c, _any(c, d))),
    (4, "all_catch_up", _all_catch_up),
    (4, "start_pass", lambda c, d: c.start_pass(_any(c, d))),
    (8, "go_on", _go_on),
    (6, "clean", lambda c, d: clean(c, _any(c, d))),
    (4, "all_clean", _all_clean),
    (2, "kill", lambda c, d: c.kill(_any(c, d))),
    (2, "restart", lambda c, d: c.restart(_any(c, d))),
    (3, "shrink", lambda c, d: c.shrink(_any(c, d))),
    (3, "elect", lambda c, d: c.elect(_any(c, d))),
    (1, "elect_unclean", lambda c, d: c.elect_unclean(_any(c, d))),
    (2, "wait", lambda c, d: c.wait(d.randint(2, 8))),
    (2, "wait_for_the_silent", _wait_for_the_silent),
    (1, "assign", lambda c, d: c.assign(_any(c, d))),
    (1, "unassign", lambda c, d: c.unassign(_any(c, d))),
]
RARE = ("kill", "restart", "elect", "elect_unclean", "wait", "assign", "unassign", "shrink")
# What goes on while one replica is away.
QUIET = ("kill", "restart", "elect_unclean", "assign", "unassign")


def walk(rules: Rules, seed: int, *, steps: int = 120) -> Cluster:
    """One random story. Each has its own weights, and may leave out whole kinds of steps, so that
    the others go far. In most of them a replica goes away for a while."""
    dice = random.Random(seed)
    cluster = Cluster(rules)
    chosen = [each for each in STEPS if each[1] not in RARE or dice.random() < 0.75]
    weights = {name: weight * dice.choice((0.3, 1, 1, 3)) for weight, name, _ in chosen}

    def play(count: int, without: tuple[str, ...] = ()) -> None:
        left = [each for each in chosen if each[1] not in without]
        for _, _, step in dice.choices(left, [weights[each[1]] for each in left], k=count):
            step(cluster, dice)
            cluster.check()

    play(dice.randrange(steps // 4))
    for _ in range(dice.randrange(1, 4)):
        away = _any(cluster, dice)
        dismissed = dice.random() < 0.2
        cluster.kill(away)
        cluster.elect((away + 1) % len(cluster.replicas))
        cluster.elect((away + 2) % len(cluster.replicas))
        cluster.shrink(away)
        if dismissed:
            cluster.unassign(away)
        play(dice.randrange(steps // 2), QUIET)
        if dismissed:
            cluster.assign(away)
        cluster.restart(away)
        play(dice.randrange(steps // 4))
    return cluster
