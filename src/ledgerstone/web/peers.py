"""What the other nodes of the cluster say, for the pages that show all of them. Shell.

A page is of one broker. For what only others know it asks them (`peer_questions`), in a thread: a
broker's loop never waits for another broker. A node without an HTTP port, or with one that only its
own machine reaches, is shown by what the metadata says of it.
"""

import threading
import time
from collections.abc import Mapping
from typing import Final

from ledgerstone.cluster.lag_reports import LagReports
from ledgerstone.server.broker import Broker

# While a page is open.
_PAUSE_S: Final = 2.0


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
        # A single node does without the client that it asks with.
        from ledgerstone.web.peer_questions import addresses_of, from_all, serving

        with self._turn:
            addresses = addresses_of(broker, serving(broker))
            said = from_all(broker, addresses, "lags")
            self.addresses = addresses
            self.lags = LagReports(each for each in said.values() if each is not None)
            self._asked_s = time.monotonic()
