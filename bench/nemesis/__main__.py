"""Faults on three real nodes, and what became of what clients were promised.

    PYTHONPATH=tools python -m bench.nemesis --kills 500 --cuts 200 --seed 1
    PYTHONPATH=tools python -m bench.nemesis --kind kafka --kills 10 --cuts 4

Needs root for network namespaces and small disks. A run is split into episodes: each is a new
cluster with its own seed. The history of an episode that went wrong is kept. Exit code 1 says that
something was lost, doubled, resurrected or stuck.
"""

import argparse
import math
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.nemesis.episode import Verdict, run_episode
from bench.nemesis.schedule import KILLS, Kind
from bench.peers.percentiles import percentiles
from bench.peers.processes import ended_by_signals
from tests.kit import namespaces
from tests.kit.nodes import KAFKA, LEDGERSTONE

KILLS_AN_EPISODE: Final = 25
SHOWN: Final = 20


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.nemesis", description=__doc__.splitlines()[0])
    parser.add_argument("--kind", choices=(LEDGERSTONE, KAFKA), default=LEDGERSTONE)
    parser.add_argument("--kills", type=int, default=20, help="at least this many kill -9")
    parser.add_argument("--cuts", type=int, default=8, help="at least this many cuts")
    parser.add_argument("--seed", type=int, default=1, help="of the first episode")
    parser.add_argument("--minutes", type=float, help="no further fault after this time")
    parser.add_argument("--keep", type=Path, help="where histories and node logs go")
    parser.add_argument("--only", type=Kind, action="append", default=[], help="kinds of faults")
    return parser.parse_args(arguments)


def episodes(kills: int, cuts: int) -> list[tuple[int, int]]:
    """Kills and cuts of each, together as many as asked for."""
    count = max(1, -(-kills // KILLS_AN_EPISODE))
    return [
        (kills * (n + 1) // count - kills * n // count, cuts * (n + 1) // count - cuts * n // count)
        for n in range(count)
    ]


def main(arguments: Sequence[str]) -> int:
    options = parse(arguments)
    if not namespaces.is_permitted():
        print("needs root, for network namespaces and small disks")
        return 2
    keep = options.keep or Path(tempfile.mkdtemp(prefix="nemesis-"))
    keep.mkdir(parents=True, exist_ok=True)
    verdicts: list[Verdict] = []
    began = time.monotonic()
    deadline_s = math.inf if options.minutes is None else began + options.minutes * 60
    with ended_by_signals():
        try:
            for number, (kills, cuts) in enumerate(episodes(options.kills, options.cuts)):
                if time.monotonic() > deadline_s:
                    break
                seed = options.seed + number
                verdicts.append(_episode(options, seed, kills, cuts, keep, deadline_s))
        except KeyboardInterrupt:
            print("stopped", flush=True)
    print(summary(options.kind, verdicts, time.monotonic() - began))
    return 0 if verdicts and all(each.is_good for each in verdicts) else 1


def _episode(
    options: argparse.Namespace, seed: int, kills: int, cuts: int, keep: Path, deadline_s: float
) -> Verdict:
    work = keep / f"{options.kind}-{seed}"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"[{seed} {time.monotonic() - began:5.0f} s] {text}", flush=True)

    found = run_episode(
        options.kind,
        seed,
        work,
        kills=kills,
        cuts=cuts,
        say=say,
        only=options.only,
        deadline_s=deadline_s,
    )
    for text in found.texts[:SHOWN]:
        say(text)
    say(f"{len(found.texts)} anomalies; {_counts(found.counts)}")
    if found.is_good:
        shutil.rmtree(work, ignore_errors=True)
    else:
        say(f"history and node logs are in {work}")
    return found


def _counts(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))


def summary(kind: str, verdicts: Sequence[Verdict], seconds: float) -> str:
    counts: Counter[str] = Counter()
    anomalies: Counter[str] = Counter()
    faults: Counter[Kind] = Counter()
    for each in verdicts:
        counts += each.counts
        anomalies += each.anomalies
        faults += each.faults
    kills, cuts = sum(each.kills for each in verdicts), sum(each.cuts for each in verdicts)
    seeds = f"{verdicts[0].seed} to {verdicts[-1].seed}" if verdicts else "none"
    lines = [
        f"{kind}, seeds {seeds}, {seconds:.0f} s: {kills} kills, {cuts} cuts,"
        f" {counts['records ok']} acked",
        f"lost {anomalies['lost write']}, duplicates {anomalies['duplicate']},"
        f" resurrected keys {anomalies['resurrected key']},"
        f" other anomalies {_others(anomalies)}",
        f"faults: {', '.join(f'{n} {each.value}' for each, n in faults.most_common())}",
        f"counts: {_counts(counts)}",
    ]
    gaps = [gap / 1000 for each in verdicts for fault, gap in each.gaps_ms if fault in KILLS]
    if gaps:
        found = percentiles(gaps)
        lines.append(
            f"longest time without an ack around a kill:"
            f" p50 {found.p50:.1f} s, p99 {found.p99:.1f} s"
        )
    return "\n".join(lines)


def _others(anomalies: Counter[str]) -> str:
    named = ("lost write", "duplicate", "resurrected key")
    rest = {name: count for name, count in anomalies.items() if name not in named}
    return str(sum(rest.values())) + (f" ({_counts(Counter(rest))})" if rest else "")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
