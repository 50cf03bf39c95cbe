"""A room of worker processes, and what a broker would be told."""

import asyncio
from typing import Any

from ledgerstone.server.workers import Tell, WorkerRoom


class Told:
    """For jobs of one kind at a time: ends are kept by number."""

    def __init__(self) -> None:
        self.ends: dict[int, Any] = {}
        self.heard: list[int] = []
        self._changed = asyncio.Event()
        self.room = WorkerRoom(
            Tell(
                cleaning_goes_on=self.heard.append,
                group_cleaned=lambda number, group: None,
                cleaning_ended=self._end,
                scan_goes_on=self.heard.append,
                scan_ended=self._end,
                analysis_goes_on=self.heard.append,
                analysed=self._end,
            )
        )

    def _end(self, number: int, end: Any) -> None:
        self.ends[number] = end
        self._changed.set()

    async def end_of(self, number: int) -> Any:
        async with asyncio.timeout(60):
            while number not in self.ends:
                self._changed.clear()
                await self._changed.wait()
        return self.ends[number]
