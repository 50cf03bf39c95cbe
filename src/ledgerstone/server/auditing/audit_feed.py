"""Lines of this node on their way into the topic `__audit`. Grade D.

The file is the log; the topic follows it. Only what is synced is sent, so that no line in the topic
can be lost from the file and its number be given twice. One request is under way at a time, and the
next begins behind what was committed: at least once, in order, and nothing is kept in memory but
that request. Where the topic cannot be written the file goes on, and the lag shows.
"""

import logging
from collections.abc import Iterable
from typing import Final, NamedTuple

from ledgerstone.clock import Clock
from ledgerstone.erasure.host_messages import WorkKind, encoded
from ledgerstone.errors import KafkaError, StorageError
from ledgerstone.security.audit_chain import redacted
from ledgerstone.server.auditing.audit_file import AuditFile, chain_name
from ledgerstone.server.auditing.audit_topic import AuditTopic, WrittenLines
from ledgerstone.server.auditing.line_reader import LineCursor, LineReader, has_line, line_at
from ledgerstone.server.auditing.redaction import noted
from ledgerstone.server.auditing.upkeep import Upkeep
from ledgerstone.server.erasing.others import OtherBrokers, Said, Unanswered

_LOG: Final = logging.getLogger(__name__)
# Lines that come together leave together.
_LINGER_MS: Final = 100
_POLL_MS: Final = 20
# Lines of one parcel: whoever leads the topic checks each of them, a few milliseconds.
_PARCEL: Final = 100
# Each is looked for in its file.
MOST_REDACTIONS: Final = 20
_COMMIT_MS: Final = 10_000
_FIRST_BACKOFF_MS: Final = 200
_MAX_BACKOFF_MS: Final = 10_000
_REMEMBER_MS: Final = 5_000
_PATIENCE_MS: Final = 60_000
# Leaders come and go; what lasts longer is logged, and again each hour.
_SAID_AFTER_MS: Final = 30_000
_SAID_EVERY_MS: Final = 3_600_000


class _Parcel(NamedTuple):
    lines: list[bytes]
    last_seq: int  # unchanged where only redactions are sent
    redactions: int
    cursor: LineCursor | None  # behind them


class AuditFeed:
    """Part of the auditor, which ticks it."""

    def __init__(
        self,
        file: AuditFile,
        clock: Clock,
        upkeep: Upkeep,
        topic: AuditTopic,
        others: OtherBrokers,
    ) -> None:
        self._file, self._clock, self._upkeep = file, clock, upkeep
        self._topic, self.others = topic, others
        upkeep.waits_for_topic = True
        state = upkeep.state
        chain = state.chain or chain_name(file.fs, file.directory)
        # A state of other files: the directory was emptied, and its chain is another one.
        if state.sent_seq > file.link.seq or not has_line(file, state.sent_seq + 1):
            chain, state = chain_name(file.fs, file.directory), state._replace(sent_seq=0)
        self._state = state._replace(chain=chain)
        self._reader = LineReader(file)
        self._cursor: LineCursor | None = None
        # Those that the log does not name yet come from the upkeep.
        asked_for = noted(file.fs, file.directory)[: state.redactions]
        self._redactions = asked_for[state.sent_redactions :]
        self._due_ms: int | None = clock.monotonic_ms()
        self._is_under_way = False
        self._written: tuple[WrittenLines, _Parcel, int] | None = None
        self._backoff_ms = 0
        self._remember_ms = 0
        # A cluster that starts gets its brokers one by one.
        self._patient_until_ms = clock.monotonic_ms() + _PATIENCE_MS
        self._troubled_since_ms: int | None = None
        # Why the last attempt failed; None while all is well.
        self.trouble: str | None = None

    # -- what operators see -------------------------------------------------------------------

    @property
    def lag(self) -> int:
        """Lines that the topic does not have."""
        return max(self._file.link.seq - self._state.sent_seq, 0) + len(self._redactions)

    @property
    def sent_seq(self) -> int:
        return self._state.sent_seq

    # -- when ---------------------------------------------------------------------------------

    @property
    def next_deadline_ms(self) -> int | None:
        return self._due_ms

    def line_came(self, now_ms: int) -> bool:
        """True if something is due sooner than before."""
        if self._due_ms is None and not self._is_under_way:
            self._due_ms = now_ms + _LINGER_MS
            return True
        return False

    def look_now(self) -> None:
        """The metadata have changed: the topic may be there now, or led by another."""
        if self.lag and not self._is_under_way and self._written is None:
            self._due_ms = 0

    def redact(self, numbers: Iterable[int]) -> None:
        self._redactions += numbers
        self.look_now()

    def tick(self, now_ms: int) -> None:
        if self._written is not None:
            self._look_at_written(now_ms)
        if self._due_ms is None:
            if self.lag and not self._is_under_way and self._written is None:
                self._due_ms = now_ms + _LINGER_MS
            return
        if now_ms < self._due_ms or self._is_under_way or self._written is not None:
            return
        self._due_ms = None
        try:
            self._go_on(now_ms)
        except (OSError, StorageError, KafkaError) as error:
            self._failed(str(error))

    # -- one parcel ---------------------------------------------------------------------------

    def _go_on(self, now_ms: int) -> None:
        leader = self._topic.leader
        if leader is None:
            lacking = self._topic.lacks_brokers()
            if lacking is not None and now_ms < self._patient_until_ms:
                self._failed(lacking)
                return
            self._is_under_way = True
            self._topic.ask_for_topic(self._made)
            return
        parcel = self._next_parcel()
        if parcel is None:
            self._rests(now_ms)
            return
        if leader == self._file.node_id:
            chain = self._state.chain
            written = self._topic.append(parcel.lines, node=self._file.node_id, chain=chain)
            self._written = written, parcel, now_ms + _COMMIT_MS
            self._look_at_written(now_ms)
            return
        self._is_under_way = True
        content = {"chain": self._state.chain, "lines": [each.decode() for each in parcel.lines]}
        self.others.ask(
            leader, WorkKind.AUDIT, lambda word: self._heard(word, parcel), encoded(content)
        )

    def _made(self, why: str | None) -> None:
        self._is_under_way = False
        if why is not None:
            self._failed(why)
        else:
            self._due_ms = self._clock.monotonic_ms() + _LINGER_MS

    def _heard(self, word: Said | Unanswered, parcel: _Parcel) -> None:
        self._is_under_way = False
        if isinstance(word, Unanswered):
            self._failed(word.reason)
        else:
            self._arrived(parcel)

    def _look_at_written(self, now_ms: int) -> None:
        """The topic is led here: are replicas there yet?"""
        assert self._written is not None
        written, parcel, deadline_ms = self._written
        try:
            is_there = written.is_committed
        except KafkaError as error:
            self._written = None
            self._failed(str(error))
            return
        if is_there:
            self._written = None
            self._arrived(parcel)
        elif now_ms >= deadline_ms:
            self._written = None
            self._failed("replicas do not take what was written")
        else:
            self._due_ms = now_ms + _POLL_MS

    def _arrived(self, parcel: _Parcel) -> None:
        state = self._state
        self._state = state._replace(
            sent_seq=max(state.sent_seq, parcel.last_seq),
            sent_redactions=state.sent_redactions + parcel.redactions,
        )
        self._cursor = parcel.cursor
        del self._redactions[: parcel.redactions]
        self._backoff_ms, self.trouble, self._troubled_since_ms = 0, None, None
        now_ms = self._clock.monotonic_ms()
        self._due_ms = now_ms if self.lag else None
        if now_ms >= self._remember_ms or not self.lag:
            self._rests(now_ms)

    def _failed(self, reason: str) -> None:
        """Tried again, later and later."""
        now_ms = self._clock.monotonic_ms()
        if self._troubled_since_ms is None:
            self._troubled_since_ms = now_ms
        elif now_ms - self._troubled_since_ms >= _SAID_AFTER_MS:
            _LOG.warning("audit topic is not written lag=%d reason=%s", self.lag, reason)
            self._troubled_since_ms = now_ms + _SAID_EVERY_MS
        self.trouble = reason
        self._backoff_ms = min(max(self._backoff_ms * 2, _FIRST_BACKOFF_MS), _MAX_BACKOFF_MS)
        self._due_ms = now_ms + self._backoff_ms

    # -- how far ------------------------------------------------------------------------------

    def _rests(self, now_ms: int) -> None:
        if now_ms >= self._remember_ms:
            self._remember_ms = now_ms + _REMEMBER_MS
            try:
                self.remember()
            except OSError as error:
                self._failed(f"audit.state cannot be written: {error}")

    def remember(self) -> None:
        """Crash before: lines are sent again, under the same keys. OSError."""
        kept = self._upkeep.state
        state = self._state._replace(redactions=kept.redactions)
        if state != kept:
            self._upkeep.keep(state)

    # -- lines --------------------------------------------------------------------------------

    def _next_parcel(self) -> _Parcel | None:
        sent = self._state.sent_seq
        if sent < self._file.link.seq:
            # No line is sent that a loss of power could take back.
            self._file.sync()
            lines, cursor = self._reader.after(sent, self._cursor, _PARCEL)
            if lines:
                return _Parcel(lines, cursor.seq, 0, cursor)
        wanted = self._redactions[:MOST_REDACTIONS]
        places = (line_at(self._file, seq) for seq in wanted)
        lines = [redacted(each).rstrip(b"\n") for each in places if each is not None]
        if lines:
            return _Parcel(lines, sent, len(wanted), self._cursor)
        # Of lines that are gone.
        del self._redactions[: len(wanted)]
        done = self._state.sent_redactions + len(wanted)
        self._state = self._state._replace(sent_redactions=done)
        return None
