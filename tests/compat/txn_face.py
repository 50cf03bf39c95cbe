"""Transactional clients behind one face, so that a test about transactions is written once.

librdkafka, kafka-python and aiokafka speak the older protocol (TV1), as does Java 3; Java 4 speaks
that of KIP-890 (TV2). A producer that lost its id to another raises `Fenced`, whatever its library
calls that.
"""

from pathlib import Path
from typing import Final, NamedTuple, Protocol

TIMEOUT_S: Final = 30.0
OPEN_MS: Final = 60_000
LEVELS: Final = {True: "read_committed", False: "read_uncommitted"}
Pair = tuple[str, str | None]


class Fenced(Exception):
    """The broker gave the transactional id to another producer."""


class Read(NamedTuple):
    """A partition from its start: key and value of each record, and where the reader stands."""

    records: list[Pair]
    position: int


class TxnProducer(Protocol):
    def init(self) -> None: ...

    def begin(self) -> None: ...

    def send(self, topic: str, key: str, value: str | None, partition: int = 0) -> None: ...

    def flush(self) -> None: ...

    def send_offset(self, group: str, topic: str, offset: int) -> None: ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def vanish(self) -> None:
        """Ends without a word to the broker."""


class TxnClient(Protocol):
    name: str

    def __init__(self, bootstrap: str, work: Path) -> None: ...

    def producer(self, transactional_id: str, timeout_ms: int = OPEN_MS) -> TxnProducer: ...

    def read(self, topic: str, partition: int = 0, *, committed: bool = True) -> Read: ...

    def end(self, topic: str, *, committed: bool) -> int:
        """What ListOffsets calls the end of partition 0."""

    def committed_offset(self, group: str, topic: str) -> int:
        """-1: none."""

    def close(self) -> None: ...
