"""The tombstone conformance kit: does your consumer handle deletes correctly?

Scenarios are in `scenarios`, a consumer's input is in `task`, usage is in docs/testing.md.
"""

from ledgerstone.testing.conformance.kit import TombstoneConformance
from ledgerstone.testing.conformance.task import ConsumerTask, RunningConsumer

__all__ = ["ConsumerTask", "RunningConsumer", "TombstoneConformance"]
