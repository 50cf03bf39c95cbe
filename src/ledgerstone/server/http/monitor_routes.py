"""The addresses that monitors ask. Grade D, over a broker.

What answers looks at every part of a broker, so it is imported with the first question.
"""

from ledgerstone.server.broker import Broker
from ledgerstone.server.http.server import Page, Routes, SlowPage


def routes(broker: Broker) -> Routes:
    return {
        "/metrics": lambda: _metrics(broker),
        "/livez": lambda: Page(200, "alive\n"),
        "/healthz": lambda: Page(200, "alive\n"),
        "/readyz": lambda: _readiness(broker),
    }


def _metrics(broker: Broker) -> SlowPage:
    from ledgerstone.server.http.monitor import metrics

    return metrics(broker)


def _readiness(broker: Broker) -> Page:
    from ledgerstone.server.http.monitor import readiness

    return readiness(broker)
