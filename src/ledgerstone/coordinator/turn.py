"""What goes into one call of the group machine and what comes out of it. Pure.

Contract with the shell, in this order: append the records as one batch, wait until it is committed,
hand each record to `GroupShard.replay`, send the answers. Outcomes of one shard leave in the order
in which they were made, also those without records: an answer may rest on records before it.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from ledgerstone.config.broker_keys import BROKER_DEFAULTS as _DEFAULT
from ledgerstone.protocol.message import ApiMessage

# Names a request that waits for its answer. The shell's own object; never looked into.
Token = object


class Now(NamedTuple):
    """Wall time decides about records, monotonic time decides about waiting."""

    wall_ms: int
    monotonic_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestContext:
    token: Token
    api_version: int
    client_id: str = ""
    client_host: str = ""
    connection: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """The broker's settings for groups, under Kafka's names."""

    group_min_session_timeout_ms: int = _DEFAULT["group.min.session.timeout.ms"]
    group_max_session_timeout_ms: int = _DEFAULT["group.max.session.timeout.ms"]
    group_initial_rebalance_delay_ms: int = _DEFAULT["group.initial.rebalance.delay.ms"]
    group_max_size: int = _DEFAULT["group.max.size"]
    ledgerstone_groups_max_bytes: int = _DEFAULT["ledgerstone.groups.max.bytes"]
    ledgerstone_group_max_bytes: int = _DEFAULT["ledgerstone.group.max.bytes"]
    ledgerstone_group_connection_max_bytes: int = _DEFAULT["ledgerstone.group.connection.max.bytes"]
    ledgerstone_offsets_max_bytes: int = _DEFAULT["ledgerstone.offsets.max.bytes"]
    offset_metadata_max_bytes: int = _DEFAULT["offset.metadata.max.bytes"]
    offsets_retention_ms: int = _DEFAULT["offsets.retention.minutes"] * 60_000
    offsets_retention_check_interval_ms: int = _DEFAULT["offsets.retention.check.interval.ms"]


class GroupRecord(NamedTuple):
    """One record for the offsets topic; without a value it is a tombstone."""

    key: bytes
    value: bytes | None


class Answer(NamedTuple):
    token: Token
    response: ApiMessage


@dataclass(frozen=True, slots=True)
class TurnOutcome:
    records: list[GroupRecord]
    answers: list[Answer]


@dataclass(slots=True)
class Turn:
    """One call in progress: the time it happens at, and what it has produced so far."""

    now: Now
    records: list[GroupRecord] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)

    def write(self, record: GroupRecord) -> None:
        self.records.append(record)

    def answer(self, token: Token, response: ApiMessage) -> None:
        self.answers.append(Answer(token, response))

    def outcome(self) -> TurnOutcome:
        return TurnOutcome(self.records, self.answers)
