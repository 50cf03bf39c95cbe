"""What a broker asks the world to do. Grade D: a flush plan holds files.

The list is closed: the runtime matches every kind. Effects are performed in the order given.
Some of them take time and are performed off the loop. `Flush` is reported back through
`Broker.completed`, `Unlink` through `Broker.unlinked`, `SyncSwap` through `Broker.swap_synced`.
`Clean` goes to a worker: each group it writes is reported through `Broker.group_cleaned` and
answered by a `Proceed`, its end through `Broker.cleaning_ended`; that it is still at work through
`Broker.cleaning_goes_on`. `Scan` goes to another worker and ends in `Broker.scan_ended`,
`AskVerifier` in `Broker.verifier_spoke`, `Analyse` in `Broker.analysed`; while they are at work
their workers say so through `Broker.scan_goes_on` and `Broker.analysis_goes_on`.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from ledgerstone.cleaner.plan import CleaningPlan
from ledgerstone.erasure.scan_plan import ScanPlan
from ledgerstone.erasure.verifiers import Question
from ledgerstone.fs import Filesystem
from ledgerstone.protocol.pieces import Piece
from ledgerstone.state.anatomy_plan import AnatomyPlan
from ledgerstone.storage.deleted_files import UnlinkPlan
from ledgerstone.storage.log import FlushPlan
from ledgerstone.types import TopicPartition

ConnectionId = int


class Send(NamedTuple):
    """Bytes for a connection, after everything it was sent before."""

    connection: ConnectionId
    pieces: list[Piece]


@dataclass(frozen=True, slots=True)
class Close:
    """Close a connection once what it was sent has left, or without waiting for that.

    `kind` is the reason without what is different each time."""

    connection: ConnectionId
    reason: str
    at_once: bool = False
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Resume:
    """A connection may be read again that was not read for want of memory."""

    connection: ConnectionId


@dataclass(frozen=True, slots=True)
class Flush:
    """`topic_id` tells a partition from a later one of the same name."""

    topic_partition: TopicPartition
    topic_id: bytes
    plan: FlushPlan


@dataclass(frozen=True, slots=True)
class Unlink:
    """Files that were set aside long enough ago; to free a gigabyte takes most of a second."""

    plan: UnlinkPlan


@dataclass(frozen=True, slots=True)
class Clean:
    """A pass for a worker. `number` names it from here to its end."""

    number: int
    plan: CleaningPlan


@dataclass(frozen=True, slots=True)
class Proceed:
    """The owner has put a group in its place, or the pass is no longer wanted.

    Without `go_on` it may come at any time; the worker stops and drops what it has not reported."""

    number: int
    go_on: bool


@dataclass(frozen=True, slots=True)
class SyncSwap:
    """The names in a directory must become durable before a pass goes on and old files go.

    `number` is the pass; `replaced` are the files that were set aside."""

    number: int
    topic_partition: TopicPartition
    topic_id: bytes
    fs: Filesystem
    directory: str
    replaced: tuple[str, ...]

    def perform(self) -> None:
        self.fs.fsync_dir(self.directory)


class WorkerName(StrEnum):
    """As in "the scanning worker"."""

    CLEANING = "cleaning"
    SCANNING = "scanning"
    ANALYSING = "analysing"


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The worker of this job is to be killed; once it is dead the job has ended, failed."""

    number: int
    reason: str
    worker: WorkerName = WorkerName.CLEANING


@dataclass(frozen=True, slots=True)
class Scan:
    """A search or a scan for the scanning worker; its end is told to `Broker.scan_ended`."""

    number: int
    plan: ScanPlan


@dataclass(frozen=True, slots=True)
class AskVerifier:
    """A downstream verifier of this name is asked, outside of the loop; what it says, or why it
    says nothing, is told to `Broker.verifier_spoke`."""

    name: str
    question: Question


@dataclass(frozen=True, slots=True)
class Analyse:
    """A partition whose anatomy somebody looks at, for the analysing worker; what it finds, or why
    it finds nothing, is told to `Broker.analysed`. One at a time."""

    number: int
    plan: AnatomyPlan


Effect = (
    Send
    | Close
    | Resume
    | Flush
    | Unlink
    | Clean
    | Proceed
    | SyncSwap
    | GiveUp
    | Scan
    | AskVerifier
    | Analyse
)
