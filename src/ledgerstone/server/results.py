"""What came of an effect: the values of `Broker.completed(effect, result)`. Grade D,
through the plans they answer.

| effect | results | last |
|---|---|---|
| `FollowUp` | | `Done` |
| `Flush`, `SyncSwap`, also inside `PersistThen` | | `Done`, `Failed` |
| `SyncMetadata`, `FreezeSnapshot`, `WriteSnapshot` | | `Done`, `Failed` |
| `Unlink` | | `Unlinked` |
| `Clean` | `StillAtWork`, `GroupCleaned` | `PassReport`, `PassFailed` |
| `StartScan` | `StillAtWork` | `SearchReport`, `ScanReport`, `ScanFailed` |
| `AskVerifier` | | `VerifierSaid`, `VerifierFailed` |
| `Analyse` | `StillAtWork` | `AnatomyReport`, `AnalysisFailed` |
| `Dial` | | `Dialled`, `DialFailed` |
"""

from typing import TYPE_CHECKING, Final, NamedTuple, Union

from ledgerstone.cleaner.plan import CleanedGroup, PassReport
from ledgerstone.server.cleaning.parts import PassFailed
from ledgerstone.state.anatomy_plan import AnatomyReport
from ledgerstone.storage.deleted_files import Unlinked

if TYPE_CHECKING:
    from ledgerstone.erasure.verifiers import Word
    from ledgerstone.server.erasing.scans import ScanResult


class Done(NamedTuple):
    """It is durable; of a `FollowUp`, its time has come."""


class Failed(NamedTuple):
    """It may or may not be durable."""

    error: OSError


class StillAtWork(NamedTuple):
    """A worker shows that it is alive."""


class GroupCleaned(NamedTuple):
    """A worker has written a `.cleaned` segment and waits for a `Proceed`."""

    group: CleanedGroup


class VerifierSaid(NamedTuple):
    words: "tuple[Word, ...]"


class VerifierFailed(NamedTuple):
    reason: str


class AnalysisFailed(NamedTuple):
    reason: str
    worker_died: bool = False


class Dialled(NamedTuple):
    """The connection is open; sends to it and hangs up on it by this number."""

    connection: int


class DialFailed(NamedTuple):
    reason: str


Result = Union[
    Done,
    Failed,
    Unlinked,
    StillAtWork,
    GroupCleaned,
    PassReport,
    PassFailed,
    "ScanResult",
    VerifierSaid,
    VerifierFailed,
    AnatomyReport,
    AnalysisFailed,
    Dialled,
    DialFailed,
]

_MORE_TO_COME: Final = (StillAtWork, GroupCleaned)


def is_last(result: Result) -> bool:
    """Whether the effect has ended."""
    return not isinstance(result, _MORE_TO_COME)
