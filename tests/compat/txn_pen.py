"""Requests about one transaction, in order.

A `Script` has a transactional id and a topic of its own, so that scripts do not meet. Its steps are
written with a `Pen`, which fills in what the broker gave: `pid` and `epoch` are those of the last
InitProducerId or EndTxn that was answered without an error. `settled` waits until the coordinator
has finished with its markers: Kafka answers CONCURRENT_TRANSACTIONS until then, for as long as its
sender thread takes, and a race is nothing to compare.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from ledgerstone.records.builder import build_batch
from tests.compat.both_brokers import Case, FromSide, Side

T0: Final = 1_700_000_000_000
TIMEOUT_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class Step:
    """One request in one version; without a case, only waits for the coordinator."""

    label: str
    version: int = 0
    case: Case | None = None


@dataclass(slots=True)
class Pen:
    """Writes the steps of one script. `pid` and `epoch` of a step count from the true ones."""

    name: str
    steps: list[Step] = field(default_factory=list)
    # Where scripts share one.
    own_topic: str | None = None

    @property
    def tid(self) -> str:
        return f"id of {self.name}"

    @property
    def topic(self) -> str:
        return self.own_topic or "".join(each if each.isalnum() else "-" for each in self.name)

    @property
    def group(self) -> str:
        return f"group of {self.name}"

    def pid(self, delta: int = 0) -> FromSide:
        return FromSide(lambda side, _: side.known.get(f"pid {self.name}", 7_000_000) + delta)

    def epoch(self, delta: int = 0) -> FromSide:
        return FromSide(lambda side, _: side.known.get(f"epoch {self.name}", 0) + delta)

    def ask(self, label: str, api: str, version: int, fields: dict[str, Any]) -> None:
        self.steps.append(
            Step(f"{len(self.steps)} {label}", version, Case(label, api, fields, keep=()))
        )

    def settled(self) -> None:
        self.steps.append(Step(f"{len(self.steps)} settled"))

    # -- the coordinator ---------------------------------------------------------------------------

    def init(self, version: int = 4, **more: Any) -> None:
        fields = {"transactional_id": self.tid, "transaction_timeout_ms": TIMEOUT_MS}
        self.ask(f"init {_said(more)}", "InitProducerId", version, fields | more)

    def expecting(self, version: int = 4, *, pid: int = 0, epoch: int = 0) -> None:
        """InitProducerId of a client that knows its id and epoch."""
        fields = {
            "transactional_id": self.tid,
            "transaction_timeout_ms": TIMEOUT_MS,
            "producer_id": self.pid(pid),
            "producer_epoch": self.epoch(epoch),
        }
        self.ask(f"init, expects pid{pid:+} epoch{epoch:+}", "InitProducerId", version, fields)

    def add(
        self,
        *partitions: int,
        version: int = 3,
        pid: int = 0,
        epoch: int = 0,
        topics: Sequence[tuple[str, Sequence[int]]] | None = None,
        verify_only: bool = False,
        tid: str | None = None,
    ) -> None:
        asked = [(self.topic, partitions)] if topics is None else topics
        named = [{"name": name, "partitions": list(numbers)} for name, numbers in asked]
        one = {
            "transactional_id": self.tid if tid is None else tid,
            "producer_id": self.pid(pid),
            "producer_epoch": self.epoch(epoch),
            "topics": named,
        }
        old = {f"v3_and_below_{key}": value for key, value in one.items()}
        fields = old | {"transactions": [one | {"verify_only": verify_only}]}
        verb = "verify" if verify_only else "add"
        label = f"{verb} {[(name, list(n)) for name, n in asked]} pid{pid:+} epoch{epoch:+}"
        self.ask(f"{label} v{version}", "AddPartitionsToTxn", version, fields)

    def add_offsets(self, version: int = 4, *, pid: int = 0, epoch: int = 0, **more: Any) -> None:
        fields = {
            "transactional_id": self.tid,
            "producer_id": self.pid(pid),
            "producer_epoch": self.epoch(epoch),
            "group_id": self.group,
        }
        label = f"add offsets pid{pid:+} epoch{epoch:+} {_said(more)}"
        self.ask(label, "AddOffsetsToTxn", version, fields | more)

    def end(
        self, committed: bool, version: int = 4, *, pid: int = 0, epoch: int = 0, **more: Any
    ) -> None:
        fields = {
            "transactional_id": self.tid,
            "producer_id": self.pid(pid),
            "producer_epoch": self.epoch(epoch),
            "committed": committed,
        }
        label = f"{'commit' if committed else 'abort'} v{version} pid{pid:+} epoch{epoch:+}"
        self.ask(f"{label} {_said(more)}", "EndTxn", version, fields | more)

    def describe(self) -> None:
        self.ask("describe", "DescribeTransactions", 0, {"transactional_ids": [self.tid]})

    # -- partitions --------------------------------------------------------------------------------

    def produce(
        self,
        version: int = 11,
        *,
        partition: int = 0,
        sequence: int = 0,
        count: int = 1,
        pid: int = 0,
        epoch: int = 0,
        transactional: bool = True,
        **more: Any,
    ) -> None:
        fields = {
            "transactional_id": self.tid,
            "acks": -1,
            "timeout_ms": 5000,
            "topic_data": [
                {
                    "name": self.topic,
                    "partition_data": [
                        {
                            "index": partition,
                            "records": self._batch(count, sequence, pid, epoch, transactional),
                        }
                    ],
                }
            ],
        }
        label = f"produce v{version} to {partition} sequence {sequence} pid{pid:+} epoch{epoch:+}"
        self.ask(f"{label} {_said(more)}", "Produce", version, fields | more)

    def _batch(
        self, count: int, sequence: int, pid: int, epoch: int, transactional: bool
    ) -> FromSide:
        get_pid, get_epoch = self.pid(pid).get, self.epoch(epoch).get

        def build(side: Side, version: int) -> bytearray:
            return build_batch(
                [(T0 + each, b"k%d" % each, b"v", ()) for each in range(count)],
                producer_id=get_pid(side, version),
                producer_epoch=get_epoch(side, version),
                base_sequence=sequence,
                transactional=transactional,
            )

        return FromSide(build)

    def read(self, partition: int = 0, offset: int = 0, *, isolation: int = 1) -> None:
        asked = {"partition": partition, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
        fields = {
            "max_bytes": 1 << 20,
            "isolation_level": isolation,
            "topics": [{"topic": self.topic, "partitions": [asked]}],
        }
        self.ask(f"fetch from {offset} isolation {isolation}", "Fetch", 12, fields)

    def ends(self, partition: int = 0, *, timestamp: int = -1) -> None:
        for isolation in (0, 1):
            asked = {"partition_index": partition, "timestamp": timestamp}
            fields = {
                "replica_id": -1,
                "isolation_level": isolation,
                "topics": [{"name": self.topic, "partitions": [asked]}],
            }
            self.ask(f"offset of {timestamp}, isolation {isolation}", "ListOffsets", 7, fields)

    def producers(self, *partitions: int) -> None:
        fields = {"topics": [{"name": self.topic, "partition_indexes": list(partitions)}]}
        self.ask("producers", "DescribeProducers", 0, fields)

    def mark(
        self,
        committed: bool,
        *partitions: int,
        version: int = 1,
        pid: int = 0,
        epoch: int = 0,
        coordinator_epoch: int = 0,
        topic: str | None = None,
        **more: Any,
    ) -> None:
        name = self.topic if topic is None else topic
        marker = {
            "producer_id": self.pid(pid),
            "producer_epoch": self.epoch(epoch),
            "transaction_result": committed,
            "topics": [{"name": name, "partition_indexes": list(partitions)}],
            "coordinator_epoch": coordinator_epoch,
        }
        label = f"mark {committed} {name} {partitions} epoch{epoch:+} by {coordinator_epoch}"
        fields = {"markers": [marker | more]}
        self.ask(f"{label} {_said(more)}", "WriteTxnMarkers", version, fields)

    # -- groups ------------------------------------------------------------------------------------

    def commit_offset(
        self,
        offset: int = 5,
        version: int = 3,
        *,
        pid: int = 0,
        epoch: int = 0,
        topic: str | None = None,
        metadata: str | None = "",
        **more: Any,
    ) -> None:
        asked = {"partition_index": 0, "committed_offset": offset, "committed_metadata": metadata}
        fields = {
            "transactional_id": self.tid,
            "group_id": self.group,
            "producer_id": self.pid(pid),
            "producer_epoch": self.epoch(epoch),
            "topics": [{"name": topic or self.topic, "partitions": [asked]}],
        }
        label = f"commit offset {offset} v{version} pid{pid:+} epoch{epoch:+} {_said(more)}"
        self.ask(label, "TxnOffsetCommit", version, fields | more)

    def offset(self, *, group: str | None = None) -> None:
        topics = [{"name": self.topic, "partition_indexes": [0]}]
        for stable in (False, True):
            fields = {
                "require_stable": stable,
                "groups": [{"group_id": group or self.group, "topics": topics}],
            }
            self.ask(f"offset, stable {stable}", "OffsetFetch", 8, fields)


def _said(more: dict[str, Any]) -> str:
    return " ".join(
        f"{key}={'…' if isinstance(value, FromSide) else value}" for key, value in more.items()
    )


@dataclass(frozen=True, slots=True)
class Script:
    name: str
    topic: str
    tid: str
    group: str
    steps: tuple[Step, ...]


def script(name: str, write: Callable[[Pen], None], topic: str | None = None) -> Script:
    pen = Pen(name, own_topic=topic)
    write(pen)
    return Script(pen.name, pen.topic, pen.tid, pen.group, tuple(pen.steps))


def each_version(name: str, write: Callable[..., None], versions: Iterable[int]) -> list[Script]:
    return [script(f"{name} v{each}", partial(write, version=each)) for each in versions]
