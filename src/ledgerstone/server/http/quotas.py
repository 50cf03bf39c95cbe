"""The part of the JSON API that is about quotas. Grade D.

GET  /api/v1/quotas              limits, and clients that had to wait on this broker
"""

from collections.abc import Callable, Mapping
from typing import Any

from ledgerstone.server.broker import Broker
from ledgerstone.server.quotas.view import MOST_SHOWN, throttled_clients

Calls = Mapping[str, Callable[[], object]]


def calls(broker: Broker, parts: list[str]) -> Calls | None:
    """None for a path that is not about quotas."""
    match parts:
        case ["quotas"]:
            return {"GET": lambda: quotas_json(broker)}
        case _:
            return None


def quotas_json(broker: Broker) -> dict[str, Any]:
    found = throttled_clients(broker.quota_agent, broker.clock.monotonic_ms())
    return {
        "limits": [
            {"entity": dict(entity.parts), "quotas": dict(values)}
            for entity, values in broker.image.client_quotas.items()
        ],
        "muted_connections": broker.peers.muted_count,
        "total": len(found),
        "throttled": [each._asdict() for each in found[:MOST_SHOWN]],
    }
