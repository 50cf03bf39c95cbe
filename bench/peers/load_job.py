"""The load itself: librdkafka, told what to do line by line. A program. Shell.

Reads one JSON job a line and answers each with one line; ends with its input. Every job makes its
own clients and closes them.
"""

import json
import random
import struct
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from confluent_kafka import KafkaError, Message, Producer, TopicPartition

from bench.client_loop import BULK, DEEP_QUEUE, TIMEOUT_S, make_consumer
from bench.peers.load import Moved
from bench.peers.percentiles import Percentiles, percentiles

VALUES: Final = 64
CALL_BYTES: Final = 2_000_000  # of values handed out by one consume(), at most
CALL_MESSAGES: Final = 10_000
LATENCY_BYTES: Final = 100
FULL_LINGER_MS: Final = 60_000  # flush() does not wait for it
WARM_UP: Final = 500
PACE_S: Final = 0.01
STAMP: Final = struct.Struct(">d")


def values_of(size: int) -> list[bytes]:
    """Records as applications write them: text, different from each other, fit to be compressed."""
    dice = random.Random(size)
    words = ["".join(dice.choices("abcdefghijklmnopqrstuvwxyz", k=7)) for _ in range(400)]
    found = []
    for number in range(VALUES):
        parts = [f'{{"id": {number}']
        while sum(map(len, parts)) < size:
            parts.append(f', "{dice.choice(words)}": "{dice.choice(words)}{dice.random():.12f}"')
        found.append("".join(parts).encode()[:size])
    return found


def produce(
    *,
    bootstrap: str,
    topic: str,
    partitions: int,
    value_bytes: int,
    messages: int,
    acks: str = "1",
    codec: str = "none",
    producers: int = 1,
    batch_bytes: int | None = None,
) -> Moved:
    """From the first produce() until the last record is acknowledged.

    With `batch_bytes` batches are sent once they are full. Otherwise what they hold depends on how
    soon the broker answers."""
    failures: list[str] = []

    def note(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(str(error))

    settings = {**BULK, "bootstrap.servers": bootstrap, "on_delivery": note}
    settings |= {"acks": acks, "compression.type": codec}
    if batch_bytes is not None:
        settings |= {"batch.size": batch_bytes, "linger.ms": FULL_LINGER_MS}
    clients = [Producer(settings) for _ in range(producers)]
    values = values_of(value_bytes)
    for client in clients:
        for number in range(partitions):
            client.produce(topic, values[0], partition=number)
    _flush(clients, failures)
    started = time.perf_counter()
    for number in range(messages):
        client, value = clients[number % producers], values[number % VALUES]
        while True:
            try:
                client.produce(topic, value, partition=number % partitions)
                break
            except BufferError:
                client.poll(0.01)
    _flush(clients, failures)
    return Moved(started, time.perf_counter(), messages, messages * value_bytes)


def _flush(clients: Sequence[Producer], failures: Sequence[str]) -> None:
    left = sum(client.flush(TIMEOUT_S) for client in clients)
    if left or failures:
        raise RuntimeError(f"{left} records not delivered, failures: {failures[:3]}")


def consume(
    *, bootstrap: str, topic: str, partitions: int, value_bytes: int, messages: int
) -> Moved:
    """From asking for the first record until there are `messages`; the client knows the broker.

    Counted from the start, because librdkafka fetches ahead: who starts the clock with the first
    records in hand measures how fast a full queue is emptied.
    """
    consumer = make_consumer(bootstrap, DEEP_QUEUE)
    consumer.list_topics(topic, timeout=TIMEOUT_S)
    call = max(1, min(CALL_MESSAGES, CALL_BYTES // value_bytes))
    count = size = 0
    deadline = time.monotonic() + TIMEOUT_S
    started = time.perf_counter()
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    while count < messages:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{count} of {messages} records after {TIMEOUT_S} s")
        # It returns when there are as many as asked for: never ask for more than will come.
        for message in consumer.consume(min(call, messages - count), timeout=1.0):
            if message.error() is not None:
                raise RuntimeError(str(message.error()))
            size += len(message.value() or b"")
            count += 1
    ended = time.perf_counter()
    consumer.close()
    return Moved(started, ended, count, size)


def paced(
    *, bootstrap: str, topic: str, partitions: int, value_bytes: int, mb_s: float, seconds: float
) -> Moved:
    """As much as asked for and no more: the load beside which something else is measured."""
    producer = Producer({**BULK, "bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 5})
    values = values_of(value_bytes)
    burst = max(1, int(mb_s * 1e6 * PACE_S / value_bytes))
    started = due = time.perf_counter()
    count = 0
    while due < started + seconds:
        for _ in range(burst):
            producer.produce(topic, values[count % VALUES], partition=count % partitions)
            count += 1
        due += PACE_S
        producer.poll(max(0.0, due - time.perf_counter()))
        time.sleep(max(0.0, due - time.perf_counter()))
    _flush([producer], [])
    return Moved(started, time.perf_counter(), count, count * value_bytes)


def produce_latency(*, bootstrap: str, topic: str, rate: int, seconds: float) -> Percentiles:
    """From produce() until its delivery report is in our hands; acks=all, no lingering."""
    producer = _prompt_producer(bootstrap)
    value = bytes(LATENCY_BYTES)
    taken: list[float] = []
    failures: list[str] = []

    def note(started: float, error: KafkaError | None, _: Message) -> None:
        taken.append(time.perf_counter() - started)
        if error is not None:
            failures.append(str(error))

    def send() -> None:
        now = time.perf_counter()
        producer.produce(topic, value, partition=0, on_delivery=partial(note, now))

    count = int(rate * seconds) + WARM_UP
    _on_time(send, lambda: producer.poll(0.1), rate, count, taken)
    if failures:
        raise RuntimeError(f"{len(failures)} not delivered: {failures[0]}")
    return percentiles([each * 1e6 for each in taken[WARM_UP:]])


def end_to_end_latency(*, bootstrap: str, topic: str, rate: int, seconds: float) -> Percentiles:
    """From produce() until a consumer that waits for it has the record."""
    producer = _prompt_producer(bootstrap)
    consumer = make_consumer(bootstrap)
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=TIMEOUT_S)
    consumer.assign([TopicPartition(topic, 0, end)])
    taken: list[float] = []

    def receive() -> None:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            (started,) = STAMP.unpack_from(message.value() or b"")
            taken.append(time.perf_counter() - started)

    def send() -> None:
        stamp = STAMP.pack(time.perf_counter()).ljust(LATENCY_BYTES, b".")
        producer.produce(topic, stamp, partition=0)
        producer.poll(0)

    _on_time(send, receive, rate, int(rate * seconds) + WARM_UP, taken)
    consumer.close()
    return percentiles([each * 1e6 for each in taken[WARM_UP:]])


def _prompt_producer(bootstrap: str) -> Producer:
    return Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0, "log_level": 3})


def _on_time(
    send: Callable[[], None],
    serve: Callable[[], object],
    rate: int,
    count: int,
    taken: Sequence[float],
) -> None:
    """Sends when it is due, whatever became of those before; another thread serves what returns.

    So a broker that stalls is charged for all who wait, and nobody is sent late because of it.
    """
    is_over = threading.Event()

    def keep_serving() -> None:
        while not is_over.is_set():
            serve()

    thread = threading.Thread(target=keep_serving)
    thread.start()
    try:
        due = time.perf_counter()
        for number in range(count):
            due += 1 / rate
            time.sleep(max(0.0, due - time.perf_counter()))
            send()
            if number == 0:  # connecting takes its time, and is not what is asked for
                _wait_for(taken, 1)
                due = time.perf_counter()
        _wait_for(taken, count)
    finally:
        is_over.set()
        thread.join()


def _wait_for(taken: Sequence[float], count: int) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while len(taken) < count:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{len(taken)} of {count} came back in {TIMEOUT_S} s")
        time.sleep(0.005)


JOBS: Final[dict[str, Callable[..., Moved | Percentiles]]] = {
    "produce": produce,
    "paced": paced,
    "consume": consume,
    "produce_latency": produce_latency,
    "end_to_end_latency": end_to_end_latency,
}


def main() -> None:
    for line in sys.stdin:
        arguments = json.loads(line)
        job = JOBS[arguments.pop("job")]
        try:
            answer: object = list(job(**arguments))
        except (RuntimeError, ValueError) as error:
            answer = f"{job.__name__} {arguments}: {error}"
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
