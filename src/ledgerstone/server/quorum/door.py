"""Between the metadata quorum and what stands on it: two protocols. Pure.

The quorum keeps a replicated log of batches. The state machine on top of it consumes what is
committed and, while this node leads, proposes more. Neither knows how the other is built: the
broker puts `raft` over disk and sockets behind the first, simulations put it over memory.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from ledgerstone.protocol.message import MetadataRecord
from ledgerstone.raft.events import Leadership
from ledgerstone.raft.replica import OffsetAndEpoch, Peer
from ledgerstone.records.builder import RecordParts


class CommittedBatch(NamedTuple):
    """A batch below the high watermark. Batches come in order, without gaps."""

    base_offset: int
    next_offset: int
    epoch: int
    timestamp: int
    size: int
    # Decodes when called: the leader knows what it has proposed. Empty for a control batch.
    records: Callable[[], list[MetadataRecord]]


class MetadataQuorum(Protocol):
    """What the state machine asks of the quorum."""

    @property
    def epoch(self) -> int: ...

    @property
    def leader_id(self) -> int | None:
        """As far as this node knows."""
        ...

    @property
    def leader(self) -> Peer | None:
        """Where the leader takes requests: its first controller listener. None: not known."""
        ...

    @property
    def end_offset(self) -> int:
        """Where the first record of the next proposal will be."""
        ...

    @property
    def high_watermark(self) -> int: ...

    def propose(self, epoch: int, records: Sequence[RecordParts]) -> int:
        """Appends one batch and returns the offset after it. NotController unless this node leads
        `epoch`. Commits nothing: that is for `advance`, or for a later turn."""
        ...

    def advance(self) -> None:
        """Does what the replica has decided. A sole voter syncs and commits here, and the state
        machine hears of it before this returns. Called from inside the state machine, it does
        nothing: the call around it goes on until nothing is left to do."""
        ...

    def resign(self, epoch: int) -> None:
        """Leaves the leadership of `epoch`; nothing if another one is led."""
        ...


class MetadataStateMachine(Protocol):
    """What the quorum tells, in the order in which it became true."""

    def load(self, snapshot_id: OffsetAndEpoch, records: Iterator[MetadataRecord]) -> None:
        """Starts over from a snapshot."""
        ...

    def committed(self, batch: CommittedBatch) -> None: ...

    def leadership(self, leadership: Leadership) -> None:
        """`is_me` only after everything of the epochs before was committed here."""
        ...

    def snapshot(self) -> Iterable[MetadataRecord] | None:
        """The records of a snapshot of everything consumed so far. Their source does not change,
        so another thread may iterate. None inside a metadata transaction."""
        ...
