"""Things that must happen sometimes: over two hundred seeds each is hit, or a fault has gone dull.

`World.mark` counts them. A checker that never meets its case proves nothing, and nobody would see.
"""

EXPECTED = (
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


def missing(counts: dict[str, int]) -> list[str]:
    return [name for name in EXPECTED if not counts.get(name)]
