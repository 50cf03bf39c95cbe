"""One worker process as its owner holds it. Shell, on asyncio."""

import asyncio
import contextlib
import os
import sys
from typing import Final, Protocol

from ledgerstone.workers.frames import LENGTH_BYTES, Message, body_size, decode, encode

# How long a worker gets to end by itself once its input has ended.
END_S: Final = 2.0


class Worker(Protocol):
    """What a pool needs of a worker; `testing` has one that is a thread."""

    def send(self, message: Message) -> None: ...

    async def receive(self) -> Message:
        """Raises EOFError or OSError once the worker is gone, FrameRefused for rubbish."""

    def kill(self) -> None: ...

    async def end(self) -> int:
        """Lets it go, waits until it is gone, and returns its exit code."""


class WorkerProcess:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._input = process.stdin
        self._output = process.stdout

    @classmethod
    async def start(cls, module: str) -> "WorkerProcess":
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "ledgerstone.workers",
            str(os.getpid()),
            module,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
            # Importing numpy starts a thread for each core, which spins for a tenth of a second
            # and then waits for matrices that no worker multiplies.
            env={"OPENBLAS_NUM_THREADS": "1", **os.environ},
        )
        return cls(process)

    def send(self, message: Message) -> None:
        self._input.write(encode(message))

    async def receive(self) -> Message:
        size = body_size(await self._output.readexactly(LENGTH_BYTES))
        return decode(await self._output.readexactly(size))

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    async def end(self) -> int:
        """It goes by itself when its input ends, unless it cannot."""
        self._input.close()
        try:
            return await asyncio.wait_for(self._process.wait(), END_S)
        except TimeoutError:
            self.kill()
            return await self._process.wait()
