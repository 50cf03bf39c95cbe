"""Finds out whether a reader has missed deletes. Shell.

Ledgerstone remembers, for each partition, the offset below which it has removed tombstones; a
reader below it may have missed one. For other brokers we only know that a tombstone stays for
`delete.retention.ms`, so a reader that was away for longer may have missed some.
"""

import json
import logging
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from ledgerstone.client.blocking import Client
from ledgerstone.client.cluster import ask_about
from ledgerstone.client.configs import Resource, ResourceType, describe_configs
from ledgerstone.client.http_api import (
    KEY,
    ApiAddress,
    authorization,
    open_api,
    parse_api_address,
)
from ledgerstone.client.security import ClientSecurity
from ledgerstone.errors import LedgerstoneError
from ledgerstone.protocol.messages.metadata import MetadataResponse
from ledgerstone.spark.offsets import Offsets
from ledgerstone.types import TopicPartition

_TIMEOUT_S: Final = 10.0
_MAX_ANSWER_BYTES: Final = 16 << 20

logger = logging.getLogger(__name__)


class Missed(NamedTuple):
    """Why deletes of a partition may have been missed by a reader at `next_offset`."""

    partition: TopicPartition
    next_offset: int
    reason: str

    def __str__(self) -> str:
        return f"{self.partition} at offset {self.next_offset}: {self.reason}"


def removed_below(client: Client, topic: str) -> dict[TopicPartition, int] | None:
    """The offset below which tombstones were removed, by partition; None if unknown."""
    answers = removed_by_broker(client, topic)
    found: dict[TopicPartition, int] = {}
    for told in answers.values():
        for partition, offset in told.items():
            found[partition] = max(found.get(partition, 0), offset)
    return found if answers else None


def removed_by_broker(client: Client, topic: str) -> dict[int, dict[TopicPartition, int]]:
    """The same from each broker that answers, for the replicas that it has."""
    found: dict[int, dict[TopicPartition, int]] = {}
    security = client.session.config.security
    for node_id, address in http_addresses(client).items():
        path = f"/api/v1/topics/{quote(topic, safe='')}/tombstones"
        answer = get_json(address, path, security)
        if answer is not None:
            found[node_id] = {
                TopicPartition(topic, int(each["partition"])): max(
                    int(each["removed_below_offset"] or 0),
                    int(each.get("removed_to_offset") or 0),
                )
                for each in answer.get("partitions", ())
            }
    return found


def missed_by_offset(positions: Offsets, removed: Offsets, seen_before: Offsets) -> list[Missed]:
    """Partitions read to below the tombstones that were removed since `seen_before`."""
    return [
        Missed(each, position, f"tombstones were removed below offset {removed[each]}")
        for each, position in sorted(positions.items())
        if position < removed.get(each, 0) and removed[each] > seen_before.get(each, 0)
    ]


def missed_by_time(
    positions: Offsets, last_read_ms: Mapping[TopicPartition, int], retention_ms: int, now_ms: int
) -> list[Missed]:
    """Partitions that were not read for longer than a tombstone stays."""
    return [
        Missed(
            each,
            position,
            f"nothing was read for {now_ms - last_read_ms[each]} ms, "
            f"and tombstones stay for {retention_ms} ms (delete.retention.ms)",
        )
        for each, position in sorted(positions.items())
        if each in last_read_ms and now_ms - last_read_ms[each] > retention_ms
    ]


def tombstone_retention_ms(client: Client, topic: str) -> int | None:
    """None if the topic is not compacted: tombstones mean nothing there."""
    entries = describe_configs(client, Resource(ResourceType.TOPIC, topic))
    values = {entry.name: entry.value or "" for entry in entries}
    if "compact" not in values.get("cleanup.policy", ""):
        return None
    return int(values.get("delete.retention.ms") or 86_400_000)


def http_addresses(client: Client) -> dict[int, ApiAddress]:
    """Of every broker that has one, by node id."""
    if not client.session.cluster.brokers:
        # Who has asked for nothing yet knows of no broker, which is not the same as there is none.
        client.call(ask_about([]), MetadataResponse)
    found = {}
    for node_id, endpoint in sorted(client.session.cluster.brokers.items()):
        try:
            entries = describe_configs(client, Resource(ResourceType.BROKER, str(node_id)))
        except LedgerstoneError as error:
            logger.info("broker %s does not tell its settings: %s", node_id, error)
            continue
        value = next((entry.value for entry in entries if entry.name == KEY), None)
        address = parse_api_address(value or "", endpoint.host)
        if address is not None:
            found[node_id] = address
    return found


def get_json(address: ApiAddress, path: str, security: ClientSecurity) -> dict[str, Any] | None:
    import http.client  # It brings TLS and mail along; who asks another broker needs none of it.

    try:
        connection = open_api(address, security, timeout_s=_TIMEOUT_S)
    except (OSError, LedgerstoneError) as error:
        logger.info("%s%s: %s", address.url, path, error)
        return None
    try:
        connection.request("GET", path, headers=dict(authorization(address, security)))
        response = connection.getresponse()
        text = response.read(_MAX_ANSWER_BYTES)
        content = json.loads(text) if response.status == http.client.OK else None
    except (OSError, http.client.HTTPException, ValueError) as error:
        logger.info("%s%s: %s", address.url, path, error)
        return None
    finally:
        connection.close()
    return content if isinstance(content, dict) else None
