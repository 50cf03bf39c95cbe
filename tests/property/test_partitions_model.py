"""The partitions of a cluster beside a plain twin, through everything that happens to brokers.

Both see the same events. After each the partitions must be equal, the index must be what a full
count says, and what holds for every partition at every moment must hold.
"""

import contextlib
from collections.abc import Sequence

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from ledgerstone.metadata.image import NO_LEADER, PartitionImage
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectory,
    AssignReplicasToDirsRequestPartition,
    AssignReplicasToDirsRequestTopic,
)
from tests.kit.sized import examples
from tests.oracles.plain_partitions import PlainBroker, PlainCluster, PlainPartition
from tests.unit.metadata.cluster import a_topic
from tests.unit.metadata.led_cluster import LedCluster, a_directory

BROKERS = range(1, 6)
TOPICS = ("t", "u")
DIRECTORIES = 2

brokers = st.sampled_from(BROKERS)
topics = st.sampled_from(TOPICS)
keys = st.tuples(topics, st.integers(0, 1))
replica_lists = st.lists(brokers, min_size=1, max_size=4, unique=True)


class PartitionsModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.real = LedCluster(brokers=0)
        self.plain = PlainCluster()
        self.epochs: dict[tuple[str, int], tuple[int, int]] = {}

    @initialize(elr=st.booleans(), minimum=st.integers(1, 3), data=st.data())
    def begin(self, elr: bool, minimum: int, data: st.DataObject) -> None:
        self.real = LedCluster(brokers=len(BROKERS), directories=DIRECTORIES, elr=elr)
        dirs = {b: [a_directory(b, number) for number in range(DIRECTORIES)] for b in BROKERS}
        self.plain = PlainCluster(
            elr_on=elr, brokers={b: PlainBroker(dirs[b], fenced=False) for b in BROKERS}
        )
        for topic in TOPICS:
            factor = data.draw(st.integers(1, 3))
            assignments = {
                number: data.draw(st.permutations(BROKERS))[:factor] for number in range(2)
            }
            configs: dict[str, str | None] = {"min.insync.replicas": str(minimum)}
            self.real.create(a_topic(topic, assignments=assignments, configs=configs))
            self.plain.min_isr[topic] = minimum
            for number in range(2):
                self.plain.partitions[topic, number] = _plain(self.real.partition(number, topic))

    # -- brokers -----------------------------------------------------------------------------

    @rule(broker=brokers)
    def fence(self, broker: int) -> None:
        state = self.plain.brokers.get(broker)
        if state is not None and not state.fenced:
            self.real.fence(broker)
            self.plain.fence(broker)

    @rule(broker=brokers)
    def unfence(self, broker: int) -> None:
        state = self.plain.brokers.get(broker)
        if state is not None and state.fenced and not state.stopping:
            self.real.unfence(broker)
            self.plain.unfence(broker)

    @rule(broker=brokers)
    def shut_down(self, broker: int) -> None:
        state = self.plain.brokers.get(broker)
        if state is not None and not state.fenced and not state.stopping:
            self.real.shut_down(broker)
            self.plain.stop(broker)

    @rule(broker=brokers, clean=st.booleans())
    def register(self, broker: int, clean: bool) -> None:
        self.real.register(broker, stopped_cleanly=clean, directories=DIRECTORIES)
        dirs = [a_directory(broker, number) for number in range(DIRECTORIES)]
        self.plain.register(broker, dirs, clean)

    @rule(broker=brokers)
    def unregister(self, broker: int) -> None:
        if broker in self.plain.brokers:
            self.real.unregister(broker)
            self.plain.unregister(broker)

    @rule(broker=brokers, number=st.integers(0, DIRECTORIES - 1))
    def fail_directory(self, broker: int, number: int) -> None:
        state = self.plain.brokers.get(broker)
        directory = a_directory(broker, number)
        if state is not None and directory in state.dirs and len(state.dirs) > 1:
            self.real.fail_directories(broker, directory)
            self.plain.lose_dirs(broker, [directory])

    @rule(key=keys, broker=brokers, number=st.integers(0, DIRECTORIES - 1))
    def assign_directory(self, key: tuple[str, int], broker: int, number: int) -> None:
        state = self.plain.brokers.get(broker)
        directory = a_directory(broker, number)
        if state is None or directory not in state.dirs:
            return
        if broker not in self.plain.partitions[key].replicas:
            return
        topic_id = self.real.image.topics[key[0]].topic_id
        partition = AssignReplicasToDirsRequestPartition(key[1])
        topic = AssignReplicasToDirsRequestTopic(topic_id, [partition])
        request = AssignReplicasToDirsRequest(
            broker,
            self.real.epoch(broker),
            [AssignReplicasToDirsRequestDirectory(directory, [topic])],
        )
        self.real.carry_out(self.real.controller.assign_replicas_to_dirs(request))
        self.plain.assign(key, broker, directory)

    # -- requests ----------------------------------------------------------------------------

    @rule(key=keys, wanted=st.sets(brokers))
    def alter(self, key: tuple[str, int], wanted: set[int]) -> None:
        """The leader proposes the active ones among its replicas that are wanted, and itself."""
        it = self.plain.partitions[key]
        active = [b for b, each in self.plain.brokers.items() if not each.fenced]
        active = [b for b in active if not self.plain.brokers[b].stopping]
        if it.leader not in active:
            return
        isr = [b for b in it.replicas if b in active and (b in wanted or b == it.leader)]
        answer = self.real.alter(isr, key[1], topic=key[0])
        leader = it.leader
        self.plain.alter(key, isr)
        if self.plain.partitions[key].leader != leader:
            assert answer.error_code == ErrorCode.NEW_LEADER_ELECTED
        else:
            assert answer.error_code == ErrorCode.NONE
            assert answer.partition_epoch == self.plain.partitions[key].epoch

    @rule(key=keys, replicas=replica_lists)
    def reassign(self, key: tuple[str, int], replicas: list[int]) -> None:
        code = self.real.reassign(replicas, key[1], topic=key[0])
        if set(replicas) <= set(self.plain.brokers):
            assert code == ErrorCode.NONE
            self.plain.reassign(key, replicas)
        else:
            assert code == ErrorCode.INVALID_REPLICA_ASSIGNMENT

    @rule(key=keys)
    def cancel(self, key: tuple[str, int]) -> None:
        it = self.plain.partitions[key]
        code = self.real.reassign(None, key[1], topic=key[0])
        if not it.adding and not it.removing:
            assert code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        else:
            is_done = self.plain.cancel(key)
            assert code == (ErrorCode.NONE if is_done else ErrorCode.INVALID_REPLICA_ASSIGNMENT)

    @rule(topic=topics, minimum=st.integers(1, 3))
    def set_min_isr(self, topic: str, minimum: int) -> None:
        if self.plain.min_isr[topic] != minimum:
            self.real.configure("min.insync.replicas", str(minimum), topic)
            self.plain.set_min_isr(topic, minimum)

    @rule(topic=topics, allowed=st.booleans())
    def set_unclean(self, topic: str, allowed: bool) -> None:
        if self.plain.unclean.get(topic) != allowed:
            self.real.configure("unclean.leader.election.enable", str(allowed).lower(), topic)
            self.plain.set_unclean(topic, allowed)

    @rule()
    def balance(self) -> None:
        self.real.pass_time()
        self.plain.balance()
        for topic in TOPICS:
            if self.plain.unclean.get(topic):
                self.plain.set_unclean(topic, True)

    # -- what holds at every moment ----------------------------------------------------------

    @invariant()
    def agrees_with_the_plain_one(self) -> None:
        for key, plain in self.plain.partitions.items():
            assert _plain(self.real.partition(key[1], key[0])) == plain, key

    @invariant()
    def the_index_is_what_a_full_count_says(self) -> None:
        self.real.controller.partitions.index.check_invariants()

    @invariant()
    def every_partition_keeps_its_rules(self) -> None:
        for name in TOPICS if self.plain.partitions else ():
            for number in range(2):
                self._check((name, number), self.real.partition(number, name))

    def _check(self, key: tuple[str, int], it: PartitionImage) -> None:
        assert _is_set(it.replicas)
        assert it.replicas
        assert _is_set(it.isr)
        assert set(it.isr) <= set(it.replicas)
        assert it.isr or self.plain.elr_on
        elr = it.eligible_leader_replicas
        assert _is_set(elr)
        assert set(elr) <= set(it.replicas) - set(it.isr)
        assert not elr or self.plain.elr_on
        assert set(it.adding_replicas) <= set(it.replicas)
        assert set(it.removing_replicas) <= set(it.replicas)
        assert not set(it.adding_replicas) & set(it.removing_replicas)
        assert len(it.directories) == len(it.replicas)
        if it.leader != NO_LEADER:
            assert it.leader in it.isr
            assert self.real.image.brokers[it.leader].is_active
            assert not it.last_known_elr
        # A member that is not active is only ever the last one of a partition that has no leader.
        # With ELR it is none, unless a reassignment was cancelled whose new replicas alone were in
        # sync: as in Kafka, the first of the old ones takes their place.
        idle = [b for b in it.isr if not self._is_active(b)]
        may_idle = not self.plain.elr_on or bool(it.leader_recovery_state)
        assert not idle or (it.leader == NO_LEADER and may_idle and len(it.isr) == 1)
        before = self.epochs.get(key, (0, 0))
        assert it.leader_epoch >= before[0]
        assert it.partition_epoch >= before[1]
        self.epochs[key] = (it.leader_epoch, it.partition_epoch)

    def _is_active(self, broker: int) -> bool:
        with contextlib.suppress(KeyError):
            return self.real.image.brokers[broker].is_active
        return False


def _is_set(members: Sequence[int]) -> bool:
    return len(set(members)) == len(members)


def _plain(it: PartitionImage) -> PlainPartition:
    return PlainPartition(
        replicas=list(it.replicas),
        isr=list(it.isr),
        leader=it.leader,
        directories=list(it.directories),
        leader_epoch=it.leader_epoch,
        epoch=it.partition_epoch,
        recovering=bool(it.leader_recovery_state),
        adding=list(it.adding_replicas),
        removing=list(it.removing_replicas),
        elr=list(it.eligible_leader_replicas),
        last_known=list(it.last_known_elr),
    )


TestPartitionsModel = PartitionsModel.TestCase
TestPartitionsModel.settings = settings(
    examples(100),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
