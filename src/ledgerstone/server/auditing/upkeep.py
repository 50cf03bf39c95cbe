"""What the audit log needs by the clock: seals, the end of old files, redactions. Grade D."""

from typing import Final

from ledgerstone.clock import Clock
from ledgerstone.security.audit_chain import AuditEvent, ChainEnd
from ledgerstone.security.audit_seal import SEAL, public_key_of, seal_facts
from ledgerstone.server.auditing.audit_file import DAY_MS, AuditFile
from ledgerstone.server.auditing.redaction import noted, noted_bytes
from ledgerstone.server.auditing.state_file import AuditState, read_state, write_state

LINES_PER_SEAL: Final = 1000
SEAL_MS: Final = 60_000
_LOOK_MS: Final = 60_000
_RETIRE_LOOK_MS: Final = 3_600_000


class Upkeep:
    """`retention_days` of None: files are kept for ever."""

    def __init__(
        self, file: AuditFile, clock: Clock, secret: bytes, *, retention_days: int | None
    ) -> None:
        self._file, self._clock, self._secret = file, clock, secret
        self._retention_days = retention_days
        self.public_key = public_key_of(secret)
        self.state: AuditState = read_state(file.fs, file.directory)
        # Lines that the topic does not have stay; told by the feed, where there is one.
        self.waits_for_topic = False
        self._noted_bytes = -1
        now_ms = clock.monotonic_ms()
        self._look_ms = now_ms
        self._retire_ms = now_ms
        self._seal_ms: int | None = now_ms if file.unsealed else None

    # -- seals --------------------------------------------------------------------------------

    def line_came(self, now_ms: int) -> bool:
        """True if something is due sooner than before."""
        if self._seal_ms is None:
            self._seal_ms = now_ms + SEAL_MS
            return True
        if self._file.unsealed >= LINES_PER_SEAL and self._seal_ms > now_ms:
            self._seal_ms = now_ms
            return True
        return False

    def seal(self) -> None:
        """OSError."""
        if self._file.unsealed:
            self._file.append_made(self._seal_of, sync=True)
        self._seal_ms = None

    def _seal_of(self, end: ChainEnd) -> AuditEvent:
        facts = seal_facts(self._secret, node=self._file.node_id, end=end)
        return AuditEvent(SEAL, "done", {}, facts)

    @property
    def next_deadline_ms(self) -> int | None:
        times = (self._seal_ms, self._look_ms, self._retire_ms)
        return min(each for each in times if each is not None)

    def tick(self, now_ms: int) -> list[int]:
        """Redactions that came since the last time. OSError; then it is tried again later."""
        fresh: list[int] = []
        if now_ms >= self._look_ms:
            self._look_ms = now_ms + _LOOK_MS
            fresh = self._look_for_redactions()
        if now_ms >= self._retire_ms:
            self._retire_ms = now_ms + _RETIRE_LOOK_MS
            self._retire()
        if self._seal_ms is not None and now_ms >= self._seal_ms:
            # Where the disk refuses, once more in a minute.
            self._seal_ms = now_ms + SEAL_MS
            self.seal()
        return fresh

    # -- old files ----------------------------------------------------------------------------

    def _retire(self) -> None:
        if self._retention_days is None:
            return
        before_ms = self._clock.now_ms() - self._retention_days * DAY_MS
        up_to = self.state.sent_seq if self.waits_for_topic else self._file.link.seq
        self._file.retire(before_ms, up_to_seq=up_to)

    # -- redactions ---------------------------------------------------------------------------

    def _look_for_redactions(self) -> list[int]:
        """Names those that the log does not name yet."""
        file = self._file
        size = noted_bytes(file.fs, file.directory)
        if size == self._noted_bytes:
            return []
        known, all_noted = self.state.redactions, noted(file.fs, file.directory)
        fresh = all_noted[known:]
        if fresh:
            facts = {"lines": fresh}
            # Crash here: they are named once more, which harms nobody.
            file.append(AuditEvent("audit.redact", "done", {}, facts), sync=True)
            self.keep(self.state._replace(redactions=len(all_noted)))
        self._noted_bytes = size
        return fresh

    def keep(self, state: AuditState) -> None:
        write_state(self._file.fs, self._file.directory, state)
        self.state = state
