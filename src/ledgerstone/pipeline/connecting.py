"""A pipeline's client, and its queries to a cluster before a run. Shell."""

import os
from collections.abc import Mapping

from ledgerstone.client.blocking import Client
from ledgerstone.client.fetcher import READ_COMMITTED, READ_UNCOMMITTED
from ledgerstone.client.offsets import EARLIEST, LATEST, list_offsets
from ledgerstone.client.properties import VARIABLE, read_client_properties
from ledgerstone.client.security import SECURITY_PROPERTIES, client_security
from ledgerstone.client.session import SessionConfig
from ledgerstone.pipeline.errors import DefinitionError
from ledgerstone.spark.kafka_options import PREFIX
from ledgerstone.spark.options import Options
from ledgerstone.types import TopicPartition

_NAME = "source.bootstrap"


def connect_to(bootstrap: str, command_config: str | None = None) -> Client:
    """`command_config` names a file with the client's properties for this cluster; None: the one
    of the environment, if it names one."""
    endpoints = Options({_NAME: bootstrap}).endpoints(_NAME)
    if not endpoints:
        raise DefinitionError(_NAME, bootstrap, "expected HOST:PORT")
    security = client_security(_properties(command_config))
    return Client(endpoints, SessionConfig(client_id="ledgerstone-pipeline", security=security))


def security_options(command_config: str | None = None) -> dict[str, str]:
    """The same for `format("ledgerstone")`."""
    given = _properties(command_config)
    return {f"{PREFIX}{name}": given[name] for name in SECURITY_PROPERTIES if name in given}


def _properties(command_config: str | None) -> Mapping[str, str]:
    """Workers of Spark on this machine inherit the environment; on others the file must be there,
    too."""
    path = command_config or os.environ.get(VARIABLE)
    return read_client_properties(path) if path else {}


def log_ends(client: Client, topic: str, *, committed: bool = False) -> dict[int, int]:
    """The high watermark of every partition; for a committed read, its last stable offset."""
    return _listed(client, topic, LATEST, READ_COMMITTED if committed else READ_UNCOMMITTED)


def log_starts(client: Client, topic: str) -> dict[int, int]:
    return _listed(client, topic, EARLIEST)


def _listed(
    client: Client, topic: str, at: int, isolation_level: int = READ_UNCOMMITTED
) -> dict[int, int]:
    partitions = [TopicPartition(topic, each) for each in client.topic(topic).partitions]
    wanted = dict.fromkeys(partitions, at)
    listed = list_offsets(client, wanted, isolation_level=isolation_level)
    return {each.partition: listed[each].offset for each in sorted(partitions)}
