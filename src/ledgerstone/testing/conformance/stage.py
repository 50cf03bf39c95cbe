"""The stage of a scenario: a topic, a consumer, and the state the consumer should have. Shell.

At the end of each step a *fence* is written to every partition: a special key with a new value.
Partitions are read in order, so a consumer that shows all fences has seen everything before them,
and a state that is right only because it is old does not pass.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ledgerstone.client.offsets import LATEST, list_offsets
from ledgerstone.dataclasses import dataclass
from ledgerstone.testing.broker import LedgerstoneBroker
from ledgerstone.testing.conformance.driving import Driver
from ledgerstone.testing.conformance.task import ConsumerTask, State
from ledgerstone.testing.findings import difference, lines_of, show
from ledgerstone.testing.settings import Setting
from ledgerstone.types import TopicPartition

CODECS: Final = ("gzip", "snappy", "lz4", "zstd")

_GHOST: Final = (
    "is a ghost: it was deleted while the consumer was away, and the tombstone was removed after "
    "delete.retention.ms, before the consumer came back. It is never delivered again. A consumer "
    "that was away for so long must drop its state and read from the start"
)


class NotConforming(AssertionError):
    """The consumer's state does not match the topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioOptions:
    """Converts keys and values of a scenario to bytes that the consumer understands."""

    make_key: Callable[[str], bytes] = str.encode
    make_value: Callable[[str], bytes] = str.encode
    codecs: Sequence[str] = CODECS


class ScenarioStage:
    def __init__(
        self, cluster: LedgerstoneBroker, driver: Driver, options: ScenarioOptions
    ) -> None:
        self.cluster = cluster
        self.options = options
        self._driver = driver
        self._task = ConsumerTask(
            bootstrap=cluster.bootstrap, topic="", group="", http=cluster.http
        )
        self._partitions = 1
        self._steps = 0
        # Keys whose tombstone was removed while the consumer was away.
        self._unheard: list[bytes] = []

    @property
    def topic(self) -> str:
        return self._task.topic

    def open_topic(self, name: str, *, partitions: int = 1, **configs: Setting) -> None:
        self._partitions = partitions
        self._task.topic = self.cluster.topic(
            name, compacted=True, partitions=partitions, **configs
        )
        self._task.group = f"conformance-{self._task.topic}"

    # -- what happens to the topic --------------------------------------------------------------

    def key(self, name: str) -> bytes:
        return self.options.make_key(name)

    def value(self, text: str) -> bytes:
        return self.options.make_value(text)

    def put(self, name: str, text: str, *, partition: int = 0) -> None:
        self.cluster.produce(self.topic, self.key(name), self.value(text), partition=partition)

    def delete(
        self, name: str, *, headers: Mapping[str, bytes] | None = None, partition: int = 0
    ) -> None:
        pairs = list((headers or {}).items())
        self.cluster.tombstone(self.topic, self.key(name), headers=pairs, partition=partition)

    def transaction(self, changes: Mapping[str, str | None], *, commit: bool) -> None:
        self.cluster.transaction(self.topic, self._pairs(changes), commit=commit)

    def begin(self, transactional_id: str) -> "StagedTransaction":
        """A transaction that goes on while other things happen."""
        return StagedTransaction(self, f"{self.topic}-{transactional_id}")

    def batch(self, changes: Sequence[tuple[str, str | None]], *, codec: str) -> None:
        pairs = [pair for change in changes for pair in self._pairs(dict([change]))]
        self.cluster.produce_batch(self.topic, pairs, codec=codec, partition=0)

    def _pairs(self, changes: Mapping[str, str | None]) -> list[tuple[bytes, bytes | None]]:
        return [
            (self.key(name), None if text is None else self.value(text))
            for name, text in changes.items()
        ]

    # -- what happens to the consumer -----------------------------------------------------------

    def stop_consumer(self) -> None:
        self._driver.stop()

    def forget(self, *names: str) -> None:
        """The tombstones of these keys are removed before the consumer comes back."""
        self.cluster.finish_deletes(self.topic)
        for name in names:
            self.cluster.assert_gone(self.topic, self.key(name))
            self._unheard.append(self.key(name))

    def read(self) -> State:
        """The consumer's state when it has read everything, without fences."""
        self._steps += 1
        fences = {}
        for number in range(self._partitions):
            key, value = self.key(f"fence-{number}"), self.value(f"fence-{self._steps}")
            self.cluster.produce(self.topic, key, value, partition=number)
            fences[key] = value
        self._task.end_offsets = self._ends()
        state = self._driver.read(self._task, fences)
        return {key: value for key, value in state.items() if key not in fences}

    def _ends(self) -> dict[int, int]:
        wanted = [TopicPartition(self.topic, number) for number in range(self._partitions)]
        with self.cluster.client() as client:
            listed = list_offsets(client, dict.fromkeys(wanted, LATEST))
        return {each.partition: listed[each].offset for each in wanted}

    def expect(self, expected: Mapping[str, str]) -> None:
        self.expect_bytes({self.key(name): self.value(text) for name, text in expected.items()})

    def expect_bytes(self, expected: State) -> None:
        found = self.read()
        ghosts = [key for key in self._unheard if key in found and key not in expected]
        rest = {key: value for key, value in found.items() if key not in ghosts}
        lines = [f"{show(key)} {_GHOST}" for key in ghosts] + difference(rest, expected)
        if lines:
            raise NotConforming(
                f"in step {self._steps} the consumer's state is wrong:\n{lines_of(lines)}"
            )


class StagedTransaction:
    def __init__(self, stage: ScenarioStage, transactional_id: str) -> None:
        self._stage = stage
        self._open = stage.cluster.begin(transactional_id)

    def put(self, name: str, text: str) -> None:
        stage = self._stage
        self._open.produce(stage.topic, stage.key(name), stage.value(text), partition=0)

    def delete(self, name: str) -> None:
        self._open.tombstone(self._stage.topic, self._stage.key(name), partition=0)

    def commit(self) -> None:
        self._open.commit()

    def abort(self) -> None:
        self._open.abort()
