"""How far each replica's data is: a model small enough to judge elections by. Part of sim.

A partition's data is one number, what was acknowledged with acks=all. It rises when every member
of the maximal in-sync set has fetched it, and there are enough of them. Power loss takes a replica
back unless its process had stopped cleanly. So a clean leader must have the whole number, and so
must everyone its leader counts on. Leaders and followers act by the images of their own processes.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from ledgerstone.metadata.image import MetadataImage, PartitionImage, TopicImage
from ledgerstone.sim.controller.facts import RECOVERING, PartitionFact
from ledgerstone.sim.controller.scenario import Config
from ledgerstone.sim.controller.truth import Key, Truth
from ledgerstone.sim.world import Violation, World

# How much of what it lacks a follower fetches between two looks of its leader.
_FETCHED = 2
_MOST_LOST = 12


class Member(Protocol):
    """A broker process."""

    number: int
    incarnation_id: bytes

    @property
    def image(self) -> MetadataImage: ...

    @property
    def broker_epoch(self) -> int: ...

    @property
    def is_registered(self) -> bool:
        """Its own image has its own registration: only then it looks at partitions."""
        ...


class Change(NamedTuple):
    """The in-sync set that a leader would like, with the broker epochs it goes by."""

    key: Key
    leader_epoch: int
    partition_epoch: int
    isr: tuple[tuple[int, int], ...]
    added: tuple[int, ...]


class Replication:
    def __init__(self, world: World, config: Config, truth: Truth) -> None:
        self._world = world
        self._config = config
        self._truth = truth
        self._dice = world.dice("replication")
        self._acked: dict[Key, int] = {}
        self._has: dict[tuple[Key, int], int] = {}
        # Who leads in which epoch, as far as it was looked at.
        self._begun: dict[Key, int] = {}
        self._silent_since: dict[tuple[Key, int], int] = {}
        # Nodes whose process stopped cleanly, and has not been followed by another.
        self.flushed: set[int] = set()
        self.reach: Callable[[int, int], Member | None] = lambda source, target: None
        truth.on_changed = self._changed
        self.acks = 0

    # -- power --------------------------------------------------------------------------------

    def lost_power(self, number: int, *, whole: bool = False) -> None:
        if number in self.flushed and not whole:
            return
        for (key, replica), has in self._has.items():
            if replica != number or not (whole or self._dice.chance(60)):
                continue
            kept = 0 if whole else max(has - self._dice.between(1, _MOST_LOST), 0)
            self._has[key, replica] = kept
            if kept < self._acked.get(key, 0):
                self._world.mark("power loss took data of a replica")

    # -- elections ----------------------------------------------------------------------------

    def _changed(self, key: Key, before: PartitionFact, after: PartitionFact) -> None:
        if after.recovery == RECOVERING and after.leader != before.leader and after.leader >= 0:
            self._start_over(key, after.leader)

    def _start_over(self, key: Key, leader: int) -> None:
        """Whatever the leader has is the data now."""
        has = self._has.get((key, leader), 0)
        self._acked[key] = min(self._acked.get(key, 0), has)
        for each in list(self._has):
            if each[0] == key:
                self._has[each] = min(self._has[each], self._acked[key])

    def _begin(self, member: Member, key: Key, epoch: int) -> None:
        if self._begun.get(key, -1) >= epoch:
            return
        fact = self._truth.partitions.get(key)
        if fact is None or fact.leader_epoch != epoch:
            return
        self._begun[key] = epoch
        acked, has = self._acked.get(key, 0), self._has.get((key, member.number), 0)
        if has >= acked:
            return
        if not self._config.elr:
            # The last in-sync replica has lost its power: Kafka's loss, and what ELR is for.
            self._world.mark("without ELR, the last replica lost data")
            self._start_over(key, member.number)
            return
        raise Violation(
            "CleanElectionsLoseNothing",
            f"{key[0].hex()[:8]}-{key[1]}: n{member.number} leads epoch {epoch} with {has} of"
            f" {acked}, {fact}",
        )

    # -- a leader at work ---------------------------------------------------------------------

    def lead(
        self,
        member: Member,
        topic: TopicImage,
        number: int,
        partition: PartitionImage,
        pending: tuple[int, ...],
    ) -> Change | None:
        """One look of a leader at one of its partitions; what it would like to change."""
        key = (topic.topic_id, number)
        self._begin(member, key, partition.leader_epoch)
        followers = {
            each: self._follower(member, topic.name, number, partition, each)
            for each in partition.replicas
            if each != member.number
        }
        self._check_isr(member, key, partition)
        caught_up = {
            each
            for each, found in followers.items()
            if found is not None and self._fetch(key, member.number, each)
        }
        maximal = set(partition.isr) | set(pending)
        if maximal - {member.number} <= caught_up:
            self._acknowledge(member, key, topic, partition, maximal | caught_up)
        return self._wish(member, key, partition, followers, caught_up)

    def _fetch(self, key: Key, leader: int, follower: int) -> bool:
        """Whether it has everything now."""
        end, has = self._has.get((key, leader), 0), self._has.get((key, follower), 0)
        # A far follower comes closer faster than its leader writes, or it would never be in sync.
        fetched = max(_FETCHED, (end - has) // 4)
        self._has[key, follower] = has = min(end, has + fetched)
        return has == end

    def _follower(
        self, member: Member, topic: str, number: int, partition: PartitionImage, broker_id: int
    ) -> Member | None:
        """That fetches from this leader in this epoch."""
        found = self.reach(member.number, broker_id)
        if found is None or not found.is_registered:
            return None
        known = found.image.partition(topic, number)
        if known is None or known.leader != member.number:
            return None
        return found if known.leader_epoch == partition.leader_epoch else None

    def _check_isr(self, member: Member, key: Key, partition: PartitionImage) -> None:
        """Whoever is in sync, in the incarnation that its leader knows, has everything."""
        fact = self._truth.partitions.get(key)
        if fact is None or fact.leader_epoch != partition.leader_epoch:
            # Deposed, and does not know it yet.
            return
        image, acked = member.image, self._acked.get(key, 0)
        for each in partition.isr:
            broker = image.brokers.get(each)
            found = member if each == member.number else self.reach(member.number, each)
            if broker is None or found is None or broker.broker_epoch != found.broker_epoch:
                # Another process, whose registration this leader has not seen.
                continue
            has = self._has.get((key, each), 0)
            if has < acked:
                raise Violation(
                    "IsrHoldsData",
                    f"{key[0].hex()[:8]}-{key[1]}: n{each} is in sync with {has} of {acked},"
                    f" {partition}",
                )

    def _acknowledge(
        self,
        member: Member,
        key: Key,
        topic: TopicImage,
        partition: PartitionImage,
        fetching: set[int],
    ) -> None:
        least = int(member.image.topic_config(topic.name).get("min.insync.replicas", "1"))
        if len(partition.isr) < min(least, len(partition.replicas)):
            return
        acked = self._acked.get(key, 0) + 1
        self._acked[key] = acked
        self.acks += 1
        for each in fetching:
            self._has[key, each] = acked

    def _wish(
        self,
        member: Member,
        key: Key,
        partition: PartitionImage,
        followers: dict[int, Member | None],
        caught_up: set[int],
    ) -> Change | None:
        image, now_ms = member.image, self._world.now_ms
        isr: dict[int, int] = {}
        added: list[int] = []
        for each in partition.isr:
            broker = image.brokers.get(each)
            isr[each] = -1 if broker is None else broker.broker_epoch
        for each, found in followers.items():
            place = (key, each)
            if found is not None and each in caught_up:
                self._silent_since.pop(place, None)
                broker = image.brokers.get(each)
                if each not in isr and broker is not None and broker.is_active:
                    isr[each] = found.broker_epoch
                    added.append(each)
            elif now_ms - self._silent_since.setdefault(place, now_ms) > self._config.lag_ms:
                isr.pop(each, None)
        if set(isr) == set(partition.isr):
            return None
        return Change(
            key,
            partition.leader_epoch,
            partition.partition_epoch,
            tuple(sorted(isr.items())),
            tuple(added),
        )
