"""One scenario against one consumer: the value of the kit's fixture. Shell."""

from collections.abc import Mapping
from typing import Final

from ledgerstone.testing.broker import LedgerstoneBroker
from ledgerstone.testing.conformance.driving import (
    CalledConsumer,
    ConsumerFailed,
    Driver,
    StartedConsumer,
)
from ledgerstone.testing.conformance.scenarios import SCENARIOS, partitions_of
from ledgerstone.testing.conformance.stage import NotConforming, ScenarioOptions, ScenarioStage
from ledgerstone.testing.conformance.task import Consume, Start

TIMEOUT_S: Final = 20.0


class ScenarioCheck:
    def __init__(self, cluster: LedgerstoneBroker, name: str) -> None:
        self.cluster = cluster
        self.name = name

    @property
    def rule(self) -> str:
        """The rule that the scenario checks, in a sentence."""
        return SCENARIOS[self.name].__doc__ or self.name

    def skip_if(self, reasons: Mapping[str, str]) -> None:
        """Skips the test if `reasons` has an entry for the scenario."""
        import pytest

        unknown = [each for each in reasons if each not in SCENARIOS]
        if unknown:
            raise pytest.UsageError(
                f"no scenario is called {', '.join(unknown)}; there are {', '.join(SCENARIOS)}"
            )
        if self.name in reasons:
            pytest.skip(f"{self.name}: {reasons[self.name]}")

    def check(
        self,
        consume: Consume | None = None,
        *,
        start: Start | None = None,
        options: ScenarioOptions | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """Runs the scenario with a function that reads to the end, or with `start`."""
        __tracebackhide__ = True
        if (consume is None) == (start is None):
            raise TypeError("check() takes a function that consumes, or start=, not both")
        driver: Driver
        if consume is not None:
            driver = CalledConsumer(consume, timeout_s)
        else:
            assert start is not None
            driver = StartedConsumer(start, timeout_s)
        stage = ScenarioStage(self.cluster, driver, options or ScenarioOptions())
        stage.open_topic(self.name, partitions=partitions_of(self.name))
        try:
            SCENARIOS[self.name](stage)
        except (NotConforming, ConsumerFailed) as error:
            message = f"{self.name}: {self.rule}\n{error}"
            raise type(error)(message) from error.__cause__
        finally:
            driver.stop()
