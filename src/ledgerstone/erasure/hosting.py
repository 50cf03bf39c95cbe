"""Which disks have to be shown free of a key, and which of them nobody has scanned. Grade P.

A key may lie on every disk that was part of the cluster since the search began: on those of brokers
that host its partition, on those of brokers that it was reassigned away from, and on disks that
were taken out since. Each is scanned where it is, or an operator says that it never will be, and
the receipt names its broker. A broker that joins after the scans copies only what was scanned.
"""

from collections.abc import Iterable, Sequence

from ledgerstone.erasure.erasure import HostDisk, LostBroker, ReplicaScan
from ledgerstone.erasure.facts import PartitionFacts


def unproven_disks(
    hosts: Iterable[HostDisk], scans: Iterable[ReplicaScan], lost: Iterable[LostBroker]
) -> list[str]:
    """In words, one for each broker; empty where every disk is scanned or named."""
    given_up = {each.broker_id for each in lost}
    scanned = {
        HostDisk(scan.node_id, disk)
        for scan in scans
        if scan.proof is not None
        for disk in scan.proof.directory_ids
    }
    missing: dict[int, list[str]] = {}
    for each in hosts:
        if each not in scanned and each.broker_id not in given_up:
            missing.setdefault(each.broker_id, []).append(each.directory_id)
    return [
        f"broker {broker_id} had log directory {', '.join(disks)} since the search, and no scan "
        f"has seen it there; `ledgerstone erasures accept --broker {broker_id}` if it is destroyed"
        for broker_id, disks in sorted(missing.items())
    ]


def why_not_given_up(
    broker_id: int,
    *,
    hosts: Iterable[HostDisk],
    standing: Iterable[HostDisk],
    alive: Iterable[int],
) -> str | None:
    """Whether an operator may say that a broker's disk is destroyed; `standing` are the disks that
    are registered now. A broker that came back with another disk is alive, and the one it had is
    not there to be scanned; the new one is."""
    known, now = {*hosts}, {*standing}
    if broker_id not in {each.broker_id for each in known | now}:
        return f"broker {broker_id} was never part of this cluster"
    has_lost_one = any(each.broker_id == broker_id for each in known - now)
    if broker_id in {*alive} and not has_lost_one:
        return f"broker {broker_id} is alive, and is scanned"
    return None


def must_scan(
    hosts: Iterable[HostDisk], registered: Iterable[int], alive: Iterable[int], lost: Iterable[int]
) -> tuple[int, ...]:
    """Brokers that owe a scan: all that are registered or have had a disk in the cluster since the
    search. One that an operator gave up owes one all the same once it is alive."""
    living = {*alive}
    known = {each.broker_id for each in hosts} | {*registered}
    return tuple(sorted(each for each in known if each in living or each not in {*lost}))


def unknown_replica(node_id: int | None, why: str) -> PartitionFacts:
    """Of a broker that did not say how far its replica is, or of a partition that is offline on the
    only one: nothing has happened there."""
    return PartitionFacts(
        log_start_offset=0,
        first_dirty_offset=0,
        tombstone_is_there=True,
        waits_for=why,
        leftovers_since_ms=0,
        node_id=node_id,
        is_unknown=True,
    )


def awaited_replicas(
    replicas: Sequence[int], lost: Iterable[int], alive: Iterable[int]
) -> list[int]:
    """Of a partition: those whose word counts for a stage."""
    return [each for each in replicas if each in {*alive} or each not in {*lost}]
