"""A compacted topic under way whose broker or cleaning worker is killed, again and again.

Every record carries a serial number in a header, so that it is known wherever it is found. The
story keeps what was acknowledged and what has been seen, and knows what may be in the log:

- what was acknowledged is there under its offset, or a later record of its key was written;
- what a reader no longer found never comes back;
- a key whose last record is a tombstone is deleted for whoever reads from the start.
"""

from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from ledgerstone.client.admin import NewTopic, create_topic
from ledgerstone.client.blocking import Client
from ledgerstone.client.cluster import Endpoint
from ledgerstone.client.consumer import records_of
from ledgerstone.client.fetcher import Fetcher
from ledgerstone.client.producer import NewRecord, Placed, Producer
from ledgerstone.client.session import SessionConfig
from ledgerstone.errors import LedgerstoneError
from ledgerstone.storage.dump import dump_path
from ledgerstone.storage.dump_facts import Problem
from ledgerstone.storage.dump_log import DumpOptions
from ledgerstone.system import OsFilesystem
from ledgerstone.types import INT64_MAX, TopicPartition
from tests.kit.broker import BrokerProcess

TOPIC: Final = "story"
TP: Final = TopicPartition(TOPIC, 0)
KEYS: Final = 40
RECORDS_PER_SEND: Final = 6
# Small segments, so that a pass has several groups; passes come only when they are asked for, so
# that what was in doubt when the broker died is found before anything can remove it.
CONFIGS: Final = {
    "cleanup.policy": "compact",
    "segment.bytes": "4000",
    "min.cleanable.dirty.ratio": "1.0",
    "delete.retention.ms": "0",
    "file.delete.delay.ms": "0",
}
SETTINGS: Final = {"ledgerstone.cleaner.finish.deletes": "false"}


class Written(NamedTuple):
    key: bytes
    value: bytes | None


class Found(NamedTuple):
    offset: int
    serial: int
    written: Written


def connect(broker: BrokerProcess, call_timeout_ms: int = 30_000) -> Client:
    host, _, port = broker.bootstrap.rpartition(":")
    config = SessionConfig(call_timeout_ms=call_timeout_ms, reach_timeout_ms=call_timeout_ms)
    return Client([Endpoint(host, int(port))], config)


@dataclass(slots=True)
class KillStory:
    broker: BrokerProcess
    dice: Random
    written: list[Written] = field(default_factory=list)
    acked: dict[int, int] = field(default_factory=dict)  # offset to serial
    # Offsets a reader found last time, and where the log ended then.
    visible: dict[int, None] = field(default_factory=dict)
    seen_up_to: int = 0
    # Keys that were deleted and are never written again.
    buried: int = 0

    def begin(self) -> None:
        with connect(self.broker) as client:
            create_topic(client, NewTopic(name=TOPIC, partitions=1, configs=CONFIGS))

    # -- writing ------------------------------------------------------------------------------

    def write(self, producer: Producer) -> bool:
        """One batch; False when it was not acknowledged."""
        serials = [self._new_record() for _ in range(RECORDS_PER_SEND)]
        try:
            outcomes = producer.send([self._to_send(serial) for serial in serials])
        except (LedgerstoneError, OSError):
            return False
        for serial, outcome in zip(serials, outcomes, strict=True):
            if not isinstance(outcome, Placed):
                return False
            self.acked[outcome.offset] = serial
        return True

    def _new_record(self) -> int:
        serial = len(self.written)
        if serial % 10 == 0:
            # Lives for one record in ten, and is deleted for good by the next.
            self.written.append(Written(b"once-%d" % self.buried, b"x" * 60))
        elif serial % 10 == 7:
            self.written.append(Written(b"once-%d" % self.buried, None))
            self.buried += 1
        else:
            key = b"key-%d" % self.dice.randrange(KEYS)
            is_delete = self.dice.random() < 0.3
            value = None if is_delete else b"%d " % serial * self.dice.randrange(1, 30)
            self.written.append(Written(key, value))
        return serial

    def _to_send(self, serial: int) -> NewRecord:
        key, value = self.written[serial]
        return NewRecord(TOPIC, key, value, headers=(("serial", b"%d" % serial),))

    # -- checking -----------------------------------------------------------------------------

    def check(self) -> None:
        """While there are no writes and no pass is running."""
        found, end_offset = self._read_all()
        self._check_records(found)
        self._check_nothing_returned(found)
        self._check_last_values(found)
        assert end_offset > max(self.acked, default=-1), "an acknowledged record is lost"
        self.visible = dict.fromkeys(each.offset for each in found)
        self.seen_up_to = end_offset

    def _read_all(self) -> tuple[list[Found], int]:
        found = []
        end_offset = 0
        with connect(self.broker) as client:
            client.topic(TOPIC)
            for fetched in Fetcher(client).read_range(TP, 0, INT64_MAX):
                end_offset = fetched.next_offset
                for record in records_of(fetched):
                    ((_, serial),) = record.headers
                    written = Written(
                        bytes(record.key or b""),
                        None if record.value is None else bytes(record.value),
                    )
                    found.append(Found(record.offset, int(bytes(serial or b"")), written))
        return found, end_offset

    def _check_records(self, found: list[Found]) -> None:
        previous = -1
        for offset, serial, written in found:
            assert offset > previous, f"offset {offset} follows {previous}"
            previous = offset
            assert self.written[serial] == written, f"offset {offset} holds {written}"
            # What was in doubt and is there counts from now on.
            assert self.acked.setdefault(offset, serial) == serial, f"offset {offset} has moved"

    def _check_nothing_returned(self, found: list[Found]) -> None:
        back = [
            each.offset
            for each in found
            if each.offset < self.seen_up_to and each.offset not in self.visible
        ]
        assert not back, f"offsets {back} were gone and came back"

    def _check_last_values(self, found: list[Found]) -> None:
        last: dict[bytes, int] = {}
        for offset in sorted(self.acked):
            last[self.written[self.acked[offset]].key] = offset
        in_log = {each.written.key: each.offset for each in found}
        for key, offset in last.items():
            _, value = self.written[self.acked[offset]]
            if key in in_log:
                assert in_log[key] == offset, f"{key!r} ends at {in_log[key]}, not at {offset}"
            else:
                assert value is None, f"{key!r} at {offset} is lost"

    def check_files(self) -> None:
        """After a pass that came to its end."""
        directory = self.directory
        left = [path.name for path in directory.iterdir() if path.suffix in (".cleaned", ".swap")]
        assert not left, f"left behind: {left}"
        problems = [
            fact
            for fact in dump_path(OsFilesystem(), str(directory), DumpOptions(verify=True))
            # What waits for its unlinking may go while it is looked at, and a snapshot that was
            # being written when the broker died is thrown away when it would be needed.
            if isinstance(fact, Problem) and not fact.path.endswith((".deleted", ".snapshot"))
        ]
        assert not problems, problems

    def deleted_files(self) -> list[str]:
        return [path.name for path in self.directory.iterdir() if path.suffix == ".deleted"]

    @property
    def directory(self) -> Path:
        return self.broker.data / f"{TOPIC}-0"
