"""What one partition or one broker is, by the committed records alone. Pure.

Read here by rules of our own, so that a mistake in `metadata.replay` shows as a difference.
"""

from typing import Final, NamedTuple

from ledgerstone.metadata.image import NO_LEADER, PartitionImage
from ledgerstone.protocol.messages.metadata_records import PartitionChangeRecord, PartitionRecord
from ledgerstone.sim.world import Violation

_SAME_LEADER: Final = -2
RECOVERING: Final = 1


class BrokerFact(NamedTuple):
    epoch: int
    incarnation: bytes
    # Where the record that registered it is.
    offset: int
    fenced: bool = True
    shutting_down: bool = False

    @property
    def is_active(self) -> bool:
        return not self.fenced and not self.shutting_down


class PartitionFact(NamedTuple):
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    recovery: int
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    last_known: tuple[int, ...] = ()

    def without_elr(self) -> "PartitionFact":
        """Its epoch tells leaders, but only where something changes."""
        if not self.elr and not self.last_known:
            return self
        return self._replace(elr=(), last_known=(), partition_epoch=self.partition_epoch + 1)

    def check(self, where: str) -> None:
        """What every partition keeps after every record."""
        for name, members in (("replicas", self.replicas), ("isr", self.isr), ("elr", self.elr)):
            if len(set(members)) != len(members):
                raise Violation("PartitionShape", f"{where}: {name} twice in {self}")
        if not self.replicas:
            raise Violation("PartitionShape", f"{where}: no replicas in {self}")
        if not set(self.isr) <= set(self.replicas):
            raise Violation("PartitionShape", f"{where}: isr outside of replicas in {self}")
        if not set(self.elr) <= set(self.replicas):
            raise Violation("PartitionShape", f"{where}: elr outside of replicas in {self}")
        if set(self.elr) & set(self.isr):
            raise Violation("PartitionShape", f"{where}: in isr and elr: {self}")
        if self.leader != NO_LEADER and self.leader not in self.isr:
            raise Violation("LeaderInIsr", f"{where}: {self}")
        if self.recovery == RECOVERING and len(self.isr) > 1:
            raise Violation("PartitionShape", f"{where}: recovering with {self.isr}")

    def differs_from(self, image: PartitionImage) -> bool:
        return self != PartitionFact(
            image.replicas,
            image.isr,
            image.eligible_leader_replicas,
            image.leader,
            image.leader_epoch,
            image.partition_epoch,
            image.leader_recovery_state,
            image.adding_replicas,
            image.removing_replicas,
            image.last_known_elr,
        )


def made(record: PartitionRecord) -> PartitionFact:
    return PartitionFact(
        tuple(record.replicas),
        tuple(record.isr),
        tuple(record.eligible_leader_replicas or ()),
        record.leader,
        record.leader_epoch,
        record.partition_epoch,
        record.leader_recovery_state,
        tuple(record.adding_replicas),
        tuple(record.removing_replicas),
        tuple(record.last_known_elr or ()),
    )


def changed(before: PartitionFact, record: PartitionChangeRecord) -> PartitionFact:
    names_leader = record.leader != _SAME_LEADER
    elr = record.eligible_leader_replicas
    recovery = record.leader_recovery_state
    return PartitionFact(
        before.replicas if record.replicas is None else tuple(record.replicas),
        before.isr if record.isr is None else tuple(record.isr),
        before.elr if elr is None else tuple(elr),
        record.leader if names_leader else before.leader,
        before.leader_epoch + names_leader,
        before.partition_epoch + 1,
        before.recovery if recovery < 0 else recovery,
        before.adding if record.adding_replicas is None else tuple(record.adding_replicas),
        before.removing if record.removing_replicas is None else tuple(record.removing_replicas),
        before.last_known if record.last_known_elr is None else tuple(record.last_known_elr),
    )
