"""What one broker fetches from one leader over one connection. Pure, but for the logs handed in.

A leader has num.replica.fetchers of these; each has one request in flight. `next_request` says what
to ask, `answered` and its siblings do with the answer what Kafka's follower does. A partition is
ready, delayed after an error, or asks for the leader's offsets because its own are out of range; it
leaves the fetcher when it fails, and comes back with the next leader epoch.

An answer counts only if the partition still wants what was asked: same offset, same leader epoch.
"""

from collections.abc import Callable, Iterator
from typing import Final

from ledgerstone.errors import (
    CorruptRecord,
    InvalidRecord,
    InvariantViolation,
    LogStorageError,
)
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.fetch import FetchPartitionResponse, FetchResponse
from ledgerstone.protocol.messages.list_offsets import (
    ListOffsetsResponse,
    ListOffsetsResponsePartition,
)
from ledgerstone.replication.fetch_session import PartitionKey
from ledgerstone.replication.fetching.divergence import truncation_offset
from ledgerstone.replication.fetching.followed import (
    FetchNote,
    FetchNoteKind,
    FetchOutcome,
    FetchStage,
    FollowedPartition,
    Grown,
    HoldsBack,
    HoldsNothing,
)
from ledgerstone.replication.fetching.replica import Replica
from ledgerstone.replication.fetching.session import FollowerSession, Named
from ledgerstone.replication.fetching.wire import (
    FetchSettings,
    fetch_request,
    leader_word,
    offsets_request,
)
from ledgerstone.types import Buffer, TopicPartition

# Bytes that were damaged on the way or in the leader's file; they may be whole the next time.
_DAMAGED: Final = (CorruptRecord, InvalidRecord)
# Codes that say: the session is gone, ask again for everything.
_SESSION_GONE: Final = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
)
_NO_RECORDS: Final = b""


class ReplicaFetcher:
    def __init__(self, settings: FetchSettings, throttle: HoldsBack | None = None) -> None:
        self._settings = settings
        self._throttle = HoldsNothing() if throttle is None else throttle
        self._session = FollowerSession()
        self._by_key: dict[PartitionKey, FollowedPartition] = {}
        self._keys: dict[TopicPartition, PartitionKey] = {}
        # In the order in which a full request names them.
        self._ready: dict[PartitionKey, FollowedPartition] = {}
        # Until when, earliest first: every delay has the same length.
        self._delayed: dict[PartitionKey, int] = {}
        self._asking: dict[PartitionKey, FollowedPartition] = {}
        self._asked: dict[TopicPartition, tuple[FollowedPartition, int, FetchStage]] = {}
        # Ready, but left out of requests by the throttle.
        self._held: dict[PartitionKey, None] = {}
        self._look_again_ms = 0
        # Partitions that the session may know otherwise.
        self._changed: dict[PartitionKey, None] = {}
        self._refusals = 0
        self.is_in_flight = False
        # Why each partition that has failed is not fetched any more.
        self.failed: dict[TopicPartition, str] = {}

    # -- which partitions -----------------------------------------------------------------------

    def __len__(self) -> int:
        """Partitions that are fetched, or will be after a delay."""
        return len(self._by_key)

    def __iter__(self) -> Iterator[FollowedPartition]:
        return iter(self._by_key.values())

    @property
    def is_idle(self) -> bool:
        return not self._by_key and not self.failed

    @property
    def max_lag(self) -> int:
        return max((each.lag or 0 for each in self._by_key.values()), default=0)

    def follow(
        self, topic_partition: TopicPartition, topic_id: bytes, replica: Replica, leader_epoch: int
    ) -> FetchOutcome:
        """From the log's end on. A log without epochs cannot say where it diverges: it goes on at
        its high watermark, as before KIP-101."""
        self.unfollow(topic_partition)
        outcome = FetchOutcome()
        key = PartitionKey(topic_id, topic_partition.partition)
        followed = FollowedPartition(
            key=key,
            topic_partition=topic_partition,
            replica=replica,
            leader_epoch=leader_epoch,
            fetch_offset=0,
            last_fetched_epoch=0,
        )
        self._by_key[key], self._keys[topic_partition] = followed, key
        self._guarded(followed, 0, outcome, lambda: self._start(followed, outcome))
        return outcome

    def _start(self, followed: FollowedPartition, outcome: FetchOutcome) -> None:
        log = followed.replica.log
        if log.epochs.latest_epoch is None and log.high_watermark < log.log_end_offset:
            self._truncate(followed, log.high_watermark, outcome, "the log knows no epochs")
        followed.go_on_at_end()
        self._make_ready(followed)

    def unfollow(self, topic_partition: TopicPartition) -> None:
        self.failed.pop(topic_partition, None)
        key = self._keys.pop(topic_partition, None)
        if key is None:
            return
        del self._by_key[key]
        self._leave_request(key)

    def touch(self, topic_partition: TopicPartition) -> None:
        """The next request names the partition again if what it says of it has changed."""
        key = self._keys.get(topic_partition)
        if key is not None:
            self._changed[key] = None

    def _make_ready(self, followed: FollowedPartition) -> None:
        """At the end of the line."""
        key = followed.key
        self._asking.pop(key, None)
        self._delayed.pop(key, None)
        self._ready.pop(key, None)
        self._ready[key] = followed
        self._changed[key] = None

    def _leave_request(self, key: PartitionKey) -> None:
        for each in (self._ready, self._delayed, self._asking, self._held):
            each.pop(key, None)
        self._changed[key] = None

    # -- what to ask ----------------------------------------------------------------------------

    def next_due_ms(self, now_ms: int) -> int | None:
        """When `next_request` will have something to ask; None: not before something happens."""
        if self.is_in_flight:
            return None
        if self._asking or len(self._ready) > len(self._held):
            return now_ms
        due_ms = next(iter(self._delayed.values()), None)
        if self._held:
            again_ms = self._look_again_ms
            due_ms = again_ms if due_ms is None else min(due_ms, again_ms)
        return due_ms

    def next_request(self, now_ms: int, broker_epoch: int) -> ApiMessage | None:
        assert not self.is_in_flight
        self._end_delays(now_ms)
        if self._asking:
            self.is_in_flight = True
            self._asked = {
                each.topic_partition: (each, each.leader_epoch, each.stage)
                for each in self._asking.values()
            }
            return offsets_request(self._asking.values(), self._settings.replica_id)
        named = self._named(now_ms)
        if named is None:
            return None
        self.is_in_flight = True
        return fetch_request(named, self._settings, broker_epoch)

    def _named(self, now_ms: int) -> Named | None:
        if self._throttle.is_active or self._held:
            self._hold(now_ms)
        ready, held, session = self._ready, self._held, self._session
        if len(ready) == len(held):
            session.lost()
            return None
        changed, self._changed = self._changed, {}
        if session.is_full:
            return session.ask_all({key: ready[key].wish for key in ready if key not in held})
        wishes = {key: ready[key].wish for key in changed if key in ready and key not in held}
        return session.ask_changed(changed, wishes)

    def _hold(self, now_ms: int) -> None:
        self._look_again_ms = now_ms + self._settings.backoff_ms
        holds = self._throttle.holds
        held = {
            key: None
            for key, each in self._ready.items()
            if each.may_be_throttled and holds(each.topic_partition, now_ms)
        }
        for key in self._held.keys() ^ held.keys():
            self._changed[key] = None
        self._held = held

    def _end_delays(self, now_ms: int) -> None:
        while self._delayed:
            key, due_ms = next(iter(self._delayed.items()))
            if due_ms > now_ms:
                return
            self._make_ready(self._by_key[key])

    # -- answers --------------------------------------------------------------------------------

    def answered(self, answer: FetchResponse, now_ms: int) -> FetchOutcome:
        self.is_in_flight = False
        outcome = FetchOutcome()
        told = [
            (PartitionKey(topic.topic_id, each.partition_index), each)
            for topic in answer.responses
            for each in topic.partitions
        ]
        code = answer.error_code
        refusal = self._session.answered(code, answer.session_id, (key for key, _ in told))
        if refusal is not None:
            self._refusals += 1
            # A leader that refuses again and again is not asked again at once.
            if self._refusals > 1 or code not in _SESSION_GONE:
                self._delay_all(now_ms, outcome, refusal)
            return outcome
        self._refusals = 0
        for key, data in told:
            followed, asked = self._ready.get(key), self._session.asked(key)
            if followed is None or asked is None or key in self._held:
                continue
            if asked[:2] == (followed.fetch_offset, followed.leader_epoch):
                self._answered_one(followed, data, now_ms, outcome)
        return outcome

    def _answered_one(
        self,
        followed: FollowedPartition,
        data: FetchPartitionResponse,
        now_ms: int,
        outcome: FetchOutcome,
    ) -> None:
        code = data.error_code
        if code == ErrorCode.NONE:
            self._guarded(followed, now_ms, outcome, lambda: self._take(followed, data, outcome))
        elif code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._ask_offsets(followed, FetchStage.ASKS_LATEST)
        else:
            self._refused(followed, code, now_ms, outcome)

    def _refused(
        self, followed: FollowedPartition, code: int, now_ms: int, outcome: FetchOutcome
    ) -> None:
        if code == ErrorCode.FENCED_LEADER_EPOCH:
            # The leader knows a newer epoch than we do. Metadata will tell us.
            self._fail(followed, outcome, f"leader epoch {followed.leader_epoch} is over")
        else:
            self._delay(followed, now_ms, outcome, f"the leader answered error {code}")

    def _take(
        self, followed: FollowedPartition, data: FetchPartitionResponse, outcome: FetchOutcome
    ) -> None:
        diverging = data.diverging_epoch
        if diverging is not None and diverging.epoch >= 0:
            self._diverged(followed, diverging.epoch, diverging.end_offset, outcome)
            return
        records = data.records
        if records is None:
            records = _NO_RECORDS
        assert isinstance(records, Buffer), type(records)
        replica, log = followed.replica, followed.replica.log
        if followed.fetch_offset != log.log_end_offset:
            raise InvariantViolation(
                f"{followed.topic_partition} was fetched from {followed.fetch_offset}, and ends at "
                f"{log.log_end_offset}"
            )
        word = leader_word(data)
        if replica.must_rebuild(word):
            self._rebuild(followed, data, outcome)
            return
        replica.hear(word, has_records=len(records) > 0)
        changed = replica.append_as_follower(
            records,
            leader_epoch=followed.leader_epoch,
            high_watermark=data.high_watermark,
            log_start_offset=data.log_start_offset,
        )
        followed.lag = max(data.high_watermark - log.log_end_offset, 0)
        if changed.has_grown:
            followed.go_on_at_end()
            self._make_ready(followed)
            outcome.grown.append(Grown(followed.topic_partition, len(records)))
        elif changed.has_new_start:
            self._changed[followed.key] = None
        if changed.has_committed:
            outcome.committed.append(followed.topic_partition)

    def _rebuild(
        self, followed: FollowedPartition, data: FetchPartitionResponse, outcome: FetchOutcome
    ) -> None:
        """The leader has removed tombstones that this log may need: it is copied anew."""
        end_offset, tp = followed.replica.log.log_end_offset, followed.topic_partition
        if followed.replica.is_in_sync:
            raise InvariantViolation(
                f"{tp} ends at {end_offset} and is in sync, though its leader has removed "
                f"tombstones up to {data.removed_to}"
            )
        followed.replica.rebuild_at(data.log_start_offset)
        text = f"it ended at {end_offset}, and the leader has removed deletes up to "
        outcome.notes.append(FetchNote(FetchNoteKind.REBUILT, tp, f"{text}{data.removed_to}"))
        followed.go_on_at_end()
        self._make_ready(followed)

    def _diverged(
        self, followed: FollowedPartition, epoch: int, end_offset: int, outcome: FetchOutcome
    ) -> None:
        """Neither the high watermark nor the log start of such an answer counts."""
        before = followed.fetch_offset, followed.last_fetched_epoch
        offset = truncation_offset(followed.replica.log, epoch, end_offset)
        reason = f"the leader's epoch {epoch} ends at {end_offset}"
        self._truncate(followed, offset, outcome, reason)
        followed.go_on_at_end()
        self._make_ready(followed)
        if before == (followed.fetch_offset, followed.last_fetched_epoch):
            raise CorruptRecord(f"{reason}, which changes nothing here")

    def _truncate(
        self, followed: FollowedPartition, offset: int, outcome: FetchOutcome, reason: str
    ) -> None:
        end_offset = followed.replica.log.log_end_offset
        followed.replica.truncate_to(offset)
        if offset < end_offset:
            text = f"from {end_offset} to {followed.replica.log.log_end_offset}: {reason}"
            outcome.notes.append(FetchNote(FetchNoteKind.TRUNCATED, followed.topic_partition, text))

    # -- out of range ---------------------------------------------------------------------------

    def _ask_offsets(self, followed: FollowedPartition, stage: FetchStage) -> None:
        self._leave_request(followed.key)
        followed.stage = stage
        self._asking[followed.key] = followed

    def offsets_answered(self, answer: ListOffsetsResponse, now_ms: int) -> FetchOutcome:
        self.is_in_flight = False
        outcome = FetchOutcome()
        told = {
            TopicPartition(topic.name, each.partition_index): each
            for topic in answer.topics
            for each in topic.partitions
        }
        asked, self._asked = self._asked, {}
        for topic_partition, (followed, epoch, stage) in asked.items():
            if self._asking.get(followed.key) is not followed or (
                followed.leader_epoch,
                followed.stage,
            ) != (epoch, stage):
                continue
            said = told.get(topic_partition)
            if said is None:
                self._delay(followed, now_ms, outcome, "the leader told no offset")
            elif said.error_code != ErrorCode.NONE:
                self._refused(followed, said.error_code, now_ms, outcome)
            else:
                self._guarded(
                    followed, now_ms, outcome, self._told_offset(followed, said, now_ms, outcome)
                )
        return outcome

    def _told_offset(
        self,
        followed: FollowedPartition,
        said: ListOffsetsResponsePartition,
        now_ms: int,
        outcome: FetchOutcome,
    ) -> Callable[[], None]:
        if followed.stage is FetchStage.ASKS_LATEST:
            return lambda: self._told_latest(followed, said.offset, outcome)
        return lambda: self._told_earliest(followed, said.offset, now_ms, outcome)

    def _told_latest(self, followed: FollowedPartition, offset: int, outcome: FetchOutcome) -> None:
        if offset >= followed.replica.log.log_end_offset:
            followed.stage = FetchStage.ASKS_EARLIEST
            return
        self._truncate(followed, offset, outcome, f"the leader's log ends at {offset}")
        followed.lag = 0
        followed.go_on_at_end()
        self._make_ready(followed)

    def _told_earliest(
        self, followed: FollowedPartition, offset: int, now_ms: int, outcome: FetchOutcome
    ) -> None:
        before, end_offset = followed.fetch_offset, followed.replica.log.log_end_offset
        if offset > end_offset:
            followed.replica.restart_at(offset)
            text = f"at {offset}: the leader's log begins there, this one ended at {end_offset}"
            outcome.notes.append(FetchNote(FetchNoteKind.RESTARTED, followed.topic_partition, text))
        followed.go_on_at_end()
        self._make_ready(followed)
        if followed.fetch_offset == before:
            reason = f"offset {before} is said to be out of the leader's range, and lies within"
            self._delay(followed, now_ms, outcome, reason)

    # -- trouble --------------------------------------------------------------------------------

    def lost(self, now_ms: int, reason: str) -> FetchOutcome:
        """No answer: the connection broke, or could not be made."""
        self.is_in_flight = False
        self._asked = {}
        self._session.lost()
        outcome = FetchOutcome()
        self._delay_all(now_ms, outcome, reason)
        return outcome

    def _delay_all(self, now_ms: int, outcome: FetchOutcome, reason: str) -> None:
        for followed in [*self._ready.values(), *self._asking.values()]:
            self._delay(followed, now_ms, outcome, reason)

    def _delay(
        self,
        followed: FollowedPartition,
        now_ms: int,
        outcome: FetchOutcome,
        reason: str,
        error: Exception | None = None,
    ) -> None:
        self._leave_request(followed.key)
        followed.stage = FetchStage.FETCHING
        self._delayed[followed.key] = now_ms + self._settings.backoff_ms
        outcome.notes.append(
            FetchNote(FetchNoteKind.DELAYED, followed.topic_partition, reason, error)
        )

    def _fail(
        self,
        followed: FollowedPartition,
        outcome: FetchOutcome,
        reason: str,
        error: Exception | None = None,
    ) -> None:
        self.unfollow(followed.topic_partition)
        self.failed[followed.topic_partition] = reason
        outcome.notes.append(
            FetchNote(FetchNoteKind.FAILED, followed.topic_partition, reason, error)
        )

    def _guarded(
        self,
        followed: FollowedPartition,
        now_ms: int,
        outcome: FetchOutcome,
        act: Callable[[], None],
    ) -> None:
        """Trouble with one partition does not keep the others from their data."""
        try:
            act()
        except _DAMAGED as error:
            self._delay(followed, now_ms, outcome, str(error))
        except LogStorageError as error:
            if followed.replica.log.failure is None and followed.key in self._ready:
                # The write was undone, as on a full disk: there may be room the next time.
                self._delay(followed, now_ms, outcome, str(error), error)
            else:
                self._fail(followed, outcome, str(error), error)
        except Exception as error:  # noqa: BLE001 - a border: one partition, not the fetcher
            self._fail(followed, outcome, f"{type(error).__name__}: {error}", error)
