"""What the other nodes of the cluster say, for the pages that show all of them. Shell.

A page is of one broker. For what only others know it asks them as any program would: their HTTP
API, whose address is a setting of each broker, so DescribeConfigs tells it. Everything is read
only, needs no token, has short timeouts, and happens in a thread: a broker's loop never waits for
another broker. A node without an HTTP port, or with one that only its own machine reaches, is shown
by what the metadata says of it.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from ledgerstone.client.blocking import Client
from ledgerstone.client.cluster import Endpoint
from ledgerstone.client.security import PLAIN_TEXT, ClientSecurity
from ledgerstone.client.session import SessionConfig
from ledgerstone.cluster.lag_reports import LagReports
from ledgerstone.cluster.node_http import get_json, http_address
from ledgerstone.config.broker import BrokerConfig
from ledgerstone.config.listener_keys import listener_values
from ledgerstone.errors import LedgerstoneError
from ledgerstone.metadata.image import BrokerImage
from ledgerstone.metadata.reachable import endpoint_of
from ledgerstone.server.broker import Broker
from ledgerstone.server.login.own import own_account
from ledgerstone.tls.settings import tls_settings

# While a page is open.
_PAUSE_S: Final = 2.0
_TIMEOUT_MS: Final = 1_500
_AT_ONCE: Final = 8


class PeerWatch:
    """One per broker. `ask` blocks; everything else returns at once."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.lags = LagReports()
        # HOST:PORT by node; None if it has no HTTP port that this machine reaches.
        self.addresses: Mapping[int, str | None] = {}
        self._is_wanted = False
        self._asked_s = 0.0
        self._turn = threading.Lock()

    def want(self) -> None:
        """An open page shows what others say."""
        self._is_wanted = True

    def tick(self) -> None:
        """Once a second while pages are open."""
        is_wanted, self._is_wanted = self._is_wanted, False
        if is_wanted and time.monotonic() - self._asked_s >= _PAUSE_S and not self._turn.locked():
            threading.Thread(target=self.ask, name="ledgerstone-peers", daemon=True).start()

    def ask(self) -> None:
        """Every node that serves, this one included: it is asked the same way."""
        broker = self._broker
        if not broker.config.cluster.is_configured:
            return
        with self._turn:
            addresses = _addresses(broker, serving(broker))
            said = _from_all(addresses, "lags")
            self.addresses = addresses
            self.lags = LagReports(each for each in said.values() if each is not None)
            self._asked_s = time.monotonic()


def serving(broker: Broker) -> list[BrokerImage]:
    return [each for each in broker.image.brokers.values() if not each.fenced]


def ask_nodes(
    broker: Broker, ids: Sequence[int], path: str, *, after_s: float = 0.0
) -> dict[int, dict[str, Any] | None]:
    """What some nodes answer to a GET; None of those that do not. Blocks."""
    time.sleep(after_s)
    nodes = [each for each in serving(broker) if each.broker_id in ids]
    return _from_all(_addresses(broker, nodes), path)


def _from_all(addresses: Mapping[int, str | None], path: str) -> dict[int, dict[str, Any] | None]:
    if not addresses:
        return {}
    with ThreadPoolExecutor(min(len(addresses), _AT_ONCE)) as pool:
        said = pool.map(lambda at: None if at is None else get_json(at, path), addresses.values())
        return dict(zip(addresses, said, strict=True))


def _addresses(broker: Broker, nodes: Sequence[BrokerImage]) -> dict[int, str | None]:
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
