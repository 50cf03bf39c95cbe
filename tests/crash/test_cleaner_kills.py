"""A real broker and its cleaning worker, killed with SIGKILL around passes and swaps.

A seed decides which process dies and at which stage of a pass: when it was requested, with the
first `.cleaned`, `.swap` or `.deleted` file, or some acknowledged batches later. A thread watches
the directory and kills while records are being written. After each death the log is read from its
start and compared with everything that was ever acknowledged.
"""

import contextlib
import itertools
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final

import pytest

from ledgerstone.client.producer import Producer
from tests.kit.broker import BrokerProcess, wait_until
from tests.kit.cleaner_api import ask_for_a_pass, await_ticket, compact, get, workers_of
from tests.kit.kill_story import SETTINGS, TOPIC, KillStory, connect

VICTIMS: Final = ("broker", "worker", "both")
STAGES: Final = ("asked", ".cleaned", ".cleaned", ".swap", ".swap", ".deleted", "done")
# Short, so that a writer whose broker is dead gives up soon.
WRITE_TIMEOUT_MS: Final = 400
BATCHES_BETWEEN_KILLS: Final = 12


@dataclass(slots=True)
class Killer:
    """Kills once, at its stage, or when the pass is over before that was seen."""

    story: KillStory
    victim: str
    stage: str
    ticket: int
    # How often the directory is looked at after the stage was seen: swaps take some looks.
    patience: int
    killed: list[str] = field(default_factory=list)

    def run(self) -> None:
        self._await_stage()
        workers = workers_of(self.story.broker.pid)
        # Whichever dies first, the other does not know it for a moment.
        if self.victim == "both" and self.patience % 2:
            self._kill_worker(workers)
            self._kill_broker()
        else:
            if self.victim in ("broker", "both") or not workers:
                self._kill_broker()
            if self.victim in ("worker", "both"):
                self._kill_worker(workers)

    def _await_stage(self) -> None:
        looks_left = self.patience
        seen = self.stage == "asked"
        for look in itertools.count():
            looks_left -= seen
            # Asking takes long compared with a swap, so not at every look.
            is_over = look % 50 == 49 and get(self.story.broker, f"tickets/{self.ticket}")["done"]
            if is_over or not looks_left:
                return
            names = os.listdir(self.story.directory)
            seen = seen or any(name.endswith(self.stage) for name in names)

    def _kill_worker(self, workers: list[int]) -> None:
        for pid in workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                self.killed.append("worker")

    def _kill_broker(self) -> None:
        self.story.broker.kill()
        self.killed.append("broker")


def kill_once(story: KillStory, dice: Random) -> list[str]:
    broker = story.broker
    with connect(broker, WRITE_TIMEOUT_MS) as client:
        producer = Producer(client)
        for _ in range(dice.randrange(1, BATCHES_BETWEEN_KILLS)):
            story.write(producer)
        killer = Killer(
            story,
            victim=dice.choice(VICTIMS),
            stage=dice.choice(STAGES),
            ticket=ask_for_a_pass(broker, TOPIC),
            patience=dice.randrange(1, 40),
        )
        thread = threading.Thread(target=killer.run)
        thread.start()
        while thread.is_alive() and story.write(producer):
            pass
        thread.join()
    if "broker" in killer.killed:
        broker.start()
    else:
        await_ticket(broker, killer.ticket)
    return killer.killed


def kill_many_times(story: KillStory, kills: int) -> dict[str, int]:
    """Returns how often each process died."""
    died: dict[str, int] = {}
    for _ in range(kills):
        for name in kill_once(story, story.dice):
            died[name] = died.get(name, 0) + 1
        story.check()
        run = compact(story.broker, TOPIC)["run"]
        assert run["outcome"] == "cleaned", run["detail"]
        story.check()
        story.check_files()
    return died


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path, settings=dict(SETTINGS)) as process:
        yield process


def check_a_life(broker: BrokerProcess, kills: int, seed: int) -> dict[str, int]:
    story = KillStory(broker, Random(seed))
    story.begin()

    died = kill_many_times(story, kills)

    # Two more passes at a time of peace: every tombstone has gone, and nothing is left of it.
    compact(broker, TOPIC)
    compact(broker, TOPIC)
    story.check()
    wait_until(lambda: not story.deleted_files(), "what was replaced is unlinked")
    assert story.buried > 0
    assert sum(died.values()) >= kills
    return died


def test_three_kills_of_broker_and_worker_leave_the_log_before_or_after(
    broker: BrokerProcess,
) -> None:
    died = check_a_life(broker, kills=3, seed=5)

    assert died.keys() == {"broker", "worker"}
    assert " ERROR " not in broker.log_text


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_two_hundred_kills_of_broker_and_worker_leave_the_log_before_or_after(
    broker: BrokerProcess, seed: int
) -> None:
    died = check_a_life(broker, kills=50, seed=seed)

    assert min(died.values()) >= 10
    assert " ERROR " not in broker.log_text
