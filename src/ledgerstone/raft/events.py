"""What goes into a replica and what comes out. Pure.

In: `step(now, event)`. Out: `ready()`, a value whose fields say what must happen, in which order.
"""

from typing import NamedTuple

from ledgerstone.raft import messages
from ledgerstone.raft.hard_state import HardState
from ledgerstone.raft.replica import OffsetAndEpoch, Peer


class Now(NamedTuple):
    """Monotonic time decides; wall time is written into records."""

    monotonic_ms: int
    wall_ms: int


# -- in -------------------------------------------------------------------------------------------


class Asked(NamedTuple):
    """A request came; its `Reply` carries the token."""

    token: int
    request: messages.Request


class Answered(NamedTuple):
    peer_id: int
    correlation: int
    answer: messages.Answer


class Failed(NamedTuple):
    """No answer will come: the connection broke, or the peer does not know the request."""

    peer_id: int
    correlation: int
    is_unsupported: bool = False


class LogSynced(NamedTuple):
    """The sync that this `LogSync` asked for is done."""

    sync: "LogSync"


class SnapshotFetched(NamedTuple):
    """The part that `Ready.freeze` named is durable under its final name."""

    snapshot_id: OffsetAndEpoch


class SnapshotRefused(NamedTuple):
    """What was fetched is no whole snapshot."""

    snapshot_id: OffsetAndEpoch


class Applied(NamedTuple):
    """The state machine has consumed everything below this offset."""

    end_offset: int


class Resign(NamedTuple):
    """Leave the leadership of this epoch; ignored in any other."""

    epoch: int


class Stop:
    """A graceful stop: hand leadership over, then `is_stopped`."""

    __slots__ = ()


Event = (
    Asked
    | Answered
    | Failed
    | LogSynced
    | SnapshotFetched
    | SnapshotRefused
    | Applied
    | Resign
    | Stop
)


# -- out ------------------------------------------------------------------------------------------


class LogSync(NamedTuple):
    """Syncs the log up to here. `truncations` tells a report apart that is about bytes which were
    truncated and written again meanwhile."""

    end_offset: int
    truncations: int


class Send(NamedTuple):
    peer: Peer
    correlation: int
    request: messages.Request


class Reply(NamedTuple):
    token: int
    answer: messages.Answer


class Leadership(NamedTuple):
    """`is_me` only after the state machine has consumed everything of the epochs before."""

    epoch: int
    leader_id: int | None
    is_me: bool


class Ready(NamedTuple):
    # 1. Durable, with its directory, before anything below happens, and before any later Ready.
    hard_state: HardState | None
    # 2. Then these may leave. They wait for no sync of the log: what depends on one is only
    #    made after LogSynced.
    messages: tuple[Send | Reply, ...]
    # 3. Off the loop; report LogSynced. The next one comes after the report.
    sync: LogSync | None
    # 4. Off the loop: sync the fetched part, rename it, sync the directory; report SnapshotFetched.
    #    One that is not whole: report SnapshotRefused.
    freeze: OffsetAndEpoch | None
    # 5. The state machine starts over from this snapshot.
    load: OffsetAndEpoch | None
    # 6. Everything below is committed; the state machine reads it from the log.
    high_watermark: int | None
    leadership: Leadership | None


class SnapshotPlan(NamedTuple):
    """An own snapshot: `head`, the state machine's batches from `first_offset` on, then a foot."""

    snapshot_id: OffsetAndEpoch
    head: bytes
    first_offset: int
