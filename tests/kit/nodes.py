"""A cluster of real processes, Apache Kafka's and ours in any mixture."""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple, Protocol

from golden.cluster_plan import ClusterPlan, PlannedNode
from golden.kafka_node import KafkaNode
from golden.kafka_tools import KafkaJars
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
)
from ledgerstone.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartition,
    DescribeQuorumRequestTopic,
)
from ledgerstone.protocol.messages.metadata import MetadataRequest
from ledgerstone.raft.wire.partition import TOPIC
from tests.compat.wire import ask
from tests.kit.bare_node import BareNode
from tests.kit.broker import wait_until
from tests.kit.ledgerstone_node import LedgerstoneNode

KAFKA: Final = "kafka"
LEDGERSTONE: Final = "ledgerstone"
# Our replica of the quorum without a broker or a controller.
BARE: Final = "bare"
_BATCH_START: Final = struct.Struct(">qi")
# The length of a batch counts from behind itself.
_LENGTH_END: Final = 12


class Node(Protocol):
    prefix: tuple[str, ...]

    @property
    def planned(self) -> PlannedNode: ...
    @property
    def node_id(self) -> int: ...
    @property
    def data(self) -> Path: ...
    @property
    def metadata(self) -> Path: ...
    @property
    def properties(self) -> Path: ...
    @property
    def log_text(self) -> str: ...
    @property
    def is_running(self) -> bool: ...
    def format(self) -> None: ...
    def write_properties(self) -> None: ...
    def start(self) -> None: ...
    def wait_started(self, timeout_s: float = 90.0) -> None: ...
    def stop(self) -> None: ...
    def kill(self) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def forget(self) -> None: ...


class Standing(NamedTuple):
    """What a leader says of its quorum."""

    leader_id: int
    epoch: int
    high_watermark: int
    voters: tuple[int, ...]
    observers: tuple[int, ...]


@dataclass
class Cluster:
    plan: ClusterPlan
    work: Path
    jars: KafkaJars | None
    # Which program runs as which node.
    kinds: Mapping[int, str]
    prefixes: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    nodes: dict[int, Node] = field(init=False)
    # Who led which epoch, as far as it was seen.
    leaders: dict[int, set[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.nodes = {each.node_id: self._node(each) for each in self.plan}

    def _node(self, planned: PlannedNode) -> Node:
        work = self.work / f"node-{planned.node_id}"
        prefix = self.prefixes.get(planned.node_id, ())
        if self.kinds[planned.node_id] == KAFKA:
            assert self.jars is not None
            return KafkaNode(
                jars=self.jars, plan=self.plan, planned=planned, work=work, prefix=prefix
            )
        if self.kinds[planned.node_id] == BARE:
            return BareNode(
                plan=self.plan, planned=planned, work=work, prefix=prefix, jars=self.jars
            )
        return LedgerstoneNode(plan=self.plan, planned=planned, work=work, prefix=prefix)

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    def __getitem__(self, node_id: int) -> Node:
        return self.nodes[node_id]

    # -- life ---------------------------------------------------------------------------------

    def format(self) -> None:
        for node in self.nodes.values():
            node.format()

    def start(self, *ids: int) -> None:
        """All of them if none is named."""
        chosen = [self.nodes[each] for each in ids or self.nodes]
        for node in chosen:
            node.start()
        for node in chosen:
            node.wait_started()

    def stop(self, *ids: int) -> None:
        """Brokers first: they ask the controllers for leave."""
        chosen = [self.nodes[each] for each in ids or self.nodes]
        for node in sorted(chosen, key=lambda each: each.planned.is_controller):
            if node.is_running:
                node.stop()

    def kill(self) -> None:
        """All at once. The last ones of a quorum cannot end well: nobody gives them leave."""
        for node in self.running:
            node.kill()

    @property
    def running(self) -> list[Node]:
        return [each for each in self.nodes.values() if each.is_running]

    # -- the quorum ---------------------------------------------------------------------------

    def standing(self, node: Node, timeout_s: float = 2.0) -> Standing | None:
        """Of the node if it leads."""
        partition = DescribeQuorumRequestPartition(partition_index=0)
        topic = DescribeQuorumRequestTopic(topic_name=TOPIC, partitions=[partition])
        request = DescribeQuorumRequest(topics=[topic])
        try:
            said: Any = ask(node.planned.controller, request, 2, timeout_s=timeout_s)
        except (OSError, struct.error):
            return None
        found = said.topics[0].partitions[0] if said.topics else None
        if said.error_code or found is None or found.error_code:
            return None
        self.leaders.setdefault(found.leader_epoch, set()).add(found.leader_id)
        return Standing(
            found.leader_id,
            found.leader_epoch,
            found.high_watermark,
            tuple(each.replica_id for each in found.current_voters),
            tuple(each.replica_id for each in found.observers),
        )

    def leader(self, timeout_s: float = 2.0) -> Standing | None:
        """The newest of those who say that they lead."""
        said = [
            self.standing(each, timeout_s) for each in self.running if each.planned.is_controller
        ]
        known = [each for each in said if each is not None]
        return max(known, key=lambda each: each.epoch, default=None)

    def wait_for_leader(self, *, after: int = -1, timeout_s: float = 60.0) -> Standing:
        """One whose epoch is newer than `after`."""

        def newer() -> Standing | None:
            found = self.leader()
            return found if found is not None and found.epoch > after else None

        found = wait_until(newer, f"somebody leads after epoch {after}", timeout_s)
        assert found is not None
        return found

    def assert_one_leader_an_epoch(self) -> None:
        assert {epoch: ids for epoch, ids in self.leaders.items() if len(ids) > 1} == {}

    # -- topics -------------------------------------------------------------------------------

    def create_topic(self, name: str, via: int, *, timeout_s: float = 20.0) -> ErrorCode | None:
        """How it ended; None if there was no answer."""
        topic = CreateTopicsRequestTopic(name=name, num_partitions=1, replication_factor=1)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=int(timeout_s * 1000))
        planned = self.nodes[via].planned
        address = planned.bootstrap if planned.is_broker else planned.controller
        try:
            said: Any = ask(address, request, 7, timeout_s=timeout_s)
        except (OSError, struct.error):
            return None
        return ErrorCode(said.topics[0].error_code)

    def topics(self, via: int) -> dict[str, bytes] | None:
        """Names and ids as a broker knows them."""
        request = MetadataRequest(topics=None)
        try:
            said: Any = ask(self.nodes[via].planned.bootstrap, request, 12, timeout_s=5.0)
        except (OSError, struct.error):
            return None
        return {each.name: each.topic_id for each in said.topics if not each.is_internal}

    # -- files --------------------------------------------------------------------------------

    def assert_logs_agree(self) -> None:
        """Byte for byte, as far as two logs reach. Called while nothing runs."""
        logs = {each.node_id: dict(batches(each.metadata)) for each in self.nodes.values()}
        for one, mine in logs.items():
            for other, theirs in logs.items():
                shared = mine.keys() & theirs.keys()
                assert shared, f"{one} and {other} have nothing in common"
                unlike = [each for each in sorted(shared) if mine[each] != theirs[each]]
                assert unlike == [], f"{one} and {other} differ at {unlike[:5]}"


def batches(metadata: Path, below: int | None = None) -> Iterator[tuple[int, bytes]]:
    """Base offset and bytes of each batch in a directory's segments."""
    for segment in sorted(metadata.glob("*.log")):
        data = segment.read_bytes()
        position = 0
        while position + _LENGTH_END <= len(data):
            base_offset, length = _BATCH_START.unpack_from(data, position)
            end = position + _LENGTH_END + length
            if length <= 0 or end > len(data) or (below is not None and base_offset >= below):
                break
            yield base_offset, data[position:end]
            position = end
