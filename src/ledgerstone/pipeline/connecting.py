"""A pipeline's client, and its queries to a cluster before a run. Shell."""

from ledgerstone.client.blocking import Client
from ledgerstone.client.offsets import EARLIEST, LATEST, list_offsets
from ledgerstone.client.session import SessionConfig
from ledgerstone.pipeline.errors import DefinitionError
from ledgerstone.spark.options import Options
from ledgerstone.types import TopicPartition

_NAME = "source.bootstrap"


def connect_to(bootstrap: str) -> Client:
    endpoints = Options({_NAME: bootstrap}).endpoints(_NAME)
    if not endpoints:
        raise DefinitionError(_NAME, bootstrap, "expected HOST:PORT")
    return Client(endpoints, SessionConfig(client_id="ledgerstone-pipeline"))


def log_ends(client: Client, topic: str) -> dict[int, int]:
    """The high watermark of every partition."""
    return _listed(client, topic, LATEST)


def log_starts(client: Client, topic: str) -> dict[int, int]:
    return _listed(client, topic, EARLIEST)


def _listed(client: Client, topic: str, at: int) -> dict[int, int]:
    partitions = [TopicPartition(topic, each) for each in client.topic(topic).partitions]
    listed = list_offsets(client, dict.fromkeys(partitions, at))
    return {each.partition: listed[each].offset for each in sorted(partitions)}
