"""The latest value of each key of a topic: by our fold, or by a consumer and a dict.

Shell. A program: what to do, bootstrap server, topic; answers with seconds by the clock, seconds of
CPU and live keys. `fill` writes the topic and answers with its name and bytes.
"""

import json
import sys
import time
from typing import Final

from confluent_kafka import TopicPartition

from bench.broker_process import BrokerProcess
from bench.client_loop import CONSUME_COUNT, DEEP_QUEUE, make_consumer
from bench.peers.jobs import RESULT
from ledgerstone.client.blocking import Client
from ledgerstone.client.cluster import Endpoint
from ledgerstone.records.kernels import load
from ledgerstone.state.rebuild import rebuild

TIMEOUT_S: Final = 10.0


def endpoint_of(bootstrap: str) -> Endpoint:
    host, _, port = bootstrap.rpartition(":")
    return Endpoint(host, int(port))


def fold(bootstrap: str, topic: str) -> int:
    with Client([endpoint_of(bootstrap)]) as client:
        state = rebuild(client, topic)
        return state.totals().live_keys


def fill_dict(bootstrap: str, topic: str) -> int:
    """What one writes today."""
    consumer = make_consumer(bootstrap, DEEP_QUEUE)
    numbers = consumer.list_topics(topic, timeout=TIMEOUT_S).topics[topic].partitions
    places = [TopicPartition(topic, number, 0) for number in numbers]
    ends = {place.partition: consumer.get_watermark_offsets(place)[1] for place in places}
    missing = sum(ends.values())
    consumer.assign(places)
    table: dict[bytes, bytes] = {}
    while missing > 0:
        # It returns when there are as many as asked for: never ask for more than will come.
        batch = consumer.consume(min(CONSUME_COUNT, missing), timeout=TIMEOUT_S)
        if not batch:
            raise RuntimeError(f"{missing} records did not come within {TIMEOUT_S} s")
        for message in batch:
            if message.error() is not None:
                raise RuntimeError(str(message.error()))
            key, value = message.key(), message.value()
            assert key is not None
            if value is None:
                table.pop(key, None)
            else:
                table[key] = value
        missing -= len(batch)
    consumer.close()
    return len(table)


def fill(bootstrap: str, rows: int, value_bytes: int) -> tuple[str, int]:
    from bench import spark  # brings pyspark, which the others can do without

    host, _, port = bootstrap.rpartition(":")
    broker = BrokerProcess(pid=0, host=host, port=int(port), ready_s=0.0)
    log = spark.fill(broker, rows, value_bytes, keys=rows // 8)
    return log.topic, log.wire_bytes


def main() -> None:
    action, bootstrap, *rest = sys.argv[1:]
    if action == "fill":
        answer: object = fill(bootstrap, int(rest[0]), int(rest[1]))
    else:
        load()
        work = {"fold": fold, "dict": fill_dict}[action]
        cpu_s, started = time.process_time(), time.perf_counter()
        keys = work(bootstrap, rest[0])
        answer = (time.perf_counter() - started, time.process_time() - cpu_s, keys)
    print(RESULT + json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
