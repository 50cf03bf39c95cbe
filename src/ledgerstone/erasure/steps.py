"""What can be done for an erasure: the closed list of steps that `life` chooses from. Grade P.

Each may be taken twice: what a step did before a crash is found by the facts, or does no harm.
"""

from typing import NamedTuple

from ledgerstone.dataclasses import dataclass
from ledgerstone.erasure.erasure import Erasure, Tombstone
from ledgerstone.erasure.facts import BlockingTxn


class Advance(NamedTuple):
    """A stage is reached: append the erasure to the journal, replay it, ask again."""

    erasure: Erasure


@dataclass(frozen=True, slots=True)
class Search:
    """Find the key in every partition of the topic; the answer is `Facts.search`."""


class WriteTombstones(NamedTuple):
    """Write them, synced; then the successor is `changes.tombstoned` with them and `present`.

    Where a write fails, `Facts.search` must be forgotten: the next search finds those that are in.
    """

    partitions: tuple[int, ...]
    present: tuple[Tombstone, ...]


class Ask(NamedTuple):
    """Have these partitions of the topic rolled and compacted now; `journal`: the journal too."""

    partitions: tuple[int, ...]
    journal: bool = False
    # With several brokers: which replicas of them, by partition and broker.
    replicas: tuple[tuple[int, int], ...] = ()


class AbortOpen(NamedTuple):
    """Abort these open transactions, by partition; the successor is `changes.aborting`, written
    down first."""

    txns: tuple[tuple[int, BlockingTxn], ...]


class WaitStep(NamedTuple):
    """Nothing can be done; `until_ms` is None where no clock will change that."""

    until_ms: int | None
    because: str


class ScanStep(NamedTuple):
    node_ids: tuple[int, ...]


class AskVerifiers(NamedTuple):
    """Have these give evidence; until all have, or the time is up, there is no receipt."""

    names: tuple[str, ...]
    until_ms: int | None = None  # None: no bound was set


@dataclass(frozen=True, slots=True)
class Issue:
    """Make the receipt; the successor is `changes.receipted` with it."""


@dataclass(frozen=True, slots=True)
class Nothing:
    """It is over."""


Step = (
    Advance
    | Search
    | WriteTombstones
    | Ask
    | AbortOpen
    | WaitStep
    | ScanStep
    | AskVerifiers
    | Issue
    | Nothing
)
