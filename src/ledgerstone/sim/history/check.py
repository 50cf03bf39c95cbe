"""The checker: every anomaly of a history, in the manner of Jepsen's tests of Kafka. Pure."""

from collections.abc import Callable, Iterator
from typing import Final

from ledgerstone.sim.history.facts import Anomaly, HistoryFacts
from ledgerstone.sim.history.groups import stale_group_offsets
from ledgerstone.sim.history.keys import key_anomalies
from ledgerstone.sim.history.operations import ClientHistory
from ledgerstone.sim.history.polls import nonmonotonic_polls, skipped_offsets
from ledgerstone.sim.history.writes import (
    aborted_reads,
    duplicates,
    inconsistent_offsets,
    lost_writes,
    reordered_writes,
    reused_ids,
    torn_transactions,
)

_CHECKS: Final[tuple[Callable[[HistoryFacts], Iterator[Anomaly]], ...]] = (
    reused_ids,
    inconsistent_offsets,
    duplicates,
    aborted_reads,
    lost_writes,
    torn_transactions,
    reordered_writes,
    nonmonotonic_polls,
    skipped_offsets,
    stale_group_offsets,
    key_anomalies,
)


def check(history: ClientHistory) -> list[Anomaly]:
    """Empty for a history that a correct cluster can have made."""
    facts = HistoryFacts(history)
    return [anomaly for each in _CHECKS for anomaly in each(facts)]
