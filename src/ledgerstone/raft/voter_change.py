"""A change of the voter set that a leader has accepted and not yet answered. Pure."""

from ledgerstone.dataclasses import dataclass
from ledgerstone.raft.voters import Voter


@dataclass(slots=True, kw_only=True)
class VoterChange:
    """At most one at a time. `record_offset` is None until its VotersRecord is appended."""

    token: int
    deadline_ms: int
    record_offset: int | None = None
    # AddVoter: asked for its versions first; `correlation` is that request's.
    voter: Voter | None = None
    correlation: int | None = None
    waits_for_commit: bool = True
