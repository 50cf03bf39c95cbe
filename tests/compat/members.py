"""Group members of three clients behind one face, and a program that is one such member.

A member polls when it is told to and says what it was assigned and what it read. As a program
(`python -m tests.compat.members`) it can be killed, which is how a member goes without a goodbye.
"""

import asyncio
import json
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, Protocol

import aiokafka
import confluent_kafka
import kafka

from tests.kit import kafka_python
from tests.kit.broker import wait_until

SESSION_TIMEOUT_MS: Final = 1500
HEARTBEAT_MS: Final = 200
# A broker that was killed is back in a second; by default clients wait up to half a minute.
RECONNECT_MAX_MS: Final = 200
POLL_S: Final = 0.1
# kafka-python 3.0.12 loses its assignment when a poll times out just as the SyncGroup response
# comes. Its metadata arrive a tenth of a second after a subscription: no poll may end then.
KAFKA_PYTHON_POLL_S: Final = 0.37


class Got(NamedTuple):
    partition: int
    offset: int
    value: bytes | None


class Member(Protocol):
    name: str
    # How often partitions were taken away from this member.
    revocations: int

    def __init__(
        self, bootstrap: str, group: str, topic: str, instance_id: str | None = None
    ) -> None: ...

    def poll(self) -> list[Got]: ...

    def assigned(self) -> list[int]: ...

    def commit(self) -> None: ...

    def leave(self) -> None: ...


class ConfluentMember:
    name = "confluent-kafka"

    def __init__(
        self, bootstrap: str, group: str, topic: str, instance_id: str | None = None
    ) -> None:
        self.revocations = 0
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            "heartbeat.interval.ms": HEARTBEAT_MS,
            "topic.metadata.refresh.interval.ms": 500,
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": RECONNECT_MAX_MS,
            "log_level": 0,
        }
        if instance_id is not None:
            settings["group.instance.id"] = instance_id
        self.consumer = confluent_kafka.Consumer(settings)
        self.consumer.subscribe([topic], on_revoke=self._revoked)

    def _revoked(self, *_: object) -> None:
        self.revocations += 1

    def poll(self) -> list[Got]:
        got = []
        for message in self.consumer.consume(100, POLL_S):
            error = message.error()
            if error is not None:
                raise confluent_kafka.KafkaException(error)
            got.append(Got(message.partition() or 0, message.offset() or 0, message.value()))
        return got

    def assigned(self) -> list[int]:
        return sorted(each.partition for each in self.consumer.assignment())

    def commit(self) -> None:
        self.consumer.commit(asynchronous=False)

    def leave(self) -> None:
        self.consumer.close()


class KafkaPythonMember:
    name = "kafka-python"

    def __init__(
        self, bootstrap: str, group: str, topic: str, instance_id: str | None = None
    ) -> None:
        self.revocations = 0
        self.consumer = kafka_python.consumer(
            bootstrap,
            group_id=group,
            group_instance_id=instance_id,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            reconnect_backoff_max_ms=RECONNECT_MAX_MS,
        )
        try:
            # A leader that joins before it has heard of the topic assigns nothing, and if the
            # topic comes in the middle of that it does not notice.
            self.consumer.partitions_for_topic(topic)
            self.consumer.subscribe([topic], listener=_CountRevocations(self))
        except BaseException:
            self.consumer.close()
            raise

    def poll(self) -> list[Got]:
        polled = self.consumer.poll(timeout_ms=int(KAFKA_PYTHON_POLL_S * 1000))
        return [_got(message) for messages in polled.values() for message in messages]

    def assigned(self) -> list[int]:
        return sorted(each.partition for each in self.consumer.assignment())

    def commit(self) -> None:
        self.consumer.commit()

    def leave(self) -> None:
        self.consumer.close()


class AioKafkaMember:
    """Its loop runs in a thread, so that it can be polled like the others."""

    name = "aiokafka"

    def __init__(
        self, bootstrap: str, group: str, topic: str, instance_id: str | None = None
    ) -> None:
        self.revocations = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        try:
            self.consumer = self._run(self._start(bootstrap, group, topic, instance_id))
        except BaseException:
            self._end_the_loop()
            raise

    def _run(self, call: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(call, self._loop).result(30)

    async def _start(
        self, bootstrap: str, group: str, topic: str, instance_id: str | None
    ) -> aiokafka.AIOKafkaConsumer:
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=bootstrap,
            group_id=group,
            group_instance_id=instance_id,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            metadata_max_age_ms=500,
        )
        consumer.subscribe([topic], listener=_AioCountRevocations(self))
        try:
            await consumer.start()
        except BaseException:
            await consumer.stop()
            raise
        return consumer

    def poll(self) -> list[Got]:
        polled = self._run(self.consumer.getmany(timeout_ms=int(POLL_S * 1000)))
        return [_got(message) for messages in polled.values() for message in messages]

    def assigned(self) -> list[int]:
        return sorted(each.partition for each in self.consumer.assignment())

    def commit(self) -> None:
        self._run(self.consumer.commit())

    def leave(self) -> None:
        if self._loop.is_closed():
            return
        try:
            self._run(self.consumer.stop())
        finally:
            self._end_the_loop()

    def _end_the_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


def _got(message: Any) -> Got:
    return Got(message.partition, message.offset, message.value)


class _CountRevocations(kafka.ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, member: KafkaPythonMember) -> None:
        self._member = member

    def on_partitions_revoked(self, revoked: object) -> None:
        self._member.revocations += bool(revoked)

    def on_partitions_assigned(self, assigned: object) -> None:
        pass


class _AioCountRevocations(aiokafka.ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, member: AioKafkaMember) -> None:
        self._member = member

    def on_partitions_revoked(self, revoked: object) -> None:
        self._member.revocations += bool(revoked)

    def on_partitions_assigned(self, assigned: object) -> None:
        pass


MEMBERS: Final[tuple[type[Member], ...]] = (ConfluentMember, KafkaPythonMember, AioKafkaMember)


@contextmanager
def joined(kind: type[Member], bootstrap: str, group: str, topic: str) -> Iterator[Member]:
    """A member that leaves at the end, whatever happened: it would live on in threads."""
    member = kind(bootstrap, group, topic)
    try:
        yield member
    finally:
        member.leave()


def wait_for_assignment(members: Sequence[Member], partitions: int) -> list[Got]:
    """Polls all members until every partition belongs to exactly one and every member has some."""
    got: list[Got] = []

    def settled() -> bool:
        for member in members:
            got.extend(member.poll())
        shares = [member.assigned() for member in members]
        owned = sorted(number for share in shares for number in share)
        return owned == list(range(partitions)) and all(shares)

    wait_until(settled, f"{len(members)} members share {partitions} partitions")
    return got


def read_until(members: Sequence[Member], count: int) -> list[Got]:
    got: list[Got] = []

    def enough() -> bool:
        for member in members:
            got.extend(member.poll())
        return len(got) >= count

    wait_until(enough, f"{count} records came")
    return got


def main(kind_name: str, bootstrap: str, group: str, topic: str) -> None:
    """Says on stdout what it is assigned, line by line, until it is killed."""
    [kind] = [kind for kind in MEMBERS if kind.name == kind_name]
    member = kind(bootstrap, group, topic)
    last = None
    while True:
        member.poll()
        if member.assigned() != last:
            last = member.assigned()
            sys.stdout.write(json.dumps(last) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
