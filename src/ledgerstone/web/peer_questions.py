"""Asks other nodes of the cluster, as any program would: over their HTTP API. Shell.

Its address is a setting of each broker, so DescribeConfigs tells it. Everything is read only, needs
no token (where there are ACLs, CLUSTER_ACTION), and has short timeouts.
"""

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from ledgerstone.client.blocking import Client
from ledgerstone.client.cluster import Endpoint
from ledgerstone.client.security import PLAIN_TEXT, ClientSecurity
from ledgerstone.client.session import SessionConfig
from ledgerstone.cluster.node_http import get_json, http_address
from ledgerstone.config.broker import BrokerConfig
from ledgerstone.config.listener_keys import listener_values
from ledgerstone.errors import LedgerstoneError
from ledgerstone.metadata.image import BrokerImage
from ledgerstone.metadata.reachable import endpoint_of
from ledgerstone.server.broker import Broker
from ledgerstone.server.login.own import own_account
from ledgerstone.tls.settings import tls_settings

_TIMEOUT_MS: Final = 1_500
_AT_ONCE: Final = 8


def serving(broker: Broker) -> list[BrokerImage]:
    return [each for each in broker.image.brokers.values() if not each.fenced]


def ask_nodes(
    broker: Broker, ids: Sequence[int], path: str, *, after_s: float = 0.0
) -> dict[int, dict[str, Any] | None]:
    """What some nodes answer to a GET; None of those that do not. Blocks."""
    time.sleep(after_s)
    nodes = [each for each in serving(broker) if each.broker_id in ids]
    return from_all(broker, addresses_of(broker, nodes), path)


def from_all(
    broker: Broker, addresses: Mapping[int, str | None], path: str
) -> dict[int, dict[str, Any] | None]:
    """Where nodes ask who asks, this one says who it is between brokers."""
    if not addresses:
        return {}
    security = _security(broker.config, broker.config.cluster.inter_broker_listener_name)

    def ask(at: str | None) -> dict[str, Any] | None:
        return None if at is None else get_json(at, path, security=security)

    with ThreadPoolExecutor(min(len(addresses), _AT_ONCE)) as pool:
        return dict(zip(addresses, pool.map(ask, addresses.values()), strict=True))


def addresses_of(broker: Broker, nodes: Sequence[BrokerImage]) -> dict[int, str | None]:
    if not nodes:
        return {}
    listener = broker.config.cluster.inter_broker_listener_name
    with ThreadPoolExecutor(min(len(nodes), _AT_ONCE)) as pool:
        security = _security(broker.config, listener)
        found = pool.map(lambda node: _address(node, listener, security), nodes)
        return {node.broker_id: at for node, at in zip(nodes, found, strict=True)}


def _security(config: BrokerConfig, listener: str | None) -> ClientSecurity:
    """As this node speaks to others anyway."""
    if listener is None:
        return PLAIN_TEXT
    protocol = config.listener_protocols[listener]
    return ClientSecurity(
        protocol=protocol,
        account=own_account(config, listener) if protocol.uses_sasl else None,
        tls=tls_settings(listener_values(config.raw, listener)) if protocol.uses_tls else None,
    )


def _address(node: BrokerImage, listener: str | None, security: ClientSecurity) -> str | None:
    at = None if listener is None else endpoint_of(node, listener)
    if at is None:
        return None
    config = SessionConfig(
        client_id="ledgerstone-page",
        reach_timeout_ms=0,
        call_timeout_ms=_TIMEOUT_MS,
        security=security,
    )
    try:
        with Client([Endpoint(at.host, at.port)], config) as client:
            return http_address(client, node.broker_id, at.host)
    except (LedgerstoneError, OSError):
        return None
