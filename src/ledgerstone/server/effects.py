"""What a broker asks the world to do. Grade D: a plan may name open files.

The contract:

1. **Effects are data.** They hold no callables. `performer` has the one place that tells the kinds
   apart, and everyone who performs effects goes through it.
2. **The order in the list is the order in the world.** Each effect begins after the one before it
   has begun. Sends that stand side by side leave together, each connection's in their order.
   What takes long begins in its place and goes on while later effects begin.
3. **What must be durable before it is said is a `PersistThen`.** Its Sends leave after the sync has
   succeeded, and never if it has failed. A Send that merely stands behind a `Flush` waits for
   nothing.
4. **One way back.** Whoever performs an effect says what came of it through
   `Broker.completed(effect, result)`. `results` has the results of each kind, and which one is the
   last. Effects with a last result get exactly one, unless the process ends before.
   `Send`, `Close`, `Resume`, `Proceed`, `GiveUp`, `Hangup` and `Halt` have no result. Bytes, and
   the end of a connection, are events of the connection and come through calls of their own.
"""

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from ledgerstone.cleaner.plan import CleaningPlan
from ledgerstone.dataclasses import dataclass
from ledgerstone.protocol.pieces import Piece
from ledgerstone.raft.events import LogSync
from ledgerstone.raft.replica import OffsetAndEpoch
from ledgerstone.server.quorum.snapshot_writing import SnapshotWork
from ledgerstone.state.anatomy_plan import AnatomyPlan
from ledgerstone.storage.deleted_files import UnlinkPlan
from ledgerstone.storage.log import FlushPlan
from ledgerstone.storage.sync_plan import DirectoryAt, NewFile, Syncable
from ledgerstone.types import TopicPartition

if TYPE_CHECKING:
    # Only whoever erases or searches needs more of them.
    from ledgerstone.erasure.scan_plan import ScanPlan
    from ledgerstone.erasure.verifiers import VerifierQuestion

# Of accepted and of dialled connections alike; never used twice.
ConnectionId = int


class Send(NamedTuple):
    """Bytes for a connection, after everything it was sent before."""

    connection: ConnectionId
    pieces: list[Piece]


@dataclass(frozen=True, slots=True)
class Close:
    """Close an accepted connection once everything sent to it has left, or without waiting.

    `kind` is the reason without the parts that differ each time."""

    connection: ConnectionId
    reason: str
    at_once: bool = False
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Resume:
    """Read and serve a connection again. Reading was paused: out of memory, or muted."""

    connection: ConnectionId


@dataclass(frozen=True, slots=True)
class FollowUp:
    """Come back for what the answers before it need not wait for: requests that wait for what was
    appended, and markers. It ends in `Done` at once, before anybody else's turn."""


@dataclass(frozen=True, slots=True)
class Dial:
    """Open a connection to another node. Ends in `Dialled` or `DialFailed`.

    `purpose` names the agent that asked: results, bytes and the end of the connection go to it.
    `listener` is the name of the other side's, which says how to speak there; empty: plainly."""

    node: int
    host: str
    port: int
    purpose: str
    timeout_ms: int = 10_000
    listener: str = ""


@dataclass(frozen=True, slots=True)
class Hangup:
    """Close a dialled connection at once. Nothing more is heard of it, not even its end."""

    connection: ConnectionId


@dataclass(frozen=True, slots=True)
class Flush:
    """Sync the files of a log. `topic_id` tells a partition from a later one of the same name."""

    topic_partition: TopicPartition
    topic_id: bytes
    plan: FlushPlan

    @property
    def syncs(self) -> tuple[Syncable, ...]:
        return self.plan.syncs


@dataclass(frozen=True, slots=True)
class SyncSwap:
    """Sync the names in a directory, before a pass goes on and old files go.

    `number` is the pass; `replaced` are the files that were set aside."""

    number: int
    topic_partition: TopicPartition
    topic_id: bytes
    directory: str
    replaced: tuple[str, ...]

    @property
    def syncs(self) -> tuple[Syncable, ...]:
        return (DirectoryAt(self.directory),)


@dataclass(frozen=True, slots=True)
class SyncMetadata:
    """Sync the metadata log, as the quorum asked for it: `sync` says up to where."""

    sync: LogSync
    plan: FlushPlan

    @property
    def syncs(self) -> tuple[Syncable, ...]:
        return self.plan.syncs


@dataclass(frozen=True, slots=True)
class FreezeSnapshot:
    """Give a fetched snapshot of the metadata its name, once it is whole and synced."""

    snapshot_id: OffsetAndEpoch
    file: NewFile

    @property
    def syncs(self) -> tuple[Syncable, ...]:
        return (self.file,)


@dataclass(frozen=True, slots=True)
class SyncCopy:
    """Sync files that were copied to another log directory, where a replica moves to."""

    topic_partition: TopicPartition
    topic_id: bytes
    syncs: tuple[Syncable, ...]


# Effects that make something durable; each ends in `Done` or `Failed`.
Persist = Flush | SyncSwap | SyncMetadata | FreezeSnapshot | SyncCopy


@dataclass(frozen=True, slots=True)
class PersistThen:
    """Persist, then send: what `then` says is true only once `persist` is durable.

    `persist` ends as if it had been asked for alone. After `Done` come the Sends, then the effects
    that `completed` returned. After `Failed` the Sends are dropped: whoever gets the result closes
    the connections or answers otherwise. Later Sends to these connections are not held back, so
    their requests must still be in work."""

    persist: Persist
    then: tuple[Send, ...]


@dataclass(frozen=True, slots=True)
class Unlink:
    """Unlink files that were set aside long enough ago. A gigabyte takes most of a second."""

    plan: UnlinkPlan


@dataclass(frozen=True, slots=True)
class Clean:
    """A pass for a worker. `number` names it from here to its end."""

    number: int
    plan: CleaningPlan


@dataclass(frozen=True, slots=True)
class Proceed:
    """The owner has put a group in its place, or no longer wants the pass.

    Without `go_on` it may come at any time; the worker stops and drops what it has not reported."""

    number: int
    go_on: bool


class WorkerName(StrEnum):
    """As in "the scanning worker"."""

    CLEANING = "cleaning"
    SCANNING = "scanning"
    ANALYSING = "analysing"


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Kill the worker of this job. Once it is dead, the job has ended, failed."""

    number: int
    reason: str
    worker: WorkerName = WorkerName.CLEANING


@dataclass(frozen=True, slots=True)
class StartScan:
    """A search or a scan for the scanning worker."""

    number: int
    plan: "ScanPlan"


@dataclass(frozen=True, slots=True)
class AskVerifier:
    """Ask the downstream verifier of this name, off the loop."""

    name: str
    question: "VerifierQuestion"


@dataclass(frozen=True, slots=True)
class Analyse:
    """A partition for the analysing worker, while a page shows it. One at a time."""

    number: int
    plan: AnatomyPlan


@dataclass(frozen=True, slots=True)
class WriteSnapshot:
    """Write a snapshot of the metadata. It takes long, so it runs in a thread."""

    work: SnapshotWork


@dataclass(frozen=True, slots=True)
class Halt:
    """End the process at once: whatever it would do next could be a lie. As in Kafka, where a
    controller or the directory of the metadata log has failed."""

    reason: str


Effect = (
    Send
    | Close
    | Resume
    | FollowUp
    | Dial
    | Hangup
    | Flush
    | SyncSwap
    | SyncMetadata
    | FreezeSnapshot
    | SyncCopy
    | WriteSnapshot
    | Halt
    | PersistThen
    | Unlink
    | Clean
    | Proceed
    | GiveUp
    | StartScan
    | AskVerifier
    | Analyse
)
