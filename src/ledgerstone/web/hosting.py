"""Finds the topic, the partitions or the partition that a page is about. Grade D."""

from collections.abc import Mapping

from ledgerstone.metadata.topic_names import INTERNAL_TOPICS
from ledgerstone.replication.partition import Partition
from ledgerstone.server.broker import Broker
from ledgerstone.server.http.server import HttpRequest
from ledgerstone.types import TopicPartition
from ledgerstone.web.forms import whole_number
from ledgerstone.web.router import NotShown

_MOST_PARTITIONS = 1 << 31


def topic_of(broker: Broker, parts: Mapping[str, str]) -> str:
    topic = parts["topic"]
    if topic not in broker.image.topics:
        raise NotShown(404, f"There is no topic {topic[:260]}.")
    return topic


def is_internal(topic: str) -> bool:
    return topic in INTERNAL_TOPICS


def hosted(broker: Broker, topic: str) -> list[Partition]:
    """In numerical order, without those still being created."""
    numbers = sorted(broker.image.topics[topic].partitions)
    found = (broker.partitions.find(TopicPartition(topic, number)) for number in numbers)
    return [each for each in found if each is not None]


def partition_of(broker: Broker, topic: str, request: HttpRequest) -> Partition:
    """The partition named by the query, else the first."""
    number = whole_number(dict(request.query), "partition", at_most=_MOST_PARTITIONS) or 0
    found = broker.partitions.find(TopicPartition(topic, number))
    if found is None:
        raise not_here(broker, topic, number)
    return found


def not_here(broker: Broker, topic: str, number: int) -> NotShown:
    """Says who has the partition, if anyone does."""
    state = broker.image.partition(topic, number)
    others = () if state is None else state.replicas
    where = f": nodes {', '.join(map(str, others))} have it" if others else ""
    return NotShown(404, f"Partition {number} of {topic} is not hosted here{where}.")


def topic_facts(broker: Broker, topic: str) -> dict[str, object]:
    """What the head of every page of a topic shows: `topic_head.html`."""
    overrides = broker.image.topic_config(topic)
    partitions = hosted(broker, topic)
    return {
        "topic": topic,
        "is_internal": is_internal(topic),
        "partition_numbers": sorted(broker.image.topics[topic].partitions),
        "policy": ",".join(_policy(partitions, overrides)),
        "size_bytes": sum(each.log.size_bytes for each in partitions),
        "compacts": any(each.log.config.compacts for each in partitions),
    }


def _policy(partitions: list[Partition], overrides: Mapping[str, str]) -> tuple[str, ...]:
    if partitions:
        return partitions[0].log.config.cleanup_policy
    return (overrides.get("cleanup.policy", "delete"),)
