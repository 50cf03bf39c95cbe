"""A worker's own side: it ends with its owner, and says that it is at work."""

import os
import subprocess
from typing import Any

import pytest

from ledgerstone.workers import child
from ledgerstone.workers.child import OwnerGone, PipeLine, serve
from ledgerstone.workers.frames import LENGTH_BYTES, FrameRefused, Message, decode, encode
from ledgerstone.workers.pace import JobAborted, Pace
from tests.kit.worker_processes import ANALYST, CLEANER, SCANNER, command_of, hear, started, tell

MODULES = [CLEANER, SCANNER, ANALYST]


class Pipes:
    """Both ends of a line in one process."""

    def __init__(self) -> None:
        self._read, self.write = os.pipe()
        self.read, self._write = os.pipe()
        self.line = PipeLine(self._read, self._write)

    def say(self, *messages: Message) -> None:
        os.write(self.write, b"".join(map(encode, messages)))

    def said(self) -> list[Message]:
        os.set_blocking(self.read, False)
        data = b""
        try:
            while piece := os.read(self.read, 1 << 16):
                data += piece
        except BlockingIOError:
            pass
        found = []
        while data:
            end = LENGTH_BYTES + int.from_bytes(data[:LENGTH_BYTES], "big")
            found.append(decode(data[LENGTH_BYTES:end]))
            data = data[end:]
        return found

    def hang_up(self) -> None:
        os.close(self.write)
        self.write = -1

    def close(self) -> None:
        for fd in (self._read, self.write, self.read, self._write):
            if fd >= 0:
                os.close(fd)


@pytest.fixture
def pipes() -> Any:
    made = Pipes()
    yield made
    made.close()


@pytest.mark.parametrize("module", MODULES)
def test_worker_whose_parent_died_before_it_could_ask_for_a_signal_ends(module: str) -> None:
    """It is started with the id of a process that is not its parent."""
    command = command_of(module, parent=os.getppid())
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:
        try:
            assert worker.wait(timeout=30) == 0
        finally:
            worker.kill()


@pytest.mark.parametrize("module", MODULES)
def test_worker_answers_and_ends_with_its_input(module: str) -> None:
    with started(module) as worker:
        tell(worker, {"kind": "ping"})
        answer = hear(worker)
        assert worker.stdin is not None
        worker.stdin.close()

        assert answer == {"kind": "here"}
        assert worker.wait(timeout=30) == 0


def test_job_says_that_it_is_at_work_and_hears_that_it_is_not_wanted(
    pipes: Pipes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "PROGRESS_S", 0.0)

    first = pipes.line.should_abort()
    pipes.say({"kind": "abort"})
    second = pipes.line.should_abort()

    assert (first, second) == (False, True)
    assert pipes.said() == [{"kind": "progress"}] * 2


def test_job_that_was_just_heard_of_says_nothing_more(pipes: Pipes) -> None:
    for _ in range(100):
        pipes.line.should_abort()

    assert pipes.said() == []


def test_slow_job_says_that_it_is_at_work_while_it_waits(
    pipes: Pipes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "PROGRESS_S", 0.0)
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            pipes.say({"kind": "abort"})

    monkeypatch.setattr("ledgerstone.workers.pace.time.sleep", sleep)
    pace = Pace(pipes.line, bytes_per_second=1.0)
    pace.before_read(1_000_000)

    with pytest.raises(JobAborted):
        pace.before_read(1)

    assert len(waits) == 3
    assert max(waits) < 1
    assert len(pipes.said()) == 5


def test_worker_without_an_owner_ends_even_in_the_middle_of_a_job(pipes: Pipes) -> None:
    def work(content: Message, line: child.Line) -> Message:
        pipes.hang_up()
        line.should_abort()
        raise AssertionError("nobody wants to know")

    pipes.say({"kind": "job", "content": {}})

    with pytest.raises(OwnerGone):
        serve(pipes.line, work)


def test_worker_ends_when_it_is_told_rubbish(pipes: Pipes) -> None:
    os.write(pipes.write, b"\xff\xff\xff\xff")

    with pytest.raises(FrameRefused, match="at most"):
        serve(pipes.line, lambda content, line: content)
