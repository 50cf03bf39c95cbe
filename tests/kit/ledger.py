"""What a log owes its writers, kept beside it as plain batches; what a crash may leave of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ledgerstone.records.batch import read_header


@dataclass(slots=True)
class Ledger:
    """`batches` is all that was ever handed to the log and not taken back, the last one perhaps
    never acknowledged. Below `acked` a killed process loses nothing, below `durable` not even
    power loss does."""

    batches: list[bytes] = field(default_factory=list)
    acked: int = 0
    durable: int = 0
    # Retention is running: this many leading batches may be gone.
    may_be_gone: int = 0
    # A swap is at work: the content is `batches`, or one of these.
    rewritten: list[list[bytes]] = field(default_factory=list)
    # Checkpointed: what lies below was deleted and stays so.
    log_start_offset: int = 0
    # The start was being moved: epochs below the new one are forgotten before the records are.
    start_moves: bool = False

    def copy(self) -> "Ledger":
        return replace(self, batches=list(self.batches), rewritten=list(self.rewritten))

    @property
    def end_offset(self) -> int:
        return read_header(self.batches[-1]).next_offset if self.batches else 0

    def cut(self, offset: int) -> None:
        """Batches that hold or follow `offset` are taken back."""
        self.batches = [batch for batch in self.batches if read_header(batch).last_offset < offset]

    def allow_cut(self, offset: int) -> None:
        self.acked = min(self.acked, offset)
        self.durable = min(self.durable, offset)

    def verify(self, content: Sequence[bytes], *, power_lost: bool) -> None:
        """The content is a run of the batches that reaches as far as was promised."""
        promised = self.durable if power_lost else self.acked
        versions = [self.batches, *self.rewritten]
        faults = [self._fault(version, list(content), promised) for version in versions]
        assert None in faults, "; ".join(str(fault) for fault in faults)

    def _fault(self, version: list[bytes], content: list[bytes], promised: int) -> str | None:
        first = version.index(content[0]) if content and content[0] in version else 0
        if first > self.may_be_gone:
            return f"{first} batches are gone at the start"
        if content != version[first : first + len(content)]:
            return f"{_offsets(content)} are not in a row in {_offsets(version)}"
        missing = version[first + len(content) :] if content else version[self.may_be_gone :]
        lost = [batch for batch in missing if read_header(batch).base_offset < promised]
        return f"{_offsets(lost)} are lost, promised up to {promised}" if lost else None


def _offsets(batches: Sequence[bytes]) -> list[int]:
    return [read_header(batch).base_offset for batch in batches]
