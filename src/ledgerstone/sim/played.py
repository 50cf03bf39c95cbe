"""What came of a run, for every simulator that plays seeds. Part of sim."""

from typing import Protocol

from ledgerstone.dataclasses import dataclass, field
from ledgerstone.sim.shrink import Shrinkable
from ledgerstone.sim.world import Violation


class Played(Shrinkable, Protocol):
    """A scenario of a simulator."""

    @property
    def seed(self) -> int: ...

    def text(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    scenario: Played
    violation: Violation | None
    digest: str
    steps: int
    virtual_ms: int
    elections: int
    committed: int
    acknowledged: int
    recovery_ms: int
    marks: dict[str, int] = field(default_factory=dict)
    trace: list[str] | None = None
