"""Rules of replication broken on purpose: the simulator must find every one.

Each mutant is a few lines that replace something in a running process; nothing of it is in `src`.
`python -m tests.sim.replicas.mutants` plays seeds until each one is found and prints a table;
with `--write` it puts the table into docs/simulation.md.
"""

import logging
import sys
from typing import Any

from ledgerstone.dataclasses import replace
from ledgerstone.erasure import life
from ledgerstone.erasure.scan_plan import ScanReport
from ledgerstone.errors import InvalidRequest, KafkaError
from ledgerstone.metadata import registration
from ledgerstone.metadata.image import PartitionImage
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.fetch import FetchDivergingEpoch
from ledgerstone.replication import follower
from ledgerstone.replication.fetching import fetcher
from ledgerstone.replication.fetching.divergence import truncation_offset
from ledgerstone.replication.fetching.places import FetchPlaces
from ledgerstone.replication.fetching.replica import FollowerAppend
from ledgerstone.replication.isr import InSyncReplicas
from ledgerstone.replication.leader import Leader
from ledgerstone.replication.partition import Partition
from ledgerstone.replication.removal import LeaderRemoval
from ledgerstone.replication.state_log import StateLog
from ledgerstone.server.erasing import next_steps, steps
from ledgerstone.server.erasing.sharing import SecretsSharing
from ledgerstone.server.groups.hosted_shard import HostedShard
from ledgerstone.server.handlers import fetch_reading, produce, produce_answers
from ledgerstone.server.transactions.hosted_shard import HostedTransactions
from ledgerstone.sim.replicas.cluster import run
from ledgerstone.sim.replicas.scenario import draw, parse
from ledgerstone.storage import deleted_files
from ledgerstone.storage.log import PartitionLog
from ledgerstone.storage.log_reader import FetchIsolation, read
from ledgerstone.storage.producer_replay import apply_batch
from tests.sim.hunting import Kill, Mutant, Patch, Simulator, write_table
from tests.sim.hunting import hunt as hunt_in

MAX_SEEDS = 60
SIMULATOR = Simulator(
    draw,
    parse,
    run,
    "<!-- mutants: made by `make sim PROFILE=replicas MUTANTS=1` -->",
    "<!-- end of the replicas' mutants -->",
)

_BUSY = """
set brokers 3
set controllers 3
set replicas 3
set min_isr 2
set elr 0
set partitions 1
set writers 3
set keepers 0
set readers 2
set transactors 1
set operations 0
set batches 60
set pace_ms 50
set delay_ms 20
set lag_ms 1500
set session_ms 3000
set loss_percent 0
set fragments 1
set disk_max_ms 5
set fault_ms 14000
"""
# Leaders die, are cut off and stand still, one after the other: the lead moves all the time.
_FAILOVERS = f"""{_BUSY}
4000 crash node=-3 down=2500
6500 pause node=-3 ms=4000
9000 crash node=-1 down=500
10500 cut node=-3 way=out ms=3500
13000 crash node=-3 down=100
"""
# A leader that is cut off from its followers, and not from its clients, goes on appending.
_DIVERGENCE = f"""{_BUSY}
3500 split node=-3 ms=4200
8500 split node=-3 ms=4200
13000 crash node=-3 down=100
"""
# The coordinator of groups is cut off from its followers, and not from its clients.
_COORDINATORS = f"""{_BUSY}
set writers 1
set readers 4
3500 split node=-4 ms=4200
8500 split node=-4 ms=4200
13000 crash node=-4 down=100
"""
# The coordinator of groups dies with commits that one follower has, and so does that one.
_TWICE = f"""{_BUSY}
set brokers 5
set controllers 1
set writers 1
set readers 6
set transactors 0
set members 0
set min_isr 1
set lag_ms 4000
set fault_ms 24000
4000 twice node=-4 down=6000 gap=900 apart=9000
14000 twice node=-4 down=6000 gap=900 apart=9000
"""
# Followers fall behind, leave the ISR and join it again.
_LAG = f"""{_BUSY}
set min_isr 1
set loss_percent 10
3500 pause node=0 ms=2500
5000 link node=1 to=0 ms=3000 ways=2
6500 link node=2 to=1 ms=3000 ways=2
8000 crash node=-3 down=100
9000 pause node=2 ms=2500
10500 link node=0 to=2 ms=2500 ways=1
12000 crash node=-3 down=2500
"""
# Power is lost by one node at a time.
_POWER = f"""{_BUSY}
4000 power node=-3 down=300 mode=none
7000 power node=-3 down=300 mode=none
10000 power node=-3 down=300 mode=none
12500 power node=-3 down=300 mode=none
"""
# Brokers are away while keys are deleted and the log is cleaned.
_DELETES = f"""{_BUSY}
set writers 0
set readers 0
set transactors 0
set keepers 1
set keys 3
set tombstone_percent 60
set delete_retention_ms 0
set segment_bytes 400
set min_isr 1
3500 pause node=0 ms=4000
7500 pause node=1 ms=4000
10000 pause node=2 ms=3000
"""
# Keys are erased while one broker is away, and others lose their power.
_ERASING = f"""{_BUSY}
set brokers 4
set controllers 1
set replicas 3
set min_isr 1
set keepers 0
set writers 0
set readers 0
set transactors 0
set members 0
set erasures 2
set delete_retention_ms 0
set segment_bytes 400
set operations 0
set delay_ms 5
set fault_ms 26000
4500 crash node=3 down=24000
9000 power node=1 down=900 mode=none
14000 power node=2 down=900 mode=none
"""
# A host of the key is down while its partitions move away, and comes back with its files.
_MOVED = f"""{_BUSY}
set brokers 4
set controllers 1
set replicas 3
set min_isr 1
set keepers 0
set writers 0
set readers 0
set transactors 0
set members 0
set erasures 2
set moves_percent 100
set delete_retention_ms 0
set segment_bytes 400
set operations 0
set delay_ms 5
set fault_ms 26000
"""
# Whoever makes the secrets of erasures is lost before the journal names them, and comes back.
_MAKERS = f"""{_BUSY}
set controllers 1
set min_isr 1
set writers 0
set readers 0
set transactors 0
set members 0
set erasures 2
set moves_percent 0
set makers_lost 2
set delete_retention_ms 0
set segment_bytes 400
set delay_ms 5
set fault_ms 26000
"""


def hunt(mutant: Mutant, max_seeds: int = MAX_SEEDS) -> Kill | None:
    return hunt_in(SIMULATOR, mutant, max_seeds)


# -- what is committed ------------------------------------------------------------------------


def leader_commits_alone(patch: Patch) -> None:
    patch.setattr(InSyncReplicas, "common_end", lambda self, end, now_ms: end)


def fastest_follower_commits(patch: Patch) -> None:
    """One more copy is taken for enough, whoever has it."""

    def common_end(self: InSyncReplicas, end: int, now_ms: int) -> int:
        ends = [each.end_offset for each in self.followers.values()]
        return min(end, max(ends, default=end))

    patch.setattr(InSyncReplicas, "common_end", common_end)


def shrunk_set_counts_at_once(patch: Patch) -> None:
    def maximal(self: InSyncReplicas) -> tuple[int, ...]:
        pending = self.pending
        return self.committed if pending is None else tuple(each[0] for each in pending.isr)

    patch.setattr(InSyncReplicas, "maximal", property(maximal))


def newcomer_is_not_waited_for(patch: Patch) -> None:
    """The controller may have added it already."""

    def common_end(self: InSyncReplicas, end: int, now_ms: int) -> int:
        members = [each for each in self.followers if each in self.committed]
        return min([end, *(self.followers[each].end_offset for each in members)])

    patch.setattr(InSyncReplicas, "common_end", common_end)


def anyone_joins(patch: Patch) -> None:
    """A follower that lags is taken into the ISR."""

    def expand(self: InSyncReplicas, broker_id: int, **_: int) -> Any:
        if self.pending is not None or broker_id in self.committed:
            return None
        if not self.is_eligible(broker_id, self.followers[broker_id]):
            return None
        return self._propose((*self.committed, broker_id), joining=broker_id)

    patch.setattr(InSyncReplicas, "expand", expand)


def new_leader_believes_followers(patch: Patch) -> None:
    """It takes members of the ISR for caught up before their first fetch."""
    assume = InSyncReplicas.assume

    def believing(self: InSyncReplicas, state: PartitionImage, **known: int) -> None:
        is_new = self.leader_epoch < 0
        assume(self, state, leader_end_offset=known["leader_end_offset"], now_ms=known["now_ms"])
        for broker_id, each in self.followers.items():
            if is_new and broker_id in state.isr:
                each.end_offset = known["leader_end_offset"]

    patch.setattr(InSyncReplicas, "assume", believing)


def refused_fetches_count(patch: Patch) -> None:
    """A fetch that is answered with divergence says how far the follower is."""
    diverging = fetch_reading._diverging_epoch

    def counted(partition: Partition, wish: Any) -> Any:
        found = diverging(partition, wish)
        if found is not None and isinstance(partition.role, Leader):
            for state in partition.role.in_sync.followers.values():
                state.end_offset = max(state.end_offset, partition.log.log_end_offset)
            partition.role.advance_high_watermark()
        return found

    patch.setattr(fetch_reading, "_diverging_epoch", counted)


# -- produce ----------------------------------------------------------------------------------


def acks_all_does_not_wait(patch: Patch) -> None:
    answered: Any = produce_answers.answered

    def at_once(*args: Any) -> Any:
        return answered(*args[:-1], {})

    patch.setattr(produce, "answered", at_once)
    patch.setattr(produce_answers, "answered", at_once)


def parked_produce_ignores_leadership(patch: Patch) -> None:
    """It is answered once the high watermark is high enough, whoever leads by then."""

    def attempt(
        broker: Any, request: Any, response: Any, waiting: Any, time_is_up: bool
    ) -> Any | None:
        for place, awaited in list(waiting.items()):
            if awaited.has_come():
                del waiting[place]
            elif time_is_up:
                awaited.answer.error_code = ErrorCode.REQUEST_TIMED_OUT
        return response if time_is_up or not waiting else None

    patch.setattr(produce_answers, "_attempt", attempt)


def lost_leadership_answers_success(patch: Patch) -> None:
    attempt = produce_answers._attempt

    def forgiving(
        broker: Any, request: Any, response: Any, waiting: Any, time_is_up: bool
    ) -> Any | None:
        for place in list(waiting):
            try:
                broker.partitions.get(place).check_leader()
            except KafkaError:
                del waiting[place]
        return attempt(broker, request, response, waiting, time_is_up)

    patch.setattr(produce_answers, "_attempt", forgiving)


def followers_forget_producers(patch: Patch) -> None:
    """Only a leader learns who wrote what."""
    is_follower = [False]
    append, keep = PartitionLog.append_as_follower, PartitionLog._keep_producer

    def appending(self: PartitionLog, *args: Any, **named: Any) -> Any:
        is_follower[0] = True
        try:
            return append(self, *args, **named)
        finally:
            is_follower[0] = False

    def keeping(self: PartitionLog, *args: Any) -> Any:
        return None if is_follower[0] else keep(self, *args)

    patch.setattr(PartitionLog, "append_as_follower", appending)
    patch.setattr(PartitionLog, "_keep_producer", keeping)


def truncation_keeps_producers(patch: Patch) -> None:
    """A batch that was cut off is still taken for written."""
    truncate = Partition.truncate_to

    def cut(self: Partition, offset: int) -> None:
        producers = self.log.producers
        known = dict(producers._producers)
        truncate(self, offset)
        self.log.producers._producers.update(known)

    patch.setattr(Partition, "truncate_to", cut)


# -- followers --------------------------------------------------------------------------------


def divergence_is_not_noticed(patch: Patch) -> None:
    patch.setattr(fetch_reading, "_diverging_epoch", lambda partition, wish: None)


def divergence_by_length(patch: Patch) -> None:
    """Logs of the same length are taken for equal."""

    def by_length(partition: Partition, wish: Any) -> Any:
        end = partition.log.log_end_offset
        if wish.last_fetched_epoch < 0 or wish.fetch_offset <= end:
            return None
        return FetchDivergingEpoch(epoch=wish.last_fetched_epoch, end_offset=end)

    patch.setattr(fetch_reading, "_diverging_epoch", by_length)


def truncates_to_high_watermark(patch: Patch) -> None:
    """Before it fetches, as before KIP-101."""
    start = fetcher._start

    def cut_first(followed: Any, outcome: Any) -> None:
        log = followed.replica.log
        if log.high_watermark < log.log_end_offset:
            followed.replica.truncate_to(log.high_watermark)
        start(followed, outcome)

    patch.setattr(fetcher, "_start", cut_first)


def truncates_a_record_short(patch: Patch) -> None:
    """What lies behind the end of the leader's epoch stays."""

    def short(log: Any, epoch: int, end_offset: int) -> int:
        return min(truncation_offset(log, epoch, end_offset) + 1, int(log.log_end_offset))

    patch.setattr("ledgerstone.replication.fetching.fetcher.truncation_offset", short)


def followers_commit_what_they_have(patch: Patch) -> None:
    append = follower.append_fetched

    def committing(log: PartitionLog, *args: Any, **named: Any) -> FollowerAppend:
        done = append(log, *args, **named)
        moved = log.advance_high_watermark(log.log_end_offset)
        return done._replace(has_committed=done.has_committed or moved)

    patch.setattr("ledgerstone.replication.partition.append_fetched", committing)


def a_delay_never_ends(patch: Patch) -> None:
    """Nor is it due: a moment that is always past would be ticked at for ever."""
    patch.setattr(FetchPlaces, "end_delays", lambda self, now_ms: None)
    patch.setattr(FetchPlaces, "delayed_until_ms", property(lambda self: None))


def high_watermark_is_not_told(patch: Patch) -> None:
    """A follower that has everything hears nothing more."""
    quiet = fetch_reading._is_quiet

    def deaf(reader: Any, wish: Any, find: Any, now_ms: int) -> bool:
        partition = wish.found
        if isinstance(partition, Partition) and isinstance(partition.role, Leader):
            is_level = partition.log.log_end_offset == wish.fetch_offset
            if is_level and wish.current_leader_epoch == partition.role.leader_epoch:
                return True
        return quiet(reader, wish, find, now_ms)

    patch.setattr(fetch_reading, "_is_quiet", deaf)


def broker_that_lost_power_stays_in_sync(patch: Patch) -> None:
    patch.setattr(registration, "changes_for_new_incarnation", lambda *args, **named: [])


# -- readers and coordinators -----------------------------------------------------------------


def consumers_read_to_the_end(patch: Patch) -> None:
    def reading(*args: Any, **named: Any) -> Any:
        return read(*args, **{**named, "isolation": FetchIsolation.LOG_END})

    patch.setattr("ledgerstone.server.handlers.fetch_reading.read", reading)


def followers_forget_aborts(patch: Patch) -> None:
    """Their index of aborted transactions stays empty."""
    is_follower = [False]
    append = PartitionLog.append_as_follower

    def appending(self: PartitionLog, *args: Any, **named: Any) -> Any:
        is_follower[0] = True
        try:
            return append(self, *args, **named)
        finally:
            is_follower[0] = False

    def applying(*args: Any) -> Any:
        aborted = apply_batch(*args)
        return None if is_follower[0] else aborted

    patch.setattr(PartitionLog, "append_as_follower", appending)
    patch.setattr("ledgerstone.storage.log.apply_batch", applying)


def coordinators_answer_before_commit(patch: Patch) -> None:
    def committed(self: StateLog[Any], high_watermark: int) -> list[Any]:
        return self.lost()

    patch.setattr(StateLog, "committed", committed)


def coordinators_load_halfway(patch: Patch) -> None:
    """They serve before what they have read is committed."""
    for shard in (HostedShard, HostedTransactions):
        patch.setattr(shard, "can_serve", property(lambda self: self._replayed_to is not None))


def tombstones_ignore_other_replicas(patch: Patch) -> None:
    def removable_to(self: LeaderRemoval, own_clean_to: int, **_: int) -> int:
        return own_clean_to

    patch.setattr(LeaderRemoval, "removable_to", removable_to)


# -- erasures ---------------------------------------------------------------------------------


def unlinks_are_not_synced(patch: Patch) -> None:
    patch.setattr(deleted_files, "_sync", lambda fs, directory: None)


def former_hosts_are_forgotten(patch: Patch) -> None:
    """Neither scanned nor asked for: two rules hold them, and one alone is enough."""

    only_assigned_brokers_are_scanned(patch)
    patch.setattr(life, "unproven_disks", lambda *args: [])


def silent_brokers_are_left_out(patch: Patch) -> None:
    """By all three rules: who owes a scan, which disks one has seen, and whose copies of the
    journal are waited for."""

    def living(hosts: Any, registered: Any, alive: Any, lost: Any) -> tuple[int, ...]:
        return tuple(sorted({*registered} & {*alive}))

    patch.setattr(next_steps, "must_scan", living)
    patch.setattr(steps, "registered_brokers", lambda work: work.others.alive)
    patch.setattr(life, "unproven_disks", lambda *args: [])


def only_assigned_brokers_are_scanned(patch: Patch) -> None:
    """What the disks that were registered since the search hold back is never looked at."""
    holders = next_steps._holders

    def only_assigned(work: Any, erasure: Any, topic: Any) -> tuple[int, ...]:
        states = () if topic is None else topic.partitions.values()
        replicas = {each for state in states for each in state.replicas}
        return tuple(each for each in holders(work, erasure, topic) if each in replicas)

    patch.setattr(next_steps, "_holders", only_assigned)


def findings_are_ignored(patch: Patch) -> None:
    patch.setattr(life, "_objection", lambda erasure, scan, facts: None)


def records_set_aside_are_a_later_life(patch: Patch) -> None:
    of_replica = ScanReport.of_replica

    def trusting(self: ScanReport, print_index: int, **named: Any) -> Any:
        own = [each for each in self.prints[print_index].aside if each.span.topic == named["topic"]]
        found = of_replica(self, print_index, **named)
        hits = sum(each.span.records for each in own)
        return replace(
            found,
            residue=found.residue - hits,
            residue_places=() if own else found.residue_places,
            residue_files=() if own else found.residue_files,
        )

    patch.setattr(ScanReport, "of_replica", trusting)


def secrets_are_never_set_aside(patch: Patch) -> None:
    takes = SecretsSharing._check_takes

    def keeping(self: Any, own: Any, public_key: str, **named: bool) -> None:
        if own is not None:
            raise InvalidRequest("other secrets are here")
        takes(self, own, public_key, **named)

    patch.setattr(SecretsSharing, "_check_takes", keeping)


def anyone_offers_secrets(patch: Patch) -> None:
    """Whoever has some offers them to all, and whoever is offered some takes them."""
    patch.setattr(SecretsSharing, "_to_ask", lambda self, own: self.replicas)
    patch.setattr(SecretsSharing, "_may_give", lambda self, own, theirs, wanted: own != theirs)
    patch.setattr(SecretsSharing, "_check_takes", lambda self, own, public_key, **_: None)


MUTANTS = (
    Mutant("a leader commits what it has alone", leader_commits_alone),
    Mutant("one follower is enough to commit", fastest_follower_commits, _LAG),
    Mutant("a shrunk in-sync set counts before it is agreed", shrunk_set_counts_at_once, _LAG),
    Mutant("a newcomer is not waited for", newcomer_is_not_waited_for, _LAG),
    Mutant("a follower that lags joins the in-sync set", anyone_joins, _LAG),
    Mutant(
        "a new leader takes its followers for caught up", new_leader_believes_followers, _FAILOVERS
    ),
    Mutant("a fetch that diverged counts as progress", refused_fetches_count, _DIVERGENCE),
    Mutant("acks=all does not wait", acks_all_does_not_wait, _DIVERGENCE),
    Mutant("a parked produce ignores who leads", parked_produce_ignores_leadership, _DIVERGENCE),
    Mutant("a lost leadership answers success", lost_leadership_answers_success, _DIVERGENCE),
    Mutant("followers forget producers", followers_forget_producers, _FAILOVERS),
    Mutant("truncation keeps producers", truncation_keeps_producers, _DIVERGENCE),
    Mutant("divergence is not noticed", divergence_is_not_noticed, _DIVERGENCE),
    Mutant("divergence is seen by length only", divergence_by_length, _DIVERGENCE),
    Mutant(
        "a follower truncates to its high watermark first", truncates_to_high_watermark, _FAILOVERS
    ),
    Mutant("a follower keeps a record too many", truncates_a_record_short, _DIVERGENCE),
    Mutant("a follower commits what it has", followers_commit_what_they_have, _DIVERGENCE),
    Mutant("a delayed fetch never goes on", a_delay_never_ends, _FAILOVERS),
    Mutant("a high watermark is not told", high_watermark_is_not_told),
    Mutant(
        "a broker that lost its power stays in sync", broker_that_lost_power_stays_in_sync, _POWER
    ),
    Mutant("consumers read what is not committed", consumers_read_to_the_end, _DIVERGENCE),
    Mutant("followers forget aborted transactions", followers_forget_aborts, _FAILOVERS),
    Mutant("coordinators answer before commit", coordinators_answer_before_commit, _COORDINATORS),
    Mutant("coordinators serve before their log is committed", coordinators_load_halfway, _TWICE),
    Mutant("tombstones ignore other replicas", tombstones_ignore_other_replicas, _DELETES),
    Mutant("unlinks are not synced before a receipt", unlinks_are_not_synced, _ERASING),
    Mutant("former hosts are forgotten", former_hosts_are_forgotten, _MOVED),
    Mutant("silent brokers are left out", silent_brokers_are_left_out, _MOVED),
    Mutant("only assigned brokers are scanned", only_assigned_brokers_are_scanned, _MOVED),
    Mutant("what a scan found is ignored", findings_are_ignored, _MOVED),
    Mutant("records that are set aside do not count", records_set_aside_are_a_later_life, _MOVED),
    Mutant("other secrets are never set aside", secrets_are_never_set_aside, _MAKERS),
    Mutant("anyone's secrets are taken", anyone_offers_secrets, _MAKERS),
)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    sys.exit(write_table(SIMULATOR, MUTANTS, MAX_SEEDS, "python -m tests.sim.replicas.mutants"))
