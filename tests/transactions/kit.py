"""What readers see of a topic."""

from ledgerstone.client.blocking import Client
from ledgerstone.client.consumer import Consumer
from ledgerstone.client.fetcher import READ_COMMITTED, READ_UNCOMMITTED, Fetcher
from ledgerstone.client.offsets import LATEST, list_offsets
from ledgerstone.types import TopicPartition
from tests.kit.broker import wait_until


def ends(client: Client, topic: str, isolation_level: int) -> dict[TopicPartition, int]:
    partitions = [TopicPartition(topic, n) for n in client.topic(topic).partitions]
    wanted = dict.fromkeys(partitions, LATEST)
    listed = list_offsets(client, wanted, isolation_level=isolation_level)
    return {each: found.offset for each, found in listed.items()}


def is_settled(client: Client, topic: str) -> bool:
    return ends(client, topic, READ_COMMITTED) == ends(client, topic, READ_UNCOMMITTED)


def committed(client: Client, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    """What a read_committed reader gets, in the order of partitions, once nothing is open."""
    wait_until(lambda: is_settled(client, topic), f"no transaction is open on {topic}")
    return visible(client, topic)


def visible(client: Client, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    found = []
    for partition, end in ends(client, topic, READ_COMMITTED).items():
        consumer = Consumer(Fetcher(client), {partition: 0})  # read_committed
        while consumer.positions[partition] < end:
            found += [(each.record.key, each.record.value) for each in consumer.poll()]
    return found
