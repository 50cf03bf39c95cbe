"""A worker that is a thread, as its owner sees it."""

import asyncio
import threading

import pytest

from ledgerstone.testing.worker_threads import ThreadWorker
from ledgerstone.workers.child import Line, Work
from ledgerstone.workers.conversation import Conversation
from ledgerstone.workers.frames import Message


class Gone(BaseException):
    """What no border of a job holds up."""


def no_work() -> Work:
    raise ImportError("no module of that name")


def deadly_work() -> Work:
    def work(content: Message, line: Line) -> Message | str:
        raise Gone

    return work


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("find_work", [no_work, deadly_work])
def test_worker_that_dies_is_noticed(find_work: object) -> None:
    async def story() -> None:
        worker = ThreadWorker(find_work)  # type: ignore[arg-type]
        worker.send(Conversation().job({}))
        async with asyncio.timeout(10):
            with pytest.raises(EOFError):
                await worker.receive()
            assert await worker.end() == 0

    before = set(threading.enumerate())
    asyncio.run(story())
    # What it died of is told by its thread, and must not be taken for the next test's.
    for thread in set(threading.enumerate()) - before:
        thread.join(10)
