"""All agents of a broker, and which of them hear of an effect's results. Grade D.

Erasing still takes the broker in each call, behind an adapter; this goes when its agent is built
with the narrow things that it needs.
"""

from typing import TYPE_CHECKING

from ledgerstone.erasure.scan_plan import ScanReport, SearchReport
from ledgerstone.metadata.delta import Delta
from ledgerstone.server.agent import Agent, DiallingAgent
from ledgerstone.server.effects import (
    Analyse,
    AskVerifier,
    Clean,
    Dial,
    Effect,
    Flush,
    Scan,
    SyncSwap,
    Unlink,
)
from ledgerstone.server.erasing.scans import ScanFailed
from ledgerstone.server.erasing.steps import verifier_spoke
from ledgerstone.server.results import (
    Result,
    StillAtWork,
    VerifierFailed,
    VerifierSaid,
    is_last,
)

if TYPE_CHECKING:
    from ledgerstone.server.broker import Broker


class _WithBroker:
    def __init__(self, broker: "Broker") -> None:
        self._broker = broker

    def completed(self, effect: Effect, result: Result) -> list[Effect]:
        raise AssertionError(f"{type(self).__name__} asked for no {type(effect).__name__}")

    def metadata_changed(self, delta: Delta) -> list[Effect]:
        return []


class ErasingAgent(_WithBroker):
    @property
    def next_deadline_ms(self) -> int | None:
        return self._broker.erasing.next_deadline_ms

    def tick(self) -> list[Effect]:
        return list(self._broker.erasing.tick(self._broker))

    def completed(self, effect: Effect, result: Result) -> list[Effect]:
        broker, erasing = self._broker, self._broker.erasing
        match effect, result:
            case Scan(number), StillAtWork():
                erasing.scan_goes_on(broker, number)
            case Scan(number), SearchReport() | ScanReport() | ScanFailed():
                erasing.scans.ended(number, result)
            case AskVerifier(), VerifierSaid(said) | VerifierFailed(said):
                verifier_spoke(erasing, broker, effect, said)
            case ((Clean() | Unlink()), _):
                if is_last(result):
                    erasing.something_happened()
            case _:
                super().completed(effect, result)
        return []

    def metadata_changed(self, delta: Delta) -> list[Effect]:
        self._broker.erasing.metadata_changed(self._broker, delta)
        return []


class Agents:
    """In the order in which they tick, and one table for results."""

    def __init__(self, broker: "Broker") -> None:
        groups, keeper = broker.groups, broker.housekeeping
        erasing, cleaning = ErasingAgent(broker), broker.cleaning
        anatomy = broker.anatomy
        self.all: list[Agent] = [groups, keeper, erasing, cleaning, anatomy]
        # Agents that open connections, by the purpose that their `Dial` names.
        self.dialling: dict[str, DiallingAgent] = {}
        # A result goes to each of these, in this order: the first one owns the effect.
        self._heard_by: dict[type[Effect], tuple[Agent, ...]] = {
            Flush: (keeper, cleaning),
            Unlink: (keeper, erasing),
            SyncSwap: (cleaning,),
            Clean: (cleaning, erasing),
            Scan: (erasing,),
            AskVerifier: (erasing,),
            Analyse: (anatomy,),
        }

    def add_dialling(self, purpose: str, agent: DiallingAgent) -> None:
        assert purpose not in self.dialling, purpose
        self.dialling[purpose] = agent
        self.all.append(agent)

    def heard_by(self, effect: Effect) -> tuple[Agent, ...]:
        """The agents that hear what came of it."""
        if isinstance(effect, Dial):
            return (self.dialling[effect.purpose],)
        return self._heard_by[type(effect)]
