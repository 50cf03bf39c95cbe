"""A room of worker processes, and what a broker would be told."""

import asyncio
from typing import Any

from ledgerstone.server.results import Result, StillAtWork, is_last
from ledgerstone.server.workers import Job, WorkerRoom


class Told:
    """For jobs of one kind at a time: ends are kept by number."""

    def __init__(self) -> None:
        self.ends: dict[int, Any] = {}
        self.heard: list[int] = []
        self._changed = asyncio.Event()
        self.room = WorkerRoom(self._told)

    def _told(self, job: Job, result: Result) -> None:
        if isinstance(result, StillAtWork):
            self.heard.append(job.number)
        elif is_last(result):
            self.ends[job.number] = result
            self._changed.set()

    async def end_of(self, number: int) -> Any:
        async with asyncio.timeout(60):
            while number not in self.ends:
                self._changed.clear()
                await self._changed.wait()
        return self.ends[number]
