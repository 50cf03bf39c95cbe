"""What a Python program gets from librdkafka: produce, consume and latency loops.

The loop around `produce()` is a limit of its own, so each loop runs against a peer as well.
"""

import time
from collections.abc import Callable, Sequence
from statistics import quantiles
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

TIMEOUT_S = 60.0
CONSUME_COUNT = 10_000
BULK = {
    "acks": 1,
    "linger.ms": 10,
    "batch.size": 1_000_000,
    "batch.num.messages": 100_000,
    "queue.buffering.max.messages": 1_000_000,
    "queue.buffering.max.kbytes": 1 << 20,
    "delivery.report.only.error": True,
    "log_level": 3,
}

# Without these a consumer of small records fetches, waits a second, and fetches again.
DEEP_QUEUE = {
    "queued.min.messages": 1_000_000,
    "queued.max.messages.kbytes": 1 << 18,
    "fetch.queue.backoff.ms": 2,
}

# Topic and number, cycled over by producers.
Target = tuple[str, int]


class Latency(NamedTuple):
    """Microseconds."""

    p50: float
    p99: float


class Loop(NamedTuple):
    seconds: float
    bytes: int  # of values
    messages: int

    @property
    def mb_s(self) -> float:
        return self.bytes / self.seconds / 1e6

    @property
    def kmsg_s(self) -> float:
        return self.messages / self.seconds / 1e3


def produce_loop(
    bootstrap: str, targets: Sequence[Target], *, value_bytes: int, messages: int
) -> Loop:
    """From the first produce() until the last is acknowledged; connecting is not counted."""
    failures: list[KafkaError] = []

    def note(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer({"bootstrap.servers": bootstrap, "on_delivery": note, **BULK})
    value = bytes(value_bytes)
    for topic, partition in targets:
        producer.produce(topic, value, partition=partition)
    _flush(producer, failures)
    started = time.perf_counter()
    for number in range(messages):
        topic, partition = targets[number % len(targets)]
        while True:
            try:
                producer.produce(topic, value, partition=partition)
                break
            except BufferError:
                producer.poll(0.01)
    _flush(producer, failures)
    return Loop(time.perf_counter() - started, messages * value_bytes, messages)


def _flush(producer: Producer, failures: Sequence[KafkaError]) -> None:
    left = producer.flush(TIMEOUT_S)
    if left or failures:
        raise RuntimeError(f"{left} messages not delivered, failures: {failures[:3]}")


def consume_loop(bootstrap: str, targets: Sequence[Target], *, messages: int) -> Loop:
    """From the first message, which comes after connecting, until there are `messages`."""
    consumer = make_consumer(bootstrap, DEEP_QUEUE)
    consumer.assign([TopicPartition(topic, number, 0) for topic, number in targets])
    count = size = 0
    started = 0.0
    deadline = time.monotonic() + TIMEOUT_S
    while count < messages:
        batch = consumer.consume(CONSUME_COUNT, timeout=1.0)
        if not started and batch:
            started = time.perf_counter()
            continue
        for message in batch:
            if message.error() is not None:
                raise RuntimeError(str(message.error()))
            size += len(message.value() or b"")
        count += len(batch)
        if time.monotonic() > deadline:
            raise RuntimeError(f"{count} of {messages} messages after {TIMEOUT_S} s")
    seconds = time.perf_counter() - started
    consumer.close()
    return Loop(seconds, size, count)


def make_consumer(bootstrap: str, settings: dict[str, Any] | None = None) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 500,
            "log_level": 3,
            **(settings or {}),
        }
    )


def _make_prompt_producer(bootstrap: str) -> Producer:
    settings = {"bootstrap.servers": bootstrap, "acks": 1, "linger.ms": 0, "log_level": 3}
    return Producer(settings)


def produce_latency(bootstrap: str, topic: str, *, rate: int, seconds: float) -> Latency:
    """From produce() until its delivery report is in our hands, at a steady rate."""
    producer = _make_prompt_producer(bootstrap)
    taken: list[float] = []

    def send() -> None:
        done: list[KafkaError | None] = []
        started = time.perf_counter()
        producer.produce(
            topic, bytes(100), partition=0, on_delivery=lambda error, _: done.append(error)
        )
        while not done:
            producer.poll(1.0)
        taken.append(time.perf_counter() - started)
        if done[0] is not None:
            raise RuntimeError(str(done[0]))

    _at_rate(send, taken, rate=rate, seconds=seconds)
    return _latency(taken)


def end_to_end_latency(bootstrap: str, topic: str, *, rate: int, seconds: float) -> Latency:
    """From produce() until a consumer that waits for it has the message."""
    producer = _make_prompt_producer(bootstrap)
    consumer = make_consumer(bootstrap)
    consumer.assign([TopicPartition(topic, 0, 0)])
    taken: list[float] = []

    def send() -> None:
        started = time.perf_counter()
        producer.produce(topic, bytes(100), partition=0)
        message = None
        while message is None:
            message = consumer.poll(1.0)
        taken.append(time.perf_counter() - started)
        if message.error() is not None:
            raise RuntimeError(str(message.error()))
        producer.poll(0)

    _at_rate(send, taken, rate=rate, seconds=seconds)
    consumer.close()
    return _latency(taken)


def _at_rate(send: Callable[[], None], taken: list[float], *, rate: int, seconds: float) -> None:
    for _ in range(20):  # connects, and warms up
        send()
    taken.clear()
    next_at = time.perf_counter()
    for _ in range(int(rate * seconds)):
        next_at += 1 / rate
        send()
        pause = next_at - time.perf_counter()
        if pause > 0:
            time.sleep(pause)


def _latency(taken: list[float]) -> Latency:
    cuts = quantiles(taken, n=100)
    return Latency(cuts[49] * 1e6, cuts[98] * 1e6)
