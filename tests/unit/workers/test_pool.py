"""A pool with real processes: each job gets one end, whatever its worker does."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ledgerstone.workers.frames import Message
from ledgerstone.workers.pool import STOPPING, JobFailed, JobListener, Pool, Trade
from tests.kit.odd_worker import MODULE, OWN_KINDS
from tests.kit.worker_processes import is_alive, worker_running, zombies_of

End = Message | JobFailed


class Owner:
    """Notes what it is told, and is woken by it."""

    def __init__(self, *, most: int | None = None, idle_s: float = 30.0) -> None:
        self.heard: list[int] = []
        self.parts: list[tuple[int, Message]] = []
        self.ends: dict[int, End] = {}
        self._changed = asyncio.Event()
        trade: Trade[Message, Message] = Trade(
            name="odd", module=MODULE, read_part=dict, read_end=dict, most=most
        )
        listener: JobListener[Message, Message] = JobListener(
            heard=self._hear, part=self._take_part, ended=self._end
        )
        self.pool = Pool(trade, listener, idle_s=idle_s)

    def _hear(self, number: int) -> None:
        self.heard.append(number)
        self._changed.set()

    def _take_part(self, number: int, part: Message) -> None:
        self.parts.append((number, part))
        self._changed.set()

    def _end(self, number: int, end: End) -> None:
        assert number not in self.ends, "a job ends once"
        self.ends[number] = end
        self._changed.set()

    async def until(self, condition: Callable[[], Any]) -> Any:
        async with asyncio.timeout(30):
            while not (found := condition()):
                self._changed.clear()
                await self._changed.wait()
        return found

    async def end_of(self, number: int) -> End:
        await self.until(lambda: number in self.ends)
        return self.ends[number]

    async def do(self, number: int, what: str) -> End:
        self.pool.hand_over(number, {"do": what})
        return await self.end_of(number)


def play(story: Callable[[Owner], Awaitable[Any]], **how: Any) -> Any:
    async def whole() -> Any:
        owner = Owner(**how)
        try:
            return await story(owner)
        finally:
            await owner.pool.stop()
            assert worker_running(os.getpid(), MODULE) is None
            assert zombies_of(os.getpid()) == []

    return asyncio.run(whole())


def pid_of(end: End) -> int:
    assert not isinstance(end, JobFailed), end
    return int(end["pid"])


async def gone(pid: int) -> None:
    async with asyncio.timeout(30):
        while is_alive(pid) or pid in zombies_of(os.getpid()):
            await asyncio.sleep(0.01)


def test_worker_serves_one_job_after_the_other() -> None:
    async def story(owner: Owner) -> list[End]:
        return [await owner.do(1, "work"), await owner.do(2, "work")]

    first, second = play(story)

    assert pid_of(first) == pid_of(second)


@pytest.mark.parametrize(
    ("what", "detail"), [("fail", "it did not work out"), ("raise", "ValueError: a fault")]
)
def test_job_that_fails_costs_no_worker(what: str, detail: str) -> None:
    async def story(owner: Owner) -> list[End]:
        return [await owner.do(1, "work"), await owner.do(2, what), await owner.do(3, "work")]

    before, failed, after = play(story)

    assert failed == JobFailed(detail)
    assert pid_of(after) == pid_of(before)


@pytest.mark.parametrize("what", OWN_KINDS)
def test_worker_that_writes_rubbish_is_given_up_and_the_next_job_gets_another(what: str) -> None:
    async def story(owner: Owner) -> list[End]:
        return [await owner.do(1, "work"), await owner.do(2, what), await owner.do(3, "work")]

    before, failed, after = play(story)

    assert isinstance(failed, JobFailed)
    assert failed.worker_died
    assert failed.reason.startswith("the odd worker died: ")
    assert "Traceback" not in failed.reason
    assert pid_of(after) != pid_of(before)
    assert not is_alive(pid_of(before))


def test_worker_that_dies_is_told_with_its_exit_code() -> None:
    async def story(owner: Owner) -> End:
        return await owner.do(1, "die")

    assert play(story) == JobFailed(
        "the odd worker died: IncompleteReadError, exit code 3", worker_died=True
    )


def test_what_a_library_prints_is_no_frame() -> None:
    async def story(owner: Owner) -> End:
        return await owner.do(1, "print")

    assert pid_of(play(story)) > 0


def test_module_that_does_not_exist_fails_its_job() -> None:
    async def story(owner: Owner) -> End:
        trade = owner.pool._trade
        object.__setattr__(trade, "module", "tests.kit.nowhere")
        return await owner.do(1, "work")

    failed = play(story)

    assert isinstance(failed, JobFailed)
    assert failed.worker_died


def test_worker_that_is_given_up_is_dead_before_its_job_has_ended() -> None:
    async def story(owner: Owner) -> tuple[End, bool]:
        pid = pid_of(await owner.do(1, "work"))
        os.kill(pid, signal.SIGSTOP)
        owner.pool.hand_over(2, {"do": "work"})
        await owner.until(lambda: 2 in owner.heard)
        owner.pool.give_up(2, "it said nothing")
        return await owner.end_of(2), is_alive(pid)

    end, lives = play(story)

    assert end == JobFailed("the odd worker was killed: it said nothing", worker_died=True)
    assert not lives


def test_worker_given_up_while_it_is_started_is_killed() -> None:
    async def story(owner: Owner) -> End:
        owner.pool.hand_over(1, {"do": "hang"})
        owner.pool.give_up(1, "too slow")
        return await owner.end_of(1)

    assert play(story) == JobFailed("the odd worker was killed: too slow", worker_died=True)


def test_idle_worker_that_was_killed_costs_no_job_and_leaves_no_zombie() -> None:
    async def story(owner: Owner) -> list[int]:
        first = pid_of(await owner.do(1, "work"))
        os.kill(first, signal.SIGKILL)
        second = pid_of(await owner.do(2, "work"))
        await gone(first)
        return [first, second]

    first, second = play(story)

    assert first != second


def test_idle_worker_is_let_go_after_a_while() -> None:
    async def story(owner: Owner) -> None:
        await gone(pid_of(await owner.do(1, "work")))

    play(story, idle_s=0.01)


def test_parts_wait_for_a_word() -> None:
    async def story(owner: Owner) -> tuple[End, list[int]]:
        owner.pool.hand_over(1, {"do": "parts"})
        seen = []
        for count in (1, 2, 3):
            await owner.until(lambda: len(owner.parts) >= count)  # noqa: B023
            seen.append(len(owner.parts))
            owner.pool.word(1, go_on=True)
        return await owner.end_of(1), seen

    end, seen = play(story)

    assert seen == [1, 2, 3]
    assert pid_of(end) > 0


def test_job_that_is_called_off_ends_and_its_worker_lives() -> None:
    async def story(owner: Owner) -> list[End]:
        owner.pool.hand_over(1, {"do": "parts"})
        await owner.until(lambda: owner.parts)
        owner.pool.word(1, go_on=False)
        return [await owner.end_of(1), await owner.do(2, "work")]

    aborted, after = play(story)

    assert aborted == JobFailed("aborted at 0")
    assert pid_of(after) > 0


def test_job_that_is_called_off_while_its_worker_starts_does_nothing() -> None:
    async def story(owner: Owner) -> End:
        owner.pool.hand_over(1, {"do": "parts"})
        owner.pool.word(1, go_on=False)
        return await owner.end_of(1)

    assert play(story) == JobFailed("aborted at 0")


def test_urgent_jobs_go_before_those_that_wait() -> None:
    async def story(owner: Owner) -> list[int]:
        owner.pool.hand_over(1, {"do": "work"})
        owner.pool.hand_over(2, {"do": "work"})
        owner.pool.hand_over(3, {"do": "work"}, is_urgent=True)
        await owner.until(lambda: len(owner.ends) == 3)
        assert len({pid_of(each) for each in owner.ends.values()}) == 1
        return list(owner.ends)

    assert play(story, most=1) == [1, 3, 2]


def test_job_is_not_heard_of_while_it_waits_for_a_worker() -> None:
    async def story(owner: Owner) -> list[int]:
        owner.pool.hand_over(1, {"do": "hang"})
        owner.pool.hand_over(2, {"do": "work"})
        await owner.until(lambda: owner.heard)
        heard = list(owner.heard)
        owner.pool.give_up(1, "enough")
        await owner.end_of(2)
        return heard

    assert play(story, most=1) == [1]


def test_stop_ends_every_job_and_every_worker() -> None:
    async def story(owner: Owner) -> dict[int, End]:
        idle = pid_of(await owner.do(1, "work"))
        os.kill(idle, signal.SIGSTOP)
        owner.pool.hand_over(2, {"do": "hang"})
        owner.pool.hand_over(3, {"do": "work"})
        await owner.until(lambda: 2 in owner.heard)
        await owner.pool.stop()
        assert not is_alive(idle)
        return owner.ends

    ends = play(story, most=1)

    assert ends[2] == ends[3] == JobFailed(STOPPING)
