"""Every error that is raised on purpose. Pure.

Three kinds, never mixed:

- `KafkaError`: expected, part of the protocol. Carries the wire code, and whether to retry.
- `StorageError`, `KernelBuildFailed`, `ConfigError`, `FormatRefused`: the environment or the
  operator failed. Each has one place that catches it. So has `CleaningAborted`, which is not a
  failure.
- `InvariantViolation`: a bug. It is never caught.
"""

from collections.abc import Sequence
from typing import ClassVar, NamedTuple


class LedgerstoneError(Exception):
    """Root of the tree."""


class KafkaError(LedgerstoneError):
    """An error with a code in the protocol."""

    code: ClassVar[int] = -1
    retriable: ClassVar[bool] = False


class RecordError(NamedTuple):
    """Why one record, counted from 0 in its batch, made the batch invalid."""

    batch_index: int
    message: str


class BatchRefused(KafkaError):
    """A batch refused as a whole; `record_errors` names the invalid records."""

    def __init__(self, message: str, record_errors: Sequence[RecordError] = ()) -> None:
        super().__init__(message)
        self.record_errors = tuple(record_errors)


class OffsetOutOfRange(KafkaError):
    code = 1


class CorruptRecord(KafkaError):
    """Bytes that are not the record batch they claim to be."""

    code = 2
    retriable = True


class UnknownTopicOrPartition(KafkaError):
    code = 3
    retriable = True


class NotLeaderOrFollower(KafkaError):
    code = 6
    retriable = True


class ReplicaNotAvailable(KafkaError):
    """The broker has no replica of the partition, or not yet."""

    code = 9
    retriable = True


class MessageTooLarge(KafkaError):
    code = 10


class OffsetMetadataTooLarge(KafkaError):
    code = 12


class CoordinatorLoadInProgress(KafkaError):
    code = 14
    retriable = True


class CoordinatorNotAvailable(KafkaError):
    code = 15
    retriable = True


class NotCoordinator(KafkaError):
    code = 16
    retriable = True


class InvalidTopic(KafkaError):
    code = 17


class RecordListTooLarge(KafkaError):
    code = 18


class NotEnoughReplicas(KafkaError):
    code = 19
    retriable = True


class InvalidRequiredAcks(KafkaError):
    code = 21


class IllegalGeneration(KafkaError):
    code = 22


class InconsistentGroupProtocol(KafkaError):
    code = 23


class InvalidGroupId(KafkaError):
    code = 24


class UnknownMemberId(KafkaError):
    code = 25


class InvalidSessionTimeout(KafkaError):
    code = 26


class RebalanceInProgress(KafkaError):
    code = 27


class TopicAuthorizationFailed(KafkaError):
    code = 29


class InvalidTimestamp(BatchRefused):
    code = 32


class TopicAlreadyExists(KafkaError):
    code = 36


class InvalidPartitions(KafkaError):
    code = 37


class InvalidReplicationFactor(KafkaError):
    code = 38


class InvalidReplicaAssignment(KafkaError):
    code = 39


class InvalidConfig(KafkaError):
    code = 40


class NotController(KafkaError):
    code = 41
    retriable = True


class InvalidRequest(KafkaError):
    code = 42


class UnsupportedVersion(KafkaError):
    """An unknown API, or an unknown version of it."""

    code = 35


class UnsupportedForMessageFormat(KafkaError):
    code = 43


class PolicyViolation(KafkaError):
    code = 44


class OutOfOrderSequence(KafkaError):
    code = 45


class DuplicateSequence(KafkaError):
    code = 46


class InvalidProducerEpoch(KafkaError):
    code = 47


class InvalidTxnState(KafkaError):
    code = 48


class InvalidProducerIdMapping(KafkaError):
    """The transactional id is unknown, or belongs to another producer id."""

    code = 49


class InvalidTransactionTimeout(KafkaError):
    code = 50


class ConcurrentTransactions(KafkaError):
    """A change of this transactional id is under way."""

    code = 51
    retriable = True


class TransactionCoordinatorFenced(KafkaError):
    code = 52


class LogStorageError(KafkaError):
    """KAFKA_STORAGE_ERROR: the log directory behind this partition failed."""

    code = 56
    retriable = True


class LogDirNotFound(KafkaError):
    """LOG_DIR_NOT_FOUND: no log directory of this broker has that path."""

    code = 57


class UnknownProducerId(KafkaError):
    code = 59


class NonEmptyGroup(KafkaError):
    code = 68


class GroupIdNotFound(KafkaError):
    code = 69


class FetchSessionIdNotFound(KafkaError):
    code = 70
    retriable = True


class InvalidFetchSessionEpoch(KafkaError):
    code = 71
    retriable = True


class TopicDeletionDisabled(KafkaError):
    code = 73


class FencedLeaderEpoch(KafkaError):
    code = 74
    retriable = True


class UnknownLeaderEpoch(KafkaError):
    code = 75
    retriable = True


class UnsupportedCompressionType(KafkaError):
    code = 76


class StaleBrokerEpoch(KafkaError):
    code = 77


class OffsetNotAvailable(KafkaError):
    code = 78
    retriable = True


class PreferredLeaderNotAvailable(KafkaError):
    code = 80
    retriable = True


class GroupMaxSizeReached(KafkaError):
    code = 81


class FencedInstanceId(KafkaError):
    code = 82


class EligibleLeadersNotAvailable(KafkaError):
    code = 83
    retriable = True


class ElectionNotNeeded(KafkaError):
    code = 84
    retriable = True


class NoReassignmentInProgress(KafkaError):
    code = 85


class GroupSubscribedToTopic(KafkaError):
    code = 86


class InvalidRecord(BatchRefused):
    code = 87


class KeylessRecord(InvalidRecord):
    """A record without a key, in a compacted topic."""


class ThrottlingQuotaExceeded(KafkaError):
    code = 89
    retriable = True


class ProducerFenced(KafkaError):
    """Another producer uses the transactional id by now."""

    code = 90


class InvalidUpdateVersion(KafkaError):
    code = 95


class PrincipalDeserializationFailure(KafkaError):
    code = 97


class UnknownTopicId(KafkaError):
    code = 100
    retriable = True


class DuplicateBrokerRegistration(KafkaError):
    code = 101


class BrokerIdNotRegistered(KafkaError):
    code = 102


class InconsistentTopicId(KafkaError):
    code = 103
    retriable = True


class InconsistentClusterId(KafkaError):
    code = 104


class TransactionalIdNotFound(KafkaError):
    code = 105


class FetchSessionTopicIdError(KafkaError):
    code = 106
    retriable = True


class IneligibleReplica(KafkaError):
    code = 107


class NewLeaderElected(KafkaError):
    code = 108


class InvalidRegistration(KafkaError):
    code = 119


class StorageError(LedgerstoneError):
    """A file or directory is not what it must be."""


class CorruptFile(StorageError):
    """A file's content breaks its format."""

    def __init__(self, path: str, position: int, reason: str) -> None:
        super().__init__(f"{path} at {position}: {reason}")
        self.path = path
        self.position = position
        self.reason = reason


class NotPrivate(StorageError):
    """A file that holds secrets, and that others may read or change."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path} {reason}")
        self.path = path
        self.reason = reason


class Damage(NamedTuple):
    """A place where a file differs from what was written. `size_bytes` are unreadable or gone;
    `is_gap`: a whole file is missing or was replaced."""

    path: str
    position: int
    size_bytes: int
    reason: str
    is_gap: bool = False

    def __str__(self) -> str:
        return f"{self.path} at {self.position}: {self.reason} ({self.size_bytes} bytes)"


class DamagedLog(StorageError):
    """A log that cannot be opened without losing synced data."""

    def __init__(self, damages: Sequence[Damage]) -> None:
        super().__init__("; ".join(map(str, damages)))
        self.damages = tuple(damages)


class IndexFull(StorageError):
    """An index has no slot left; the segment must roll."""


class IndexOutOfOrder(StorageError):
    """An entry does not follow the last one of its index; the log is out of order."""


class SegmentOffsetOverflow(StorageError):
    """An offset is too far from its segment's base offset for 31 bits; the segment must split."""


class LogDirLocked(StorageError):
    """Another process owns this log directory."""


class CleaningAborted(LedgerstoneError):
    """A cleaning pass was told to stop; files it had not handed over are gone."""


class KernelBuildFailed(LedgerstoneError):
    """The per-record kernels could not be compiled or loaded; nothing can read records."""


class ConfigError(LedgerstoneError):
    """A setting is refused: names the key, the value and the reason."""

    def __init__(self, key: str, value: object, reason: str) -> None:
        super().__init__(f"{key}={value!r}: {reason}")
        self.key = key
        self.value = value
        self.reason = reason


class StartStopped(LedgerstoneError):
    """SIGTERM came before the start was over."""


class StartFailed(LedgerstoneError):
    """The cluster did not take the node."""


class FormatRefused(LedgerstoneError):
    """`ledgerstone format` was asked for something that cannot be; nothing was changed."""


class InvariantViolation(LedgerstoneError):
    """Bytes about to be written, or state about to be kept, break an invariant."""
