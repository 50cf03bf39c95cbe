"""Kafka's Java clients behind the face of transactional clients."""

import itertools
from pathlib import Path
from typing import Final

from golden.java_client import OLD_VERSION, JavaClients, JavaError, fetch_client_jars
from golden.kafka_tools import KAFKA_VERSION
from tests.compat.txn_face import LEVELS, OPEN_MS, Fenced, Read

_NUMBERS = itertools.count()
_JAVA_FENCED: Final = ("ProducerFencedException", "InvalidProducerEpochException")


class JavaProducer:
    def __init__(self, process: JavaClients, transactional_id: str, timeout_ms: int) -> None:
        self._process = process
        # Two producers may have one transactional id.
        self._name = f"{transactional_id}#{next(_NUMBERS)}"
        self._ask("producer", str(timeout_ms))

    def _ask(self, command: str, *words: str) -> list[str]:
        try:
            return self._process.ask(command, self._name, *words)
        except JavaError as error:
            if error.name in _JAVA_FENCED or "fenced" in str(error).lower():
                raise Fenced(str(error)) from error
            raise

    def init(self) -> None:
        self._ask("init")

    def begin(self) -> None:
        self._ask("begin")

    def send(self, topic: str, key: str, value: str | None, partition: int = 0) -> None:
        self._ask("send", topic, str(partition), key, "-" if value is None else value)

    def flush(self) -> None:
        self._ask("flush")

    def send_offset(self, group: str, topic: str, offset: int) -> None:
        self._ask("offsets", group, topic, "0", str(offset))

    def commit(self) -> None:
        self._ask("commit")

    def abort(self) -> None:
        self._ask("abort")

    def vanish(self) -> None:
        self._ask("close")


class Java:
    """The library of version 4."""

    name = "java"
    version = KAFKA_VERSION

    def __init__(self, bootstrap: str, work: Path) -> None:
        log = work / f"java-{next(_NUMBERS)}.log"
        self._process = JavaClients(fetch_client_jars(self.version), bootstrap, log)
        self._process.start()

    def producer(self, transactional_id: str, timeout_ms: int = OPEN_MS) -> JavaProducer:
        return JavaProducer(self._process, transactional_id, timeout_ms)

    def read(self, topic: str, partition: int = 0, *, committed: bool = True) -> Read:
        position, *words = self._process.ask("read", LEVELS[committed], topic, str(partition))
        values = [None if each == "-" else each for each in words[1::2]]
        return Read(list(zip(words[::2], values, strict=True)), int(position))

    def end(self, topic: str, *, committed: bool) -> int:
        return int(self._process.ask("end", LEVELS[committed], topic, "0")[0])

    def committed_offset(self, group: str, topic: str) -> int:
        return int(self._process.ask("committed", group, topic, "0")[0])

    def close(self) -> None:
        self._process.kill()


class JavaOld(Java):
    """The library of version 3, which never speaks TV2."""

    name = "java-3"
    version = OLD_VERSION
