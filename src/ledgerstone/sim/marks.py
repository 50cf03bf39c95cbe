"""Things that must happen sometimes: over two hundred seeds each is hit, or a fault has gone dull.

`World.mark` counts them. A checker that never meets its case proves nothing, and nobody would see.
"""

from ledgerstone.sim.crash_points import POINTS

_MIXED = (
    "a cleaning worker was killed",
    "a connection was attempted twice",
    "a crash while the broker stops",
    "a disk was full",
    "a group rebalanced after a restart",
    "a node lost power while it was down",
    "a pass was interrupted by a crash",
    "a producer was forgotten",
    "a receipt after a restart",
    "a receipt was issued",
    "a retried batch was acknowledged",
    "a retry was answered as a duplicate",
    "a scan was interrupted by a crash",
    "a start was interrupted by a crash",
    "a tombstone was dropped in time",
    "a torn tail was cut",
    "a wall clock jumped",
    "power loss took an unsynced record",
)
_TRANSACTIONS = (
    *POINTS,
    "a cleaning worker was killed",
    "a committed tombstone was dropped in time",
    "a disk was full",
    "a retried batch of a transaction was taken",
    "a start was interrupted by a crash",
    "a torn tail was cut",
    "a transaction timed out",
    "a transaction went on over a restart",
    "a transactional id expired",
    "a worker became a zombie",
    "a worker stood still",
    "a worker waited for a transaction before it",
    "a zombie was fenced",
    "offsets of an earlier generation were refused",
)
EXPECTED = {"mixed": _MIXED, "transactions": _TRANSACTIONS}


def missing(counts: dict[str, int], profile: str) -> list[str]:
    return [name for name in EXPECTED[profile] if not counts.get(name)]
