"""A group shard with its shell: time, a log to replay from, and a record of who was answered."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ledgerstone.coordinator.classic_group import ClassicGroup
from ledgerstone.coordinator.shard import GroupShard
from ledgerstone.coordinator.turn import GroupConfig, GroupRecord, Now, RequestContext, TurnOutcome
from ledgerstone.protocol.codec import encode
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ledgerstone.protocol.messages.join_group import (
    JoinGroupProtocol,
    JoinGroupRequest,
    JoinGroupResponse,
)
from ledgerstone.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupRequestMember,
    LeaveGroupResponse,
)
from ledgerstone.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ledgerstone.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestGroupTopic,
    OffsetFetchResponse,
)
from ledgerstone.protocol.messages.sync_group import (
    SyncGroupAssignment,
    SyncGroupRequest,
    SyncGroupResponse,
)
from ledgerstone.sim.dice import SeededDice

T0 = 1_700_000_000_000
GROUP = "readers"
SESSION_MS = 10_000
REBALANCE_MS = 60_000
DELAY_MS = 3_000

R = TypeVar("R", bound=ApiMessage)


def subscription(*topics: str) -> bytes:
    """ConsumerProtocolSubscription v0."""
    parts = [b"\0\0", len(topics).to_bytes(4, "big")]
    for topic in topics:
        parts += [len(topic).to_bytes(2, "big"), topic.encode()]
    return b"".join((*parts, b"\xff\xff\xff\xff"))


def _addressed(member_id: str, generation_id: int) -> dict[str, Any]:
    return {"group_id": GROUP, "member_id": member_id, "generation_id": generation_id}


@dataclass(slots=True)
class Desk:
    config: GroupConfig = field(default_factory=GroupConfig)
    wall_ms: int = T0
    monotonic_ms: int = 0
    log: list[GroupRecord] = field(default_factory=list)
    answers: dict[int, ApiMessage] = field(default_factory=dict)
    versions: dict[int, int] = field(default_factory=dict)
    asked: int = 0
    shard: GroupShard = field(init=False)

    def __post_init__(self) -> None:
        self.restart()

    # -- the shell ----------------------------------------------------------------------------

    @property
    def now(self) -> Now:
        return Now(self.wall_ms, self.monotonic_ms)

    def perform(self, outcome: TurnOutcome) -> None:
        self.log += outcome.records
        for record in outcome.records:
            self.shard.replay(*record)
        late = [(token, respond()) for token, respond in outcome.late]
        for token, response in [*outcome.answers, *late]:
            assert isinstance(token, int)
            assert token not in self.answers, f"{token} answered twice"
            self.answers[token] = response
            # Whatever the machine answers must fit the version that was asked in.
            encode(response, self.versions[token])
        self.shard.check_invariants()

    def restart(self) -> None:
        """The broker is gone with everything in its memory; another one reads the log."""
        self.shard = GroupShard(self.config, SeededDice(self.asked))
        for record in self.log:
            self.shard.replay(*record)
        self.perform(self.shard.loaded(self.now))

    def pass_time(self, duration_ms: int) -> None:
        end_ms = self.monotonic_ms + duration_ms
        while (deadline_ms := self.shard.next_deadline_ms) is not None and deadline_ms <= end_ms:
            self._advance_to(max(deadline_ms, self.monotonic_ms))
            self.perform(self.shard.tick(self.now))
        self._advance_to(end_ms)

    def await_answer(self, token: int) -> None:
        for _ in range(100):
            if token in self.answers:
                return
            self.pass_time(1_000)
        raise AssertionError(f"{token} is not answered")

    def _advance_to(self, monotonic_ms: int) -> None:
        self.wall_ms += monotonic_ms - self.monotonic_ms
        self.monotonic_ms = monotonic_ms

    def ask(self, api: str, request: ApiMessage, version: int, client: str = "client") -> int:
        """The number of the request; `answers` has the response, once there is one."""
        self.asked += 1
        self.perform(self.outcome_of(api, request, version, client))
        return self.asked

    def outcome_of(
        self, api: str, request: ApiMessage, version: int, client: str = "client"
    ) -> TurnOutcome:
        self.versions[self.asked] = version
        context = RequestContext(
            token=self.asked, api_version=version, client_id=client, client_host="/10.0.0.1"
        )
        outcome: TurnOutcome = getattr(self.shard, f"handle_{api}")(request, context, self.now)
        return outcome

    def answer(self, token: int, response_class: type[R]) -> R:
        response = self.answers[token]
        assert isinstance(response, response_class)
        return response

    def group(self, group_id: str = GROUP) -> ClassicGroup:
        return self.shard.table.groups[group_id]

    # -- requests -----------------------------------------------------------------------------

    def join(
        self,
        member_id: str = "",
        *,
        group: str = GROUP,
        version: int = 9,
        protocols: Sequence[str] | Mapping[str, bytes] = ("range",),
        metadata: bytes = b"",
        client: str = "client",
        **fields: Any,
    ) -> int:
        if not isinstance(protocols, Mapping):
            protocols = dict.fromkeys(protocols, metadata)
        wanted: dict[str, Any] = {
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS,
            "protocol_type": "consumer",
            "protocols": [
                JoinGroupProtocol(name=name, metadata=said) for name, said in protocols.items()
            ],
        }
        request = JoinGroupRequest(group_id=group, member_id=member_id, **(wanted | fields))
        return self.ask("join_group", request, version, client)

    def joined(self, token: int) -> JoinGroupResponse:
        return self.answer(token, JoinGroupResponse)

    def member_id(self, *, group: str = GROUP, client: str = "client") -> str:
        """An id handed out to a new client."""
        return self.joined(self.join(group=group, client=client)).member_id

    def sync(
        self,
        member_id: str,
        generation_id: int = 1,
        assignments: dict[str, bytes] | None = None,
        **fields: Any,
    ) -> int:
        given = [
            SyncGroupAssignment(member_id=each, assignment=data)
            for each, data in (assignments or {}).items()
        ]
        request = SyncGroupRequest(
            **_addressed(member_id, generation_id) | fields, assignments=given
        )
        return self.ask("sync_group", request, 5)

    def synced(self, token: int) -> SyncGroupResponse:
        return self.answer(token, SyncGroupResponse)

    def heartbeat(self, member_id: str, generation_id: int = 1, **fields: Any) -> int:
        request = HeartbeatRequest(**_addressed(member_id, generation_id) | fields)
        return self.answer(self.ask("heartbeat", request, 4), HeartbeatResponse).error_code

    def leave(self, *members: tuple[str, str | None], version: int = 5) -> LeaveGroupResponse:
        request = LeaveGroupRequest(
            group_id=GROUP,
            member_id=members[0][0],
            members=[
                LeaveGroupRequestMember(member_id=member_id, group_instance_id=instance_id)
                for member_id, instance_id in members
            ],
        )
        return self.answer(self.ask("leave_group", request, version), LeaveGroupResponse)

    def commit(
        self,
        offset: int = 7,
        *,
        topic: str = "orders",
        member_id: str = "",
        generation_id: int = -1,
        group: str = GROUP,
        version: int = 9,
        metadata: str = "",
        **fields: Any,
    ) -> int:
        partition = OffsetCommitRequestPartition(
            partition_index=0,
            committed_offset=offset,
            committed_leader_epoch=4,
            committed_metadata=metadata,
        )
        request = OffsetCommitRequest(
            group_id=group,
            member_id=member_id,
            generation_id_or_member_epoch=generation_id,
            topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])],
            **fields,
        )
        response = self.answer(self.ask("offset_commit", request, version), OffsetCommitResponse)
        return response.topics[0].partitions[0].error_code

    def committed(self, topic: str = "orders", group: str = GROUP) -> int:
        wanted = OffsetFetchRequestGroupTopic(name=topic, partition_indexes=[0])
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=group, topics=[wanted])]
        )
        response = self.answer(self.ask("offset_fetch", request, 9), OffsetFetchResponse)
        assert response.groups[0].error_code == ErrorCode.NONE
        return response.groups[0].topics[0].partitions[0].committed_offset

    # -- whole stories ------------------------------------------------------------------------

    def form(self, count: int = 2, **fields: Any) -> list[str]:
        """A stable group of dynamic members, the leader first; each owns b"<its index>"."""
        member_ids = [self.member_id() for _ in range(count)]
        tokens = [self.join(member_id, **fields) for member_id in member_ids]
        self.await_answer(tokens[0])
        return self._settle(tokens, member_ids)

    def form_static(self, *instances: str, version: int = 9) -> list[str]:
        tokens = [self.join(group_instance_id=name, version=version) for name in instances]
        self.await_answer(tokens[0])
        return self._settle(tokens, [self.joined(token).member_id for token in tokens])

    def _settle(self, tokens: list[int], member_ids: list[str]) -> list[str]:
        generation_id = self.joined(tokens[0]).generation_id
        shares = {each: str(index).encode() for index, each in enumerate(member_ids)}
        for member_id in reversed(member_ids):
            given = shares if member_id == member_ids[0] else None
            self.sync(member_id, generation_id, given)
        assert self.group().state.value == "Stable"
        return member_ids
