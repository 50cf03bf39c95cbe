"""Topics made on either side, usable when the call returns. Shell."""

import time
from collections.abc import Callable, Sequence
from typing import Final

from bench.peers.contestants import HOST, Contestant
from bench.peers.load import Load
from bench.raw_client import RawClient, create_topic

# Of one producer's batches of so many bytes both sides get the same. Batches that are sent when
# linger.ms is over grow while the broker is slow to answer: a slower one would be read faster.
FULL_BATCH_BYTES: Final = 100_000
# A topic may have taken a record for each partition more than once, until it was ready.
MOST_APART: Final = 0.02


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
            batch_bytes=FULL_BATCH_BYTES,
        )

    return fill


def check_alike(topic: str, contestants: Sequence[Contestant]) -> None:
    """Whoever reads less has less to do. RuntimeError: the sides did not write the same."""
    sizes = {
        each.name: sum(path.stat().st_size for path in each.data.glob(f"{topic}-*/*.log"))
        for each in contestants
    }
    if max(sizes.values()) - min(sizes.values()) > MOST_APART * max(sizes.values()):
        raise RuntimeError(f"{topic} is not the same on both sides: {sizes} bytes")
