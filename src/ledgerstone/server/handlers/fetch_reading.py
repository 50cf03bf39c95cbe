"""How Fetch reads partitions, for followers and for consumers. Grade D.

A follower reads to the end of the log; a consumer to the high watermark, or to the last stable
offset. A follower's fetch also tells the leader how far that follower has got. Only a read that
succeeded does: an error or an epoch that diverges leaves what is known of the follower untouched.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from ledgerstone.errors import (
    KafkaError,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    StorageError,
    TopicAuthorizationFailed,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from ledgerstone.metadata.reachable import live_brokers
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.fetch import (
    FetchAbortedTransaction,
    FetchDivergingEpoch,
    FetchPartitionResponse,
    FetchRequest,
)
from ledgerstone.replication.fetch_session import FetchWish, PartitionKey
from ledgerstone.replication.leader import Leader
from ledgerstone.replication.partition import Partition
from ledgerstone.replication.partition_removal import FollowerReport
from ledgerstone.replication.replica_selector import replica_in_rack
from ledgerstone.security.acl import CLUSTER_NAME, AclOperation, AclResourceType
from ledgerstone.security.authorizer import Rights
from ledgerstone.server.broker import Broker
from ledgerstone.server.request import Request
from ledgerstone.storage.log_reader import FetchIsolation, read, visible_end
from ledgerstone.types import NO_LEADER_EPOCH, TopicPartition

_FIRST_VERSION_WITH_RACK: Final = 11
_FIRST_VERSION_WITH_REPLICA_STATE: Final = 15
_CONSUMER: Final = -1
ISOLATION_LEVELS: Final = {0: FetchIsolation.HIGH_WATERMARK, 1: FetchIsolation.TXN_COMMITTED}
# Kafka finds these out before it reads, and says "no aborted transactions" instead of nothing.
_UNKNOWN: Final = (UnknownTopicOrPartition, UnknownTopicId, TopicAuthorizationFailed)

_CLUSTER_ACTION: Final = (AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER, CLUSTER_NAME)

Find = Callable[[TopicPartition], Partition | None]


class Reader(NamedTuple):
    """Who fetches. `replica_id` is negative for consumers."""

    is_follower: bool
    replica_id: int
    broker_epoch: int
    isolation: FetchIsolation
    # Consumers that know of racks may read from followers.
    is_for_leader: bool
    listener: str
    request: Request
    rack: str = ""
    # Of live brokers that a consumer with a rack can reach, if replicas are chosen by rack.
    racks: Mapping[int, str | None] | None = None

    @property
    def rights(self) -> Rights | None:
        return self.request.session.rights

    @property
    def is_impostor(self) -> bool:
        """Says that it is a replica, and is no broker."""
        rights = self.rights
        return (
            self.is_follower
            and rights is not None
            and not rights.may_on_cluster(AclOperation.CLUSTER_ACTION)
        )

    def check_may_read(self, broker: Broker, key: PartitionKey) -> None:
        """An id that nobody has is unknown to everybody, but for impostors."""
        rights = self.rights
        if rights is None:
            return
        if self.is_impostor:
            operation, kind, name = _CLUSTER_ACTION
        else:
            found = None if self.is_follower else name_of(broker, key)
            if found is None or rights.may_on_topic(AclOperation.READ, found.topic):
                return
            operation, kind, name = AclOperation.READ, AclResourceType.TOPIC, found.topic
        if broker.auditor is not None:
            broker.auditor.denied(self.request, operation, kind, name)
        raise TopicAuthorizationFailed(f"no {operation.name} on {name}")


class Found(NamedTuple):
    answers: list[tuple[FetchWish, FetchPartitionResponse]]
    size: int
    # Not to be waited with: an error, a diverging epoch, a preferred replica, an older segment.
    is_urgent: bool
    has_committed: bool = False  # The fetch itself has moved a high watermark.


def must_tell(answer: FetchPartitionResponse) -> bool:
    """What a reader has to know at once, though there are no records."""
    return answer.diverging_epoch is not None or answer.preferred_read_replica >= 0


def reader_of(broker: Broker, request: Request, message: FetchRequest) -> Reader:
    version, state = request.api_version, message.replica_state
    replica_id, broker_epoch = message.replica_id, -1
    if version >= _FIRST_VERSION_WITH_REPLICA_STATE:
        replica_id = _CONSUMER if state is None else state.replica_id
        broker_epoch = -1 if state is None else state.replica_epoch
    is_follower = replica_id >= 0
    isolation = ISOLATION_LEVELS[message.isolation_level]
    listener, racks = request.session.listener, None
    if message.rack_id and not is_follower and broker.config.replica_selector_class is not None:
        racks = {each.broker_id: each.rack for each, _ in live_brokers(broker.image, listener)}
    return Reader(
        is_follower,
        replica_id,
        broker_epoch,
        FetchIsolation.LOG_END if is_follower else isolation,
        is_follower or version < _FIRST_VERSION_WITH_RACK,
        listener,
        request,
        message.rack_id,
        racks,
    )


def name_of(broker: Broker, key: PartitionKey) -> TopicPartition | None:
    if isinstance(key.topic, str):
        return TopicPartition(key.topic, key.partition)
    name = broker.topic_name(key.topic)
    return None if name is None else TopicPartition(name, key.partition)


def empty_answer(number: int, error_code: int = 0) -> FetchPartitionResponse:
    return FetchPartitionResponse(
        partition_index=number, error_code=error_code, high_watermark=-1, records=b""
    )


def read_all(
    broker: Broker,
    reader: Reader,
    message: FetchRequest,
    wishes: Iterable[FetchWish],
    *,
    is_first_time: bool,
) -> Found:
    """`is_first_time`: not again for a request that waited, so the follower has asked just now."""
    left = min(message.max_bytes, broker.config.fetch_max_bytes)
    tells = reader.is_follower and is_first_time
    has_rights = reader.request.session.rights is not None
    total = 0
    is_urgent = has_committed = False
    answers = []
    for wish in wishes:
        answer = empty_answer(wish.key.partition)
        size = 0
        try:
            if has_rights:
                reader.check_may_read(broker, wish.key)
            partition = broker.partition_of(wish.key.topic, wish.key.partition)
            if reader.racks is not None:
                _prefer_replica(reader, partition, wish, answer)
            size = _read_one(reader, partition, wish, answer, left, first=total == 0)
            if size and reader.is_follower and _is_held_back(broker, reader, partition):
                answer.records, size = b"", 0
            if size and wish.fetch_offset < partition.log.segments.active.base_offset:
                # One segment is read at a time, and this one does not grow: nothing to wait for.
                is_urgent = True
            wish.found = partition
            if tells and answer.diverging_epoch is None:
                has_committed |= _follower_fetched(broker, reader, partition, wish, answer)
            if wish.clean_to >= 0 and reader.is_follower and answer.diverging_epoch is None:
                _coordinate_removal(reader, partition, wish, answer, tells=tells)
        except KafkaError as error:
            size, wish.found = 0, None
            answer = empty_answer(wish.key.partition, error.code)
            if isinstance(error, _UNKNOWN):
                answer.aborted_transactions = []
        except (OSError, StorageError) as error:
            broker.log_failed(name_of(broker, wish.key), error)
            answer = empty_answer(wish.key.partition, ErrorCode.KAFKA_STORAGE_ERROR)
        # `must_tell`, written out.
        if (
            answer.error_code
            or answer.diverging_epoch is not None
            or answer.preferred_read_replica >= 0
        ):
            is_urgent = True
        total += size
        left = max(0, left - size)
        answers.append((wish, answer))
    if tells:
        broker.isr.send()
    return Found(answers, total, is_urgent, has_committed)


def _coordinate_removal(
    reader: Reader,
    partition: Partition,
    wish: FetchWish,
    answer: FetchPartitionResponse,
    *,
    tells: bool,
) -> None:
    """The follower has said which deletes it still needs, and hears which may go. After the read,
    so that the answer knows of every tombstone that the records lack."""
    removal = partition.removal
    if removal is None:
        return
    if tells:
        removal.reported(reader.replica_id, FollowerReport(wish.clean_to, wish.removed_to))
    word = removal.word()
    if word is not None:
        answer.removable_to, answer.removed_to, answer.clean_to = word[:3]
        if word.held_from_offset is not None:
            answer.held_from_offset = word.held_from_offset


def without_quiet(
    broker: Broker, reader: Reader, wishes: Sequence[FetchWish]
) -> Sequence[FetchWish]:
    """The wishes of an incremental fetch that have to be read. A follower asks for everything it
    follows again and again, and most of that stands still: of a partition that is as it was told,
    only the time of the fetch is noted."""
    if not reader.is_follower or reader.is_impostor:
        return wishes
    registered = broker.image.brokers.get(reader.replica_id)
    if registered is None or registered.broker_epoch != reader.broker_epoch:
        return wishes
    now_ms, find = broker.clock.monotonic_ms(), broker.partitions.find
    return [each for each in wishes if not _is_quiet(reader, each, find, now_ms)]


def _is_quiet(reader: Reader, wish: FetchWish, find: Find, now_ms: int) -> bool:
    partition = wish.found
    if not isinstance(partition, Partition):
        return False
    role, log, offset = partition.role, partition.log, wish.fetch_offset
    if (
        not isinstance(role, Leader)
        or log.log_end_offset != offset
        or log.high_watermark != wish.told_high_watermark
        or log.log_start_offset != wish.told_log_start_offset
        or role.leader_epoch != wish.current_leader_epoch
        or reader.replica_id not in role.in_sync.committed
        or find(log.topic_partition) is not partition
    ):
        return False
    follower = role.in_sync.followers[reader.replica_id]
    if (
        follower.end_offset != offset
        or follower.log_start_offset != wish.log_start_offset
        or follower.broker_epoch != reader.broker_epoch
    ):
        return False
    if wish.clean_to >= 0 and _has_removal_news(reader, partition, wish):
        return False
    follower.asked_again(now_ms)
    return True


def _has_removal_news(reader: Reader, partition: Partition, wish: FetchWish) -> bool:
    """Notes that the follower has reported again."""
    removal = partition.removal
    if removal is None:
        return False
    removal.reported(reader.replica_id, FollowerReport(wish.clean_to, wish.removed_to))
    return removal.word() != wish.told_word


def has_news(reader: Reader, partition: Partition | None, wish: FetchWish) -> bool:
    """Whether a fetch that waits for this partition may get something now."""
    if partition is None:
        return True
    role, epoch = partition.role, wish.current_leader_epoch
    if (reader.is_for_leader and not isinstance(role, Leader)) or epoch not in (
        NO_LEADER_EPOCH,
        role.leader_epoch,
    ):
        return True
    return visible_end(partition.log, reader.isolation) > wish.fetch_offset


def _prefer_replica(
    reader: Reader, partition: Partition, wish: FetchWish, answer: FetchPartitionResponse
) -> None:
    """Only a leader knows how far the others are."""
    role = partition.role
    if isinstance(role, Leader) and reader.racks is not None:
        chosen = replica_in_rack(role.in_sync, wish.fetch_offset, reader.rack, reader.racks)
        if chosen is not None:
            answer.preferred_read_replica = chosen


def _read_one(
    reader: Reader,
    partition: Partition,
    wish: FetchWish,
    answer: FetchPartitionResponse,
    left: int,
    *,
    first: bool,
) -> int:
    if reader.is_for_leader:
        partition.check_leader(wish.current_leader_epoch)
    else:
        partition.check_epoch(wish.current_leader_epoch)
    if reader.is_follower:
        assert isinstance(partition.role, Leader)
        partition.role.check_follower(reader.replica_id, wish.current_leader_epoch)
    log, isolation = partition.log, reader.isolation
    answer.log_start_offset = log.log_start_offset
    answer.high_watermark = log.high_watermark
    answer.last_stable_offset = log.last_stable_offset
    if answer.preferred_read_replica >= 0:
        return 0
    diverging = _diverging_epoch(partition, wish)
    if diverging is not None:
        answer.diverging_epoch = diverging
        return 0
    result = read(
        log,
        wish.fetch_offset,
        max_bytes=min(wish.max_bytes, left),
        isolation=isolation,
        min_one_batch=first,
    )
    size = 0 if result.slice is None else result.slice.size
    answer.records = result.slice if size else b""
    if isolation is FetchIsolation.TXN_COMMITTED:
        answer.aborted_transactions = [
            FetchAbortedTransaction(producer_id=producer_id, first_offset=first_offset)
            for producer_id, first_offset in result.aborted
        ]
    return size


def _is_held_back(broker: Broker, reader: Reader, partition: Partition) -> bool:
    """Whether a follower that catches up gets nothing for now, so that clients keep their share."""
    throttle, topic_partition = broker.isr.throttle, partition.topic_partition
    if not throttle.is_active or reader.replica_id in partition.isr:
        return False
    return throttle.holds(topic_partition, broker.clock.monotonic_ms())


def _diverging_epoch(partition: Partition, wish: FetchWish) -> FetchDivergingEpoch | None:
    """Where the reader's log and ours parted, if its last epoch ended elsewhere here."""
    if wish.last_fetched_epoch < 0:
        return None
    log = partition.log
    if wish.fetch_offset < log.log_start_offset:
        raise OffsetOutOfRange(f"{wish.fetch_offset} lies below {log.log_start_offset}")
    epoch, end_offset = log.epochs.end_offset_for(wish.last_fetched_epoch, log.log_end_offset)
    if end_offset < 0:
        raise OffsetOutOfRange(f"leader epoch {wish.last_fetched_epoch} is not known here")
    if epoch < wish.last_fetched_epoch or end_offset < wish.fetch_offset:
        return FetchDivergingEpoch(epoch=epoch, end_offset=end_offset)
    return None


def _follower_fetched(
    broker: Broker,
    reader: Reader,
    partition: Partition,
    wish: FetchWish,
    answer: FetchPartitionResponse,
) -> bool:
    """True if the high watermark moved."""
    role, topic_partition = partition.role, partition.topic_partition
    if not isinstance(role, Leader):
        raise NotLeaderOrFollower(f"{topic_partition} is led by {role.leader_id}")
    known = role.in_sync.followers[reader.replica_id]
    if known.log_start_offset != wish.log_start_offset:
        # DeleteRecords waits for it.
        broker.grew(topic_partition)
    has_moved = role.follower_fetched(
        reader.replica_id,
        fetch_offset=wish.fetch_offset,
        log_start_offset=wish.log_start_offset,
        broker_epoch=reader.broker_epoch,
        now_ms=broker.clock.monotonic_ms(),
    )
    broker.isr.offer(partition)
    if has_moved:
        # The follower learns at once of what its own fetch has committed.
        answer.high_watermark = partition.log.high_watermark
        answer.last_stable_offset = partition.log.last_stable_offset
        broker.following.high_watermark_moved(topic_partition)
    return has_moved
