"""One node under supervision: its process, its output, its restarts. Shell, on asyncio."""

import asyncio
import contextlib
import enum
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from ledgerstone.cluster.restarts import Restarts

_LOOK_S: Final = 0.03
# A longer line is cut into several.
_LONGEST_LINE: Final = 1 << 16
# This line of a node's output grants changes; whoever may see it reads the ready file.
_SECRET: Final = b"ledgerstone page "


class NodeState(enum.StrEnum):
    STARTING = "starting"
    UP = "up"
    STOPPING = "stopping"
    # Ended, and not to be started until it is asked for.
    DOWN = "down"
    # Ended, and about to be started again.
    WAITING = "waiting"
    # Ended too often in a row.
    GIVEN_UP = "given up"


class SupervisedNode:
    """`run` lasts until the node is stopped for good. `on_change` is called whenever `state` is
    another."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        ready_file: Path,
        *,
        say: Callable[[str, str], None],
        on_change: Callable[[], None],
    ) -> None:
        self.name = name
        self.state = NodeState.DOWN
        self.restarts = Restarts()
        # What the node wrote when it became ready; of its last process, if none runs.
        self.facts: dict[str, Any] = {}
        self._command = command
        self._ready_file = ready_file
        self._say = say
        self._on_change = on_change
        self._process: asyncio.subprocess.Process | None = None
        self._task: asyncio.Task[None] | None = None
        self._wants_to_run = True
        self._wakes = asyncio.Event()

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Again after an end, or at once instead of after the pause."""
        self._wants_to_run = True
        self.restarts.forgive()
        self._wakes.set()
        if self._task is None or self._task.done():
            self._become(NodeState.WAITING)
            self._task = asyncio.create_task(self._run())

    async def stop(self, patience_s: float, *, hurries: bool = False) -> None:
        """A controlled shutdown; it is killed where that takes too long."""
        self._wants_to_run = False
        self._wakes.set()
        if self._process is not None:
            self._become(NodeState.STOPPING)
            self.send(signal.SIGTERM)
            # A node that was frozen to see what happens has to hear it.
            self.send(signal.SIGCONT)
            if hurries:
                # The second one means: do not wait for a controller.
                await asyncio.sleep(_LOOK_S)
                self.send(signal.SIGTERM)
        if self._task is not None:
            done, _ = await asyncio.wait((self._task,), timeout=patience_s)
            if not done:
                self._say(self.name, f"did not stop for {patience_s:g} s and is killed")
                self.send(signal.SIGKILL)
                await self._task

    def kill(self, number: signal.Signals, *, is_final: bool) -> None:
        if is_final:
            self._wants_to_run = False
        self.send(number)

    def send(self, number: signal.Signals) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    # -- its life -----------------------------------------------------------------------------

    async def _run(self) -> None:
        while self._may_run():
            began_s = time.monotonic()
            try:
                code = await self._live()
            except OSError as error:
                self._say(self.name, f"cannot be started: {error}")
                self._wants_to_run = False
                self._become(NodeState.GIVEN_UP)
                return
            ended = _ended(code)
            if not self._may_run():
                self._say(self.name, "stopped" if code == 0 else ended)
                break
            lived_ms = int((time.monotonic() - began_s) * 1000)
            pause_ms = self.restarts.ended(lived_ms=lived_ms)
            if pause_ms is None:
                times = self.restarts.in_a_row
                self._say(self.name, f"{ended}, {times} times in a row: it is not started again")
                self._become(NodeState.GIVEN_UP)
                return
            self._say(self.name, f"{ended}, and starts again in {pause_ms / 1000:g} s")
            self._become(NodeState.WAITING)
            self._wakes.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wakes.wait(), pause_ms / 1000)
        self._become(NodeState.DOWN)

    def _may_run(self) -> bool:
        """Asked again after every wait: `stop` and `kill` change it."""
        return self._wants_to_run

    async def _live(self) -> int:
        """One process from its start to its end."""
        self._ready_file.unlink(missing_ok=True)
        self._process = process = await asyncio.create_subprocess_exec(
            *self._command,
            "--supervisor",
            str(os.getpid()),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            # Ctrl-C is for the supervisor, which stops nodes one after the other.
            start_new_session=True,
            limit=_LONGEST_LINE,
        )
        self._become(NodeState.STARTING)
        assert process.stdout is not None
        reading = asyncio.create_task(self._read(process.stdout))
        watching = asyncio.create_task(self._watch_ready(process.pid))
        try:
            code = await process.wait()
        finally:
            watching.cancel()
            self._process = None
        # What it said last is why it ended. A process of its own may hold the pipe open.
        await asyncio.wait((reading,), timeout=1.0)
        reading.cancel()
        return code

    async def _read(self, output: asyncio.StreamReader) -> None:
        while True:
            try:
                line = await output.readuntil(b"\n")
            except asyncio.LimitOverrunError:
                line = await output.read(_LONGEST_LINE)
            except asyncio.IncompleteReadError as end:
                line = end.partial
            if not line:
                return
            if not line.startswith(_SECRET):
                self._say(self.name, line.decode("utf-8", "replace").rstrip("\n"))

    async def _watch_ready(self, pid: int) -> None:
        while not self._ready_file.exists():
            await asyncio.sleep(_LOOK_S)
        facts = json.loads(self._ready_file.read_text(encoding="utf-8"))
        if facts["pid"] == pid and self.state is NodeState.STARTING:
            self.facts = facts
            self._become(NodeState.UP)

    def _become(self, state: NodeState) -> None:
        if state is not self.state:
            self.state = state
            self._on_change()


def _ended(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"ended by signal {-code}"


def up_command(properties: Path, data: Path, ready_file: Path, log_level: str) -> list[str]:
    """What runs one node."""
    command = [sys.executable, "-m", "ledgerstone", "up", "--config", str(properties)]
    return [
        *command,
        *("--data", str(data)),
        *("--ready-file", str(ready_file)),
        *("--log-level", log_level),
    ]
