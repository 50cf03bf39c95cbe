"""A follower with a real log on a simulated disk, and a leader in a list."""

from dataclasses import dataclass, field
from typing import Final

from ledgerstone.metadata.image import PartitionImage
from ledgerstone.protocol.message import ApiMessage
from ledgerstone.protocol.messages.fetch import FetchResponse
from ledgerstone.records.batch import iter_headers
from ledgerstone.replication.fetching.fetcher import ReplicaFetcher
from ledgerstone.replication.fetching.followed import FetchNoteKind, FetchOutcome
from ledgerstone.replication.fetching.wire import FetchSettings
from ledgerstone.replication.partition import Partition
from ledgerstone.sim.clock import VirtualClock
from ledgerstone.sim.dice import SeededDice
from ledgerstone.sim.filesystem import SimFilesystem
from ledgerstone.storage.log import PartitionLog
from ledgerstone.storage.log_config import LogConfig
from ledgerstone.storage.log_dir import LogDir, open_log_dir
from ledgerstone.types import TopicPartition
from tests.kit.dumb_leader import DumbLeader, DumbLog
from tests.kit.logs import T0
from tests.kit.roles import led_by

LEADER: Final = 2
FOLLOWER: Final = 1
BROKER_EPOCH: Final = 77
SETTINGS: Final = FetchSettings(
    replica_id=FOLLOWER,
    max_wait_ms=500,
    min_bytes=1,
    partition_max_bytes=1 << 20,
    response_max_bytes=10 << 20,
    backoff_ms=1000,
)
TOPIC_ID: Final = bytes(15) + b"\x09"
TP: Final = TopicPartition("t", 0)


def led(epoch: int, *, in_sync: bool = True) -> PartitionImage:
    isr = (LEADER, FOLLOWER) if in_sync else (LEADER,)
    return led_by(LEADER, epoch, isr, replicas=(LEADER, FOLLOWER))


@dataclass(slots=True)
class Disk:
    """It outlives the logs opened on it."""

    clock: VirtualClock = field(default_factory=lambda: VirtualClock(start_ms=T0))
    dice: SeededDice = field(default_factory=lambda: SeededDice(0))
    fs: SimFilesystem = field(init=False)
    log_dir: LogDir = field(init=False)

    def __post_init__(self) -> None:
        self.fs = SimFilesystem(dice=self.dice, clock=self.clock)
        self.open()

    def open(self) -> None:
        self.log_dir = open_log_dir(self.fs, self.clock, self.dice, "/data")
        for _ in self.log_dir.load(lambda _: LogConfig(segment_bytes=2000), lambda _: TOPIC_ID):
            pass

    def partition(self, topic_partition: TopicPartition) -> Partition:
        log = self.log_dir.logs.get(topic_partition)
        if log is None:
            config = LogConfig(segment_bytes=2000)
            log = self.log_dir.create(topic_partition, config, topic_id=TOPIC_ID)
        return Partition(log=log, topic_id=TOPIC_ID, node_id=FOLLOWER, truncates=self.log_dir)


class FollowerBench:
    """One follower, one leader, and time that moves by hand."""

    def __init__(self, partitions: int = 1, settings: FetchSettings = SETTINGS) -> None:
        self.disk = Disk()
        self.leader = DumbLeader()
        self.leader.topic_ids[TOPIC_ID] = TP.topic
        self.fetcher = ReplicaFetcher(settings)
        self.settings = settings
        self.now_ms = 0
        self.partitions: dict[TopicPartition, Partition] = {}
        self.notes: list[tuple[FetchNoteKind, TopicPartition]] = []
        self.committed: list[TopicPartition] = []
        for number in range(partitions):
            topic_partition = TopicPartition(TP.topic, number)
            self.leader.logs[topic_partition] = DumbLog()
            self.partitions[topic_partition] = self.disk.partition(topic_partition)
            self.follow(0, topic_partition)

    @property
    def leading(self) -> DumbLog:
        return self.leader.logs[TP]

    @property
    def log(self) -> PartitionLog:
        return self.partitions[TP].log

    @property
    def last_request(self) -> ApiMessage:
        return self.leader.requests[-1]

    def follow(self, epoch: int, topic_partition: TopicPartition = TP) -> None:
        """The metadata says that the leader leads in this epoch."""
        partition = self.partitions[topic_partition]
        partition.assume(led(epoch))
        self.take(self.fetcher.follow(topic_partition, TOPIC_ID, partition, epoch))

    def restart(self, epoch: int) -> None:
        """The follower is killed and starts again."""
        self.disk.fs.kill()
        self.disk.open()
        self.fetcher = ReplicaFetcher(self.settings)
        for topic_partition in self.partitions:
            self.partitions[topic_partition] = self.disk.partition(topic_partition)
            self.follow(epoch, topic_partition)

    def ask(self) -> ApiMessage | None:
        return self.fetcher.next_request(self.now_ms, BROKER_EPOCH)

    def give(self, answer: ApiMessage) -> FetchOutcome:
        if isinstance(answer, FetchResponse):
            return self.take(self.fetcher.answered(answer, self.now_ms))
        return self.take(self.fetcher.offsets_answered(answer, self.now_ms))  # type: ignore[arg-type]

    def take(self, outcome: FetchOutcome) -> FetchOutcome:
        self.notes += [(each.kind, each.topic_partition) for each in outcome.notes]
        self.committed += outcome.committed
        return outcome

    def step(self) -> bool:
        """One request and its answer; False if there is nothing to ask."""
        request = self.ask()
        if request is None:
            return False
        self.give(self.leader.answer(request))
        return True

    def run(self, steps: int = 6) -> None:
        for _ in range(steps):
            self.step()

    def lose(self) -> None:
        self.take(self.fetcher.lost(self.now_ms, "connection refused"))


def stored(log: PartitionLog) -> list[bytes]:
    """Batches of a log's files, in order."""
    found = []
    for segment in log.segments:
        content = bytes(segment.file.pread(segment.size, 0))
        found += [content[at : at + header.size] for at, header in iter_headers(content)]
    return found
