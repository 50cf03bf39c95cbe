"""`bare_voter` as a node of a planned cluster."""

import os
import signal
import subprocess
import sys
from dataclasses import dataclass

from tests.kit.broker import SOURCE, broker_environment, wait_until
from tests.kit.ledgerstone_node import LedgerstoneNode


@dataclass(slots=True, kw_only=True)
class BareNode(LedgerstoneNode):
    def start(self) -> None:
        assert self.process is None
        self.session += 1
        root = SOURCE.parent
        path = os.pathsep.join(map(str, (SOURCE, root / "tools", root)))
        command = [*self.prefix, sys.executable, "-m", "tests.kit.bare_voter", str(self.properties)]
        with self.log_file.open("wb") as log:
            self.process = subprocess.Popen(
                command,
                cwd=root,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**broker_environment(), "PYTHONPATH": path},
            )

    def wait_started(self, timeout_s: float = 90.0) -> None:
        wait_until(lambda: "started\n" in self.log_text, "the bare voter has started", timeout_s)

    def resign(self) -> None:
        os.kill(self.pid, signal.SIGUSR1)
