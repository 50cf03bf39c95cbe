"""All agents of a broker, and which of them hear of an effect's results. Grade D."""

from ledgerstone.server.agent import Agent, DiallingAgent
from ledgerstone.server.effects import (
    Analyse,
    AskVerifier,
    Clean,
    Dial,
    Effect,
    Flush,
    FollowUp,
    FreezeSnapshot,
    StartScan,
    SyncCopy,
    SyncMetadata,
    SyncSwap,
    Unlink,
    WriteSnapshot,
)


class Agents:
    """In the order in which they tick, and one table for results."""

    def __init__(
        self,
        *,
        groups: Agent,
        transactions: Agent,
        housekeeping: Agent,
        erasing: Agent,
        cleaning: Agent,
        anatomy: Agent,
    ) -> None:
        self.all: list[Agent] = [groups, transactions, housekeeping, erasing, cleaning, anatomy]
        # Agents that open connections, by the purpose that their `Dial` names.
        self.dialling: dict[str, DiallingAgent] = {}
        # By that purpose: those whose deadlines an answer may bring closer; not listed: any.
        self.concerned_by: dict[str, tuple[Agent, ...]] = {}
        # A result goes to each of these, in this order: the first one owns the effect.
        self._heard_by: dict[type[Effect], tuple[Agent, ...]] = {
            FollowUp: (transactions,),
            Flush: (housekeeping, cleaning),
            Unlink: (housekeeping, erasing),
            SyncSwap: (cleaning,),
            Clean: (cleaning, erasing),
            StartScan: (erasing,),
            AskVerifier: (erasing,),
            Analyse: (anatomy,),
        }

    def add(self, agent: Agent) -> None:
        """One that asks for no effects."""
        self.all.append(agent)

    def add_directories(self, agent: Agent) -> None:
        """The log directories: replicas move between them."""
        self.all.append(agent)
        self._heard_by[SyncCopy] = (agent,)

    def add_quorum(self, agent: Agent) -> None:
        """The metadata quorum: it ticks first, as everyone follows what it decides."""
        self.all.insert(0, agent)
        for kind in (SyncMetadata, FreezeSnapshot, WriteSnapshot):
            self._heard_by[kind] = (agent,)

    def add_dialling(self, purpose: str, agent: DiallingAgent) -> None:
        assert purpose not in self.dialling, purpose
        self.dialling[purpose] = agent
        self.all.append(agent)

    def replace(self, agent: Agent, other: Agent) -> None:
        """Another one is at work in its place from now on."""
        self.all[self.all.index(agent)] = other
        for kind, heard_by in self._heard_by.items():
            self._heard_by[kind] = tuple(other if each is agent else each for each in heard_by)

    def heard_by(self, effect: Effect) -> tuple[Agent, ...]:
        """The agents that hear what came of it."""
        if isinstance(effect, Dial):
            return (self.dialling[effect.purpose],)
        return self._heard_by[type(effect)]
