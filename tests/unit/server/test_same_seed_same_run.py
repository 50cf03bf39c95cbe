"""Same seed, same calls: same effects and same bytes on disk, whatever PYTHONHASHSEED is.

Run as a program, this file plays the story and prints its digest; the test runs it twice.
"""

import hashlib
import os
import random
import subprocess
import sys
from pathlib import Path

from ledgerstone.protocol.api import OFFERED
from ledgerstone.server.dispatch import HANDLED
from tests.kit.in_process import InProcess, RawClient, frame_of
from tests.kit.logs import batch
from tests.property.wild_requests import Wild
from tests.unit.server.asks import create_topic

ROOT = Path(__file__).parents[3]


def play(seed: int, steps: int = 250) -> InProcess:
    """Wild requests of several connections, in pieces, with time passing and a crash between."""
    dice = random.Random(seed)
    machine = InProcess(seed)
    first = machine.connect()
    create_topic(first, partitions=2)
    create_topic(first, "compacted", cleanup_policy="compact", segment_ms="100")
    topic_ids = [each.topic_id for each in machine.broker.image.topics.values()]
    for step in range(steps):
        if step == steps // 2:
            machine.lose_power("random")
        client = dice.choice(list(machine.clients.values()) or [machine.connect_raw()])
        if dice.random() < 0.3:
            client = machine.connect_raw(f"10.0.0.{dice.randrange(4)}")
        key = dice.choice(sorted(HANDLED))
        version = OFFERED[key].last
        request = Wild(dice, topic_ids, [bytes(batch(("key", "value")))]).request(key, version)
        if isinstance(client, RawClient):
            client.feed(frame_of(request, version, step))
        machine.advance(dice.choice((0, 0, 1, 50, 900)))
    machine.check_invariants()
    return machine


def digest(machine: InProcess) -> str:
    everything = hashlib.sha256()
    for line in machine.trace:
        everything.update(line.encode() + b"\n")
    for path, data in machine.fs.files().items():
        everything.update(f"{path} {len(data)}\n".encode() + data)
    return f"{len(machine.trace)} effects {everything.hexdigest()}"


def run(seed: int, hash_seed: str) -> str:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": f"{ROOT}/src:{ROOT}"}
    command = [sys.executable, "-m", "tests.unit.server.test_same_seed_same_run", str(seed)]
    done = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    return done.stdout


def test_two_processes_with_different_hash_seeds_do_the_same() -> None:
    first, second = run(7, "1"), run(7, "2")

    assert first == second
    assert int(first.split()[0]) > 100


def test_another_seed_gives_another_run() -> None:
    assert digest(play(1, 30)) != digest(play(2, 30))


if __name__ == "__main__":
    sys.stdout.write(digest(play(int(sys.argv[1]))))
