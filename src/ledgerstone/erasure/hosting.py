"""Which brokers have to prove that a key is gone, and what their proofs are worth. Grade P.

A key may lie on every broker that has hosted its partition since the search began: on those that
are assigned, and on those that were reassigned away, whose directories may still be there. Each
proves it by a scan of its own. A broker that joins after the scans copies only scanned records, so
the proof of its source covers it.

What a transport has to carry, from each hosting broker to the coordinator of the erasure:
a `TombstoneProgress` whenever it changes, and a `ReplicaProof` for each scan it was asked for.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ledgerstone.dataclasses import dataclass, field


class Incarnation(NamedTuple):
    """One life of a broker, and the disk it had: another one may come under the same id."""

    broker_id: int
    incarnation_id: bytes
    broker_epoch: int
    directory_id: bytes


class Assignment(NamedTuple):
    """Who hosts a partition from a partition epoch on."""

    partition_epoch: int
    replicas: tuple[int, ...]


class TombstoneProgress(NamedTuple):
    """How far one assigned replica is with one tombstone."""

    broker_id: int
    high_watermark: int
    clean_to: int
    is_removed: bool  # its ledger or a scan says that the tombstone is gone


class ReplicaProof(NamedTuple):
    """A scan of every file of the partition on one broker. Signed by the broker that made it."""

    by: Incarnation
    partition_epoch: int  # as the broker knew it when the scan began
    log_start_offset: int
    log_end_offset: int
    scanned_ms: int
    hits: int
    digest: str  # of the list of files


class ProofStanding(NamedTuple):
    """Of one partition of an erasure with several replicas."""

    is_committed: bool
    is_stamped: bool
    is_removed: bool
    is_verified: bool
    # Brokers that hold the receipt back, and why.
    missing: tuple[tuple[int, str], ...] = ()
    # Brokers that the operator has declared destroyed; the receipt names them.
    exceptions: tuple[int, ...] = ()


@dataclass(slots=True, kw_only=True)
class Hosting:
    """The assignments of one partition since the search began, oldest first."""

    assignments: list[Assignment] = field(default_factory=list)

    def assigned(self, assignment: Assignment) -> None:
        """From the metadata; the same news may come twice, as after a failover."""
        known = self.assignments
        if known and assignment.partition_epoch <= known[-1].partition_epoch:
            return
        if not known or known[-1].replicas != assignment.replicas:
            known.append(assignment)

    @property
    def current(self) -> tuple[int, ...]:
        return self.assignments[-1].replicas if self.assignments else ()

    def hosts(self) -> dict[int, int]:
        """Every broker that has hosted the partition, with the epoch of its last assignment."""
        found: dict[int, int] = {}
        before: tuple[int, ...] = ()
        for epoch, replicas in self.assignments:
            found |= {each: epoch for each in replicas if each not in before}
            before = replicas
        return found


def standing(
    hosting: Hosting,
    tombstone: int,
    *,
    min_in_sync: int,
    in_sync: Sequence[int],
    progress: Mapping[int, TombstoneProgress],
    proofs: Iterable[ReplicaProof],
    lives: Mapping[int, Incarnation],
    destroyed: Iterable[int] = (),
) -> ProofStanding:
    """`lives` are the brokers that are registered now; a proof of a former life with another disk
    proves nothing."""
    assigned = hosting.current
    known = [progress[each] for each in assigned if each in progress]
    has_all = bool(assigned) and len(known) == len(assigned)
    is_committed = len(in_sync) >= min(min_in_sync, len(assigned)) and any(
        each.high_watermark > tombstone for each in known
    )
    is_stamped = is_committed and has_all and all(each.clean_to > tombstone for each in known)
    is_removed = is_stamped and all(each.is_removed for each in known)
    exceptions = tuple(sorted(set(destroyed) & hosting.hosts().keys()))
    missing = _missing(hosting, tombstone, proofs, lives, exceptions)
    return ProofStanding(
        is_committed=is_committed,
        is_stamped=is_stamped,
        is_removed=is_removed,
        is_verified=is_removed and not missing,
        missing=missing,
        exceptions=exceptions,
    )


def _missing(
    hosting: Hosting,
    tombstone: int,
    proofs: Iterable[ReplicaProof],
    lives: Mapping[int, Incarnation],
    exceptions: Sequence[int],
) -> tuple[tuple[int, str], ...]:
    newest = {each.by.broker_id: each for each in sorted(proofs, key=lambda one: one.scanned_ms)}
    found: dict[int, str] = {}
    # Scans of those before, in the order in which brokers came.
    scanned_epochs: list[int] = []
    for broker_id, epoch in sorted(hosting.hosts().items(), key=lambda each: each[1]):
        if broker_id in exceptions:
            continue
        proof = newest.get(broker_id)
        is_covered = bool(scanned_epochs) and not found and max(scanned_epochs) < epoch
        if proof is None and is_covered:
            # It has copied what was scanned before it came.
            continue
        reason = _objection(proof, lives.get(broker_id), epoch, tombstone)
        if reason is not None:
            found[broker_id] = reason
        elif proof is not None:
            scanned_epochs.append(proof.partition_epoch)
    return tuple(sorted(found.items()))


def _objection(
    proof: ReplicaProof | None, life: Incarnation | None, epoch: int, tombstone: int
) -> str | None:
    """Why a proof does not do."""
    if proof is None:
        return "has not scanned" if life is not None else "is not reachable"
    if life is not None and proof.by.directory_id != life.directory_id:
        return "has had another disk since its scan"
    if proof.partition_epoch < epoch:
        return "was assigned again since its scan"
    if proof.log_start_offset < proof.log_end_offset <= tombstone:
        return "had not copied the tombstone when it scanned"
    if proof.hits:
        return f"still holds it in {proof.hits} places"
    return None
