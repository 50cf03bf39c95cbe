"""Quotas: what is set, and who has to wait for it on this broker. Grade D."""

from collections.abc import Mapping
from typing import Final

from ledgerstone.server.broker import Broker
from ledgerstone.server.http.quotas import quotas_json
from ledgerstone.server.http.server import HttpRequest
from ledgerstone.web.router import Rendered

SHOWN: Final = 200


def quotas_view(broker: Broker, request: HttpRequest, parts: Mapping[str, str]) -> Rendered:
    found = quotas_json(broker)
    limits = [
        (each["entity"], key, value)
        for each in found["limits"]
        for key, value in sorted(each["quotas"].items())
    ]
    return Rendered(
        "quotas.html",
        {
            "limits": limits[:SHOWN],
            "more_limits": max(len(limits) - SHOWN, 0),
            "rows": found["throttled"][:SHOWN],
            "hidden": max(found["total"] - SHOWN, 0),
            "muted": found["muted_connections"],
        },
    )
