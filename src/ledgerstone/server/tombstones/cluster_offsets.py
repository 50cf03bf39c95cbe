"""What groups have committed, also those whose coordinator is another broker. Grade D.

A replica must know before it removes a tombstone which groups have read it, and a group's offsets
are with its coordinator: the leader of its partition of `__consumer_offsets`. So a broker asks the
others, as a client would (ListGroups, OffsetFetch), every few seconds while it hosts compacted
partitions. What a coordinator said last counts until it says something else; how old it may be for
all groups to count as known is `FRESH_MS`. Contract: docs/tombstones.md, "Nobody misses a delete".
"""

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from ledgerstone.clock import Clock
from ledgerstone.coordinator.offsets import CommittedOffset
from ledgerstone.coordinator.partitioning import partition_for
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.metadata.delta import Delta
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.metadata.topic_names import CONSUMER_OFFSETS
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from ledgerstone.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroupTopic,
)
from ledgerstone.raft.replica import Peer
from ledgerstone.server.broker_queues import peer_of
from ledgerstone.server.calls import CallFailed
from ledgerstone.server.controller_channel import AsksNodes
from ledgerstone.server.effects import Effect
from ledgerstone.server.groups.shards import HostedShards
from ledgerstone.server.results import Result

PERIOD_MS: Final = 5_000
# With many groups less often: a thousand take no more than this each.
_PERIOD_PER_GROUP_MS: Final = 5
FRESH_MS: Final = 3 * PERIOD_MS
_TIMEOUT_MS: Final = 5_000
_RETRY_MS: Final = 500
_GROUPS_AT_ONCE: Final = 50
# OffsetFetch for several groups.
_LEAST_VERSION: Final = 8
_PROBE: Final = "ledgerstone-probe"

Commits = dict[str, dict[str, dict[int, CommittedOffset]]]  # by topic, group, partition


class Learned(NamedTuple):
    """The groups of one partition of the offsets topic, as its leader told them."""

    leader_epoch: int
    at_ms: int  # monotonic
    commits: Commits


@dataclass(slots=True, kw_only=True, eq=False)
class _Visit:
    """One broker that is being asked. `numbers`: the offsets partitions it leads, with epochs."""

    peer: Peer
    numbers: Mapping[int, int]
    count: int
    groups: list[str] = field(default_factory=list)
    commits: dict[int, Commits] = field(default_factory=dict)


@dataclass(slots=True)
class ClusterOffsets:
    """An agent (`server.agent`). Without `calls` there are no other brokers."""

    clock: Clock
    image: Callable[[], MetadataImage]
    here: HostedShards
    node_id: int
    listener: str | None = None  # of brokers
    calls: AsksNodes | None = None
    # The topics whose commits matter here.
    wanted: Callable[[], set[str]] = set
    on_learned: Callable[[], None] | None = None
    _learned: dict[int, Learned] = field(default_factory=dict)
    _visits: dict[int, _Visit] = field(default_factory=dict)
    _due_ms: int = 0

    # -- what is known ------------------------------------------------------------------------

    def committed_on(self, topic: str) -> dict[str, Mapping[int, CommittedOffset]]:
        """By group, then by partition; groups without a commit in the topic are not in it."""
        found: dict[str, Mapping[int, CommittedOffset]] = {}
        loaded = self.here.loaded() if self._learned else ()
        for number, learned in self._learned.items():
            if number not in loaded:
                found.update(learned.commits.get(topic, {}))
        found.update(self.here.committed_on(topic))
        return found

    def are_known(self) -> bool:
        """Whether every group that has ever committed something is known, and where it is now."""
        topic = self.image().topics.get(CONSUMER_OFFSETS)
        if topic is None:
            return True
        loaded = dict.fromkeys(self.here.loaded())
        return all(number in loaded or self._is_fresh(number) for number in topic.partitions)

    def knows(self, group_id: str) -> bool:
        """Whether its coordinator has told what it committed: also that it committed nothing."""
        topic = self.image().topics.get(CONSUMER_OFFSETS)
        if topic is None:
            return True
        number = partition_for(group_id, len(topic.partitions))
        return number in self.here.loaded() or self._is_fresh(number)

    def _is_fresh(self, number: int) -> bool:
        learned, state = self._learned.get(number), self.image().partition(CONSUMER_OFFSETS, number)
        if learned is None or state is None or learned.leader_epoch != state.leader_epoch:
            return False
        return self.clock.monotonic_ms() - learned.at_ms < self._fresh_ms

    @property
    def _fresh_ms(self) -> int:
        return FRESH_MS * self._period_ms // PERIOD_MS

    @property
    def _period_ms(self) -> int:
        groups = sum(
            len(each) for learned in self._learned.values() for each in learned.commits.values()
        )
        return max(PERIOD_MS, groups * _PERIOD_PER_GROUP_MS)

    # -- as an agent --------------------------------------------------------------------------

    @property
    def next_deadline_ms(self) -> int | None:
        return None if self.calls is None else self._due_ms

    def tick(self) -> list[Effect]:
        now_ms = self.clock.monotonic_ms()
        if self.calls is not None and now_ms >= self._due_ms:
            self._due_ms = now_ms + self._period_ms
            self._ask_all()
        return []

    def completed(self, effect: Effect, result: Result) -> list[Effect]:
        raise AssertionError(f"group offsets asked for no {type(effect).__name__}")

    def metadata_changed(self, delta: Delta) -> list[Effect]:
        """A new coordinator, or a new compacted topic, is asked at once."""
        moved = [each.topic for each in delta.partitions_changed]
        if self.calls is not None and (CONSUMER_OFFSETS in moved or delta.topics_created):
            self._due_ms = 0
        return []

    # -- asking -------------------------------------------------------------------------------

    def _ask_all(self) -> None:
        image = self.image()
        topic = image.topics.get(CONSUMER_OFFSETS)
        if topic is None or not self.wanted():
            self._learned.clear()
            return
        by_leader: dict[int, dict[int, int]] = {}
        for number, state in topic.partitions.items():
            if state.leader >= 0 and state.leader != self.node_id:
                by_leader.setdefault(state.leader, {})[number] = state.leader_epoch
        for leader, numbers in by_leader.items():
            peer = peer_of(image, leader, self.listener)
            if peer is not None and leader not in self._visits:
                visit = _Visit(peer=peer, numbers=numbers, count=len(topic.partitions))
                self._visits[leader] = visit
                self._ask_offsets(visit, [], self._ask_groups)

    def _ask_groups(self, visit: _Visit) -> None:
        """After it has shown that it serves all of `numbers`: a coordinator that is still loading
        lists none of its groups."""

        def heard(answer: ApiMessage | CallFailed) -> None:
            if not isinstance(answer, ListGroupsResponse) or answer.error_code:
                self._fail(visit)
                return
            visit.groups = [
                each.group_id
                for each in answer.groups
                if partition_for(each.group_id, visit.count) in visit.numbers
            ]
            self._ask_next(visit)

        assert self.calls is not None
        self.calls.ask(visit.peer, ListGroupsRequest(), heard, timeout_ms=_TIMEOUT_MS)

    def _ask_next(self, visit: _Visit) -> None:
        batch, visit.groups = visit.groups[:_GROUPS_AT_ONCE], visit.groups[_GROUPS_AT_ONCE:]
        self._ask_offsets(visit, batch, self._ask_next if visit.groups else self._learn)

    def _ask_offsets(
        self, visit: _Visit, groups: list[str], then: Callable[[_Visit], None]
    ) -> None:
        """Asks for all of these groups have committed, and for a group in each of `numbers` that
        nobody has: the answer shows whether this broker is the coordinator there."""
        asked = [*groups, *(probe_of(number, visit.count) for number in visit.numbers)]

        def heard(answer: ApiMessage | CallFailed) -> None:
            if isinstance(answer, OffsetFetchResponse) and self._take(visit, answer, len(asked)):
                then(visit)
            else:
                self._fail(visit)

        assert self.calls is not None
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=each) for each in asked]
        )
        self.calls.ask(
            visit.peer, request, heard, timeout_ms=_TIMEOUT_MS, least_version=_LEAST_VERSION
        )

    def _take(self, visit: _Visit, answer: OffsetFetchResponse, count: int) -> bool:
        """Whether every group was answered."""
        names, now_ms = self._names(), self.clock.now_ms()
        for group in answer.groups:
            if group.error_code:
                return False
            place = partition_for(group.group_id, visit.count)
            for topic in group.topics:
                name = topic.name or names.get(topic.topic_id, "")
                if name in names.values():
                    found = visit.commits.setdefault(place, {}).setdefault(name, {})
                    found[group.group_id] = dict(_committed(topic, now_ms))
        return not answer.error_code and len(answer.groups) == count

    def _names(self) -> dict[bytes, str]:
        """Of the wanted topics. Newer answers have ids instead."""
        topics = self.image().topics
        return {topics[each].topic_id: each for each in self.wanted() if each in topics}

    def _learn(self, visit: _Visit) -> None:
        self._end(visit)
        now_ms, has_changed = self.clock.monotonic_ms(), False
        for number, leader_epoch in visit.numbers.items():
            before, commits = self._learned.get(number), visit.commits.get(number, {})
            self._learned[number] = Learned(leader_epoch, now_ms, commits)
            has_changed |= before is None or _places(before.commits) != _places(commits)
        if has_changed and self.on_learned is not None:
            self.on_learned()

    def _end(self, visit: _Visit) -> None:
        del self._visits[visit.peer.id]

    def _fail(self, visit: _Visit) -> None:
        """As while a coordinator loads, or moves."""
        self._end(visit)
        self._due_ms = min(self._due_ms, self.clock.monotonic_ms() + _RETRY_MS)


def _committed(
    topic: OffsetFetchResponseGroupTopic, now_ms: int
) -> Iterator[tuple[int, CommittedOffset]]:
    for each in topic.partitions:
        if each.error_code == ErrorCode.NONE and each.committed_offset >= 0:
            yield (
                each.partition_index,
                # When it was committed is not told: not later than now.
                CommittedOffset(
                    each.committed_offset, each.committed_leader_epoch, each.metadata or "", now_ms
                ),
            )


def _places(commits: Commits) -> dict[str, dict[str, dict[int, int]]]:
    return {
        topic: {
            group: {number: each.offset for number, each in partitions.items()}
            for group, partitions in groups.items()
        }
        for topic, groups in commits.items()
    }


@lru_cache(maxsize=1024)
def probe_of(number: int, count: int) -> str:
    """A group id of the partition that no client uses."""
    tries = 0
    while partition_for(f"{_PROBE}-{tries}", count) != number:
        tries += 1
    return f"{_PROBE}-{tries}"
