"""What the active controller alone knows of brokers: when each was heard from, how far it is. Pure.

Nothing here is in the log. It is made anew with every leadership: a broker that was unfenced then
gets a whole session to be heard from. Time is monotonic and handed in. Rules in README.md.
"""

from typing import Final

from ledgerstone.dataclasses import dataclass
from ledgerstone.metadata.image import MetadataImage

DEFAULT_SESSION_TIMEOUT_MS: Final = 9_000
_UNKNOWN: Final = -1


@dataclass(slots=True)
class _Session:
    """One broker, in one epoch of its registration."""

    epoch: int
    # It may be unfenced once its metadata has come this far.
    registration_offset: int
    contact_ms: int | None = None  # None: not heard from yet.
    metadata_offset: int = _UNKNOWN
    # What every active broker must have applied before this one may stop.
    shutdown_offset: int | None = None
    # Of a process that may be gone: nothing was heard from it under this leadership.
    is_inherited: bool = False


class BrokerSessions:
    """Invariant: at most one session for each broker id, that of its newest epoch."""

    __slots__ = (
        "_grace_ms",
        "_own_id",
        "_sessions",
        "_timeout_ms",
        "expired_count",
        "next_deadline_ms",
    )

    def __init__(
        self,
        *,
        own_id: int | None = None,
        timeout_ms: int = DEFAULT_SESSION_TIMEOUT_MS,
        grace_ms: int | None = None,
    ) -> None:
        """`own_id`: the broker in this process, if there is one. `grace_ms`: what is left of the
        session of a broker whose connection broke; None: all of it."""
        self._own_id = own_id
        self._timeout_ms = timeout_ms
        self._grace_ms = timeout_ms if grace_ms is None else min(grace_ms, timeout_ms)
        self._sessions: dict[int, _Session] = {}
        # No session expires before this. It may be too early, never too late.
        self.next_deadline_ms: int | None = None
        # Since this process started; a metric.
        self.expired_count = 0

    def start(
        self,
        image: MetadataImage,
        *,
        now_ms: int,
        end_offset: int,
        last_controller_id: int | None = None,
    ) -> None:
        """This node leads from now on. Registrations of `image` lie below `end_offset`; where
        exactly is not known, so their brokers must come as far as that. `last_controller_id`: the
        node that led before. Its process may be gone, and its broker with it."""
        self.clear()
        for broker in image.brokers.values():
            session = _Session(broker.broker_epoch, end_offset - 1, is_inherited=True)
            if broker.in_controlled_shutdown and not broker.fenced:
                session.shutdown_offset = end_offset - 1
            self._sessions[broker.broker_id] = session
            if not broker.fenced:
                self._heard(session, now_ms)
        last = None if last_controller_id is None else image.brokers.get(last_controller_id)
        if last is not None:
            self.hung_up(last.broker_id, last.broker_epoch, now_ms)

    def clear(self) -> None:
        self._sessions.clear()
        self.next_deadline_ms = None

    def register(self, broker_id: int, epoch: int, *, registration_offset: int) -> None:
        """A new incarnation, or a registration amended by the same one."""
        session = self._sessions.get(broker_id)
        if session is None or session.epoch != epoch:
            self._sessions[broker_id] = _Session(epoch, registration_offset)
        else:
            session.registration_offset = registration_offset

    def forget(self, broker_id: int) -> None:
        self._sessions.pop(broker_id, None)

    def contact(self, broker_id: int, epoch: int, now_ms: int) -> None:
        """A heartbeat has come in. Noted before it waits for anything, so a controller that is
        behind does not fence the brokers it keeps waiting. An old epoch is no contact."""
        session = self._sessions.get(broker_id)
        if session is not None and session.epoch == epoch:
            session.is_inherited = False
            self._heard(session, now_ms)

    def heartbeat(self, broker_id: int, epoch: int, *, now_ms: int, end_offset: int) -> None:
        """A contact of the epoch that is registered, below `end_offset`. A session is there after
        that, also if the records that were to replace it never came to be."""
        session = self._sessions.get(broker_id)
        if session is None or session.epoch != epoch:
            self._sessions[broker_id] = _Session(epoch, end_offset - 1)
        self.contact(broker_id, epoch, now_ms)

    def hung_up(self, broker_id: int, epoch: int, now_ms: int) -> None:
        """The connection of its heartbeats broke. A process that lives connects again, and its next
        heartbeat gives it a whole session; one that was killed is not waited for so long."""
        session = self._sessions.get(broker_id)
        if session is None or session.epoch != epoch or session.contact_ms is None:
            return
        session.contact_ms = min(session.contact_ms, now_ms + self._grace_ms - self._timeout_ms)
        self._due_by(session.contact_ms)

    def applied(self, broker_id: int, metadata_offset: int) -> None:
        """How far the broker's metadata is, by its heartbeat."""
        self._sessions[broker_id].metadata_offset = metadata_offset

    def is_live(self, broker_id: int, epoch: int, now_ms: int) -> bool:
        """Whether another incarnation must wait. What this process inherits of its own id is the
        registration of the process before it: nobody to wait for."""
        session = self._sessions.get(broker_id)
        if session is None or session.epoch != epoch or session.contact_ms is None:
            return False
        if broker_id == self._own_id:
            return not session.is_inherited
        return now_ms - session.contact_ms <= self._timeout_ms

    def registration_offset(self, broker_id: int) -> int:
        return self._sessions[broker_id].registration_offset

    def shutdown_offset(self, broker_id: int) -> int | None:
        session = self._sessions.get(broker_id)
        return None if session is None else session.shutdown_offset

    def begin_shutdown(self, broker_id: int, offset: int) -> None:
        """The first one counts: later heartbeats ask for nothing new."""
        session = self._sessions[broker_id]
        if session.shutdown_offset is None:
            session.shutdown_offset = offset

    def let_go(self, broker_id: int) -> None:
        """The process may stop: the next one of that id need not wait until it was silent."""
        self._sessions[broker_id].contact_ms = None

    def lowest_offset(self, image: MetadataImage) -> int | None:
        """Of the metadata of all active brokers; None where there are none."""
        offsets = [
            _UNKNOWN if session is None else session.metadata_offset
            for broker_id, broker in image.brokers.items()
            if broker.is_active
            for session in (self._sessions.get(broker_id),)
        ]
        return min(offsets, default=None)

    def take_expired(self, now_ms: int) -> int | None:
        """One broker that was silent for longer than a session, the longest silent first. Its
        session ends with that."""
        expired = None
        oldest = None
        for broker_id, session in self._sessions.items():
            if session.contact_ms is None or self._is_own_and_alive(broker_id, session):
                continue
            if oldest is None or session.contact_ms < oldest:
                oldest, expired = session.contact_ms, broker_id
        if oldest is None or expired is None:
            self.next_deadline_ms = None
            return None
        if now_ms - oldest <= self._timeout_ms:
            self.next_deadline_ms = oldest + self._timeout_ms + 1
            return None
        self._sessions[expired].contact_ms = None
        self.expired_count += 1
        # Another one may be due, too.
        self.next_deadline_ms = now_ms
        return expired

    def silence_ms(self, broker_id: int, now_ms: int) -> int | None:
        """Since the broker was last heard from; None: not yet, or expired."""
        session = self._sessions.get(broker_id)
        if session is None or session.contact_ms is None:
            return None
        return now_ms - session.contact_ms

    def _is_own_and_alive(self, broker_id: int, session: _Session) -> bool:
        """The broker in this process lives as long as the controller does."""
        return broker_id == self._own_id and not session.is_inherited

    def _heard(self, session: _Session, now_ms: int) -> None:
        session.contact_ms = now_ms
        self._due_by(now_ms)

    def _due_by(self, contact_ms: int) -> None:
        deadline_ms = contact_ms + self._timeout_ms + 1
        if self.next_deadline_ms is None or deadline_ms < self.next_deadline_ms:
            self.next_deadline_ms = deadline_ms
