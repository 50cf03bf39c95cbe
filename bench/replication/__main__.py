"""Replication beside Apache Kafka: three nodes each on this machine, acks=all, RF 3.

    PYTHONPATH=tools python -m bench.replication [--quick] [--rounds N] [--only load,failover,moves]

Rounds alternate: one program's cluster runs, then the other's, so that a slow minute slows both.
A ratio says how many times better Ledgerstone is.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from typing import Final

from bench.peers import machine, report
from bench.peers.jars import fetch_kafka
from bench.peers.measures import Line, Pair, Section
from bench.peers.processes import ended_by_signals
from bench.replication.trio import trio
from bench.replication.visits import FIGURES, FULL, QUICK, VISITS, Size
from bench.storage import scratch
from golden.kafka_tools import KafkaJars
from tests.kit.nodes import KAFKA, LEDGERSTONE

ROUNDS: Final = 3


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.replication", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="little data, one round")
    parser.add_argument("--rounds", type=int, help=f"{ROUNDS}, or 1 with --quick")
    parser.add_argument("--only", default=",".join(VISITS), help=",".join(VISITS))
    parser.add_argument("--kind", choices=(LEDGERSTONE, KAFKA), help="one program alone")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    fetched = None if options.kind == LEDGERSTONE else fetch_kafka()
    jars = fetched if isinstance(fetched, KafkaJars) else None
    kinds = [options.kind] if options.kind else [LEDGERSTONE, *([KAFKA] if jars else [])]
    rounds = options.rounds or (1 if options.quick else ROUNDS)
    size = QUICK if options.quick else FULL
    found: dict[str, list[dict[str, float]]] = {each: [] for each in FIGURES}
    began = time.perf_counter()
    notes = [note] if (note := machine.busy_note()) else []
    with ended_by_signals():
        for name in options.only.split(","):
            for number in range(rounds):
                # Turns swap with each round.
                turns = kinds if number % 2 == 0 else kinds[::-1]
                for figure, value in _round(name, turns, jars, size).items():
                    found[figure].append(value)
    section = Section(
        title="Replication",
        when=time.strftime("%Y-%m-%d"),
        command=" ".join(["python -m bench.replication", *arguments]),
        seconds=time.perf_counter() - began,
        versions=machine.versions(jars),
        notes=tuple(notes),
        lines=tuple(line_of(name, values) for name, values in found.items() if values),
    )
    print("\n".join([*section.notes, *report.table(section)]))
    return 0


def _round(
    visit: str, kinds: Sequence[str], jars: KafkaJars | None, size: Size
) -> dict[str, dict[str, float]]:
    """Figures by name, then by program."""
    found: dict[str, dict[str, float]] = {}
    for kind in kinds:
        with scratch() as work, trio(kind, work, jars) as cluster:
            figures = VISITS[visit](cluster, size)
        for name, value in figures.items():
            found.setdefault(name, {})[kind] = value
            print(f"{kind}, {name}: {value:.4g} {FIGURES[name].unit}", flush=True)
    return found


def line_of(name: str, rounds: Sequence[dict[str, float]]) -> Line:
    """One program alone stands in the first column."""
    figure = FIGURES[name]
    pairs = [
        Pair(each[LEDGERSTONE], each.get(KAFKA)) if LEDGERSTONE in each else Pair(each[KAFKA], None)
        for each in rounds
    ]
    return Line(
        name=name,
        unit=figure.unit,
        rounds=tuple(pairs),
        more_is_better=figure.more_is_better,
        target=figure.target,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
