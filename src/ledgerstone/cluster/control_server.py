"""The supervisor's end of the control socket. Shell, on asyncio. Contract: `control`."""

import asyncio
import contextlib
import json
import signal
from collections.abc import Mapping
from typing import Any

from ledgerstone.cluster.control import LONGEST_LINE, listening_socket
from ledgerstone.cluster.directory import CONTROL
from ledgerstone.cluster.supervisor import Supervisor
from ledgerstone.errors import LedgerstoneError


class ControlServer:
    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._server: asyncio.Server | None = None
        # One change at a time.
        self._turn = asyncio.Lock()

    async def start(self) -> None:
        sock = listening_socket(self._supervisor.directory.path)
        self._server = await asyncio.start_unix_server(self._serve, sock=sock, limit=LONGEST_LINE)

    def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        (self._supervisor.directory.path / CONTROL).unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            answer: Mapping[str, Any]
            try:
                request = json.loads(await reader.readline())
                answer = {"done": await self._do(request)}
            except LedgerstoneError as error:
                answer = {"error": str(error)}
            except (KeyError, TypeError, ValueError) as error:
                answer = {"error": f"not a request: {error!r}"}
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
        writer.close()

    async def _do(self, request: dict[str, Any]) -> dict[str, Any]:
        supervisor = self._supervisor
        match request["do"]:
            case "nodes":
                return supervisor.describe()
            case "kill":
                number = signal.Signals(request["signal"])
                pid = supervisor.kill(request["node"], number, restart=bool(request["restart"]))
                return {"pid": pid}
        async with self._turn:
            match request["do"]:
                case "add":
                    return {"node": await supervisor.add(request["rack"])}
                case "retire":
                    return {"directory": await supervisor.retire(request["node"])}
                case "start":
                    await supervisor.start(request["node"])
                    return {}
        raise ValueError(request["do"])
