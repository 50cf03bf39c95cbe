"""Threads that use the cluster while it suffers, and write down what they saw. Shell.

Every record carries an id of its own: in its value, or in a header if it is a tombstone.
"""

import random
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bench.nemesis.recorder import Recorder
from ledgerstone.client.blocking import Client
from ledgerstone.client.cluster import Endpoint
from ledgerstone.client.session import SessionConfig
from ledgerstone.types import TopicPartition

LOG: Final = "log"
TABLE: Final = "table"
LOG_PARTITIONS: Final = 3
TABLE_PARTITIONS: Final = 2
KEYS: Final = 40
ID_HEADER: Final = "id"
# Pauses between the calls of one client: the machine is small, and faults are what is tested.
PAUSE_S: Final = 0.03
CALL_TIMEOUT_MS: Final = 8_000
# As our client and librdkafka hand them out.
Headers = Mapping[str, str | bytes | None] | Sequence[tuple[str, str | bytes | None]] | None


class Worker(threading.Thread):
    """Calls `turn` until it is stopped. An exception that `turn` does not expect is a complaint."""

    def __init__(self, name: str, bootstrap: str, recorder: Recorder, seed: int) -> None:
        super().__init__(name=name, daemon=True)
        self.bootstrap = bootstrap
        self.recorder = recorder
        self.dice = random.Random(f"{seed}/{name}")
        self.client_name = name
        self._is_over = threading.Event()
        self._number = 0
        self._lives = 0

    def run(self) -> None:
        try:
            while not self._is_over.wait(PAUSE_S):
                self.turn()
        except Exception as error:  # noqa: BLE001
            self.recorder.complain(f"{self.name} ended: {type(error).__name__}: {error}")
        finally:
            self.close()

    def turn(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """What must be closed in this thread."""

    def end(self) -> None:
        self._is_over.set()

    def new_life(self) -> None:
        """The same worker under another name: nothing orders its records with earlier ones."""
        self._lives += 1
        self.client_name = f"{self.name}.{self._lives}"

    def new_id(self) -> str:
        self._number += 1
        return f"{self.name}-{self._number}"


@dataclass(frozen=True, slots=True)
class Write:
    """A record that is about to be sent."""

    place: TopicPartition
    id: str
    key: str | None
    deletes: bool
    order: int

    @property
    def value(self) -> bytes | None:
        return None if self.deletes else self.id.encode()

    @property
    def headers(self) -> list[tuple[str, bytes | None]]:
        return [(ID_HEADER, self.id.encode())] if self.deletes else []

    @property
    def key_bytes(self) -> bytes | None:
        return None if self.key is None else self.key.encode()


class Writer(Worker):
    """Draws what to write: appends to the log, puts and deletes in the table."""

    _order = 0

    def draw_appends(self, count: int, partitions: Iterable[int] | None = None) -> list[Write]:
        numbers = list(partitions or [self.dice.randrange(LOG_PARTITIONS)])
        places = [TopicPartition(LOG, self.dice.choice(numbers)) for _ in range(count)]
        return [self._write(each, None, False) for each in places]

    def draw_table_writes(self, count: int) -> list[Write]:
        """Keys of this worker alone: no other one writes them."""
        found = []
        for _ in range(count):
            number = self.dice.randrange(KEYS)
            place = TopicPartition(TABLE, number % TABLE_PARTITIONS)
            deletes = self.dice.random() < 0.3
            found.append(self._write(place, f"{self.name}-k{number}", deletes))
        return found

    def _write(self, place: TopicPartition, key: str | None, deletes: bool) -> Write:
        self._order += 1
        return Write(place, self.new_id(), key, deletes, self._order)


def id_of(value: bytes | None, headers: Headers) -> str:
    if value is not None:
        return value.decode()
    pairs = headers.items() if isinstance(headers, Mapping) else headers or ()
    for name, found in pairs:
        if name == ID_HEADER and isinstance(found, bytes):
            return found.decode()
    return "no id"


def endpoints(bootstrap: str) -> list[Endpoint]:
    pairs = (each.rsplit(":", 1) for each in bootstrap.split(","))
    return [Endpoint(host, int(port)) for host, port in pairs]


def our_client(bootstrap: str, name: str, timeout_ms: int = CALL_TIMEOUT_MS) -> Client:
    config = SessionConfig(
        client_id=name,
        call_timeout_ms=timeout_ms,
        reach_timeout_ms=timeout_ms,
        metadata_max_age_ms=5_000,
    )
    return Client(endpoints(bootstrap), config)


def log_places() -> Iterator[TopicPartition]:
    return (TopicPartition(LOG, number) for number in range(LOG_PARTITIONS))


def all_places() -> Iterator[TopicPartition]:
    yield from log_places()
    yield from (TopicPartition(TABLE, number) for number in range(TABLE_PARTITIONS))


def confluent_settings(bootstrap: str, name: str, **more: object) -> Mapping[str, object]:
    return {
        "bootstrap.servers": bootstrap,
        "client.id": name,
        "log_level": 0,
        "socket.timeout.ms": CALL_TIMEOUT_MS,
        "socket.connection.setup.timeout.ms": 3_000,
        "reconnect.backoff.max.ms": 500,
        "retry.backoff.max.ms": 200,
        "topic.metadata.refresh.interval.ms": 5_000,
        **{key.replace("_", "."): value for key, value in more.items()},
    }
