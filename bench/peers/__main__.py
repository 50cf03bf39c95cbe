"""Runs the sections, keeps what they found, and publishes it when asked to. Shell.

    python -m bench.peers [--quick] [--only SECTIONS] [--rounds N] [--publish]
    python -m bench.peers --render

Results go to the ignored cache after each section, so that a run that is cut off keeps what it has.
`--publish` writes them to docs/benchmarks.md, docs/benchmarks/peers.json and a chart for each
section beside it; `--render` does only that, with what is in the cache.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from bench.peers import (
    chart,
    cleaner,
    consume,
    growth,
    latency,
    machine,
    produce,
    report,
    restart,
    spark,
    start,
    state,
    transactions,
)
from bench.peers.arena import Arena
from bench.peers.jars import fetch_kafka
from bench.peers.measures import Line, Results, Section, from_json, merged, to_json
from bench.peers.processes import ended_by_signals
from golden.kafka_tools import REPOSITORY, KafkaJars, KafkaToolError
from ledgerstone.records.kernels import load as load_kernels

CACHE: Final = REPOSITORY / ".cache" / "bench-peers"
PAGE: Final = REPOSITORY / "docs" / "benchmarks.md"
CHARTS: Final = REPOSITORY / "docs" / "benchmarks"
ROUNDS: Final = 3


class Runner(NamedTuple):
    title: str
    run: Callable[[Arena], list[Line]]


SECTIONS: Final[dict[str, Runner]] = {
    "produce": Runner("Produce", produce.run),
    "consume": Runner("Consume", consume.run),
    "latency": Runner("Latency at 1,000 records a second", latency.run),
    "transactions": Runner("Transactions", transactions.run),
    "start": Runner("Start-up, memory, CPU", start.run),
    "cleaner": Runner("Compaction of identical logs", cleaner.run),
    "restart": Runner("Restart after kill -9", restart.run),
    "spark": Runner("A whole topic into Spark", spark.run),
    "state": Runner("State of a topic", state.run),
    "growth": Runner("Growth of cost", growth.run),
}


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.peers", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="tiny sizes, one round: does it work?")
    parser.add_argument("--only", type=_sections, default=list(SECTIONS), help=",".join(SECTIONS))
    parser.add_argument("--rounds", type=int, help=f"{ROUNDS} unless told otherwise")
    parser.add_argument("--publish", action="store_true", help="write docs/benchmarks.md")
    parser.add_argument("--render", action="store_true", help="publish the last run, run nothing")
    found = parser.parse_args(arguments)
    if found.quick and (found.publish or found.render):
        parser.error("a quick run is not for publishing")
    return found


def _sections(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in SECTIONS:
            raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(SECTIONS)}")
    return names


def main() -> int:
    arguments = sys.argv[1:]
    options = parse(arguments)
    store = CACHE / ("results-quick.json" if options.quick else "results.json")
    if options.render:
        publish(stored(store))
        return 0
    with ended_by_signals():
        try:
            failed = run(options, store, " ".join(["python -m bench.peers", *arguments]))
        except KeyboardInterrupt:
            print(f"\nstopped; what was found is in {store.relative_to(REPOSITORY)}")
            return 130
    if options.publish and not failed:
        publish(stored(store))
    return 1 if failed else 0


def run(options: argparse.Namespace, store: Path, command: str) -> list[str]:
    """The sections that failed."""
    load_kernels()
    fetched = fetch_kafka()
    jars = fetched if isinstance(fetched, KafkaJars) else None
    if jars is None:
        print(f"{fetched}\nWithout it, Ledgerstone's figures stand alone.", flush=True)
    rounds = options.rounds or (1 if options.quick else ROUNDS)
    failed = []
    for name in options.only:
        arena = Arena(jars=jars, rounds=rounds, quick=options.quick)
        try:
            section = run_section(SECTIONS[name], arena, command)
        except (RuntimeError, OSError, KafkaToolError, subprocess.CalledProcessError) as error:
            print(f"## {name} failed: {error}\n", flush=True)
            failed.append(name)
            continue
        found = Results(machine=machine.describe(jars), sections={name: section})
        keep(store, found)
        print(f"## {section.title} ({section.seconds:.0f} s)\n", flush=True)
        print("\n".join(report.table(section)), flush=True)
        print()
    return failed


def run_section(runner: Runner, arena: Arena, command: str) -> Section:
    started = time.perf_counter()
    notes = [note] if (note := machine.busy_note()) else []
    lines = runner.run(arena)
    return Section(
        title=runner.title,
        when=time.strftime("%Y-%m-%d"),
        command=command,
        seconds=time.perf_counter() - started,
        versions=machine.versions(arena.jars),
        notes=(*notes, *arena.notes),
        lines=tuple(lines),
    )


def stored(store: Path) -> Results:
    return from_json(json.loads(store.read_text(encoding="utf-8")))


def keep(store: Path, found: Results) -> None:
    store.parent.mkdir(parents=True, exist_ok=True)
    whole = merged(stored(store) if store.exists() else None, found, list(SECTIONS))
    _write(store, json.dumps(to_json(whole), indent=1, ensure_ascii=False) + "\n")


def publish(results: Results) -> None:
    CHARTS.mkdir(parents=True, exist_ok=True)
    for key, section in results.sections.items():
        _write(CHARTS / f"{key}.svg", chart.draw(section.title, section.lines))
    _write(CHARTS / "peers.json", json.dumps(to_json(results), indent=1, ensure_ascii=False) + "\n")
    page = PAGE.read_text(encoding="utf-8")
    _write(PAGE, report.page_with(page, report.render(results, charts="benchmarks")))
    print(f"published {', '.join(results.sections)}")


def _write(path: Path, text: str) -> None:
    """Whole or not at all."""
    beside = path.with_name(path.name + ".new")
    beside.write_text(text, encoding="utf-8")
    os.replace(beside, path)


if __name__ == "__main__":
    sys.exit(main())
