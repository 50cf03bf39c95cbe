"""The session of one transactional producer: its id and epoch, what it may do next. Pure.

The machine makes requests and takes answers; `transactions` sends them. It speaks both protocols:

version 1   AddPartitionsToTxn before the first batch of a partition, AddOffsetsToTxn before
            offsets; EndTxn keeps the epoch, and sequences go on.
version 2   (KIP-890) leaders and group coordinators add what they are sent; EndTxn answers the
            epoch of the next transaction, and sequences start again at 0.
"""

from collections.abc import Collection, Mapping
from enum import Enum
from typing import Final, NamedTuple, NoReturn

from ledgerstone.client.committed import CommittedOffset
from ledgerstone.client.errors import name_of
from ledgerstone.client.grouping import by_topic
from ledgerstone.client.producer_id import NO_PRODUCER, ProducerId
from ledgerstone.client.txn_errors import ErrorSource, MustAbort, MustClose, is_fatal
from ledgerstone.dataclasses import dataclass
from ledgerstone.errors import ConfigError, InvariantViolation
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from ledgerstone.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from ledgerstone.protocol.messages.api_versions import ApiVersionsResponse
from ledgerstone.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from ledgerstone.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from ledgerstone.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from ledgerstone.records.batch import increment_sequence
from ledgerstone.types import TopicPartition

FEATURE: Final = "transaction.version"
DEFAULT_TIMEOUT_MS: Final = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TxnProtocol:
    """The newest versions of the requests that each protocol may use."""

    number: int
    produce: int
    end_txn: int
    txn_offset_commit: int


TV1: Final = TxnProtocol(number=1, produce=11, end_txn=4, txn_offset_commit=4)
TV2: Final = TxnProtocol(number=2, produce=12, end_txn=5, txn_offset_commit=5)
# From version 4 on, brokers send it to each other.
ADD_PARTITIONS_AT_MOST: Final = 3


def protocol_of(versions: ApiVersionsResponse) -> TxnProtocol:
    levels = {each.name: each.max_version_level for each in versions.finalized_features}
    return TV2 if levels.get(FEATURE, 0) >= TV2.number else TV1


class TxnState(Enum):
    NEW = "without a producer id"
    READY = "between transactions"
    OPEN = "in a transaction"
    BROKEN = "in a transaction that can only be aborted"
    COMMITTING = "committing; the answer is still out"
    ABORTING = "aborting; the answer is still out"
    DEAD = "of no use any more"


class GroupMetadata(NamedTuple):
    """The group whose offsets are committed, and the member that read them.

    A member of an older generation is refused, so that two members never commit the same input."""

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


class Prepared(NamedTuple):
    """An open transaction whose records are all acknowledged. Any process can end it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class TxnSession:
    """NEW -> READY -> OPEN -> COMMITTING or ABORTING -> READY; errors lead to BROKEN or DEAD."""

    def __init__(self, transactional_id: str, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> None:
        if not transactional_id:
            raise ConfigError("transactional.id", transactional_id, "must not be empty")
        self.transactional_id = transactional_id
        self.state = TxnState.NEW
        self.protocol = TV1
        self.identity = NO_PRODUCER
        self._timeout_ms = timeout_ms
        self._sequences: dict[TopicPartition, int] = {}
        self._partitions: set[TopicPartition] = set()
        self._groups: set[str] = set()
        self._has_sent = False  # the coordinator may know of this transaction
        self._needs_epoch = False

    @classmethod
    def of_prepared(cls, prepared: Prepared, versions: ApiVersionsResponse) -> "TxnSession":
        """A session in the open transaction of another process, only to end it."""
        session = cls(prepared.transactional_id)
        session.protocol = protocol_of(versions)
        session.identity = ProducerId(prepared.producer_id, prepared.producer_epoch)
        session.state = TxnState.OPEN
        session._has_sent = True
        return session

    def __str__(self) -> str:
        return f"transactional id {self.transactional_id}"

    def _expect(self, action: str, *allowed: TxnState) -> None:
        if self.state in allowed:
            return
        text = f"{self} cannot {action}: it is {self.state.value}"
        if self.state is TxnState.DEAD:
            raise MustClose(text)
        if self.state is TxnState.BROKEN:
            raise MustAbort(text)
        raise InvariantViolation(text)

    # -- the producer's id ---------------------------------------------------------------------

    def init_request(self) -> InitProducerIdRequest:
        """Fences producers that had the id before. With an identity, only raises the epoch."""
        self._expect("start", TxnState.NEW)
        return InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.producer_epoch,
        )

    def initialized(self, answer: InitProducerIdResponse, versions: ApiVersionsResponse) -> None:
        self._expect("start", TxnState.NEW)
        self._check(answer.error_code, ErrorSource.COORDINATOR, "InitProducerId")
        self.protocol = protocol_of(versions)
        self._continue_as(ProducerId(answer.producer_id, answer.producer_epoch))
        self.state = TxnState.READY

    def _continue_as(self, identity: ProducerId) -> None:
        if identity != self.identity:
            self._sequences.clear()
        self.identity = identity

    # -- a transaction -------------------------------------------------------------------------

    def begin(self) -> None:
        self._expect("begin", TxnState.READY)
        self._partitions.clear()
        self._groups.clear()
        self._has_sent = False
        self.state = TxnState.OPEN

    def next_sequence(self, partition: TopicPartition) -> int:
        return self._sequences.get(partition, 0)

    def before(self, partitions: Collection[TopicPartition]) -> AddPartitionsToTxnRequest | None:
        """The request that must be answered before batches go to these partitions."""
        self._expect("send", TxnState.OPEN)
        self._has_sent = True
        new = [each for each in partitions if each not in self._partitions]
        if self.protocol is TV2 or not new:
            return None
        topics = by_topic(dict.fromkeys(new, None))
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.identity.producer_id,
            v3_and_below_producer_epoch=self.identity.producer_epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=topic, partitions=list(numbers))
                for topic, numbers in topics.items()
            ],
        )

    def added(self, answer: AddPartitionsToTxnResponse) -> None:
        results = [
            (TopicPartition(topic.name, each.partition_index), each.partition_error_code)
            for topic in answer.results_by_topic_v3_and_below
            for each in topic.results_by_partition
        ]
        # The others were not tried because of one that failed: that one is the reason.
        results.sort(key=lambda each: each[1] == ErrorCode.OPERATION_NOT_ATTEMPTED)
        for partition, code in results:
            self._check(code, ErrorSource.COORDINATOR, f"AddPartitionsToTxn {partition}")
        self._partitions.update(partition for partition, _ in results)

    def acknowledged(self, partition: TopicPartition, records: int) -> None:
        self._sequences[partition] = increment_sequence(self.next_sequence(partition), records)

    def broke(self) -> None:
        """A batch failed or was not answered: it is unknown what the log has of it."""
        if self.state is TxnState.OPEN:
            self.state = TxnState.BROKEN

    def refused(self, code: int, text: str) -> None:
        """A leader refused a batch. Raises."""
        self._fail(code, ErrorSource.LEADER, f"{self}: {text}")

    # -- offsets -------------------------------------------------------------------------------

    def before_offsets(self, group_id: str) -> AddOffsetsToTxnRequest | None:
        self._expect("send offsets", TxnState.OPEN)
        self._has_sent = True
        if self.protocol is TV2 or group_id in self._groups:
            return None
        return AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.producer_epoch,
            group_id=group_id,
        )

    def added_offsets(self, group_id: str, answer: AddOffsetsToTxnResponse) -> None:
        self._check(answer.error_code, ErrorSource.COORDINATOR, f"AddOffsetsToTxn {group_id}")
        self._groups.add(group_id)

    def offsets_request(
        self, group: GroupMetadata, offsets: Mapping[TopicPartition, CommittedOffset]
    ) -> TxnOffsetCommitRequest:
        self._expect("send offsets", TxnState.OPEN)
        return TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group.group_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.producer_epoch,
            generation_id=group.generation_id,
            member_id=group.member_id,
            group_instance_id=group.group_instance_id,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=number,
                            committed_offset=each.offset,
                            committed_leader_epoch=each.leader_epoch,
                            committed_metadata=each.metadata,
                        )
                        for number, each in partitions.items()
                    ],
                )
                for topic, partitions in by_topic(offsets).items()
            ],
        )

    def offsets_taken(self, group: GroupMetadata, answer: TxnOffsetCommitResponse) -> None:
        for topic in answer.topics:
            for each in topic.partitions:
                subject = (
                    f"offset of group {group.group_id} for {topic.name}-{each.partition_index}"
                )
                self._check(each.error_code, ErrorSource.GROUP_COORDINATOR, subject)

    def prepared(self) -> Prepared:
        self._expect("be prepared", TxnState.OPEN)
        return Prepared(self.transactional_id, *self.identity)

    # -- the end -------------------------------------------------------------------------------

    def end_request(self, *, commit: bool) -> EndTxnRequest | None:
        """None if the coordinator has not heard of this transaction. A commit that was not
        answered may have been carried out: it can only be repeated. The same for an abort."""
        if commit:
            self._expect("commit", TxnState.OPEN, TxnState.COMMITTING)
            self.state = TxnState.COMMITTING
        else:
            self._expect("abort", TxnState.OPEN, TxnState.BROKEN, TxnState.ABORTING)
            self._needs_epoch |= self.state is TxnState.BROKEN
            self.state = TxnState.ABORTING
        if not self._has_sent:
            self._next()
            return None
        return EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.producer_epoch,
            committed=commit,
        )

    def ended(self, answer: EndTxnResponse) -> None:
        self._check(answer.error_code, ErrorSource.COORDINATOR, "EndTxn")
        if answer.producer_epoch >= 0:
            self._continue_as(ProducerId(answer.producer_id, answer.producer_epoch))
            self._needs_epoch = False
        self._next()

    def _next(self) -> None:
        # Sequences of a broken transaction are unknown: in version 1, only a new epoch starts
        # them again.
        self.state = TxnState.NEW if self._needs_epoch else TxnState.READY
        self._needs_epoch = False

    def _check(self, code: int, asked: ErrorSource, subject: str) -> None:
        if code != ErrorCode.NONE:
            self._fail(code, asked, f"{self}: {subject}: {name_of(code)}")

    def _fail(self, code: int, asked: ErrorSource, text: str) -> NoReturn:
        can_abort = self.state in (TxnState.OPEN, TxnState.COMMITTING)
        if is_fatal(code, asked) or not can_abort:
            self.state = TxnState.DEAD
            raise MustClose(text, code)
        self.state = TxnState.BROKEN
        raise MustAbort(text, code)
