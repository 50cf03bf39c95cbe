"""Which clients are on a cluster, and when they are at their end. Part of sim."""

from collections.abc import Collection
from typing import Final

from ledgerstone.sim.clients.script import Player, Script
from ledgerstone.sim.history.operations import ClientHistory, OpOutcome, Sent
from ledgerstone.sim.network import Network
from ledgerstone.sim.replicas.clients.cluster_group import ClusterGroup
from ledgerstone.sim.replicas.clients.eraser import ClusterEraser
from ledgerstone.sim.replicas.clients.member import ClusterMember
from ledgerstone.sim.replicas.clients.operator import ClusterOperator, unclean_election
from ledgerstone.sim.replicas.clients.reach import Reach
from ledgerstone.sim.replicas.clients.reader import GroupReader, PartitionReader
from ledgerstone.sim.replicas.clients.serials import Serials
from ledgerstone.sim.replicas.clients.transactor import Transactor
from ledgerstone.sim.replicas.clients.writer import Patience, Writer
from ledgerstone.sim.replicas.node import ClusterNode
from ledgerstone.sim.replicas.receipts import ClusterReceipts
from ledgerstone.sim.replicas.scenario import Config
from ledgerstone.sim.replicas.secrets import SecretMakers
from ledgerstone.sim.world import World
from ledgerstone.types import TopicPartition

FLOW: Final = "flow"
KEYED: Final = "keyed"
LEDGER: Final = "ledger"
SUBJECTS: Final = "subjects"
# Of the topic whose keys are erased: these stay.
BYSTANDER: Final = b"bystander"
TOPIC_SETTINGS: Final[dict[str, dict[str, str]]] = {
    FLOW: {},
    KEYED: {"cleanup.policy": "compact"},
    LEDGER: {},
    SUBJECTS: {"cleanup.policy": "compact"},
}


class ClusterWorkload:
    def __init__(
        self,
        world: World,
        network: Network,
        config: Config,
        nodes: list[ClusterNode],
        history: ClientHistory,
        excused: Collection[TopicPartition],
        receipts: ClusterReceipts,
    ) -> None:
        self._excused = excused
        self._receipts = receipts
        self._world = world
        self._network = network
        self._config = config
        self._nodes = {each.node_id: each for each in nodes}
        self._history = history
        self._serials = Serials()
        self._patience = Patience(config.patience_ms)
        self._is_over = [False]
        self._writing: dict[str, Player] = {}
        self._reading: dict[str, Player] = {}

    def begin(self) -> None:
        config = self._config
        settings = {
            name: {**each, **self._settings_of(name)}
            for name, each in TOPIC_SETTINGS.items()
            if name != SUBJECTS or config.erasures
        }
        operator = ClusterOperator(
            reach=self._reach("operator"),
            topics=settings,
            partitions=config.partitions,
            replicas=config.replicas,
            operations=config.operations,
            pace_ms=config.fault_ms // (config.operations + 2),
        )
        self._play(self._writing, operator.reach, operator.script())
        for number in range(config.writers):
            self._write(f"writer-{number}", FLOW, tombstone_percent=0)
        for number in range(config.keepers):
            self._write(f"keeper-{number}", KEYED, tombstone_percent=config.tombstone_percent)
        for number in range(config.transactors):
            self._transact(f"transactor-{number}", number)
        for number in range(config.readers):
            self._read(f"reader-{number}", number)
        group = ClusterGroup(
            group="members",
            places=[*self._places(FLOW), *self._places(KEYED)],
            world=self._world,
            excused=self._excused,
            end_of=self._end_of,
        )
        if config.erasures:
            self._erase("eraser")
        for number in range(config.members):
            self._join(f"member-{number}", group)

    def heal(self) -> None:
        """No fault is an excuse any more."""
        self._patience.ms = None

    def elect_uncleanly(self, place: TopicPartition) -> None:
        reach = self._reach(f"operator for {place}")
        self._play(self._writing, reach, unclean_election(reach, place))

    def unfinished(self) -> list[str]:
        left = [f"{name} is not done" for name, each in self._writing.items() if not each.is_done]
        if not left:
            self._is_over[0] = True
            left = [f"{name} reads" for name, each in self._reading.items() if not each.is_done]
        return left

    @property
    def acknowledged(self) -> int:
        return sum(
            isinstance(each, Sent) and each.outcome is OpOutcome.OK
            for each in self._history.operations
        )

    # -- clients --------------------------------------------------------------------------------

    def _settings_of(self, topic: str) -> dict[str, str]:
        config = self._config
        settings = {"segment.bytes": str(config.segment_bytes)}
        if topic == FLOW and config.unclean:
            settings["unclean.leader.election.enable"] = "true"
        if topic in (KEYED, SUBJECTS):
            settings |= {
                "delete.retention.ms": str(config.delete_retention_ms),
                "min.cleanable.dirty.ratio": "0.01",
                "segment.ms": "1000",
            }
        return settings

    def _reach(self, name: str) -> Reach:
        return Reach(self._world, self._network, name, self._nodes, self._history, self._excused)

    def _places(self, topic: str) -> list[TopicPartition]:
        return [TopicPartition(topic, each) for each in range(self._config.partitions)]

    def _play(self, among: dict[str, Player], reach: Reach, script: Script[None]) -> None:
        among[reach.name] = Player(reach.gate, script)

    def _erase(self, name: str) -> None:
        config, nodes = self._config, list(self._nodes.values())
        makers = SecretMakers(
            self._world,
            self._network,
            nodes,
            lost=config.makers_lost,
            session_ms=config.session_ms,
            until_ms=config.fault_ms,
        )
        eraser = ClusterEraser(
            writer=self._writer(name, SUBJECTS, [BYSTANDER + b" %d" % each for each in range(3)]),
            nodes=nodes,
            receipts=self._receipts,
            makers=makers,
            topic=SUBJECTS,
            erasures=config.erasures,
            moves_percent=config.moves_percent,
            moves_until_ms=config.fault_ms,
        )
        self._play(self._writing, eraser.writer.reach, eraser.script())

    def _write(self, name: str, topic: str, *, tombstone_percent: int) -> None:
        keys = [b"k%d" % each for each in range(self._config.keys)]
        writer = self._writer(name, topic, keys, tombstone_percent)
        self._play(self._writing, writer.reach, writer.script())

    def _writer(
        self, name: str, topic: str, keys: list[bytes], tombstone_percent: int = 0
    ) -> Writer:
        config = self._config
        return Writer(
            reach=self._reach(name),
            serials=self._serials,
            places=self._places(topic),
            keys=keys,
            tombstone_percent=tombstone_percent,
            batches=config.batches,
            pace_ms=config.pace_ms,
            patience=self._patience,
        )

    def _transact(self, name: str, number: int) -> None:
        config = self._config
        client = Transactor(
            reach=self._reach(name),
            serials=self._serials,
            transactional_id=f"txn-{number}",
            places=self._places(LEDGER),
            group="positions",
            transactions=max(config.batches // 3, 1),
            abort_percent=25,
            pace_ms=config.pace_ms,
            is_second_protocol=bool(number % 2) or bool(config.batches % 2),
            patience=self._patience,
        )
        self._play(self._writing, client.reach, client.script())

    def _read(self, name: str, number: int) -> None:
        topics = (FLOW, LEDGER) if number % 2 == 0 else (LEDGER, KEYED)
        reading = PartitionReader(
            reach=self._reach(name), group=f"group-{number}", is_committed=number % 2 == 0
        )
        reader = GroupReader(
            reader=reading,
            places=[place for topic in topics for place in self._places(topic)],
            is_over=self._is_over,
        )
        self._play(self._reading, reading.reach, reader.script())

    def _join(self, name: str, group: ClusterGroup) -> None:
        reading = PartitionReader(reach=self._reach(name), group=group.group, is_committed=True)
        member = ClusterMember(reader=reading, book=group, is_over=self._is_over)
        self._play(self._reading, reading.reach, member.script())

    def _end_of(self, place: TopicPartition) -> int:
        """How far consumers can read, as the leader of the moment says."""
        for node in self._nodes.values():
            hosted = None if node.broker is None else node.broker.partitions.find(place)
            if hosted is not None and hosted.is_leader:
                return hosted.log.high_watermark
        return 0
