"""What goes into one call of the group machine and what comes out of it. Pure.

Contract with the shell, in this order: append the records as one batch, wait until it is committed,
hand each record to `GroupShard.replay`, send the answers. Outcomes of one shard leave in the order
in which they were made, also those without records: an answer may rest on records before it.
A marker is appended in place of records, and handed to `GroupShard.replay_marker`.
"""

from collections.abc import Callable
from typing import NamedTuple

from ledgerstone.config.broker_keys import BROKER_DEFAULTS as _DEFAULT
from ledgerstone.dataclasses import dataclass, field
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


class LateAnswer(NamedTuple):
    """An answer that has to see everything before it, what is in flight included."""

    token: Token
    respond: Callable[[], ApiMessage]


class TxnProducer(NamedTuple):
    """Whose transaction the records belong to."""

    producer_id: int
    producer_epoch: int


class TxnMarker(NamedTuple):
    """The end of a transaction, as it is written into one partition."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_commit: bool
    transaction_version: int = 0


@dataclass(frozen=True, slots=True)
class TurnOutcome:
    records: list[GroupRecord]
    answers: list[Answer]
    # Answers that are made once every outcome before this one is replayed.
    late: list[LateAnswer] = field(default_factory=list)
    # The records are those of its transaction.
    producer: TxnProducer | None = None
    # Instead of records.
    marker: TxnMarker | None = None


@dataclass(slots=True)
class Turn:
    """One call in progress: the time it happens at, and what it has produced so far."""

    now: Now
    records: list[GroupRecord] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    late: list[LateAnswer] = field(default_factory=list)
    producer: TxnProducer | None = None

    def write(self, record: GroupRecord) -> None:
        self.records.append(record)

    def answer(self, token: Token, response: ApiMessage) -> None:
        self.answers.append(Answer(token, response))

    def answer_late(self, token: Token, respond: Callable[[], ApiMessage]) -> None:
        self.late.append(LateAnswer(token, respond))

    def outcome(self) -> TurnOutcome:
        return TurnOutcome(self.records, self.answers, self.late, self.producer)
