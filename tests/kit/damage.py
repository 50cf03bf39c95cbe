"""A broker's whole directory, damaged file by file: what the next start says and still serves.

One world is made once: topics with several segments, one of them compacted, transactions, a moved
log start, groups. `cases` names every kind of file in it. A case is judged on a copy of the disk.
"""

import copy
import logging
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from ledgerstone.errors import LedgerstoneError
from ledgerstone.protocol.error_codes import ErrorCode
from ledgerstone.protocol.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
    ListOffsetsResponse,
)
from ledgerstone.records.batch import iter_headers
from ledgerstone.records.control import end_txn_marker
from ledgerstone.records.record import iter_records
from ledgerstone.records.validation import Origin
from ledgerstone.server.http.monitor import readiness
from ledgerstone.sim.dice import SeededDice
from ledgerstone.sim.filesystem import SimFilesystem
from ledgerstone.types import TopicPartition
from tests.kit.in_process import DATA, Client, InProcess
from tests.kit.logs import T0, batch
from tests.unit.server.asks import (
    commit_offset,
    committed_offset,
    create_topic,
    fetch,
    fetched,
    produced,
    write,
)

STOPS = ("clean", "unclean")
WAYS = ("flipped", "truncated", "removed", "foreign", "empty")
FOREIGN = b"This file belongs to somebody else.\n" * 8
WITNESS = "witness"
GROUPS = ("readers", "writers", "others")
_MINUTE_MS = 60_000
# As ListOffsets has it for the log start.
_EARLIEST = -2


class Case(NamedTuple):
    kind: str
    path: str


class Seen(NamedTuple):
    """What clients see: records by partition, offsets by group, times."""

    records: dict[str, list[tuple[int, bytes | None]] | int]
    offsets: dict[str, int | None]
    times: dict[str, tuple[int, int]]


@dataclass(slots=True)
class Verdict:
    """`outcome` is one word for the table; the rest is what it was made of."""

    outcome: str
    said: list[str] = field(default_factory=list)
    seen: Seen | None = None
    readiness: str = ""
    witness_serves: bool = True


class _Heard(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        assert record.exc_info is None, record.getMessage()
        self.lines.append(record.getMessage())


@cache
def world(stop: str) -> InProcess:
    machine = InProcess(settings={"log.segment.bytes": "1048576"})
    client = machine.connect()
    create_topic(client, "orders", retention_ms="-1")
    create_topic(client, "table", cleanup_policy="compact", min_cleanable_dirty_ratio="0.01")
    create_topic(client, WITNESS)
    write(client, "still", "here", topic=WITNESS)
    _fill(machine, client, "orders")
    _fill(machine, client, "table")
    for group in GROUPS:
        assert commit_offset(client, group, 3, WITNESS) == ErrorCode.NONE
    orders = machine.broker.partitions.get(TopicPartition("orders", 0)).log
    orders.raise_log_start_offset(2)
    ticket = machine.broker.cleaning.ask(TopicPartition("table", 0))
    machine.advance(2 * _MINUTE_MS)
    assert ticket.run is not None, ticket
    assert ticket.run.outcome == "cleaned", ticket.run
    for topic in ("orders", "table"):
        write(client, "tail 1", "tail 2", "tail 3", topic=topic)
    # The high watermarks are written down every five seconds.
    machine.advance(10_000)
    if stop == "clean":
        machine.stop()
    else:
        machine.clients.clear()
        machine.fs.kill()
    return machine


def _fill(machine: InProcess, client: Client, topic: str) -> None:
    """Three segments and a tail; the second has an aborted transaction."""
    partition = machine.broker.partitions.get(TopicPartition(topic, 0))
    for segment in range(3):
        for number in range(6):
            pairs = [(f"key {number} {each}", f"{segment}" * 900) for each in range(3)]
            timestamp = T0 + segment * 1000 + number
            assert (
                produced(client, batch(*pairs, timestamp=timestamp), topic).error_code
                == ErrorCode.NONE
            )
        if segment == 1:
            open_txn = batch(
                ("txn", "aborted"),
                producer_id=7,
                producer_epoch=0,
                base_sequence=0,
                transactional=True,
            )
            partition.append(open_txn, acks=1)
            marker = end_txn_marker(
                commit=False, producer_id=7, producer_epoch=0, coordinator_epoch=0, timestamp=T0
            )
            partition.append(marker, acks=1, origin=Origin.COORDINATOR)
        partition.log.roll()
        partition.log.flush()


def cases(stop: str) -> list[Case]:
    """One file of each kind, and of each topic that is treated in a way of its own."""
    found: dict[str, Case] = {}
    fs = world(stop).fs
    for path, content in fs.files().items():
        kind = _kind_of(path)
        # The largest of a kind: an index of the active segment is empty.
        if kind is not None and (kind not in found or len(content) > fs.size_of(found[kind].path)):
            found[kind] = Case(kind, path)
    return [found[kind] for kind in sorted(found)]


def _kind_of(path: str) -> str | None:
    directory, _, name = path.removeprefix(f"{DATA}/").rpartition("/")
    if not directory:
        return None if name == ".lock" else f"`{name}`"
    topic = directory.rpartition("-")[0]
    if topic == WITNESS or directory == "__consumer_offsets-1":
        return None
    about = {
        "orders": "of a topic",
        "table": "of a compacted topic",
        "__consumer_offsets": "of `__consumer_offsets`",
        "__cluster_metadata": "of `__cluster_metadata`",
    }[topic]
    ending = name.rpartition(".")[2] if name[0] == "0" else name
    if ending == "log" and topic in ("orders", "table"):
        # 00…0 and the sealed ones in the middle; the active one is the last.
        names = sorted(each for each in _siblings(path) if each.endswith(".log"))
        which = "first" if name == names[0] else "last" if name == names[-1] else "middle"
        return f"{which} `.log` {about}"
    return f"`.{ending}` {about}" if name[0] == "0" else f"`{ending}` {about}"


def _siblings(path: str) -> list[str]:
    directory = path.rpartition("/")[0]
    for stop in STOPS:
        fs = world(stop).fs
        if fs.exists(path):
            return fs.list_dir(directory)
    return []


def damaged(stop: str, case: Case, way: str, position: int | None = None) -> SimFilesystem:
    fs = world(stop).fs.clone(dice=SeededDice("damage"))
    size = fs.size_of(case.path)
    if way == "removed":
        fs.unlink(case.path)
        return fs
    file = fs.open(case.path)
    match way:
        case "flipped":
            at = size // 2 if position is None else position
            flipped = bytes(each ^ 0x5A for each in file.pread(1, at))
            file.pwrite(flipped, at)
        case "truncated":
            file.truncate(size // 2)
        case "foreign":
            file.truncate(0)
            file.pwrite(FOREIGN, 0)
        case "empty":
            file.truncate(0)
    file.close()
    return fs


def started_on(stop: str, fs: SimFilesystem) -> InProcess:
    """Not started yet: the caller starts it."""
    machine = copy.copy(world(stop))
    machine.fs = fs
    machine.clock = copy.copy(machine.clock)
    machine.clients = {}
    machine.trace = []
    machine.take_its_own_hands()
    return machine


def judge(stop: str, fs: SimFilesystem, path: str) -> Verdict:
    """Starts on the disk, reads all there is, lets time pass, and looks who said what."""
    heard = _Heard()
    logger = logging.getLogger("ledgerstone")
    logger.addHandler(heard)
    propagates, logger.propagate = logger.propagate, False
    try:
        machine = started_on(stop, fs)
        try:
            machine.start()
        except LedgerstoneError as error:
            return Verdict("refuses to start", [str(error)])
        seen = look(machine)
        # Long enough for every job to have had its first turn, retention among them.
        machine.advance(31_000)
        page = str(readiness(machine.broker).body)
        serves = _witness_serves(machine)
        return Verdict(_outcome(machine, heard.lines, path), heard.lines, seen, page, serves)
    finally:
        logger.removeHandler(heard)
        logger.propagate = propagates


def look(machine: InProcess) -> Seen:
    client = machine.connect()
    topics = [each for each in machine.broker.image.topics if not each.startswith("__")]
    records = {topic: _read(client, topic) for topic in topics}
    times = {topic: _offset_for(client, topic, T0 + 1003) for topic in topics}
    offsets = {group: committed_offset(client, group) for group in GROUPS}
    return Seen(records, offsets, times)


def _read(client: Client, topic: str) -> list[tuple[int, bytes | None]] | int:
    """Every record from the log start on, fetch by fetch; or the code that came instead."""
    found: list[tuple[int, bytes | None]] = []
    error_code, offset = _offset_for(client, topic, _EARLIEST)
    if error_code:
        return error_code
    while True:
        answer = fetched(client, fetch({0: offset}, topic, partition_max_bytes=4000))
        if answer.error_code:
            return answer.error_code
        assert isinstance(answer.records, bytes | memoryview) or answer.records is None
        data = bytes(answer.records or b"")
        if not data:
            return found
        for position, header in iter_headers(data):
            if not header.is_control:
                for record in iter_records(data, position):
                    value = record.value
                    found.append((record.offset, None if value is None else bytes(value)))
            offset = header.next_offset


def _offset_for(client: Client, topic: str, timestamp: int) -> tuple[int, int]:
    asked = ListOffsetsRequestPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsRequestTopic(name=topic, partitions=[asked])]
    )
    answer = client.ask(request, ListOffsetsResponse, 5).topics[0].partitions[0]
    return answer.error_code, answer.offset


def _witness_serves(machine: InProcess) -> bool:
    client = machine.connect()
    if produced(client, batch(("key", "new")), WITNESS).error_code:
        return False
    records = _read(client, WITNESS)
    return isinstance(records, list) and [value for _, value in records][-3:] == [
        b"still",
        b"here",
        b"new",
    ]


def _outcome(machine: InProcess, lines: list[str], path: str) -> str:
    broker = machine.broker
    outcomes = [note.outcome for note in broker.log_dir.notes.open_notes()]
    name = path.rpartition("/")[2]
    told = any(name in line for line in lines)
    if "offline" in outcomes or broker.partitions.offline:
        return "offline"
    if "read-only" in outcomes:
        return "read-only"
    if "cut" in outcomes:
        return "cut, red"
    if outcomes:
        return "told, red"
    if any(line.startswith("log cut") for line in lines) and told:
        return "cut, a line"
    return "rebuilt, a line" if told else "nothing"


@cache
def verdict_on(stop: str, case: Case, way: str) -> Verdict:
    return judge(stop, damaged(stop, case, way), case.path)
