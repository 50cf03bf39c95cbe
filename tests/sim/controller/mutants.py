"""Rules of the controller and of brokers broken on purpose: the simulator must find every one.

Each mutant is a few lines that replace something in a running process; nothing of it is in `src`.
`python -m tests.sim.controller.mutants` plays seeds until each one is found and prints a table;
with `--write` it puts the table into docs/simulation.md.
"""

import logging
import sys
from dataclasses import replace
from typing import Any

from ledgerstone.metadata import (
    activation,
    alter_partition,
    broker_life,
    change_record,
    controller,
    heartbeats,
    registration,
    replay,
)
from ledgerstone.metadata.broker_sessions import BrokerSessions
from ledgerstone.metadata.change_record import PartitionTarget
from ledgerstone.metadata.controller import Controller
from ledgerstone.metadata.image import MetadataImage
from ledgerstone.metadata.partition_changes import changes_for_new_incarnation
from ledgerstone.metadata.replay import Replayed, apply
from ledgerstone.metadata.snapshot import snapshot_records
from ledgerstone.protocol.messages.alter_partition import AlterPartitionNewIsrWithEpoch
from ledgerstone.protocol.messages.metadata_records import BeginTransactionRecord
from ledgerstone.server.broker_life.agent import LifeAgent
from ledgerstone.server.controller_link import ControllerLink
from ledgerstone.server.controlling.in_flight import ProposalsInFlight
from ledgerstone.sim.controller.clock import MachineClock
from ledgerstone.sim.controller.cluster import run
from ledgerstone.sim.controller.scenario import draw, parse
from tests.sim.hunting import Kill, Mutant, Patch, Simulator, write_table
from tests.sim.hunting import hunt as hunt_in

MAX_SEEDS = 400
SIMULATOR = Simulator(
    draw,
    parse,
    run,
    "<!-- mutants: made by `make sim PROFILE=controller MUTANTS=1` -->",
    "<!-- end of the controller's mutants -->",
)

# One controller that stays, four brokers, and requests that come late: in-sync sets change all the
# time, and what is asked for is often old when it arrives.
_CHURN = """
set voters 1
set combined 0
set brokers 4
set dynamic 1
set clients 1
set names 2
set op_ms 800
set delete_percent 0
set reassign_percent 0
set idle_ms 0
set snapshot_every 0
set min_isr 1
set elr 1
set unclean 0
set loss_percent 0
set delay_ms 1
set jitter_ms 10
set disk_ms 0
set skew_ppm 0
set recovery_ms 0
set data_ms 150
set lag_ms 500
set late_percent 70
set session_ms 1500
set left_out 0
set fault_ms 30000
"""
CUTS = _CHURN + "\n".join(
    f"{at} link node={1 + at // 700 % 4} to={1 + at // 1_500 % 4} ms=1900"
    for at in range(3_000, 28_000, 350)
)
BOUNCES = _CHURN + "\n".join(
    f"{at} bounce node={1 + at // 1_100 % 4} down=50 mode=0" for at in range(4_000, 29_000, 1_100)
)

CUTS_AND_BOUNCES = (
    CUTS.replace("ms=1900", "ms=2900")
    + "\n"
    + "\n".join(
        f"{at} bounce node={1 + at // 2_500 % 4} down=100 mode=1"
        for at in range(6_000, 28_000, 2_500)
    )
)
OPENS = (
    _CHURN
    + "set voters 3\nset brokers 3\nset snapshot_every 2\nset late_percent 0\nset jitter_ms 80\n"
    + "\n".join(f"{at} open" for at in range(4_000, 29_000, 1_300))
)


def hunt(mutant: Mutant, max_seeds: int = MAX_SEEDS) -> Kill | None:
    return hunt_in(SIMULATOR, mutant, max_seeds)


# -- answers and leadership ---------------------------------------------------------------------


def answers_leave_before_commit(patch: Patch) -> None:
    original = ProposalsInFlight.take_answer
    patch.setattr(ProposalsInFlight, "take_answer", lambda self, offset: original(self, 1 << 62))


def lost_lead_answers_success(patch: Patch) -> None:
    def give_up(link: Any, asking: Any = None) -> None:
        link._led_epoch = None
        link._controller.resign()
        for each in link._in_flight.drop():
            each.on_answer(each.response)

    patch.setattr(ControllerLink, "_give_up", give_up)


def decisions_are_made_on_what_is_committed(patch: Patch) -> None:
    original = Controller.create_topics

    def create_topics(self: Controller, *given: Any, **how: Any) -> Any:
        decided, self.decided = self.decided, self.committed
        try:
            return original(self, *given, **how)
        finally:
            self.decided = decided

    patch.setattr(Controller, "create_topics", create_topics)


def producer_ids_of_what_is_committed(patch: Patch) -> None:
    original = broker_life.allocate_producer_ids

    def allocate(self: Controller, request: Any) -> Any:
        return original(self.committed, request)

    patch.setattr(Controller, "allocate_producer_ids", allocate)


def producer_ids_are_not_written(patch: Patch) -> None:
    original = Controller.allocate_producer_ids

    def allocate(self: Controller, request: Any) -> Any:
        return original(self, request)._replace(records=[])

    patch.setattr(Controller, "allocate_producer_ids", allocate)


# -- images -------------------------------------------------------------------------------------


def snapshot_is_laid_over_the_old_image(patch: Patch) -> None:
    """What was removed since stays."""

    def load(link: Any, snapshot_id: Any, records: Any) -> None:
        before = link._controller.committed
        after = apply(MetadataImage(cluster_id=before.cluster_id), records)
        topics = {**before.topics, **after.image.topics}
        names = {topic.topic_id: name for name, topic in topics.items()}
        image = replace(after.image, topics=topics, topic_names=names)
        link.committed_image._unapplied.clear()
        link._committed_offset = snapshot_id.offset
        link.committed_image.consume(Replayed(image, after.delta))

    patch.setattr(ControllerLink, "load", load)


def snapshot_forgets_eligible_replicas(patch: Patch) -> None:
    def snapshot(link: Any) -> Any:
        if link.image.open_transaction is not None:
            return None
        records = list(snapshot_records(link.image))
        for record in records:
            if hasattr(record, "eligible_leader_replicas"):
                record.eligible_leader_replicas = None
        return records

    patch.setattr(ControllerLink, "snapshot", snapshot)


def snapshot_inside_a_transaction(patch: Patch) -> None:
    """With what the transaction would do."""

    def snapshot(link: Any) -> Any:
        image, begun = link.image, link.image.open_transaction
        whole = replace(image, open_transaction=None)
        return list(snapshot_records(apply(whole, begun).image if begun else whole))

    patch.setattr(ControllerLink, "snapshot", snapshot)


def open_transactions_are_shown(patch: Patch) -> None:
    def begin(draft: Any, record: Any) -> None:
        """Nothing is held back."""

    rules = {**replay._RULES, BeginTransactionRecord: begin}
    patch.setattr(replay, "_RULES", rules)


def open_transactions_stay_open(patch: Patch) -> None:
    original = activation.activation_records

    def records(image: MetadataImage, *given: Any, **how: Any) -> Any:
        return original(replace(image, open_transaction=None), *given, **how)

    patch.setattr(controller, "activation_records", records)


def leader_epoch_does_not_rise(patch: Patch) -> None:
    original: Any = vars(replay)["changed"]

    def changed(before: Any, record: Any) -> Any:
        return replace(original(before, record), leader_epoch=before.leader_epoch)

    for module in (replay, alter_partition):
        patch.setattr(module, "changed", changed)


# -- brokers ------------------------------------------------------------------------------------


def sessions_by_the_wall_clock(patch: Patch) -> None:
    patch.setattr(MachineClock, "monotonic_ms", lambda self: self.now_ms())


def heartbeats_are_not_noted(patch: Patch) -> None:
    patch.setattr(BrokerSessions, "contact", lambda self, *given: None)


def inherited_sessions_are_old(patch: Patch) -> None:
    """A new controller counts the silence of the one before it."""
    original = BrokerSessions.start

    def start(self: BrokerSessions, image: Any, *, now_ms: int, end_offset: int) -> None:
        original(self, image, now_ms=now_ms - 6_000, end_offset=end_offset)

    patch.setattr(BrokerSessions, "start", start)


def sessions_never_expire(patch: Patch) -> None:
    patch.setattr(BrokerSessions, "take_expired", lambda self, now_ms: None)


def unfenced_before_it_caught_up(patch: Patch) -> None:
    patch.setattr(heartbeats, "_is_caught_up", lambda sessions, request: True)


def brokers_claim_to_be_further(patch: Patch) -> None:
    original = LifeAgent.__init__

    def init(self: LifeAgent, *given: Any, **how: Any) -> None:
        applied = how["applied_offset"]
        original(self, *given, **{**how, "applied_offset": lambda: applied() + 5})

    patch.setattr(LifeAgent, "__init__", init)


def fenced_brokers_lead_on(patch: Patch) -> None:
    patch.setattr(heartbeats, "changes_for_fenced", lambda partitions, broker_id: [])


def shutdown_is_granted_at_once(patch: Patch) -> None:
    original = heartbeats.next_state

    def next_state(partitions: Any, sessions: Any, broker: Any, request: Any) -> Any:
        if request.want_shut_down:
            return heartbeats.BrokerControlState.SHUTDOWN_NOW
        return original(partitions, sessions, broker, request)

    patch.setattr(heartbeats, "next_state", next_state)
    patch.setattr(heartbeats, "fencing", lambda partitions, broker: [])


def new_incarnation_stays_in_sync(patch: Patch) -> None:
    patch.setattr(registration, "changes_for_new_incarnation", lambda *given, **how: [])


def every_stop_counts_as_clean(patch: Patch) -> None:
    original = changes_for_new_incarnation

    def changes(partitions: Any, broker_id: int, *, stopped_cleanly: bool) -> Any:
        return original(partitions, broker_id, stopped_cleanly=True)

    patch.setattr(registration, "changes_for_new_incarnation", changes)


def broker_epochs_come_again(patch: Patch) -> None:
    """By the number of a broker's registrations, not by the offset."""
    original = registration.register_broker

    def register(partitions: Any, sessions: Any, request: Any, **how: Any) -> Any:
        before = partitions.image.brokers.get(request.broker_id)
        epoch = 1 if before is None else before.broker_epoch + 1
        return original(partitions, sessions, request, **{**how, "next_offset": epoch})

    patch.setattr(registration, "register_broker", register)


# -- partitions ---------------------------------------------------------------------------------


def old_broker_epochs_are_in_sync(patch: Patch) -> None:
    """KIP-903."""
    original = alter_partition._members

    def members(wanted: Any) -> Any:
        for each in original(wanted):
            yield AlterPartitionNewIsrWithEpoch(each.broker_id, -1)

    patch.setattr(alter_partition, "_members", members)


def inactive_members_are_in_sync(patch: Patch) -> None:
    patch.setattr(alter_partition._Altering, "_check_members", lambda self, wanted: None)


def partition_epoch_is_not_checked(patch: Patch) -> None:
    original = alter_partition._Altering._check_epochs

    def check(self: Any, partition: Any, wanted: Any) -> None:
        original(self, replace(partition, partition_epoch=wanted.partition_epoch), wanted)

    patch.setattr(alter_partition._Altering, "_check_epochs", check)


def leader_epoch_is_not_checked(patch: Patch) -> None:
    def check(self: Any, partition: Any, wanted: Any) -> None:
        """Nor who asks."""

    patch.setattr(alter_partition._Altering, "_check_epochs", check)


def isr_may_lack_its_leader(patch: Patch) -> None:
    """A leader's own change is not held against the leader of now."""
    original = alter_partition._Altering._check_epochs

    def check(self: Any, partition: Any, wanted: Any) -> None:
        original(
            self,
            replace(
                partition,
                leader=self._broker_id,
                leader_epoch=wanted.leader_epoch,
                partition_epoch=wanted.partition_epoch,
            ),
            wanted,
        )

    patch.setattr(alter_partition._Altering, "_check_epochs", check)
    patch.setattr(alter_partition, "_check_isr", lambda partition, wanted: None)


def last_member_leaves_the_isr(patch: Patch) -> None:
    """Without eligible replicas nobody is left, and whoever comes first leads."""
    change = change_record._Change

    def may_lead(self: Any, broker_id: int) -> bool:
        has_all = broker_id in self._isr or not self._isr
        return bool(has_all and self._rules.is_acceptable(broker_id))

    patch.setattr(change, "_may_lead", may_lead)


def any_replica_is_eligible(patch: Patch) -> None:
    def collect(self: Any) -> None:
        if self._rules.elr:
            left = set(self._replicas) - set(self._isr)
            self._elr = tuple(sorted(left)) if len(self._isr) < self._rules.min_isr else ()

    patch.setattr(change_record._Change, "collect_eligible", collect)


def eligible_though_enough_are_in_sync(patch: Patch) -> None:
    """Who left stays eligible while the others commit without it."""

    def collect(self: Any) -> None:
        if self._rules.elr:
            eligible = {*self._elr, *self._before.isr} & set(self._replicas)
            self._elr = tuple(sorted(eligible - set(self._isr) - {self._target.lost}))

    patch.setattr(change_record._Change, "collect_eligible", collect)


def unclean_elections_are_not_told(patch: Patch) -> None:
    def write(self: Any, record: Any) -> None:
        wanted = self._target.recovery_state
        if wanted is not None and wanted != self._before.leader_recovery_state:
            record.leader_recovery_state = wanted

    patch.setattr(change_record._Change, "_write_recovery_state", write)


def reassignment_does_not_wait(patch: Patch) -> None:
    """Done as soon as anyone that stays is in sync."""

    def complete(self: Any) -> None:
        if not self._removing and not self._adding:
            return
        self._isr = tuple(each for each in self._isr if each not in self._removing)
        self._replicas = tuple(each for each in self._replicas if each not in self._removing)
        self._adding = self._removing = ()

    patch.setattr(change_record._Change, "complete_reassignment", complete)


def new_replicas_start_in_sync(patch: Patch) -> None:
    """Before they have fetched anything."""
    original = change_record._Change.__init__

    def init(self: Any, partition: Any, target: PartitionTarget, rules: Any) -> None:
        original(self, partition, target, rules)
        fresh = [each for each in self._adding if each not in self._isr]
        self._isr = (*self._isr, *(each for each in fresh if rules.is_acceptable(each)))

    patch.setattr(change_record._Change, "__init__", init)


MUTANTS = [
    Mutant("answers leave before commit", answers_leave_before_commit),
    Mutant("a lost lead answers success", lost_lead_answers_success),
    Mutant("decisions are made on what is committed", decisions_are_made_on_what_is_committed),
    Mutant("producer ids by what is committed", producer_ids_of_what_is_committed),
    Mutant("producer ids are not written", producer_ids_are_not_written),
    Mutant("a snapshot is laid over the old image", snapshot_is_laid_over_the_old_image),
    Mutant("a snapshot forgets eligible replicas", snapshot_forgets_eligible_replicas),
    Mutant("a snapshot inside a transaction", snapshot_inside_a_transaction, OPENS),
    Mutant("open transactions are shown", open_transactions_are_shown),
    Mutant("open transactions stay open", open_transactions_stay_open),
    Mutant("the leader epoch does not rise", leader_epoch_does_not_rise),
    Mutant("sessions by the wall clock", sessions_by_the_wall_clock),
    Mutant("heartbeats are not noted", heartbeats_are_not_noted),
    Mutant("a new controller inherits silence", inherited_sessions_are_old),
    Mutant("sessions never expire", sessions_never_expire),
    Mutant("a broker is unfenced before it caught up", unfenced_before_it_caught_up),
    Mutant("a broker claims to be further than it is", brokers_claim_to_be_further),
    Mutant("fenced brokers lead on", fenced_brokers_lead_on),
    Mutant("a shutdown is granted at once", shutdown_is_granted_at_once),
    Mutant("a new incarnation stays in sync", new_incarnation_stays_in_sync),
    Mutant("every stop counts as clean", every_stop_counts_as_clean),
    Mutant("broker epochs come again", broker_epochs_come_again),
    Mutant("old broker epochs join the ISR", old_broker_epochs_are_in_sync, BOUNCES),
    Mutant("inactive brokers join the ISR", inactive_members_are_in_sync, BOUNCES),
    Mutant("the partition epoch is not checked", partition_epoch_is_not_checked, CUTS),
    Mutant("AlterPartition checks no epochs", leader_epoch_is_not_checked, CUTS),
    Mutant("an ISR without its leader", isr_may_lack_its_leader),
    Mutant("an empty ISR lets anyone lead", last_member_leaves_the_isr),
    Mutant("every replica is eligible", any_replica_is_eligible),
    Mutant(
        "eligible though enough are in sync", eligible_though_enough_are_in_sync, CUTS_AND_BOUNCES
    ),
    Mutant("unclean elections are not marked", unclean_elections_are_not_told),
    Mutant("a reassignment does not wait", reassignment_does_not_wait),
    Mutant("new replicas start in sync", new_replicas_start_in_sync),
]


def main() -> int:
    logging.disable(logging.CRITICAL)
    return write_table(SIMULATOR, MUTANTS, MAX_SEEDS, "python -m tests.sim.controller.mutants")


if __name__ == "__main__":
    sys.exit(main())
