"""Topics made on either side, usable when the call returns. Shell."""

import time
from collections.abc import Callable

from bench.peers.contestants import HOST, Contestant
from bench.peers.load import Load
from bench.raw_client import RawClient, create_topic


def make_topic(name: str, partitions: int, contestant: Contestant) -> float:
    """Seconds until every partition took a record; a new leader may need a moment."""
    started = time.perf_counter()
    with RawClient(HOST, contestant.port) as client:
        create_topic(client, name, partitions)
    contestant.wait_until(lambda: contestant.accepts_produce(name, partitions), started)
    return time.perf_counter() - started


def filled(
    load: Load, *, topic: str, partitions: int, value_bytes: int, messages: int, codec: str = "none"
) -> Callable[[Contestant], None]:
    """Makes the topic and writes it, the same records in the same place on any side."""

    def fill(contestant: Contestant) -> None:
        make_topic(topic, partitions, contestant)
        load.moved(
            "produce",
            bootstrap=contestant.bootstrap,
            topic=topic,
            partitions=partitions,
            value_bytes=value_bytes,
            messages=messages,
            codec=codec,
        )

    return fill
