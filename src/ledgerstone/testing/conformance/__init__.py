"""The tombstone conformance kit: does your consumer do what deletes ask of it?

Scenarios are in `scenarios`, what a consumer is told in `task`, its use is in docs/testing.md.
"""

from ledgerstone.testing.conformance.kit import TombstoneConformance
from ledgerstone.testing.conformance.task import ConsumerTask, RunningConsumer

__all__ = ["ConsumerTask", "RunningConsumer", "TombstoneConformance"]
