"""State of a topic rebuilt: our fold beside a consumer loop in Python and in Java. Shell."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

from bench.peers.arena import Arena
from bench.peers.jobs import run_job
from bench.peers.measures import Line, Pair
from bench.storage import scratch

JAVA_LOOP: Final = Path(__file__).with_name("KafkaStateLoop.java")
# What a record of 16 B keys adds to its value, nearly.
OVERHEAD_BYTES: Final = 25
NOTE: Final = (
    "One topic of four partitions on {broker} for all; each key is written eight times, one record "
    "in ten is a tombstone, and all three must find the same number of live keys. Each runs in a "
    "process of its own, from making the client until the table is whole; the start of Python and "
    "of the JVM is not counted, the warming up of the JVM is. CPU is of that process."
)


class Rebuilt(NamedTuple):
    seconds: float
    cpu_s: float
    keys: int


def run(arena: Arena) -> list[Line]:
    lines = []
    with arena.alone(prefers_kafka=True) as broker, scratch() as directory:
        arena.notes.append(NOTE.format(broker=broker.name))
        commands = _commands(arena, directory)
        for value_bytes in (100, 1000):
            rows = arena.size(256 << 20, 8 << 20) // (value_bytes + OVERHEAD_BYTES)
            job = [*_python("fill"), broker.bootstrap, str(rows), str(value_bytes)]
            topic, size = run_job(job)
            found: dict[str, list[Rebuilt]] = {name: [] for name in commands}
            for number in range(arena.rounds):
                for name in list(commands)[:: 1 if number % 2 == 0 else -1]:
                    command = [*commands[name], broker.bootstrap, topic]
                    found[name].append(Rebuilt(*run_job(command)))
            lines += lines_of(value_bytes, size, found)
    return lines


def _python(action: str) -> list[str]:
    return [sys.executable, "-m", "bench.peers.state_job", action]


def _commands(arena: Arena, directory: Path) -> dict[str, list[str]]:
    """Ours first."""
    found = {"ours": _python("fold"), "confluent-kafka and a dict": _python("dict")}
    if arena.jars is not None:
        libraries = f"{arena.jars.directory / 'libs'}/*"
        command = ["javac", "-d", str(directory), "-cp", libraries, str(JAVA_LOOP)]
        subprocess.run(command, check=True, capture_output=True)
        path = f"{directory}{os.pathsep}{libraries}"
        found["Kafka's Java consumer and a HashMap"] = ["java", "-cp", path, JAVA_LOOP.stem]
    return found


def lines_of(value_bytes: int, size: int, found: dict[str, list[Rebuilt]]) -> list[Line]:
    keys = {name: {each.keys for each in rounds} for name, rounds in found.items()}
    if any(len(seen | keys["ours"]) != 1 for seen in keys.values()):
        raise RuntimeError(f"live keys differ: {keys}")
    mb = size / 1e6
    return [
        Line(
            name=f"state of {value_bytes} B values, beside {name}",
            unit="MB/s",
            rounds=tuple(
                Pair(mb / a.seconds, mb / b.seconds)
                for a, b in zip(found["ours"], theirs, strict=True)
            ),
            cpu=tuple(
                Pair(a.cpu_s * 1e3 / mb, b.cpu_s * 1e3 / mb)
                for a, b in zip(found["ours"], theirs, strict=True)
            ),
            cpu_unit="s/GB",
        )
        for name, theirs in found.items()
        if name != "ours"
    ]
