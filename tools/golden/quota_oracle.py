"""Apache Kafka's own quota classes as an oracle: scripts of random steps, and what Kafka answers.

Shell grade (processes). A step is a line of words:

    set     QUOTA USER CLIENT BOUND        a quota; `-` absent, `*` default; BOUND `-` removes it
    record  QUOTA USER CLIENT VALUE MS     -> throttle time
    quiet   QUOTA USER CLIENT VALUE MS     counts without a check
    back    QUOTA USER CLIENT VALUE MS     takes back
    most    QUOTA USER CLIENT 0 MS         -> the most that a window can hold
    strict | permissive  mutation USER CLIENT VALUE MS LATER_MS
                                           -> error, throttle time, and what is left of it later

QUOTA is produce, fetch, request (values in nanoseconds) or mutation.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Final

from golden.kafka_tools import (
    KAFKA_VERSION,
    LOG4J_VERSION,
    POM,
    REPOSITORY,
    KafkaJars,
    KafkaToolError,
    default_cache,
    fetch_into,
)

HELPERS: Final = ("QuotaOracle.java",)
ANSWER: Final = "> "
# Large enough that Kafka's buckets, which fill up from the epoch on, are full.
FIRST_MS: Final = 1_700_000_000_000
USERS: Final = ("alice", "bob", "carol", "ANONYMOUS")
CLIENTS: Final = ("c1", "c2", "c3")
_BOUNDS: Final = {
    "produce": (500, 1000, 2500, 65_536, 1_000_000),
    "fetch": (100, 1000, 8192, 1_000_000, 3_000_000),
    "request": (0.5, 1.0, 10.0, 12.5, 200.0),
    "mutation": (0.5, 1.0, 2.0, 5.0, 10.0),
}
_QUOTAS: Final = tuple(_BOUNDS)
_PAUSES: Final = (1, 5, 50, 400, 1500, 3000, 15_000, 60_000)
_PAUSE_WEIGHTS: Final = (30, 20, 20, 15, 8, 4, 2, 1)


def random_steps(seed: int, count: int) -> Iterator[list[str]]:
    """Times never go back; sometimes they stand still, sometimes everything expires."""
    dice = Random(seed)
    now_ms = FIRST_MS
    for number in range(count):
        now_ms += _pause(dice)
        if number % 40 == 0 or dice.random() < 0.01:
            yield _change(dice)
            continue
        quota = dice.choice(_QUOTAS)
        who = [quota, dice.choice(USERS), dice.choice(CLIENTS)]
        if quota == "mutation":
            later_ms = dice.randrange(4000)
            kind = dice.choice(("strict", "strict", "permissive"))
            yield [kind, *who, str(dice.randrange(1, 60)), str(now_ms), str(later_ms)]
            now_ms += later_ms
            continue
        kind = dice.choices(("record", "quiet", "back", "most"), (20, 3, 2, 1))[0]
        value = 0 if kind == "most" else _value(dice, quota)
        yield [kind, *who, str(value), str(now_ms)]


def _pause(dice: Random) -> int:
    longest = dice.choices(_PAUSES, _PAUSE_WEIGHTS)[0]
    return dice.randrange(longest + 1)


def _value(dice: Random, quota: str) -> int:
    if quota == "request":
        return dice.randrange(dice.choice((20_000, 5_000_000, 80_000_000)))
    return dice.randrange(dice.choice((10, 400, 5000, 100_000, 2_000_000)))


def _change(dice: Random) -> list[str]:
    quota = dice.choice(_QUOTAS)
    user = dice.choice(("-", "*", *USERS))
    client = dice.choice(("-", "*", *CLIENTS))
    if user == client == "-":
        user = "*"
    bound = "-" if dice.random() < 0.45 else str(dice.choice(_BOUNDS[quota]))
    return ["set", quota, user, client, bound]


def fetch_oracle() -> KafkaJars:
    """The jars of the broker with the program compiled; in a directory of its own, since the other
    helpers are compiled into theirs."""
    directory = default_cache() / f"{KAFKA_VERSION}-quotas"
    fetch_into(directory, POM.format(version=KAFKA_VERSION, log4j=LOG4J_VERSION), HELPERS)
    return KafkaJars(version=KAFKA_VERSION, directory=directory)


def ask_kafka(steps: Sequence[Sequence[str]], *, samples: int = 11, window_s: int = 1) -> list[str]:
    """One answer for each step."""
    command = fetch_oracle().java("QuotaOracle", str(samples), str(window_s))
    script = "".join("\t".join(step) + "\n" for step in steps)
    done = subprocess.run(command, input=script, capture_output=True, encoding="utf-8", check=False)
    lines = [
        line.removeprefix(ANSWER) for line in done.stdout.splitlines() if line.startswith(ANSWER)
    ]
    if done.returncode != 0 or len(lines) != len(steps):
        raise KafkaToolError(f"{len(lines)} of {len(steps)} answers\n{done.stderr[-2000:]}")
    return lines


def write_golden(path: Path, seed: int = 1, count: int = 4000) -> None:
    steps = list(random_steps(seed, count))
    answers = ask_kafka(steps)
    lines = ["\t".join([*step, answer]) for step, answer in zip(steps, answers, strict=True)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write_golden(REPOSITORY / "tests" / "golden" / "kafka_quotas.txt")
