"""Consume with librdkafka: one consumer, and four that read the whole topic each. Shell."""

from contextlib import ExitStack
from functools import partial
from itertools import product
from typing import Final, NamedTuple

from bench.peers.arena import Arena, Both, Spent
from bench.peers.contestants import Contestant
from bench.peers.load import Load, Moved, loads, together
from bench.peers.measures import Line
from bench.peers.produce import (
    GB,
    PARTITIONS,
    QUICK_PARTITIONS,
    WARM_UP_STEP,
    line_of,
    partitions_text,
)
from bench.peers.topics import check_alike, filled

MESSAGES: Final = {100: 400_000, 1000: 250_000, 10_000: 25_000}
QUICK_SHARE: Final = 20
CONSUMERS: Final = (1, 4)
NOTE: Final = (
    "From the page cache, from the first request to the last record; batches of 100 kB, the same "
    "on both sides. Of four consumers, each a process, every one reads the whole topic at the same "
    "time, and their bytes are added up."
)


class Topic(NamedTuple):
    value_bytes: int
    partitions: int
    codec: str

    @property
    def name(self) -> str:
        return f"values-{self.value_bytes}-{self.partitions}-{self.codec}"


def run(arena: Arena) -> list[Line]:
    arena.notes.append(NOTE)
    share = QUICK_SHARE if arena.quick else 1
    partitions = QUICK_PARTITIONS if arena.quick else PARTITIONS
    topics = [Topic(*each) for each in product(MESSAGES, partitions, ("none", "lz4"))]
    cases = list(product(topics, CONSUMERS))
    with ExitStack() as stack:
        workers = loads(stack, max(CONSUMERS))
        turns = stack.enter_context(arena.both())
        for topic in topics:
            turns.each(
                filled(
                    workers[0],
                    topic=topic.name,
                    partitions=topic.partitions,
                    value_bytes=topic.value_bytes,
                    messages=MESSAGES[topic.value_bytes] // share,
                    codec=topic.codec,
                )
            )
            check_alike(topic.name, turns.contestants)
        for topic in topics[::WARM_UP_STEP]:
            turns.each(partial(measure, workers[:1], topic, share))
        found: dict[tuple[Topic, int], list[Both[Spent]]] = {case: [] for case in cases}
        for number in range(arena.rounds):
            for case in cases:
                topic, count = case
                work = partial(measure, workers[:count], topic, share)
                found[case].append(turns.round(number, work))
    return [
        line_of(_label(topic, count), topic.value_bytes, rounds)
        for (topic, count), rounds in found.items()
    ]


def _label(topic: Topic, consumers: int) -> str:
    who = "1 consumer" if consumers == 1 else f"{consumers} consumers"
    parts = partitions_text(topic.partitions)
    return f"consume {topic.value_bytes} B, {parts}, {topic.codec}, {who}"


def measure(workers: list[Load], topic: Topic, share: int, side: Contestant) -> Spent:
    before = side.cpu_s
    for worker in workers:
        worker.ask(
            "consume",
            bootstrap=side.bootstrap,
            topic=topic.name,
            partitions=topic.partitions,
            value_bytes=topic.value_bytes,
            messages=MESSAGES[topic.value_bytes] // share,
        )
    moved = together([Moved(*worker.answer()) for worker in workers])
    return Spent(moved.mb_s, side.cpu_s - before, moved.bytes / GB)
