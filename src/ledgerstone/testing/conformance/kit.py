"""The base class of a conformance test. Shell.

A subclass whose name begins with Test runs every scenario against its consumer.
"""

from collections.abc import Awaitable, Mapping, Sequence
from types import MappingProxyType
from typing import ClassVar

from ledgerstone.testing.conformance.check import TIMEOUT_S, ScenarioCheck
from ledgerstone.testing.conformance.stage import CODECS, ScenarioOptions
from ledgerstone.testing.conformance.task import ConsumerTask, RunningConsumer, State


class TombstoneConformance:
    """Override `consume` or `start`, and anything else that differs.

    class TestMyConsumer(TombstoneConformance):
        def consume(self, task):
            return my_consumer.read_all(task.bootstrap, task.topic, task.end_offsets)
    """

    # Scenarios that do not apply to this consumer, each with the reason.
    not_applicable: ClassVar[Mapping[str, str]] = MappingProxyType({})
    # Codecs it can decompress.
    codecs: ClassVar[Sequence[str]] = CODECS
    # How long one run may take.
    timeout_s: ClassVar[float] = TIMEOUT_S

    def consume(self, task: ConsumerTask) -> State | Awaitable[State]:
        """Reads the topic up to `task.end_offsets` and returns its state; may be `async`."""
        raise NotImplementedError(f"{type(self).__name__} has neither consume() nor start()")

    def start(self, task: ConsumerTask) -> RunningConsumer:
        """Starts a consumer that runs until it is stopped; instead of `consume`."""
        raise NotImplementedError(f"{type(self).__name__} has neither consume() nor start()")

    def make_key(self, name: str) -> bytes:
        """For a consumer that needs keys of a certain form."""
        return name.encode()

    def make_value(self, text: str) -> bytes:
        """For a consumer that decodes values, such as JSON; its state must have the same bytes."""
        return text.encode()

    def test_tombstones(self, tombstone_scenario: ScenarioCheck) -> None:
        __tracebackhide__ = True
        tombstone_scenario.skip_if(self.not_applicable)
        is_started = type(self).start is not TombstoneConformance.start
        options = ScenarioOptions(
            make_key=self.make_key, make_value=self.make_value, codecs=self.codecs
        )
        tombstone_scenario.check(
            None if is_started else self.consume,
            start=self.start if is_started else None,
            options=options,
            timeout_s=self.timeout_s,
        )
