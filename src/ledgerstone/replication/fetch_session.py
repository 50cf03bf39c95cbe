"""Incremental fetch sessions (KIP-227): a wide consumer names only what changed. Pure.

A request either stands alone, opens a session, or continues one. `FetchSessions.resolve` turns each
into the full list of partitions to read; `FetchContext.answer` then says which partitions the
reply must name. Followers are privileged: their sessions take the place of consumers' when slots
run out.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, NamedTuple

from ledgerstone.clock import Dice
from ledgerstone.dataclasses import dataclass, field
from ledgerstone.errors import (
    FetchSessionIdNotFound,
    FetchSessionTopicIdError,
    InvalidFetchSessionEpoch,
)
from ledgerstone.replication.removal import LeaderWord
from ledgerstone.types import INT32_MAX

NO_SESSION: Final = 0
FINAL_EPOCH: Final = -1
INITIAL_EPOCH: Final = 0
EVICTABLE_AFTER_MS: Final = 120_000
# All sessions together. Slots alone bound nothing: one may name as many partitions as fit into a
# request, also such as do not exist.
MAX_HELD_BYTES: Final = 128 << 20
_WISH_BYTES: Final = 448


class PartitionKey(NamedTuple):
    """`topic` is a name, or 16 bytes of topic id for versions that use ids."""

    topic: str | bytes
    partition: int


@dataclass(slots=True)
class FetchWish:
    """What a reader asked of one partition, and what it was told last."""

    key: PartitionKey
    fetch_offset: int
    max_bytes: int
    current_leader_epoch: int
    last_fetched_epoch: int
    log_start_offset: int = -1  # The reader's own, if it is a follower.
    told_high_watermark: int = -1
    told_log_start_offset: int = -1
    # What a follower says about its tombstones, and what it was told; -1: nothing, as by Kafka.
    clean_to: int = -1
    removed_to: int = -1
    told_word: LeaderWord | None = None
    # The partition, once it was read for this wish; whoever reads says what that is.
    found: object = None


class Told(NamedTuple):
    """What a reply is about to say of one partition."""

    key: PartitionKey
    has_records: bool
    error_code: int
    high_watermark: int
    log_start_offset: int
    must_tell: bool = False  # a diverging epoch, a preferred replica
    word: LeaderWord | None = None


@dataclass(slots=True)
class FetchSession:
    session_id: int
    uses_topic_ids: bool
    epoch: int
    last_used_ms: int
    held_bytes: int = 0
    is_privileged: bool = False
    opened_ms: int = 0
    wishes: "OrderedDict[PartitionKey, FetchWish]" = field(default_factory=OrderedDict)


@dataclass(slots=True)
class FetchContext:
    """One request, resolved."""

    wishes: list[FetchWish]
    session: FetchSession | None = None
    incremental: bool = False

    def is_news(self, told: Told) -> bool:
        """Whether a reply would name the partition for this."""
        if self.session is None or not self.incremental:
            return True
        wish = self.session.wishes.get(told.key)
        return wish is not None and _is_news(wish, told)

    @property
    def session_id(self) -> int:
        return NO_SESSION if self.session is None else self.session.session_id

    def answer(self, told: Sequence[Told]) -> list[PartitionKey]:
        """The partitions the reply names; what they are told is remembered for the next one."""
        if self.session is None:
            return [one.key for one in told]
        named = []
        for one in told:
            wish = self.session.wishes.get(one.key)
            if wish is None:
                continue
            if not self.incremental or _is_news(wish, one):
                named.append(one.key)
            # After an error the next good answer must be sent whatever it says; so after a
            # diverging epoch or a preferred replica, as readers take nothing else of that answer.
            is_lost = one.error_code != 0 or one.must_tell
            wish.told_high_watermark = -1 if is_lost else one.high_watermark
            wish.told_log_start_offset = -1 if is_lost else one.log_start_offset
            wish.told_word = None if is_lost else one.word
            if one.has_records:
                # Who got data goes to the end of the line, so that all get their turn.
                self.session.wishes.move_to_end(one.key)
        return named


def _is_news(wish: FetchWish, told: Told) -> bool:
    return (
        told.has_records
        or told.must_tell
        or told.error_code != 0
        or told.high_watermark != wish.told_high_watermark
        or told.log_start_offset != wish.told_log_start_offset
        or told.word != wish.told_word
    )


class FetchSessions:
    """All sessions of one broker; the least recently used goes when there are too many."""

    def __init__(self, dice: Dice, max_slots: int) -> None:
        self._dice = dice
        self._max_slots = max_slots
        self.held_bytes = 0
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def resolve(
        self,
        *,
        session_id: int,
        epoch: int,
        wishes: Sequence[FetchWish],
        forgotten: Sequence[PartitionKey],
        uses_topic_ids: bool,
        now_ms: int,
        is_privileged: bool = False,
    ) -> FetchContext:
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            # A full request ends the session it names.
            self._end(session_id)
            if epoch == FINAL_EPOCH:
                return FetchContext(list(wishes))
            session = self._open(wishes, uses_topic_ids, is_privileged, now_ms)
            return FetchContext(list(wishes), session)
        session_or_none = self._sessions.get(session_id)
        if session_or_none is None:
            raise FetchSessionIdNotFound(f"fetch session {session_id} is not known")
        session = session_or_none
        if session.epoch != epoch:
            raise InvalidFetchSessionEpoch(
                f"fetch session {session_id} expects epoch {session.epoch}, not {epoch}"
            )
        if session.uses_topic_ids != uses_topic_ids:
            raise FetchSessionTopicIdError(f"fetch session {session_id} changed its topic naming")
        self._merge(session, wishes, forgotten)
        session.epoch = 1 if epoch == INT32_MAX else epoch + 1
        session.last_used_ms = now_ms
        self._sessions.move_to_end(session_id)
        if not session.wishes:
            self._end(session_id)
            return FetchContext([])
        return FetchContext(list(session.wishes.values()), session, incremental=True)

    def _open(
        self,
        wishes: Sequence[FetchWish],
        uses_topic_ids: bool,
        is_privileged: bool,
        now_ms: int,
    ) -> FetchSession | None:
        size = sum(_size_of(wish.key) for wish in wishes)
        while len(self._sessions) >= self._max_slots or self.held_bytes + size > MAX_HELD_BYTES:
            doomed = self._evictable(len(wishes), is_privileged, now_ms)
            if doomed is None:
                # No room: the reader is served without a session.
                return None
            self._end(doomed.session_id)
        session = FetchSession(
            self._new_id(), uses_topic_ids, 1, now_ms, size, is_privileged, now_ms
        )
        self.held_bytes += size
        session.wishes.update((wish.key, wish) for wish in wishes)
        self._sessions[session.session_id] = session
        return session

    def _evictable(self, count: int, is_privileged: bool, now_ms: int) -> FetchSession | None:
        """The session that has to make room, by Kafka's rules: one that was not used for long; else
        for a follower the smallest of a consumer; else an old one that is smaller than the new
        one."""
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None or now_ms - oldest.last_used_ms >= EVICTABLE_AFTER_MS:
            return oldest
        candidates = [
            each
            for each in self._sessions.values()
            if (is_privileged and not each.is_privileged)
            or now_ms - each.opened_ms > EVICTABLE_AFTER_MS
        ]
        least = min(candidates, key=_value_of, default=None)
        if least is None or (is_privileged, count) < (least.is_privileged, len(least.wishes)):
            return None
        return least

    def _merge(
        self, session: FetchSession, wishes: Sequence[FetchWish], forgotten: Sequence[PartitionKey]
    ) -> None:
        more = sum(_size_of(wish.key) for wish in wishes if wish.key not in session.wishes)
        if self.held_bytes + more > MAX_HELD_BYTES:
            # The reader names all it wants next, and is served without a session if it has to be.
            self._end(session.session_id)
            raise FetchSessionIdNotFound(f"no room for more in fetch session {session.session_id}")
        for wish in wishes:
            known = session.wishes.get(wish.key)
            # Who asks in another epoch, or goes back, may not have taken what it was told: a
            # follower drops answers to what it no longer asks.
            if (
                known is not None
                and known.current_leader_epoch == wish.current_leader_epoch
                and known.fetch_offset <= wish.fetch_offset
            ):
                wish.told_high_watermark = known.told_high_watermark
                wish.told_log_start_offset = known.told_log_start_offset
                wish.told_word = known.told_word
            session.wishes[wish.key] = wish
        for key in forgotten:
            if session.wishes.pop(key, None) is not None:
                more -= _size_of(key)
        session.held_bytes += more
        self.held_bytes += more

    def close(self, session_id: int) -> None:
        """It was not told to its reader."""
        self._end(session_id)

    def _end(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self.held_bytes -= session.held_bytes

    def _new_id(self) -> int:
        while True:
            session_id = 1 + self._dice.below(INT32_MAX)
            if session_id not in self._sessions:
                return session_id


def _value_of(session: FetchSession) -> tuple[bool, int, int]:
    return session.is_privileged, len(session.wishes), session.session_id


def _size_of(key: PartitionKey) -> int:
    """What a wish costs; a name that several share is counted for each."""
    return _WISH_BYTES + len(key.topic) * (1 if key.topic.isascii() else 4)
