"""What one broker fetches from one leader over one connection. Pure, but for the logs handed in.

A leader has num.replica.fetchers of these; each has one request in flight. `next_request` says what
to ask, `answered` and its siblings do with the answer what Kafka's follower does. A partition is
ready, delayed after an error, or asks for the leader's offsets because its own are out of range; it
leaves the fetcher when it fails, and comes back with the next leader epoch.

An answer counts only if the partition still wants what was asked: same offset, same leader epoch.
"""

from collections.abc import Callable, Iterator
from functools import partial
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
from ledgerstone.protocol.messages.list_offsets import ListOffsetsResponse
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
from ledgerstone.replication.fetching.out_of_range import OffsetQuestions
from ledgerstone.replication.fetching.places import FetchPlaces
from ledgerstone.replication.fetching.replica import Replica
from ledgerstone.replication.fetching.session import FollowerSession, Named
from ledgerstone.replication.fetching.wire import FetchSettings, fetch_request, leader_word
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
    def __init__(
        self,
        settings: FetchSettings,
        throttle: HoldsBack | None = None,
        *,
        keeps_session: bool = True,
    ) -> None:
        self._settings = settings
        self._throttle = HoldsNothing() if throttle is None else throttle
        self._session = FollowerSession(is_kept=keeps_session)
        self._places = FetchPlaces()
        self._questions = OffsetQuestions(self._places)
        self._look_again_ms = 0
        self._refusals = 0
        self.is_in_flight = False
        # Why each partition that has failed is not fetched any more.
        self.failed: dict[TopicPartition, str] = {}

    # -- which partitions -----------------------------------------------------------------------

    def __len__(self) -> int:
        """Partitions that are fetched, or will be after a delay."""
        return len(self._places)

    def __iter__(self) -> Iterator[FollowedPartition]:
        return iter(self._places)

    @property
    def is_idle(self) -> bool:
        return not len(self._places) and not self.failed

    @property
    def max_lag(self) -> int:
        return max((each.lag or 0 for each in self._places), default=0)

    def follow(
        self, topic_partition: TopicPartition, topic_id: bytes, replica: Replica, leader_epoch: int
    ) -> FetchOutcome:
        """From the log's end on. A log without epochs cannot say where it diverges: it goes on at
        its high watermark, as before KIP-101."""
        self.unfollow(topic_partition)
        outcome = FetchOutcome()
        followed = FollowedPartition(
            key=PartitionKey(topic_id, topic_partition.partition),
            topic_partition=topic_partition,
            replica=replica,
            leader_epoch=leader_epoch,
            fetch_offset=0,
            last_fetched_epoch=0,
        )
        self._places.add(followed)
        start = partial(_start, followed, outcome)
        self._guarded(followed, 0, outcome, start, may_try_again=False)
        return outcome

    def unfollow(self, topic_partition: TopicPartition) -> None:
        self.failed.pop(topic_partition, None)
        self._places.remove(topic_partition)

    def adopt(self, other: "ReplicaFetcher") -> None:
        """Takes all partitions over from another fetcher of the same leader. What that one has
        asked for is answered in vain."""
        for followed in other:
            self._places.add(followed)
        self.failed |= other.failed
        other._places.clear()
        other.failed = {}

    def touch(self, topic_partition: TopicPartition) -> None:
        """The next request names the partition again if what it says of it has changed."""
        self._places.touch(topic_partition)

    # -- what to ask ----------------------------------------------------------------------------

    def next_due_ms(self, now_ms: int) -> int | None:
        """When `next_request` will have something to ask; None: not before something happens."""
        if self.is_in_flight:
            return None
        places = self._places
        if places.asking or places.has_wishes:
            return now_ms
        due_ms = places.delayed_until_ms
        if places.held:
            again_ms = self._look_again_ms
            due_ms = again_ms if due_ms is None else min(due_ms, again_ms)
        return due_ms

    def next_request(self, now_ms: int, broker_epoch: int) -> ApiMessage | None:
        assert not self.is_in_flight
        self._places.end_delays(now_ms)
        if self._places.asking:
            self.is_in_flight = True
            return self._questions.request(self._settings.replica_id)
        named = self._named(now_ms)
        if named is None:
            return None
        self.is_in_flight = True
        return fetch_request(named, self._settings, broker_epoch)

    def _named(self, now_ms: int) -> Named | None:
        places, session = self._places, self._session
        if self._throttle.is_active or places.held:
            self._look_again_ms = now_ms + self._settings.backoff_ms
            places.hold(self._throttle, now_ms)
        if not places.has_wishes:
            session.lost()
            return None
        changed = places.take_changed()
        if session.is_full:
            wishes = {key: each.wish for key, each in places.ready.items()}
            for key in places.held:
                del wishes[key]
            return session.ask_all(wishes)
        wanted = ((key, places.wished(key)) for key in changed)
        wishes = {key: each.wish for key, each in wanted if each is not None}
        return session.ask_changed(changed, wishes)

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
            followed, asked = self._places.wished(key), self._session.asked(key)
            if followed is None or asked is None:
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
            self._places.ask(followed, FetchStage.ASKS_LATEST)
        else:
            self._refused(followed, code, now_ms, outcome)

    def _refused(
        self, followed: FollowedPartition, code: int, now_ms: int, outcome: FetchOutcome
    ) -> None:
        if code == ErrorCode.FENCED_LEADER_EPOCH:
            # The leader knows a newer epoch than we do. Metadata will tell us.
            self._fail(followed, outcome, f"leader epoch {followed.leader_epoch} is over")
        else:
            reason = f"the leader answered error {code}"
            self._delay(followed, now_ms, outcome, reason, may_be_early=True)

    def _take(
        self, followed: FollowedPartition, data: FetchPartitionResponse, outcome: FetchOutcome
    ) -> None:
        diverging = data.diverging_epoch
        if diverging is not None and diverging.epoch >= 0:
            self._diverged(followed, diverging.epoch, diverging.end_offset, outcome)
            return
        records = _NO_RECORDS if data.records is None else data.records
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
            self._places.make_ready(followed)
            outcome.grown.append(Grown(followed.topic_partition, len(records)))
        elif changed.has_new_start:
            self.touch(followed.topic_partition)
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
        self._places.make_ready(followed)

    def _diverged(
        self, followed: FollowedPartition, epoch: int, end_offset: int, outcome: FetchOutcome
    ) -> None:
        """Neither the high watermark nor the log start of such an answer counts."""
        before = followed.fetch_offset, followed.last_fetched_epoch
        offset = truncation_offset(followed.replica.log, epoch, end_offset)
        reason = f"the leader's epoch {epoch} ends at {end_offset}"
        followed.truncate_to(offset, outcome, reason)
        self._places.make_ready(followed)
        if before == (followed.fetch_offset, followed.last_fetched_epoch):
            raise CorruptRecord(f"{reason}, which changes nothing here")

    def offsets_answered(self, answer: ListOffsetsResponse, now_ms: int) -> FetchOutcome:
        self.is_in_flight = False
        outcome = FetchOutcome()
        for followed, said in self._questions.answered(answer):
            if said is None:
                self._delay(followed, now_ms, outcome, "the leader told no offset")
            elif said.error_code != ErrorCode.NONE:
                self._refused(followed, said.error_code, now_ms, outcome)
            else:
                settle = self._questions.settling(followed, said.offset, outcome)
                self._guarded(followed, now_ms, outcome, settle)
        return outcome

    # -- trouble --------------------------------------------------------------------------------

    def lost(self, now_ms: int, reason: str) -> FetchOutcome:
        """No answer: the connection broke, or could not be made."""
        self.is_in_flight = False
        self._session.lost()
        outcome = FetchOutcome()
        self._delay_all(now_ms, outcome, reason)
        return outcome

    def _delay_all(self, now_ms: int, outcome: FetchOutcome, reason: str) -> None:
        for followed in [*self._places.ready.values(), *self._places.asking.values()]:
            self._delay(followed, now_ms, outcome, reason)

    def _delay(
        self,
        followed: FollowedPartition,
        now_ms: int,
        outcome: FetchOutcome,
        reason: str,
        error: Exception | None = None,
        *,
        may_be_early: bool = False,
    ) -> None:
        pause_ms = followed.take_pause_ms(self._settings.backoff_ms)
        self._places.delay(followed, now_ms, pause_ms)
        if may_be_early and pause_ms < self._settings.backoff_ms:
            # Every new topic has followers that ask before their leader knows it: no line for that.
            return
        note = FetchNote(FetchNoteKind.DELAYED, followed.topic_partition, reason, error)
        outcome.notes.append(note)

    def _fail(
        self,
        followed: FollowedPartition,
        outcome: FetchOutcome,
        reason: str,
        error: Exception | None = None,
    ) -> None:
        self.unfollow(followed.topic_partition)
        self.failed[followed.topic_partition] = reason
        note = FetchNote(FetchNoteKind.FAILED, followed.topic_partition, reason, error)
        outcome.notes.append(note)

    def _guarded(
        self,
        followed: FollowedPartition,
        now_ms: int,
        outcome: FetchOutcome,
        act: Callable[[], None],
        *,
        may_try_again: bool = True,
    ) -> None:
        """Trouble with one partition does not keep the others from their data."""
        try:
            act()
        except _DAMAGED as error:
            self._delay(followed, now_ms, outcome, str(error))
        except LogStorageError as error:
            if followed.replica.log.failure is None and may_try_again:
                # The write was undone, as on a full disk: there may be room the next time. What
                # came before it was not: a log that was to begin anew may be empty already.
                followed.go_on_at_end()
                self._delay(followed, now_ms, outcome, str(error), error)
            else:
                self._fail(followed, outcome, str(error), error)
        except Exception as error:  # noqa: BLE001 - a border: one partition, not the fetcher
            self._fail(followed, outcome, f"{type(error).__name__}: {error}", error)

    def check_invariants(self) -> None:
        self._places.check_invariants()


def _start(followed: FollowedPartition, outcome: FetchOutcome) -> None:
    log = followed.replica.log
    if log.epochs.latest_epoch is None and log.high_watermark < log.log_end_offset:
        followed.truncate_to(log.high_watermark, outcome, "the log knows no epochs")
    else:
        followed.go_on_at_end()
